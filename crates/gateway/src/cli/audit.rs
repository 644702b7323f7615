//! `chancery audit`: the audit log read and verified, also while a gateway runs.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use chancery_store::{AuditEntry, AuditFile, AuditHash, AuditHead, AuditReport, AuditVerifier, Store};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::agent::Format;
use super::failure::printable;
use super::output::json_line;
use super::place::Place;
use super::records::When;
use crate::audit::acts::{self, Pending};
use crate::audit::{signed_by, trusted_keys};
use crate::gateway::store_url;

/// Read and verify the audit log, also while a gateway runs: who was refused, and what operators did
#[derive(Debug, Args)]
pub(super) struct AuditCommand {
    #[command(flatten)]
    place: Place,

    /// How to print it
    #[arg(short, long, value_enum, default_value = "text", global = true)]
    output: Format,

    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print the last entries
    Tail {
        /// How many
        #[arg(short = 'n', long, default_value_t = 20, value_name = "N")]
        lines: u64,
        /// Go on with what comes, until Ctrl-C
        #[arg(short, long)]
        follow: bool,
    },
    /// Print entries as lines of JSON, and behind them the head: the number and the hash of the last entry. Whoever keeps the
    /// head elsewhere finds with `verify --head` whether the end was cut off since
    Export {
        /// From then on: a time such as `2026-11-01T00:00:00Z`, or how long ago, such as `24h`
        #[arg(long, value_name = "TIME")]
        since: Option<When>,
        /// Until then
        #[arg(long, value_name = "TIME")]
        until: Option<When>,
        /// Print nothing but the head
        #[arg(long)]
        head_only: bool,
    },
    /// Say whether an entry was changed or is missing; ends with 1 if so
    Verify {
        /// A head that was exported before: its hash, or the file of the export
        #[arg(long, value_name = "FILE|HASH")]
        head: Option<String>,
    },
}

/// Something is wrong with the log, and has been said.
#[derive(Debug, thiserror::Error)]
#[error("the audit log is not whole")]
pub(super) struct NotWhole;

/// How many entries are read at a time.
const STEP: usize = 1024;
/// How often it is looked for new ones.
const LOOK: Duration = Duration::from_millis(500);
/// How much is read of a file that has a head at its end.
const LARGEST: u64 = 1 << 30;

impl AuditCommand {
    pub(super) fn format(&self) -> Format {
        self.output
    }

    pub(super) async fn run(self, out: &mut impl Write) -> anyhow::Result<()> {
        let section = self.place.store()?;
        let log = Store::audit_of(&store_url(&section)?)?;
        match self.action {
            Action::Tail { lines, follow } => {
                tail(log.as_ref(), &section.data, (lines, follow), self.output, out).await
            }
            Action::Export { since, until, head_only } => {
                acts::write(&section.data, &acts::act("audit.export"))?;
                export(log.as_ref(), (since, until), head_only, out)
            }
            Action::Verify { head } => verify(log.as_ref(), &section.data, head.as_deref(), self.output, out),
        }
    }
}

async fn tail(
    log: Option<&AuditFile>,
    data: &Path,
    (lines, follow): (u64, bool),
    output: Format,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let mut after = match log {
        Some(log) => log.head()?.number.saturating_sub(lines),
        None => 0,
    };
    loop {
        each(log, after, |entry| {
            after = entry.number;
            match output {
                Format::Json => Ok(json_line(out, &with_hash(entry)?)?),
                Format::Text => Ok(writeln!(out, "{}", line(&value(entry)?))?),
            }
        })?;
        out.flush()?;
        let Some(_) = log.filter(|_| follow) else { break };
        tokio::time::sleep(LOOK).await;
    }
    let waiting = Pending::read(data)?.records;
    for record in &waiting {
        let value = serde_json::to_value(record)?;
        match output {
            Format::Json => json_line(out, &json!({"pending": value}))?,
            Format::Text => writeln!(out, "not in the log yet  {}", line(&value))?,
        }
    }
    Ok(())
}

fn export(
    log: Option<&AuditFile>,
    (since, until): (Option<When>, Option<When>),
    head_only: bool,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let mut head = log.map(AuditFile::head).transpose()?.unwrap_or(AuditHead::NONE);
    if !head_only {
        each(log, 0, |entry| {
            head = entry.head();
            let is_wanted =
                since.is_none_or(|since| entry.at >= since.0) && until.is_none_or(|until| entry.at < until.0);
            if is_wanted { Ok(json_line(out, &with_hash(entry)?)?) } else { Ok(()) }
        })?;
    }
    Ok(json_line(out, &json!({"head": head}))?)
}

fn verify(
    log: Option<&AuditFile>,
    data: &Path,
    wanted: Option<&str>,
    output: Format,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let checkpoint = log.map(AuditFile::checkpoint).transpose()?.flatten();
    let begins = checkpoint.as_ref().map_or(AuditHead::NONE, |checkpoint| checkpoint.head);
    let mut verifier = AuditVerifier::new(begins);
    if let Some(wanted) = wanted {
        let (hash, number) = kept_head(wanted)?;
        verifier = verifier.leading_to(hash, number);
    }
    each(log, 0, |entry| {
        verifier.take(entry);
        Ok(())
    })?;
    let mut report = verifier.finish();
    let signed =
        checkpoint.as_ref().map(|checkpoint| signed_by(checkpoint, &trusted_keys(data)?)).transpose();
    if let Err(problem) = &signed {
        report.problems.push(problem.to_string());
    }
    tell(&report, begins, signed.ok().flatten(), Pending::read(data)?.records.len(), output, out)?;
    if report.problems.is_empty() { Ok(()) } else { Err(NotWhole.into()) }
}

fn tell(
    report: &AuditReport,
    begins: AuditHead,
    signer: Option<String>,
    pending: usize,
    output: Format,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let head = report.head.unwrap_or(AuditHead::NONE);
    if output == Format::Json {
        let told = json!({"entries": report.entries, "begins": begins, "signedBy": signer, "head": head,
            "pending": pending, "problems": report.problems});
        return Ok(json_line(out, &told)?);
    }
    for problem in &report.problems {
        writeln!(out, "{problem}")?;
    }
    if begins.number > 0
        && let Some(signer) = signer
    {
        writeln!(out, "begins after entry {}, signed by {signer}", begins.number)?;
    }
    let verdict = if report.problems.is_empty() { "all of them in their place" } else { "not whole" };
    writeln!(out, "{} entries, {verdict}; the last is {}, {}", report.entries, head.number, head.hash)?;
    if pending > 0 {
        writeln!(
            out,
            "{pending} acts of commands are not in the log yet; a gateway that runs takes them within a second"
        )?;
    }
    Ok(())
}

/// Reads all entries after one, some at a time.
fn each(
    log: Option<&AuditFile>,
    mut after: u64,
    mut take: impl FnMut(&AuditEntry) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let Some(log) = log else { return Ok(()) };
    loop {
        let entries = log.page(after, STEP)?;
        let Some(last) = entries.last() else { return Ok(()) };
        after = last.number;
        entries.iter().try_for_each(&mut take)?;
    }
}

/// A head as somebody has kept it: a hash, or what `export` has printed.
fn kept_head(text: &str) -> anyhow::Result<(AuditHash, Option<u64>)> {
    if let Some(hash) = AuditHash::parse(text) {
        return Ok((hash, None));
    }
    let path = PathBuf::from(text);
    let length =
        std::fs::metadata(&path).with_context(|| format!("`{text}` is neither a hash nor a file"))?.len();
    if length > LARGEST {
        bail!("{text} is too large; give the hash in its last line");
    }
    let said = std::fs::read_to_string(&path).with_context(|| format!("cannot read {text}"))?;
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    let value: Value =
        serde_json::from_str(last).with_context(|| format!("the last line of {text} is no head"))?;
    let head: AuditHead = serde_json::from_value(value["head"].clone()).with_context(|| {
        format!("the last line of {text} has no head; was it written by `chancery audit export`?")
    })?;
    Ok((head.hash, Some(head.number)))
}

fn value(entry: &AuditEntry) -> anyhow::Result<Value> {
    serde_json::from_str(&entry.body)
        .with_context(|| format!("entry {} cannot be read; see `chancery audit verify`", entry.number))
}

/// The entry with its hash, which is that of the rest in canonical JSON.
fn with_hash(entry: &AuditEntry) -> anyhow::Result<Value> {
    let mut value = value(entry)?;
    value["hash"] = entry.hash.to_string().into();
    Ok(value)
}

/// An entry on one line: when, what, to what, by whom, from where, and the rest by name.
fn line(entry: &Value) -> String {
    let text = |name: &str| entry[name].as_str().map(printable).unwrap_or_default();
    let who = match (text("realm"), text("principal")) {
        (realm, who) if realm.is_empty() => who,
        (realm, who) => format!("{realm}/{who}"),
    };
    let named = |name: &str| entry[name].as_str().map(|text| format!("{name}={}", printable(text)));
    let rest = ["key", "trace", "requestId", "agentId"].into_iter().filter_map(named);
    let none = Map::new();
    let details = entry["details"].as_object().unwrap_or(&none).iter().map(|(name, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("{}={}", printable(name), printable(&value))
    });
    let number = entry["number"].as_u64().map(|number| number.to_string()).unwrap_or_default();
    let first = [number, text("at"), text("action"), text("target"), who, text("source")];
    let parts: Vec<_> =
        first.into_iter().chain(rest).chain(details).filter(|part| !part.is_empty()).collect();
    parts.join("  ")
}
