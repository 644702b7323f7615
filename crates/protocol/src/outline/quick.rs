//! The outline of a task that is written as nearly all are: compact, with texts and nothing that needs a closer look.
//!
//! Most of what a relay reads is such a task, and it reads it only to know which one it is. Whatever is in any way unusual is left
//! to the reader that knows every rule: this one may give up, and must not take what that one refuses.

use memchr::memchr2;

use super::TaskOutline;
use crate::id::{ContextId, TaskId};
use crate::task::{TaskState, TaskStatus};
use crate::time::Timestamp;

/// The fields of an object that are known, in the order in which they are usually written.
struct Fields<const N: usize> {
    /// Each as it stands there.
    names: [&'static str; N],
    /// Those that have to be there, a bit for each.
    needed: u8,
}

const TASK: Fields<5> = Fields {
    names: [r#""id":"#, r#""contextId":"#, r#""status":"#, r#""artifacts":"#, r#""history":"#],
    needed: 0b00101,
};
const STATUS: Fields<3> =
    Fields { names: [r#""state":"#, r#""message":"#, r#""timestamp":"#], needed: 0b001 };
const MESSAGE: Fields<5> = Fields {
    names: [r#""messageId":"#, r#""contextId":"#, r#""taskId":"#, r#""role":"#, r#""parts":"#],
    needed: 0b11001,
};
const ARTIFACT: Fields<4> =
    Fields { names: [r#""artifactId":"#, r#""name":"#, r#""description":"#, r#""parts":"#], needed: 0b1001 };
const PART: Fields<2> = Fields { names: [r#""text":"#, r#""mediaType":"#], needed: 0b01 };

pub(super) fn read(json: &str) -> Option<TaskOutline> {
    // Within texts these are mistakes, and between them there are none here. Nothing ends this loop early, so that many bytes
    // are looked at together.
    if json.bytes().fold(false, |found, byte| found | (byte < b' ')) {
        return None;
    }
    let mut reader = Reader { json, at: 0 };
    let (mut id, mut context_id, mut artifacts) = (None, None, 0);
    let mut status = TaskStatus { state: TaskState::Unspecified, message: None, timestamp: None };
    reader.object(&TASK, |reader, field| {
        match field {
            0 => id = Some(TaskId::from(reader.plain()?)),
            1 => context_id = Some(reader.plain()?).filter(|id| !id.is_empty()),
            2 => reader.status(&mut status)?,
            3 => artifacts = reader.array(Reader::artifact)?,
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
        self.object(&STATUS, |reader, field| {
            match field {
                0 => status.state = TaskState::from_name(reader.plain()?)?,
                1 => reader.message()?,
                _ => status.timestamp = Some(Timestamp::parse(reader.plain()?).ok()?),
            }
            Some(())
        })
    }

    fn message(&mut self) -> Option<()> {
        self.object(&MESSAGE, |reader, field| match field {
            3 => matches!(reader.plain()?, "ROLE_USER" | "ROLE_AGENT").then_some(()),
            4 => reader.array(Self::part).map(drop),
            _ => reader.text(),
        })
    }

    fn artifact(&mut self) -> Option<()> {
        self.object(&ARTIFACT, |reader, field| match field {
            3 => reader.array(Self::part).map(drop),
            _ => reader.text(),
        })
    }

    fn part(&mut self) -> Option<()> {
        self.object(&PART, |reader, _| reader.text())
    }

    /// An object that has these fields only, each once at most, and all that it has to have. Whoever reads one is told its place
    /// among them.
    fn object<const N: usize>(
        &mut self,
        fields: &Fields<N>,
        mut read: impl FnMut(&mut Self, usize) -> Option<()>,
    ) -> Option<()> {
        self.expect(b'{')?;
        let (mut seen, mut next) = (0_u8, 0);
        loop {
            let rest = self.json.as_bytes().get(self.at..)?;
            let is_here = |field: &usize| rest.starts_with(fields.names[*field].as_bytes());
            // Those that come after the last one first.
            let field = (next..N).chain(0..next).find(is_here)?;
            if seen & (1 << field) != 0 {
                return None;
            }
            (seen, next) = (seen | 1 << field, field + 1);
            self.at += fields.names[field].len();
            read(self, field)?;
            match self.byte()? {
                b',' => {}
                b'}' => return (seen & fields.needed == fields.needed).then_some(()),
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
        let text = &rest[..memchr2(b'"', b'\\', rest.as_bytes())?];
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
