//! `chancery init`: a configuration to begin with.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

/// What is written.
const TEXT: &str = include_str!("init.toml");

/// Write a configuration to begin with, with comments
#[derive(Debug, Args)]
pub(super) struct Init {
    /// The file to write; one that is there is left as it is
    #[arg(default_value = "chancery.toml", value_name = "FILE")]
    file: PathBuf,
}

impl Init {
    pub(super) fn run(self, out: &mut impl Write) -> anyhow::Result<()> {
        let path = self.file.display();
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&self.file)
            .with_context(|| format!("cannot write {path}; what is there is not overwritten"))?;
        file.write_all(TEXT.as_bytes()).with_context(|| format!("cannot write {path}"))?;
        writeln!(out, "{path}")?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::TEXT;
    use crate::config::Loaded;

    /// The text with every line of configuration in force that is commented out.
    fn in_full() -> String {
        let uncommented = |line: &str| match line.strip_prefix("# ") {
            Some(code)
                if code.starts_with('[') || code.contains(" = ") && !code.starts_with(char::is_uppercase) =>
            {
                code.to_owned()
            }
            _ => line.to_owned(),
        };
        TEXT.lines().map(uncommented).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn what_is_commented_out_could_be_in_force() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("short.toml", TEXT.to_owned()), ("full.toml", in_full())] {
            let path = folder.path().join(name);
            std::fs::write(&path, &text).unwrap();
            let loaded = Loaded::read(Some(&path), std::iter::empty(), Vec::new());
            let loaded = loaded.unwrap_or_else(|problems| panic!("{problems:#?}\n{text}"));
            let agents = loaded.config.agent.len();
            assert_eq!(agents, if name == "short.toml" { 1 } else { 3 });
        }
    }
}
