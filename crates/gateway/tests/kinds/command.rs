//! Agents that are programs: what they are told and what is heard of them, how they end, and what they are kept from.

use std::path::Path;
use std::time::Duration;

use chancery_sdk::protocol::{JsonObject, SendMessageResponse, StreamResponse};
use chancery_sdk::{Client, Message, Task, TaskState, Usage};
use serde_json::Value;

use crate::gateway::{BINARY, Gateway, pieces_of, refusal};

/// An agent `it` that is a shell with this script, with more said about it.
fn shell(script: &str, more: &str) -> String {
    let script = Value::from(script);
    format!(
        "[[agent]]\nname = \"it\"\nkind = \"command\"\n[agent.command]\nrun = [\"/bin/sh\", \"-c\", {script}]\n{more}\n"
    )
}

async fn ask(client: &Client, what: &str) -> Task {
    match client.send(what).await.expect("it is answered") {
        SendMessageResponse::Task(task) => task,
        SendMessageResponse::Message(message) => panic!("no task: {message:?}"),
    }
}

/// All that the program said.
fn said(task: &Task) -> String {
    let parts = task.artifacts.iter().flat_map(|artifact| &artifact.parts);
    parts.filter_map(|part| part.as_text()).collect()
}

fn status(task: &Task) -> String {
    task.status.message.as_ref().map(|message| message.text().into_owned()).unwrap_or_default()
}

/// Asks until something holds, as long as the test may take.
async fn until(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_program_is_told_the_text_and_its_words_become_an_artifact() {
    let gateway = Gateway::start(&shell("tr a-z A-Z", ""));
    let task = ask(&gateway.client("it").await, "grüße, program").await;
    assert_eq!(task.status.state, TaskState::Completed, "{}", status(&task));
    assert_eq!(said(&task), "GRüßE, PROGRAM");
}

#[tokio::test]
async fn a_program_may_be_told_the_whole_task_as_lines_of_json() {
    let gateway = Gateway::start(&shell("cat", "input = \"json\""));
    let client = gateway.client("it").await;
    let mut message = Message::user("hello");
    message.metadata = Some(JsonObject::parse(r#"{"n":1.0}"#).expect("an object"));
    let SendMessageResponse::Task(task) = client.send(message).await.expect("it is answered") else {
        panic!("no task")
    };
    let lines: Vec<Value> =
        said(&task).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["parts"][0]["text"], "hello");
    assert!(said(&task).contains(r#"{"n":1.0}"#), "{}", said(&task));
}

#[tokio::test]
async fn what_a_program_says_is_heard_while_it_runs() {
    let gateway = Gateway::start(&shell("echo one; read -r rest; sleep 600", ""));
    let client = gateway.client("it").await;
    let mut events = client.stream("go\n").await.expect("a stream");
    loop {
        let event = events.next().await.expect("the stream goes on").expect("an event");
        if let StreamResponse::ArtifactUpdate(update) = event.payload().expect("it can be read") {
            assert_eq!(update.artifact.parts[0].as_text(), Some("one\n"));
            break;
        }
    }
}

/// However fast the next word follows: what waits for a pause would show all of these at once, in less than 8 KiB. A thousand words 2 ms
/// apart take two seconds at least, so 20 pieces of them are one every 100 ms at the latest.
#[tokio::test]
async fn words_are_shown_while_more_of_them_come() {
    for every in ["0.002", "0.015", "0.03"] {
        let script = format!("for i in $(seq 1000); do printf 'drip '; sleep {every}; done");
        let gateway = Gateway::start(&shell(&script, ""));
        let client = gateway.client("it").await;
        assert_eq!(pieces_of(&client, 20).await, 20, "a word every {every} s");
    }
}

#[tokio::test]
async fn the_caller_learns_the_exit_code_and_the_log_the_rest() {
    let gateway = Gateway::start(&shell("echo said; echo the secret is 1234 >&2; exit 7", ""));
    let task = ask(&gateway.client("it").await, "go").await;
    assert_eq!(task.status.state, TaskState::Failed);
    assert_eq!(status(&task), "The program ended with exit code 7");
    assert_eq!(said(&task), "said\n");
    assert!(!serde_json::to_string(&task).expect("JSON").contains("1234"));
    assert!(gateway.log().contains("the secret is 1234"), "{}", gateway.log());
}

#[tokio::test]
async fn a_cancel_ends_a_program_and_all_that_it_started() {
    let folder = tempfile::tempdir().expect("a folder");
    let beat = folder.path().join("beat");
    open_to_all(folder.path());
    let script = format!(
        "(while :; do date +%N > {0}; sleep 0.05; done) & (setsid sh -c 'while :; do date +%N > {0}2; sleep 0.05; done') & wait",
        beat.display()
    );
    let gateway = Gateway::start(&shell(&script, &format!("write = [{:?}]", folder.path())));
    let client = gateway.client("it").await;
    let mut events = client.stream("go").await.expect("a stream");
    let first = events.next().await.expect("there is one").expect("an event");
    let StreamResponse::Task(task) = first.payload().expect("it can be read") else { panic!("no task") };
    let second = folder.path().join("beat2");
    until(|| beat.exists() && second.exists()).await;
    let task = client.cancel(task.id.clone()).await.expect("it is canceled");
    assert_eq!(task.status.state, TaskState::Canceled);
    still(&beat).await;
    still(&second).await;
}

#[tokio::test]
async fn a_program_does_not_outlive_a_gateway_that_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    open_to_all(folder.path());
    let beat = folder.path().join("beat");
    let script = format!("while :; do date +%N > {}; sleep 0.05; done", beat.display());
    let mut gateway = Gateway::start(&shell(&script, &format!("write = [{:?}]", folder.path())));
    let client = gateway.client("it").await;
    let _events = client.stream("go").await.expect("a stream");
    until(|| beat.exists()).await;
    gateway.kill();
    still(&beat).await;
}

/// Waits until nobody writes a file any more.
async fn still(path: &Path) {
    let read = || std::fs::read(path).expect("it can be read");
    let mut last = read();
    let mut unchanged = 0;
    while unchanged < 10 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = read();
        unchanged = if now == last { unchanged + 1 } else { 0 };
        last = now;
    }
}

pub(crate) fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).expect("it is ours");
}

#[tokio::test]
async fn time_and_output_are_limited() {
    let gateway = Gateway::start(&shell("sleep 600", "max_duration_ms = 300"));
    let task = ask(&gateway.client("it").await, "wait\n").await;
    assert_eq!(status(&task), "The program took longer than the 300 ms that it may take");
    let gateway = Gateway::start(&shell("read -r what; eval \"$what\"", "max_output_bytes = 1000"));
    let client = gateway.client("it").await;
    let task = ask(&client, "yes\n").await;
    assert_eq!(status(&task), "The program said more than the 1000 bytes that it may say");
    assert_eq!(task.status.state, TaskState::Failed);
    assert!(said(&task).len() <= 1000, "{}", said(&task).len());
}

#[tokio::test]
async fn processes_memory_and_disk_are_limited() {
    let limits = "max_processes = 8\nmax_memory_bytes = 67108864\nmax_disk_bytes = 1048576";
    let gateway = Gateway::start(&shell("read -r what; eval \"$what\"", limits));
    let client = gateway.client("it").await;
    let forks = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 600 & done; wait\n";
    let task = ask(&client, forks).await;
    assert_eq!(task.status.state, TaskState::Failed, "{}", status(&task));
    let task = ask(&client, "head -c 100000000 /dev/zero | tail -n 1 | wc -c\n").await;
    assert_ne!(said(&task), "100000000\n");
    let task = ask(&client, "dd if=/dev/zero of=much bs=65536 count=100 2>&1; ls -l much\n").await;
    assert!(!said(&task).contains("6553600"), "{}", said(&task));
}

#[tokio::test]
async fn a_program_has_nothing_but_what_it_was_given() {
    let secret = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(secret.path(), "not for programs").expect("it is written");
    let variables = [("GIVEN", "yes"), ("KEPT", "no"), ("HOME", "/root"), ("PATH", "/usr/bin:/bin")];
    let gateway =
        Gateway::start_with(&shell("read -r what; eval \"$what\"", "env = [\"GIVEN\"]"), &variables);
    let client = gateway.client("it").await;
    let environment = said(&ask(&client, "/usr/bin/env\n").await);
    assert!(environment.contains("GIVEN=yes"), "{environment}");
    for name in ["KEPT", "HOME=", "CHANCERY"] {
        assert!(!environment.contains(name), "{environment}");
    }
    let read = ask(&client, &format!("cat {} 2>/dev/null\n", secret.path().display())).await;
    assert_eq!((read.status.state, said(&read).as_str()), (TaskState::Failed, ""));
    assert_ne!(said(&ask(&client, "id -u\n").await), "0\n");
    assert_eq!(said(&ask(&client, "pwd; ls; echo x > mine; cat mine\n").await), "/tmp\nx\n");
    assert_eq!(said(&ask(&client, "ls\n").await), "", "nothing is left of the turn before");
    let devices = said(&ask(&client, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '\n").await);
    assert_eq!(devices, "lo\n", "it sees no network but its own");
    let others = said(&ask(&client, &format!("kill -0 {} && echo seen; true\n", gateway.pid())).await);
    assert_eq!(others, "");
}

#[tokio::test]
async fn the_card_states_what_was_really_applied() {
    let folder = tempfile::tempdir().expect("a folder");
    let more = format!(
        "write = [{:?}]\n[agent.card]\ndescription = \"Counts\"\nversion = \"2.1.0\"\nskills = [{{ id = \"count\", description = \"Counts words\", tags = [\"text\"] }}]",
        folder.path()
    );
    let gateway = Gateway::start(&shell("wc -w", &more));
    let card = gateway.client("it").await.card().await.expect("a card");
    assert_eq!((card.description.as_str(), card.version.as_str()), ("Counts", "2.1.0"));
    assert_eq!(card.skills[0].id, "count");
    let card = serde_json::to_value(&*card).expect("JSON");
    let extensions = card["capabilities"]["extensions"].as_array().expect("extensions");
    let runtime = extensions.iter().find(|extension| extension["uri"] == "urn:chancery:ext:runtime:v1");
    let isolation = &runtime.expect("the runtime is stated")["params"]["isolation"];
    assert_eq!(isolation["level"], "hardened");
    for fact in ["containall", "cleanenv", "writable_tmpfs"] {
        assert_eq!(isolation[fact], true, "{fact}: {isolation}");
    }
    let passed = isolation["preflight_passed"].as_array().expect("a list");
    for name in ["uid-nonzero", "no-host-files", "no-network", "filtered-calls", "processes-end"] {
        assert!(passed.contains(&Value::from(name)), "{name}: {isolation}");
    }
    assert_eq!(isolation["preflight_allowed"], serde_json::json!([]));
    assert_eq!(isolation["network"], "none");
    assert_eq!(isolation["binds_writable_count"], 1);
    assert!(isolation["binds_count"].as_u64().expect("a number") >= 2, "{isolation}");
}

#[tokio::test]
async fn a_program_with_a_network_calls_others_on_behalf_of_its_turn() {
    let script = format!(
        "A2ACLI_BEARER=$CHANCERY_TOKEN exec {BINARY} send $CHANCERY_URL/agents/$(cat) hello -o json 2>&1"
    );
    let more = format!(
        "network = \"host\"\nread = [{BINARY:?}]\nmax_memory_bytes = 8589934592\n[[agent]]\nname = \"echo\"\nkind = \"builtin\"\n"
    );
    let gateway = Gateway::start_with(&shell(&script, &more), &[("CHANCERY_LOG", "info")]);
    let client = gateway.client("it").await;
    let task = ask(&client, "echo").await;
    let answer: Value =
        serde_json::from_str(&said(&task)).unwrap_or_else(|error| panic!("{error}: {}", said(&task)));
    assert_eq!(answer["task"]["artifacts"][0]["parts"][0]["text"], "hello", "{answer}");
    // What it has calls itself again is found out by the descent that its credential proves.
    let task = ask(&client, "it").await;
    assert!(said(&task).contains("lineage"), "{}", said(&task));
}

#[tokio::test]
async fn a_program_that_shows_what_it_was_given_for_its_turn_gives_nothing_away() {
    // Whole among other things, at the very end, and in two pieces with a pause between them that shows the first.
    let script = "env; echo; printf 'first:%.40s' \"$CHANCERY_TOKEN\"; sleep 0.5; \
                  printf '%s;' \"$CHANCERY_TOKEN\" | tail -c +41; printf '%s' \"$CHANCERY_LINEAGE\"; env >&2; exit 7";
    let gateway = Gateway::start(&shell(script, "network = \"host\""));
    let client = gateway.client("it").await;
    let mut events = client.stream("go").await.expect("a stream");
    let mut streamed = String::new();
    while let Some(event) = events.next().await {
        if let StreamResponse::ArtifactUpdate(update) =
            event.expect("an event").payload().expect("it can be read")
        {
            streamed.extend(update.artifact.parts.iter().filter_map(|part| part.as_text()));
        }
    }
    let task = client.get(events.task_id().expect("a task").clone()).await.expect("it is there");
    for said in [streamed, said(&task)] {
        assert!(said.contains("CHANCERY_TOKEN=[turn token]\n"), "{said}");
        assert!(said.contains("CHANCERY_LINEAGE=[lineage token]\n"), "{said}");
        assert!(said.ends_with("first:[turn token];[lineage token]"), "{said}");
        assert!(!said.contains("chancery-turn-"), "{said}");
    }
    let log = gateway.log();
    assert!(log.contains("CHANCERY_TOKEN=[turn token]") && !log.contains("chancery-turn-"), "{log}");
}

#[tokio::test]
async fn a_second_costs_what_it_is_said_to_cost_and_a_budget_ends_it() {
    let price = "price_per_second = 0.01\n[agent.price]\nper_call = 0.5\n";
    let gateway = Gateway::start(&shell("sleep 1.2", price));
    let task = ask(&gateway.client("it").await, "go").await;
    let text = serde_json::to_string(&task).expect("JSON");
    let shown: Value = serde_json::from_str(&text).expect("JSON");
    let usage: Usage =
        serde_json::from_value(shown["metadata"]["urn:chancery:ext:usage:v1"].clone()).expect("usage");
    assert!((512_000..600_000).contains(&usage.cost_micro_usd), "{usage:?}");
    assert!(text.contains("metered"), "{text}");
    let budget = format!("[budget.task]\nmax_usd = 0.52\n{}", shell("sleep 600", price));
    let gateway = Gateway::start(&budget);
    let task = ask(&gateway.client("it").await, "go").await;
    assert_eq!(task.status.state, TaskState::Failed, "{}", status(&task));
}

#[tokio::test]
async fn a_program_that_cannot_be_run_is_told_before_anybody_calls() {
    let config = "[[agent]]\nname = \"it\"\nkind = \"command\"\ncommand = { run = [\"no-such-program\"] }\n";
    let told = refusal(config, &["serve"]);
    assert!(told.contains("agent `it` cannot be run"), "{told}");
    assert!(told.contains("there is no program `no-such-program`"), "{told}");
    let config = "[[agent]]\nname = \"it\"\nkind = \"command\"\ncommand = { run = [\"bin/x\"], env = [\"A=b\"], read = [\"x\"] }\n[[agent]]\nname = \"echo\"\nkind = \"builtin\"\ncard = {}\n[[agent]]\nname = \"none\"\nkind = \"command\"\n";
    let told = refusal(config, &["check"]);
    assert!(told.contains("4 problems") || told.contains("5 problems"), "{told}");
    for what in [
        "`bin/x` is no absolute path",
        "`A=b` is no name",
        "`x` is no absolute path",
        "needs a section `command`",
    ] {
        assert!(told.contains(what), "{what}: {told}");
    }
}
