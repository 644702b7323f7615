//! Several agents behind one relay: each task stays with the one that has it, whatever happens to the others.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use chancery_sdk::protocol::{
    CancelTaskRequest, ContextId, GetTaskRequest, ListTasksRequest, PeerWatch, PoolWatch, ProtocolBinding,
    SendMessageRequest, SendMessageResponse, SubscribeToTaskRequest, Task, TaskId, TaskState,
};
use chancery_sdk::store::{Store, StoreLimits};
use chancery_sdk::testing::{Peer, Spawned};
use chancery_sdk::{
    AgentSpec, Call, Client as Caller, Endpoint, Error, ErrorCode, Event, Outcome, Part, Principal, Relay,
    Runtime, Turn,
};
use futures_util::StreamExt;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::support::{agent, call, follow_up, message, until, within};

/// Counts what a chosen peer is said to do.
#[derive(Debug, Default)]
struct Ears {
    heard: AtomicUsize,
    answered: AtomicUsize,
    broken: AtomicUsize,
}

impl PeerWatch for Ears {
    fn heard(&self) {
        self.heard.fetch_add(1, Ordering::SeqCst);
    }

    fn answered(&self) {
        self.answered.fetch_add(1, Ordering::SeqCst);
    }

    fn broke_off(&self) {
        self.broken.fetch_add(1, Ordering::SeqCst);
    }
}

/// Knows which peer is said to have which open task.
#[derive(Debug, Default)]
struct Register(Mutex<Vec<(TaskId, Option<ContextId>, String)>>);

impl PoolWatch for Register {
    fn began(&self, principal: &Principal, task: &TaskId, context: Option<&ContextId>, peer: &str) {
        assert_eq!(&*principal.id, "me");
        let mut known = self.0.lock();
        known.retain(|(id, ..)| id != task);
        known.push((task.clone(), context.cloned(), peer.to_owned()));
    }

    fn ended(&self, _: &Principal, task: &TaskId) {
        self.0.lock().retain(|(id, ..)| id != task);
    }
}

impl Register {
    fn peer_of(&self, task: &TaskId) -> Option<String> {
        self.0.lock().iter().find(|(id, ..)| id == task).map(|(.., peer)| peer.clone())
    }
}

/// Does as it is told, and says who it is.
fn member(name: &'static str, gate: &Arc<Semaphore>) -> AgentSpec {
    let gate = gate.clone();
    agent(move |turn: Turn| {
        let gate = gate.clone();
        async move {
            match (turn.task().is_some(), turn.text().as_ref()) {
                (false, "ask") => Ok(turn.ask("Which one?")),
                (false, "work") => {
                    let mut writer = turn.begin_artifact("pieces");
                    for at in 0..4 {
                        gate.acquire().await.expect("an open gate").forget();
                        writer.append(Part::text(format!("{name} {at}"))).await?;
                    }
                    Ok(Outcome::completed())
                }
                (_, said) => Ok(Outcome::text(format!("{name} heard {said}"))),
            }
        }
    })
}

async fn spawn(name: &'static str, gate: &Arc<Semaphore>) -> Spawned {
    chancery_sdk::testing::spawn(member(name, gate)).await
}

async fn client(url: &str) -> Caller {
    let limit = Duration::from_secs(5);
    let client = Caller::builder().request_timeout(limit).stream_idle_timeout(limit).retries(0);
    client.connect(url).await.expect("the agent has a card")
}

/// The tasks that an agent has, by its own account.
async fn tasks_at(url: &str) -> Vec<Task> {
    client(url).await.list(ListTasksRequest::default()).await.expect("its tasks").tasks
}

async fn pool(peers: &[(&'static str, &str)]) -> Relay {
    let mut clients = Vec::new();
    for (name, url) in peers {
        clients.push((*name, client(url).await));
    }
    Relay::pool("pool", clients).await.expect("a card").patience(Duration::from_millis(500))
}

fn start(relay: &Relay) -> Runtime {
    relay.start(Arc::new(Store::memory()), None)
}

/// A message for a peer.
fn to(peer: &str, message: &Value) -> Call<Box<SendMessageRequest>> {
    let mut call = call::<Box<SendMessageRequest>>("me", &json!({ "message": message }));
    call.context.peer = Some(peer.into());
    call
}

fn about<R: serde::de::DeserializeOwned>(task: &TaskId) -> Call<R> {
    call("me", &json!({"id": task.as_str()}))
}

async fn said(
    relay: &Runtime,
    call: Call<Box<SendMessageRequest>>,
) -> Result<(TaskId, TaskState, String), Error> {
    let answer = within("an answer", relay.send_message(call)).await?;
    let SendMessageResponse::Task(view) = answer else { panic!("a task was to come") };
    let task = view.task.value()?;
    let text = task.status.message.as_ref().map(|message| message.text().into_owned());
    let made = task.artifacts.first().map(|made| made.parts.iter().filter_map(Part::as_text).collect());
    Ok((task.id.clone(), task.status.state, made.or(text).unwrap_or_default()))
}

fn json_of(event: &Event) -> String {
    String::from_utf8_lossy(&event.json).into_owned()
}

async fn state_of(relay: &Runtime, task: &TaskId) -> TaskState {
    relay.get_task(about::<GetTaskRequest>(task)).await.expect("the task").task.state()
}

#[tokio::test]
async fn a_new_task_goes_where_the_context_says_and_what_follows_goes_there_too() {
    let gate = Arc::new(Semaphore::new(0));
    let (north, south) = (spawn("north", &gate).await, spawn("south", &gate).await);
    let register = Arc::new(Register::default());
    let relay = pool(&[("north", north.url()), ("south", south.url())]).await.watched_by(register.clone());
    let relay = start(&relay);
    for name in ["north", "south"] {
        let (task, state, _) = said(&relay, to(name, &message("ask"))).await.expect("a question");
        assert_eq!(state, TaskState::InputRequired);
        assert_eq!(register.peer_of(&task).as_deref(), Some(name));
        // Whatever else is chosen for it.
        let answer = follow_up(task.as_str(), "this");
        let (_, state, text) = said(&relay, to("north", &answer)).await.expect("an answer");
        assert_eq!((state, text), (TaskState::Completed, format!("{name} heard this")));
        assert_eq!(register.peer_of(&task), None);
    }
    let first = call::<Box<SendMessageRequest>>("me", &json!({"message": message("hello")}));
    assert_eq!(said(&relay, first).await.expect("an answer").2, "north heard hello");
}

#[tokio::test]
async fn a_call_that_moves_to_another_member_is_said_to_be_there() {
    let south = spawn("south", &Arc::new(Semaphore::new(0))).await;
    let register = Arc::new(Register::default());
    let pool = pool(&[("south", south.url())]).await.watched_by(register.clone());
    let address = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let nobody = format!("http://{}", address.expect("a port where nobody listens"));
    pool.peers().put("north", Caller::builder().retries(0).connect_later(nobody).expect("a URL"));
    let (task, state, _) =
        said(&start(&pool), to("north", &message("ask"))).await.expect("a question of the other member");
    assert_eq!((state, register.peer_of(&task).as_deref()), (TaskState::InputRequired, Some("south")));
}

#[tokio::test]
async fn looks_subscriptions_and_cancels_go_to_who_has_the_task() {
    let gate = Arc::new(Semaphore::new(1));
    let (north, south) = (spawn("north", &gate).await, spawn("south", &gate).await);
    let relay = start(&pool(&[("north", north.url()), ("south", south.url())]).await);
    let mut begun = to("south", &message("work"));
    begun.request.configuration.get_or_insert_default().return_immediately = true;
    let (task, ..) = said(&relay, begun).await.expect("a task");
    let mut events = relay.subscribe_to_task(about::<SubscribeToTaskRequest>(&task)).await.expect("a stream");
    gate.add_permits(1);
    until("two pieces", || async {
        let known = relay.get_task(about::<GetTaskRequest>(&task)).await.expect("the task").task.value();
        known.expect("a task").artifacts.first().is_some_and(|made| made.parts.len() == 2)
    })
    .await;
    let canceled = relay.cancel_task(about::<CancelTaskRequest>(&task)).await.expect("it is canceled");
    assert_eq!(canceled.task.state(), TaskState::Canceled);
    while let Some(event) = within("the end of the stream", events.next()).await {
        event.expect("an event");
    }
    let there = tasks_at(south.url()).await;
    assert_eq!(there.iter().map(|task| task.status.state).collect::<Vec<_>>(), [TaskState::Canceled]);
    assert!(tasks_at(north.url()).await.is_empty(), "it never was there");
}

#[tokio::test]
async fn after_a_restart_each_task_is_still_with_the_agent_that_has_it() {
    let gate = Arc::new(Semaphore::new(0));
    let (north, south) = (spawn("north", &gate).await, spawn("south", &gate).await);
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("relay.db").display());
    let open = || Arc::new(Store::open(&url, StoreLimits::for_url(&url)).expect("the store opens"));
    let peers = [("north", north.url()), ("south", south.url())];
    let (working, parked) = {
        let store = open();
        let relay = pool(&peers).await.start(store.clone(), None);
        let mut begun = to("south", &message("work"));
        begun.request.configuration.get_or_insert_default().return_immediately = true;
        let working = said(&relay, begun).await.expect("a task").0;
        let parked = said(&relay, to("south", &message("ask"))).await.expect("a question").0;
        drop(relay);
        until("letting go of the store", || async { Arc::strong_count(&store) == 1 }).await;
        store.close();
        (working, parked)
    };
    gate.add_permits(4);
    let register = Arc::new(Register::default());
    let relay = pool(&peers).await.watched_by(register.clone()).start(open(), None);
    assert_eq!(relay.recover().await.expect("it recovers"), 0, "nothing has failed");
    until("the end of the task", || async { state_of(&relay, &working).await == TaskState::Completed }).await;
    until("the telling", || async { register.peer_of(&working).is_none() }).await;
    let answer = follow_up(parked.as_str(), "that");
    let (_, state, text) = said(&relay, to("north", &answer)).await.expect("an answer");
    assert_eq!((state, text.as_str()), (TaskState::Completed, "south heard that"));
}

fn whole(state: &str, text: &str) -> Value {
    let artifacts = json!([{"artifactId": "a", "parts": [{"text": text}]}]);
    json!({"id": "t", "contextId": "c", "status": {"state": state}, "artifacts": artifacts})
}

#[tokio::test]
async fn agents_that_give_the_same_id_away_have_tasks_of_their_own_here() {
    let is_done = Arc::new(AtomicBool::new(false));
    let done = is_done.clone();
    let north = Peer::script()
        .card(ProtocolBinding::JsonRpc)
        .answer_with(move |heard| match heard.json()["method"].as_str() {
            Some("SendMessage") => heard.result(&json!({"task": whole("TASK_STATE_WORKING", "north")})),
            Some("GetTask") if done.load(Ordering::SeqCst) => {
                heard.result(&whole("TASK_STATE_COMPLETED", "north"))
            }
            Some("GetTask") => heard.result(&whole("TASK_STATE_WORKING", "north")),
            _ => heard.error(ErrorCode::UnsupportedOperation),
        })
        .start()
        .expect("a port");
    let south = Peer::script()
        .card(ProtocolBinding::JsonRpc)
        .answer_with(|heard| match heard.json()["method"].as_str() {
            Some("SendMessage") => heard.result(&json!({"task": whole("TASK_STATE_COMPLETED", "south")})),
            _ => heard.error(ErrorCode::UnsupportedOperation),
        })
        .start()
        .expect("a port");
    let relay = start(&pool(&[("north", north.url()), ("south", south.url())]).await);
    let mut begun = to("north", &message("go"));
    begun.request.configuration.get_or_insert_default().return_immediately = true;
    let (first, _, text) = said(&relay, begun).await.expect("a task");
    assert_eq!(text, "north");
    let (second, state, text) = said(&relay, to("south", &message("go"))).await.expect("a task");
    assert_eq!((state, text.as_str()), (TaskState::Completed, "south"));
    assert_ne!(first, second);
    assert_eq!(state_of(&relay, &first).await, TaskState::Working);
    assert_eq!(relay.running_turns(), 1);
    is_done.store(true, Ordering::SeqCst);
    until("the end of the first", || async { state_of(&relay, &first).await == TaskState::Completed }).await;
    let kept = relay.get_task(about::<GetTaskRequest>(&first)).await.expect("the task").task.value();
    assert_eq!(kept.expect("a task").artifacts[0].parts, [Part::text("north")]);
}

/// The name of the test that is also the process that gets killed.
const KILLED: &str = "pool::an_agent_that_is_killed_in_the_middle_of_a_stream_takes_only_its_own_tasks_along";
const CHILD: &str = "CHANCERY_TEST_MEMBER";

/// An agent in a process of its own, that comes as far as two pieces.
fn process() -> (Child, String) {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", KILLED, "--nocapture"])
        .env(CHILD, "")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut urls = lines.map_while(Result::ok).filter_map(|line| Some(line.strip_prefix("at ")?.to_owned()));
    let url = urls.next().expect("it says where it is");
    (child, url)
}

async fn serve_until_killed() -> ! {
    let north = spawn("north", &Arc::new(Semaphore::new(2))).await;
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nat {}", north.url()).and_then(|()| out.flush()).expect("it can be told");
    drop(out);
    std::future::pending().await
}

#[tokio::test]
async fn an_agent_that_is_killed_in_the_middle_of_a_stream_takes_only_its_own_tasks_along() {
    if std::env::var(CHILD).is_ok() {
        serve_until_killed().await;
    }
    let (mut north, url) = process();
    let south = spawn("south", &Arc::new(Semaphore::new(0))).await;
    let register = Arc::new(Register::default());
    let relay = pool(&[("north", &url), ("south", south.url())]).await.watched_by(register.clone());
    let relay = start(&relay);
    let ears = Arc::new(Ears::default());
    let mut begun = to("north", &message("work"));
    begun.context.peer_watch = Some(ears.clone());
    let mut events = relay.send_streaming_message(begun).await.expect("a stream");
    let mut pieces = 0;
    while pieces < 2 {
        let event: Event = within("a piece", events.next()).await.expect("a piece").expect("an event");
        pieces += usize::from(json_of(&event).contains("north "));
    }
    assert!(ears.heard.load(Ordering::SeqCst) > 0);
    assert_eq!(ears.broken.load(Ordering::SeqCst), 0);
    north.kill().expect("it can be killed");
    north.wait().expect("it ends");
    let mut last = None;
    while let Some(event) = within("the end of the stream", events.next()).await {
        last = Some(event.expect("an event"));
    }
    // It was asked again for as long as there was patience, and the task failed then.
    assert!(json_of(&last.expect("an end")).contains("TASK_STATE_FAILED"));
    assert!(ears.broken.load(Ordering::SeqCst) >= 2, "{ears:?}");
    assert!(register.0.lock().is_empty());
    let ears = Arc::new(Ears::default());
    let mut next = to("north", &message("hello"));
    next.context.peer_watch = Some(ears.clone());
    assert_eq!(said(&relay, next).await.expect("the other one answers").2, "south heard hello");
    assert_eq!((ears.heard.load(Ordering::SeqCst), ears.broken.load(Ordering::SeqCst)), (0, 1));
    let ears = Arc::new(Ears::default());
    let mut other = to("south", &message("hello"));
    other.context.peer_watch = Some(ears.clone());
    assert_eq!(said(&relay, other).await.expect("an answer").2, "south heard hello");
    assert_eq!((ears.answered.load(Ordering::SeqCst), ears.broken.load(Ordering::SeqCst)), (1, 0));
}

#[tokio::test]
async fn agents_come_and_go_while_the_relay_runs() {
    let gate = Arc::new(Semaphore::new(0));
    let (north, south) = (spawn("north", &gate).await, spawn("south", &gate).await);
    let pool = pool(&[("north", north.url())]).await;
    let (peers, relay) = (pool.peers(), start(&pool));
    let early = said(&relay, to("south", &message("hello"))).await.expect_err("not there yet");
    assert_eq!(early.code(), ErrorCode::Unavailable);
    peers.put("south", client(south.url()).await);
    assert_eq!(said(&relay, to("south", &message("hello"))).await.expect("an answer").2, "south heard hello");
    let parked = said(&relay, to("north", &message("ask"))).await.expect("a question").0;
    assert!(peers.remove("north") && !peers.remove("north"));
    assert_eq!(peers.names().iter().map(|name| &**name).collect::<Vec<_>>(), ["south"]);
    for lost in [message("hello"), follow_up(parked.as_str(), "this")] {
        assert_eq!(said(&relay, to("north", &lost)).await.expect_err("gone").code(), ErrorCode::Unavailable);
    }
    // It is not lost, and nobody else gets what is said to it.
    peers.put("north", client(north.url()).await);
    let answer = said(&relay, to("south", &follow_up(parked.as_str(), "this"))).await.expect("an answer");
    assert_eq!(answer.2, "north heard this");
}

#[tokio::test]
async fn only_who_chose_a_peer_hears_of_it() {
    let gate = Arc::new(Semaphore::new(0));
    let (north, south) = (spawn("north", &gate).await, spawn("south", &gate).await);
    let relay = start(&pool(&[("north", north.url()), ("south", south.url())]).await);
    let (task, ..) = said(&relay, to("south", &message("ask"))).await.expect("a question");
    let ears = Arc::new(Ears::default());
    let mut elsewhere = to("north", &follow_up(task.as_str(), "this"));
    elsewhere.context.peer_watch = Some(ears.clone());
    assert_eq!(said(&relay, elsewhere).await.expect("an answer").2, "south heard this");
    assert_eq!((ears.heard.load(Ordering::SeqCst), ears.answered.load(Ordering::SeqCst)), (0, 0));
}
