//! `chancery budget`: what is left of each limit, and more of it, also while a gateway runs.

use std::io::Write;

use anyhow::{Context, bail};
use chancery_control::Millis;
use chancery_control::ledger::{Account, Caps, Metric, Window};
use chancery_protocol::{Amount, parse_usd};
use clap::{Args, Subcommand};
use serde_json::json;

use super::agent::Format;
use super::output::json_line;
use super::place::Place;
use crate::audit::acts;
use crate::config::Config;
use crate::govern::{Adjustments, Change, Per, Whose, limits};
use crate::rehearsal::Rehearsal;

/// Show, top up and reset budgets, also while a gateway runs
#[derive(Debug, Args)]
pub(super) struct BudgetCommand {
    #[command(flatten)]
    place: Place,

    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show how each limit stands: of the budget that is named, or of all to which anything was charged
    Show {
        #[command(flatten)]
        whose: WhoseFlags,
        /// How to print it
        #[arg(short, long, default_value = "text")]
        output: Format,
    },
    /// Add to a limit: until the day or month ends, or for a minute or hour
    TopUp {
        #[command(flatten)]
        whose: WhoseFlags,
        /// Which of its limits
        #[arg(long, value_name = "WINDOW")]
        per: Per,
        /// So many US dollars more
        #[arg(long, value_name = "AMOUNT")]
        usd: Option<String>,
        /// So many tokens more
        #[arg(long, value_name = "N")]
        tokens: Option<u64>,
        /// So many calls more
        #[arg(long, value_name = "N")]
        tasks: Option<u64>,
    },
    /// Forget what was charged, over all windows; what is held for open calls stays held
    Reset {
        #[command(flatten)]
        whose: WhoseFlags,
    },
}

/// Whose budget.
#[derive(Clone, Debug, Args)]
struct WhoseFlags {
    /// That of everyone together
    #[arg(long, conflicts_with_all = ["realm", "group", "caller", "agent"])]
    global: bool,

    /// That of a realm; with --caller or --group, the realm of these
    #[arg(long, value_name = "NAME")]
    realm: Option<String>,

    /// That of a group of callers
    #[arg(long, value_name = "NAME", conflicts_with_all = ["caller", "agent"])]
    group: Option<String>,

    /// That of a caller
    #[arg(long, value_name = "NAME", conflicts_with = "agent")]
    caller: Option<String>,

    /// That of an agent
    #[arg(long, value_name = "NAME", conflicts_with = "realm")]
    agent: Option<String>,
}

impl BudgetCommand {
    pub(super) fn format(&self) -> Format {
        match &self.action {
            Action::Show { output, .. } => *output,
            Action::TopUp { .. } | Action::Reset { .. } => Format::Text,
        }
    }

    pub(super) async fn run(self, out: &mut impl Write) -> anyhow::Result<()> {
        let config = self.place.load()?;
        match self.action {
            Action::Show { whose, output } => show(&config, whose.whose(), output, out).await,
            Action::TopUp { whose, per, usd, tokens, tasks } => {
                let more = Amount {
                    micro_usd: usd.as_deref().map(dollars).transpose()?.unwrap_or_default(),
                    tokens: tokens.unwrap_or_default(),
                    tasks: tasks.unwrap_or_default(),
                };
                adjust(&config, whose.whose(), Change::TopUp { per, more }, out)
            }
            Action::Reset { whose } => adjust(&config, whose.whose(), Change::Reset, out),
        }
    }
}

fn adjust(config: &Config, whose: Option<Whose>, change: Change, out: &mut impl Write) -> anyhow::Result<()> {
    let Some(whose) = whose else {
        bail!("whose budget? say --global, --realm, --group, --caller or --agent");
    };
    let (scope, limits) = (whose.scope(), limits(config));
    let Some(caps) = limits.of(&scope) else { bail!("nothing limits {scope}; see `[budget]`") };
    if let Change::TopUp { per, more } = &change {
        can_be_topped_up(caps, per.window(), *more).with_context(|| format!("the budget of {scope}"))?;
    }
    let data = &config.store.data;
    let (action, detail) = match &change {
        Change::TopUp { per, more } => (
            "budget.top-up",
            format!("{} micro-USD, {} tokens, {} calls per {per:?}", more.micro_usd, more.tokens, more.tasks),
        ),
        Change::Reset => ("budget.reset", "all windows".to_owned()),
    };
    let act = acts::act(action).target(scope.to_string()).detail("change", detail);
    acts::recorded(data, &act, || Adjustments::want(data, whose, change))?;
    writeln!(out, "the budget of {scope} is changed; a running gateway heeds it within a second")?;
    Ok(())
}

/// Says what is not limited in the first place.
fn can_be_topped_up(caps: &Caps, window: Window, more: Amount) -> anyhow::Result<()> {
    let cap = match window {
        Window::Minute => caps.per_minute,
        Window::Hour => caps.per_hour,
        Window::Day => caps.per_day,
        Window::Month | Window::Life => caps.per_month,
    };
    let each = [
        (more.micro_usd, cap.micro_usd, "USD"),
        (more.tokens, cap.tokens, "tokens"),
        (more.tasks, cap.tasks, "calls"),
    ];
    if each.iter().all(|(more, ..)| *more == 0) {
        bail!("how much? say --usd, --tokens or --tasks");
    }
    match each.iter().find(|(more, cap, _)| *more > 0 && cap.is_none()) {
        Some((.., what)) => bail!("it has no limit on {what} {}", window.as_str()),
        None => Ok(()),
    }
}

fn dollars(text: &str) -> anyhow::Result<u64> {
    parse_usd(text).with_context(|| format!("`{text}` is no amount of US dollars"))
}

async fn show(
    config: &Config,
    whose: Option<Whose>,
    output: Format,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let rehearsal = Rehearsal::new(config).await?;
    let mut accounts = match whose {
        Some(whose) => {
            let scope = whose.scope();
            vec![rehearsal.account(&scope).with_context(|| format!("nothing limits {scope}"))?]
        }
        None => rehearsal.accounts(),
    };
    accounts.sort_by_cached_key(|account| (account.scope().level(), account.scope().to_string()));
    accounts.iter().try_for_each(|account| stand(account, rehearsal.now(), output, out))
}

/// How each limit of an account stands.
fn stand(account: &Account, now: Millis, output: Format, out: &mut impl Write) -> anyhow::Result<()> {
    for standing in account.standings(now) {
        let (metric, window) = (standing.metric, standing.window);
        match output {
            Format::Json => json_line(
                out,
                &json!({"whose": account.scope().to_string(), "level": account.scope().level().as_str(),
                    "metric": name(metric), "window": window.name(), "limit": standing.cap,
                    "held": standing.held, "charged": standing.charged, "remaining": standing.remaining,
                    "freesAt": standing.frees_at.map(|at| at.0)}),
            )?,
            Format::Text => writeln!(
                out,
                "{}: {} of {} left {}, {} charged, {} held",
                account.scope(),
                metric.text(standing.remaining),
                metric.text(standing.cap),
                window.as_str(),
                metric.text(standing.charged),
                metric.text(standing.held)
            )?,
        }
    }
    Ok(())
}

fn name(metric: Metric) -> &'static str {
    match metric {
        Metric::MicroUsd => "microUsd",
        Metric::Tokens => "tokens",
        Metric::Tasks => "tasks",
    }
}

fn or_default(realm: Option<String>) -> String {
    realm.unwrap_or_else(|| "default".to_owned())
}

impl WhoseFlags {
    fn whose(self) -> Option<Whose> {
        match self {
            Self { global: true, .. } => Some(Whose::Global),
            Self { caller: Some(name), realm, .. } => Some(Whose::Caller { realm: or_default(realm), name }),
            Self { group: Some(name), realm, .. } => Some(Whose::Group { realm: or_default(realm), name }),
            Self { realm: Some(name), .. } => Some(Whose::Realm(name)),
            Self { agent: Some(name), .. } => Some(Whose::Agent(name)),
            _ => None,
        }
    }
}
