//! What the gateway says that was done and charged, as an operator exports it.

use std::collections::HashMap;

use crate::gateway::Gateway;

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
