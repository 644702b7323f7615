//! `chancery key`: API keys, made, listed and revoked, also while a gateway runs.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use chancery_control::identity::{ApiKey, KeyRecord};
use chancery_protocol::Timestamp;
use clap::{Args, Subcommand};

use crate::identity::KeyFile;

/// Make, list and revoke the keys by which callers show who they are
#[derive(Debug, Args)]
pub(super) struct KeyCommand {
    /// The directory that everything is kept in
    #[arg(long, env = "CHANCERY_DATA", default_value = "chancery-data", value_name = "DIR", global = true)]
    data: PathBuf,

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
    /// Take a key back, at once
    Revoke {
        /// Its id
        id: String,
    },
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl KeyCommand {
    pub(super) fn run(self, out: &mut impl Write) -> anyhow::Result<()> {
        let mut file = KeyFile::open(&self.data)?;
        match self.action {
            Action::Create { caller, realm, group, agent, days } => {
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
                file.records.push(record);
                file.save()?;
                writeln!(out, "{}", key.text())?;
            }
            Action::List => {
                for record in &file.records {
                    let state = if record.revoked.is_some() { "revoked" } else { "good" };
                    let expires = record.expires.map_or_else(|| "never".to_owned(), |time| time.to_string());
                    let KeyRecord { id, realm, caller, created, .. } = record;
                    writeln!(out, "{id}  {realm}/{caller}  {state}  created {created}  expires {expires}")?;
                }
            }
            Action::Revoke { id } => {
                let Some(record) = file.records.iter_mut().find(|record| record.id == id) else {
                    bail!("there is no key `{id}`; see `chancery key list`");
                };
                record.revoked.get_or_insert(Timestamp::now());
                file.save()?;
                writeln!(out, "revoked {id}")?;
            }
        }
        Ok(())
    }
}
