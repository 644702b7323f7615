//! The events of a task, kept small.
//!
//! An event of a stream is nearly what the one before it was: the same ids, the same envelope, another few words. So each
//! is kept as what sets it apart from the one before: how much of the beginning and of the end they share, and
//! what lies between. Now and then one is kept whole, to begin reading at.

use bytes::Bytes;
use chancery_protocol::Event;

use crate::record::split;

/// Every so many events one is kept whole.
const WHOLE_EVERY: usize = 64;

/// About what a short stream takes.
const ROOM: usize = 1500;

/// The events of a journal in memory, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packed {
    bytes: Vec<u8>,
    /// Where the whole ones begin, but for the first of all.
    whole: Vec<usize>,
    len: usize,
    /// The newest one, until there will be no more.
    last: Bytes,
}

impl Packed {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn extend(&mut self, events: &[Event]) {
        if self.len == 0 {
            self.bytes.reserve(ROOM);
        }
        let mut before: &[u8] = &self.last;
        for event in events {
            if self.len > 0 && self.len.is_multiple_of(WHOLE_EVERY) {
                self.whole.push(self.bytes.len());
                before = &[];
            }
            put(&mut self.bytes, before, &event.json);
            before = &event.json;
            self.len += 1;
        }
        if let Some(last) = events.last() {
            self.last = last.json.clone();
        }
    }

    /// There will be no more of them.
    pub(crate) fn close(&mut self) {
        self.last = Bytes::new();
        // Copied, and not shrunk where they are: what they grew in is of use to the next.
        self.bytes = self.bytes.as_slice().to_vec();
        self.whole = self.whole.as_slice().to_vec();
    }

    /// As many as are wanted from a place on; the first of all is number 1.
    pub(crate) fn read(&self, start: usize, max: usize) -> Vec<Event> {
        let end = start.saturating_add(max).min(self.len);
        let first = start / WHOLE_EVERY;
        let begin = first.checked_sub(1).map_or(Some(0), |place| self.whole.get(place).copied());
        let Some(begin) = begin.filter(|_| start < end) else { return Vec::new() };
        let skip = start - first * WHOLE_EVERY;
        let unpacked = unpack(&self.bytes[begin..], skip + end - start);
        debug_assert!(unpacked.is_some(), "what was packed here can be unpacked");
        let (json, ends) = unpacked.unwrap_or_default();
        let mut events = split(&Bytes::from(json), &ends).split_off(skip.min(ends.len()));
        for event in &mut events {
            event.number += (first * WHOLE_EVERY) as u64;
        }
        events
    }
}

/// What a row keeps of events that lie one after the other: packed, if there is more than one.
pub(crate) fn row_of(json: &Bytes, ends: &[usize]) -> Bytes {
    if ends.len() == 1 { json.clone() } else { pack(json, ends).into() }
}

/// The events of such a row, numbered from 1; nothing if it has not so many.
pub(crate) fn events_of(row: &[u8], count: usize) -> Option<Vec<Event>> {
    let (json, ends) = if count == 1 { (row.to_vec(), vec![row.len()]) } else { unpack(row, count)? };
    Some(split(&Bytes::from(json), &ends))
}

fn pack(json: &[u8], ends: &[usize]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(ROOM);
    let (mut before, mut start): (&[u8], usize) = (&[], 0);
    for end in ends {
        let event = &json[start..*end];
        put(&mut packed, before, event);
        (before, start) = (event, *end);
    }
    packed
}

/// The first so many events of what was packed, and where each ends; nothing if it is not that.
fn unpack(mut packed: &[u8], count: usize) -> Option<(Vec<u8>, Vec<usize>)> {
    let mut json: Vec<u8> = Vec::with_capacity(packed.len());
    let mut ends = Vec::with_capacity(count.min(packed.len()));
    let mut before = 0..0;
    for _ in 0..count {
        let (head, tail) = (take_number(&mut packed)?, take_number(&mut packed)?);
        let length = take_number(&mut packed)?;
        let own = packed.split_off(..length)?;
        if head.checked_add(tail)? > before.len() {
            return None;
        }
        let start = json.len();
        json.extend_from_within(before.start..before.start + head);
        json.extend_from_slice(own);
        json.extend_from_within(before.end - tail..before.end);
        before = start..json.len();
        ends.push(json.len());
    }
    Some((json, ends))
}

fn put(out: &mut Vec<u8>, before: &[u8], event: &[u8]) {
    let head = same_head(before, event);
    let (before, event) = (&before[head..], &event[head..]);
    let tail = same_tail(before, event);
    let own = &event[..event.len() - tail];
    for number in [head, tail, own.len()] {
        put_number(out, number);
    }
    out.extend_from_slice(own);
}

/// How many bytes are compared at a time.
const STEP: usize = 16;

fn same_head(one: &[u8], other: &[u8]) -> usize {
    let mut same = 0;
    for (one, other) in one.as_chunks().0.iter().zip(other.as_chunks().0) {
        let differing = differing_bits(one, other);
        if differing != 0 {
            return same + differing.trailing_zeros() as usize / 8;
        }
        same += STEP;
    }
    let rest = one[same..].iter().zip(&other[same..]);
    same + rest.take_while(|(one, other)| one == other).count()
}

fn same_tail(one: &[u8], other: &[u8]) -> usize {
    let mut same = 0;
    for (one, other) in one.as_rchunks().1.iter().rev().zip(other.as_rchunks().1.iter().rev()) {
        let differing = differing_bits(one, other);
        if differing != 0 {
            return same + differing.leading_zeros() as usize / 8;
        }
        same += STEP;
    }
    let rest = one[..one.len() - same].iter().rev().zip(other[..other.len() - same].iter().rev());
    same + rest.take_while(|(one, other)| one == other).count()
}

/// The first byte in the lowest bits.
fn differing_bits(one: &[u8; STEP], other: &[u8; STEP]) -> u128 {
    u128::from_le_bytes(*one) ^ u128::from_le_bytes(*other)
}

/// Seven bits a byte, the lowest first; the highest bit says that more follow.
fn put_number(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take_number(bytes: &mut &[u8]) -> Option<usize> {
    let (mut number, mut shift) = (0_usize, 0);
    loop {
        let byte = *bytes.split_off_first()?;
        number |= usize::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
        shift += 7;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Events that have much in common, or nothing.
    fn events() -> impl Strategy<Value = Vec<Event>> {
        let json = prop_oneof!["[ab]{0,40}", "(xyz){10}[0-9]{0,3}(xyz){0,12}", ".{0,60}"];
        let event = |(number, json): (usize, String)| Event { number: number as u64 + 1, json: json.into() };
        prop::collection::vec(json, 0..200)
            .prop_map(move |all| all.into_iter().enumerate().map(event).collect())
    }

    fn joined(events: &[Event]) -> (Vec<u8>, Vec<usize>) {
        let (mut json, mut ends) = (Vec::new(), Vec::new());
        for event in events {
            json.extend_from_slice(&event.json);
            ends.push(json.len());
        }
        (json, ends)
    }

    proptest! {
        #[test]
        fn what_is_packed_reads_back_from_every_place(events in events(), start in 0_usize..210, max in 0_usize..90) {
            let mut packed = Packed::default();
            for some in events.chunks(7) {
                packed.extend(some);
            }
            packed.close();
            prop_assert_eq!(packed.len(), events.len());
            let wanted: Vec<_> = events.into_iter().skip(start).take(max).collect();
            prop_assert_eq!(packed.read(start, max), wanted);
        }

        #[test]
        fn a_row_reads_back(events in events()) {
            let (json, ends) = joined(&events);
            prop_assert_eq!(unpack(&pack(&json, &ends), events.len()), Some((json, ends)));
        }

        #[test]
        fn damage_is_told_or_gives_other_bytes_and_never_a_panic(bytes: Vec<u8>, count in 0_usize..20) {
            let _ = unpack(&bytes, count);
        }
    }

    #[test]
    fn a_chunk_costs_little_more_than_its_text() {
        let event = |number: usize| {
            format!(
                r#"{{"artifactUpdate":{{"taskId":"{0:036}","contextId":"{0:036}","artifact":{{"artifactId":"a","parts":[{{"text":"chunk {number} "}}]}},"append":true}}}}"#,
                7
            )
        };
        let events: Vec<_> = (0..64).map(|n| Event { number: 0, json: event(n).into() }).collect();
        let (json, ends) = joined(&events);
        let packed = pack(&json, &ends);
        assert!(packed.len() < json.len() / 15, "{} of {}", packed.len(), json.len());
    }
}
