//! `chancery check`, `effective-config` and `config-schema`: the configuration of `serve`, looked at without serving.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::agent::Format;
use super::output::json_line;
use crate::config::{
    BadConfig, Flag, Folders, Loaded, StoreSection, effective, markdown_schema, read_store, schema,
};

/// The file that is read if none is named and this one is there.
pub(super) const FILE: &str = "chancery.toml";

/// Say everything that is wrong with a configuration, with line and column
///
/// Also what is not there on this machine: programs, secrets, callers and groups of which no key has been made.
#[derive(Debug, Args)]
pub(super) struct Check {
    /// The file: TOML, or YAML or JSON by its name
    #[arg(default_value = FILE)]
    file: PathBuf,
}

/// Show every value of the configuration with where it comes from
#[derive(Debug, Args)]
pub(super) struct EffectiveConfig {
    #[command(flatten)]
    source: Source,

    /// How to print it
    #[arg(short, long, default_value = "text")]
    output: Format,
}

/// Print the JSON Schema of the configuration
#[derive(Debug, Args)]
pub(super) struct ConfigSchema {
    /// Of the head of a file of Markdown that describes an agent, instead
    #[arg(long)]
    markdown: bool,
}

/// Where the configuration is read from. All commands about a gateway read the one that `chancery serve` reads.
#[derive(Clone, Debug, Args)]
pub(super) struct Source {
    /// The configuration; `chancery.toml` if that is there. Variables such as `CHANCERY__RECURSION__MAX_CALL_DEPTH` stand
    /// over it
    #[arg(long, env = "CHANCERY_CONFIG", value_name = "FILE", global = true)]
    config: Option<PathBuf>,
}

impl Source {
    pub(super) fn path(&self) -> Option<&Path> {
        let usual = || Some(Path::new(FILE)).filter(|path| path.exists());
        self.config.as_deref().or_else(usual)
    }

    pub(super) fn load(&self, flags: Vec<Flag>) -> Result<Loaded, BadConfig> {
        self.load_again(flags, &Folders::default())
    }

    /// Only where things are kept. A mistake elsewhere keeps nobody from revoking a key.
    pub(super) fn load_store(&self, flags: Vec<Flag>) -> Result<StoreSection, BadConfig> {
        read_store(self.path(), std::env::vars(), flags).map_err(BadConfig)
    }

    /// The same, knowing what files said before: what is wrong with one is told, and harms no other.
    pub(super) fn load_again(&self, flags: Vec<Flag>, folders: &Folders) -> Result<Loaded, BadConfig> {
        let mut loaded = Loaded::read(self.path(), std::env::vars(), flags).map_err(BadConfig)?;
        for problem in loaded.add_described(self.path(), folders) {
            tracing::error!("{problem}");
        }
        Ok(loaded)
    }
}

impl Check {
    pub(super) fn run(self, out: &mut impl Write) -> anyhow::Result<()> {
        let mut loaded = Loaded::read(Some(&self.file), std::env::vars(), Vec::new()).map_err(BadConfig)?;
        let mut problems = loaded.add_described(Some(&self.file), &Folders::default());
        problems.extend(loaded.problems_here());
        if !problems.is_empty() {
            return Err(BadConfig(problems).into());
        }
        writeln!(out, "{} is right", self.file.display())?;
        Ok(())
    }
}

impl EffectiveConfig {
    pub(super) fn format(&self) -> Format {
        self.output
    }

    pub(super) fn run(self, out: &mut impl Write) -> anyhow::Result<()> {
        for value in effective(&self.source.load(Vec::new())?) {
            match self.output {
                Format::Json => json_line(out, &value.to_json())?,
                Format::Text => writeln!(out, "{} = {}  # {}", value.path, value.value, value.origin)?,
            }
        }
        Ok(())
    }
}

impl ConfigSchema {
    pub(super) fn run(self, out: &mut impl Write) -> anyhow::Result<()> {
        let schema = if self.markdown { markdown_schema() } else { schema() };
        serde_json::to_writer_pretty(&mut *out, &schema)?;
        writeln!(out)?;
        Ok(())
    }
}
