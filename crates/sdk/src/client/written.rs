//! What a peer has written, beside what it means: for whoever passes it on token for token.
//!
//! Where an answer looks as nearly all do, what stands around the task or event is cut off without being read, and the rest
//! is read once. That it can be read as one whole value shows that the cuts were right.

use std::ops::Range;

use bytes::Bytes;
use chancery_protocol::jsonrpc::plain_result;
use chancery_protocol::{Error, Event, StreamResponse, field};

use super::error::ClientError;
use super::wire::Wire;

/// An event, and what it says.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) event: Event,
    pub(crate) payload: Result<StreamResponse, Error>,
    /// Whether the peer says that no other follows.
    pub(super) is_last: bool,
}

impl Wire {
    /// The event in a frame of a stream, as [`event`](Self::event) gives it, what it says, and where it stands in the
    /// data if it stands there.
    pub(super) fn told(
        self,
        id: u64,
        (number, data): (u64, &Bytes),
        is_first: bool,
    ) -> Result<(Told, Option<Range<usize>>), ClientError> {
        if let Some(json) = self.plain(id, data)
            && let Ok(field::Object(payload)) = serde_json::from_str(json)
        {
            let end = data.len() - self.envelope_end();
            let event = Event::received(number, data.slice_ref(json.as_bytes()));
            let told = Told { event, payload: Ok(payload), is_last: false };
            return Ok((told, Some(end - json.len()..end)));
        }
        let heard = self.event(id, data, is_first)?;
        let event = Event::received(number, heard.json);
        let payload = heard.payload.map_or_else(|| event.payload(), Ok);
        Ok((Told { event, payload, is_last: heard.is_last }, None))
    }

    /// How many bytes of an envelope stand after what is in it.
    fn envelope_end(self) -> usize {
        usize::from(self == Self::JsonRpc)
    }

    /// What is left of an answer or event when its envelope is cut off. None in versions and bindings that are translated.
    fn plain(self, id: u64, data: &[u8]) -> Option<&str> {
        let text = std::str::from_utf8(data).ok()?;
        match self {
            Self::JsonRpc => plain_result(text, id),
            Self::Rest => Some(text),
            _ => None,
        }
    }
}
