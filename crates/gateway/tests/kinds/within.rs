//! What an agent may do with what it is given for one call: a program its token, an agent elsewhere without a key its lineage.

use std::path::Path;

use serde_json::{Value, json};

use crate::command::open_to_all;
use crate::gateway::{Gateway, Keys};
use crate::http::{Answer, get, post};

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

/// What was given for one call.
struct Given {
    token: String,
    lineage: String,
}

/// Somebody, by the headers that are sent.
#[derive(Clone)]
struct Who(Vec<(&'static str, String)>);

impl Who {
    fn key(key: &str) -> Self {
        Self(vec![("authorization", format!("Bearer {key}"))])
    }

    fn outsider() -> Self {
        Self(Vec::new())
    }

    async fn ask(&self, gateway: &Gateway, agent: &str, method: &str, params: &Value) -> Answer {
        let mut headers: Vec<_> = self.0.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.push(("a2a-version", "1.0"));
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        post(&format!("{}/agents/{agent}/", gateway.url()), &headers, &body).await
    }

    async fn send(&self, gateway: &Gateway, agent: &str, text: &str) -> String {
        let answer = self.ask(gateway, agent, "SendMessage", &message(text)).await;
        let body = answer.json();
        body["result"]["task"]["id"].as_str().unwrap_or_else(|| panic!("no task: {answer:?}")).to_owned()
    }

    async fn list(&self, gateway: &Gateway, agent: &str) -> Vec<String> {
        let answer = self.ask(gateway, agent, "ListTasks", &json!({})).await.json();
        let tasks = answer["result"]["tasks"].as_array().cloned().unwrap_or_default();
        tasks.iter().map(|task| task["id"].as_str().expect("an id").to_owned()).collect()
    }

    /// The reason or the words of the refusal; nothing if there was none.
    async fn refusal(&self, gateway: &Gateway, agent: &str, method: &str, params: &Value) -> Option<String> {
        let answer = self.ask(gateway, agent, method, params).await;
        let body = answer.json();
        (!body["error"].is_null() || answer.status >= 400).then_some(answer.text)
    }
}

/// A folder that the program may write to, whoever it runs as.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    open_to_all(folder.path());
    folder
}

fn message(text: &str) -> Value {
    json!({"message": {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}]},
        "configuration": {"returnImmediately": text.starts_with("leave")}})
}

/// An agent `it` that writes down what it was given and works until it is told to stop; one that echoes, one that never ends.
fn config(folder: &Path, more: &str) -> String {
    let script = format!(
        "cd {folder:?}; read -r name; echo \"$CHANCERY_TOKEN $CHANCERY_LINEAGE\" > $name.new; mv $name.new $name; while [ ! -e done-$name ]; do sleep 0.05; done"
    );
    let script = Value::from(script);
    format!(
        "[server]\nanonymous = true\n{more}\n[[agent]]\nname = \"it\"\nkind = \"command\"\n[agent.command]\nrun = [\"/bin/sh\", \"-c\", {script}]\nnetwork = \"host\"\nwrite = [{folder:?}]\n\
         [[agent]]\nname = \"echo\"\nkind = \"builtin\"\n\
         [[agent]]\nname = \"sleeper\"\nkind = \"command\"\n[agent.command]\nrun = [\"/bin/sh\", \"-c\", \"sleep 600\"]\n"
    )
}

fn start(folder: &Path, more: &str) -> (Gateway, Who, Who) {
    let keys = [Keys { caller: "alice", agent: None }, Keys { caller: "bob", agent: None }];
    let gateway = Gateway::start_with_keys(&config(folder, more), &keys);
    let (alice, bob) = (Who::key(&gateway.keys[0]), Who::key(&gateway.keys[1]));
    (gateway, alice, bob)
}

/// Has somebody call `it`, and gives what that was given.
async fn called_by(gateway: &Gateway, folder: &Path, who: &Who, name: &str) -> (String, Given) {
    let params = json!({"message": {"messageId": name, "role": "ROLE_USER", "parts": [{"text": format!("{name}\n")}]},
        "configuration": {"returnImmediately": true}});
    let sent = who.ask(gateway, "it", "SendMessage", &params).await;
    let task = sent.json()["result"]["task"]["id"].as_str().unwrap_or_else(|| panic!("{sent:?}")).to_owned();
    let file = folder.join(name);
    let written = tokio::time::timeout(PATIENCE, async {
        while !file.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    });
    if written.await.is_err() {
        panic!(
            "the program is not told: {:?}",
            who.ask(gateway, "it", "GetTask", &json!({"id": task})).await
        );
    }
    let text = std::fs::read_to_string(file).expect("it is text");
    let (token, lineage) = text.trim().split_once(' ').expect("both are given");
    (task, Given { token: token.to_owned(), lineage: lineage.to_owned() })
}

/// Ends the work of `it`.
async fn end(gateway: &Gateway, folder: &Path, who: &Who, name: &str, task: &str) {
    std::fs::write(folder.join(format!("done-{name}")), "").expect("it is written");
    let over = tokio::time::timeout(PATIENCE, async {
        loop {
            let state = who.ask(gateway, "it", "GetTask", &json!({"id": task})).await.json();
            if state["result"]["status"]["state"] == "TASK_STATE_COMPLETED" {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    });
    over.await.expect("it ends");
}

/// How what was given can be shown: as a token, and as the lineage of somebody who has proven nothing else.
fn ways(given: &Given) -> [(&'static str, Who); 2] {
    [("token", Who::key(&given.token)), ("lineage", Who(vec![("chancery-lineage", given.lineage.clone())]))]
}

/// Whoever has this reaches none of the tasks of whoever called it: one that is over, one that runs, and the call itself.
async fn nothing_of(gateway: &Gateway, (way, agent): (&str, &Who), old: &str, open: &str, task: &str) {
    for (method, at, params) in [
        ("GetTask", "echo", json!({"id": old})),
        ("GetTask", "it", json!({"id": task})),
        ("SubscribeToTask", "sleeper", json!({"id": open})),
        ("CancelTask", "sleeper", json!({"id": open})),
        ("CancelTask", "it", json!({"id": task})),
        (
            "CreateTaskPushNotificationConfig",
            "sleeper",
            json!({"taskId": open, "url": "https://example.com/"}),
        ),
        ("ListTaskPushNotificationConfigs", "sleeper", json!({"taskId": open})),
        ("GetExtendedAgentCard", "echo", json!({})),
    ] {
        let refused = agent.refusal(gateway, at, method, &params).await;
        assert!(refused.is_some(), "{way}: {method} at {at}");
    }
}

#[tokio::test]
async fn an_agent_sees_and_cancels_what_it_began_for_a_call_and_nothing_of_its_callers() {
    let folder = folder();
    let (gateway, alice, bob) = start(folder.path(), "");
    let old = alice.send(&gateway, "echo", "alice's own").await;
    let open = alice.send(&gateway, "sleeper", "leave alice's").await;
    let (task, given) = called_by(&gateway, folder.path(), &alice, "one").await;
    let others = [("alice", &alice), ("bob", &bob), ("an outsider", &Who::outsider())];
    let mut begun = Vec::new();
    for (way, agent) in ways(&given) {
        // Nothing of whoever called it.
        assert_eq!(agent.list(&gateway, "echo").await, begun, "{way}");
        nothing_of(&gateway, (way, &agent), &old, &open, &task).await;
        let mut more = message("more");
        more["message"]["taskId"] = json!(open);
        let refused = agent.refusal(&gateway, "sleeper", "SendMessage", &more).await;
        assert!(refused.is_some_and(|why| why.contains("TASK_NOT_FOUND")), "{way}");

        // All of what it begins.
        let done = agent.send(&gateway, "echo", &format!("sub {way}")).await;
        begun.insert(0, done.clone());
        assert_eq!(agent.list(&gateway, "echo").await, begun, "{way}");
        let left = agent.send(&gateway, "sleeper", &format!("leave {way}")).await;
        for (name, other) in &others {
            for id in [&done, &left] {
                let at = if id == &done { "echo" } else { "sleeper" };
                assert!(!other.list(&gateway, at).await.contains(id), "{way}: {name}");
                let params = json!({"id": id});
                for method in ["GetTask", "CancelTask"] {
                    let refused = other.refusal(&gateway, at, method, &params).await;
                    assert!(
                        refused.is_some_and(|why| why.contains("TASK_NOT_FOUND")),
                        "{way}: {name}, {method}"
                    );
                }
            }
        }
        let canceled = agent.ask(&gateway, "sleeper", "CancelTask", &json!({"id": left})).await.json();
        assert_eq!(canceled["result"]["status"]["state"], "TASK_STATE_CANCELED", "{way}: {canceled}");

        // Nothing that would go on without it.
        let mut told = message("told");
        told["configuration"]["taskPushNotificationConfig"] = json!({"url": "https://example.com/"});
        let refused = agent.refusal(&gateway, "echo", "SendMessage", &told).await;
        assert!(refused.is_some_and(|why| why.contains("OUTSIDE_OF_CALL")), "{way}");
    }
    end(&gateway, folder.path(), &alice, "one", &task).await;
    for (way, agent) in ways(&given) {
        assert!(agent.list(&gateway, "echo").await.is_empty(), "{way}");
        let refused = agent.refusal(&gateway, "echo", "SendMessage", &message("late")).await;
        assert!(refused.is_some(), "{way}: the call has ended");
    }
    // The records say who really called, and who paid.
    let records = gateway.run(&["spend", "export"]);
    let by_it: Vec<_> = records.lines().filter(|row| row.contains("call:")).collect();
    assert_eq!(by_it.len(), 4, "{records}");
    for row in by_it {
        assert!(row.contains("/it,") && row.contains(",alice,"), "{row}\n{records}");
    }
}

#[tokio::test]
async fn calls_for_different_callers_do_not_join_by_their_keys() {
    let folder = folder();
    let (gateway, alice, bob) = start(folder.path(), "");
    let (_, for_alice) = called_by(&gateway, folder.path(), &alice, "one").await;
    let (_, for_bob) = called_by(&gateway, folder.path(), &bob, "two").await;
    for ((way, mut one), (_, mut other)) in ways(&for_alice).into_iter().zip(ways(&for_bob)) {
        one.0.push(("idempotency-key", format!("same {way}")));
        other.0.push(("idempotency-key", format!("same {way}")));
        let first = one.send(&gateway, "echo", way).await;
        assert_eq!(one.send(&gateway, "echo", way).await, first, "{way}");
        assert_ne!(other.send(&gateway, "echo", way).await, first, "{way}");
    }
}

#[tokio::test]
async fn an_agent_is_judged_and_counted_as_whom_it_works_for() {
    let folder = folder();
    let more = "[rate.caller]\nper_second = 1\nburst = 1000\n[policy.alice]\ncallers = [\"alice\"]\nmax_input_bytes = 40\nagents = [\"echo\"]\n";
    let (gateway, alice, bob) = start(folder.path(), more);
    for _ in 0..50 {
        alice.list(&gateway, "echo").await;
    }
    let (_, for_alice) = called_by(&gateway, folder.path(), &alice, "one").await;
    let (_, for_bob) = called_by(&gateway, folder.path(), &bob, "two").await;
    let long = message(&"x".repeat(60));
    for ((way, of_alice), (_, of_bob)) in ways(&for_alice).into_iter().zip(ways(&for_bob)) {
        let left = of_alice.ask(&gateway, "echo", "ListTasks", &json!({})).await;
        let left: u64 =
            left.headers["ratelimit-remaining"].to_str().expect("text").parse().expect("a number");
        assert!(left < 980, "{way}: {left} are left, as though nobody had asked before");
        let refused = of_alice.refusal(&gateway, "echo", "SendMessage", &long).await;
        assert!(refused.is_some_and(|why| why.contains("INPUT_TOO_LARGE")), "{way}");
        assert_eq!(of_bob.refusal(&gateway, "echo", "SendMessage", &long).await, None, "{way}");
    }
}

#[tokio::test]
async fn a_list_of_who_may_call_speaks_of_whom_an_agent_works_for() {
    let folder = folder();
    let (gateway, alice, bob) =
        start(folder.path(), "[identity]\nallow = [\"caller:alice\", \"caller:bob\"]\n");
    let (_, given) = called_by(&gateway, folder.path(), &alice, "one").await;
    for (way, agent) in ways(&given) {
        agent.send(&gateway, "echo", &format!("sub {way}")).await;
    }
    drop(bob);
    let refused = Who::outsider().refusal(&gateway, "echo", "SendMessage", &message("hello")).await;
    assert!(refused.is_some_and(|why| why.contains("CALLER_NOT_ALLOWED")));
    let card = get(&format!("{}/agents/echo/.well-known/agent-card.json", gateway.url()), &[]).await;
    assert_eq!(card.status, 200);
}

#[tokio::test]
async fn streams_of_a_call_end_with_it() {
    let folder = folder();
    let (gateway, alice, _) = start(folder.path(), "");
    let (task, given) = called_by(&gateway, folder.path(), &alice, "one").await;
    let mut streams = Vec::new();
    for (way, agent) in ways(&given) {
        let agent = Who(agent.0.clone());
        let left = agent.send(&gateway, "sleeper", &format!("leave {way}")).await;
        let asked = [("SendStreamingMessage", message(way)), ("SubscribeToTask", json!({"id": left}))];
        for (method, params) in asked {
            let mut headers = agent.0.clone();
            headers.push(("a2a-version", "1.0".to_owned()));
            let url = format!("{}/agents/sleeper/", gateway.url());
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
            let reading = tokio::spawn(async move {
                let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
                post(&url, &headers, &body).await
            });
            streams.push((way, method, reading));
        }
    }
    let own = json!({"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": message("own")});
    let (url, key) = (format!("{}/agents/sleeper/", gateway.url()), alice.0[0].1.clone());
    let of_alice =
        tokio::spawn(
            async move { post(&url, &[("a2a-version", "1.0"), ("authorization", &key)], &own).await },
        );
    let agent = Who::key(&given.token);
    let begun = tokio::time::timeout(PATIENCE, async {
        while agent.list(&gateway, "sleeper").await.len() < 4
            || alice.list(&gateway, "sleeper").await.is_empty()
        {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    });
    begun.await.expect("all are at work");
    end(&gateway, folder.path(), &alice, "one", &task).await;
    for (way, method, reading) in streams {
        let answer = tokio::time::timeout(PATIENCE, reading).await;
        let answer = answer.unwrap_or_else(|_| panic!("{way}: {method} goes on")).expect("it is read");
        let said = &answer.text;
        assert!(said.contains("has ended") || said.contains("TASK_NOT_FOUND"), "{way}, {method}: {answer:?}");
    }
    assert!(!of_alice.is_finished(), "the caller's own goes on");
    of_alice.abort();
}

#[tokio::test]
async fn a_token_beside_another_credential_is_refused() {
    let folder = folder();
    let (gateway, alice, _) = start(folder.path(), "");
    let (_, given) = called_by(&gateway, folder.path(), &alice, "one").await;
    let mut agent = Who::key(&given.token);
    assert_eq!(agent.ask(&gateway, "echo", "ListTasks", &json!({})).await.status, 200);
    for other in [gateway.keys[1].as_str(), "made up", ""] {
        agent.0.truncate(1);
        agent.0.push(("x-api-key", other.to_owned()));
        let answer = agent.ask(&gateway, "echo", "ListTasks", &json!({})).await;
        assert!(answer.text.contains("UNAUTHENTICATED"), "{other}: {answer:?}");
        let url = format!("{}/agents/echo/tasks", gateway.url());
        let headers =
            [("authorization", agent.0[0].1.as_str()), ("x-api-key", other), ("a2a-version", "1.0")];
        assert_eq!(get(&url, &headers).await.status, 401, "{other}");
    }
}
