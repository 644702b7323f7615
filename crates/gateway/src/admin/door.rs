//! Where the gateway is looked after, and by whose leave. Both stand in a file that only the owner of the data directory can
//! read, so that `chancery admin` needs to be told nothing but the directory.

use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, bail};
use chancery_control::identity::ServerSecret;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::identity::files;

const FILE: &str = "admin.json";

/// Where, and by whose leave. Made anew at each start.
#[derive(Deserialize, Serialize)]
pub(crate) struct Door {
    url: String,
    token: String,
}

impl Door {
    /// Makes a token and writes it down.
    pub(super) fn open(data: &Path, address: SocketAddr) -> anyhow::Result<Self> {
        let token = ServerSecret::generate()?.to_text().to_string();
        let door = Self { url: format!("http://{address}"), token };
        files::write_private(&data.join(FILE), serde_json::to_string_pretty(&door)?.as_bytes())?;
        Ok(door)
    }

    /// What an earlier process wrote down is no longer true.
    pub(super) fn forget(data: &Path) -> anyhow::Result<()> {
        match fs::remove_file(data.join(FILE)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).context("cannot remove admin.json")
            }
            _ => Ok(()),
        }
    }

    /// The door of the gateway that runs with this data directory.
    pub(crate) fn find(data: &Path) -> anyhow::Result<Self> {
        let path = data.join(FILE);
        let Some(text) = files::read(&path)? else {
            let path = path.display();
            bail!(
                "there is no {path}; is `chancery serve` running with this data directory, and not with `admin.enabled = false`?"
            );
        };
        serde_json::from_slice(&text).with_context(|| format!("{} is damaged", path.display()))
    }

    /// Whether a gateway runs with this data directory that can be asked.
    pub(crate) async fn leads_anywhere(data: &Path) -> bool {
        let Ok(door) = Self::find(data) else { return false };
        let address = door.url.strip_prefix("http://").unwrap_or_default();
        tokio::net::TcpStream::connect(address).await.is_ok()
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Whether a request shows the token.
    pub(super) fn lets_in(&self, headers: &HeaderMap) -> bool {
        let shown = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some(shown) = shown.and_then(|value| value.strip_prefix("Bearer ")) else { return false };
        // Digests, so that how long it takes says nothing about the token.
        Sha256::digest(shown.trim()) == Sha256::digest(&self.token)
    }
}
