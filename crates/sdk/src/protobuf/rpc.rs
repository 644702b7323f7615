//! Messages that are not A2A's: what gRPC says about failures and health.

use super::Kind::{Any, Duration, Int32, Map, Text};
use super::Presence::{Implicit, Repeated};
use super::{Kind, Message, field};

macro_rules! messages {
    ($($constant:ident = $name:literal { $($number:literal $field:literal $presence:ident $kind:expr;)* })*) => {
        $(pub(crate) static $constant: Message =
            Message { name: $name, fields: &[$(field($number, $field, $presence, $kind)),*] };)*
    };
}

messages! {
    EMPTY = "google.protobuf.Empty" {}
    STATUS = "google.rpc.Status" {
        1 "code" Implicit Int32;
        2 "message" Implicit Text;
        3 "details" Repeated Any(&[&ERROR_INFO, &BAD_REQUEST, &RETRY_INFO]);
    }
    ERROR_INFO = "google.rpc.ErrorInfo" {
        1 "reason" Implicit Text;
        2 "domain" Implicit Text;
        3 "metadata" Implicit Map(&Text);
    }
    BAD_REQUEST = "google.rpc.BadRequest" {
        1 "fieldViolations" Repeated Kind::Message(&FIELD_VIOLATION);
    }
    FIELD_VIOLATION = "google.rpc.BadRequest.FieldViolation" {
        1 "field" Implicit Text;
        2 "description" Implicit Text;
    }
    RETRY_INFO = "google.rpc.RetryInfo" {
        1 "retryDelay" Implicit Duration;
    }
    HEALTH_CHECK_REQUEST = "grpc.health.v1.HealthCheckRequest" {
        1 "service" Implicit Text;
    }
}
