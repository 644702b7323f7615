//! Our client, going through the scenarios against anybody's server.

mod push;
mod tasks;
mod texts;
mod webhook;
mod witness;

use std::fmt::Debug;
use std::time::Duration;

use chancery_sdk::egress::Egress;
use chancery_sdk::protocol::{SendMessageConfiguration, SendMessageRequest, SendMessageResponse};
use chancery_sdk::{Client, ErrorCode, Message, Task, TaskState};
use tokio::time::timeout;

use crate::cell::{Outcomes, all_failed};
use crate::scenario::{Outcome, Scenario};
use crate::wire::Wire;
use witness::Witness;

/// What came of a step, or why the scenario has failed.
type Step<T = ()> = Result<T, Complaint>;

/// Why a scenario has failed.
struct Complaint(String);

/// Our client of one server, on one wire.
struct Caller {
    client: Client,
    wire: Wire,
}

/// For how long a scenario may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// No server has a task of this id.
const UNKNOWN_TASK: &str = "00000000-0000-4000-8000-000000000000";

/// Goes through the scenarios that the other side can do, whatever becomes of each.
pub(crate) async fn run(url: &str, wire: Wire, can: impl Fn(Scenario) -> bool) -> Outcomes {
    let caller = match connect(url, wire).await {
        Ok(client) => Caller { client, wire },
        Err(why) => return all_failed(&why),
    };
    let mut outcomes = all_failed("not asked for");
    for (scenario, outcome) in Scenario::ALL.into_iter().zip(&mut outcomes) {
        if !can(scenario) {
            continue;
        }
        *outcome = match timeout(PATIENCE, caller.act(scenario)).await {
            Ok(Ok(())) => Outcome::Ok,
            Ok(Err(Complaint(why))) => Outcome::Failed(why),
            Err(_) => Outcome::Failed(format!("nothing more came for {} s", PATIENCE.as_secs())),
        };
    }
    outcomes
}

/// A client that speaks this and nothing else.
pub(crate) async fn connect(url: &str, wire: Wire) -> Result<Client, String> {
    // A card of this machine may name other ports of it, as it does for gRPC.
    let egress = Egress::default().allow("127.0.0.0/8".parse().unwrap());
    let client = Client::builder().egress(egress).prefer([wire.binding.of_protocol()]);
    let client = client.version(wire.version.of_protocol()).interceptor(Witness(wire.binding));
    let connected = client.connect(url).await;
    connected.map_err(|error| format!("cannot connect: {}", Complaint::from(error).0))
}

// === impl Complaint ===

impl<E: std::error::Error> From<E> for Complaint {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        Self(text)
    }
}

fn expect(holds: bool, complaint: impl Into<String>) -> Step {
    if holds { Ok(()) } else { Err(Complaint(complaint.into())) }
}

#[allow(clippy::needless_pass_by_value, reason = "so that literals can be written as they are")]
fn expect_equal<T: PartialEq + Debug>(what: &str, actual: T, wanted: T) -> Step {
    expect(actual == wanted, format!("{what}: {actual:?}, not {wanted:?}"))
}

fn expect_state(task: &Task, wanted: TaskState) -> Step {
    expect_equal("state", task.status.state, wanted)
}

/// Expects an error with this code.
fn expect_refusal<T: Debug>(answer: Result<T, chancery_sdk::ClientError>, wanted: ErrorCode) -> Step {
    match answer {
        Ok(answer) => Err(Complaint(format!("no {wanted:?} but {answer:?}"))),
        Err(error) if error.code() == Some(wanted) => Ok(()),
        Err(error) => Err(Complaint(format!("no {wanted:?} but {}", Complaint::from(error).0))),
    }
}

fn saying(text: &str) -> SendMessageRequest {
    text.into()
}

/// What is said next in a task.
fn reply(task: &Task, text: &str) -> SendMessageRequest {
    let mut message = Message::user(text).in_task(task.id.clone());
    message.context_id = task.context_id.clone();
    message.into()
}

fn configured(
    mut request: SendMessageRequest,
    configuration: SendMessageConfiguration,
) -> SendMessageRequest {
    request.configuration = Some(configuration);
    request
}

// === impl Caller ===

impl Caller {
    async fn act(&self, scenario: Scenario) -> Step {
        match scenario {
            Scenario::Card => self.card().await,
            Scenario::Send => self.send().await,
            Scenario::Message => self.message().await,
            Scenario::Stream => self.stream().await,
            Scenario::InputRequired => self.input_required().await,
            Scenario::Cancel => self.cancel().await,
            Scenario::Get => self.get().await,
            Scenario::List => self.list().await,
            Scenario::Subscribe => self.subscribe().await,
            Scenario::Push => self.push().await,
            Scenario::Errors => self.errors().await,
            Scenario::Text => self.text().await,
            Scenario::Chunks => self.chunks().await,
            Scenario::FollowUp => self.follow_up().await,
            Scenario::Failure => self.failure().await,
        }
    }

    /// Sends something whose answer must be a task.
    async fn task(&self, request: SendMessageRequest) -> Step<Task> {
        match self.client.send(request).await? {
            SendMessageResponse::Task(task) => Ok(task),
            SendMessageResponse::Message(message) => Err(Complaint(format!("no task but {message:?}"))),
        }
    }
}
