//! The shapes of the protocol, from the SDK's kit, closed: what is required is there, and nothing that is unknown.

use serde_json::Value;

pub(crate) use chancery_sdk::testing::shape::*;

/// Fails the test that looks at a value of another shape.
pub(crate) fn check(shape: &Shape, value: &Value) {
    if let Some(problem) = shape.problem_if_closed(value) {
        panic!("{problem}, in {value}");
    }
}
