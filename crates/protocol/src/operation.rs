//! The eleven operations, and the one table of how each is named on every binding.

use std::borrow::Cow;

use http::Method;

/// What can be asked of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Say something and get the answer.
    SendMessage,
    /// Say something and watch the answer being made.
    SendStreamingMessage,
    /// Look at a task.
    GetTask,
    /// Look at one's tasks.
    ListTasks,
    /// Stop a task.
    CancelTask,
    /// Watch a task.
    SubscribeToTask,
    /// Have a task's events posted somewhere.
    CreateTaskPushNotificationConfig,
    /// Look at such a registration.
    GetTaskPushNotificationConfig,
    /// Look at all such registrations of a task.
    ListTaskPushNotificationConfigs,
    /// End such a registration.
    DeleteTaskPushNotificationConfig,
    /// The card for callers who are known.
    GetExtendedAgentCard,
}

/// How an operation is named. Its JSON-RPC method and its gRPC method are the same word.
#[derive(Debug)]
pub struct OperationRow {
    /// The operation.
    pub operation: Operation,
    /// The JSON-RPC method, and the method of gRPC's `lf.a2a.v1.A2AService`.
    pub method: &'static str,
    /// The HTTP+JSON verb.
    pub verb: Method,
    /// The HTTP+JSON path below the interface's URL.
    pub path: &'static str,
}

const fn row(operation: Operation, method: &'static str, verb: Method, path: &'static str) -> OperationRow {
    OperationRow { operation, method, verb, path }
}

/// The table. A path with a `:verb` suffix stands before the one without, since the last suffix decides.
/// Subscribe has two verbs: the proto says GET, the specification's text says POST.
#[rustfmt::skip]
pub static OPERATIONS: [OperationRow; 12] = [
    row(Operation::SendMessage, "SendMessage", Method::POST, "/message:send"),
    row(Operation::SendStreamingMessage, "SendStreamingMessage", Method::POST, "/message:stream"),
    row(Operation::SubscribeToTask, "SubscribeToTask", Method::GET, "/tasks/{id}:subscribe"),
    row(Operation::SubscribeToTask, "SubscribeToTask", Method::POST, "/tasks/{id}:subscribe"),
    row(Operation::CancelTask, "CancelTask", Method::POST, "/tasks/{id}:cancel"),
    row(Operation::GetTask, "GetTask", Method::GET, "/tasks/{id}"),
    row(Operation::ListTasks, "ListTasks", Method::GET, "/tasks"),
    row(Operation::CreateTaskPushNotificationConfig, "CreateTaskPushNotificationConfig", Method::POST, "/tasks/{task}/pushNotificationConfigs"),
    row(Operation::ListTaskPushNotificationConfigs, "ListTaskPushNotificationConfigs", Method::GET, "/tasks/{task}/pushNotificationConfigs"),
    row(Operation::GetTaskPushNotificationConfig, "GetTaskPushNotificationConfig", Method::GET, "/tasks/{task}/pushNotificationConfigs/{id}"),
    row(Operation::DeleteTaskPushNotificationConfig, "DeleteTaskPushNotificationConfig", Method::DELETE, "/tasks/{task}/pushNotificationConfigs/{id}"),
    row(Operation::GetExtendedAgentCard, "GetExtendedAgentCard", Method::GET, "/extendedAgentCard"),
];

/// A request line of HTTP+JSON, understood.
#[derive(Debug, PartialEq, Eq)]
pub struct Route<'a> {
    /// The operation.
    pub operation: Operation,
    /// The first path variable: a task id, still percent-encoded.
    pub task: Option<Cow<'a, str>>,
    /// The second path variable: a configuration id, still percent-encoded.
    pub config: Option<Cow<'a, str>>,
}

/// Why a request line of HTTP+JSON names no operation.
#[derive(Debug, PartialEq, Eq)]
pub enum NoRoute {
    /// There is nothing at this path.
    Path,
    /// There is, but not with this verb; these are the ones that work.
    Verb(Vec<Method>),
}

impl Operation {
    /// The operation with this JSON-RPC or gRPC method name.
    pub fn from_method(method: &str) -> Option<Self> {
        OPERATIONS.iter().find(|row| row.method == method).map(|row| row.operation)
    }

    /// The JSON-RPC or gRPC method name.
    pub fn method(self) -> &'static str {
        OPERATIONS.iter().find(|row| row.operation == self).map_or("", |row| row.method)
    }

    /// Its rows in the table, the proto's own verb first.
    pub fn rows(self) -> impl Iterator<Item = &'static OperationRow> {
        OPERATIONS.iter().filter(move |row| row.operation == self)
    }

    /// Whether repeating it changes nothing.
    pub fn is_idempotent(self) -> bool {
        !matches!(
            self,
            Self::SendMessage | Self::SendStreamingMessage | Self::CreateTaskPushNotificationConfig
        )
    }

    /// Whether it answers with a stream.
    pub fn is_streaming(self) -> bool {
        matches!(self, Self::SendStreamingMessage | Self::SubscribeToTask)
    }

    /// Whether it needs `capabilities.pushNotifications`.
    pub fn is_push(self) -> bool {
        matches!(
            self,
            Self::CreateTaskPushNotificationConfig
                | Self::GetTaskPushNotificationConfig
                | Self::ListTaskPushNotificationConfigs
                | Self::DeleteTaskPushNotificationConfig
        )
    }

    /// Finds the operation of an HTTP+JSON request line, its path given below the interface's URL.
    pub fn from_path<'a>(verb: &Method, path: &'a str) -> Result<Route<'a>, NoRoute> {
        // The first pattern that matches is the most specific one, and it alone decides.
        let mut nearest = None;
        let mut other_verbs = Vec::new();
        for row in &OPERATIONS {
            if nearest.is_some_and(|nearest| nearest != row.path) {
                break;
            }
            let Some([task, config]) = captures(row.path, path) else { continue };
            if row.verb == *verb {
                let text = |found: Option<&'a str>| found.map(Cow::Borrowed);
                return Ok(Route { operation: row.operation, task: text(task), config: text(config) });
            }
            nearest = Some(row.path);
            other_verbs.push(row.verb.clone());
        }
        Err(if other_verbs.is_empty() { NoRoute::Path } else { NoRoute::Verb(other_verbs) })
    }
}

impl OperationRow {
    /// Appends the path with these, percent-encoded already, in the place of its variables.
    pub fn write_path(&self, out: &mut String, variables: [&str; 2]) {
        let mut variables = variables.into_iter();
        let mut rest = self.path;
        while let Some((before, after)) = rest.split_once('{') {
            out.push_str(before);
            out.push_str(variables.next().unwrap_or_default());
            rest = after.split_once('}').map_or("", |(_, after)| after);
        }
        out.push_str(rest);
    }
}

/// Matches a path against a pattern of the table and gives what stands for its variables.
fn captures<'a>(pattern: &str, path: &'a str) -> Option<[Option<&'a str>; 2]> {
    let mut found = [None, None];
    let mut count = 0;
    let mut segments = path.split('/');
    for expected in pattern.split('/') {
        let segment = segments.next()?;
        let Some((_, suffix)) = expected.strip_prefix('{').and_then(|rest| rest.split_once('}')) else {
            if expected == segment {
                continue;
            }
            return None;
        };
        let value = segment.strip_suffix(suffix).filter(|value| !value.is_empty())?;
        *found.get_mut(count)? = Some(value);
        count += 1;
    }
    segments.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(verb: &Method, path: &str) -> Option<(Operation, Option<String>, Option<String>)> {
        let route = Operation::from_path(verb, path).ok()?;
        Some((route.operation, route.task.map(Into::into), route.config.map(Into::into)))
    }

    #[test]
    fn every_row_finds_itself() {
        for row in &OPERATIONS {
            let path = row.path.replace("{task}", "t%2F1").replace("{id}", "x:y");
            let (operation, ..) = find(&row.verb, &path).unwrap_or_else(|| panic!("{path}"));
            assert_eq!(operation, row.operation, "{path}");
            assert_eq!(Operation::from_method(row.method), Some(row.operation));
            assert_eq!(row.operation.method(), row.method);
        }
    }

    #[test]
    fn a_written_path_is_found_again() {
        for row in &OPERATIONS {
            let mut path = String::new();
            row.write_path(&mut path, ["t%2F1", "c"]);
            let (operation, task, config) = find(&row.verb, &path).unwrap_or_else(|| panic!("{path}"));
            assert_eq!(operation, row.operation);
            assert_eq!(task.as_deref(), row.path.contains('{').then_some("t%2F1"), "{path}");
            assert_eq!(config.as_deref(), (row.path.matches('{').count() == 2).then_some("c"), "{path}");
            assert!(row.operation.rows().any(|own| std::ptr::eq(own, row)));
        }
    }

    #[test]
    fn the_last_suffix_decides() {
        let id = Some("a:cancel".to_owned());
        assert_eq!(find(&Method::POST, "/tasks/a:cancel:cancel"), Some((Operation::CancelTask, id, None)));
        assert_eq!(
            find(&Method::GET, "/tasks/a:b"),
            Some((Operation::GetTask, Some("a:b".to_owned()), None))
        );
    }

    #[test]
    fn tells_a_wrong_path_from_a_wrong_verb() {
        assert_eq!(Operation::from_path(&Method::GET, "/nothing").unwrap_err(), NoRoute::Path);
        assert_eq!(Operation::from_path(&Method::GET, "/tasks/").unwrap_err(), NoRoute::Path);
        assert_eq!(
            Operation::from_path(&Method::GET, "/message:send").unwrap_err(),
            NoRoute::Verb(vec![Method::POST])
        );
    }
}
