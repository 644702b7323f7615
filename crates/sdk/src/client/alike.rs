//! Events that are like an earlier one but for a text.
//!
//! Most events of most streams are pieces of one artifact: the same ids and the same words around another text. Once one of
//! them has been read, it is enough to see that the next has the same bytes before its text and after it, and that the
//! text has nothing in it that could end a JSON string. Nothing else has to be read, or allocated.

use std::ops::Range;

use bytes::Bytes;
use chancery_protocol::{Content, Event, StreamResponse, TaskArtifactUpdateEvent, field};

use super::written::Told;

/// How many patterns of one stream may turn out to be of no use.
const MOST_IN_VAIN: u32 = 3;

const TEXT_KEY: &[u8] = br#""text":""#;

/// What is known of the events of one stream.
#[derive(Debug, Default)]
pub(super) struct Alike {
    pattern: Option<Box<Pattern>>,
    /// How many patterns in a row no event has been like.
    in_vain: u32,
}

/// A piece of an artifact whose text is open, and so kept empty.
#[derive(Debug)]
struct Pattern {
    before: Box<[u8]>,
    after: Box<[u8]>,
    /// How much of what stands before and after is the envelope.
    envelope: (usize, usize),
    piece: TaskArtifactUpdateEvent,
}

impl Alike {
    /// Reads what is like an earlier event. None says nothing but that it has to be read.
    pub(super) fn read(&mut self, number: u64, data: &Bytes) -> Option<Told> {
        let told = self.pattern.as_ref()?.read(number, data)?;
        self.in_vain = 0;
        Some(told)
    }

    /// Takes an event that has been read for a pattern, if it can be one. `place` is where it stands in the data.
    pub(super) fn learn(&mut self, data: &[u8], place: Range<usize>, told: &Told) {
        if self.in_vain >= MOST_IN_VAIN {
            return;
        }
        let Ok(StreamResponse::ArtifactUpdate(piece)) = &told.payload else { return };
        // The first piece is seldom like the others.
        if piece.append
            && let Some(pattern) = Pattern::of(data, place, piece)
        {
            self.pattern = Some(Box::new(pattern));
            self.in_vain += 1;
        }
    }
}

impl Pattern {
    fn of(data: &[u8], place: Range<usize>, piece: &TaskArtifactUpdateEvent) -> Option<Self> {
        let [part] = &piece.artifact.parts[..] else { return None };
        let text = part.as_text()?;
        let start = memchr::memmem::find(data, TEXT_KEY)? + TEXT_KEY.len();
        let (before, rest) = data.split_at(start);
        let after = rest.strip_prefix(text.as_bytes())?;
        if !after.starts_with(b"\"") || data.contains(&b'\n') || data.contains(&b'\r') {
            return None;
        }
        let mut pattern = Self {
            before: before.into(),
            after: after.into(),
            envelope: (place.start, data.len() - place.end),
            piece: piece.clone(),
        };
        pattern.piece = pattern.saying("");
        pattern.is_right().then_some(pattern)
    }

    /// Whether it is the text of the piece that is open, and not one that happens to be the same. A trial shows it.
    fn is_right(&self) -> bool {
        let trial = [&self.before, &b"a trial"[..], &self.after].concat();
        let json = &trial[self.envelope.0..trial.len() - self.envelope.1];
        let read: Result<field::Object<StreamResponse>, _> = serde_json::from_slice(json);
        let expected = StreamResponse::ArtifactUpdate(self.saying("a trial"));
        read.is_ok_and(|field::Object(read)| read == expected)
    }

    fn read(&self, number: u64, data: &Bytes) -> Option<Told> {
        let text = data.strip_prefix(&*self.before)?.strip_suffix(&*self.after)?;
        if text.iter().any(|byte| matches!(byte, 0..0x20 | b'"' | b'\\')) {
            return None;
        }
        let piece = self.saying(std::str::from_utf8(text).ok()?);
        let json = data.slice(self.envelope.0..data.len() - self.envelope.1);
        let payload = Ok(StreamResponse::ArtifactUpdate(piece));
        Some(Told { event: Event { number, json }, payload, is_last: false })
    }

    fn saying(&self, text: &str) -> TaskArtifactUpdateEvent {
        let mut piece = self.piece.clone();
        for part in &mut piece.artifact.parts {
            part.content = Content::Text(text.to_owned());
        }
        piece
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::Wire;
    use super::*;

    fn answer(artifact: &str) -> Bytes {
        let update = format!(r#"{{"taskId":"t","contextId":"c","artifact":{artifact},"append":true,"x":1}}"#);
        format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"artifactUpdate":{update}}}}}"#).into()
    }

    fn piece(text: &str) -> Bytes {
        answer(&format!(r#"{{"artifactId":"a","parts":[{{"text":"{text}"}}]}}"#))
    }

    fn read(data: &Bytes) -> (Told, Option<Range<usize>>) {
        Wire::JsonRpc.told(7, (3, data), false).unwrap()
    }

    fn learnt(data: &Bytes) -> Alike {
        let mut alike = Alike::default();
        let (told, place) = read(data);
        alike.learn(data, place.unwrap(), &told);
        alike
    }

    #[test]
    fn what_is_alike_is_read_as_it_would_have_been() {
        let mut alike = learnt(&piece("one"));
        for text in ["", "two", "drei und mehr", "vier\u{e4}", "{}[],:"] {
            let data = piece(text);
            let (told, (expected, _)) = (alike.read(3, &data).unwrap(), read(&data));
            assert_eq!(told.event, expected.event);
            assert_eq!(told.payload.unwrap(), expected.payload.unwrap());
        }
    }

    #[test]
    fn what_only_looks_alike_is_not() {
        let mut alike = learnt(&piece("one"));
        let fields = r#"two"},{"text":"three"#;
        for text in [fields, r"a\nb", "a\"", "a\u{1}b", "a\nb"] {
            assert!(alike.read(3, &piece(text)).is_none(), "{text}");
        }
        assert!(alike.read(3, &piece("two").slice(..60)).is_none());
        let broken = [&piece("two")[..], b"x"].concat();
        assert!(alike.read(3, &Bytes::from(broken)).is_none());
        let mut invalid = piece("two").to_vec();
        let at = memchr::memmem::find(&invalid, b"two").unwrap();
        invalid[at] = 0xff;
        assert!(alike.read(3, &Bytes::from(invalid)).is_none());
    }

    #[test]
    fn only_the_text_of_the_piece_is_open() {
        // The same text stands somewhere else, and the piece spells its key in another way.
        let twice = answer(r#"{"artifactId":"a","metadata":{"text":"one"},"parts":[{"text" :"one"}]}"#);
        assert!(learnt(&twice).pattern.is_none());
        for other in [
            answer(r#"{"artifactId":"a","parts":[{"text":"one"},{"text":"two"}]}"#),
            answer(r#"{"artifactId":"a","parts":[{"data":{"text":"one"}}]}"#),
            answer(r#"{"artifactId":"a","parts":[{"text":"o\u006ee"}]}"#),
        ] {
            assert!(learnt(&other).pattern.is_none());
        }
    }

    #[test]
    fn a_stream_of_which_nothing_is_alike_is_not_looked_at_for_long() {
        let mut alike = Alike::default();
        for number in 0..10 {
            let data = answer(&format!(r#"{{"artifactId":"{number}","parts":[{{"text":"x"}}]}}"#));
            assert!(alike.read(3, &data).is_none());
            let (told, place) = read(&data);
            alike.learn(&data, place.unwrap(), &told);
        }
        assert_eq!(alike.in_vain, MOST_IN_VAIN);
    }
}
