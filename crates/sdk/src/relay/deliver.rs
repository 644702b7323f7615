//! Messages that come for a task while it is followed: sent on, and answered when the task shows what came of them.

use chancery_protocol::{Request, SendMessageResponse, StreamResponse};
use tokio::task::JoinSet;

use super::exchange::Exchange;
use super::follow::DeliveryAnswer;
use crate::agent::{Failure, Outcome};
use crate::client::ClientError;
use crate::runtime::Delivered;

impl Exchange<'_> {
    /// Sends a message on that came while the task is followed. What comes of it is for [`Exchange::answered`].
    pub(super) async fn deliver(
        &mut self,
        delivered: Delivered,
        deliveries: &mut JoinSet<DeliveryAnswer>,
    ) -> Result<(), Failure> {
        self.state.sent += 1;
        let said = &delivered.incoming;
        let lineage = said.context.hold.as_ref().and_then(|hold| hold.lineage()).map(str::to_owned);
        self.write_down(lineage.as_deref()).await?;
        let request = self.request(said).await;
        let mut options = self.options(&said.context, lineage);
        (options.retries, options.deadline) = (Some(0), said.context.deadline);
        let client = self.peer.client.clone();
        deliveries
            .spawn(async move { (delivered, client.ask(Request::SendMessage(request), options).await) });
        Ok(())
    }

    pub(super) async fn answered(
        &mut self,
        delivered: Delivered,
        answer: Result<SendMessageResponse, ClientError>,
    ) -> Result<Option<Outcome>, Failure> {
        let taken = match answer {
            Ok(SendMessageResponse::Task(task)) => self.take(StreamResponse::Task(task), false).await,
            Ok(SendMessageResponse::Message(_)) => Ok(None),
            Err(error) => {
                let _ = delivered.answer.send(Err(self.state.scrubber.told(error)));
                return Ok(None);
            }
        };
        // What ends the turn is committed after this, and answers the message then.
        if let Ok(None) = &taken {
            let _ = self.turn.sink.flush().await;
            let _ = delivered.answer.send(Ok(()));
        }
        taken
    }
}
