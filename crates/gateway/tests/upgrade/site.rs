//! The gateway on the old store, with the agents and callers that its tasks are of.

use std::time::Duration;

use chancery_protocol::{Call, CallContext, DynEndpoint as _, Principal, Reply, Request};
use chancery_sdk::Client;
use chancery_sdk::egress::Egress;
use chancery_sdk::protocol::{
    Message, ProtocolBinding, SendMessageConfiguration, SendMessageRequest, SendMessageResponse, Task,
    Version,
};
use serde_json::Value;

use crate::agent::{ASKS, AUTHORIZES, Agent, WORKING};
use crate::gateway::{Gateway, chancery, folder};
use crate::receiver::{Manner, Receiver};
use crate::store::rebuild;

/// The id by which one of the tasks is called that waited for the budget.
pub(crate) const WAITED_AND_WORKS: &str = "queued-01a1f076-3b0f-7703-8250-8ad4b1b55e8a";
pub(crate) const WAITED_AND_IS_OUT: &str = "queued-01a1f076-3b11-7005-be58-30e3c5ca0508";
pub(crate) const WAITED_AND_ASKS: &str = "queued-01a1f076-3b12-7673-bac0-b12b36776e6b";
pub(crate) const WAITS: &str = "queued-01a1f076-3b13-7085-a2ba-a0b2f96b5cd1";

/// What contexts the agent was told of for two of them.
const CONTEXT_OF_WORKING: &str = "01a1f076-3b0f-7703-8250-8ad56e3a8044";
const CONTEXT_OF_ASKING: &str = "01a1f076-3b12-7673-bac0-b12c05a4debf";

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Site {
    pub(crate) gateway: Gateway,
    pub(crate) far: Agent,
    pub(crate) north: Agent,
    pub(crate) south: Agent,
    pub(crate) receiver: Receiver,
    keys: [String; 2],
}

/// Somebody with a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who {
    Alice,
    Bob,
}

// === impl Site ===

impl Site {
    /// As the gateway of before was killed, this one is started.
    pub(crate) async fn open() -> Self {
        let far = Agent::with(&[
            ("t-2", "c-2", WORKING),
            ("t-3", "c-3", ASKS),
            ("t-4", "c-4", AUTHORIZES),
            ("t-5", "c-5", WORKING),
            ("t-7", CONTEXT_OF_ASKING, ASKS),
            ("t-8", CONTEXT_OF_WORKING, WORKING),
        ]);
        let (far, north) = (far.await, Agent::with(&[]).await);
        let south = Agent::with(&[("t-2", "c-2", WORKING)]).await;
        let receiver = Receiver::new(Manner::Prompt);
        let folder = folder(&config(&far, &north, &south));
        let data = folder.path().join("chancery-data");
        std::fs::create_dir(&data).expect("a folder");
        rebuild(&data, receiver.url("").as_str());
        let keys = ["alice", "bob"].map(|caller| {
            let made = chancery(folder.path()).args(["key", "create", "--caller", caller]).output();
            String::from_utf8(made.expect("it runs").stdout).expect("a key is text").trim().to_owned()
        });
        let gateway = Gateway::in_folder(folder, None);
        Self { gateway, far, north, south, receiver, keys }
    }

    pub(crate) async fn client(&self, who: Who, agent: &str) -> Client {
        self.client_of(who, agent, Version::V1_0).await
    }

    pub(crate) async fn client_of(&self, who: Who, agent: &str, version: Version) -> Client {
        let key = match who {
            Who::Alice => &self.keys[0],
            Who::Bob => &self.keys[1],
        };
        let builder = Client::builder().version(version).only([ProtocolBinding::JsonRpc]).retries(0);
        let builder = builder.egress(Egress::unrestricted()).bearer(key);
        builder.connect(self.gateway.agent(agent)).await.expect("the agent is served")
    }

    pub(crate) async fn get(&self, who: Who, agent: &str, id: &str) -> Task {
        self.client(who, agent).await.get(id).await.unwrap_or_else(|error| panic!("{agent} {id}: {error}"))
    }

    /// Says something in a task, and waits for what comes of it.
    pub(crate) async fn answer(&self, who: Who, agent: &str, id: &str, text: &str) -> Task {
        let said = SendMessageRequest::from(Message::user(text).in_task(id.into()));
        let sent = self.client(who, agent).await.send(said).await;
        sent.unwrap_or_else(|error| panic!("{agent} {id}: {error}")).task().expect("a task").clone()
    }

    /// Waits until a task is in a state.
    pub(crate) async fn until(&self, who: Who, agent: &str, id: &str, wanted: &str) -> Task {
        let client = self.client(who, agent).await;
        wait(&format!("{agent} {id} to be {wanted}"), async || {
            let task = client.get(id).await.expect("it is there");
            (task.status.state.as_str() == wanted).then_some(task)
        })
        .await
    }

    /// Waits until the open calls of somebody hold so much.
    pub(crate) async fn until_held(&self, who: Who, micro_usd: u64) {
        let what = format!("{who:?} to hold {micro_usd}");
        wait(&what, async || (self.held(who) == micro_usd).then_some(())).await;
    }

    /// What open calls of somebody hold, in millionths of a dollar.
    pub(crate) fn held(&self, who: Who) -> u64 {
        let said = self.gateway.run(&["admin", "-o", "json", "budgets"]);
        let said: Value = serde_json::from_str(&said).expect("it is JSON");
        let accounts = said["accounts"].as_array().expect("a list");
        let of_caller = format!("caller `{}` of realm `default`", who.name());
        let account = accounts.iter().find(|account| account["account"] == *of_caller);
        account.map_or(0, |account| account["limits"][0]["held"].as_u64().expect("a number"))
    }

    /// What somebody was charged in all, in millionths of a dollar, and for how many calls.
    pub(crate) fn charged(&self, who: Who) -> (u64, u64) {
        let said = self.gateway.run(&["spend", "export", "--sums"]);
        let mut rows = said.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let heads = rows.next().expect("a head");
        let place = |name| heads.iter().position(|head| *head == name).expect("there is such a column");
        let (caller, charged, calls_of) = (place("caller"), place("charged_usd"), place("calls"));
        let of_caller = rows.filter(|row| row[caller] == who.name());
        of_caller.fold((0, 0), |(usd, calls), row| {
            let micro = row[charged].replace('.', "").parse::<u64>().expect("six places");
            (usd + micro, calls + row[calls_of].parse::<u64>().expect("a number"))
        })
    }

    /// Gives bob room for what waits.
    pub(crate) fn top_up(&self) {
        self.gateway.run(&["budget", "top-up", "--caller", "bob", "--per", "day", "--usd", "5"]);
    }
}

impl Who {
    fn name(self) -> &'static str {
        match self {
            Self::Alice => "alice",
            Self::Bob => "bob",
        }
    }
}

fn config(far: &Agent, north: &Agent, south: &Agent) -> String {
    format!(
        "[push]\nallow_egress = [\"127.0.0.0/8\"]\n\
         [budget.caller]\nmax_usd_per_day = 100.0\noverflow = {{ queue = {{ max_depth = 8, max_wait = 3600000 }} }}\n\
         [budget.callers.bob]\nmax_usd_per_day = 0.25\n\
         [[agent]]\nname = \"echo\"\nkind = \"builtin\"\nprice = {{ per_call = 0.01 }}\n\
         [[agent]]\nname = \"far\"\nkind = \"a2a\"\nurl = \"{}\"\nprice = {{ per_call = 0.25 }}\n\
         [[agent]]\nname = \"pool\"\nkind = \"a2a\"\nselector = \"round_robin\"\nprice = {{ per_call = 0.5 }}\n\
         members = [{{ name = \"north\", url = \"{}\" }}, {{ name = \"south\", url = \"{}\" }}]\n",
        far.url, north.url, south.url
    )
}

/// The message that began alice's first task, sent with its key.
pub(crate) async fn repeat_first(client: &Client) -> Task {
    let message = Message { message_id: "alice-1".into(), ..Message::user("finish") };
    let mut request = SendMessageRequest::from(message);
    request.configuration = Some(SendMessageConfiguration::default());
    let mut context = CallContext::new(Principal::anonymous(), "".into());
    context.idempotency_key = Some("a-key-of-alice".to_owned());
    let request = Request::SendMessage(Box::new(request));
    match client.call(Call { request, context }).await.expect("it is answered") {
        Reply::Sent(SendMessageResponse::Task(view)) => (*view.task.value().expect("a task")).clone(),
        _ => panic!("the first task was not answered"),
    }
}

/// What the artifacts of a task say.
pub(crate) fn said(task: &Task) -> String {
    task.artifacts.iter().flat_map(|one| &one.parts).filter_map(|part| part.as_text()).collect()
}

/// Waits for a condition.
pub(crate) async fn wait<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(found) = condition().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}
