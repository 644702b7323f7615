//! A line of the daybook as bytes: how many follow, their CRC-32, and what the line says.

use chancery_protocol::{ContextId, KeptTask, TaskId};

use crate::record::Scope;
use crate::sqlite::place::{AT_ONCE, Rank, state_number, state_of};
use crate::sqlite::sum;
use crate::sqlite::write::{Fold, Life};

/// A task that began and ended in one batch.
#[derive(Debug)]
pub(in crate::sqlite) struct Line {
    /// Of the process that wrote it.
    pub(in crate::sqlite) epoch: u64,
    /// From 1 in each epoch.
    pub(in crate::sqlite) number: u64,
    pub(in crate::sqlite) scope: Scope,
    pub(in crate::sqlite) id: TaskId,
    pub(in crate::sqlite) life: Life,
}

/// The length and the checksum.
const HEAD: usize = 8;

/// Stands for the length of a context that is not there.
const NONE: u32 = u32::MAX;

impl Line {
    /// Puts the line in the place of what is in `to`.
    pub(super) fn write(&self, to: &mut Vec<u8>) {
        let Life { context, rank, fold } = &self.life;
        to.clear();
        to.extend([0; HEAD]);
        to.extend(self.epoch.to_le_bytes());
        to.extend(self.number.to_le_bytes());
        to.extend(state_number(rank.state).to_le_bytes());
        to.extend(rank.millis.to_le_bytes());
        to.extend(rank.nanos.to_le_bytes());
        to.extend(fold.number.to_le_bytes());
        to.extend(fold.sum.to_le_bytes());
        for text in [&*self.scope.realm, &self.scope.owner, &self.scope.agent, self.id.as_str()] {
            put(to, text.as_bytes());
        }
        match context {
            Some(context) => put(to, context.as_str().as_bytes()),
            None => to.extend(NONE.to_le_bytes()),
        }
        put(to, &fold.json);
        let (head, rest) = to.split_at_mut(HEAD);
        head[..4].copy_from_slice(&length(rest).to_le_bytes());
        head[4..].copy_from_slice(&sum::of(&[rest]).to_le_bytes());
    }

    pub(in crate::sqlite) fn task(&self) -> KeptTask {
        KeptTask::from_json(self.id.clone(), self.life.rank.state, self.life.fold.json.clone())
    }

    /// Reads the next line, if what comes next is one.
    fn read(from: &mut Cursor<'_>) -> Option<Self> {
        let (length, sum) = (from.u32()?, from.u32()?);
        let mut from = Cursor(from.take(length)?);
        if sum::of(&[from.0]) != sum {
            return None;
        }
        let (epoch, number) = (from.u64()?, from.u64()?);
        let (state, millis, nanos) = (state_of(from.i64()?), from.i64()?, from.u32()?);
        let (last, sum) = (from.u64()?, from.u32()?);
        let scope = Scope {
            realm: from.text(None)?.into(),
            owner: from.text(None)?.into(),
            agent: from.text(None)?.into(),
        };
        let id = TaskId::from(from.text(None)?);
        let context = match from.u32()? {
            NONE => None,
            length => Some(ContextId::from(from.text(Some(length))?)),
        };
        let length = from.u32()?;
        let fold = Fold { number: last, sum, json: from.take(length)?.into() };
        let rank = Rank { state, millis, nanos, ended: Some(AT_ONCE) };
        Some(Self { epoch, number, scope, id, life: Life { context, rank, fold } })
    }
}

/// The lines that some bytes begin with. What comes after them was cut short, or is of an earlier time.
pub(super) fn lines(bytes: &[u8]) -> Vec<Line> {
    let mut from = Cursor(bytes);
    let mut lines: Vec<Line> = Vec::new();
    while let Some(line) = Line::read(&mut from) {
        if lines.last().is_some_and(|last| (line.epoch, line.number) != (last.epoch, last.number + 1)) {
            break;
        }
        lines.push(line);
    }
    lines
}

fn put(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend(length(bytes).to_le_bytes());
    to.extend(bytes);
}

/// No line is as long as that: see `MOST_LINE`.
fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(NONE)
}

/// Bytes that are read from their beginning.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    fn take(&mut self, length: u32) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    /// A text of a length that comes first, unless it is known.
    fn text(&mut self, length: Option<u32>) -> Option<&'a str> {
        let length = match length {
            Some(length) => length,
            None => self.u32()?,
        };
        std::str::from_utf8(self.take(length)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use chancery_protocol::TaskState;
    use proptest::prelude::*;

    use super::*;

    fn line(number: u64, context: Option<&str>) -> Line {
        let scope = Scope { realm: "".into(), owner: "ö".into(), agent: "echo".into() };
        let json: &[u8] = br#"{"id":"t"}"#;
        let fold = Fold { number: 3, sum: sum::of(&[json]), json: json.into() };
        let rank = Rank { state: TaskState::Failed, millis: -5, nanos: 999_999, ended: Some(AT_ONCE) };
        let life = Life { context: context.map(ContextId::from), rank, fold };
        Line { epoch: 7, number, scope, id: TaskId::from(format!("t{number}")), life }
    }

    fn written(some: &[Line]) -> Vec<u8> {
        let mut buffer = Vec::new();
        let each = some.iter().flat_map(|line| {
            line.write(&mut buffer);
            buffer.clone()
        });
        each.collect()
    }

    fn same(one: &Line, other: &Line) -> bool {
        format!("{one:?}") == format!("{other:?}")
    }

    #[test]
    fn lines_read_back() {
        let some = [line(4, None), line(5, Some("")), line(6, Some("c"))];
        let found = lines(&written(&some));
        assert_eq!(found.len(), 3);
        assert!(some.iter().zip(&found).all(|(one, other)| same(one, other)), "{found:?}");
    }

    #[test]
    fn what_an_earlier_time_left_behind_ends_them() {
        assert_eq!(lines(&written(&[line(4, None), line(2, None)])).len(), 1);
        let later = Line { epoch: 8, ..line(5, None) };
        assert_eq!(lines(&written(&[line(4, None), later])).len(), 1);
    }

    proptest! {
        #[test]
        fn what_is_cut_short_or_changed_is_left_out(cut in 0usize..400, at in 0usize..400, flip in 1u8..) {
            let some = [line(1, None), line(2, Some("c")), line(3, None)];
            let whole = written(&some);
            let cut = cut.min(whole.len());
            for (place, found) in lines(&whole[..cut]).iter().enumerate() {
                prop_assert!(same(found, &some[place]));
            }
            let (mut changed, at) = (whole.clone(), at.min(whole.len() - 1));
            changed[at] ^= flip;
            let found = lines(&changed);
            prop_assert!(found.len() < 3);
            prop_assert!(found.iter().zip(&some).all(|(one, other)| same(one, other)));
        }
    }
}
