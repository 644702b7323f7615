//! The client's decoders, for [`crate::fuzzing`].

use bytes::Bytes;
use chancery_protocol::Operation;
use http::response::Parts;

use super::sse::{Frame, Reader};
use super::wire::Wire;

/// The most bytes of one frame; small, so that the limit is met.
const FRAME_LIMIT: usize = 256;

/// Every wire reads an answer.
pub(crate) fn answer(operation: Operation, head: &Parts, body: &[u8]) {
    for wire in Wire::ALL {
        let _ = wire.decode(operation, 1, head, body);
        let _ = wire.failure(operation, 1, head, body);
        for is_first in [true, false] {
            let _ = wire.event(1, &frame(body), is_first);
        }
    }
}

/// A message of a stream by gRPC is read as an event, and for the number in it.
pub(crate) fn grpc_event(message: &[u8]) {
    for wire in Wire::ALL.into_iter().filter(|wire| wire.is_grpc()) {
        let _ = wire.event(1, &frame(message), true);
    }
    let _ = super::grpc::number(message);
}

fn frame(bytes: &[u8]) -> Frame {
    Frame { number: 1, data: Bytes::copy_from_slice(bytes) }
}

/// However the bytes are cut, the frames are the same.
pub(crate) fn sse(bytes: &[u8]) {
    let read = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut reader = Reader::new(FRAME_LIMIT);
        let mut frames = Vec::new();
        for piece in pieces {
            let fits = reader.push(piece).is_ok();
            frames.extend(std::iter::from_fn(|| reader.next()));
            if !fits {
                return (frames, false);
            }
        }
        (frames, true)
    };
    let whole = read(&mut std::iter::once(bytes));
    for size in [1, 2, 3, 7] {
        assert_eq!(whole, read(&mut bytes.chunks(size)), "in pieces of {size}");
    }
}
