//! Who is let in, from where, and by what: `chancery serve` closed unless its configuration opens it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

mod anonymous;
mod browser;
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

const V1: (&str, &str) = ("a2a-version", "1.0");
