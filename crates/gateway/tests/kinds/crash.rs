//! A gateway with agents of every kind, killed under load: what anybody saw is still there, what was held is settled or held on,
//! and what others still work on is picked up again.
//!
//! Two kills by default; `CHANCERY_CRASH_KILLS` says how many.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use chancery_sdk::testing::{Spawned, spawn};
use chancery_sdk::{Agent, AgentSpec, Failure, Outcome, Turn};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::endpoint::{Endpoint, Reply};
use crate::gateway::{Gateway, Keys};
use crate::inbox::{Reader, post};
use crate::wire::{Binding, Call, Frame};

/// The agents, and what each is asked for.
const AGENTS: [(&str, &str); 5] =
    [("stream", "stream 100000 20"), ("shell", "go"), ("model", "hi"), ("it", "hello"), ("far", "go")];
/// How many call each of them at a time.
const CALLERS: usize = 4;
/// What a call costs, in millionths of a US dollar.
const PRICE: u64 = 10_000;
/// How many pieces the agent elsewhere has to say.
const PIECES: usize = 150;
/// How often to look whether something has come to be: for a minute, where nothing else goes on.
const LOOKS: usize = 600;

/// Says one piece after the other, also while nobody is there to hear it.
struct Far;

impl Agent for Far {
    async fn run(&self, turn: Turn) -> Result<Outcome, Failure> {
        let mut artifact = turn.begin_artifact("pieces");
        for number in 1..PIECES {
            artifact.append(format!("piece {number} ")).await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        artifact.finish(format!("piece {PIECES} ")).await?;
        Ok(Outcome::completed())
    }
}

fn config(model: &Endpoint, far: &Spawned) -> String {
    let shell = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); echo $i; sleep 0.02; done";
    let kinds = [
        ("stream", "kind = \"builtin\"".to_owned()),
        ("shell", format!("kind = \"command\"\ncommand = {{ run = [\"/bin/sh\", \"-c\", {shell:?}] }}")),
        ("model", format!("kind = \"model\"\nmodel = {{ url = {:?}, model = \"small\" }}", model.url)),
        ("it", "kind = \"inbox\"".to_owned()),
        ("far", format!("kind = \"a2a\"\nurl = {:?}", far.url())),
    ];
    let mut text = "[server]\nanonymous = true\n[budget.global]\nmax_usd_per_day = 1000.0\n".to_owned();
    for (name, kind) in kinds {
        text += &format!("[[agent]]\nname = \"{name}\"\n{kind}\nprice = {{ per_call = 0.01 }}\n");
    }
    text
}

/// Somebody who streams, and all that it was told before the gateway went.
struct Witness {
    agent: &'static str,
    context: String,
    binding: Binding,
    frames: Vec<Frame>,
}

/// Lets callers loose on every agent. Each ends when nothing comes any more.
fn begin(
    address: SocketAddr,
    round: usize,
    heard: &HashMap<&'static str, Arc<AtomicUsize>>,
) -> JoinSet<Witness> {
    let mut callers = JoinSet::new();
    for (place, (agent, text)) in AGENTS.into_iter().enumerate() {
        for number in 0..CALLERS {
            let context = format!("{agent}-{round}-{number}");
            let message = json!({"message": {"messageId": context, "contextId": context, "role": "ROLE_USER",
                "parts": [{"text": text}]}});
            let binding = Binding::by(place + number);
            let call = Call::stream(binding, agent, &message);
            let heard = heard[agent].clone();
            callers.spawn(async move {
                let mut frames = Vec::new();
                // However it ends: the gateway is killed.
                let _ = call.frames(address, &mut frames, &heard).await;
                Witness { agent, context, binding, frames }
            });
        }
    }
    callers
}

fn address(gateway: &Gateway) -> SocketAddr {
    gateway.url().strip_prefix("http://").expect("http").parse().expect("an address")
}

/// How many tasks an agent has been given.
async fn begun(gateway: &Gateway, agent: &str) -> usize {
    let page = Call::list(agent, &json!({"pageSize": 1})).result(address(gateway)).await.expect("a list");
    page["totalSize"].as_u64().and_then(|total| usize::try_from(total).ok()).expect("a number")
}

fn asked(gateway: &Gateway, what: &[&str]) -> Value {
    let text = gateway.run(&[&["admin", "-o", "json"], what].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Takes tasks out of the inbox and says something about each, as long as the gateway is there.
async fn half_way(gateway: &Gateway, key: &str) -> Reader {
    let mut reader = Reader::open(gateway, key, None).await;
    for _ in 0..CALLERS / 2 {
        let event = reader.next().await;
        let working = json!({"lease": event.id, "events": [{"working": "half way"}]});
        assert_eq!(post(gateway, key, &event.data["taskId"], "events", &working).await.0, 200);
    }
    reader
}

/// Takes every task that waits, and ends it.
async fn the_rest(gateway: &Gateway, key: &str, count: usize) {
    let mut reader = Reader::open(gateway, key, None).await;
    for _ in 0..count {
        let event = reader.next().await;
        let result = json!({"lease": event.id, "text": "at last"});
        assert_eq!(
            post(gateway, key, &event.data["taskId"], "result", &result).await.0,
            200,
            "{}",
            event.name
        );
    }
}

/// The task of a witness, read back whole: what was seen is how it begins, and it ends once. Gives its last state.
async fn read_back(address: SocketAddr, witness: &Witness) -> Option<(String, String)> {
    let list = Call::list(witness.agent, &json!({"contextId": witness.context}));
    let page = list.result(address).await.expect("it can be listed");
    let tasks = page["tasks"].as_array().expect("tasks");
    assert!(tasks.len() <= 1, "{}: {tasks:?}", witness.context);
    let Some(task) = tasks.first().and_then(|task| task["id"].as_str()) else {
        assert!(witness.frames.is_empty(), "{}: what was begun is not there", witness.context);
        return None;
    };
    let all = Call::resume(witness.binding, witness.agent, task, 0).all(address).await;
    assert!(all.iter().map(|frame| frame.number).eq(1..=all.len() as u64), "{}", witness.context);
    assert_eq!(all[..witness.frames.len()], witness.frames, "{}", witness.context);
    let events: Vec<_> = all.iter().map(|frame| frame.event(witness.binding)).collect();
    if witness.agent == "far" {
        let pieces =
            events.iter().filter_map(|event| event["artifactUpdate"]["artifact"]["parts"].as_array());
        let texts: Vec<_> = pieces.flatten().filter_map(|part| part["text"].as_str()).collect();
        let expected: Vec<_> = (1..=PIECES).map(|number| format!("piece {number} ")).collect();
        assert_eq!(texts, expected, "{}", witness.context);
    }
    let last = events.last().expect("an event")["statusUpdate"]["status"]["state"].clone();
    Some((task.to_owned(), last.as_str().expect("a stream ends with a status").to_owned()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_and_no_reservation_is_lost_and_what_goes_on_elsewhere_is_picked_up() {
    let kills = std::env::var("CHANCERY_CRASH_KILLS").map_or(2, |text| text.parse().expect("a number"));
    let model = Endpoint::start(vec![Reply::Hangs(&["one ", "two ", "three ", "four "])]).await;
    let far = spawn(AgentSpec::new("far", Far)).await;
    let keys = [Keys { caller: "worker", agent: Some("it") }];
    let mut gateway = Gateway::start_with_keys(&config(&model, &far), &keys);
    let key = gateway.keys[0].clone();
    let mut known = 0;
    for round in 0..kills {
        let heard: HashMap<_, _> = AGENTS.iter().map(|(agent, _)| (*agent, Arc::default())).collect();
        let callers = begin(address(&gateway), round, &heard);
        let reader = half_way(&gateway, &key).await;
        // Each call has begun, and each agent is in the middle of something, a little further every time.
        for (agent, _) in AGENTS {
            let moment = CALLERS * if agent == "model" { 3 } else { 3 + round };
            while begun(&gateway, agent).await < (round + 1) * CALLERS
                || agent != "it" && heard[agent].load(Ordering::Relaxed) < moment
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        gateway.kill();
        drop(reader);
        let witnesses = callers.join_all().await;
        gateway.restart();
        let waiting = held_on(&gateway).await;
        assert_eq!(waiting, CALLERS, "what waits in the inbox holds on");
        the_rest(&gateway, &key, waiting).await;
        let mut states: HashMap<&str, Vec<String>> = HashMap::new();
        for witness in &witnesses {
            if let Some((_, state)) = read_back(address(&gateway), witness).await {
                states.entry(witness.agent).or_default().push(state);
                known += 1;
            }
        }
        for (agent, _) in AGENTS {
            let expected = match agent {
                "it" | "far" => "TASK_STATE_COMPLETED",
                _ => "TASK_STATE_FAILED",
            };
            assert_eq!(states[agent], vec![expected; CALLERS], "{agent}");
        }
    }
    settled(&gateway, known).await;
}

/// How many calls to the inbox are open with all that they hold; those of others come to their end by themselves.
async fn held_on(gateway: &Gateway) -> usize {
    let calls = asked(gateway, &["calls"])["calls"].clone();
    let calls = calls.as_array().expect("calls");
    for call in calls {
        assert!(call["agent"] == "it" || call["agent"] == "far", "nobody works on it: {call}");
        assert_eq!(call["reserved"]["microUsd"], PRICE, "{call}");
    }
    calls.iter().filter(|call| call["agent"] == "it").count()
}

/// Nothing is open or held, and every call is written down once, with what it has cost.
async fn settled(gateway: &Gateway, known: usize) {
    for look in 0.. {
        let (calls, budgets) = (asked(gateway, &["calls"]), asked(gateway, &["budgets"]));
        let global = &budgets["accounts"][0]["limits"][0];
        if calls["calls"] == json!([]) && global["held"] == 0 {
            let charged = global["charged"].as_u64().expect("a number");
            assert_eq!(charged, known as u64 * PRICE, "{global}");
            break;
        }
        assert!(look < LOOKS, "something is left: {calls}, {global}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let export = gateway.run(&["spend", "export"]);
    assert_eq!(export.lines().count() - 1, known, "{export}");
}
