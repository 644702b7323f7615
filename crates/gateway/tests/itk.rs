//! The agent for the A2A integration test kit, sent from one of its kind to the next, as the kit does it.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing where it must be has failed")]

#[path = "../examples/itk/agent.rs"]
mod agent;
#[path = "../examples/itk/instruction.rs"]
mod instruction;

use chancery_sdk::egress::Egress;
use chancery_sdk::{Client, Server};
use instruction::{
    Behavior, CallAgent, Instruction, Nothing, PushNotification, ReturnResponse, SeriesOfSteps, Step,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

const TRANSPORTS: [&str; 3] = ["jsonrpc", "http_json", "grpc"];

/// Starts an agent, and gives its URL.
async fn start() -> String {
    let egress = Egress::default().allow("127.0.0.0/8".parse().unwrap());
    let server = Server::builder().agent(agent::spec(egress.clone())).jsonrpc_path("/jsonrpc").egress(egress);
    let server = server.bind("127.0.0.1:0").await.unwrap();
    let url = server.url().to_owned();
    tokio::spawn(server.run());
    url
}

fn say(response: &str) -> Instruction {
    let answer = ReturnResponse { response: response.to_owned(), hold_task: false };
    Instruction { step: Some(Step::ReturnResponse(answer)) }
}

fn hold(response: &str) -> Instruction {
    let answer = ReturnResponse { response: response.to_owned(), hold_task: true };
    Instruction { step: Some(Step::ReturnResponse(answer)) }
}

fn both(first: Instruction, second: Instruction) -> Instruction {
    let steps = SeriesOfSteps { instructions: vec![first, second], response_generator: 1 };
    Instruction { step: Some(Step::Steps(steps)) }
}

fn call(
    url: &str,
    transport: &str,
    behavior: Behavior,
    streaming: bool,
    instruction: Instruction,
) -> Instruction {
    Instruction {
        step: Some(Step::CallAgent(Box::new(CallAgent {
            transport: transport.to_owned(),
            agent_card_uri: url.to_owned(),
            instruction: Some(Box::new(instruction)),
            streaming,
            behavior: Some(behavior),
        }))),
    }
}

/// What an agent answers to an instruction.
async fn answer(url: &str, instruction: Instruction) -> String {
    let client = Client::connect(url).await.unwrap();
    client.send(instruction.into_message()).await.unwrap().text()
}

#[tokio::test]
async fn a_trace_comes_back_through_three_agents() {
    let [one, two, three] = [start().await, start().await, start().await];
    for transport in TRANSPORTS {
        for streaming in [false, true] {
            let send = || Behavior::SendMessage(Nothing {});
            let last = call(&three, transport, send(), streaming, say("three"));
            let middle = call(&two, transport, send(), streaming, both(say("two"), last));
            assert_eq!(
                answer(&one, both(say("one"), middle)).await,
                "one\ntwo\nthree",
                "{transport} {streaming}"
            );
        }
    }
}

#[tokio::test]
async fn a_held_task_is_watched_again_and_stopped() {
    let [one, two] = [start().await, start().await];
    for transport in TRANSPORTS {
        let behavior = Behavior::Resubscribe(Nothing {});
        let said = answer(&one, call(&two, transport, behavior, true, hold("held"))).await;
        assert_eq!(said.trim(), "held", "{transport}");
    }
    let tasks = Client::connect(&two).await.unwrap().list(Default::default()).await.unwrap().tasks;
    assert_eq!(tasks.len(), TRANSPORTS.len());
    assert!(tasks.iter().all(|task| task.status.state == chancery_sdk::TaskState::Canceled), "{tasks:?}");
}

#[tokio::test]
async fn a_notification_says_what_the_answer_says() {
    let [one, two] = [start().await, start().await];
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = listener.local_addr().unwrap().to_string();
    let receiver = tokio::spawn(async move {
        loop {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut heard = vec![0; 1 << 16];
            let length = connection.read(&mut heard).await.unwrap();
            let heard = String::from_utf8_lossy(&heard[..length]).into_owned();
            connection.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").await.unwrap();
            if heard.contains("pushed") && heard.contains("TASK_STATE_COMPLETED") {
                return heard;
            }
        }
    });
    let behavior = Behavior::PushNotification(PushNotification { url });
    let said = answer(&one, call(&two, "jsonrpc", behavior, false, say("pushed"))).await;
    assert_eq!(said, "pushed");
    let heard = receiver.await.unwrap();
    assert!(heard.starts_with("POST /notifications "), "{heard}");
    assert!(heard.contains("itk-token"), "{heard}");
}
