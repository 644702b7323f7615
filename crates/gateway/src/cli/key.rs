//! `chancery key`: API keys, made, listed and revoked, also while a gateway runs.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use chancery_control::Millis;
use chancery_control::identity::{ApiKey, KeyRecord, check_name, is_reserved};
use chancery_protocol::Timestamp;
use chancery_protocol::signing::SigningKey;
use chancery_sdk::is_agent_name;
use clap::{Args, Subcommand};

use super::failure::printable;
use super::place::DataPlace;
use crate::audit::acts;
use crate::fleet::RESERVED;
use crate::identity::{KeyFile, KeyUses, SigningKeys};

/// Make, list and revoke the keys by which callers show who they are, and change those that cards are signed with
#[derive(Debug, Args)]
pub(super) struct KeyCommand {
    #[command(flatten)]
    place: DataPlace,

    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a key and show it, once
    Create {
        /// Who is to have it
        #[arg(long, value_name = "NAME")]
        caller: String,
        /// The realm that they belong to
        #[arg(long, default_value = "default", value_name = "NAME")]
        realm: String,
        /// A group that they belong to; may be repeated
        #[arg(long, value_name = "NAME")]
        group: Vec<String>,
        /// The agent of this fleet that they are, if they are one
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        /// For how many days it is good; for ever unless said
        #[arg(long, value_name = "N")]
        days: Option<u64>,
    },
    /// List the keys, without what is secret about them
    List,
    /// Sign cards with new keys from now on, also while a gateway runs
    Rotate {
        /// For how many hours what was signed with the old ones is good
        #[arg(long, default_value_t = 24, value_name = "N")]
        overlap_hours: u64,
    },
    /// Show the keys that cards are signed with, and the agent id of this gateway, without what is secret about them
    Signing,
    /// Take a key back, at once
    Revoke {
        /// Its id
        id: String,
    },
}

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl KeyCommand {
    pub(super) fn run(self, out: &mut impl Write) -> anyhow::Result<()> {
        let data = self.place.find()?;
        match self.action {
            Action::Rotate { overlap_hours } => {
                let act = acts::act("key.rotate").detail("overlapHours", overlap_hours);
                acts::recorded(&data, &act, || rotate(&data, overlap_hours))?;
                return signing(&data, out);
            }
            Action::Signing => return signing(&data, out),
            Action::Create { .. } | Action::List | Action::Revoke { .. } => {}
        }
        let mut file = KeyFile::open(&data)?;
        match self.action {
            Action::Create { caller, realm, group, agent, days } => {
                let named = [("--caller", &caller), ("--realm", &realm)];
                for (flag, name) in named.into_iter().chain(group.iter().map(|name| ("--group", name))) {
                    check_name(name).with_context(|| format!("`{flag}` cannot be used"))?;
                }
                if is_reserved(&caller) {
                    bail!("no caller can have a name that begins with `call:` or `unattributed/`: {caller}");
                }
                if let Some(agent) = agent.as_deref()
                    && (!is_agent_name(agent) || RESERVED.contains(&agent))
                {
                    bail!("no agent can have this name, so no key can be for it: {}", printable(agent));
                }
                let key = ApiKey::generate()?;
                let now = Timestamp::now();
                let mut record = KeyRecord::new(&key, &file.secret, realm.as_str(), caller.as_str(), now);
                record.groups = group.iter().map(|name| name.as_str().into()).collect();
                record.agent = agent.as_deref().map(Into::into);
                let good_for = days.map(|days| DAY.saturating_mul(u32::try_from(days).unwrap_or(u32::MAX)));
                record.expires = good_for.map(|time| {
                    Timestamp::from_millis(
                        now.as_millis().saturating_add(i64::try_from(time.as_millis()).unwrap_or(i64::MAX)),
                    )
                });
                let act = acts::act("key.create").target(&record.id).detail("realm", realm);
                let act = act.detail("caller", caller).detail("groups", group.join(","));
                file.records.push(record);
                acts::recorded(&data, &act, || file.save())?;
                writeln!(out, "{}", key.text())?;
            }
            Action::List => {
                let uses = KeyUses::read(&data)?;
                for record in &file.records {
                    writeln!(out, "{}", listed(record, uses.of(&record.id)))?;
                }
            }
            Action::Revoke { id } => {
                let Some(record) = file.records.iter_mut().find(|record| record.id == id) else {
                    bail!("there is no key `{id}`; see `chancery key list`");
                };
                record.revoked.get_or_insert(Timestamp::now());
                acts::recorded(&data, &acts::act("key.revoke").target(&id), || file.save())?;
                writeln!(out, "revoked {id}")?;
            }
            Action::Rotate { .. } | Action::Signing => {}
        }
        Ok(())
    }
}

/// A key on one line.
fn listed(record: &KeyRecord, used: Option<Timestamp>) -> String {
    let or_never = |time: Option<Timestamp>| time.map_or_else(|| "never".to_owned(), |time| time.to_string());
    let now = Timestamp::now();
    let state = match (record.revoked, record.expires) {
        (Some(_), _) => "revoked",
        (None, Some(expires)) if expires <= now => "expired",
        _ => "good",
    };
    let KeyRecord { id, realm, caller, created, .. } = record;
    let mut parts = vec![id.clone(), format!("{realm}/{caller}"), state.to_owned()];
    if !record.groups.is_empty() {
        parts.push(format!("groups {}", record.groups.join(",")));
    }
    if let Some(agent) = &record.agent {
        parts.push(format!("agent {agent}"));
    }
    parts.push(format!("created {created}"));
    parts.push(format!("expires {}", or_never(record.expires)));
    parts.push(format!("last used {}", or_never(used)));
    parts.join("  ")
}

fn rotate(data: &Path, overlap_hours: u64) -> anyhow::Result<()> {
    let (path, mut keys) = SigningKeys::open(data)?;
    keys.rotate(HOUR.saturating_mul(u32::try_from(overlap_hours).unwrap_or(u32::MAX)))?;
    keys.save(&path)
}

fn signing(data: &Path, out: &mut impl Write) -> anyhow::Result<()> {
    let keys = SigningKeys::open(data)?.1.to_key_set()?;
    if let Some(id) = keys.agent_id() {
        writeln!(out, "agent id  {id}")?;
    }
    let now = Millis(u64::try_from(Timestamp::now().as_millis()).unwrap_or_default());
    let kids = |keys: Vec<&SigningKey>| keys.iter().map(|key| key.kid().to_owned()).collect::<Vec<_>>();
    let (current, signs) = (kids(keys.current().iter().collect()), kids(keys.signing(now)));
    for key in keys.published(now).keys {
        let kid = key.kid.unwrap_or_default();
        let state = match (current.contains(&kid), signs.contains(&kid)) {
            (true, _) => "signs",
            (false, true) => "signed before, and signs until the overlap is over",
            (false, false) => "signed before",
        };
        writeln!(out, "{kid}  {}  {state}", key.alg.unwrap_or_default())?;
    }
    Ok(())
}
