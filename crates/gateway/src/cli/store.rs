//! `chancery store`: what an operator does with the tasks that are kept.

use std::io::Write;
use std::path::PathBuf;

use anyhow::bail;
use chancery_store::Store;
use clap::{Args, Subcommand};

use super::place::Place;
use crate::gateway::{open_store, store_url};

/// Back up, check and clean the store
#[derive(Debug, Args)]
pub(super) struct StoreCommand {
    #[command(flatten)]
    place: Place,

    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Copy the store to a file, also while a server uses it
    Backup {
        /// Where to; there must be nothing yet
        file: PathBuf,
    },
    /// Read everything and say what is wrong with it, also while a server uses it
    Check,
    /// Delete all tasks of a caller; no server may use the store meanwhile
    DeleteOwner {
        /// The caller, by the id that it was authenticated as
        owner: String,
        /// The realm that the caller belongs to
        #[arg(long, default_value = "default")]
        realm: String,
    },
}

impl StoreCommand {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let mut out = std::io::stdout();
        let section = self.place.store()?;
        match self.action {
            Action::Backup { file } => {
                let url = store_url(&section)?;
                tokio::task::spawn_blocking(move || Store::backup_of(&url, &file)).await??;
                writeln!(out, "backed up")?;
            }
            Action::Check => {
                let url = store_url(&section)?;
                let found = tokio::task::spawn_blocking(move || Store::check_of(&url)).await??;
                for problem in &found.problems {
                    writeln!(out, "{problem}")?;
                }
                if !found.problems.is_empty() {
                    bail!("the store is damaged; restore a backup, or keep the file and ask for help");
                }
                writeln!(out, "{} tasks, all of them whole", found.tasks)?;
            }
            Action::DeleteOwner { owner, realm } => {
                let store = open_store(&section)?;
                let deleted = store.delete_owner(&realm, &owner).await?;
                store.close();
                writeln!(out, "deleted {deleted} tasks")?;
            }
        }
        Ok(())
    }
}
