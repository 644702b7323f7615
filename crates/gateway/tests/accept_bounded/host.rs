//! A process that hosts many agents. Each has a key of its own and delegates to two others, by way of the gateway; some
//! drop, replay and forge the lineage that they were given.

use std::collections::BTreeMap;
use std::io::{BufRead as _, Write as _};
use std::ops::Range;
use std::sync::{LazyLock, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use chancery_control::Millis;
use chancery_control::identity::{MAX_LIFETIME, mint_agent_token};
use chancery_protocol::signing::AgentKey;
use chancery_protocol::{LINEAGE_HEADER, Timestamp};
use chancery_sdk::{Agent, AgentSpec, Failure, Outcome, Server, ServerBuilder, Turn};
use futures_util::future::join_all;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Whom the agents' own tokens are for.
pub(crate) const AUDIENCE: &str = "https://swarm.example";

/// What an agent's own token is renewed after.
const RENEWED_AFTER: Duration = Duration::from_secs(20);

static GATEWAY: OnceLock<String> = OnceLock::new();
static HTTP: LazyLock<Client<HttpConnector, Full<Bytes>>> =
    LazyLock::new(|| Client::builder(TokioExecutor::new()).build_http());
static TALLY: LazyLock<Mutex<Tally>> = LazyLock::new(Mutex::default);
/// A token of a call that has ended.
static ENDED: Mutex<Option<String>> = Mutex::new(None);

/// What has happened in one process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tally {
    /// How often each agent was called.
    pub(crate) called: BTreeMap<usize, usize>,
    pub(crate) finished: usize,
    /// Turns that were dropped before they had finished.
    pub(crate) dropped: usize,
    /// Calls that the gateway has refused, by the reason.
    pub(crate) refused: BTreeMap<String, usize>,
    /// Lineage that was not the agent's own and was believed all the same.
    pub(crate) believed: usize,
}

struct Delegate {
    number: usize,
    total: usize,
    key: AgentKey,
    token: Mutex<Option<(Instant, String)>>,
}

/// Counts a turn that does not finish.
struct Running(bool);

pub(crate) fn name(number: usize) -> String {
    format!("agent-{number}")
}

/// The key of an agent. Nobody but these tests knows the seed.
pub(crate) fn key(number: usize) -> AgentKey {
    let mut seed = [7; 32];
    seed[..8].copy_from_slice(&(number as u64).to_be_bytes());
    AgentKey::from_seed(&seed)
}

/// Hosts these agents: says where, hears where the gateway is, and tells what has happened whenever it is asked.
pub(crate) async fn host(numbers: Range<usize>, total: usize) {
    let agents = numbers.map(|number| {
        let agent = Delegate { number, total, key: key(number), token: Mutex::default() };
        AgentSpec::new(name(number), agent)
    });
    let server = agents.fold(Server::builder(), ServerBuilder::fleet_agent);
    let server = server.bind("127.0.0.1:0").await.expect("a free port");
    println!("{}", server.url());
    tokio::spawn(server.run());
    let heard = tokio::task::spawn_blocking(|| {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            match line.strip_prefix("gateway ") {
                Some(url) => _ = GATEWAY.set(url.to_owned()),
                None => {
                    let tally = match &*line {
                        "reset" => std::mem::take(&mut *TALLY.lock()),
                        _ => TALLY.lock().clone(),
                    };
                    let mut out = std::io::stdout();
                    let text = serde_json::to_string(&tally).expect("it can be written");
                    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
                }
            }
        }
    });
    let _ = heard.await;
}

impl Agent for Delegate {
    async fn run(&self, turn: Turn) -> Result<Outcome, Failure> {
        *TALLY.lock().called.entry(self.number).or_default() += 1;
        let mut running = Running(true);
        let lineage = turn.lineage();
        let text = turn.text().into_owned();
        turn.working("delegating").await?;
        self.come_back(lineage.as_deref(), &text).await;
        let children = [self.number * 2 + 1, self.number * 2 + 2];
        let children = children.into_iter().filter(|child| *child < self.total);
        join_all(children.map(|child| self.delegate(child, lineage.as_deref(), &text))).await;
        if text == "hold" {
            std::future::pending::<()>().await;
        }
        running.0 = false;
        TALLY.lock().finished += 1;
        *ENDED.lock() = lineage;
        Ok(Outcome::text("done"))
    }
}

impl Delegate {
    /// Calls another agent, honestly or not.
    async fn delegate(&self, child: usize, lineage: Option<&str>, text: &str) {
        let stolen = match self.number % 8 {
            3 => ENDED.lock().clone(),
            5 => lineage.map(forged),
            _ => None,
        };
        if let Some(stolen) = stolen
            && self.call(child, Some(&stolen), text).await
        {
            TALLY.lock().believed += 1;
        }
        let is_dropped = self.number % 8 == 1;
        self.call(child, lineage.filter(|_| !is_dropped), text).await;
    }

    /// Calls somebody on the way to itself, which must never get there.
    async fn come_back(&self, lineage: Option<&str>, text: &str) {
        let parent = |number: usize| number.checked_sub(1).map(|number| number / 2);
        let ancestor = parent(self.number).and_then(parent).and_then(parent);
        if let Some(ancestor) = ancestor.filter(|_| self.number % 4 == 2)
            && self.call(ancestor, lineage, text).await
        {
            TALLY.lock().believed += 1;
        }
    }

    async fn call(&self, agent: usize, lineage: Option<&str>, text: &str) -> bool {
        let answer = self
            .ask(agent, lineage, text)
            .await
            .unwrap_or_else(|error| json!({ "error": error.to_string() }));
        let Some(error) = answer.get("error").map(Value::to_string) else { return true };
        let reasons = [
            "BUDGET_EXCEEDED",
            "CALL_DEPTH_EXCEEDED",
            "REVISIT_DENIED",
            "LINEAGE_INVALID",
            "MAX_CONCURRENCY",
        ];
        let reason = reasons.into_iter().find(|reason| error.contains(reason)).unwrap_or(&error).to_owned();
        *TALLY.lock().refused.entry(reason).or_default() += 1;
        false
    }

    async fn ask(
        &self,
        agent: usize,
        lineage: Option<&str>,
        text: &str,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        let gateway = GATEWAY.get().ok_or("no gateway")?;
        let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": text }] });
        let body =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": { "message": message } });
        let request = hyper::Request::post(format!("{gateway}/agents/{}/", name(agent)))
            .header("content-type", "application/json")
            .header("a2a-version", "1.0")
            .header("authorization", format!("Bearer {}", self.token()?));
        let request = match lineage {
            Some(lineage) => request.header(LINEAGE_HEADER, lineage),
            None => request,
        };
        let response = HTTP.request(request.body(Full::from(body.to_string()))?).await?;
        Ok(serde_json::from_slice(&response.into_body().collect().await?.to_bytes())?)
    }

    /// Who this agent is, signed with its own key.
    fn token(&self) -> Result<String, serde_json::Error> {
        let mut token = self.token.lock();
        if let Some((made, token)) = &*token
            && made.elapsed() < RENEWED_AFTER
        {
            return Ok(token.clone());
        }
        let now = Millis(u64::try_from(Timestamp::now().as_millis()).unwrap_or_default());
        let made = mint_agent_token(&self.key, AUDIENCE, MAX_LIFETIME, None, now)?;
        *token = Some((Instant::now(), made.clone()));
        Ok(made)
    }
}

/// The token with another seal.
fn forged(token: &str) -> String {
    let last = if token.ends_with('A') { 'B' } else { 'A' };
    format!("{}{last}", &token[..token.len() - 1])
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.0 {
            TALLY.lock().dropped += 1;
        }
    }
}
