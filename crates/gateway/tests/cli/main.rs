//! The client half of the command line, as a process: against our own demo, and against nobody.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// The demo, killed when this is dropped.
struct Demo {
    child: Child,
    url: String,
    _data: tempfile::TempDir,
}

/// What a command came to.
struct Ran {
    status: Option<i32>,
    out: String,
    err: String,
}

impl Demo {
    /// All agents of the demo.
    fn start() -> Self {
        Self::with(&[])
    }

    /// One of them, at the root.
    fn alone(name: &str) -> Self {
        Self::with(&["--agent", name])
    }

    fn with(options: &[&str]) -> Self {
        let data = tempfile::tempdir().expect("a data directory");
        let mut child = Command::new(env!("CARGO_BIN_EXE_chancery"))
            .args(["demo", "--listen", "127.0.0.1:0", "--store", "memory:"])
            .args(options)
            .arg("--data")
            .arg(data.path())
            .env_clear()
            .stdout(Stdio::piped())
            .spawn()
            .expect("the demo starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it says something");
        let url = line.trim().strip_prefix("Chancery demo at ").expect("it says where it is").to_owned();
        Self { child, url, _data: data }
    }

    fn agent(&self, name: &str) -> String {
        format!("{}/agents/{name}", self.url)
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(arguments: &[&str]) -> Ran {
    let output =
        Command::new(env!("CARGO_BIN_EXE_chancery")).args(arguments).env_clear().output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ran { status: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// Runs a command that does its job and answers with one JSON document.
fn json(arguments: &[&str]) -> Value {
    let ran = run(&[arguments, &["-o", "json"]].concat());
    assert_eq!(ran.status, Some(0), "{arguments:?}: {}{}", ran.out, ran.err);
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}", ran.out))
}

/// Runs a command that fails, and gives its status and code.
fn failure(arguments: &[&str]) -> (Option<i32>, String) {
    let ran = run(&[arguments, &["-o", "json"]].concat());
    let envelope: Value =
        serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}{}", ran.out, ran.err));
    assert!(envelope["error"]["message"].is_string(), "{envelope}");
    (ran.status, envelope["error"]["code"].as_str().expect("a code").to_owned())
}

#[test]
fn a_card_is_shown_to_people_and_to_programs() {
    let demo = Demo::start();
    let card = json(&["card", "get", &demo.agent("echo")]);
    assert_eq!(card["name"], "echo");
    let ran = run(&["card", "get", "-a", &demo.agent("echo")]);
    assert!(ran.out.starts_with("Name: echo\n"), "{}", ran.out);
    assert!(ran.out.contains("Interface: JSONRPC 1.0 at http://"), "{}", ran.out);
}

#[test]
fn a_message_is_answered_on_every_binding() {
    let demo = Demo::start();
    for transport in ["jsonrpc", "http+json", "grpc"] {
        let sent = json(&["send", &demo.agent("echo"), "hello", "--transport", transport]);
        assert_eq!(sent["task"]["artifacts"][0]["parts"][0]["text"], "hello", "{transport}: {sent}");
    }
    let ran = run(&["send", &demo.agent("echo"), "hello"]);
    assert!(ran.out.contains("State: TASK_STATE_COMPLETED\n"), "{}", ran.out);
    assert!(ran.out.contains("Text:\nhello\n\n"), "{}", ran.out);
}

/// The only agent of a server of its own can be called in every way there is: v0.3 has no tenant to find one of several.
#[test]
fn every_version_is_spoken_on_every_binding_that_it_has() {
    let demo = Demo::alone("echo");
    for (version, transports) in [
        ("1.0", &["jsonrpc", "http+json", "grpc"][..]),
        ("0.3", &["jsonrpc", "http+json", "grpc"]),
        ("0.1", &["jsonrpc"]),
    ] {
        for transport in transports {
            let wire = ["--a2a-version", version, "--transport", transport];
            let with = |command: &[&str]| json(&[command, &wire].concat());
            let sent = with(&["send", &demo.url, "hello"]);
            let task = &sent["task"];
            assert_eq!(task["artifacts"][0]["parts"][0]["text"], "hello", "{wire:?}: {sent}");
            let id = task["id"].as_str().unwrap();
            assert_eq!(
                with(&["task", "get", &demo.url, id])["status"]["state"],
                "TASK_STATE_COMPLETED",
                "{wire:?}"
            );
            let ran = run(&[&["send", &demo.url, "again", "--stream", "-o", "json"], &wire[..]].concat());
            assert_eq!(ran.status, Some(0), "{wire:?}: {}{}", ran.out, ran.err);
            let last: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
            assert_eq!(last["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED", "{wire:?}: {last}");
        }
        let card = json(&["card", "get", &demo.url, "--a2a-version", version]);
        assert_eq!(card["name"], "echo", "{version}");
    }
}

#[test]
fn a_version_and_a_binding_that_are_asked_for_are_used_or_refused() {
    let demo = Demo::start();
    let wire = |version, transport| {
        failure(&["send", &demo.agent("echo"), "hello", "--a2a-version", version, "--transport", transport])
    };
    let refused = (Some(1), "VersionNotSupportedError".to_owned());
    // One of several agents cannot be found by v0.3 over gRPC, and v0.1 has neither.
    assert_eq!(wire("0.3", "grpc"), refused);
    assert_eq!(wire("0.1", "grpc"), refused);
    assert_eq!(wire("0.1", "http+json"), refused);
    assert_eq!(wire("2.0", "jsonrpc"), refused);
    let ran = run(&["send", &demo.agent("echo"), "hello", "--a2a-version", "0.3", "--transport", "grpc"]);
    assert!(ran.err.contains("not a binding that was asked for"), "{}", ran.err);
    assert!(ran.err.contains("Hint: "), "{}", ran.err);
    // A binding alone is a preference, and one that is not there is passed over.
    let sent =
        json(&["send", &demo.agent("echo"), "hello", "--transport", "grpc,jsonrpc", "--a2a-version", "0.3"]);
    assert_eq!(sent["task"]["status"]["state"], "TASK_STATE_COMPLETED");
}

#[test]
fn a_version_that_is_switched_off_is_neither_spoken_nor_named() {
    let demo = Demo::with(&["--agent", "echo", "--without-version", "0.3,0.1"]);
    let old = failure(&["send", &demo.url, "hello", "--a2a-version", "0.3"]);
    assert_eq!(old, (Some(1), "VersionNotSupportedError".to_owned()));
    assert_eq!(json(&["send", &demo.url, "hello"])["task"]["status"]["state"], "TASK_STATE_COMPLETED");
    let ran = run(&["demo", "--without-version", "2.0"]);
    assert_eq!(ran.status, Some(2), "{}", ran.err);
}

#[test]
fn a_question_names_the_command_that_answers_it() {
    let demo = Demo::start();
    let (agent, ran) = (demo.agent("ask"), run(&["send", &demo.agent("ask"), "hi"]));
    let next =
        ran.out.lines().find_map(|line| line.strip_prefix("Next: chancery ")).expect("what to do next");
    let words: Vec<_> = next.split(' ').map(|word| word.trim_matches('"')).collect();
    let answered = json(&words);
    assert_eq!(answered["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{answered}");
    let id = answered["task"]["id"].as_str().unwrap();
    assert_eq!(json(&["task", "get", &agent, id])["id"], id);
    assert_eq!(json(&["task", "list", &agent, "--status", "completed"])["totalSize"], 1);
}

#[test]
fn a_stream_is_written_line_by_line() {
    let demo = Demo::start();
    let ran = run(&["send", &demo.agent("stream"), "stream 3 1", "--stream", "-o", "json"]);
    let events: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events.first().unwrap()["task"].is_object());
    assert_eq!(events.iter().filter(|event| event["artifactUpdate"].is_object()).count(), 3);
    assert_eq!(events.last().unwrap()["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED");
}

#[test]
fn a_task_that_takes_long_can_be_left_watched_and_stopped() {
    let demo = Demo::start();
    let agent = demo.agent("stream");
    let begun = json(&["send", &agent, "stream 100000 10", "--async"]);
    let id = begun["task"]["id"].as_str().unwrap().to_owned();
    let late = run(&["task", "get", &agent, &id, "--wait", "--timeout", "50ms"]);
    assert_eq!(late.status, Some(5), "{}", late.err);
    assert!(late.err.contains("A2ACLI_ERR_TIMEOUT"), "{}", late.err);
    let watching = std::thread::spawn({
        let (agent, id) = (agent.clone(), id.clone());
        move || json(&["task", "subscribe", &agent, &id])
    });
    let canceled = json(&["task", "cancel", &agent, &id]);
    assert_eq!(canceled["status"]["state"], "TASK_STATE_CANCELED");
    // Whoever watches sees it, whether the subscription came before the end or after it.
    assert_eq!(watching.join().unwrap()["status"]["state"], "TASK_STATE_CANCELED");
}

#[test]
fn each_failure_has_its_code_and_status() {
    let demo = Demo::start();
    let echo = demo.agent("echo");
    let is = |status, code: &str| (Some(status), code.to_owned());
    assert_eq!(failure(&["task", "get", &echo, "nothing"]), is(1, "TaskNotFoundError"));
    assert_eq!(failure(&["card", "get", &demo.agent("nobody")]), is(3, "A2ACLI_ERR_CARD_NOT_FOUND"));
    assert_eq!(failure(&["send", "http://127.0.0.1:1", "hello"]), is(3, "A2ACLI_ERR_UNREACHABLE"));
    assert_eq!(failure(&["send", &echo]), is(2, "A2ACLI_ERR_USAGE"));
    assert_eq!(failure(&["send", &echo, "hello", "again"]), is(2, "A2ACLI_ERR_USAGE"));
    assert_eq!(failure(&["send", &echo, "hello", "--nonsense"]), is(2, "A2ACLI_ERR_USAGE"));
    assert_eq!(failure(&["send", &echo, "hello", "--metadata", "[]"]), is(2, "A2ACLI_ERR_USAGE"));
    let ran = run(&["task", "get", &echo, "nothing"]);
    assert!(ran.out.is_empty() && ran.err.starts_with("Error: TaskNotFoundError\nMessage: "), "{}", ran.err);
}
