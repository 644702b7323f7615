//! `chancery admin`: a gateway looked after while it runs.

use std::io::Write;

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};

use super::agent::Format;
use super::failure::printable;
use super::place::DataPlace;
use crate::admin::client;

/// Look after a gateway while it runs: agents, calls, budgets; cut an agent off
#[derive(Debug, Args)]
pub(super) struct AdminCommand {
    #[command(flatten)]
    place: DataPlace,

    /// How to print the answer
    #[arg(short, long, value_enum, default_value = "text", global = true)]
    output: Format,

    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the agents, and how they stand
    Agents,
    /// Cut an agent off: refuse what is new, stop what runs
    Contain {
        /// The agent
        agent: String,
        /// Why; everybody who is refused will read it
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Let a contained agent work again
    Release {
        /// The agent
        agent: String,
    },
    /// Show the members of pools, and which get no calls
    Breakers,
    /// List the calls that are open, with what they hold
    Calls,
    /// Show everything that a call from outside has led to
    Tree {
        /// The call
        root: String,
    },
    /// Cancel an open task, and what it has led to
    Cancel {
        /// The task
        task: String,
    },
    /// Show every budget, and what is left of it
    Budgets,
    /// Show the configuration in force
    Config,
    /// Read the configuration again; if anything is wrong with it, the one in force stays
    Reload,
    /// Print the metrics, as Prometheus reads them
    Metrics,
    /// Say whether the gateway can do its work, and which part cannot
    Ready,
}

impl AdminCommand {
    pub(super) fn format(&self) -> Format {
        self.output
    }

    pub(super) async fn run(self, out: &mut impl Write) -> anyhow::Result<()> {
        let (method, path, body) = self.action.request();
        let answer = client::ask(&self.place.find()?, method, &path, body.as_ref()).await?;
        let told = match serde_json::from_slice::<Value>(&answer) {
            Ok(told) if self.output == Format::Text => told,
            // Metrics are text, and whoever wants JSON gets what the gateway said.
            _ => {
                out.write_all(&answer)?;
                if !answer.ends_with(b"\n") {
                    out.write_all(b"\n")?;
                }
                return Ok(());
            }
        };
        let text = self.action.text(&told);
        Ok(out.write_all(text.as_bytes())?)
    }
}

impl Action {
    fn request(&self) -> (Method, String, Option<Value>) {
        let (method, path, body) = match self {
            Self::Agents => (Method::GET, "/agents".to_owned(), None),
            Self::Contain { agent, reason } => (
                Method::POST,
                format!("/agents/{}/contain", segment(agent)),
                Some(json!({ "reason": reason })),
            ),
            Self::Release { agent } => (Method::POST, format!("/agents/{}/release", segment(agent)), None),
            Self::Breakers => (Method::GET, "/breakers".to_owned(), None),
            Self::Calls => (Method::GET, "/calls".to_owned(), None),
            Self::Tree { root } => (Method::GET, format!("/calls/{}/tree", segment(root)), None),
            Self::Cancel { task } => (Method::POST, format!("/tasks/{}/cancel", segment(task)), None),
            Self::Budgets => (Method::GET, "/budgets".to_owned(), None),
            Self::Config => (Method::GET, "/config".to_owned(), None),
            Self::Reload => (Method::POST, "/reload".to_owned(), None),
            Self::Metrics => (Method::GET, "/metrics".to_owned(), None),
            Self::Ready => (Method::GET, "/readyz".to_owned(), None),
        };
        (method, path, body)
    }

    /// The answer for people: a line for each thing that there are several of.
    fn text(&self, told: &Value) -> String {
        let mut text = String::new();
        let mut line = |parts: &[String]| {
            let parts: Vec<_> = parts.iter().filter(|part| !part.is_empty()).map(String::as_str).collect();
            text.push_str(parts.join("  ").trim_end());
            text.push('\n');
        };
        match self {
            Self::Agents => {
                each(&told["agents"], |agent| agent_lines(agent, &mut line));
                each(&told["leftOut"], |one| {
                    let (name, fleet) = (field(one, "name"), field(one, "discoveredIn"));
                    line(&[format!("left out: {name} of {fleet}: {}", field(one, "reason"))]);
                });
            }
            Self::Breakers => each(&told["pools"], |pool| {
                each(&pool["members"], |member| {
                    line(&[
                        field(pool, "agent"),
                        field(member, "name"),
                        field(member, "standing"),
                        calls(member),
                    ]);
                });
            }),
            Self::Calls => each(&told["calls"], |call| line(&[summary(call)])),
            Self::Tree { .. } => {
                branches(&told["calls"], 0, &mut |depth, call| line(&["  ".repeat(depth) + &summary(call)]));
                line(&[format!("charged: {} USD", usd(&told["chargedMicroUsd"]))]);
            }
            Self::Budgets => each(&told["accounts"], |account| {
                each(&account["limits"], |limit| {
                    let (left, cap) = (amount(limit, "remaining"), amount(limit, "cap"));
                    line(&[
                        field(account, "account"),
                        field(limit, "window"),
                        format!("{left} of {cap} left"),
                    ]);
                });
            }),
            _ => {
                text = serde_json::to_string_pretty(told).unwrap_or_default();
                text.push('\n');
            }
        }
        text
    }
}

fn each(list: &Value, each: impl FnMut(&Value)) {
    list.as_array().into_iter().flatten().for_each(each);
}

fn branches(calls: &Value, depth: usize, line: &mut impl FnMut(usize, &Value)) {
    for call in calls.as_array().into_iter().flatten() {
        line(depth, call);
        branches(&call["calls"], depth + 1, line);
    }
}

fn field(of: &Value, name: &str) -> String {
    of[name].as_str().map(printable).unwrap_or_default()
}

/// An agent, and the members of it if it is a pool.
fn agent_lines(agent: &Value, line: &mut impl FnMut(&[String])) {
    let contained = agent["contained"].as_str().map(|why| format!("contained: {}", printable(why)));
    line(&[
        field(agent, "name"),
        field(agent, "kind"),
        health(agent),
        standing(&agent["reach"]),
        calls(agent),
        contained.unwrap_or_default(),
    ]);
    each(&agent["members"], |member| {
        let name = format!("  {}", field(member, "name"));
        line(&[name, health(member), standing(member), calls(member)]);
    });
}

/// How it is, and what is wrong.
fn health(of: &Value) -> String {
    let reason = of["health"]["reason"].as_str().map(|why| format!(" ({})", printable(why)));
    field(&of["health"], "status") + &reason.unwrap_or_default()
}

/// Whether it gets calls, unless that is as it should be.
fn standing(of: &Value) -> String {
    let standing = field(of, "standing");
    if standing == "in" { String::new() } else { standing }
}

fn calls(of: &Value) -> String {
    format!("{} open", of["openCalls"])
}

/// A call on one line.
fn summary(call: &Value) -> String {
    let money = match &call["settled"] {
        Value::Null => format!("holds {} USD", usd(&call["reserved"]["microUsd"])),
        settled => format!("{} USD, {}", usd(&settled["microUsd"]), field(settled, "source")),
    };
    let member =
        call["member"].as_str().map(|member| format!(" ({})", printable(member))).unwrap_or_default();
    let (caller, agent) = (field(call, "caller"), field(call, "agent"));
    format!("{}  {caller} -> {agent}{member}  task {}  {money}", field(call, "call"), field(call, "task"))
}

fn amount(limit: &Value, name: &str) -> String {
    match limit["metric"].as_str() {
        Some("micro_usd") => format!("{} USD", usd(&limit[name])),
        metric => format!("{} {}", limit[name], metric.unwrap_or_default()),
    }
}

fn usd(micro: &Value) -> String {
    let micro = micro.as_u64().unwrap_or_default();
    format!("{}.{:06}", micro / 1_000_000, micro % 1_000_000)
}

/// Text as one segment of a path.
fn segment(text: &str) -> String {
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| if safe(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
