//! Agents that do one thing at a time.

use chancery_protocol::Message;
use chancery_sdk::{Agent, Cancellation, Error, Failure, Outcome, TaskHandle, Turn, WhileRunning};
use tokio::sync::Semaphore;

/// Has an agent run one turn at a time. The others wait, in the order in which they came; their time counts.
pub(super) struct Singleton<A> {
    agent: A,
    place: Semaphore,
}

impl<A> Singleton<A> {
    pub(super) fn new(agent: A) -> Self {
        Self { agent, place: Semaphore::new(1) }
    }
}

impl<A: Agent> Agent for Singleton<A> {
    async fn run(&self, turn: Turn) -> Result<Outcome, Failure> {
        // It is never closed.
        let _place = self.place.acquire().await.ok();
        self.agent.run(turn).await
    }

    fn opens_task(&self, message: &Message) -> bool {
        self.agent.opens_task(message)
    }

    fn while_running(&self) -> WhileRunning {
        self.agent.while_running()
    }

    fn works_elsewhere(&self) -> bool {
        self.agent.works_elsewhere()
    }

    async fn cancel(&self, task: TaskHandle) -> Result<Cancellation, Error> {
        self.agent.cancel(task).await
    }
}
