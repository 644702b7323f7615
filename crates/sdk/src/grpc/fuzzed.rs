//! What gRPC has around its messages, for [`crate::fuzzing`].

use http::{HeaderMap, HeaderValue};

use super::frame::{Frames, Unframed, single};
use super::{status, timeout};

/// The most bytes of one message; small, so that the limit is met.
const LIMIT: usize = 256;

/// However the bytes are cut, the messages are the same; and one alone is the same to both readers.
pub(crate) fn frames(bytes: &[u8]) {
    let read = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut frames = Frames::new(LIMIT);
        let mut messages = Vec::new();
        for piece in pieces {
            frames.push(piece);
            loop {
                match frames.next() {
                    Ok(Some(message)) => messages.push(message),
                    Ok(None) => break,
                    Err(why) => return (messages, Err(why)),
                }
            }
        }
        (messages, Ok(frames.is_within()))
    };
    let whole = read(&mut std::iter::once(bytes));
    for size in [1, 2, 3, 7] {
        assert_eq!(whole, read(&mut bytes.chunks(size)), "in pieces of {size}");
    }
    if let (messages, Ok(false)) = &whole
        && let [one] = &messages[..]
    {
        assert_eq!(single(bytes), Ok(&one[..]));
    } else {
        assert!(single(bytes).is_err() || whole.1 == Err(Unframed::TooLarge));
    }
}

/// How a call ended: lines of `grpc-status`, `grpc-message` and `grpc-status-details-bin`. What was read from them and
/// written again is read as the same error.
pub(crate) fn trailers(bytes: &[u8]) {
    let mut headers = HeaderMap::new();
    let names = ["grpc-status", "grpc-message", "grpc-status-details-bin"];
    for (name, line) in names.into_iter().zip(bytes.split(|byte| *byte == b'\n')) {
        if let Ok(value) = HeaderValue::from_bytes(line) {
            headers.insert(name, value);
        }
    }
    let Some(Err(error)) = status::read(&headers) else { return };
    let mut again = HeaderMap::new();
    status::put(&mut again, &error);
    let read = status::read(&again).expect("it says how it ended").expect_err("it is a failure");
    assert_eq!(read.code(), error.code());
}

/// How long a caller waits.
pub(crate) fn wait(bytes: &[u8]) {
    let Some(time) = std::str::from_utf8(bytes).ok().and_then(timeout::read) else { return };
    let again = timeout::read(&timeout::write(time)).expect("what was written can be read");
    assert!(again <= time, "nobody is made to wait longer than they said");
}
