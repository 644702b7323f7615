//! Budgets that an operator tops up or resets, also while a gateway runs, and that stay so after a restart.
//!
//! Two files in the data directory, each with one writer:
//!
//! | file | holds |
//! |---|---|
//! | `adjustments.json` | what is wanted; written by `chancery budget`, read again when it changes |
//! | `adjusted.json` | what was done about each, and when; written by the gateway |

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use chancery_control::ledger::{Account, Reset, Scope, Window};
use chancery_control::{Millis, Plane};
use chancery_protocol::{Amount, HopId, Timestamp};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::identity::files;

const WANTED: &str = "adjustments.json";
const DONE: &str = "adjusted.json";
const LOCK: &str = "adjustments.lock";

/// For how long it is remembered: longer than any window lasts.
const KEPT_MS: i64 = 40 * 24 * 60 * 60 * 1000;

/// What an operator wants done about a budget.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Adjustment {
    id: HopId,
    made: Timestamp,
    whose: Whose,
    what: Change,
}

/// Whose budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Whose {
    Global,
    Realm(String),
    Group { realm: String, name: String },
    Caller { realm: String, name: String },
    Agent(String),
}

/// What is done about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Change {
    /// Its limits over a window are raised, until the window ends.
    TopUp { per: Per, more: Amount },
    /// What was charged is forgotten.
    Reset,
}

/// Over which time something is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Per {
    /// The last minute
    Minute,
    /// The last hour
    Hour,
    /// The day, UTC
    Day,
    /// The month, UTC
    Month,
}

/// What was done.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Done {
    at: Timestamp,
    /// Of a reset: what was forgotten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    forgotten: Vec<(Per, Amount)>,
}

/// What is wanted, and what was done about it.
#[derive(Debug, Default)]
pub(crate) struct Adjustments {
    wanted: Vec<Adjustment>,
    done: BTreeMap<HopId, Done>,
}

// === impl Adjustments ===

impl Adjustments {
    /// Reads what a data directory holds.
    pub(crate) fn read(data: &Path) -> anyhow::Result<Self> {
        Ok(Self { wanted: read(&data.join(WANTED))?, done: read(&data.join(DONE))? })
    }

    /// Adds to what is wanted.
    pub(crate) fn want(data: &Path, whose: Whose, what: Change) -> anyhow::Result<()> {
        files::make_private(data)?;
        // Two commands at a time must not lose what the other one wants.
        let lock = fs::File::create(data.join(LOCK)).context("cannot make a lock file")?;
        lock.lock().context("cannot lock the budgets")?;
        let path = data.join(WANTED);
        let mut wanted: Vec<Adjustment> = read(&path)?;
        let now = Timestamp::now();
        wanted.retain(|known| now.as_millis() - known.made.as_millis() < KEPT_MS);
        wanted.push(Adjustment { id: HopId::generate(), made: now, whose, what });
        files::write_private(&path, serde_json::to_string_pretty(&wanted)?.as_bytes())
    }

    /// What an earlier process did, and when: to be done again in between what was charged.
    pub(super) fn replay(&self, plane: &Plane, now: Millis) -> Vec<(Millis, Box<dyn FnOnce()>)> {
        let done = self.wanted.iter().filter_map(|wanted| Some((wanted, self.done.get(&wanted.id)?)));
        let replayed = done.filter_map(|(wanted, done)| {
            // The clock of the machine may have been set back since.
            let at = millis(done.at).min(now);
            let account = wanted.whose.account(plane, at)?;
            let again: Box<dyn FnOnce()> = match &wanted.what {
                Change::TopUp { per, more } => {
                    let (per, more) = (per.window(), *more);
                    Box::new(move || {
                        account.top_up(per, more, at);
                    })
                }
                Change::Reset => {
                    let reset = done.reset(at);
                    Box::new(move || account.reset_again(&reset))
                }
            };
            Some((at, again))
        });
        replayed.collect()
    }

    /// All that was charged is known: does what nobody has done yet. Says whether there was any of that.
    pub(super) fn finish(&mut self, plane: &Plane) -> bool {
        let now = plane.hands.now();
        for wanted in self.wanted.iter().filter(|wanted| wanted.what == Change::Reset) {
            if let Some(account) = wanted.whose.account(plane, now) {
                account.end_resets();
            }
        }
        self.do_wanted(plane)
    }

    /// Does what nobody has done yet, and forgets what nobody wants any more.
    fn do_wanted(&mut self, plane: &Plane) -> bool {
        let known = self.done.len();
        self.done.retain(|id, _| self.wanted.iter().any(|wanted| wanted.id == *id));
        let mut changed = self.done.len() != known;
        for wanted in &self.wanted {
            if self.done.contains_key(&wanted.id) {
                continue;
            }
            let done = wanted.carry_out(plane);
            self.done.insert(wanted.id, done);
            changed = true;
        }
        changed
    }

    fn save(&self, data: &Path) -> anyhow::Result<()> {
        files::write_private(&data.join(DONE), serde_json::to_string_pretty(&self.done)?.as_bytes())
    }

    /// Writes down what was done at the start, and does what is wanted from now on.
    pub(super) fn watch(self, data: PathBuf, changed: bool, plane: Arc<Plane>) -> anyhow::Result<()> {
        if changed {
            self.save(&data)?;
        }
        let (path, known) = (data.join(WANTED), Mutex::new(self));
        tokio::spawn(files::watch(path.clone(), move || {
            let mut known = known.lock();
            known.wanted = read(&path)?;
            if known.do_wanted(&plane) {
                known.save(&data)?;
            }
            Ok(())
        }));
        Ok(())
    }
}

// === impl Adjustment ===

impl Adjustment {
    fn carry_out(&self, plane: &Plane) -> Done {
        let now = plane.hands.now();
        let at = Timestamp::from_millis(i64::try_from(now.0).unwrap_or(i64::MAX));
        let Some(account) = self.whose.account(plane, now) else {
            tracing::warn!(whose = ?self.whose, "a budget is to be changed that nothing limits");
            return Done { at, forgotten: Vec::new() };
        };
        tracing::info!(whose = %account.scope(), what = ?self.what, "a budget is changed");
        let forgotten = match &self.what {
            Change::TopUp { per, more } => {
                if !account.top_up(per.window(), *more, now) {
                    tracing::warn!(whose = %account.scope(), ?per, "a budget is to be topped up that nothing limits");
                }
                Vec::new()
            }
            Change::Reset => account.reset(now).forgotten,
        };
        let forgotten = forgotten.into_iter().filter_map(|(window, amount)| Some((Per::of(window)?, amount)));
        Done { at, forgotten: forgotten.collect() }
    }
}

// === impl Whose ===

impl Whose {
    pub(crate) fn scope(&self) -> Scope {
        match self {
            Self::Global => Scope::Global,
            Self::Realm(name) => Scope::Realm(name.as_str().into()),
            Self::Group { realm, name } => {
                Scope::Group { realm: realm.as_str().into(), name: name.as_str().into() }
            }
            Self::Caller { realm, name } => {
                Scope::Caller { realm: realm.as_str().into(), id: name.as_str().into() }
            }
            Self::Agent(name) => Scope::Agent(name.as_str().into()),
        }
    }

    fn account(&self, plane: &Plane, now: Millis) -> Option<Arc<Account>> {
        plane.ledger.account(&self.scope(), now)
    }
}

// === impl Per ===

impl Per {
    pub(crate) fn window(self) -> Window {
        match self {
            Self::Minute => Window::Minute,
            Self::Hour => Window::Hour,
            Self::Day => Window::Day,
            Self::Month => Window::Month,
        }
    }

    fn of(window: Window) -> Option<Self> {
        match window {
            Window::Minute => Some(Self::Minute),
            Window::Hour => Some(Self::Hour),
            Window::Day => Some(Self::Day),
            Window::Month => Some(Self::Month),
            Window::Life => None,
        }
    }
}

// === impl Done ===

impl Done {
    fn reset(&self, at: Millis) -> Reset {
        let forgotten = self.forgotten.iter().map(|(per, amount)| (per.window(), *amount)).collect();
        Reset { at, forgotten }
    }
}

/// Reads a file; as if it were empty if it is not there.
fn read<T: Default + for<'de> Deserialize<'de>>(path: &Path) -> anyhow::Result<T> {
    match files::read(path)? {
        Some(text) => serde_json::from_slice(&text).with_context(|| format!("{} is damaged", path.display())),
        None => Ok(T::default()),
    }
}

fn millis(at: Timestamp) -> Millis {
    Millis(u64::try_from(at.as_millis()).unwrap_or_default())
}
