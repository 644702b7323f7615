//! What is written down: who was refused, and what operators did.

use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::http::{get, post};
use crate::{ECHO, entries, message, of_action, wait_for};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

#[tokio::test]
async fn a_refused_credential_leaves_a_trace_and_is_counted() {
    let gateway = Gateway::start_with_key(ECHO, "alice");
    let (url, key) = (format!("{}/tasks", gateway.agent("echo")), gateway.key.clone().unwrap());
    let id = key.split('_').nth(1).unwrap();
    let wrong = format!("{}0", &key[..key.len() - 1]);
    let wrong = if wrong == key { format!("{}1", &key[..key.len() - 1]) } else { wrong };
    let traceparent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let labels = [("X-Request-ID", "req-7"), ("X-Agent-ID", "crawler"), ("traceparent", &*traceparent)];
    for _ in 0..3 {
        let shown = [("X-API-Key", &*wrong), labels[0], labels[1], labels[2]];
        assert_eq!(get(&url, &shown).await.status, 401);
    }
    assert_eq!(get(&url, &[("Authorization", "Bearer not-a-token")]).await.status, 401);
    assert_eq!(get(&url, &[]).await.status, 401);
    let count = |entries: &[Value], reason: &str| -> u64 {
        let found = of_action(entries, "credential.refused").into_iter();
        found
            .filter(|entry| entry["details"]["reason"] == reason)
            .map(|entry| entry["details"]["count"].as_u64().unwrap())
            .sum()
    };
    let entries = wait_for(&gateway, |entries| count(entries, "missing") == 1).await;
    assert_eq!((count(&entries, "key_unknown"), count(&entries, "scheme")), (3, 1));
    let refused = of_action(&entries, "credential.refused");
    let first = refused.iter().find(|entry| entry["details"]["reason"] == "key_unknown").unwrap();
    for (name, value) in [
        ("kind", "credential"),
        ("source", "127.0.0.1"),
        ("key", id),
        ("trace", TRACE),
        ("requestId", "req-7"),
        ("agentId", "crawler"),
    ] {
        assert_eq!(first[name], value, "{name}: {first}");
    }
    let metrics = gateway.run(&["admin", "metrics"]);
    assert!(metrics.contains(r#"chancery_refused_credentials_total{reason="key_unknown"} 3"#), "{metrics}");
    // The admin token is a credential, too.
    let admin: Value = serde_json::from_str(&gateway.read("chancery-data/admin.json")).unwrap();
    let url = format!("{}/agents", admin["url"].as_str().unwrap());
    assert_eq!(get(&url, &[("Authorization", "Bearer wrong")]).await.status, 401);
    wait_for(&gateway, |entries| count(entries, "admin_token") == 1).await;
    // A card is there for whoever asks.
    assert_eq!(get(&format!("{}/.well-known/agent-card.json", gateway.url()), &[]).await.status, 200);
    assert_eq!(get(&format!("{}/tasks", gateway.agent("echo")), &[]).await.status, 401);
    wait_for(&gateway, |entries| count(entries, "missing") == 2).await;
}

#[tokio::test]
async fn denials_are_added_up_by_caller_gate_and_reason() {
    let config = format!(
        "[budget.caller]\nmax_usd_per_day = 0.01\n[rate.caller]\nper_second = 1\nburst = 6\n{ECHO}price = {{ per_call = 0.02 }}\n"
    );
    let gateway = Gateway::start_with_key(&config, "alice");
    let (url, key) = (format!("{}/message:send", gateway.agent("echo")), gateway.key.clone().unwrap());
    let traceparent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let headers = [
        ("A2A-Version", "1.0"),
        ("X-API-Key", &*key),
        ("X-Request-ID", "req-1"),
        ("traceparent", &*traceparent),
    ];
    let mut denied = 0;
    for _ in 0..4 {
        denied += u64::from(post(&url, &headers, &message("hi")).await.status == 429);
    }
    assert_eq!(denied, 4);
    let by = |entries: &[Value], gate: &str| -> u64 {
        let found =
            of_action(entries, "call.denied").into_iter().filter(|entry| entry["details"]["gate"] == gate);
        found.map(|entry| entry["details"]["count"].as_u64().unwrap()).sum()
    };
    let entries = wait_for(&gateway, |entries| by(entries, "budget") == 4).await;
    let first = of_action(&entries, "call.denied")[0];
    for (name, value) in [
        ("kind", "denial"),
        ("realm", "default"),
        ("principal", "alice"),
        ("target", "echo"),
        ("source", "127.0.0.1"),
        ("trace", TRACE),
        ("requestId", "req-1"),
        ("key", key.split('_').nth(1).unwrap()),
    ] {
        assert_eq!(first[name], value, "{name}: {first}");
    }
    assert_eq!(first["details"]["reason"], "BUDGET_EXCEEDED");
    // The rate is counted before it is known which agent is called.
    let mut over = 0;
    for _ in 0..20 {
        let body = "{}".repeat(2600);
        let asked = crate::http::request(::http::Method::POST, &url, &headers, &body).await;
        over += u64::from(asked.status == 429);
    }
    assert!(over > 0);
    wait_for(&gateway, |entries| by(entries, "rate") == over).await;
    let metrics = gateway.run(&["admin", "metrics"]);
    assert!(
        metrics.contains(r#"chancery_caller_calls_total{realm="default",caller="alice"} 4"#),
        "{metrics}"
    );
}

#[tokio::test]
async fn what_operators_do_is_on_record() {
    let config = format!("[budget.caller]\nmax_usd_per_day = 1.0\n{ECHO}price = {{ per_call = 0.02 }}\n");
    let gateway = Gateway::start_with_key(&config, "alice");
    gateway.run(&["admin", "contain", "echo", "--reason", "leaks prompts"]);
    // It is there when the answer is.
    let now = entries(&gateway);
    let contained = of_action(&now, "agent.contain")[0];
    assert_eq!((&contained["target"], &contained["principal"]), (&json!("echo"), &json!("operator")));
    assert_eq!(
        (&contained["details"]["reason"], &contained["source"]),
        (&json!("leaks prompts"), &json!("127.0.0.1"))
    );
    gateway.run(&["admin", "release", "echo"]);
    gateway.run(&["admin", "reload"]);
    gateway.run(&["key", "create", "--caller", "bob"]);
    let listed = gateway.run(&["key", "list"]);
    let id = listed.lines().find(|line| line.contains("bob")).unwrap().split_whitespace().next().unwrap();
    gateway.run(&["key", "revoke", id]);
    gateway.run(&["key", "rotate"]);
    gateway.run(&["budget", "top-up", "--caller", "alice", "--per", "day", "--usd", "2.5"]);
    gateway.run(&["budget", "reset", "--caller", "alice"]);
    gateway.run(&["store", "backup", "copy.tar"]);
    gateway.run(&["spend", "export", "--caller", "alice"]);
    gateway.run(&["audit", "export"]);
    let is_last = |entries: &[Value]| !of_action(entries, "audit.export").is_empty();
    let all = wait_for(&gateway, is_last).await;
    for action in [
        "gateway.start",
        "agent.contain",
        "agent.release",
        "configuration.reload",
        "key.create",
        "key.revoke",
        "key.rotate",
        "budget.top-up",
        "budget.reset",
        "store.backup",
        "spend.export",
    ] {
        assert!(!of_action(&all, action).is_empty(), "{action}: {all:#?}");
    }
    let revoked = of_action(&all, "key.revoke")[0];
    assert_eq!((revoked["target"].as_str(), revoked["source"].as_str()), (Some(id), Some("command")));
    assert!(revoked["principal"].as_str().unwrap().starts_with("user:"), "{revoked}");
    assert!(
        of_action(&all, "budget.top-up")[0]["details"]["change"]
            .as_str()
            .unwrap()
            .starts_with("2500000 micro-USD")
    );
}

#[tokio::test]
async fn a_change_of_configuration_says_what_it_was_and_what_it_is() {
    let gateway = Gateway::start(ECHO);
    let started = wait_for(&gateway, |entries| !entries.is_empty()).await[0].clone();
    let was = started["details"]["configuration"].clone();
    assert_eq!(was.as_str().unwrap().len(), 64);
    gateway.configure(&format!("{ECHO}{}", ECHO.replace("echo", "stream")));
    let reloads = |entries: &[Value]| {
        of_action(entries, "configuration.reload").into_iter().cloned().collect::<Vec<_>>()
    };
    let all = wait_for(&gateway, |entries| !reloads(entries).is_empty()).await;
    let first = reloads(&all)[0]["details"].clone();
    assert_eq!((&first["before"], &first["added"]), (&was, &json!("stream")));
    assert_ne!(first["after"], was);
    // What cannot be used is on record as well, and changes nothing.
    gateway.configure(&format!("[budget]\nno_such = 1\n{ECHO}"));
    let all = wait_for(&gateway, |entries| reloads(entries).len() == 2).await;
    let failed = reloads(&all)[1]["details"].clone();
    assert_eq!(
        (&failed["outcome"], &failed["before"], &failed["after"]),
        (&json!("failed"), &first["after"], &first["after"])
    );
}

#[tokio::test]
async fn what_commands_do_while_no_gateway_runs_is_taken_in_when_one_starts() {
    let mut gateway = Gateway::start_with_key(ECHO, "alice");
    let first = wait_for(&gateway, |entries| !of_action(entries, "key.create").is_empty()).await;
    assert_eq!(of_action(&first, "key.create")[0]["details"]["caller"], "alice");
    gateway.kill_and_restart_after(|folder| {
        assert!(crate::ran(folder, &["key", "create", "--caller", "bob"]).status.success());
        let told = crate::ran(folder, &["audit", "tail"]);
        assert!(String::from_utf8(told.stdout).unwrap().contains("not in the log yet"));
    });
    let all = wait_for(&gateway, |entries| of_action(entries, "key.create").len() == 2).await;
    assert_eq!(of_action(&all, "gateway.start").len(), 2);
    gateway.terminate();
    let last = entries(&gateway).pop().unwrap();
    assert_eq!(last["action"], "gateway.stop");
}

#[tokio::test]
async fn what_cannot_be_written_down_is_not_done() {
    let gateway = Gateway::start_with_key(ECHO, "alice");
    wait_for(&gateway, |entries| !of_action(entries, "key.create").is_empty()).await;
    // Whoever is root may write to any file, but not to a folder.
    std::fs::create_dir(gateway.folder().join("chancery-data/audit-pending.jsonl")).unwrap();
    for command in [&["key", "create", "--caller", "bob"][..], &["spend", "export"], &["key", "rotate"]] {
        let output = crate::ran(gateway.folder(), command);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains("not done"), "{command:?}: {said}");
        assert!(output.stdout.is_empty(), "{command:?}");
    }
    assert!(!gateway.run(&["key", "list"]).contains("bob"));
}

#[tokio::test]
async fn calls_are_found_in_the_log_by_what_they_say_about_themselves() {
    let folder = crate::gateway::folder(ECHO);
    let mut command = crate::gateway::chancery(folder.path());
    command.env("CHANCERY_LOG", "chancery::access=info").env("CHANCERY__SERVER__ANONYMOUS", "true");
    let log = std::fs::File::create(folder.path().join("log")).unwrap();
    command.args(["serve", "--listen", "127.0.0.1:0"]).stderr(log);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line)
        .unwrap();
    let url = format!("{}/agents/echo/message:send", line.trim().strip_prefix("Chancery at ").unwrap());
    let long = "x".repeat(129);
    for (request, agent) in [("req-42", "crawler"), ("two words", &*long)] {
        let headers = [("A2A-Version", "1.0"), ("X-Request-ID", request), ("X-Agent-ID", agent)];
        assert_eq!(post(&url, &headers, &message("hi")).await.status, 200);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let said = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(said.contains("request_id=\"req-42\" agent_id=\"crawler\""), "{said}");
    // What is too long or no plain text is left out.
    assert!(!said.contains("two words") && !said.contains(&long), "{said}");
}
