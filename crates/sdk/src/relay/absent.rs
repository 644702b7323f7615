//! Relays to agents that may not be there yet: they are listed all the same, and asked again.

use std::sync::Arc;
use std::time::Duration;

use super::{Relay, RelayPeers};
use crate::client::{Client, ClientError};

/// How long an agent that may not be there is waited for when its relay is made.
const FIRST_LOOK: Duration = Duration::from_secs(1);

impl Relay {
    /// As [`new`](Self::new), for an agent that may not be there yet, with a client that was made by
    /// [`connect_later`](crate::ClientBuilder::connect_later). Until the agent shows a good card, the card here is one that
    /// says why there is none, under [`PROVENANCE_EXTENSION`](crate::PROVENANCE_EXTENSION), and calls are answered that it
    /// cannot be reached. So it is with one whose card is [not trusted](crate::ClientBuilder::check_card).
    pub async fn of_absent(client: Client, name: impl Into<String>) -> Self {
        let name = name.into();
        let card = match tokio::time::timeout(FIRST_LOOK, client.card()).await {
            Ok(Ok(card)) => Some(card),
            Ok(Err(error)) => {
                tracing::warn!(agent = name, %error, "the agent behind a relay has no card yet; it is asked again");
                None
            }
            Err(_) => {
                tracing::warn!(agent = name, "the agent behind a relay does not answer; it is asked again");
                None
            }
        };
        Self::with(client, name, card)
    }

    /// As [`pool`](Self::pool), where none of them may be there yet, as [`of_absent`](Self::of_absent) has it of one.
    pub async fn pool_of_absent<N: Into<Arc<str>>>(
        name: impl Into<String>,
        peers: impl IntoIterator<Item = (N, Client)>,
    ) -> Result<Self, ClientError> {
        let peers: Vec<_> = peers.into_iter().map(|(name, client)| (name.into(), client)).collect();
        let looks = peers.iter().map(|(_, client)| Self::of_absent(client.clone(), ""));
        let looked = futures_util::future::join_all(looks).await;
        let place = looked.iter().position(|relay| relay.card.is_some()).unwrap_or_default();
        let shown = looked.into_iter().nth(place);
        let shown = shown.ok_or_else(|| ClientError::Configuration("a pool needs an agent".to_owned()))?;
        Ok(Self { peers: RelayPeers::pool(peers), ..shown.name(name) })
    }
}
