//! Every gate refuses what it is for, on every wire, and nothing else.

use chancery_protocol::{Error, ErrorCode, Operation};
use chancery_sdk::protocol::Version;
use futures_util::future::join_all;

use crate::ECHO;
use crate::gateway::Gateway;
use crate::wire::{Manner, WIRES, Wire, ask, operations};

/// How a gate refuses.
pub(crate) struct Refusal {
    pub(crate) gate: &'static str,
    pub(crate) code: ErrorCode,
    pub(crate) reason: &'static str,
}

pub(crate) fn is_send(operation: Operation) -> bool {
    matches!(operation, Operation::SendMessage | Operation::SendStreamingMessage)
}

impl Refusal {
    fn is(&self, error: &Error) -> bool {
        let text = error.to_string();
        error.code() == self.code && text.contains(&format!("`{}`", self.gate)) && text.contains(self.reason)
    }

    /// Asks for every operation there is, on every wire. Those that the gate is for are refused by it, the others are not.
    pub(crate) async fn is_met(
        &self,
        gateway: &Gateway,
        agent: &str,
        manner: Manner,
        is_for: fn(Operation) -> bool,
    ) {
        for wire in &WIRES {
            let client = wire.connect(gateway, agent).await;
            for operation in operations().into_iter().filter(|operation| wire.has(*operation)) {
                let outcome = ask(&client, operation, manner).await;
                let is_refused = outcome.as_ref().is_err_and(|error| self.is(error));
                assert_eq!(is_refused, is_for(operation), "{wire:?} {operation:?}: {outcome:?}");
            }
        }
    }
}

#[tokio::test]
async fn identity_refuses_everything() {
    let gateway = Gateway::start(&format!("[identity]\nallow = [\"caller:alice\"]\n{ECHO}"));
    let refusal =
        Refusal { gate: "identity", code: ErrorCode::PermissionDenied, reason: "CALLER_NOT_ALLOWED" };
    refusal.is_met(&gateway, "echo", Manner::default(), |_| true).await;
}

#[tokio::test]
async fn policy_refuses_operations_that_it_does_not_name() {
    let gateway = Gateway::start(&format!("[policy.default]\noperations = [\"CancelTask\"]\n{ECHO}"));
    let refusal =
        Refusal { gate: "policy", code: ErrorCode::PermissionDenied, reason: "OPERATION_NOT_ALLOWED" };
    refusal.is_met(&gateway, "echo", Manner::default(), |operation| operation != Operation::CancelTask).await;
}

#[tokio::test]
async fn the_budget_refuses_what_begins_work() {
    let gateway = Gateway::start(&format!("[budget.caller]\nmax_tasks_per_minute = 0\n{ECHO}"));
    let refusal = Refusal { gate: "budget", code: ErrorCode::ResourceExhausted, reason: "BUDGET_EXCEEDED" };
    refusal.is_met(&gateway, "echo", Manner::default(), is_send).await;
}

#[tokio::test]
async fn lineage_refuses_what_begins_work_on_a_made_up_behalf() {
    let gateway = Gateway::start(ECHO);
    let refusal = Refusal { gate: "lineage", code: ErrorCode::LineageRefused, reason: "LINEAGE_INVALID" };
    let metadata = Some(r#"{"urn:chancery:ext:lineage:v1":{"token":"made.up.token"}}"#);
    refusal.is_met(&gateway, "echo", Manner { metadata, ..Manner::default() }, is_send).await;
    for wire in &WIRES {
        let client = wire.connect(&gateway, "echo").await;
        ask(&client, Operation::SendMessage, Manner::default()).await.expect("nothing is made up");
    }
}

#[tokio::test]
async fn policy_refuses_work_for_other_skills() {
    let gateway = Gateway::start(&format!("[policy.default]\nallowed_skills = [\"rag.query\"]\n{ECHO}"));
    let refusal = Refusal { gate: "policy", code: ErrorCode::PermissionDenied, reason: "SKILL_NOT_ALLOWED" };
    refusal.is_met(&gateway, "echo", Manner::default(), is_send).await;
}

#[tokio::test]
async fn routing_refuses_work_that_nobody_in_the_pool_can_do() {
    let member = Gateway::start(ECHO);
    let config = format!(
        "[routing]\nbreaker_failures = 1\nbreaker_cooldown_ms = 3600000\n[[agent]]\nname = \"pool\"\nkind = \"a2a\"\nmembers = [{{ name = \"one\", url = \"{}\" }}]\n",
        member.agent("echo")
    );
    let gateway = Gateway::start(&config);
    let client = WIRES[0].connect(&gateway, "pool").await;
    ask(&client, Operation::SendMessage, Manner::default()).await.expect("its member is there");
    drop(member);
    let refusal = Refusal { gate: "routing", code: ErrorCode::Unavailable, reason: "NO_PEER_AVAILABLE" };
    let error = ask(&client, Operation::SendMessage, Manner::default()).await.expect_err("it is gone");
    assert!(!refusal.is(&error), "nobody knows yet: {error}");
    refusal.is_met(&gateway, "pool", Manner::default(), is_send).await;
}

#[tokio::test]
async fn a_key_that_was_used_with_another_body_is_refused() {
    // In v0.1 the name that a client has made up for its task is the key, and what is new under it continues the task.
    for wire in WIRES.iter().filter(|wire| wire.0 != Version::V0_1) {
        let gateway = Gateway::start(ECHO);
        let client = wire.connect(&gateway, "echo").await;
        for operation in operations().into_iter().filter(|operation| is_send(*operation)) {
            let key = Some(if operation.is_streaming() { "key-2" } else { "key-1" });
            let say = |text| Manner { text: Some(text), idempotency_key: key, ..Manner::default() };
            ask(&client, operation, say("once")).await.expect("it is new");
            ask(&client, operation, say("once")).await.expect("it is the same again");
            let outcome = ask(&client, operation, say("else")).await;
            let is_refused = outcome.as_ref().is_err_and(|error| {
                error.code() == ErrorCode::InvalidParams && error.to_string().contains("Idempotency-Key")
            });
            assert!(is_refused, "{wire:?} {operation:?}: {outcome:?}");
        }
    }
}

/// Asks on every wire for every operation, so often that it must have been too often, and says whether that was refused.
async fn ask_too_often(gateway: &Gateway, mut told: impl FnMut(&Wire, Operation, bool, &[Error])) {
    let refusal = Refusal { gate: "rate", code: ErrorCode::ResourceExhausted, reason: "RATE_LIMITED" };
    for wire in &WIRES {
        let client = wire.connect(gateway, "echo").await;
        for operation in operations().into_iter().filter(|operation| wire.has(*operation)) {
            // As many as cannot have been let through, however slow this machine is; of cancels, which have room of their
            // own, no more on all wires together than that holds.
            let times = if operation == Operation::CancelTask { 5 } else { 20 };
            let mut asked = Vec::new();
            for _ in 0..times {
                let at_once = (0..8).map(|_| ask(&client, operation, Manner::default()));
                asked.extend(join_all(at_once).await.into_iter().filter_map(Result::err));
                if asked.iter().any(|error| refusal.is(error)) {
                    break;
                }
            }
            told(wire, operation, asked.iter().any(|error| refusal.is(error)), &asked);
        }
    }
}

#[tokio::test]
async fn who_asks_too_often_is_refused_everything_but_to_cancel() {
    let gateway = Gateway::start(&format!("[rate]\ncaller = {{ per_second = 1, burst = 1 }}\n{ECHO}"));
    ask_too_often(&gateway, |wire, operation, is_refused, asked| {
        let is_for = operation != Operation::CancelTask;
        assert_eq!(is_refused, is_for, "{wire:?} {operation:?}: {asked:?}");
    })
    .await;
}

#[tokio::test]
async fn an_address_that_asks_too_often_can_cancel() {
    // The cards are asked for as well, before anything else.
    let gateway = Gateway::start(&format!("[rate]\nsource = {{ per_second = 40, burst = 40 }}\n{ECHO}"));
    let refusal = Refusal { gate: "rate", code: ErrorCode::ResourceExhausted, reason: "RATE_LIMITED" };
    let mut clients = Vec::new();
    for wire in &WIRES {
        clients.push((wire, wire.connect(&gateway, "echo").await));
    }
    let mut was_refused = false;
    for (wire, client) in &clients {
        let at_once = (0..60).map(|_| ask(client, Operation::GetTask, Manner::default()));
        was_refused |=
            join_all(at_once).await.iter().any(|asked| asked.as_ref().is_err_and(|error| refusal.is(error)));
        let error =
            ask(client, Operation::CancelTask, Manner::default()).await.expect_err("there is no such task");
        assert_eq!(error.code(), ErrorCode::TaskNotFound, "{wire:?}: {error}");
    }
    assert!(was_refused);
}
