//! An agent that dies in mid-task fails its tasks, when it has been away for as long as there is patience. No key sets how long
//! that is, so these tests wait for what it is by default, half a minute.

use futures_util::future::join_all;
use tokio::task::JoinHandle;

use crate::agents::{Hostile, RemoteAgent, SPOKEN, section};
use crate::caller::{Caller, Reading, Reply};
use crate::gateway::Gateway;
use crate::records::{Recorded, settled};
use crate::{judge, until};

const PRICED: &str = "price = { per_call = 0.01 }";

/// Two calls that wait for an agent: a send and a stream.
struct Waiting {
    name: String,
    send: JoinHandle<anyhow::Result<Reply>>,
    stream: Reading,
}

impl Waiting {
    fn begin(gateway: &Gateway, name: &str, text: &str) -> Self {
        let caller = Caller::new(gateway, name);
        Self { name: name.to_owned(), send: caller.send_beside(text), stream: caller.stream(text) }
    }

    /// Both are told in time, and both are charged. Gives what is wrong.
    async fn end(self, gateway: &Gateway) -> Vec<String> {
        let Self { name, send, stream } = self;
        let mut wrong = Vec::new();
        match tokio::time::timeout(crate::PATIENCE, send).await.map(Result::unwrap) {
            Ok(Ok(sent)) if sent.state() == "TASK_STATE_FAILED" || !sent.body["error"].is_null() => {}
            other => wrong.push(format!("{name}, a send that waits: {other:?}")),
        }
        match stream.end().await {
            Ok(told) if told.contains("TASK_STATE_FAILED") => {}
            other => wrong.push(format!("{name}, a stream: {other:?}")),
        }
        let charged: u64 = settled(gateway, &name, 2).await.iter().map(Recorded::charged).sum();
        if charged != 20_000 {
            wrong.push(format!("{name}: {charged} millionths were charged for two calls at a cent"));
        }
        wrong
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_dies_fails_its_tasks_in_time() {
    let mut hostile = Hostile::start().await;
    let gateway = Gateway::start(&hostile.sections("far", "-", PRICED));
    let begin = |name: String| Waiting::begin(&gateway, &name, &format!("hold never {name}"));
    let waiting: Vec<_> = SPOKEN.iter().map(|spoken| begin(spoken.name("far"))).collect();
    let works = |name: String| SPOKEN.iter().any(|spoken| hostile.of(*spoken).count(&name) == 2);
    until("all of them work", || SPOKEN.iter().all(|spoken| works(spoken.name("far")))).await;
    until("the streams have begun", || waiting.iter().all(|one| one.stream.seen() > 0)).await;
    for spoken in [SPOKEN[0], SPOKEN[3]] {
        hostile.of_mut(spoken).kill().await;
    }
    judge(&join_all(waiting.into_iter().map(|one| one.end(&gateway))).await.concat());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_on_another_sdk_that_dies_fails_its_tasks_in_time() {
    let mut official = RemoteAgent::official().await;
    let sections: String = official.iter().map(|(name, agent)| section(name, agent.url(), PRICED)).collect();
    let gateway = Gateway::start(&sections);
    let waiting: Vec<_> =
        official.iter().map(|(name, _)| Waiting::begin(&gateway, name, "tck-cancel")).collect();
    until("all of them work", || official.iter().all(|(_, agent)| agent.count("") == 2)).await;
    until("the streams have begun", || waiting.iter().all(|one| one.stream.seen() > 0)).await;
    for (_, agent) in &mut official {
        agent.kill().await;
    }
    judge(&join_all(waiting.into_iter().map(|one| one.end(&gateway))).await.concat());
}
