//! How a refusal looks in HTTP: over JSON-RPC what a gate refuses is an answer with 200, elsewhere it has a status; beside it
//! stands when to come back and what is left.

use serde_json::{Value, json};

use super::ECHO;
use super::gateway::Gateway;
use super::http::{Answer, get, post, request};

const VERSION: (&str, &str) = ("a2a-version", "1.0");

fn message() -> Value {
    json!({"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}})
}

async fn over_jsonrpc(gateway: &Gateway, agent: &str) -> Answer {
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": message()});
    post(&gateway.agent(agent), &[VERSION], &call).await
}

async fn over_rest(gateway: &Gateway, agent: &str) -> Answer {
    post(&format!("{}/message:send", gateway.agent(agent)), &[VERSION], &message()).await
}

fn reason(answer: &Answer) -> String {
    let body = answer.json();
    let details =
        if body["error"]["data"].is_array() { &body["error"]["data"] } else { &body["error"]["details"] };
    details[0]["reason"].as_str().unwrap_or_default().to_owned()
}

fn left(answer: &Answer) -> [&str; 4] {
    ["retry-after", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"]
        .map(|name| answer.headers.get(name).map_or("", |value| value.to_str().expect("it is text")))
}

/// A pool whose only member nobody has ever reached.
const POOL: &str = "[routing]\nbreaker_failures = 1\nbreaker_cooldown_ms = 3600000\n[[agent]]\nname = \"echo\"\nkind = \"a2a\"\n\
                    members = [{ name = \"one\", url = \"http://127.0.0.1:9\" }]\n";

#[tokio::test]
async fn what_a_gate_refuses_is_an_answer_over_jsonrpc_and_has_a_status_elsewhere() {
    let gates = [
        (format!("[budget.caller]\nmax_tasks_per_day = 0\n{ECHO}"), "BUDGET_EXCEEDED", 429),
        (format!("[policy.default]\nallowed_skills = [\"other\"]\n{ECHO}"), "SKILL_NOT_ALLOWED", 403),
        (format!("[policy.default]\noperations = [\"GetTask\"]\n{ECHO}"), "OPERATION_NOT_ALLOWED", 403),
        (format!("{ECHO}[agent.limits]\nmax_payload_bytes = 1\n"), "PAYLOAD_TOO_LARGE", 403),
        (POOL.to_owned(), "NO_PEER_AVAILABLE", 503),
    ];
    for (config, why, status) in gates {
        let envelope = Gateway::start(&config);
        let http = Gateway::start(&format!("[server]\njsonrpc_status = \"http\"\n{config}"));
        for gateway in [&envelope, &http] {
            // It takes a failure until a member is out.
            over_rest(gateway, "echo").await;
            let rest = over_rest(gateway, "echo").await;
            assert_eq!((rest.status, &*reason(&rest)), (status, why), "{rest:?}");
        }
        for (gateway, status) in [(&envelope, 200), (&http, status)] {
            let answer = over_jsonrpc(gateway, "echo").await;
            assert_eq!((answer.status, &*reason(&answer)), (status, why), "{answer:?}");
            assert_eq!(answer.json()["id"], 7, "{answer:?}");
        }
    }
    // The chain of calls.
    let gateway = Gateway::start(ECHO);
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": message()});
    let lineage = [VERSION, ("chancery-lineage", "made.up.token")];
    let answer = post(&gateway.agent("echo"), &lineage, &call).await;
    assert_eq!((answer.status, &*reason(&answer)), (200, "LINEAGE_INVALID"), "{answer:?}");
    // Whoever is cut off.
    gateway.run(&["admin", "contain", "echo", "--reason", "leaks prompts"]);
    let answer = over_jsonrpc(&gateway, "echo").await;
    assert_eq!((answer.status, &*reason(&answer)), (200, "AGENT_CONTAINED"), "{answer:?}");
    let said = answer.json()["error"]["message"].as_str().expect("it says why").to_owned();
    assert!(said.ends_with("agent `echo` is contained: leaks prompts"), "{said}");
}

#[tokio::test]
async fn who_calls_and_how_often_has_the_status_of_http() {
    let stranger = Gateway::start(&format!("[identity]\nallow = [\"caller:alice\"]\n{ECHO}"));
    let answer = over_jsonrpc(&stranger, "echo").await;
    assert_eq!((answer.status, &*reason(&answer)), (403, "CALLER_NOT_ALLOWED"), "{answer:?}");
    let locked = Gateway::start_with_key(ECHO, "alice");
    assert_eq!(over_jsonrpc(&locked, "echo").await.status, 401);
    let hasty = Gateway::start(&format!("[rate.caller]\nper_second = 1\nburst = 1\n{ECHO}"));
    loop {
        let answer = over_jsonrpc(&hasty, "echo").await;
        if answer.status == 429 {
            assert_eq!(
                (&*reason(&answer), left(&answer)),
                ("RATE_LIMITED", ["1", "1", "0", "1"]),
                "{answer:?}"
            );
            break;
        }
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

#[tokio::test]
async fn every_refusal_for_want_of_room_says_how_much_there_is_and_when_to_come_back() {
    let gateway = Gateway::start(&format!("[budget.caller]\nmax_tasks_per_minute = 1\n{ECHO}"));
    assert_eq!(over_rest(&gateway, "echo").await.status, 200);
    let stream = format!("{}/message:stream", gateway.agent("echo"));
    let invoke = format!("{}/invoke", gateway.agent("echo"));
    let old = json!({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": {
        "kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hello"}]}}});
    let said = json!({"jsonrpc": "2.0", "id": 1, "method": "invoke", "params": {"text": "hello"}});
    let answers = [
        over_jsonrpc(&gateway, "echo").await,
        over_rest(&gateway, "echo").await,
        post(&stream, &[VERSION], &message()).await,
        post(&gateway.agent("echo"), &[], &old).await,
        post(&invoke, &[("x-request-id", "r-1")], &said).await,
    ];
    for answer in &answers {
        let [retry, limit, remaining, reset] = left(answer);
        assert_eq!((limit, remaining), ("1", "0"), "{answer:?}");
        let waits: Vec<u64> = [retry, reset].iter().map(|text| text.parse().expect("seconds")).collect();
        assert!(waits.iter().all(|wait| (1..=62).contains(wait)), "{answer:?}");
    }

    // Of concurrency, what is open.
    let config = "[policy.default]\nmax_concurrency = 1\n[[agent]]\nname = \"stream\"\nkind = \"builtin\"\n";
    let gateway = Gateway::start(config);
    let client = super::WIRES[0].connect(&gateway, "stream").await;
    let mut events = client.stream("stream 1000 1000").await.expect("it is the first");
    events.next().await.expect("an event").expect("a good one");
    let answer = over_rest(&gateway, "stream").await;
    assert_eq!((answer.status, left(&answer)), (429, ["1", "1", "0", "1"]), "{answer:?}");
}

#[tokio::test]
async fn who_asks_too_often_for_anything_at_all_is_told_how_often_it_may() {
    let config = format!("[rate.source]\nper_second = 1\nburst = 3\n{ECHO}");
    let gateway = Gateway::start(&config);
    let agent = gateway.agent("echo");
    let paths = [
        format!("{agent}/.well-known/agent-card.json"),
        format!("{agent}/tasks/no-such-task"),
        format!("{agent}/tasks"),
        format!("{agent}/card"),
        format!("{}/.well-known/agent-card.json", gateway.url()),
        format!("{}/agents/echo/healthz", gateway.url()),
    ];
    for path in &paths {
        let refused = loop {
            let answer = get(path, &[VERSION]).await;
            if answer.status == 429 {
                break answer;
            }
        };
        assert_eq!(left(&refused), ["1", "3", "0", "1"], "{path}: {refused:?}");
    }
    // A call of gRPC that is refused is all headers.
    let grpc = [("content-type", "application/grpc"), ("te", "trailers")];
    let path = format!("{}/lf.a2a.v1.A2AService/GetTask", gateway.url());
    let refused = loop {
        let answer = request(http::Method::POST, &path, &grpc, "").await;
        if answer.headers.get("grpc-status").is_some_and(|status| status == "8") {
            break answer;
        }
    };
    assert_eq!(left(&refused), ["1", "3", "0", "1"], "{refused:?}");
}
