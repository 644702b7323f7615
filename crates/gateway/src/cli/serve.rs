//! `chancery serve`: the agents of a configuration, governed.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use super::config::Source;
use crate::config::{Flag, Folders, Listen};
use crate::gateway::Gateway;

/// Serve the agents of a configuration, with every call governed
#[derive(Debug, Args)]
pub(super) struct Serve {
    #[command(flatten)]
    source: Source,

    /// The address to listen on, or `unix:PATH`, instead of the configured one
    #[arg(long, env = "CHANCERY_LISTEN", value_name = "ADDR")]
    listen: Option<Listen>,

    /// The URL under which the world sees this server
    #[arg(long, env = "CHANCERY_PUBLIC_URL", value_name = "URL")]
    public_url: Option<String>,

    /// The directory that everything is kept in
    #[arg(long, env = "CHANCERY_DATA", value_name = "DIR")]
    data: Option<PathBuf>,

    /// Where tasks are kept, if not in the data directory
    #[arg(long, env = "CHANCERY_STORE", value_name = "URL")]
    store: Option<String>,
}

impl Serve {
    fn flags(&self) -> Vec<Flag> {
        let listen = self.listen.as_ref().map(|address| Value::from(address.to_string()));
        let data = self.data.as_ref().map(|path| Value::from(path.display().to_string()));
        let all: [(&'static str, &'static [&'static str], Option<Value>); 4] = [
            ("--listen", &["server", "listen"], listen),
            ("--public-url", &["server", "public_url"], self.public_url.clone().map(Value::from)),
            ("--data", &["store", "data"], data),
            ("--store", &["store", "url"], self.store.clone().map(Value::from)),
        ];
        all.into_iter().filter_map(|(flag, path, value)| Some((flag, path, value?))).collect()
    }

    pub(super) async fn run(self, out: &mut impl Write) -> anyhow::Result<()> {
        let file = self.source.path().map(Path::to_owned);
        let folders = Folders::default();
        let load = move || Ok(self.source.load_again(self.flags(), &folders)?.config);
        let gateway = Gateway::start(Box::new(load), file).await?;
        out.write_all(gateway.welcome().as_bytes())?;
        out.flush()?;
        gateway.run().await;
        Ok(())
    }
}
