//! What the control plane needs done: stops, records, timers. It never waits; this task does it for it.

use std::sync::Arc;
use std::time::Duration;

use chancery_control::{Booked, Hands, Millis, Plane, Stop};
use chancery_protocol::{Amount, BoxFuture, Edge, HopId, Principal, TaskId, Timestamp};
use chancery_sdk::Service;
use chancery_store::{Realms, RootSpend, Scope, Store};
use tokio::sync::{Notify, Semaphore, SetOnce, mpsc, oneshot};
use tokio_util::task::TaskTracker;

use super::access;
use super::clock::LedgerClock;
use crate::metrics::Metrics;

/// How many things may wait to be done. What comes then is done by a task of its own.
const WAITING: usize = 4096;

/// How many tasks are stopped at a time. An agent elsewhere may take long to hear of it.
const STOPS: usize = 64;

/// The gateway's side of the control plane's ports.
pub(super) struct Helper {
    store: Arc<Store>,
    clock: LedgerClock,
    jobs: mpsc::Sender<Job>,
    due: Arc<Notify>,
    service: Arc<SetOnce<Service>>,
    metrics: Arc<Metrics>,
    /// Records that found no place in the queue.
    beside: TaskTracker,
}

enum Job {
    Stop(Stop),
    Record(Box<Edge>),
    /// Everything before this has been done.
    Tell(oneshot::Sender<()>),
}

/// What [`Helper`] leaves to be done.
pub(super) struct Worker {
    jobs: mpsc::Receiver<Job>,
    due: Arc<Notify>,
    store: Arc<Store>,
    service: Arc<SetOnce<Service>>,
    stops: Arc<Semaphore>,
}

impl Helper {
    pub(super) fn new(store: Arc<Store>, metrics: Arc<Metrics>) -> (Self, Worker) {
        let (jobs, queue) = mpsc::channel(WAITING);
        let (due, service) = (Arc::new(Notify::new()), Arc::new(SetOnce::new()));
        let worker = Worker {
            jobs: queue,
            due: due.clone(),
            store: store.clone(),
            service: service.clone(),
            stops: Arc::new(Semaphore::new(STOPS)),
        };
        let clock = LedgerClock::start(Timestamp::now(), store.clock().millis());
        (Self { store, clock, jobs, due, service, metrics, beside: TaskTracker::new() }, worker)
    }

    /// Waits until all records that were given so far are written.
    pub(super) async fn flush(&self) {
        let (tell, told) = oneshot::channel();
        if self.jobs.send(Job::Tell(tell)).await.is_ok() {
            let _ = told.await;
        }
        self.beside.close();
        self.beside.wait().await;
    }

    /// Says who serves, once that is known.
    pub(super) fn serves(&self, service: Service) {
        let _ = self.service.set(service);
    }

    fn give(&self, job: Job) {
        if let Err(mpsc::error::TrySendError::Full(job)) = self.jobs.try_send(job) {
            let (store, service) = (self.store.clone(), self.service.clone());
            let is_record = matches!(job, Job::Record(_));
            let run = async move { job.run(&store, &service).await };
            match is_record {
                true => drop(self.beside.spawn(run)),
                // To stop a task elsewhere may take long; nobody waits for that.
                false => drop(tokio::spawn(run)),
            }
        }
    }
}

impl Hands for Helper {
    fn now(&self) -> Millis {
        self.clock.now()
    }

    fn stop(&self, stop: Stop) {
        self.give(Job::Stop(stop));
    }

    fn record(&self, edge: Box<Edge>) {
        self.give(Job::Record(edge));
    }

    fn booked(&self, call: &Booked<'_>) {
        self.metrics.booked(call);
        access::booked(call, self.now());
    }

    fn wake(&self) {
        self.due.notify_one();
    }

    fn task_of_key(
        &self,
        principal: Principal,
        agent: Arc<str>,
        key: String,
    ) -> BoxFuture<'static, Option<TaskId>> {
        let store = self.store.clone();
        let scope = Scope { realm: principal.realm, owner: principal.id, agent };
        Box::pin(async move { store.task_of_key(&scope, &key).await.ok().flatten() })
    }

    fn charged_under(&self, root: HopId) -> BoxFuture<'static, Option<Amount>> {
        let store = self.store.clone();
        Box::pin(async move {
            let spend = store.spend_of_root(&Realms::All, root).await.inspect_err(|error| {
                tracing::error!(%root, %error, "what was spent under root {root} cannot be read");
            });
            let Some(RootSpend { charged, held, .. }) = spend.ok()? else { return Some(Amount::default()) };
            Some(Amount {
                micro_usd: charged.micro_usd.saturating_add(held.micro_usd),
                tokens: charged.tokens.saturating_add(held.tokens),
                tasks: charged.tasks.saturating_add(held.tasks),
            })
        })
    }
}

impl std::fmt::Debug for Helper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Helper").finish_non_exhaustive()
    }
}

impl Worker {
    /// Does what comes, and has the plane do what is due, until nobody can ask for more.
    pub(super) async fn run(mut self, plane: Arc<Plane>) {
        loop {
            let now = plane.hands.now();
            let next = plane.next_tick().map(|due| due.since(now).max(Duration::from_millis(1)));
            let timer = async {
                match next {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                job = self.jobs.recv() => match job {
                    Some(Job::Stop(stop)) => _ = tokio::spawn(self.stop(stop)),
                    Some(job) => job.run(&self.store, &self.service).await,
                    None => return,
                },
                () = self.due.notified() => {}
                () = timer => plane.tick(),
            }
        }
    }

    /// Stops a task. What is to be stopped is open, and is stopped once, so there are not more of these than open calls.
    fn stop(&self, stop: Stop) -> impl Future<Output = ()> + 'static {
        let (store, service, stops) = (self.store.clone(), self.service.clone(), self.stops.clone());
        async move {
            let _place = stops.acquire().await;
            Job::Stop(stop).run(&store, &service).await;
        }
    }
}

impl Job {
    async fn run(self, store: &Store, service: &SetOnce<Service>) {
        match self {
            Self::Tell(tell) => drop(tell.send(())),
            Self::Record(edge) => {
                let hop = edge.hop;
                if let Err(error) = store.put_edge(edge).await {
                    tracing::error!(%hop, %error, "the record of call {hop} is lost");
                }
            }
            Self::Stop(stop) => {
                // What an earlier process has left to be stopped is known before anybody serves.
                carry_out(service.wait().await, &stop).await;
            }
        }
    }
}

async fn carry_out(service: &Service, stop: &Stop) {
    let Stop { agent, principal, task, why } = stop;
    let stopped = match why {
        Some(why) => service.stop_task(agent, principal, task, why).await,
        None => service.cancel_task(agent, principal, task).await,
    };
    match stopped {
        Ok(_) => tracing::info!(task.id = %task, agent = &**agent, why, "stopped task {task}"),
        Err(error) => {
            tracing::warn!(task.id = %task, agent = &**agent, %error, "task {task} is not stopped");
        }
    }
}
