//! What stands in front of agents: what it refuses never reaches them, and what it lets through is settled once,
//! whatever becomes of the task.
#![cfg(feature = "testing")]

mod support;

use std::net::IpAddr;
use std::sync::Arc;

use chancery_protocol::{
    Admitted, Amount, BoxFuture, Call, CallOutcome, Caller, CostSource, Denied, DeniedKind, DynEndpoint,
    Edge, Error, ErrorCode, Hold, HopId, LINEAGE_HEADER, Operation, Principal, Quota, Reply, Request,
    SendMessageRequest, SendMessageResponse, Settled, Settling, Statement, TaskId, TaskState, Timestamp,
};
use chancery_sdk::testing::Spawn;
use chancery_sdk::{
    AgentSpec, Change, Client as Sdk, Guard, Outcome, Relay, Restored, Routes, Turn, USAGE_EXTENSION, Usage,
    Ward, Way,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use support::*;

/// Lets through what is not called "refuse" and writes down what it hears of it.
#[derive(Clone, Default)]
struct Gatekeeper(Arc<Log>);

#[derive(Debug, Default)]
struct Log {
    heard: Mutex<Vec<String>>,
    requests: Mutex<u64>,
    limit: Option<u64>,
    /// Whether nothing is let through that goes on by itself.
    is_shut: bool,
    /// What stood in the metadata of the last message.
    metadata: Mutex<Option<String>>,
}

#[derive(Debug)]
struct Pass {
    hop: HopId,
    log: Arc<Log>,
}

struct Gated {
    inner: Arc<dyn DynEndpoint>,
    log: Arc<Log>,
}

impl Gatekeeper {
    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.heard.lock())
    }
}

impl Log {
    fn note(&self, what: impl Into<String>) {
        self.heard.lock().push(what.into());
    }
}

impl Guard for Gatekeeper {
    fn protect(&self, ward: &Ward) -> Arc<dyn DynEndpoint> {
        Arc::new(Gated { inner: ward.endpoint.clone(), log: self.0.clone() })
    }

    fn restored(&self, _agent: &str) -> Vec<Restored> {
        Vec::new()
    }

    fn readmit(&self, _agent: &str, call: Call<Box<SendMessageRequest>>) -> Option<Admitted> {
        self.0.note("readmit");
        let (log, mut context) = (self.0.clone(), call.context);
        Some(Box::pin(async move {
            if log.is_shut {
                return Err(Denied::new("budget", DeniedKind::Exhausted, "BUDGET_EXCEEDED").into());
            }
            context.hold = Some(Arc::new(Pass { hop: HopId::generate(), log }));
            Ok(context)
        }))
    }

    fn count(&self, source: Option<IpAddr>, caller: Option<&Caller>) -> Result<Option<Quota>, Denied> {
        assert!(source.is_some_and(|source| source.is_loopback()));
        let (Some(limit), Some(_)) = (self.0.limit, caller) else { return Ok(None) };
        let mut requests = self.0.requests.lock();
        *requests += 1;
        if *requests > limit {
            let mut denied = Denied::new("rate", DeniedKind::Exhausted, "RATE_LIMITED");
            let wait = Some(std::time::Duration::from_secs(7));
            (denied.retry_after, denied.quota) =
                (wait, Some(Box::new(Quota { limit, remaining: 0, reset: wait })));
            return Err(denied);
        }
        let reset = Some(std::time::Duration::from_millis(1500));
        Ok(Some(Quota { limit, remaining: limit - *requests, reset }))
    }
}

impl DynEndpoint for Gated {
    fn call(&self, mut call: Call) -> BoxFuture<'_, Result<Reply, Error>> {
        let sends =
            matches!(call.request.operation(), Operation::SendMessage | Operation::SendStreamingMessage);
        if let Request::SendMessage(said) | Request::SendStreamingMessage(said) = &call.request
            && said.message.text() == "refuse"
        {
            let denied = Denied::new("policy", DeniedKind::Forbidden, "SKILL_NOT_ALLOWED");
            return Box::pin(std::future::ready(Err(denied.into())));
        }
        if let Request::SendMessage(said) | Request::SendStreamingMessage(said) = &call.request {
            *self.log.metadata.lock() = said.message.metadata.as_ref().map(|said| said.as_str().to_owned());
        }
        if sends {
            call.context.hold = Some(Arc::new(Pass { hop: HopId::generate(), log: self.log.clone() }));
        }
        self.inner.call(call)
    }
}

impl Pass {
    fn edge(&self, task: &TaskId, settled: Option<Settled>) -> Box<Edge> {
        Box::new(Edge {
            hop: self.hop,
            root: self.hop,
            parent: None,
            depth: 0,
            trace: None,
            realm: "default".into(),
            caller: "anonymous".into(),
            payer: None,
            groups: Vec::new(),
            used: chancery_protocol::Usage::default(),
            agent: "agent".into(),
            skill: None,
            peer: None,
            task: Some(task.clone()),
            opened: Timestamp::now(),
            reserved: Amount::ONE_TASK,
            limits: chancery_protocol::CallLimits::default(),
            origin: None,
            settled,
        })
    }
}

impl Hold for Pass {
    fn hop(&self) -> HopId {
        self.hop
    }

    fn lineage(&self) -> Option<&str> {
        Some("token-of-this-call")
    }

    fn resume(&self, charged: Usage, _: Amount) {
        self.log.note(format!("resume {}", charged.cost_micro_usd));
    }

    fn begin(&self, task: &TaskId) -> Box<Edge> {
        self.log.note("begin");
        self.edge(task, None)
    }

    fn began(&self) {
        self.log.note("began");
    }

    fn set_aside(&self, total: Usage) -> Result<(), Denied> {
        match total.cost_micro_usd {
            ..=1000 => Ok(()),
            _ => Err(Denied::new("budget", DeniedKind::Exhausted, "BUDGET_EXCEEDED")),
        }
    }

    fn spend(&self, total: Usage) -> Result<(), Denied> {
        self.log.note(format!("spend {}", total.cost_micro_usd));
        if total.cost_micro_usd > 1000 {
            return Err(Denied::new("budget", DeniedKind::Exhausted, "BUDGET_EXCEEDED"));
        }
        Ok(())
    }

    fn settle(&self, task: &TaskId, outcome: CallOutcome, usage: Option<Usage>) -> Settling {
        let usage = usage.unwrap_or_default();
        let charged = Amount { micro_usd: usage.cost_micro_usd, tokens: usage.tokens(), tasks: 1 };
        let source = CostSource::Metered;
        let settled = Settled {
            at: Timestamp::now(),
            charged,
            overrun: Amount::default(),
            source,
            state: outcome.state(),
        };
        let statement =
            Statement { usage, cost_source: source, remaining_micro_usd: Some(42), ..Default::default() };
        Settling { edge: self.edge(task, Some(settled)), settled, statement, whereabouts: None }
    }

    fn settled(&self, settled: &Settled) {
        let state = settled.state.map_or("none", TaskState::as_str);
        self.log.note(format!("settled {state} {}", settled.charged.micro_usd));
    }

    fn refused(&self) {
        self.log.note("refused");
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.log.note("dropped");
    }
}

/// Costs something, and does what it is told.
fn worker() -> AgentSpec {
    let run = |turn: Turn| async move {
        turn.usage(Usage { input_tokens: 1, output_tokens: 2, cost_micro_usd: 100 });
        match &*turn.text() {
            "ask" => Ok(turn.ask("what?")),
            "auth" if turn.state::<bool>()?.is_none() => {
                turn.set_state(&true)?;
                Ok(turn.ask_for_auth("log in over there"))
            }
            "wait" => {
                turn.working("on it").await?;
                std::future::pending().await
            }
            "slow" => {
                turn.working("on it").await?;
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                Ok(Outcome::text("done"))
            }
            "lineage" => Ok(Outcome::text(turn.lineage().unwrap_or_else(|| "none".to_owned()))),
            "greedy" => {
                let more = Usage { cost_micro_usd: 5000, ..Usage::default() };
                Ok(Outcome::text(
                    turn.may_spend(more).map_or_else(|denied| denied.to_string(), |()| "rich".into()),
                ))
            }
            _ => Ok(Outcome::text("done")),
        }
    };
    AgentSpec::new("worker", script(run))
}

/// Answers without a task.
fn oracle() -> AgentSpec {
    let run = |_: Turn| async move { Ok(Outcome::reply("just so")) };
    AgentSpec::new("oracle", script(run).direct())
}

fn statement(task: &Value) -> &Value {
    &task["metadata"][USAGE_EXTENSION]
}

#[tokio::test]
async fn what_ends_at_once_is_settled_in_the_batch_that_began_it() {
    let gate = Gatekeeper::default();
    let site = serve_with(|server| server.agent(worker()).guard(Arc::new(gate.clone()))).await;
    for wire in WIRES {
        let task = site.client(wire).say("go").await;
        assert_eq!(state(&task), COMPLETED);
        let said = json!({"inputTokens": 1, "outputTokens": 2, "costMicroUsd": 100, "costSource": "metered", "remainingMicroUsd": 42});
        assert_eq!(*statement(&task), said);
        assert_eq!(gate.heard(), ["spend 100", "settled TASK_STATE_COMPLETED 100", "dropped"]);
    }
}

#[tokio::test]
async fn what_is_refused_never_reaches_the_agent() {
    let gate = Gatekeeper::default();
    let site = serve_with(|server| server.agent(worker()).guard(Arc::new(gate.clone()))).await;
    for wire in WIRES {
        let refused = site.client(wire).send(message("refuse")).await;
        refused.refused_with(ErrorCode::PermissionDenied, "SKILL_NOT_ALLOWED");
        assert!(gate.heard().is_empty());
    }
}

#[tokio::test]
async fn a_stream_is_recorded_when_it_begins_and_settled_when_it_ends() {
    let gate = Gatekeeper::default();
    let site = serve_with(|server| server.agent(worker()).guard(Arc::new(gate.clone()))).await;
    for wire in WIRES {
        let events = site.client(wire).stream(message("slow")).await.rest().await;
        assert!(!events.is_empty());
        until("it is settled", || async { gate.0.heard.lock().last().is_some_and(|last| last == "dropped") })
            .await;
        let heard: Vec<_> = gate.heard().into_iter().filter(|heard| heard != "spend 100").collect();
        assert_eq!(heard, ["begin", "began", "settled TASK_STATE_COMPLETED 100", "dropped"]);
    }
}

#[tokio::test]
async fn a_question_settles_and_its_answer_is_a_call_of_its_own() {
    let gate = Gatekeeper::default();
    let site = serve_with(|server| server.agent(worker()).guard(Arc::new(gate.clone()))).await;
    for wire in WIRES {
        let client = site.client(wire);
        let asked = client.say("ask").await;
        assert_eq!(gate.heard(), ["spend 100", "settled TASK_STATE_INPUT_REQUIRED 100", "dropped"]);
        let done = client.send(follow_up(&id(&asked), "go")).await.task();
        assert_eq!(statement(&done)["costMicroUsd"], 200);
        assert_eq!(
            gate.heard(),
            ["resume 100", "begin", "began", "spend 200", "settled TASK_STATE_COMPLETED 200", "dropped"]
        );
    }
}

#[tokio::test]
async fn cancel_settles_and_so_does_being_stopped() {
    let gate = Gatekeeper::default();
    let guard: Arc<dyn Guard> = Arc::new(gate.clone());
    let site = serve_with(|server| server.agent(worker()).guard(guard)).await;
    let client = site.jsonrpc();
    let started = id(&client.start("wait").await);
    client.wait_for(&started, WORKING).await;
    gate.heard();
    client.cancel(&started).await.task();
    until("it is let go", || async { gate.0.heard.lock().len() == 2 }).await;
    assert_eq!(gate.heard(), ["settled TASK_STATE_CANCELED 0", "dropped"]);

    let started = id(&client.start("wait").await);
    client.wait_for(&started, WORKING).await;
    gate.heard();
    let owner = Principal::anonymous();
    let task = TaskId::from(started.as_str());
    assert!(site.stop_task("worker", &owner, &task, "PolicyTimeout: it took too long").await.unwrap());
    let stopped = client.get(&started).await;
    assert_eq!(state(&stopped), FAILED);
    assert_eq!(text(&stopped["status"]["message"]), "PolicyTimeout: it took too long");
    until("it is let go", || async { gate.0.heard.lock().len() == 2 }).await;
    assert_eq!(gate.heard(), ["settled TASK_STATE_FAILED 0", "dropped"]);
    assert!(!site.stop_task("worker", &owner, &task, "again").await.unwrap());
}

#[tokio::test]
async fn a_direct_answer_is_settled_without_a_task() {
    let gate = Gatekeeper::default();
    let site = serve_with(|server| server.agent(oracle()).guard(Arc::new(gate.clone()))).await;
    for wire in WIRES {
        let answer = site.client(wire).send(message("what is it?")).await.result();
        assert_eq!(text(&answer["message"]), "just so");
        assert_eq!(gate.heard(), ["settled none 0", "dropped"]);
    }
}

#[tokio::test]
async fn a_turn_knows_its_line_of_descent_and_may_ask_before_it_spends() {
    let gate = Gatekeeper::default();
    let site = serve_with(|server| server.agent(worker()).guard(Arc::new(gate.clone()))).await;
    let client = site.jsonrpc();
    assert_eq!(text(&client.say("lineage").await["artifacts"][0]), "token-of-this-call");
    let greedy = client.say("greedy").await;
    assert_eq!(text(&greedy["artifacts"][0]), "denied by gate `budget`: BUDGET_EXCEEDED");
}

#[tokio::test]
async fn what_is_let_through_to_an_agent_elsewhere_is_settled_alike_and_its_descent_is_told() {
    let upstream = Spawn::new(worker()).spawn().await.unwrap();
    let client = Sdk::connect(upstream.url()).await.unwrap();
    let relay = Relay::new(client, "worker").await.unwrap();
    let gate = Gatekeeper::default();
    let site = serve_with(|server| server.relay_at("", relay).guard(Arc::new(gate.clone()))).await;
    for wire in WIRES {
        let client = site.client(wire);
        let task = client.say("go").await;
        assert_eq!(statement(&task)["remainingMicroUsd"], 42);
        // The task is there from the beginning on, so that a deadline or a cancel reaches it.
        assert_eq!(gate.heard(), ["begin", "began", "settled TASK_STATE_COMPLETED 100", "dropped"]);

        let asked = client.say("ask").await;
        assert_eq!(gate.heard(), ["begin", "began", "settled TASK_STATE_INPUT_REQUIRED 100", "dropped"]);
        client.send(follow_up(&id(&asked), "go")).await.task();
        // It is on record before it is sent, so that it can be stopped.
        assert_eq!(
            gate.heard(),
            ["resume 100", "begin", "began", "settled TASK_STATE_COMPLETED 200", "dropped"]
        );

        let started = id(&client.start("wait").await);
        client.wait_for(&started, WORKING).await;
        let stopped =
            site.stop_task("worker", &Principal::anonymous(), &started.as_str().into(), "enough").await;
        assert!(stopped.unwrap());
        until("it is let go", || async { gate.0.heard.lock().last().is_some_and(|last| last == "dropped") })
            .await;
        let heard = gate.heard();
        assert_eq!(heard[0], "begin");
        assert_eq!(heard[heard.len() - 2..], ["settled TASK_STATE_FAILED 0", "dropped"]);
    }
}

#[tokio::test]
async fn the_descent_of_a_call_goes_along_in_a_header() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let seen = heard.clone();
    let upstream = serve_with(|server| {
        server.agent(worker()).authenticate(move |head| {
            seen.lock().extend(head.headers.get(LINEAGE_HEADER).cloned());
            Ok(Principal::anonymous())
        })
    })
    .await;
    let client = Sdk::connect(format!("http://{}", upstream.address)).await.unwrap();
    let relay = Relay::new(client, "worker").await.unwrap();
    let site = serve_with(|server| server.relay_at("", relay).guard(Arc::new(Gatekeeper::default()))).await;
    // What a caller says of its own descent is for the gates, and is not passed on.
    let told = site.jsonrpc().with(LINEAGE_HEADER, "made-up").say("lineage").await;
    let heard: Vec<_> = heard.lock().clone();
    assert!(!heard.is_empty() && heard.iter().all(|token| token == "token-of-this-call"), "{heard:?}");
    // The agent has it to pass on, although nothing stands in front of it where it is.
    assert_eq!(text(&told["artifacts"][0]), "token-of-this-call");
}

#[tokio::test]
async fn the_descent_of_a_call_goes_along_in_the_metadata_where_the_card_says_that_it_is_read() {
    let there = Gatekeeper::default();
    let upstream = serve_with(|server| server.agent(worker()).guard(Arc::new(there.clone()))).await;
    let client = Sdk::connect(format!("http://{}", upstream.address)).await.unwrap();
    let relay = Relay::new(client, "worker").await.unwrap();
    let guard = Arc::new(Gatekeeper::default());
    let site = serve_with(|server| server.relay_at("", relay).guard(guard)).await;
    let task = site.jsonrpc().say("go").await;
    let heard = there.0.metadata.lock().clone().unwrap_or_default();
    assert!(heard.contains(r#""urn:chancery:ext:lineage:v1":{"token":"token-of-this-call"}"#), "{heard}");
    // It is shown to nobody, here or there.
    assert!(!task.to_string().contains("token-of-this-call"), "{task}");
    let listed = upstream.rest().call("ListTasks", json!({})).await.result();
    assert!(!listed.to_string().contains("token-of-this-call"), "{listed}");
}

#[tokio::test]
async fn a_task_that_goes_on_after_an_authorization_is_let_through_anew() {
    let upstream = serve_with(|server| server.agent(worker())).await;
    let relay = || async {
        let client = Sdk::connect(format!("http://{}", upstream.address)).await.unwrap();
        Relay::new(client, "worker").await.unwrap()
    };
    for (elsewhere, is_shut) in [(false, false), (true, false), (true, true)] {
        let gate = Gatekeeper(Arc::new(Log { is_shut, ..Log::default() }));
        let guard = Arc::new(gate.clone());
        let site = match elsewhere {
            true => {
                let relay = relay().await;
                serve_with(|server| server.relay_at("", relay).guard(guard)).await
            }
            false => serve_with(|server| server.agent(worker()).guard(guard)).await,
        };
        let client = site.jsonrpc();
        let parked = client.say("auth").await;
        assert_eq!(state(&parked), "TASK_STATE_AUTH_REQUIRED");
        let settled = "settled TASK_STATE_AUTH_REQUIRED 100";
        until("it is settled", || async { gate.0.heard.lock().iter().any(|heard| heard == settled) }).await;
        gate.heard();
        let runs_at = if elsewhere { &upstream } else { &site };
        let listed = runs_at.rest().call("ListTasks", json!({})).await.result();
        let (owner, task) = (Principal::anonymous(), TaskId::from(id(&listed["tasks"][0]).as_str()));
        runs_at.service.as_ref().unwrap().runtime("worker").unwrap().resume(&owner, &task).await.unwrap();
        client.wait_for(&id(&parked), if is_shut { FAILED } else { COMPLETED }).await;
        // A settled hold lives as long as its turn may go on for it.
        let counts = |heard: &str| !heard.starts_with("spend") && heard != "dropped";
        let wanted = if is_shut { 1 } else { 5 };
        let heard = || gate.0.heard.lock().iter().filter(|heard| counts(heard)).count();
        until("it is heard of", || async { heard() >= wanted }).await;
        let heard: Vec<_> = gate.heard().into_iter().filter(|heard| counts(heard)).collect();
        match is_shut {
            true => assert_eq!(heard, ["readmit"]),
            false => assert_eq!(
                heard,
                ["readmit", "resume 100", "begin", "began", "settled TASK_STATE_COMPLETED 200"]
            ),
        }
    }
}

#[tokio::test]
async fn what_is_said_to_a_task_elsewhere_is_stopped_while_it_runs() {
    let upstream = Spawn::new(worker()).spawn().await.unwrap();
    let client = Sdk::connect(upstream.url()).await.unwrap();
    let relay = Relay::new(client, "worker").await.unwrap();
    let gate = Gatekeeper::default();
    let site = serve_with(|server| server.relay_at("", relay).guard(Arc::new(gate.clone()))).await;
    for wire in WIRES {
        let client = site.client(wire);
        let asked = id(&client.say("ask").await);
        gate.heard();
        let stop = async {
            until("it is on record", || async { gate.0.heard.lock().iter().any(|heard| heard == "began") })
                .await;
            let task = asked.as_str().into();
            assert!(site.stop_task("worker", &Principal::anonymous(), &task, "enough").await.unwrap());
        };
        let (sent, ()) = tokio::join!(client.send(follow_up(&asked, "wait")), stop);
        drop(sent);
        assert_eq!(state(&client.get(&asked).await), FAILED);
        until("it is let go", || async { gate.0.heard.lock().last().is_some_and(|last| last == "dropped") })
            .await;
        assert!(gate.heard().iter().any(|heard| heard.starts_with("settled TASK_STATE_FAILED")));
    }
}

#[tokio::test]
async fn who_asks_too_often_is_told_how_often_it_may() {
    let gate = Gatekeeper(Arc::new(Log { limit: Some(2), ..Log::default() }));
    let site = serve_with(|server| server.agent(worker()).guard(Arc::new(gate))).await;
    let first = site.rest().send(message("go")).await;
    assert_eq!((first.header("ratelimit-limit"), first.header("ratelimit-remaining")), ("2", "1"));
    assert_eq!(first.header("ratelimit-reset"), "2");
    site.jsonrpc().send(message("go")).await.task();
    for wire in WIRES {
        let refused = site.client(wire).send(message("go")).await;
        refused.refused_with(ErrorCode::ResourceExhausted, "RATE_LIMITED");
        assert_eq!(refused.header("retry-after"), "7");
        assert_eq!((refused.header("ratelimit-limit"), refused.header("ratelimit-remaining")), ("2", "0"));
        assert_eq!(refused.header("ratelimit-reset"), "7");
    }
}

/// One of two guards that come and go with the agent and the routes of their own side.
struct Side(&'static str);

/// Answers only for an agent that is on its side.
struct Judged(&'static str, Ward);

impl Guard for Side {
    fn protect(&self, ward: &Ward) -> Arc<dyn DynEndpoint> {
        Arc::new(Judged(self.0, ward.clone()))
    }

    fn restored(&self, _agent: &str) -> Vec<Restored> {
        Vec::new()
    }

    fn count(&self, _: Option<IpAddr>, _: Option<&Caller>) -> Result<Option<Quota>, Denied> {
        Ok(None)
    }
}

impl DynEndpoint for Judged {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, Error>> {
        let Self(side, ward) = self;
        // The agent `other` is put there once, and has to stand behind whoever is there.
        let is_ours = &*ward.name == "other" || ward.card().description == *side;
        assert!(is_ours, "a guard stands in front of an agent of the other side");
        ward.endpoint.call(call)
    }
}

impl Routes for Side {
    fn find(&self, head: &http::request::Parts) -> Option<Way> {
        let (side, name) = (self.0, head.uri.path().strip_prefix("/side/")?.to_owned());
        Some(Way::answer(move |visitor| async move {
            let visitor = visitor.plain();
            let context = visitor.context(&name, visitor.caller()?)?;
            let request = Box::new(SendMessageRequest::from(chancery_protocol::Message::user("hello")));
            tokio::task::yield_now().await;
            let Reply::Sent(SendMessageResponse::Task(view)) =
                visitor.call(Request::SendMessage(request), context).await?
            else {
                panic!("no task");
            };
            let said = view.into_task()?.artifacts[0].parts[0].as_text().unwrap_or_default().to_owned();
            Ok(http::Response::new(chancery_sdk::Body::from(format!("{side} {said}"))))
        }))
    }
}

/// An agent that says on which side it is.
fn on(side: &'static str) -> AgentSpec {
    AgentSpec::new("a", script(move |_: Turn| async move { Ok(Outcome::text(side)) })).description(side)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_guard_and_routes_are_exchanged_by_one_change() {
    let other = AgentSpec::new("other", script(|_: Turn| async move { Ok(Outcome::text("other")) }));
    let site = serve_with(|server| {
        server.offer(on("left")).offer(other).guard(Arc::new(Side("left"))).routes(Arc::new(Side("left")))
    })
    .await;
    let is_over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let callers = ["a", "other"].map(|name| {
        let (client, path, is_over) = (site.rest(), format!("/side/{name}"), is_over.clone());
        tokio::spawn(async move {
            let mut heard = Vec::new();
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                heard.push(client.fetch(http::Method::GET, &path, String::new()).await.body);
            }
            heard
        })
    });
    for round in 0..200 {
        let side = if round % 2 == 0 { "right" } else { "left" };
        let change = Change {
            put: vec![on(side).into()],
            guard: Some(Arc::new(Side(side))),
            routes: Some(vec![Arc::new(Side(side))]),
            ..Change::default()
        };
        site.service.as_ref().expect("a service").change(change).await.expect("it is changed");
    }
    is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    let [of_a, of_other] = callers;
    let (of_a, of_other) = (of_a.await.expect("no call fails"), of_other.await.expect("no call fails"));
    let known = |heard: &[String], known: [&str; 2]| heard.iter().all(|said| known.contains(&said.as_str()));
    assert!(known(&of_a, ["left left", "right right"]), "{of_a:?}");
    assert!(known(&of_other, ["left other", "right other"]), "{of_other:?}");
    assert!(!of_a.is_empty() && !of_other.is_empty());
}
