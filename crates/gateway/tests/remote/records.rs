//! What the gateway says that was done and charged, as an operator exports it.

use std::collections::HashMap;
use std::time::Duration;

use crate::gateway::Gateway;

/// How much later a call may be recorded than it is answered.
const LAG: Duration = Duration::from_secs(3);

/// A call, as the export has it.
#[derive(Clone, Debug)]
pub(crate) struct Recorded(HashMap<String, String>);

/// All calls to agents whose names begin so.
pub(crate) fn exported(gateway: &Gateway, prefix: &str) -> Vec<Recorded> {
    let text = gateway.run(&["spend", "export"]);
    let rows = csv::Reader::from_reader(text.as_bytes()).into_deserialize();
    let rows = rows.map(|row| Recorded(row.expect("a row")));
    rows.filter(|row| row.at("agent").starts_with(prefix)).collect()
}

/// The same, once there are so many and all are settled. What is answered without a task may be recorded a little later.
pub(crate) async fn settled(gateway: &Gateway, prefix: &str, count: usize) -> Vec<Recorded> {
    let settled = |rows: &[Recorded]| rows.iter().filter(|row| !row.at("settled").is_empty()).count();
    let recorded = async {
        while settled(&exported(gateway, prefix)) < count {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    // Whether it was in vain is for the caller to judge.
    let _ = tokio::time::timeout(LAG, recorded).await;
    exported(gateway, prefix)
}

impl Recorded {
    pub(crate) fn at(&self, column: &str) -> &str {
        self.0.get(column).unwrap_or_else(|| panic!("no column `{column}`: {self:?}"))
    }

    /// In millionths of a US dollar.
    pub(crate) fn charged(&self) -> u64 {
        chancery_protocol::parse_usd(self.at("charged_usd")).unwrap_or_default()
    }

    /// What was charged, or is held as long as nothing is.
    pub(crate) fn charged_or_held(&self) -> u64 {
        let column = if self.at("settled").is_empty() { "reserved_usd" } else { "charged_usd" };
        chancery_protocol::parse_usd(self.at(column)).unwrap_or_default()
    }
}
