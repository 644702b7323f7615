//! Agents that come for their tasks: at least once, each time under a lease of its own, over broken streams and restarts.

use std::time::Duration;

use chancery_sdk::egress::{Egress, Web};
use chancery_sdk::protocol::{SendMessageConfiguration, SendMessageRequest, SendMessageResponse};
use chancery_sdk::{Client, Message, Task, TaskState};
use http::HeaderMap;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::gateway::{Gateway, Keys};
use crate::http as http_call;

/// The agent's side: a stream that it reads.
pub(crate) struct Reader {
    lines: BufReader<OwnedReadHalf>,
    _kept_open: OwnedWriteHalf,
}

/// Something out of the inbox.
pub(crate) struct Event {
    pub(crate) id: Option<u64>,
    pub(crate) name: String,
    pub(crate) data: Value,
}

impl Reader {
    pub(crate) async fn open(gateway: &Gateway, key: &str, last: Option<u64>) -> Self {
        let address = gateway.url().strip_prefix("http://").expect("http").to_owned();
        let (read, mut write) = TcpStream::connect(&address).await.expect("it listens").into_split();
        let last = last.map(|last| format!("Last-Event-ID: {last}\r\n")).unwrap_or_default();
        let head = format!(
            "GET /agents/it/inbox/stream HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n{last}\r\n"
        );
        write.write_all(head.as_bytes()).await.expect("it is sent");
        let mut reader = Self { lines: BufReader::new(read), _kept_open: write };
        assert!(reader.line().await.starts_with("HTTP/1.1 200"));
        reader
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line).await.expect("it is read");
        assert!(read > 0, "the stream has ended");
        line.trim_end().to_owned()
    }

    /// The next event. What belongs to the transport stands between the lines.
    pub(crate) async fn next(&mut self) -> Event {
        let (mut id, mut name) = (None, String::new());
        loop {
            let line = self.line().await;
            if let Some(number) = line.strip_prefix("id: ") {
                id = Some(number.parse().expect("a number"));
            } else if let Some(event) = line.strip_prefix("event: ") {
                event.clone_into(&mut name);
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Event { id, name, data: serde_json::from_str(data).expect("JSON") };
            }
        }
    }
}

/// Says something about a task; gives the status of the answer.
pub(crate) async fn post(
    gateway: &Gateway,
    key: &str,
    task: &Value,
    what: &str,
    body: &Value,
) -> (u16, Value) {
    let task = task.as_str().expect("an id");
    let url = format!("{}/agents/it/inbox/tasks/{task}/{what}", gateway.url());
    let mut headers = HeaderMap::new();
    headers.insert("authorization", format!("Bearer {key}").parse().expect("a header"));
    let web = Web::new(&Egress::unrestricted());
    let answer = web.post(url.parse().expect("a URL"), headers, body.to_string().into()).await;
    let answer = answer.expect("an answer");
    let status = answer.status().as_u16();
    let body = answer.whole(1 << 20).await.expect("a body");
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

const CONFIG: &str = "[server]\nanonymous = true\n[[agent]]\nname = \"it\"\nkind = \"inbox\"\n";

fn start(more: &str) -> (Gateway, String) {
    let gateway =
        Gateway::start_with_keys(&format!("{CONFIG}{more}"), &[Keys { caller: "worker", agent: Some("it") }]);
    let key = gateway.keys[0].clone();
    (gateway, key)
}

/// Sends a message and does not wait for what comes of it.
async fn leave(client: &Client, what: &str) -> Task {
    let configuration = SendMessageConfiguration { return_immediately: true, ..Default::default() };
    let request = SendMessageRequest {
        tenant: String::new(),
        message: Message::user(what),
        configuration: Some(configuration),
        metadata: None,
    };
    match client.send(request).await.expect("it is taken") {
        SendMessageResponse::Task(task) => task,
        SendMessageResponse::Message(message) => panic!("no task: {message:?}"),
    }
}

async fn until(client: &Client, task: &Task, state: TaskState) -> Task {
    loop {
        let found = client.get(task.id.clone()).await.expect("it is there");
        if found.status.state == state {
            return found;
        }
        assert!(!found.status.state.is_terminal(), "{:?}", found.status);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_task_waits_for_the_agent_and_what_it_says_is_heard() {
    let (gateway, key) = start("");
    let client = gateway.client("it").await;
    let task = leave(&client, "hello").await;
    assert_eq!(task.status.state, TaskState::Submitted);
    let mut reader = Reader::open(&gateway, &key, None).await;
    let event = reader.next().await;
    assert_eq!(event.name, "task");
    assert_eq!(event.data["message"]["parts"][0]["text"], "hello");
    assert_eq!(
        (event.data["taskId"].as_str(), event.data["lease"].as_u64()),
        (Some(task.id.as_str()), event.id)
    );
    assert!(event.data["lineage"].is_string(), "{}", event.data);
    until(&client, &task, TaskState::Working).await;
    let (id, lease) = (&event.data["taskId"], &event.data["lease"]);
    let artifact = |text: &str| json!({"artifactId": "a", "parts": [{"text": text}]});
    let events = json!({"lease": lease, "events": [
        {"working": "half way"},
        {"artifact": {"artifact": artifact("one "), "append": false}},
        {"artifact": {"artifact": artifact("two"), "append": true, "lastChunk": true}},
        {"usage": {"inputTokens": 3, "outputTokens": 4}},
    ]});
    assert_eq!(post(&gateway, &key, id, "events", &events).await.0, 200);
    let (status, answer) =
        post(&gateway, &key, id, "result", &json!({"lease": lease, "message": "done"})).await;
    assert_eq!((status, &answer["state"]), (200, &json!("TASK_STATE_COMPLETED")));
    let task = client.get(task.id).await.expect("it is there");
    let words: String = task.artifacts[0].parts.iter().filter_map(|part| part.as_text()).collect();
    assert_eq!(words, "one two");
    let shown = serde_json::to_value(&task).expect("JSON");
    let usage = &shown["metadata"]["urn:chancery:ext:usage:v1"];
    assert_eq!((&usage["inputTokens"], &usage["outputTokens"]), (&json!(3), &json!(4)));
    let again = post(&gateway, &key, id, "result", &json!({"lease": lease, "text": "again"})).await;
    assert_eq!(again.0, 409, "it is over");
}

#[tokio::test]
async fn an_agent_that_repeats_its_lineage_token_does_not_tell_it_its_caller() {
    let (gateway, key) = start("");
    let client = gateway.client("it").await;
    let mut reader = Reader::open(&gateway, &key, None).await;
    for in_result in [
        json!({"message": "MINE"}),
        json!({"text": "MINE"}),
        json!({"artifact": {"artifactId": "b",
        "name": "MINE", "parts": [{"data": {"env": ["MINE"]}}]}}),
    ] {
        let task = leave(&client, "hello").await;
        let event = reader.next().await;
        let (id, lease) = (&event.data["taskId"], &event.data["lease"]);
        let token = event.data["lineage"].as_str().expect("a token");
        let told = |mut body: Value| -> Value {
            body["lease"] = lease.clone();
            serde_json::from_str(&body.to_string().replace("MINE", &format!("it is {token}."))).expect("JSON")
        };
        let artifact = json!({"artifactId": "a", "parts": [{"text": "MINE"}], "metadata": {"MINE": "MINE"}});
        let events = told(json!({"events": [{"working": "MINE"}, {"artifact": {"artifact": artifact}}]}));
        assert!(events.to_string().contains(token));
        assert_eq!(post(&gateway, &key, id, "events", &events).await.0, 200);
        let working = loop {
            let task = client.get(task.id.clone()).await.expect("it is there");
            if !task.artifacts.is_empty() {
                break task;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        assert_eq!(post(&gateway, &key, id, "result", &told(in_result)).await.0, 200);
        let done = client.get(task.id).await.expect("it is there");
        for shown in [working, done] {
            let shown = serde_json::to_string(&shown).expect("JSON");
            assert!(!shown.contains(token) && shown.contains("it is [lineage token]."), "{shown}");
        }
    }
}

#[tokio::test]
async fn a_token_that_comes_in_pieces_is_told_nobody_and_nothing_else_is_lost() {
    let (mut gateway, key) = start("");
    let client = gateway.client("it").await;
    let task = leave(&client, "hello").await;
    let mut reader = Reader::open(&gateway, &key, None).await;
    let event = reader.next().await;
    let token = event.data["lineage"].as_str().expect("a token").to_owned();
    let (one, two) = token.split_at(token.len() / 2);
    let piece = |id: &str, text: &str, append: bool| json!({"artifact": {"artifact": {"artifactId": id, "parts": [{"text": text}]}, "append": append}});
    let told = |event: &Event, events: Vec<Value>| json!({"lease": event.id, "events": events});
    let id = &event.data["taskId"];
    for events in [
        vec![piece("a", &format!("it is {one}"), false), piece("a", two, true)],
        vec![
            piece("a", ". ", true),
            piece("a", one, true),
            piece("a", &two[..3], true),
            piece("a", &two[3..], true),
        ],
        // The beginning of one, and no more of it; then another artifact, and what begins like a token at its end.
        vec![piece("a", &token[..4], true), piece("b", &token[..5], false)],
    ] {
        assert_eq!(post(&gateway, &key, id, "events", &told(&event, events)).await.0, 200);
    }
    while client.get(task.id.clone()).await.expect("it is there").artifacts.len() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    gateway.restart();
    let client = gateway.client("it").await;
    let event = Reader::open(&gateway, &key, None).await.next().await;
    let rest = told(&event, vec![piece("b", " rest", true)]);
    assert_eq!(post(&gateway, &key, id, "events", &rest).await.0, 200);
    assert_eq!(post(&gateway, &key, id, "result", &json!({"lease": event.id})).await.0, 200);
    let task = until(&client, &task, TaskState::Completed).await;
    let words = |place: usize| -> String {
        task.artifacts[place].parts.iter().filter_map(|part| part.as_text()).collect()
    };
    assert_eq!(words(0), format!("it is [lineage token]. [lineage token]{}", &token[..4]));
    assert_eq!(words(1), format!("{} rest", &token[..5]));
}

#[tokio::test]
async fn a_task_whose_lease_ends_is_given_out_again_and_late_words_are_refused() {
    let (gateway, key) = start("inbox = { lease_ms = 200 }\n");
    let client = gateway.client("it").await;
    let task = leave(&client, "hello").await;
    let mut reader = Reader::open(&gateway, &key, None).await;
    let (first, second) = (reader.next().await, reader.next().await);
    assert_eq!(first.data["taskId"], second.data["taskId"]);
    assert!(second.id > first.id);
    let late = json!({"lease": first.id, "text": "late"});
    assert_eq!(post(&gateway, &key, &first.data["taskId"], "result", &late).await.0, 409);
    assert_eq!(post(&gateway, &key, &first.data["taskId"], "events", &late_events(&first)).await.0, 409);
    // The second may have ended by now, too.
    let mut lease = second.id;
    loop {
        let result = json!({"lease": lease, "text": "in time"});
        if post(&gateway, &key, &first.data["taskId"], "result", &result).await.0 == 200 {
            break;
        }
        lease = reader.next().await.id;
    }
    let task = until(&client, &task, TaskState::Completed).await;
    assert_eq!(task.artifacts[0].parts[0].as_text(), Some("in time"));
}

fn late_events(event: &Event) -> Value {
    json!({"lease": event.id, "events": [{"working": "late"}]})
}

#[tokio::test]
async fn a_stream_is_resumed_after_what_was_seen() {
    let (gateway, key) = start("");
    let client = gateway.client("it").await;
    let mut reader = Reader::open(&gateway, &key, None).await;
    let tasks = [leave(&client, "one").await, leave(&client, "two").await];
    let (first, second) = (reader.next().await, reader.next().await);
    drop(reader);
    let mut reader = Reader::open(&gateway, &key, first.id).await;
    let again = reader.next().await;
    assert_eq!((again.id, &again.data["taskId"]), (second.id, &second.data["taskId"]));
    for event in [&first, &second] {
        let result = json!({"lease": event.id, "text": "done"});
        assert_eq!(post(&gateway, &key, &event.data["taskId"], "result", &result).await.0, 200);
    }
    for task in &tasks {
        until(&client, task, TaskState::Completed).await;
    }
}

#[tokio::test]
async fn tasks_survive_a_gateway_that_is_killed_and_old_leases_do_not() {
    let (mut gateway, key) = start("");
    let client = gateway.client("it").await;
    let waiting = leave(&client, "waiting").await;
    let mut reader = Reader::open(&gateway, &key, None).await;
    let taken = reader.next().await;
    until(&client, &waiting, TaskState::Working).await;
    let other = leave(&client, "other").await;
    gateway.restart();
    let client = gateway.client("it").await;
    let late = json!({"lease": taken.id, "text": "late"});
    assert_eq!(post(&gateway, &key, &taken.data["taskId"], "result", &late).await.0, 409);
    let mut reader = Reader::open(&gateway, &key, taken.id).await;
    for _ in 0..2 {
        let event = reader.next().await;
        assert!(event.id > taken.id);
        let text = event.data["message"]["parts"][0]["text"].as_str().expect("a text").to_uppercase();
        let result = json!({"lease": event.id, "text": text});
        assert_eq!(post(&gateway, &key, &event.data["taskId"], "result", &result).await.0, 200);
    }
    for (task, text) in [(&waiting, "WAITING"), (&other, "OTHER")] {
        let task = until(&client, task, TaskState::Completed).await;
        assert_eq!(task.artifacts[0].parts[0].as_text(), Some(text));
    }
}

#[tokio::test]
async fn an_agent_is_told_of_a_task_that_was_canceled() {
    let (gateway, key) = start("");
    let client = gateway.client("it").await;
    let task = leave(&client, "hello").await;
    let mut reader = Reader::open(&gateway, &key, None).await;
    let event = reader.next().await;
    client.cancel(task.id.clone()).await.expect("it is canceled");
    let withdrawn = reader.next().await;
    assert_eq!((withdrawn.name.as_str(), &withdrawn.data["taskId"]), ("withdrawn", &event.data["taskId"]));
    let result = json!({"lease": event.id, "text": "too late"});
    assert_eq!(post(&gateway, &key, &event.data["taskId"], "result", &result).await.0, 409);
}

#[tokio::test]
async fn only_so_many_wait_and_only_so_long() {
    let (gateway, _) = start("inbox = { max_tasks = 1 }\n");
    let client = gateway.client("it").await;
    let tasks = [leave(&client, "one").await, leave(&client, "two").await];
    // Whichever came second.
    let mut states = [TaskState::Submitted; 2];
    while !states.contains(&TaskState::Rejected) {
        for (task, state) in tasks.iter().zip(&mut states) {
            *state = client.get(task.id.clone()).await.expect("it is there").status.state;
        }
    }
    assert!(states.contains(&TaskState::Submitted), "{states:?}");
    let (gateway, _) = start("inbox = { max_wait_ms = 100 }\n");
    let client = gateway.client("it").await;
    let task = leave(&client, "one").await;
    until(&client, &task, TaskState::Failed).await;
}

#[tokio::test]
async fn nobody_else_reads_an_inbox_and_the_card_says_where_it_is() {
    let keys = [Keys { caller: "worker", agent: Some("it") }, Keys { caller: "alice", agent: None }];
    let gateway = Gateway::start_with_keys(CONFIG, &keys);
    for key in [gateway.keys[1].as_str(), "chk_made-up"] {
        let (status, _) = post(&gateway, key, &json!("x"), "events", &json!({"lease": 1})).await;
        assert!(matches!(status, 401 | 403), "{status}");
    }
    let (status, _) = post(&gateway, &gateway.keys[0], &json!("x"), "events", &json!({"lease": 1})).await;
    assert_eq!(status, 409);
    let (status, _) = post(
        &gateway,
        &gateway.keys[0],
        &json!("x"),
        "result",
        &json!({"lease": 1, "state": "TASK_STATE_WORKING"}),
    )
    .await;
    assert_eq!(status, 400);
    let card = gateway.client("it").await.card().await.expect("a card");
    let card = serde_json::to_value(&*card).expect("JSON");
    let extensions = card["capabilities"]["extensions"].as_array().expect("extensions");
    let inbox = extensions.iter().find(|extension| extension["uri"] == "urn:chancery:ext:inbox:v1");
    assert_eq!(inbox.expect("it is stated")["params"]["sse_path"], "/agents/it/inbox/stream");
}

#[tokio::test]
async fn an_inbox_is_gone_with_its_agent_and_whoever_reads_is_told_so() {
    let echo = "[[agent]]\nname = \"echo\"\nkind = \"builtin\"\n";
    let (gateway, key) = start(echo);
    let mut reader = Reader::open(&gateway, &key, None).await;
    gateway.configure(&format!("[server]\nanonymous = true\n{echo}"));
    let mut line = String::new();
    while reader.lines.read_line(&mut line).await.expect("it is read") > 0 {}
    assert!(line.ends_with("0\r\n\r\n"), "the stream ends as it should: {line}");
    let answer = Web::new(&Egress::unrestricted())
        .get(format!("{}/agents/it/inbox/stream", gateway.url()).parse().expect("a URL"), HeaderMap::new())
        .await;
    assert_eq!(answer.expect("an answer").status().as_u16(), 404);
    // Another of that name has an inbox again.
    gateway.configure(&format!("{CONFIG}{echo}"));
    let client = loop {
        let url = format!("{}/agents/it", gateway.url());
        match Client::builder().retries(0).connect(&url).await {
            Ok(client) => break client,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    let task = leave(&client, "hello again").await;
    let mut reader = Reader::open(&gateway, &key, None).await;
    assert_eq!(reader.next().await.data["taskId"], json!(task.id));
}

/// One more key, once the gateway knows it.
async fn another(gateway: &Gateway, whose: &[&str]) -> String {
    let key = gateway.run(&[&["key", "create"], whose].concat()).trim().to_owned();
    while post(gateway, &key, &json!("x"), "events", &json!({"lease": 1})).await.0 == 401 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    key
}

#[tokio::test]
async fn a_lease_belongs_to_the_key_that_took_it() {
    let (gateway, key) = start("");
    let other = another(&gateway, &["--caller", "worker", "--agent", "it"]).await;
    let client = gateway.client("it").await;
    let first = leave(&client, "one").await;
    let mut reader = Reader::open(&gateway, &key, None).await;
    let taken = reader.next().await;
    drop(reader);
    let (id, done) = (&taken.data["taskId"], json!({"lease": taken.id, "text": "done"}));
    assert_eq!(post(&gateway, &other, id, "events", &late_events(&taken)).await.0, 409);
    assert_eq!(post(&gateway, &other, id, "result", &done).await.0, 409);
    // Nor is it sent again to whoever says to have missed it.
    let second = leave(&client, "two").await;
    let mut reader = Reader::open(&gateway, &other, Some(0)).await;
    assert_eq!(reader.next().await.data["taskId"], json!(second.id));
    assert_eq!(post(&gateway, &key, id, "result", &done).await.0, 200);
    until(&client, &first, TaskState::Completed).await;
}

#[tokio::test]
async fn an_inbox_gives_nothing_of_one_realm_to_another() {
    let (gateway, key) = start("");
    let elsewhere = another(&gateway, &["--caller", "worker", "--agent", "it", "--realm", "acme"]).await;
    let mut abroad = Reader::open(&gateway, &elsewhere, None).await;
    let task = leave(&gateway.client("it").await, "hello").await;
    let mut reader = Reader::open(&gateway, &key, None).await;
    let taken = tokio::time::timeout(Duration::from_secs(30), reader.next()).await;
    let taken = taken.expect("it comes to who may have it");
    assert_eq!(taken.data["taskId"], json!(task.id));
    let done = json!({"lease": taken.id, "text": "done"});
    assert_eq!(post(&gateway, &elsewhere, &taken.data["taskId"], "result", &done).await.0, 409);
    let of_acme = another(&gateway, &["--caller", "alice", "--realm", "acme"]).await;
    let headers = [("authorization", &*format!("Bearer {of_acme}")), ("a2a-version", "1.0")];
    let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "of acme"}]});
    let params = json!({"message": message, "configuration": {"returnImmediately": true}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params});
    let sent = http_call::post(&format!("{}/agents/it/", gateway.url()), &headers, &body).await.json();
    assert_eq!(abroad.next().await.data["taskId"], sent["result"]["task"]["id"], "{sent}");
}

#[tokio::test]
async fn an_inbox_is_closed_to_an_agent_that_is_on_no_list() {
    let (gateway, key) = start("[identity]\nallow = [\"caller:somebody\"]\n");
    let (status, answer) = post(&gateway, &key, &json!("x"), "events", &json!({"lease": 1})).await;
    assert!(status == 403 && answer.to_string().contains("CALLER_NOT_ALLOWED"), "{status} {answer}");
    let headers = [("authorization", &*format!("Bearer {key}"))];
    let answer = http_call::get(&format!("{}/agents/it/inbox/stream", gateway.url()), &headers).await;
    assert_eq!(answer.status, 403, "{answer:?}");
}
