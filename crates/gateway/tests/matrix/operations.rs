//! Every operation, in the words of each version and binding.

use std::sync::Arc;

use chancery_protocol::{Operation, Version};
use chancery_sdk::testing::{ServedRoute, served_routes};
use http::Method;
use serde_json::{Value, json};

use crate::plan::{Row, reached};
use crate::rules::Thing;
use crate::site::{RECEIVER, Standing};
use crate::wire::{Ask, Over};

const SKILL: &str = "urn:chancery:ext:skill:v1";

/// How an agent is addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// By its path.
    Path,
    /// By its other path.
    Alias,
    /// By one of its skills.
    Skill,
    /// By the tenant of a request to the fleet.
    Tenant,
    /// As the one of the fleet that has the skill, or the task.
    Fleet,
    /// Over gRPC, by a host name below the server's.
    Host,
    /// Over gRPC, by a port of its own.
    Port,
}

/// What a message or a task is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    New,
    /// A message to a task that is there.
    FollowUp,
}

impl Base {
    const HTTP: [Self; 5] = [Self::Path, Self::Alias, Self::Skill, Self::Tenant, Self::Fleet];
    const GRPC: [Self; 4] = [Self::Tenant, Self::Fleet, Self::Host, Self::Port];

    /// The path before that of the operation.
    fn prefix(self, at: &Standing) -> String {
        match self {
            Self::Path => format!("/agents/{}", at.agent),
            Self::Alias => format!("/a2a/{}", at.agent),
            Self::Skill => format!("/agents/{}/skills/{}", at.agent, at.skill),
            _ => String::new(),
        }
    }

    /// The route of the gateway's own that it leads through.
    fn through(self) -> Option<String> {
        let path = match self {
            Self::Path => "/agents/{agent}{*below}",
            Self::Alias => "/a2a/{agent}{*below}",
            Self::Skill => "/agents/{agent}/skills/{skill}{*below}",
            _ => return None,
        };
        Some(reached("fleet", "Any", path))
    }

    fn tenant(self, at: &Standing) -> Option<&str> {
        (self == Self::Tenant).then_some(&at.agent)
    }

    fn has_path(self) -> bool {
        matches!(self, Self::Path | Self::Alias | Self::Skill)
    }

    fn is_fleet(self) -> bool {
        self == Self::Fleet
    }
}

/// Which rows are wanted.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    /// Tasks and receivers of notifications of this kind.
    pub(crate) task: Thing,
    pub(crate) receivers: Thing,
    /// New messages.
    pub(crate) message: Thing,
    /// Everything else that is asked of an agent.
    pub(crate) view: Thing,
    pub(crate) card: Thing,
    /// Whether an agent that is addressed so is wanted.
    pub(crate) by: fn(Base) -> bool,
    /// Whether JSON-RPC is wanted at every path that it has there, or at the first alone.
    pub(crate) at_every_path: bool,
    /// Whether an operation is wanted.
    pub(crate) operations: fn(Operation) -> bool,
}

/// A row for each way that the server declares to ask for an operation.
pub(crate) fn rows(wanted: Wanted) -> Vec<Row> {
    served_routes().into_iter().flat_map(|route| rows_of(&route, wanted)).collect()
}

fn rows_of(route: &ServedRoute, wanted: Wanted) -> Vec<Row> {
    match route {
        ServedRoute::JsonRpc { path, version, method, operation } => {
            let ways = Base::HTTP.into_iter().flat_map(|base| [(base, ""), (base, "/")]);
            let ways = ways.filter(|(base, slash)| {
                let is_nowhere = path.is_empty() && slash.is_empty() && !base.has_path();
                // The other addresses of an agent leave what is below them as it is.
                let is_again = matches!(base, Base::Alias | Base::Skill) && !slash.is_empty();
                let is_first = path.is_empty() && slash.is_empty() == base.has_path();
                // Only v1.0 can name a tenant.
                (is_first || wanted.at_every_path && !is_nowhere)
                    && !is_again
                    && (*base != Base::Tenant || *version == Version::V1_0)
            });
            let rows = ways.flat_map(|(base, slash)| {
                let is_public_card = *method == "agent/card";
                let ask = jsonrpc(format!("{path}{slash}"), *version, method, *operation, base);
                cells(route, (*version, *operation), base, wanted, is_public_card, ask)
            });
            rows.collect()
        }
        ServedRoute::HttpJson { version, verb, path, operation } => {
            let names_tenant = path.starts_with("/{tenant}");
            let ways = Base::HTTP.into_iter().filter(|base| {
                names_tenant == (*base == Base::Tenant) || names_tenant && *base == Base::Path
            });
            let rows = ways.flat_map(|base| {
                let ask = http_json(verb.clone(), path.clone(), *version, *operation, base);
                cells(route, (*version, *operation), base, wanted, false, ask)
            });
            rows.collect()
        }
        ServedRoute::Grpc { path, asks: Some((version, operation)) } => {
            let has_tenants = *version == Version::V1_0;
            let ways = Base::GRPC.into_iter().filter(|base| *base != Base::Tenant || has_tenants);
            let rows = ways.flat_map(|base| {
                let ask = grpc(path.clone(), *version, *operation, base);
                cells(route, (*version, *operation), base, wanted, false, ask)
            });
            rows.collect()
        }
        _ => Vec::new(),
    }
}

fn jsonrpc(
    below: String,
    version: Version,
    method: &'static str,
    operation: Operation,
    base: Base,
) -> impl Fn(Form, &Standing) -> Ask + Send + Sync + 'static {
    move |form, at| {
        let mut params = params(version, false, operation, form, base, at);
        if let (Some(tenant), Version::V1_0) = (base.tenant(at), version) {
            params["tenant"] = json!(tenant);
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let path = format!("{}{below}", base.prefix(at));
        Ask::http(Method::POST, path, Some(&body)).with("a2a-version", version.to_string())
    }
}

fn http_json(
    verb: Method,
    path: String,
    version: Version,
    operation: Operation,
    base: Base,
) -> impl Fn(Form, &Standing) -> Ask + Send + Sync + 'static {
    let takes_body = !matches!(operation, Operation::SubscribeToTask | Operation::CancelTask);
    move |form, at| {
        let has_body = verb == Method::POST && takes_body;
        let body = has_body.then(|| params(version, true, operation, form, base, at));
        let below = path.replace("{tenant}", &at.agent).replace("{task}", &at.task);
        let id = if below.contains("pushNotificationConfigs") { &at.config } else { &at.task };
        let path = format!("{}{}", base.prefix(at), below.replace("{id}", id));
        Ask::http(verb.clone(), path, body.as_ref()).with("a2a-version", version.to_string())
    }
}

fn grpc(
    path: String,
    version: Version,
    operation: Operation,
    base: Base,
) -> impl Fn(Form, &Standing) -> Ask + Send + Sync + 'static {
    move |form, at| {
        let mut request = match version {
            Version::V1_0 => params(version, false, operation, form, base, at),
            _ => old_message(operation, form, base, at),
        };
        if let Some(tenant) = base.tenant(at) {
            request["tenant"] = json!(tenant);
        }
        let over = match base {
            Base::Host => Over::GrpcByHost(at.agent.clone()),
            Base::Port => Over::GrpcByPort,
            _ => Over::Grpc,
        };
        let ask = Ask::grpc(&path, &request, over).with("a2a-version", version.to_string());
        Ask { streams: operation.is_streaming(), ..ask }
    }
}

/// The rows of one way to ask for an operation.
fn cells(
    route: &ServedRoute,
    (version, operation): (Version, Operation),
    base: Base,
    wanted: Wanted,
    is_public_card: bool,
    ask: impl Fn(Form, &Standing) -> Ask + Send + Sync + 'static,
) -> Vec<Row> {
    if !(wanted.by)(base) || !(wanted.operations)(operation) {
        return Vec::new();
    }
    let things = match operation {
        // What a client of v0.1 calls a task, nobody else can name; a new name begins a task.
        Operation::SendMessage | Operation::SendStreamingMessage if version == Version::V0_1 => {
            vec![(Form::New, wanted.message)]
        }
        Operation::SendMessage | Operation::SendStreamingMessage => {
            vec![(Form::New, wanted.message), (Form::FollowUp, wanted.task)]
        }
        Operation::GetTask | Operation::CancelTask | Operation::SubscribeToTask => {
            vec![(Form::New, wanted.task)]
        }
        Operation::ListTasks => vec![(Form::New, wanted.view)],
        Operation::GetExtendedAgentCard if is_public_card => vec![(Form::New, wanted.view)],
        Operation::GetExtendedAgentCard => vec![(Form::New, wanted.card)],
        _ => vec![(Form::New, wanted.receivers)],
    };
    let ask = Arc::new(ask);
    let row = |(form, thing)| {
        let ask = ask.clone();
        let reaches = [Some(served(route)), base.through()].into_iter().flatten().collect();
        Row {
            reaches,
            thing,
            label: format!("{} by {base:?}, {form:?}", served(route)),
            oldest: (version == Version::V0_1).then(|| base.is_fleet()),
            ask: Box::new(move |at| ask(form, at)),
        }
    };
    things.into_iter().map(row).collect()
}

/// The name of a route that the server declares.
pub(crate) fn served(route: &ServedRoute) -> String {
    match route {
        ServedRoute::Card { path } => format!("card {path}"),
        ServedRoute::Keys { path } => format!("keys {path}"),
        ServedRoute::JsonRpc { path, version, method, .. } => format!("JSON-RPC {version} {path} {method}"),
        ServedRoute::HttpJson { version, verb, path, .. } => format!("HTTP+JSON {version} {verb} {path}"),
        ServedRoute::Grpc { path, .. } => format!("gRPC {path}"),
        other => panic!("a kind of route that nothing here knows: {other:?}"),
    }
}

/// The parameters of JSON-RPC, the body of HTTP+JSON, and of v1.0 the message of gRPC.
fn params(
    version: Version,
    is_rest: bool,
    operation: Operation,
    form: Form,
    base: Base,
    at: &Standing,
) -> Value {
    match version {
        Version::V1_0 => new(operation, form, base, at),
        Version::V0_3 if is_rest => old_rest(operation, form, base, at),
        Version::V0_3 => old(operation, form, base, at),
        _ => oldest(operation, base, at),
    }
}

fn metadata(base: Base, at: &Standing) -> Value {
    if base.is_fleet() { json!({SKILL: at.skill}) } else { json!({}) }
}

fn new(operation: Operation, form: Form, base: Base, at: &Standing) -> Value {
    match operation {
        Operation::SendMessage | Operation::SendStreamingMessage => {
            let mut message = json!({"messageId": at.tag, "role": "ROLE_USER", "parts": [{"text": at.text}],
                "metadata": metadata(base, at)});
            if form == Form::FollowUp {
                message["taskId"] = json!(at.task);
            }
            json!({"message": message})
        }
        Operation::CreateTaskPushNotificationConfig => {
            json!({"taskId": at.task, "id": at.config, "url": RECEIVER})
        }
        Operation::GetTaskPushNotificationConfig | Operation::DeleteTaskPushNotificationConfig => {
            json!({"taskId": at.task, "id": at.config})
        }
        Operation::ListTaskPushNotificationConfigs => json!({"taskId": at.task}),
        Operation::GetTask | Operation::CancelTask | Operation::SubscribeToTask => json!({"id": at.task}),
        Operation::ListTasks | Operation::GetExtendedAgentCard => json!({}),
    }
}

fn old(operation: Operation, form: Form, base: Base, at: &Standing) -> Value {
    match operation {
        Operation::SendMessage | Operation::SendStreamingMessage => {
            let parts = json!([{"kind": "text", "text": at.text}]);
            let mut message = json!({"kind": "message", "messageId": at.tag, "role": "user", "parts": parts,
                "metadata": metadata(base, at)});
            if form == Form::FollowUp {
                message["taskId"] = json!(at.task);
            }
            json!({"message": message})
        }
        Operation::CreateTaskPushNotificationConfig => {
            json!({"taskId": at.task, "pushNotificationConfig": {"id": at.config, "url": RECEIVER}})
        }
        Operation::GetTaskPushNotificationConfig | Operation::DeleteTaskPushNotificationConfig => {
            json!({"id": at.task, "pushNotificationConfigId": at.config})
        }
        Operation::ListTasks | Operation::GetExtendedAgentCard => json!({}),
        _ => json!({"id": at.task}),
    }
}

fn old_said(form: Form, base: Base, at: &Standing) -> Value {
    let mut message = json!({"messageId": at.tag, "role": "ROLE_USER", "content": [{"text": at.text}],
        "metadata": metadata(base, at)});
    if form == Form::FollowUp {
        message["taskId"] = json!(at.task);
    }
    message
}

fn old_rest(operation: Operation, form: Form, base: Base, at: &Standing) -> Value {
    match operation {
        Operation::SendMessage | Operation::SendStreamingMessage => {
            json!({"message": old_said(form, base, at)})
        }
        _ => old_message(operation, form, base, at),
    }
}

/// A message of gRPC in v0.3.
fn old_message(operation: Operation, form: Form, base: Base, at: &Standing) -> Value {
    let task = format!("tasks/{}", at.task);
    let config = format!("{task}/pushNotificationConfigs/{}", at.config);
    match operation {
        Operation::SendMessage | Operation::SendStreamingMessage => {
            json!({"request": old_said(form, base, at)})
        }
        Operation::CreateTaskPushNotificationConfig => json!({"parent": task, "configId": at.config,
            "config": {"name": config, "pushNotificationConfig": {"id": at.config, "url": RECEIVER}}}),
        Operation::GetTaskPushNotificationConfig | Operation::DeleteTaskPushNotificationConfig => {
            json!({"name": config})
        }
        Operation::ListTaskPushNotificationConfigs => json!({"parent": task}),
        Operation::ListTasks | Operation::GetExtendedAgentCard => json!({}),
        Operation::GetTask | Operation::CancelTask | Operation::SubscribeToTask => json!({"name": task}),
    }
}

fn oldest(operation: Operation, base: Base, at: &Standing) -> Value {
    match operation {
        Operation::SendMessage | Operation::SendStreamingMessage => json!({"id": at.tag, "message":
            {"role": "user", "parts": [{"type": "text", "text": at.text}], "metadata": metadata(base, at)}}),
        Operation::CreateTaskPushNotificationConfig => {
            json!({"id": at.name, "pushNotificationConfig": {"url": RECEIVER}})
        }
        _ => json!({"id": at.name}),
    }
}
