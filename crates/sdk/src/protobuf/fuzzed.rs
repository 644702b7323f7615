//! Both ways between bytes and JSON, for [`crate::fuzzing`].

use super::{Message, a2a_v0_3, a2a_v1, from_json, request_to_json, rpc, to_json};

/// The table that the first byte names, and the rest.
fn table(bytes: &[u8]) -> Option<(&'static Message, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let count = a2a_v1::ALL.len() + a2a_v0_3::ALL.len() + 1;
    let mut tables = a2a_v1::ALL.iter().chain(a2a_v0_3::ALL).copied().chain([&rpc::STATUS]);
    Some((tables.nth(usize::from(*first) % count)?, rest))
}

/// What is read from bytes is JSON, and says the same when it has been bytes once more.
pub(crate) fn from_bytes(bytes: &[u8]) {
    let Some((message, bytes)) = table(bytes) else { return };
    let whole = to_json(message, bytes);
    let request = request_to_json(message, bytes);
    assert_eq!(whole.is_ok(), request.is_ok(), "it depends on what is required");
    let (Ok(json), Ok(request)) = (whole, request) else { return };
    for json in [&json, &request] {
        serde_json::from_slice::<serde_json::Value>(json).expect("it is JSON");
    }
    let mut written = Vec::new();
    from_json(&mut written, message, &json).expect("what was read can be written");
    let again = to_json(message, &written).expect("what was written can be read");
    assert_eq!(String::from_utf8(json), String::from_utf8(again));
}

/// What is written from JSON can be read, and once it is in order it stays so.
pub(crate) fn from_text(bytes: &[u8]) {
    let Some((message, json)) = table(bytes) else { return };
    let mut written = Vec::new();
    if from_json(&mut written, message, json).is_err() {
        return;
    }
    // Whoever gives JSON that is deeper than a message may be has it refused by the reader.
    let Ok(json) = to_json(message, &written) else { return };
    let mut again = Vec::new();
    from_json(&mut again, message, &json).expect("what was read can be written");
    assert_eq!(to_json(message, &again).ok().as_ref(), Some(&json));
}
