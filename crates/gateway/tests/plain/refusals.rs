//! Everything that the profile refuses, with its code.

use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::http::{get, post};
use crate::{ECHO, STREAM, invoke, refused, saying, with};

const INVALID: &str = "VALIDATION_ERROR";

#[tokio::test]
async fn a_request_without_an_id_is_refused_and_so_is_a_bad_one() {
    let gateway = Gateway::start(ECHO);
    for path in ["invoke", "invoke/stream", "negotiate"] {
        for base in [gateway.agent("echo"), gateway.url().to_owned()] {
            let url = format!("{base}/{path}");
            refused(&post(&url, &[], &saying("x")).await, 400, -32602, INVALID, "MISSING_REQUEST_ID");
            let twice = [("x-request-id", "a"), ("x-request-id", "b")];
            refused(&post(&url, &twice, &saying("x")).await, 400, -32602, INVALID, "BAD_REQUEST_ID");
            let long = "x".repeat(129);
            let bad = post(&url, &[("x-request-id", &long)], &saying("x")).await;
            refused(&bad, 400, -32602, INVALID, "BAD_REQUEST_ID");
            assert!(!bad.headers.contains_key("x-request-id"));
        }
    }
}

#[tokio::test]
async fn bodies_that_do_not_fit_their_schema_are_refused_with_what_is_wrong() {
    let gateway = Gateway::start(ECHO);
    let url = format!("{}/invoke", gateway.agent("echo"));
    let wrong = [
        (json!({"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": {"text": "x"}}), "method"),
        (json!({"jsonrpc": "2.0", "id": 7, "method": "invoke"}), "params"),
        (with(&json!({"text": 1})), "params.text"),
        (with(&json!({"texts": "x"})), "params.texts"),
        (with(&json!({"text": "x", "timeoutMs": 0})), "params.timeoutMs"),
    ];
    for (body, field) in wrong {
        let answer = invoke(&url, &[], &body).await;
        refused(&answer, 400, -32602, INVALID, "SCHEMA");
        let told = answer.json();
        assert_eq!(told["id"], 7, "{told}");
        assert_eq!(told["error"]["data"]["fields"][0]["path"], field, "{told}");
    }
    for params in [json!({}), json!({"text": "x", "parts": [{"text": "y"}]}), json!({"parts": [{}]})] {
        refused(&invoke(&url, &[], &with(&params)).await, 400, -32602, INVALID, "SCHEMA");
    }
    let negotiate = format!("{}/negotiate", gateway.agent("echo"));
    refused(&invoke(&negotiate, &[], &json!({"budget": 1})).await, 400, -32602, INVALID, "SCHEMA");
    let plain = invoke(&url, &[], &Value::from("text")).await;
    refused(&plain, 400, -32602, INVALID, "SCHEMA");
    let other = [("content-type", "text/plain"), ("x-request-id", "1")];
    let answer = crate::http::request(::http::Method::POST, &url, &other, "hello").await;
    assert_eq!(answer.json()["error"]["data"]["reason"], "CONTENT_TYPE", "{answer:?}");
    let json = [("x-request-id", "2")];
    let answer = crate::http::request(::http::Method::POST, &url, &json, "{").await;
    refused(&answer, 400, -32602, INVALID, "NOT_JSON");
}

#[tokio::test]
async fn only_what_is_posted_is_taken() {
    let gateway = Gateway::start(ECHO);
    let answer = get(&format!("{}/invoke", gateway.agent("echo")), &[]).await;
    refused(&answer, 405, -32602, INVALID, "METHOD_NOT_ALLOWED");
    assert_eq!(answer.headers["allow"], "POST");
}

#[tokio::test]
async fn what_is_too_much_for_the_agent_is_refused_on_this_wire_and_on_others() {
    let limits = "limits = { max_input_tokens = 10, max_payload_bytes = 100 }\n";
    let gateway = Gateway::start(&format!("{ECHO}{limits}{STREAM}"));
    let url = format!("{}/invoke", gateway.agent("echo"));
    assert_eq!(invoke(&url, &[], &saying(&"x".repeat(40))).await.status, 200);
    let answer = invoke(&url, &[], &saying(&"x".repeat(41))).await;
    refused(&answer, 413, -32602, INVALID, "INPUT_TOKENS_EXCEEDED");
    assert_eq!(answer.json()["error"]["data"]["limit"], "10 tokens");
    refused(&invoke(&url, &[], &saying(&"x".repeat(101))).await, 413, -32602, INVALID, "PAYLOAD_TOO_LARGE");
    let message =
        json!({"message": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "x".repeat(41)}]}});
    let sent =
        post(&format!("{}/message:send", gateway.agent("echo")), &[("a2a-version", "1.0")], &message).await;
    assert_eq!(sent.status, 403, "{sent:?}");
    assert!(sent.text.contains("INPUT_TOKENS_EXCEEDED"), "{sent:?}");
    let large = saying(&"x".repeat(1 << 20));
    let answer = invoke(&format!("{}/invoke", gateway.agent("stream")), &[], &large).await;
    refused(&answer, 413, -32602, INVALID, "PAYLOAD_TOO_LARGE");
}

#[tokio::test]
async fn a_budget_may_lower_what_is_spent_and_not_below_what_the_call_costs() {
    let gateway = Gateway::start(&format!("{ECHO}price = {{ per_call = 0.02 }}\n"));
    let url = format!("{}/invoke", gateway.agent("echo"));
    let with_budget = |usd: &'static str| {
        let url = url.clone();
        async move { invoke(&url, &[("x-budget-usd", usd)], &saying("x")).await }
    };
    assert_eq!(with_budget("0.02").await.status, 200);
    let answer = with_budget("0.01").await;
    refused(&answer, 429, -32001, "BUDGET_EXCEEDED", "BUDGET_EXCEEDED");
    assert_eq!(answer.json()["error"]["data"]["gate"], "budget");
    let answer = with_budget("much").await;
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (400, &(-32602).into()), "{answer:?}");
    let stream = invoke(&format!("{url}/stream"), &[("x-budget-usd", "0.01")], &saying("x")).await;
    refused(&stream, 429, -32001, "BUDGET_EXCEEDED", "BUDGET_EXCEEDED");
}

#[tokio::test]
async fn who_asks_too_often_is_told_in_the_words_of_the_profile() {
    for whose in ["caller", "source"] {
        let gateway = Gateway::start(&format!("[rate.{whose}]\nper_second = 1\nburst = 1\n{ECHO}"));
        let url = format!("{}/invoke", gateway.agent("echo"));
        let answers = futures_util::future::join_all((0..20).map(|place| {
            let (url, id) = (&url, format!("id-{place}"));
            async move { post(url, &[("x-request-id", &id)], &saying("x")).await }
        }));
        let answers = answers.await;
        let late = answers.iter().position(|answer| answer.status == 429).expect("one comes too often");
        refused(&answers[late], 429, -32003, "RATE_LIMITED", "RATE_LIMITED");
        let headers = &answers[late].headers;
        assert!(headers.contains_key("retry-after"), "{headers:?}");
        assert_eq!(headers["x-request-id"], format!("id-{late}"));
    }
}

#[tokio::test]
async fn what_takes_too_long_times_out() {
    let gateway = Gateway::start(STREAM);
    let url = format!("{}/invoke", gateway.agent("stream"));
    let slow = with(&json!({"text": "stream 1000 1000", "timeoutMs": 200}));
    let answer = invoke(&url, &[], &slow).await;
    refused(&answer, 504, -32002, "TIMEOUT", "TIMEOUT");
    let streamed = invoke(&format!("{url}/stream"), &[], &slow).await;
    assert_eq!(streamed.status, 200);
    let last = streamed.text.trim_end().rsplit("\n\n").next().expect("a frame").to_owned();
    assert!(last.starts_with("event: error\n") && last.contains("-32002"), "{last}");
    let gateway = Gateway::start(&format!("[policy.default]\nmax_duration_ms = 200\n{STREAM}"));
    let url = format!("{}/invoke", gateway.agent("stream"));
    let answer = invoke(&url, &[], &saying("stream 1000 1000")).await;
    refused(&answer, 504, -32002, "TIMEOUT", "TIMEOUT");
    assert!(
        answer.json()["error"]["data"]["detail"]
            .as_str()
            .is_some_and(|text| text.starts_with("PolicyTimeout"))
    );
}

#[tokio::test]
async fn an_agent_that_is_not_there_is_unavailable() {
    let gateway = Gateway::start("[[agent]]\nname = \"far\"\nkind = \"a2a\"\nurl = \"http://127.0.0.1:9\"\n");
    let answer = invoke(&format!("{}/invoke", gateway.agent("far")), &[], &saying("x")).await;
    let told = answer.json();
    assert_eq!((answer.status, &told["error"]["code"]), (503, &(-32000).into()), "{told}");
    assert_eq!(told["error"]["message"], "AGENT_UNAVAILABLE");
}

#[tokio::test]
async fn who_calls_must_be_who_it_says() {
    let gateway = Gateway::start_with_key(ECHO, "alice");
    let url = format!("{}/invoke", gateway.agent("echo"));
    let answer = invoke(&url, &[], &saying("x")).await;
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (401, &(-31401).into()), "{answer:?}");
    assert!(answer.headers.contains_key("www-authenticate"));
    let bearer = format!("Bearer {}", gateway.key.as_deref().expect("a key"));
    let alice = ("authorization", bearer.as_str());
    assert_eq!(invoke(&url, &[alice, ("x-agent-id", "alice")], &saying("x")).await.status, 200);
    let answer = invoke(&url, &[alice, ("x-agent-id", "bob")], &saying("x")).await;
    refused(&answer, 400, -32602, INVALID, "AGENT_ID_MISMATCH");
}

#[tokio::test]
async fn policy_and_internal_agents_hold_here_too() {
    let policy = "[policy.default]\noperations = [\"GetTask\"]\nagents = [\"echo\"]\n";
    let gateway = Gateway::start(&format!("{policy}{ECHO}{STREAM}exposed = false\n"));
    let answer = invoke(&format!("{}/invoke", gateway.agent("echo")), &[], &saying("x")).await;
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (403, &(-31403).into()), "{answer:?}");
    let id = [("x-request-id", "one")];
    for path in ["invoke", "invoke/stream", "negotiate"] {
        let internal = post(&format!("{}/{path}", gateway.agent("stream")), &id, &saying("x")).await;
        let nobody = post(&format!("{}/{path}", gateway.agent("nobody")), &id, &saying("x")).await;
        assert_eq!(internal.looks(), nobody.looks());
    }
}
