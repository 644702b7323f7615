//! All rows, and which routes the gateway declares.

use chancery_protocol::Operation;
use chancery_sdk::testing::{ServedRoute, served_routes};
use http::Method;
use serde_json::{Value, json};

use crate::operations::{self, Base, Wanted, served};
use crate::routes::{self, Row as Declared};
use crate::rules::Thing;
use crate::site::Standing;
use crate::wire::{Ask, Over};

/// Something that is asked for in one way.
pub(crate) struct Row {
    /// The routes that it leads through.
    pub(crate) reaches: Vec<String>,
    pub(crate) thing: Thing,
    pub(crate) label: String,
    /// Of v0.1, whose clients name tasks themselves: whether it is asked of the fleet.
    pub(crate) oldest: Option<bool>,
    pub(crate) ask: Box<dyn Fn(&Standing) -> Ask + Send + Sync>,
}

/// The name of a route that the gateway declares beside those of agents.
pub(crate) fn reached(part: &str, verb: &str, path: &str) -> String {
    format!("{part} {verb} {path}")
}

/// Every route that is declared, by name.
pub(crate) fn declared() -> Vec<String> {
    fn named<R>(part: &'static str, rows: &'static [Declared<R>]) -> impl Iterator<Item = String> {
        rows.iter().map(move |row| reached(part, &format!("{:?}", row.verb), row.path))
    }
    let of_sdk = served_routes();
    of_sdk
        .iter()
        .map(served)
        .chain(named("fleet", &routes::FLEET))
        .chain(named("plain", &routes::PLAIN))
        .chain(named("schemas", &routes::SCHEMAS))
        .chain(named("inbox", &routes::INBOX))
        .chain(named("probe", &routes::PROBES))
        .chain(named("admin", &routes::ADMIN))
        .collect()
}

/// All rows.
pub(crate) fn rows() -> Vec<Row> {
    let everything = Wanted {
        task: Thing::OwnersTask,
        receivers: Thing::OwnersReceivers,
        message: Thing::Message,
        view: Thing::OwnView,
        card: Thing::ExtendedCard,
        by: |_| true,
        at_every_path: true,
        operations: |_| true,
    };
    let of_turn = Wanted {
        at_every_path: false,
        task: Thing::TurnsTask,
        receivers: Thing::TurnsReceivers,
        by: |base| matches!(base, Base::Path | Base::Fleet | Base::Port),
        operations: |operation| !matches!(operation, Operation::ListTasks | Operation::GetExtendedAgentCard),
        ..everything
    };
    let is_message =
        |operation| matches!(operation, Operation::SendMessage | Operation::SendStreamingMessage);
    let of_group = Wanted {
        at_every_path: false,
        message: Thing::GroupsAgent,
        by: |base| !matches!(base, Base::Fleet | Base::Port),
        operations: is_message,
        ..everything
    };
    let skill_of_group = Wanted { message: Thing::GroupsSkill, by: |base| base == Base::Fleet, ..of_group };
    let hidden = Wanted {
        task: Thing::HiddenTask,
        receivers: Thing::HiddenRest,
        message: Thing::HiddenAgent,
        view: Thing::HiddenAgent,
        card: Thing::HiddenRest,
        by: |base| !matches!(base, Base::Fleet | Base::Port),
        at_every_path: false,
        operations: |_| true,
    };
    let is_new = |row: &Row| row.label.ends_with("New");
    let mut rows = operations::rows(everything);
    rows.extend(operations::rows(of_turn).into_iter().filter(|row| row.thing != Thing::Message));
    rows.extend(operations::rows(of_group).into_iter().filter(is_new));
    rows.extend(operations::rows(skill_of_group).into_iter().filter(is_new));
    rows.extend(operations::rows(hidden).into_iter().filter(is_new));
    rows.extend(other_services());
    rows.extend(fleet());
    rows.extend(plain());
    rows.extend(inboxes());
    rows.extend(operator());
    rows
}

fn row(reaches: &[String], thing: Thing, ask: impl Fn(&Standing) -> Ask + Send + Sync + 'static) -> Row {
    let label = format!("{} for {thing:?}", reaches.join(", "));
    Row { reaches: reaches.to_vec(), thing, label, oldest: None, ask: Box::new(ask) }
}

fn get(
    path: impl Fn(&Standing) -> String + Send + Sync + 'static,
) -> impl Fn(&Standing) -> Ask + Send + Sync {
    move |at| Ask::http(Method::GET, path(at), None).with("a2a-version", "1.0")
}

/// What the server has besides operations.
fn other_services() -> Vec<Row> {
    let mut rows = Vec::new();
    for route in served_routes() {
        let name = [served(&route)];
        match route {
            ServedRoute::Card { path } => {
                for thing in [Thing::Public, Thing::HiddenAgent] {
                    rows.push(row(&name, thing, get(move |at| format!("/agents/{}{path}", at.agent))));
                    rows.push(row(&name, thing, get(move |at| format!("/a2a/{}{path}", at.agent))));
                }
            }
            ServedRoute::Keys { path } => rows.push(row(&name, Thing::Public, get(move |_| path.to_owned()))),
            ServedRoute::Grpc { path, asks: None } => {
                let Some(thing) = service(&path) else { continue };
                rows.push(row(&name, thing, move |_| {
                    let ask = Ask::grpc(&path, &json!({}), Over::Grpc);
                    Ask { streams: path.ends_with("/Watch"), ..ask }
                }));
            }
            _ => {}
        }
    }
    rows
}

/// Who may ask for the methods of gRPC that are no operations.
fn service(path: &str) -> Option<Thing> {
    match path {
        "/grpc.health.v1.Health/Check" | "/grpc.health.v1.Health/Watch" => Some(Thing::Public),
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
        | "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" => Some(Thing::SwitchedOff),
        _ => None,
    }
}

fn message(at: &Standing) -> Value {
    json!({"message": {"messageId": at.tag, "role": "ROLE_USER", "parts": [{"text": at.text}],
        "metadata": {"urn:chancery:ext:skill:v1": at.skill}}})
}

/// The addresses of the fleet.
fn fleet() -> Vec<Row> {
    let name = |verb: &str, path: &str| [reached("fleet", verb, path)];
    let mut rows = Vec::new();
    for path in ["/.well-known/agent-card.json", "/.well-known/agent.json"] {
        rows.push(row(&name("Read", path), Thing::FleetCard, get(move |_| path.to_owned())));
        let of_skill = format!("/agents/{{agent}}/skills/{{skill}}{path}");
        for thing in [Thing::Public, Thing::HiddenAgent] {
            let card = get(move |at| format!("/agents/{}/skills/{}{path}", at.agent, at.skill));
            rows.push(row(&name("Read", &of_skill), thing, card));
        }
    }
    for path in ["/agents", "/agents/"] {
        rows.push(row(&name("Read", path), Thing::OwnView, get(move |_| path.to_owned())));
    }
    let active = "/agents/{agent}/_active";
    rows.push(row(&name("Read", active), Thing::OwnView, get(|at| format!("/agents/{}/_active", at.agent))));
    for path in ["/a2a/tasks", "/a2a/tasks/"] {
        rows.push(row(&name("Any", path), Thing::OwnView, get(move |_| path.to_owned())));
        for thing in [Thing::Message, Thing::GroupsSkill] {
            let send = move |at: &Standing| Ask::http(Method::POST, path, Some(&message(at)));
            rows.push(row(&name("Any", path), thing, send));
        }
    }
    for thing in [Thing::OwnersTask, Thing::TurnsTask] {
        for slash in ["", "/"] {
            let task = format!("/a2a/tasks/{{task}}{slash}");
            rows.push(row(
                &name("Any", &task),
                thing,
                get(move |at| format!("/a2a/tasks/{}{slash}", at.task)),
            ));
            let by_suffix = move |at: &Standing| {
                Ask::http(Method::POST, format!("/a2a/tasks/{}:cancel{slash}", at.task), None)
            };
            rows.push(row(&name("Any", &task), thing, by_suffix));
            let cancel = move |at: &Standing| {
                Ask::http(Method::POST, format!("/a2a/tasks/{}/cancel{slash}", at.task), None)
            };
            rows.push(row(&name("Any", &format!("/a2a/tasks/{{task}}/cancel{slash}")), thing, cancel));
            for verb in [Method::GET, Method::POST] {
                let watch = move |at: &Standing| {
                    Ask::http(verb.clone(), format!("/a2a/tasks/{}/subscribe{slash}", at.task), None)
                };
                rows.push(row(&name("Any", &format!("/a2a/tasks/{{task}}/subscribe{slash}")), thing, watch));
            }
        }
    }
    for path in ["card", "extendedAgentCard"] {
        let card = get(move |at| format!("/a2a/{}/{path}", at.agent));
        let name = name("Any", &format!("/a2a/{{agent}}/{path}"));
        rows.push(row(&name, Thing::ExtendedCard, card));
    }
    rows
}

/// The plain profile, of the fleet and of an agent.
fn plain() -> Vec<Row> {
    let name = |verb: &str, path: &str| [reached("plain", verb, path)];
    let mut rows = vec![
        row(&[reached("schemas", "Read", "/schemas")], Thing::Public, get(|_| "/schemas".to_owned())),
        row(
            &[reached("schemas", "Read", "/schemas/{name}")],
            Thing::Public,
            get(|_| "/schemas/error".to_owned()),
        ),
        row(&[reached("probe", "Read", "/livez")], Thing::Public, get(|_| "/livez".to_owned())),
        row(&[reached("probe", "Read", "/readyz")], Thing::Public, get(|_| "/readyz".to_owned())),
        row(&name("Read", "/card"), Thing::FleetCard, get(|_| "/card".to_owned())),
        row(&name("Read", "/healthz"), Thing::Public, get(|_| "/healthz".to_owned())),
        row(&name("Post", "/negotiate"), Thing::OwnView, post(|_| "/negotiate".to_owned(), negotiate)),
    ];
    for path in ["/invoke", "/invoke/stream"] {
        for thing in [Thing::Message, Thing::GroupsSkill, Thing::OwnersTask, Thing::TurnsTask] {
            rows.push(row(&name("Post", path), thing, post(move |_| path.to_owned(), invoke_for(thing))));
        }
        let of_agent = name("Post", &format!("/agents/{{agent}}{path}"));
        let own = [Thing::OwnersTask, Thing::TurnsTask];
        for thing in [Thing::Message, Thing::GroupsAgent, Thing::HiddenAgent].into_iter().chain(own) {
            let ask = post(move |at| format!("/agents/{}{path}", at.agent), invoke_for(thing));
            rows.push(row(&of_agent, thing, ask));
        }
    }
    for thing in [Thing::Public, Thing::HiddenAgent] {
        let card = get(|at| format!("/agents/{}/card", at.agent));
        rows.push(row(&name("Read", "/agents/{agent}/card"), thing, card));
    }
    for thing in [Thing::OwnView, Thing::GroupsHealth, Thing::HiddenAgent] {
        let health = get(|at| format!("/agents/{}/healthz", at.agent));
        rows.push(row(&name("Read", "/agents/{agent}/healthz"), thing, health));
    }
    for thing in [Thing::OwnView, Thing::HiddenAgent] {
        let ask = post(|at| format!("/agents/{}/negotiate", at.agent), negotiate);
        rows.push(row(&name("Post", "/agents/{agent}/negotiate"), thing, ask));
    }
    rows
}

fn post(
    path: impl Fn(&Standing) -> String + Send + Sync + 'static,
    body: impl Fn(&Standing) -> Value + Send + Sync + 'static,
) -> impl Fn(&Standing) -> Ask + Send + Sync {
    move |at| Ask::http(Method::POST, path(at), Some(&body(at))).with("x-request-id", at.tag.clone())
}

/// A message by the plain profile: to a task, or a new one.
fn invoke_for(thing: Thing) -> impl Fn(&Standing) -> Value + Send + Sync {
    let is_follow_up = matches!(thing, Thing::OwnersTask | Thing::TurnsTask);
    move |at| {
        let params = match is_follow_up {
            true => json!({"text": at.text, "taskId": at.task}),
            false => json!({"text": at.text, "skill": at.skill}),
        };
        json!({"jsonrpc": "2.0", "id": 1, "method": "invoke", "params": params})
    }
}

fn negotiate(at: &Standing) -> Value {
    json!({"skills": [at.skill]})
}

/// Inboxes. Those of tasks are asked about a task that waits there.
fn inboxes() -> Vec<Row> {
    let stream = "/agents/{agent}/inbox/stream";
    let mut rows = Vec::new();
    for thing in [Thing::Inbox, Thing::HiddenInbox] {
        let read = get(|at| format!("/agents/{}/inbox/stream", at.inbox));
        rows.push(row(&[reached("inbox", "Get", stream)], thing, read));
    }
    for (what, body) in [("events", json!({"events": []})), ("result", json!({"text": "done"}))] {
        let name = [reached("inbox", "Post", &format!("/agents/{{agent}}/inbox/tasks/{{task}}/{what}"))];
        for thing in [Thing::InboxTask, Thing::HiddenInboxTask] {
            let body = body.clone();
            rows.push(row(&name, thing, move |at| {
                let mut body = body.clone();
                body["lease"] = json!(at.lease);
                let path = format!("/agents/{}/inbox/tasks/{}/{what}", at.inbox, at.item);
                Ask::http(Method::POST, path, Some(&body))
            }));
        }
    }
    rows
}

/// The admin listener.
fn operator() -> Vec<Row> {
    let mut rows = Vec::new();
    for (verb, path, body) in [
        ("Get", "/livez", None),
        ("Get", "/readyz", None),
        ("Get", "/agents", None),
        ("Post", "/agents/{name}/contain", Some(json!({"reason": "tried out"}))),
        ("Post", "/agents/{name}/release", None),
        ("Get", "/breakers", None),
        ("Get", "/calls", None),
        ("Get", "/calls/{root}/tree", None),
        ("Post", "/tasks/{task}/cancel", None),
        ("Get", "/budgets", None),
        (
            "Post",
            "/explain",
            Some(json!({"caller": "alice", "realm": "default", "group": [], "as_agent": false,
            "agent": "ask", "op": "SendMessage", "skill": null, "depth": 0, "usd": null})),
        ),
        ("Get", "/config", None),
        ("Post", "/reload", None),
        ("Get", "/metrics", None),
    ] {
        let is_probe = matches!(path, "/livez" | "/readyz");
        let thing = if is_probe { Thing::Public } else { Thing::Operation };
        rows.push(row(&[reached("admin", verb, path)], thing, move |at| {
            let path =
                path.replace("{name}", "nobody").replace("{root}", &at.task).replace("{task}", &at.task);
            let verb = if verb == "Post" { Method::POST } else { Method::GET };
            let mut ask = Ask::http(verb, path, body.as_ref());
            ask.over = Over::Admin;
            ask
        }));
    }
    rows
}
