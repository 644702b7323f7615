//! The outline of a task that is written as nearly all are: compact, with texts and nothing that needs a closer look.
//!
//! Most of what a relay reads is such a task, and it reads it only to know which one it is. Whatever is in any way unusual is left
//! to the reader that knows every rule: this one may give up, and must not take what that one refuses.

use memchr::memchr2;

use super::TaskOutline;
use crate::id::{ContextId, TaskId};
use crate::task::{TaskState, TaskStatus};
use crate::time::Timestamp;

/// The fields that are known, those that have to be there first.
const TASK: (&[&str], usize) = (&["id", "status", "contextId", "artifacts", "history"], 2);
const STATUS: (&[&str], usize) = (&["state", "timestamp", "message"], 1);
const MESSAGE: (&[&str], usize) = (&["messageId", "role", "parts", "contextId", "taskId"], 3);
const ARTIFACT: (&[&str], usize) = (&["artifactId", "parts", "name", "description"], 2);
const PART: (&[&str], usize) = (&["text", "mediaType"], 1);

pub(super) fn read(json: &str) -> Option<TaskOutline> {
    // Within texts these are mistakes, and between them there are none here. Nothing ends this loop early, so that many bytes
    // are looked at together.
    if json.bytes().fold(false, |found, byte| found | (byte < b' ')) {
        return None;
    }
    let mut reader = Reader { json, at: 0 };
    let (mut id, mut context_id, mut artifacts) = (None, None, 0);
    let mut status = TaskStatus { state: TaskState::Unspecified, message: None, timestamp: None };
    reader.object(TASK, |reader, name| {
        match name {
            "id" => id = Some(TaskId::from(reader.plain()?)),
            "contextId" => context_id = Some(reader.plain()?).filter(|id| !id.is_empty()),
            "status" => reader.status(&mut status)?,
            "artifacts" => artifacts = reader.array(Reader::artifact)?,
            _ => drop(reader.array(Reader::message)?),
        }
        Some(())
    })?;
    if reader.at < json.len() {
        return None;
    }
    Some(TaskOutline {
        id: id?,
        context_id: context_id.map(ContextId::from),
        status,
        artifacts,
        metadata: None,
    })
}

/// Reads on from a place. None is for what it does not know.
struct Reader<'a> {
    json: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn status(&mut self, status: &mut TaskStatus) -> Option<()> {
        self.object(STATUS, |reader, name| {
            match name {
                "state" => status.state = TaskState::from_name(reader.plain()?)?,
                "timestamp" => status.timestamp = Some(Timestamp::parse(reader.plain()?).ok()?),
                _ => reader.message()?,
            }
            Some(())
        })
    }

    fn message(&mut self) -> Option<()> {
        self.object(MESSAGE, |reader, name| match name {
            "role" => matches!(reader.plain()?, "ROLE_USER" | "ROLE_AGENT").then_some(()),
            "parts" => reader.array(Self::part).map(drop),
            _ => reader.text(),
        })
    }

    fn artifact(&mut self) -> Option<()> {
        self.object(ARTIFACT, |reader, name| match name {
            "parts" => reader.array(Self::part).map(drop),
            _ => reader.text(),
        })
    }

    fn part(&mut self) -> Option<()> {
        self.object(PART, |reader, _| reader.text())
    }

    /// An object that has fields of these names only, each once at most, and all that it has to have.
    fn object(
        &mut self,
        (names, needed): (&[&str], usize),
        mut field: impl FnMut(&mut Self, &str) -> Option<()>,
    ) -> Option<()> {
        self.expect(b'{')?;
        let mut seen = 0_u8;
        loop {
            let name = self.plain()?;
            let bit = 1 << names.iter().position(|known| *known == name)?;
            if seen & bit != 0 {
                return None;
            }
            seen |= bit;
            self.expect(b':')?;
            field(self, name)?;
            match self.byte()? {
                b',' => {}
                b'}' => return (seen.trailing_ones() as usize >= needed).then_some(()),
                _ => return None,
            }
        }
    }

    /// How many there are.
    fn array(&mut self, item: impl Fn(&mut Self) -> Option<()>) -> Option<usize> {
        self.expect(b'[')?;
        if self.json.as_bytes().get(self.at) == Some(&b']') {
            self.at += 1;
            return Some(0);
        }
        let mut count = 0;
        loop {
            item(self)?;
            count += 1;
            match self.byte()? {
                b',' => {}
                b']' => return Some(count),
                _ => return None,
            }
        }
    }

    /// A text that stands there as it is.
    fn plain(&mut self) -> Option<&'a str> {
        self.expect(b'"')?;
        let rest = self.json.get(self.at..)?;
        let text = &rest[..rest.bytes().position(|byte| matches!(byte, b'"' | b'\\'))?];
        self.at += text.len();
        self.expect(b'"').map(|()| text)
    }

    /// A text of which nothing is wanted.
    fn text(&mut self) -> Option<()> {
        self.expect(b'"')?;
        loop {
            self.at += memchr2(b'"', b'\\', self.json.as_bytes().get(self.at..)?)?;
            if self.byte()? == b'"' {
                return Some(());
            }
            // What is escaped by its number may be half of something.
            if !matches!(self.byte()?, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') {
                return None;
            }
        }
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.byte()? == byte).then_some(())
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = self.json.as_bytes().get(self.at).copied()?;
        self.at += 1;
        Some(byte)
    }
}
