//! An agent elsewhere, in a process of its own, that is killed, started again, cut off and slow while somebody streams from it.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chancery_sdk::protocol::{ListTasksRequest, StreamResponse};
use chancery_sdk::{Client, Events, Task, TaskState};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::gateway::{Gateway, chancery};
use crate::hostile::{left_behind_nothing, undisturbed};

/// `chancery demo --agent stream`. Killed when dropped.
struct Upstream {
    child: Child,
    address: SocketAddr,
    folder: TempDir,
}

impl Upstream {
    fn start() -> Self {
        Self::seen_at(None)
    }

    /// With this URL on its card.
    fn seen_at(url: Option<&str>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // Known before it listens: it says where it is seen, which may be elsewhere.
        let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let address = port.expect("a port");
        let child = Self::serve(&folder, address, url);
        Self { child, address, folder }
    }

    fn serve(folder: &TempDir, address: SocketAddr, public_url: Option<&str>) -> Child {
        let mut command = chancery(folder.path());
        command.args(["demo", "--agent", "stream", "--listen", &address.to_string()]);
        if let Some(url) = public_url {
            command.args(["--public-url", url]);
        }
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("it says something");
        assert!(line.starts_with("Chancery demo at "), "{line}");
        child
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Where it was, with what it had.
    fn restart(&mut self) {
        self.kill();
        self.child = Self::serve(&self.folder, self.address, None);
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.kill();
    }
}

fn config(url: &str, max_duration_ms: u64) -> String {
    format!(
        "[budget.global]\nmax_usd_per_day = 10.0\n[policy.default]\nmax_duration_ms = {max_duration_ms}\n\
         [[agent]]\nname = \"echo\"\nkind = \"builtin\"\nprice = {{ per_call = 0 }}\n\
         [[agent]]\nname = \"far\"\nkind = \"a2a\"\nurl = \"{url}\"\nprice = {{ per_call = 0.01 }}\n"
    )
}

/// A stream from the agent, read until so many chunks have come.
struct Reading {
    client: Client,
    events: Events,
    task: Task,
    chunks: Vec<String>,
    last: TaskState,
}

impl Reading {
    async fn begin(gateway: &Gateway, text: &str, chunks: usize) -> Self {
        let client = Client::builder().retries(0).stream_resumes(0).connect(gateway.agent("far")).await;
        let client = client.expect("it is there");
        let mut events = client.stream(text).await.expect("it streams");
        let first = events.next().await.expect("an event").expect("a good one");
        let StreamResponse::Task(task) = first.payload().expect("it can be read") else {
            panic!("{first:?}")
        };
        let last = task.status.state;
        let mut reading = Self { client, events, task, chunks: Vec::new(), last };
        while reading.chunks.len() < chunks {
            assert!(reading.next().await, "it ends too soon: {:?}", reading.last);
        }
        reading
    }

    /// Whether there was another event.
    async fn next(&mut self) -> bool {
        let Some(event) = self.events.next().await else { return false };
        match event.expect("the gateway does not break off").payload().expect("it can be read") {
            StreamResponse::ArtifactUpdate(update) => {
                let texts = update.artifact.parts.iter().filter_map(|part| part.as_text());
                self.chunks.extend(texts.map(|text| text.trim_end().to_owned()));
            }
            StreamResponse::StatusUpdate(update) => self.last = update.status.state,
            StreamResponse::Task(task) => self.last = task.status.state,
            StreamResponse::Message(message) => panic!("{message:?}"),
        }
        true
    }

    /// Reads to the end; what came is the beginning of what was to come, and is what is kept.
    async fn end(mut self) -> (TaskState, usize) {
        while self.next().await {}
        let expected: Vec<_> = (1..=self.chunks.len()).map(|number| format!("chunk {number}")).collect();
        assert_eq!(self.chunks, expected);
        let kept = self.client.get(self.task.id.clone()).await.expect("it is kept");
        assert_eq!(kept.status.state, self.last);
        let parts = kept.artifacts.iter().flat_map(|artifact| &artifact.parts);
        let texts: Vec<_> = parts.filter_map(|part| part.as_text()).map(str::trim_end).collect();
        assert_eq!(texts, self.chunks);
        (self.last, self.chunks.len())
    }
}

/// Does something while another agent is called, and sees that this was not noticed, and that nothing is left behind.
async fn beside(gateway: &Gateway, what: impl Future<Output = ()>) {
    let over = Arc::new(AtomicBool::new(false));
    let neighbour = tokio::spawn(undisturbed(gateway.agent("echo"), over.clone()));
    what.await;
    over.store(true, Ordering::Relaxed);
    assert!(neighbour.await.expect("no call to another agent fails") > 0);
    left_behind_nothing(gateway).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_is_killed_in_mid_stream_and_comes_back_is_asked_what_became_of_the_task() {
    let mut upstream = Upstream::start();
    let gateway = Gateway::start(&config(&upstream.url(), 60_000));
    beside(&gateway, async {
        let reading = Reading::begin(&gateway, "stream 100000 20", 5).await;
        upstream.restart();
        // It has lost its turn, and says so.
        let (state, chunks) = reading.end().await;
        assert_eq!(state, TaskState::Failed);
        assert!((5..100_000).contains(&chunks), "{chunks}");
        let (state, chunks) = Reading::begin(&gateway, "stream 5 1", 0).await.end().await;
        assert_eq!((state, chunks), (TaskState::Completed, 5), "it is called again as if nothing had been");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_an_agent_that_is_killed_and_stays_away_the_task_fails_in_time() {
    let mut upstream = Upstream::start();
    let gateway = Gateway::start(&config(&upstream.url(), 6_000));
    beside(&gateway, async {
        let reading = Reading::begin(&gateway, "stream 100000 20", 5).await;
        upstream.kill();
        assert_eq!(reading.end().await.0, TaskState::Failed);
        let client = Client::builder().retries(0).connect(gateway.agent("far")).await.expect("it has a card");
        let refused = client.send("stream 1 0").await.expect_err("nobody is there");
        assert!(refused.code().is_some(), "no answer of the protocol: {refused}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_agent_is_stopped_when_its_time_is_up() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&config(&upstream.url(), 5_000));
    beside(&gateway, async {
        let reading = Reading::begin(&gateway, "stream 2 60000", 1).await;
        assert_eq!(reading.end().await, (TaskState::Failed, 1));
        let there = Client::connect(upstream.url()).await.expect("it is there");
        for _ in 0..300 {
            let known = there.list(ListTasksRequest::default()).await.expect("its tasks").tasks;
            if known[0].status.state == TaskState::Canceled {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("nobody tells the agent to stop");
    })
    .await;
}

/// Passes connections on, until it is told that there are none any more.
async fn wire(to: watch::Receiver<Option<SocketAddr>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((mut here, _)) = listener.accept().await {
            let mut to = to.clone();
            tokio::spawn(async move {
                let Some(address) = *to.borrow_and_update() else { return };
                let Ok(mut there) = TcpStream::connect(address).await else { return };
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut here, &mut there) => {}
                    _ = to.changed() => {}
                }
            });
        }
    });
    url
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_from_an_agent_that_is_cut_off_goes_on_without_a_gap() {
    let (line, to) = watch::channel(None);
    let url = wire(to).await;
    let upstream = Upstream::seen_at(Some(&url));
    line.send_replace(Some(upstream.address));
    let gateway = Gateway::start(&config(&url, 120_000));
    beside(&gateway, async {
        let reading = Reading::begin(&gateway, "stream 200 20", 5).await;
        for _ in 0..3 {
            line.send_replace(None);
            tokio::time::sleep(Duration::from_millis(300)).await;
            line.send_replace(Some(upstream.address));
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        assert_eq!(reading.end().await, (TaskState::Completed, 200));
    })
    .await;
}
