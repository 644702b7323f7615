//! `chancery store`: what an operator does with the tasks that are kept.

use std::io::Write;
use std::path::PathBuf;

use anyhow::bail;
use chancery_store::Store;
use clap::{Args, Subcommand};

use super::place::Place;
use crate::audit::acts;
use crate::backup;
use crate::config::StoreSection;
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
    /// Copy everything that is kept to a file, also while a server uses it: tasks, keys, secrets, who is contained, adjusted budgets
    Backup {
        /// Where to; there must be nothing yet
        file: PathBuf,
        #[command(flatten)]
        seal: Seal,
    },
    /// Put a backup back where nothing is kept yet; no server may use the directory meanwhile
    Restore {
        /// The backup
        file: PathBuf,
        #[command(flatten)]
        seal: Seal,
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

/// What a backup is sealed with.
#[derive(Debug, Args)]
struct Seal {
    /// The file that holds the passphrase that the backup is sealed with; without one, whoever has the backup has all keys
    #[arg(long, env = "CHANCERY_BACKUP_PASSPHRASE_FILE", value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
}

impl Seal {
    fn passphrase(&self) -> anyhow::Result<Option<String>> {
        self.passphrase_file.as_deref().map(backup::passphrase).transpose()
    }
}

/// Where everything is.
fn kept(section: &StoreSection) -> anyhow::Result<backup::Place> {
    Ok(backup::Place { url: store_url(section)?, data: section.data.clone() })
}

impl StoreCommand {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let mut out = std::io::stdout();
        let section = self.place.store()?;
        match self.action {
            Action::Backup { file, seal } => {
                let (kept, passphrase) = (kept(&section)?, seal.passphrase()?);
                let is_sealed = passphrase.is_some();
                let act = acts::act("store.backup").target(file.display().to_string());
                let back_up = move || {
                    acts::recorded(&section.data, &act, || kept.back_up(&file, passphrase.as_deref()))
                };
                let files = tokio::task::spawn_blocking(back_up).await??;
                let how = if is_sealed { "sealed" } else { "not sealed: whoever has it has all keys" };
                writeln!(out, "backed up the store and {files} files, {how}")?;
            }
            Action::Restore { file, seal } => {
                let (kept, passphrase) = (kept(&section)?, seal.passphrase()?);
                let act = acts::act("store.restore").target(file.display().to_string());
                // Nothing may be left of one that fails, and there is no log before it.
                let restore = move || {
                    let restored = kept.restore(&file, passphrase.as_deref())?;
                    acts::write(&section.data, &act).map(|()| restored)
                };
                let restored = tokio::task::spawn_blocking(restore).await??;
                let tasks =
                    restored.tasks.map_or_else(|| "no store".to_owned(), |tasks| format!("{tasks} tasks"));
                writeln!(out, "restored {tasks} and {} files", restored.files)?;
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
                let act = acts::act("store.delete-owner").target(&owner).detail("realm", &*realm);
                let store = open_store(&section)?;
                acts::write(&section.data, &act)?;
                let deleted = store.delete_owner(&realm, &owner).await?;
                store.close();
                writeln!(out, "deleted {deleted} tasks")?;
            }
        }
        Ok(())
    }
}
