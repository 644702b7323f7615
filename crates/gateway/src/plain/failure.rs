//! Why there is no answer, by the codes of the profile. They are not those of A2A, which has other meanings for some of
//! the same numbers; what the profile has no code for keeps the one that it has everywhere else here.

use std::time::Duration;

use chancery_protocol::{Denied, Error, ErrorCode, Quota};
use chancery_sdk::{Body, Refused};
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use serde_json::Value;

use super::body::{Failed, Field, Problem, ProblemData};
use crate::limits::{TOO_MANY_BYTES, TOO_MANY_TOKENS};

/// The codes of the profile: number, name, status.
type Code = (i32, &'static str, StatusCode);

const AGENT_UNAVAILABLE: Code = (-32000, "AGENT_UNAVAILABLE", StatusCode::SERVICE_UNAVAILABLE);
const BUDGET_EXCEEDED: Code = (-32001, "BUDGET_EXCEEDED", StatusCode::TOO_MANY_REQUESTS);
const TIMEOUT: Code = (-32002, "TIMEOUT", StatusCode::GATEWAY_TIMEOUT);
const RATE_LIMITED: Code = (-32003, "RATE_LIMITED", StatusCode::TOO_MANY_REQUESTS);
const VALIDATION_ERROR: Code = (-32602, "VALIDATION_ERROR", StatusCode::BAD_REQUEST);

/// Why there is no answer.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    code: Code,
    data: Box<ProblemData>,
    retry_after: Option<Duration>,
    quota: Option<Quota>,
    challenge: Option<&'static str>,
    allow: Option<&'static str>,
}

impl Failure {
    fn new(code: Code, reason: impl Into<String>, detail: impl Into<String>) -> Self {
        let data = ProblemData { reason: reason.into(), detail: detail.into(), ..ProblemData::default() };
        Self { code, data: Box::new(data), retry_after: None, quota: None, challenge: None, allow: None }
    }

    /// Something about the request is wrong.
    pub(super) fn invalid(reason: &str, detail: impl Into<String>) -> Self {
        Self::new(VALIDATION_ERROR, reason, detail)
    }

    /// The path takes another method.
    pub(super) fn method(allowed: &'static str) -> Self {
        let mut failure = Self::invalid("METHOD_NOT_ALLOWED", format!("send {allowed}"));
        failure.code.2 = StatusCode::METHOD_NOT_ALLOWED;
        failure.allow = Some(allowed);
        failure
    }

    /// It took too long. The task may go on.
    pub(super) fn timeout(task: Option<String>) -> Self {
        let detail = "there was no answer in time; ask again with the same X-Request-ID to wait for it";
        let mut failure = Self::new(TIMEOUT, "TIMEOUT", detail);
        failure.data.task_id = task;
        failure
    }

    /// The time that the operator allows was up, or the caller's own; the task has ended.
    pub(super) fn time_is_up(task: String, said: String) -> Self {
        let mut failure = Self::new(TIMEOUT, "TIMEOUT", said);
        failure.data.task_id = Some(task);
        failure
    }

    pub(super) fn fields(mut self, fields: Vec<Field>) -> Self {
        self.data.fields = fields;
        self
    }

    #[cfg(test)]
    pub(super) fn detail(&self) -> &str {
        &self.data.detail
    }

    /// What is written about it.
    pub(super) fn body(&self, id: Option<Value>) -> Vec<u8> {
        let (code, message, _) = self.code;
        let problem = Problem { code, message: message.to_owned(), data: ProblemData::clone(&self.data) };
        serde_json::to_vec(&Failed::new(id, problem)).unwrap_or_default()
    }

    /// The same as an answer.
    pub(super) fn respond(&self, id: Option<Value>) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body(id)));
        *response.status_mut() = self.code.2;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let mut put =
            |name: HeaderName, value: Option<HeaderValue>| value.map(|value| headers.insert(name, value));
        put(header::WWW_AUTHENTICATE, self.challenge.map(HeaderValue::from_static));
        put(header::ALLOW, self.allow.map(HeaderValue::from_static));
        let seconds = |wait: Duration| wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        put(header::RETRY_AFTER, self.retry_after.map(|wait| HeaderValue::from(seconds(wait))));
        for (name, value) in self.quota.iter().flat_map(Quota::headers) {
            headers.insert(HeaderName::from_static(name), HeaderValue::from(value));
        }
        response
    }
}

/// By which code somebody is told of a failure.
fn code(error: &Error) -> Code {
    use ErrorCode as E;
    let row = error.code().row();
    let gate = error.denied().map_or("", |denied| &*denied.gate);
    match error.code() {
        E::Unavailable | E::InvalidAgentResponse => AGENT_UNAVAILABLE,
        E::ResourceExhausted if gate == "budget" => BUDGET_EXCEEDED,
        E::ResourceExhausted => RATE_LIMITED,
        E::PermissionDenied if matches!(error.reason(), TOO_MANY_BYTES | TOO_MANY_TOKENS) => {
            (VALIDATION_ERROR.0, VALIDATION_ERROR.1, StatusCode::PAYLOAD_TOO_LARGE)
        }
        E::Internal | E::Unauthenticated | E::PermissionDenied | E::LineageRefused => {
            (row.jsonrpc, row.reason, row.http)
        }
        _ => (VALIDATION_ERROR.0, VALIDATION_ERROR.1, row.http),
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        let mut failure = Self::new(code(error), error.reason(), error.message());
        failure.retry_after = error.wait();
        failure.challenge = error.challenged();
        let data = &mut failure.data;
        data.retry_after_ms = error.wait().map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        let field = |violation: &chancery_protocol::FieldViolation| Field {
            path: violation.field.clone(),
            what: violation.description.clone(),
        };
        data.fields = error.violations().iter().map(field).collect();
        if let Some(Denied { gate, limit, observed, remaining, hint, quota, .. }) = error.denied() {
            failure.quota = quota.as_deref().copied();
            data.gate = Some(gate.to_string());
            (data.limit, data.observed) = (limit.clone(), observed.clone());
            (data.remaining, data.hint) = (remaining.clone(), hint.clone());
        }
        failure
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

/// A body that cannot be read says so by its status.
impl From<Refused> for Failure {
    fn from(Refused { status, error }: Refused) -> Self {
        let mut failure = Self::from(&error);
        if let Some(status) = status {
            failure.code.2 = status;
            failure.data.reason = match status {
                StatusCode::PAYLOAD_TOO_LARGE => TOO_MANY_BYTES,
                StatusCode::REQUEST_TIMEOUT => "BODY_TOO_SLOW",
                StatusCode::UNSUPPORTED_MEDIA_TYPE => "CONTENT_TYPE",
                _ => "BODY_CUT",
            }
            .to_owned();
        }
        failure
    }
}

#[cfg(test)]
mod tests {
    use chancery_control::rate;
    use chancery_protocol::{ALL_ERROR_CODES, DeniedKind};

    use super::*;

    fn told(error: impl Into<Error>) -> (i32, &'static str, u16) {
        let (code, name, status) = code(&error.into());
        (code, name, status.as_u16())
    }

    #[test]
    fn each_gate_is_told_by_the_code_that_its_callers_can_act_on() {
        let exhausted = |gate: &'static str| Denied::new(gate, DeniedKind::Exhausted, "X");
        assert_eq!(told(exhausted("budget")), (-32001, "BUDGET_EXCEEDED", 429));
        assert_eq!(told(exhausted(rate::GATE)), (-32003, "RATE_LIMITED", 429));
        assert_eq!(told(exhausted("policy")), (-32003, "RATE_LIMITED", 429));
        let gone = Denied::new("routing", DeniedKind::Unavailable, "X");
        assert_eq!(told(gone), (-32000, "AGENT_UNAVAILABLE", 503));
        let loops = Denied::new("lineage", DeniedKind::Lineage, "X");
        assert_eq!(told(loops), (-31508, "LINEAGE_REFUSED", 400));
        let large = Denied::new("limits", DeniedKind::Forbidden, TOO_MANY_TOKENS);
        assert_eq!(told(large), (-32602, "VALIDATION_ERROR", 413));
    }

    #[test]
    fn no_code_of_a2a_is_used_for_something_else() {
        let ours = [-32000, -32001, -32002, -32003, -32602];
        for kind in ALL_ERROR_CODES {
            let (code, name, _) = told(kind);
            assert!(!kind.is_a2a() || ours.contains(&code), "{name} is told by {code}");
        }
    }
}
