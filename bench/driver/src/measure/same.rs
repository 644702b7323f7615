//! Before anything is timed: does every server do the same?

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::contender::Contender;
use crate::process::Server;
use crate::request::{Request, TEXT};
use crate::response::Connection;

pub(crate) async fn check(contender: &Contender) -> anyhow::Result<()> {
    let server = Server::start(contender, &[])?;
    same(&server).await.with_context(|| format!("{} does not do what is measured", contender.name))
}

async fn same(server: &Server) -> anyhow::Result<()> {
    let mut connection = Connection::open(server.address).await?;
    let task = send(&mut connection, server, 1).await?;
    ensure!(task["status"]["state"] == "TASK_STATE_COMPLETED", "not completed: {task}");
    ensure!(task["status"]["timestamp"].is_string(), "no timestamp: {task}");
    // What it keeps as history is each server's own choice; `protocol` keeps none.
    ensure!(task["artifacts"][0]["parts"][0]["text"] == TEXT, "no echo: {task}");

    let id = task["id"].as_str().context("a task without id")?;
    let reply = connection.call(Request::get_task(server.address, id).numbered(0)).await?;
    let again: Value = serde_json::from_slice(reply)?;
    ensure!(again["result"]["id"] == id, "GetTask found another task: {again}");
    ensure!(
        again["result"]["artifacts"][0]["parts"][0]["text"].is_string(),
        "GetTask lost the artifact: {again}"
    );

    let end = connection.stream(Request::stream(server.address, 20, 1).numbered(2), |_| {}).await?;
    ensure!(end.complete && (21..=24).contains(&end.events), "a stream of {} events", end.events);
    Ok(())
}

/// Sends one message; the Task that came back.
pub(crate) async fn send(connection: &mut Connection, server: &Server, number: u64) -> anyhow::Result<Value> {
    let reply = connection.call(Request::send_message(server.address).numbered(number)).await?;
    let mut reply: Value = serde_json::from_slice(reply)?;
    Ok(reply["result"]["task"].take())
}
