//! Where notifications may be posted.

use chancery_sdk::egress::Egress;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where notifications may be posted.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PushSection {
    /// Ranges of addresses besides those that the whole world can reach, such as `10.0.0.0/8`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) allow_egress: Vec<String>,
}

impl PushSection {
    /// What is dialled because somebody named it.
    pub(crate) fn egress(&self) -> Egress {
        egress_to(&self.allow_egress)
    }
}

/// What the whole world can reach, and these ranges. That they are such has been checked.
pub(super) fn egress_to(ranges: &[String]) -> Egress {
    let ranges = ranges.iter().filter_map(|range| range.parse().ok());
    ranges.fold(Egress::default(), Egress::allow)
}
