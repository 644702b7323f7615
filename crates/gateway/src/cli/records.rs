//! Which calls, and of which time: flags that `spend` and `trace` share.

use std::str::FromStr;
use std::sync::Arc;

use chancery_protocol::Timestamp;
use chancery_store::{AuditRecord, EdgeQuery, Realms};
use clap::Args;

use super::agent::Span;

/// Which calls.
#[derive(Clone, Debug, Args)]
pub(super) struct Which {
    /// From then on: a time such as `2026-11-01T00:00:00Z`, or how long ago, such as `90m` or `24h`
    #[arg(long, value_name = "TIME")]
    pub(super) since: Option<When>,

    /// Until then
    #[arg(long, value_name = "TIME")]
    pub(super) until: Option<When>,

    /// Only in this realm
    #[arg(long, value_name = "NAME")]
    realm: Option<String>,

    /// Only by this caller
    #[arg(long, value_name = "NAME")]
    pub(super) caller: Option<String>,

    /// Only to this agent
    #[arg(long, value_name = "NAME")]
    pub(super) agent: Option<String>,
}

/// A point in time.
#[derive(Clone, Copy, Debug)]
pub(super) struct When(pub(super) Timestamp);

impl Which {
    pub(super) fn realms(&self) -> Realms {
        self.realm.as_deref().map_or(Realms::All, |realm| Realms::One(realm.into()))
    }

    /// Writes it into an entry of the audit log.
    pub(super) fn put_to(&self, act: AuditRecord) -> AuditRecord {
        let names = [("realm", &self.realm), ("caller", &self.caller), ("agent", &self.agent)];
        let named = names.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
        let act = named.fold(act, |act, (name, value)| act.detail(name, value));
        let times = [("since", self.since), ("until", self.until)].into_iter();
        times.fold(act, |act, (name, when)| match when {
            Some(when) => act.detail(name, when.0.to_string()),
            None => act,
        })
    }

    pub(super) fn query(&self) -> EdgeQuery {
        let name = |name: &Option<String>| name.as_deref().map(Arc::from);
        EdgeQuery {
            since: self.since.map(|when| when.0),
            until: self.until.map(|when| when.0),
            caller: name(&self.caller),
            agent: name(&self.agent),
            ..EdgeQuery::of(self.realms())
        }
    }
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(at) = Timestamp::parse(text) {
            return Ok(Self(at));
        }
        let ago: Span = text
            .parse()
            .map_err(|_| "expected a time such as `2026-11-01T00:00:00Z`, or how long ago, such as `24h`")?;
        let ago = i64::try_from(ago.0.as_millis()).unwrap_or(i64::MAX);
        Ok(Self(Timestamp::from_millis(Timestamp::now().as_millis().saturating_sub(ago))))
    }
}
