//! `chancery serve`: the agents of a configuration, governed.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use serde_json::Value;

use super::place::Place;
use crate::config::{Flag, Folders, Listen};
use crate::gateway::Gateway;

/// Serve the agents of a configuration, with every call governed
#[derive(Debug, Args)]
pub(super) struct Serve {
    #[command(flatten)]
    place: Place,

    /// The address to listen on, or `unix:PATH`, instead of the configured one
    #[arg(long, env = "CHANCERY_LISTEN", value_name = "ADDR")]
    listen: Option<Listen>,

    /// The URL under which the world sees this server
    #[arg(long, env = "CHANCERY_PUBLIC_URL", value_name = "URL")]
    public_url: Option<String>,
}

impl Serve {
    fn flags(&self) -> Vec<Flag> {
        let listen = self.listen.as_ref().map(|address| Value::from(address.to_string()));
        let all: [(&'static str, &'static [&'static str], Option<Value>); 2] = [
            ("--listen", &["server", "listen"], listen),
            ("--public-url", &["server", "public_url"], self.public_url.clone().map(Value::from)),
        ];
        let given = all.into_iter().filter_map(|(flag, path, value)| Some((flag, path, value?)));
        self.place.flags().into_iter().chain(given).collect()
    }

    pub(super) async fn run(self, out: &mut impl Write) -> anyhow::Result<()> {
        let source = self.place.data.source.clone();
        let file = source.path().map(Path::to_owned);
        let folders = Folders::default();
        let load = move || Ok(source.load_again(self.flags(), &folders)?.config);
        let gateway = Gateway::start(Arc::new(load), file).await?;
        out.write_all(gateway.welcome().as_bytes())?;
        out.flush()?;
        gateway.run().await;
        Ok(())
    }
}
