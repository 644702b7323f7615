//! Who is let in, from where, and by what: `chancery serve` closed unless its configuration opens it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};

mod anonymous;
mod bounds;
mod browser;
mod flood;
#[path = "../govern/gateway.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod gateway;
#[path = "../fleet/http.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod http;
mod keys;
mod packaging;
mod tls;

/// An agent that says what it is told.
const ECHO: &str = "[[agent]]\nname = \"echo\"\nkind = \"builtin\"\n";

/// A message to it.
fn message(text: &str) -> serde_json::Value {
    serde_json::json!({"message": {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": text}]}})
}

/// A process that is killed when it is no longer needed.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a gateway, and says where it is.
fn started(mut command: Command) -> (Running, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("it is piped");
    let running = Running(child);
    BufReader::new(stdout).read_line(&mut line).expect("it says something");
    let url = line.trim().strip_prefix("Chancery at ").unwrap_or_else(|| panic!("{line}"));
    (running, url.to_owned())
}

/// What a gateway says that is not to start; one that does start is ended, and has failed the test.
fn refused(mut command: Command) -> Output {
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("it starts");
    let mut line = String::new();
    // It says where it is, or it ends.
    let stdout = child.stdout.as_mut().expect("it is piped");
    BufReader::new(stdout).read_line(&mut line).expect("it says something or nothing");
    let _ = child.kill();
    let output = child.wait_with_output().expect("it is over");
    assert!(line.is_empty() && !output.status.success(), "it has started: {line}");
    output
}

const V1: (&str, &str) = ("a2a-version", "1.0");
