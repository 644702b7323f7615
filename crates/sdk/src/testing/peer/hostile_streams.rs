//! What hostile peers say to a call that wants a stream.

use std::time::Duration;

use serde_json::{Value, json};

use super::heard::Heard;
use super::reply::Reply;

fn task() -> Value {
    json!({"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_SUBMITTED"}}})
}

fn status(state: &str) -> Value {
    json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": state}}})
}

fn working() -> Value {
    status("TASK_STATE_WORKING")
}

fn completed() -> Value {
    status("TASK_STATE_COMPLETED")
}

fn chunk(text: &str) -> Value {
    let artifact = json!({"artifactId": "a", "parts": [{"text": text}]});
    json!({"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": artifact, "append": true}})
}

/// Whether somebody comes back to a task that has begun.
fn is_back(heard: &Heard) -> bool {
    heard.json()["method"] == "SubscribeToTask" || heard.path.contains(":subscribe")
}

/// How every stream of a task that works begins: those who come back are told nothing new.
fn beginning(heard: &Heard) -> String {
    let mut task = task();
    if is_back(heard) {
        task["task"]["status"] = json!({"state": "TASK_STATE_WORKING"});
        return heard.frames(&[(0, task)]);
    }
    heard.frames(&[(0, task), (0, working())])
}

/// A good beginning, and then this.
fn after_a_beginning(heard: &Heard, event: Value) -> Reply {
    heard.stream(&[(0, task()), (0, working()), (0, event)])
}

/// A good stream as text, for those who write it differently.
fn good_text(heard: &Heard) -> String {
    heard.frames(&[(0, task()), (0, working()), (0, chunk("some ")), (0, chunk("text")), (0, completed())])
}

pub(super) fn cut(heard: &Heard) -> Reply {
    let frames = beginning(heard) + &heard.frames(&[(0, completed())]);
    let kept = frames.len() - 40;
    Reply::events(frames).cut_after(kept)
}

pub(super) fn reset(heard: &Heard) -> Reply {
    let frames = beginning(heard);
    let kept = frames.len();
    Reply::events(frames).cut_after(kept).then_reset()
}

pub(super) fn ends_early(heard: &Heard) -> Reply {
    Reply::events(beginning(heard))
}

pub(super) fn empty(_: &Heard) -> Reply {
    Reply::events("")
}

pub(super) fn half_event(heard: &Heard) -> Reply {
    let frames = beginning(heard) + &heard.frames(&[(0, completed())]);
    // The line is whole, and the empty line that makes it an event is missing.
    Reply::events(frames.strip_suffix('\n').unwrap_or_default().to_owned())
}

pub(super) fn silence(heard: &Heard) -> Reply {
    if is_back(heard) {
        return Reply::silence();
    }
    Reply::events(heard.frames(&[(0, task())])).until_close().then_silence()
}

pub(super) fn endless_line(heard: &Heard) -> Reply {
    let frames = heard.frames(&[(0, task())]) + "data: ";
    Reply::events(frames).until_close().then_endlessly(" ".repeat(1 << 16))
}

pub(super) fn endless_event(heard: &Heard) -> Reply {
    Reply::events(heard.frames(&[(0, task())])).until_close().then_endlessly("data: more\n".repeat(1 << 12))
}

pub(super) fn invalid_json(heard: &Heard) -> Reply {
    Reply::events(heard.frames(&[(0, task())]) + "data: {\"statusUpdate\": \n\n")
}

pub(super) fn unknown_event(heard: &Heard) -> Reply {
    after_a_beginning(heard, json!({"surprise": {"taskId": "t"}}))
}

pub(super) fn error(heard: &Heard) -> Reply {
    let error = match heard.json().get("jsonrpc") {
        Some(_) => {
            let error = json!({"code": -32603, "message": "Internal error"});
            json!({"jsonrpc": "2.0", "id": heard.json()["id"], "error": error})
        }
        None => json!({"error": {"code": 500, "status": "INTERNAL", "message": "Internal error"}}),
    };
    Reply::events(format!("{}event: error\ndata: {error}\n\n", heard.frames(&[(0, task()), (0, working())])))
}

pub(super) fn other_task(heard: &Heard) -> Reply {
    let mut other = completed();
    other["statusUpdate"]["taskId"] = json!("u");
    after_a_beginning(heard, other)
}

pub(super) fn message_in_task(heard: &Heard) -> Reply {
    let message = json!({"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "by the way"}]});
    after_a_beginning(heard, json!({"message": message}))
}

pub(super) fn not_a_stream(heard: &Heard) -> Reply {
    heard.result(&task())
}

pub(super) fn wrong_id(heard: &Heard) -> Reply {
    let other = json!({"jsonrpc": "2.0", "id": "the id of somebody else", "result": completed()});
    Reply::events(format!("{}data: {other}\n\n", heard.frames(&[(0, task())])))
}

pub(super) fn after_the_end(heard: &Heard) -> Reply {
    heard.stream(&[(0, task()), (0, completed()), (0, working())])
}

pub(super) fn gap(heard: &Heard) -> Reply {
    heard.stream(&[(1, task()), (2, working()), (7, chunk("text")), (9, completed())])
}

pub(super) fn duplicates(heard: &Heard) -> Reply {
    let events = [(1, task()), (2, working()), (2, working()), (3, chunk("a")), (3, chunk("a"))];
    let again = [(2, working()), (4, completed()), (4, completed())];
    heard.stream(&[&events[..], &again[..]].concat())
}

pub(super) fn line_ends(heard: &Heard) -> Reply {
    let ends = ["\r\n\r\n", "\r\r", "\n\n", "\r\n\n", "\n\r\n"];
    let text = good_text(heard);
    let frames: String =
        text.split_terminator("\n\n").zip(ends).map(|(frame, end)| format!("{frame}{end}")).collect();
    Reply::events(frames)
}

pub(super) fn comments(heard: &Heard) -> Reply {
    let frames =
        good_text(heard).replace(",\"", ",\ndata: \"").replace("\n\n", "\n: still here\nmood: fine\n\n");
    Reply::events(format!(":\n\n: hello\n\nretry: 10\n\n{frames}"))
}

pub(super) fn byte_by_byte(heard: &Heard) -> Reply {
    Reply::events(good_text(heard)).drip(1, Duration::ZERO)
}
