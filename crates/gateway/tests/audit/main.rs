//! The audit log of `chancery serve`: what is in it, that no change of it goes unseen, how much a flood of refusals adds
//! to it, and that no secret is in it or anywhere else.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing where it must be has failed")]

mod chain;
mod entries;
mod flood;
#[path = "../govern/gateway.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod gateway;
#[path = "../fleet/http.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod http;
mod retention;
mod secrets;

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::gateway::{Gateway, chancery};

const ECHO: &str = "[[agent]]\nname = \"echo\"\nkind = \"builtin\"\n";

fn message(text: &str) -> Value {
    json!({"message": {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": text}]}})
}

/// Runs a command, whatever comes of it.
fn ran(folder: &Path, arguments: &[&str]) -> Output {
    chancery(folder).args(arguments).output().unwrap()
}

/// What `chancery audit verify` finds, and whether it ends as if all were well.
fn verified(folder: &Path, more: &[&str]) -> (bool, Value) {
    let output = ran(folder, &[&["audit", "verify", "-o", "json"], more].concat());
    let told = serde_json::from_slice(&output.stdout);
    let told = told.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.success(), told)
}

/// The entries that are in the log by now.
fn entries(gateway: &Gateway) -> Vec<Value> {
    let told = gateway.run(&["audit", "tail", "-n", "100000", "-o", "json"]);
    let lines = told.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|entry| entry.get("pending").is_none()).collect()
}

/// The entries, once there are such.
async fn wait_for(gateway: &Gateway, are_there: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    loop {
        let entries = entries(gateway);
        if are_there(&entries) {
            return entries;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn of_action<'a>(entries: &'a [Value], action: &str) -> Vec<&'a Value> {
    entries.iter().filter(|entry| entry["action"] == action).collect()
}

/// The store, to be tampered with.
fn database(folder: &Path) -> Connection {
    Connection::open(folder.join("chancery-data/chancery.db")).unwrap()
}
