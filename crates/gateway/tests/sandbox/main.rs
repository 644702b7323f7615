//! What programs can do in their sandboxes, tried from inside, as root, as a user and where there are no namespaces of users;
//! and whether cards say what was found.
#![cfg(target_os = "linux")]

mod ends;
mod facts;
mod limits;
mod probes;
mod setting;

use std::collections::BTreeMap;

use chancery_sdk::protocol::SendMessageResponse;
use chancery_sdk::{Client, Task};
use serde_json::Value;

/// What a program may have in these tests.
pub(crate) const MEMORY_MIB: u64 = 256;
pub(crate) const DISK_KIB: u64 = 4096;
pub(crate) const PROCESSES: u64 = 16;

/// An agent that is the probe, with more said about it.
pub(crate) fn agent(name: &str, more: &str) -> String {
    let probe = setting::probe();
    let limits = format!(
        "max_memory_bytes = {}\nmax_disk_bytes = {}\nmax_processes = {PROCESSES}",
        MEMORY_MIB << 20,
        DISK_KIB << 10
    );
    format!(
        "[[agent]]\nname = \"{name}\"\nkind = \"command\"\n[agent.command]\nrun = [{probe:?}]\nread = [{probe:?}]\n{limits}\n{more}\n"
    )
}

pub(crate) async fn ask(client: &Client, what: &str) -> Task {
    match client.send(what).await.expect("it is answered") {
        SendMessageResponse::Task(task) => task,
        SendMessageResponse::Message(message) => panic!("no task: {message:?}"),
    }
}

/// All that the program said.
pub(crate) fn said(task: &Task) -> String {
    let parts = task.artifacts.iter().flat_map(|artifact| &artifact.parts);
    parts.filter_map(|part| part.as_text()).collect()
}

pub(crate) fn status(task: &Task) -> String {
    task.status.message.as_ref().map(|message| message.text().into_owned()).unwrap_or_default()
}

/// What came of each probe, by its line.
pub(crate) async fn tried<'a>(
    client: &Client,
    lines: impl IntoIterator<Item = &'a str>,
) -> BTreeMap<String, String> {
    let lines: String = lines.into_iter().map(|line| format!("{line}\n")).collect();
    let task = ask(client, &lines).await;
    let said = said(&task);
    let answers = said.lines().filter_map(|line| line.split_once('='));
    let answers: BTreeMap<_, _> =
        answers.map(|(probe, result)| (probe.to_owned(), result.to_owned())).collect();
    assert_eq!(answers.len(), lines.lines().count(), "{}: {said}", status(&task));
    answers
}

/// What the card says about isolation.
pub(crate) async fn isolation(client: &Client) -> Value {
    let card = client.card().await.expect("a card");
    let card = serde_json::to_value(&*card).expect("JSON");
    let extensions = card["capabilities"]["extensions"].as_array().expect("extensions");
    let runtime = extensions.iter().find(|extension| extension["uri"] == "urn:chancery:ext:runtime:v1");
    runtime.expect("the runtime is stated")["params"]["isolation"].clone()
}
