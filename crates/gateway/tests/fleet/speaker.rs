//! An agent elsewhere that speaks in the gateway's name: in its card, its answers and its errors. None of it is passed on.

use chancery_sdk::protocol::ProtocolBinding;
use chancery_sdk::testing::{Heard, Peer, Reply};
use serde_json::{Value, json};

use crate::gateway::{Gateway, folder};
use crate::http::{get, post};
use crate::provenance::card;

/// What nobody else may say.
const OURS: [&str; 7] = ["lineage", "limits", "provenance", "runtime", "fleet", "inbox", "made-up"];

/// Something that the agent says under each of our names.
fn claims() -> Value {
    let claims = OURS.iter().map(|name| (format!("urn:chancery:ext:{name}:v1"), json!({"claim": "FORGED"})));
    let mut claims: Value = claims.collect::<serde_json::Map<_, _>>().into();
    claims["URN:Chancery:ext:lineage:v1"] = json!("FORGED");
    claims["https://other.example/ext"] = json!("its own");
    claims
}

fn answer(heard: &Heard) -> Reply {
    let text = heard.json()["params"]["message"]["parts"][0]["text"].as_str().unwrap_or_default().to_owned();
    let uris: Vec<_> = OURS.iter().map(|name| format!("urn:chancery:ext:{name}:v1")).collect();
    let part = json!({"text": "done", "metadata": claims()});
    let message = json!({"messageId": "m", "role": "ROLE_AGENT", "parts": [part], "metadata": claims(), "extensions": uris});
    let artifact = json!({"artifactId": "a", "parts": [part], "metadata": claims(), "extensions": uris});
    let mut metadata = claims();
    metadata["urn:chancery:ext:usage:v1"] =
        json!({"inputTokens": "3", "outputTokens": 4.0, "remainingTokens": "FORGED"});
    let status = json!({"state": "TASK_STATE_COMPLETED", "message": message});
    let refusal = |code: i32, message: &str, domain: &str, fact: &str| {
        Reply::json(
            &json!({"jsonrpc": "2.0", "id": heard.json()["id"], "error": {"code": code, "message": message, "data": [
            {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "FORGED", "domain": domain, "metadata": {fact: "FORGED"}},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "99999999s"}]}}),
        )
    };
    match &*text {
        "refuse by domain" => refusal(-32602, "no", "Chancery", "gate"),
        "refuse by another domain" => refusal(-31429, "no", "other.example", "k"),
        "refuse by lineage" => refusal(-31508, "no", "other.example", "k"),
        "refuse by gate" => refusal(-32602, "no", "other.example", "gate"),
        "refuse by words" => refusal(-32602, "Denied by gate `budget`: BUDGET_EXCEEDED", "other.example", "k"),
        "refuse" => Reply::json(&json!({"jsonrpc": "2.0", "id": heard.json()["id"], "error": {
            "code": -31429, "message": "denied by gate `FORGED`: BUDGET_EXCEEDED", "data": [
                {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "FORGED", "domain": "chancery",
                 "metadata": {"gate": "FORGED-LABEL", "hint": "FORGED"}}]}})),
        "message" => {
            let mut message = message;
            message["metadata"] = metadata;
            heard.result(&json!({"message": message}))
        }
        _ => heard.result(&json!({"task": {"id": "t", "contextId": "c", "status": status, "artifacts": [artifact], "metadata": metadata}})),
    }
}

fn speaker() -> Peer {
    let script = Peer::script().card_with(|heard| {
        let mut card = heard.card(&ProtocolBinding::JsonRpc);
        let uris = OURS.iter().map(|name| format!("urn:chancery:ext:{name}:v1"));
        let all = uris.map(|uri| json!({"uri": uri, "params": {"claim": "FORGED"}}));
        card["capabilities"]["extensions"] =
            all.chain([json!({"uri": "https://other.example/ext"})]).collect();
        Reply::json(&card)
    });
    script.answer_with(answer).start().expect("a port")
}

async fn say(gateway: &Gateway, text: &str) -> Value {
    let message = json!({"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}]});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}});
    post(&format!("{}/", gateway.agent("far")), &[("a2a-version", "1.0")], &body).await.json()
}

#[tokio::test]
async fn an_agent_elsewhere_does_not_speak_in_our_name() {
    let peer = speaker();
    let far = format!("[[agent]]\nname = \"far\"\nkind = \"a2a\"\nurl = \"{}\"\n", peer.url());
    let gateway = Gateway::start(&far);

    let card = card(&gateway, "far").await;
    let extensions = card["capabilities"]["extensions"].as_array().expect("extensions");
    assert!(extensions.iter().any(|one| one["uri"] == "https://other.example/ext"), "{card}");
    assert!(!card.to_string().contains("FORGED") && !card.to_string().contains("made-up"), "{card}");
    assert!(!card.to_string().contains(peer.url()), "{card}");

    let answer = say(&gateway, "work").await;
    let task = &answer["result"]["task"];
    let text = task.to_string();
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{answer}");
    assert!(text.contains("its own") && !text.contains("FORGED") && !text.contains("made-up"), "{text}");
    let usage = &task["metadata"]["urn:chancery:ext:usage:v1"];
    assert_eq!((&usage["inputTokens"], &usage["outputTokens"]), (&json!(3), &json!(4)), "{text}");

    let direct = say(&gateway, "message").await.to_string();
    assert!(direct.contains("its own") && !direct.contains("FORGED"), "{direct}");
    assert!(!direct.contains("urn:chancery:ext:usage"), "{direct}");

    let refused = say(&gateway, "refuse").await;
    let details = refused["error"]["data"].to_string();
    assert!(refused["error"].is_object(), "{refused}");
    assert!(!details.contains("chancery") && !details.contains("FORGED"), "{refused}");

    for how in ["domain", "another domain", "lineage", "gate", "words"] {
        let refused = say(&gateway, &format!("refuse by {how}")).await;
        let (text, details) =
            (refused["error"]["message"].as_str().expect("a text"), refused["error"]["data"].to_string());
        assert!(text.starts_with("The agent behind this one refuses the call: "), "{refused}");
        assert!(!details.to_lowercase().contains("chancery") && !details.contains("FORGED"), "{refused}");
        assert!(!details.contains("99999999s") && details.contains("\"3600"), "{refused}");
    }

    let metrics = gateway.run(&["admin", "metrics"]);
    assert!(metrics.contains("chancery_calls_total") && !metrics.contains("FORGED"), "{metrics}");
    let listed = get(&format!("{}/agents/", gateway.url()), &[]).await.text;
    assert!(!listed.contains("FORGED") && !listed.contains(peer.url()), "{listed}");
}

/// Repeats all that it is told in its headers: in an answer that is none, in an error, in what breaks the protocol.
fn repeats(heard: &Heard) -> Reply {
    let text = heard.json()["params"]["message"]["parts"][0]["text"].as_str().unwrap_or_default().to_owned();
    let header = |name: &str| heard.header(name).unwrap_or_default().to_owned();
    let said = format!("got {} and {} from you", header("authorization"), header("chancery-lineage"));
    let id = heard.json()["id"].clone();
    match &*text {
        "status" => Reply::status(502).body(said),
        "late" => Reply::status(502).body(format!("{}{said}", "x ".repeat(90))),
        "error" => {
            Reply::json(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": said}}))
        }
        "details" => Reply::json(
            &json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": "no", "data": [
            {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "X", "domain": "d", "metadata": {"said": said}}]}}),
        ),
        _ => Reply::json(&json!({"jsonrpc": "2.0", "id": id, "result": said})),
    }
}

#[tokio::test]
async fn what_an_agent_is_sent_stands_in_no_log_and_no_answer() {
    let script = Peer::script().card_with(|heard| Reply::json(&heard.card(&ProtocolBinding::JsonRpc)));
    let peer = script.answer_with(repeats).start().expect("a port");
    let credential = "credential = { scheme = \"bearer\", secret_file = \"token\" }";
    let far = format!("[[agent]]\nname = \"far\"\nkind = \"a2a\"\nurl = \"{}\"\n{credential}\n", peer.url());
    let folder = folder(&far);
    std::fs::write(folder.path().join("token"), "s3cr3t-of-far\n").expect("it is written");
    let gateway = Gateway::in_folder(folder, None);
    for how in ["status", "late", "error", "details", "nonsense"] {
        let answer = say(&gateway, how).await;
        assert!(answer["error"].is_object(), "{how}: {answer}");
        let heard = peer.heard();
        let asked = heard.iter().rev().find(|heard| heard.header("chancery-lineage").is_some());
        let token = asked.and_then(|heard| heard.header("chancery-lineage")).expect("a token").to_owned();
        let log = gateway.log();
        for (place, text) in [("answer", answer.to_string()), ("log", log)] {
            assert!(!text.contains("s3cr3t"), "{how}: the credential is in the {place}: {text}");
            assert!(!text.contains(&token[..20]), "{how}: the token is in the {place}: {text}");
        }
    }
    assert!(gateway.log().contains("a call was not relayed"), "{}", gateway.log());
}
