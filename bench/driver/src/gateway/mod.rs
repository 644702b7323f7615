//! Those who can stand between a caller and an agent: how each is set up, started and called. The configurations are the files
//! beside this one.

mod tools;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::folder::Folder;
use crate::process::{self, Server};
use crate::request::Door;

pub(crate) use tools::{Tools, chancery};

/// One of them, which is a column of the table.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Ours: where it keeps tasks, if not where it does by default, and how it sends a message whose outcome is waited for.
    Chancery {
        store: Option<&'static str>,
        exchange: Exchange,
    },
    Nginx,
    Envoy,
    LiteLlm,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Exchange {
    Send,
    Stream,
}

/// The one that ratios refer to.
pub(crate) const ENVOY: &str = "Envoy";

pub(crate) const ALL: [Gateway; 7] = [
    Gateway { name: "chancery, SQLite, send", kind: ours(None, Exchange::Send) },
    Gateway { name: "chancery, SQLite, stream", kind: ours(None, Exchange::Stream) },
    Gateway { name: "chancery, memory, send", kind: ours(MEMORY, Exchange::Send) },
    Gateway { name: "chancery, memory, stream", kind: ours(MEMORY, Exchange::Stream) },
    Gateway { name: "nginx", kind: Kind::Nginx },
    Gateway { name: ENVOY, kind: Kind::Envoy },
    Gateway { name: "LiteLLM", kind: Kind::LiteLlm },
];

const MEMORY: Option<&str> = Some("memory:");

/// The key of those that do not make one themselves.
const KEY: &str = "sk-bench-0";

const fn ours(store: Option<&'static str>, exchange: Exchange) -> Kind {
    Kind::Chancery { store, exchange }
}

// === impl Gateway ===

impl Gateway {
    /// How the agent gets a message whose outcome is waited for.
    pub(crate) fn exchange(&self) -> Exchange {
        match self.kind {
            Kind::Chancery { exchange, .. } => exchange,
            Kind::Nginx | Kind::Envoy | Kind::LiteLlm => Exchange::Send,
        }
    }

    /// A fresh process in front of the agent, and where to call it.
    pub(crate) fn start(&self, tools: &Tools, agent: SocketAddr) -> anyhow::Result<(Server, Door)> {
        let (folder, address) = (Folder::new()?, process::free_address()?);
        let place = Place { folder: folder.path(), address, agent };
        let (program, door) = match self.kind {
            Kind::Chancery { store, exchange } => place.chancery(store, exchange)?,
            Kind::Nginx => place.nginx()?,
            Kind::Envoy => place.envoy(&tools.envoy)?,
            Kind::LiteLlm => place.litellm(&tools.litellm)?,
        };
        Ok((Server::start_program(program, self.name, address, folder)?, door))
    }
}

/// Where one process lives, and what it stands before.
struct Place<'a> {
    folder: &'a Path,
    address: SocketAddr,
    agent: SocketAddr,
}

// === impl Place ===

impl Place<'_> {
    fn chancery(&self, store: Option<&str>, exchange: Exchange) -> anyhow::Result<(Command, Door)> {
        let text = include_str!("chancery.toml").replace("{exchange}", exchange.name());
        let configuration = self.write("chancery.toml", &text)?;
        let data = self.folder.join("data");
        let made = Command::new(chancery())
            .args(["key", "create", "--caller", "bench", "--data"])
            .arg(&data)
            .output()?;
        let key = String::from_utf8(made.stdout)?.trim().to_owned();
        ensure!(made.status.success() && !key.is_empty(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut program = Command::new(chancery());
        program.arg("serve").arg("--config").arg(configuration).arg("--data").arg(data);
        program.args(store.map(|url| ["--store", url]).into_iter().flatten());
        Ok((program, Door { address: self.address, path: "/agents/limit/", key: Some(key) }))
    }

    fn nginx(&self) -> anyhow::Result<(Command, Door)> {
        let configuration = self.write("nginx.conf", include_str!("nginx.conf"))?;
        let mut program = Command::new(tools::NGINX);
        program.arg("-p").arg(self.folder).arg("-c").arg(configuration);
        Ok((program, Door { address: self.address, path: "/", key: None }))
    }

    fn envoy(&self, binary: &Path) -> anyhow::Result<(Command, Door)> {
        let configuration = self.write("envoy.yaml", include_str!("envoy.yaml"))?;
        let mut program = Command::new(binary);
        program.args(["--disable-hot-restart", "--log-level", "error", "--config-path"]).arg(configuration);
        Ok((program, Door { address: self.address, path: "/", key: None }))
    }

    /// With a worker for each core, as its manual says; its list of prices is the one that comes with it, since another would
    /// have to be fetched.
    fn litellm(&self, binary: &Path) -> anyhow::Result<(Command, Door)> {
        let configuration =
            self.write("litellm.yaml", &include_str!("litellm.yaml").replace("{key}", KEY))?;
        let workers = std::thread::available_parallelism()?.to_string();
        let port = self.address.port().to_string();
        let mut program = Command::new(binary);
        program.arg("--config").arg(configuration).args(["--host", "127.0.0.1", "--port", &port]);
        program.args(["--num_workers", &workers, "--telemetry", "False"]);
        program.envs([
            ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
            ("LITELLM_LOG", "ERROR"),
            ("LITELLM_MODE", "PRODUCTION"),
        ]);
        Ok((program, Door { address: self.address, path: "/a2a/limit", key: Some(KEY.to_owned()) }))
    }

    /// Writes a configuration, with what is different each time filled in.
    fn write(&self, name: &str, text: &str) -> anyhow::Result<std::path::PathBuf> {
        let fields = [
            ("{folder}", self.folder.display().to_string()),
            ("{listen}", self.address.to_string()),
            ("{host}", self.address.ip().to_string()),
            ("{port}", self.address.port().to_string()),
            ("{agent}", self.agent.to_string()),
            ("{agent_host}", self.agent.ip().to_string()),
            ("{agent_port}", self.agent.port().to_string()),
        ];
        let text = fields.iter().fold(text.to_owned(), |text, (field, value)| text.replace(field, value));
        let file = self.folder.join(name);
        std::fs::write(&file, text).with_context(|| format!("could not write {}", file.display()))?;
        Ok(file)
    }
}

// === impl Exchange ===

impl Exchange {
    fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Stream => "stream",
        }
    }

    /// What `limit` calls its answer when it was asked so.
    pub(crate) fn artifact(self) -> &'static str {
        match self {
            Self::Send => "echo",
            Self::Stream => "stream",
        }
    }
}
