//! The daybook: where a task that begins and ends in one batch is written down at once, in one short write, before it is
//! posted to the database together with many others. ADR 0039 says why.
//!
//! A file beside the database, in two halves. Lines are added to one while those of the other are posted. What has been
//! posted is written over, and what a process that was killed has left behind is posted by the next one. Whoever looks for a
//! task looks here first.

mod line;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chancery_protocol::TaskId;
use foldhash::fast::RandomState;
use parking_lot::Mutex;

use super::lock::{beside, private};
use super::place::AT_ONCE;
use super::write::Life;
use crate::error::StoreError;
use crate::record::Scope;

pub(super) use line::Line;

#[derive(Debug, Default)]
pub(super) struct Daybook {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// None if nothing is to be entered, or nothing can be.
    file: Option<File>,
    epoch: u64,
    /// The number of the last line.
    last: u64,
    halves: [Half; 2],
    /// The half that lines are added to.
    open: usize,
    by_id: HashMap<TaskId, Arc<Line>, RandomState>,
    /// For each scope that was asked for, an id that no task of it in the database is beyond. Ids are given in the order of
    /// time, so nearly every new one is, and need not be looked up.
    newest: HashMap<Scope, TaskId, RandomState>,
    /// A line on its way to the file.
    buffer: Vec<u8>,
}

#[derive(Debug, Default)]
struct Half {
    /// Those that are still to be posted, oldest first.
    lines: Vec<Arc<Line>>,
    /// How many it was written with since it was begun, and how many bytes.
    written: usize,
    bytes: usize,
}

/// What somebody has to do who has written a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entered {
    /// To see to it that it is posted before long, since it is the only one.
    First,
    /// Nothing.
    Other,
    /// To have the lines posted now: there is no more room in this half.
    Full,
}

/// A half has so many lines at most, which bounds how long the transaction takes that posts them.
const MOST_LINES: usize = 128;
/// So many bytes have their place in the file.
const HALF: usize = 1 << 20;
/// What is longer goes to the database at once.
const MOST_LINE: usize = 64 << 10;
/// More than this are learnt again.
const MOST_SCOPES: usize = 65_536;

impl Daybook {
    /// Begins it anew: what is in the file must have been posted. Without a file that can be written, nothing is entered.
    pub(super) fn open(&self, database: &Path, epoch: u64) {
        let path = path(database);
        let file = private(&path).and_then(|file| file.set_len(0).map(|()| file));
        if let Err(error) = &file {
            tracing::warn!(path = %path.display(), cause = %error, "the store has no daybook, and is slower without");
        }
        *self.inner.lock() = Inner { file: file.ok(), epoch, ..Inner::default() };
    }

    /// Takes no more.
    pub(super) fn close(&self) {
        self.inner.lock().file = None;
    }

    /// Writes a task down, if it is new for certain and there is room.
    pub(super) fn enter(&self, scope: &Scope, id: &TaskId, life: Life) -> Result<Entered, Life> {
        let mut inner = self.inner.lock();
        let fits = life.rank.ended == Some(AT_ONCE) && life.fold.json.len() < MOST_LINE;
        if !fits || !inner.is_new(scope, id) || !inner.has_room() {
            return Err(life);
        }
        let (epoch, number) = (inner.epoch, inner.last + 1);
        let line = Line { epoch, number, scope: scope.clone(), id: id.clone(), life };
        match inner.write(&line) {
            Ok(()) => Ok(inner.add(line)),
            Err(_) => Err(line.life),
        }
    }

    /// The task, if it has not been posted.
    pub(super) fn find(&self, scope: &Scope, id: &TaskId) -> Option<Arc<Line>> {
        self.inner.lock().by_id.get(id).filter(|line| line.scope == *scope).cloned()
    }

    /// What has not been posted, oldest first.
    pub(super) fn unposted(&self) -> Vec<Arc<Line>> {
        let inner = self.inner.lock();
        let [one, other] = &inner.halves;
        let (first, then) = if inner.open == 1 { (one, other) } else { (other, one) };
        first.lines.iter().chain(&then.lines).cloned().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.inner.lock().by_id.is_empty()
    }

    /// All lines up to this one are in the database.
    pub(super) fn posted(&self, up_to: u64) {
        let mut inner = self.inner.lock();
        let Inner { halves, by_id, newest, .. } = &mut *inner;
        let mut gone = Vec::with_capacity(2 * MOST_LINES);
        for half in halves {
            let posted = half.lines.partition_point(|line| line.number <= up_to);
            gone.extend(half.lines.drain(..posted));
        }
        for line in &gone {
            by_id.remove(&line.id);
            raise(newest, &line.scope, &line.id);
        }
        drop(inner);
    }

    /// For a task that is about to go to the database by itself: says whether it is not here. It is not taken here from
    /// then on.
    pub(super) fn claim(&self, scope: &Scope, id: &TaskId) -> bool {
        let mut inner = self.inner.lock();
        raise(&mut inner.newest, scope, id);
        inner.by_id.get(id).is_none_or(|line| line.scope != *scope)
    }

    /// Whether tasks of a scope can be entered at all.
    pub(super) fn knows(&self, scope: &Scope) -> bool {
        let inner = self.inner.lock();
        inner.file.is_none() || inner.newest.contains_key(scope)
    }

    /// Keeps no names of somebody whose tasks are deleted.
    pub(super) fn forget(&self, realm: &str, owner: &str) {
        let mut inner = self.inner.lock();
        inner.newest.retain(|scope, _| &*scope.realm != realm || &*scope.owner != owner);
    }

    /// No task of a scope in the database has an id beyond this one.
    pub(super) fn learn(&self, scope: &Scope, newest: TaskId) {
        let mut inner = self.inner.lock();
        if inner.newest.len() >= MOST_SCOPES {
            inner.newest.clear();
        }
        inner.newest.insert(scope.clone(), newest);
    }
}

fn raise(newest: &mut HashMap<Scope, TaskId, RandomState>, scope: &Scope, id: &TaskId) {
    if let Some(newest) = newest.get_mut(scope)
        && *newest < *id
    {
        *newest = id.clone();
    }
}

impl Inner {
    fn is_new(&self, scope: &Scope, id: &TaskId) -> bool {
        self.newest.get(scope).is_some_and(|newest| newest < id) && !self.by_id.contains_key(id)
    }

    /// Turns to the other half if this one is full and that one has been posted.
    fn has_room(&mut self) -> bool {
        if !self.halves[self.open].is_full() {
            return true;
        }
        let next = 1 - self.open;
        let half = &mut self.halves[next];
        if !half.lines.is_empty() {
            return false;
        }
        (half.written, half.bytes) = (0, 0);
        self.open = next;
        self.turn_to_the_end()
    }

    /// Has the next line written after the last one. Without that, nothing can be entered any more.
    fn turn_to_the_end(&mut self) -> bool {
        let end = (self.open * HALF + self.halves[self.open].bytes) as u64;
        let is_there = self.file.as_mut().is_some_and(|file| file.seek(SeekFrom::Start(end)).is_ok());
        if !is_there {
            self.file = None;
        }
        is_there
    }

    fn write(&mut self, line: &Line) -> io::Result<()> {
        line.write(&mut self.buffer);
        let Some(file) = self.file.as_mut().filter(|_| self.buffer.len() <= MOST_LINE) else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let written = file.write_all(&self.buffer);
        if written.is_err() {
            // What there is of it is written over, and no line until then.
            self.turn_to_the_end();
        }
        written
    }

    fn add(&mut self, line: Line) -> Entered {
        let is_first = self.by_id.is_empty();
        let line = Arc::new(line);
        self.last = line.number;
        self.by_id.insert(line.id.clone(), line.clone());
        let half = &mut self.halves[self.open];
        half.lines.push(line);
        half.written += 1;
        half.bytes += self.buffer.len();
        match half.is_full() {
            true => Entered::Full,
            false if is_first => Entered::First,
            false => Entered::Other,
        }
    }
}

impl Half {
    fn is_full(&self) -> bool {
        self.written >= MOST_LINES || self.bytes + MOST_LINE > HALF
    }
}

fn path(database: &Path) -> PathBuf {
    beside(database, ".daybook")
}

/// All lines that are in the file, in the order in which they were written. Read before the database is, or some might be posted
/// and written over meanwhile.
pub(super) fn read(database: &Path, what: &str) -> Result<Vec<Line>, StoreError> {
    let bytes = match read_bytes(database) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(StoreError::Unavailable {
                what: what.to_owned(),
                why: format!("its daybook {} cannot be read: {error}", path(database).display()),
                hint: "make it readable: it may have tasks that are nowhere else yet",
            });
        }
        bytes => bytes.unwrap_or_default(),
    };
    let (one, other) = bytes.split_at(bytes.len().min(HALF));
    let mut lines: Vec<_> = [one, other].into_iter().flat_map(line::lines).collect();
    lines.sort_by_key(|line| (line.epoch, line.number));
    Ok(lines)
}

fn read_bytes(database: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path(database))?.take(2 * HALF as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Removes the file, once everything in it has been posted.
pub(super) fn remove(database: &Path) {
    // What is left is of an epoch that is over.
    let _ = std::fs::remove_file(path(database));
}

#[cfg(test)]
mod tests {
    use chancery_protocol::TaskState;

    use super::*;
    use crate::sqlite::place::Rank;
    use crate::sqlite::write::Fold;

    fn scope() -> Scope {
        Scope { realm: "r".into(), owner: "o".into(), agent: "a".into() }
    }

    fn id(number: usize) -> TaskId {
        TaskId::from(format!("t{number:04}"))
    }

    fn life(bytes: usize) -> Life {
        let fold = Fold { number: 1, sum: 0, json: vec![b'1'; bytes].into() };
        let rank = Rank { state: TaskState::Completed, millis: 1, nanos: 0, ended: Some(AT_ONCE) };
        Life { context: None, rank, fold }
    }

    /// A daybook that knows the scope, and the path of its database.
    fn daybook(test: &str) -> (Daybook, PathBuf) {
        let path = std::env::temp_dir().join(format!("chancery-daybook-{test}-{}", std::process::id()));
        let daybook = Daybook::default();
        daybook.open(&path, 3);
        daybook.learn(&scope(), id(0));
        (daybook, path)
    }

    fn numbers(lines: &[impl std::borrow::Borrow<Line>]) -> Vec<u64> {
        lines.iter().map(|line| line.borrow().number).collect()
    }

    #[test]
    fn one_half_is_filled_while_the_other_is_posted() {
        let (daybook, path) = daybook("halves");
        let enter = |number| daybook.enter(&scope(), &id(number), life(9)).ok();
        for number in 1..=2 * MOST_LINES {
            let expected = match number {
                1 => Entered::First,
                number if number % MOST_LINES == 0 => Entered::Full,
                _ => Entered::Other,
            };
            assert_eq!(enter(number), Some(expected), "{number}");
        }
        let next = 2 * MOST_LINES + 1;
        assert_eq!(enter(next), None, "there is no more room");
        assert_eq!(numbers(&daybook.unposted()), (1..next as u64).collect::<Vec<_>>());
        daybook.posted(MOST_LINES as u64 + 5);
        assert_eq!(enter(next), Some(Entered::Other));
        let left: Vec<_> = (MOST_LINES as u64 + 6..=next as u64).collect();
        assert_eq!(numbers(&daybook.unposted()), left);
        assert!(numbers(&read(&path, "").unwrap()).ends_with(&left), "the first half is written over");
        assert!(daybook.find(&scope(), &id(1)).is_none() && daybook.find(&scope(), &id(next)).is_some());
        daybook.posted(next as u64);
        assert!(daybook.is_empty());
        assert_eq!(enter(next + 1), Some(Entered::First));
        daybook.close();
        assert_eq!(enter(next + 2), None);
        remove(&path);
    }

    #[test]
    fn only_what_is_new_for_certain_is_entered() {
        let (daybook, path) = daybook("new");
        let enter = |id: &TaskId, life| daybook.enter(&scope(), id, life).is_ok();
        let other = Scope { owner: "x".into(), ..scope() };
        assert!(daybook.enter(&other, &id(1), life(9)).is_err(), "nothing is known of its scope");
        assert!(enter(&id(2), life(9)) && !enter(&id(2), life(9)) && !enter(&id(0), life(9)));
        assert!(!enter(&id(3), life(MOST_LINE)) && !enter(&id(3), life(MOST_LINE - 9)), "too long");
        let earlier = Rank { ended: Some(7), ..life(9).rank };
        assert!(!enter(&id(3), Life { rank: earlier, ..life(9) }), "it did not end when it began");
        assert!(!daybook.claim(&scope(), &id(2)), "it is here");
        assert!(daybook.claim(&other, &id(2)) && daybook.claim(&scope(), &id(3)));
        assert!(!enter(&id(3), life(9)), "it is on its way to the database");
        daybook.posted(1);
        assert!(!enter(&id(2), life(9)) && enter(&id(4), life(9)));
        daybook.forget("r", "o");
        assert!(!enter(&id(5), life(9)));
        remove(&path);
    }

    #[test]
    fn long_lines_fill_a_half_as_well() {
        let (daybook, path) = daybook("long");
        let enter = |number| daybook.enter(&scope(), &id(number), life(60_000)).unwrap();
        let full = (1..MOST_LINES).find(|number| enter(*number) == Entered::Full);
        let full = full.unwrap();
        assert!(full * 60_000 < HALF);
        assert_eq!(enter(full + 1), Entered::Other);
        assert_eq!(read(&path, "").unwrap().len(), full + 1);
        remove(&path);
    }
}
