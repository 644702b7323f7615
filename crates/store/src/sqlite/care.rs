//! What an operator asks for: a backup, a check, and that somebody's tasks be deleted. Each on a connection of
//! its own, so that calls go on meanwhile.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use chancery_protocol::TaskId;
use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use super::counted::{self, EVERY_SCOPE};
use super::failure::{closed, unavailable};
use super::lock::{beside, private};
use super::options::Options;
use super::place::{self, state_of};
use super::writer::Upkeep;
use super::{SqliteStore, load, old_daybook, schema};
use crate::error::StoreError;
use crate::record::StoreCheck;

/// No more problems than this are listed.
const MOST_PROBLEMS: usize = 100;
const CHECK: &str = "check the store";

impl SqliteStore {
    /// Writes a copy as of now to a path where there is nothing yet.
    pub(crate) async fn backup(&self, to: &Path) -> Result<(), StoreError> {
        let (path, to) = (self.path.clone(), to.to_owned());
        self.aside("back up the store", move |connection| copy(connection, &path, &to)).await?
    }

    /// Reads everything, and says what is wrong with it.
    pub(crate) async fn check(&self) -> Result<StoreCheck, StoreError> {
        self.aside(CHECK, check).await?
    }

    /// The same for a database that this process has not opened.
    pub(crate) fn backup_of(text: &str, to: &Path) -> Result<(), StoreError> {
        let (connection, path) = visit("back up the store", text)?;
        copy(&connection, &path, to)
    }

    /// The same for a database that this process has not opened.
    pub(crate) fn check_of(text: &str) -> Result<StoreCheck, StoreError> {
        let (connection, _) = visit(CHECK, text)?;
        check(&connection)
    }

    /// Deletes all that somebody owns, in small steps. Gives how many tasks there were.
    pub(crate) async fn delete_owner(&self, realm: &str, owner: &str) -> Result<usize, StoreError> {
        let (of_realm, of_owner) = (realm.to_owned(), owner.to_owned());
        let read = move |connection: &Connection| counted::of_owner(connection, &of_realm, &of_owner);
        let tasks = self.readers.read("count somebody's tasks", read).await?;
        let step = || Upkeep::DeleteOwner { realm: realm.to_owned(), owner: owner.to_owned() };
        while self.upkeep(step()).await? > 0 {}
        self.delete_edges(realm, owner).await?;
        Ok(tasks)
    }

    /// Does something that takes its time on a thread and a connection of its own.
    async fn aside<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl FnOnce(&Connection) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let connection = schema::connect(&self.path, None).map_err(|error| unavailable(what, &error))?;
        let (reply, answer) = oneshot::channel();
        let run = move || {
            let _ = reply.send(work(&connection));
        };
        let thread = std::thread::Builder::new().name("store-care".to_owned()).spawn(run);
        thread.map_err(|error| StoreError::Unavailable {
            what: what.to_owned(),
            why: format!("no thread can be started: {error}"),
            hint: "let the process have more threads",
        })?;
        answer.await.map_err(|_| closed(what))
    }
}

/// Looks into a database without taking it: whoever has it open goes on.
pub(super) fn visit(what: &str, text: &str) -> Result<(Connection, PathBuf), StoreError> {
    let path = Options::parse(text)?.path;
    if !path.is_file() {
        return Err(StoreError::Unavailable {
            what: what.to_owned(),
            why: format!("there is no file {}", path.display()),
            hint: "name the file that the server uses",
        });
    }
    let connection = schema::connect(&path, None).map_err(|error| unavailable(what, &error))?;
    Ok((connection, path))
}

/// Copies to a file beside the target first, so that what is there under its name is whole.
fn copy(connection: &Connection, path: &Path, to: &Path) -> Result<(), StoreError> {
    let what = format!("back up the store to {}", to.display());
    let refuse = |why: String, hint| StoreError::Unavailable { what: what.clone(), why, hint };
    if to.exists() {
        return Err(refuse("there is a file already".to_owned(), "name another file, or move it away"));
    }
    let partial: PathBuf = beside(to, ".partial");
    let _ = std::fs::remove_file(&partial);
    let _ = private(&partial);
    let Some(name) = partial.to_str() else {
        return Err(refuse("the path is not valid UTF-8".to_owned(), "name another file"));
    };
    // Of an older version that has not been opened by this program yet.
    let left = old_daybook::read(path, &what)?;
    let copied = connection.pragma_update(None, "query_only", false);
    let copied = copied.and_then(|()| connection.execute("VACUUM INTO ?", [name]));
    let posted = copied.and_then(|_| post_all(&partial, &left));
    posted.map_err(|error| unavailable(&what, &error))?;
    let synced = std::fs::File::open(&partial).and_then(|file| file.sync_all());
    synced.and_then(|()| std::fs::rename(&partial, to)).map_err(|error| {
        refuse(format!("it cannot be finished: {error}"), "look at the disk and its space, and try again")
    })
}

fn post_all(database: &Path, left: &[old_daybook::Line]) -> rusqlite::Result<()> {
    let mut connection = Connection::open(database)?;
    let transaction = connection.transaction()?;
    old_daybook::post(&transaction, left)?;
    transaction.commit()
}

fn check(connection: &Connection) -> Result<StoreCheck, StoreError> {
    check_all(connection).map_err(|error| unavailable(CHECK, &error))
}

fn check_all(connection: &Connection) -> rusqlite::Result<StoreCheck> {
    connection.execute_batch("BEGIN")?;
    let mut found = StoreCheck { tasks: 0, problems: Vec::new() };
    let mut pragma = connection.prepare(&format!("PRAGMA integrity_check({MOST_PROBLEMS})"))?;
    let mut rows = pragma.query([])?;
    while let Some(row) = rows.next()? {
        let line: String = row.get(0)?;
        if line != "ok" {
            found.problems.push(line);
        }
    }
    check_counts(connection, &mut found)?;
    check_tasks(connection, &mut found)?;
    check_strays(connection, &mut found)?;
    super::calls::check(connection, &mut found, MOST_PROBLEMS)?;
    super::audit::check(connection, &mut found)?;
    found.problems.truncate(MOST_PROBLEMS);
    Ok(found)
}

/// What is counted beside the tasks must be what there is.
fn check_counts(connection: &Connection, found: &mut StoreCheck) -> rusqlite::Result<()> {
    let mut there: HashMap<(i64, i64), i64> = HashMap::new();
    let mut select = connection.prepare("SELECT scope, state, count(*) FROM tasks GROUP BY scope, state")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let (scope, state, tasks): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        *there.entry((scope, state)).or_default() += tasks;
        *there.entry((EVERY_SCOPE, state)).or_default() += tasks;
        found.tasks += u64::try_from(tasks).unwrap_or_default();
    }
    let mut said: HashMap<(i64, i64), i64> = HashMap::new();
    let mut select = connection.prepare("SELECT scope, state, tasks FROM counts")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        said.insert((row.get(0)?, row.get(1)?), row.get(2)?);
    }
    for (scope, state) in counted::uncounted(connection)? {
        *said.entry((scope, state)).or_default() += 1;
        *said.entry((EVERY_SCOPE, state)).or_default() += 1;
    }
    for ((scope, state), said) in said {
        let there = there.remove(&(scope, state)).unwrap_or_default();
        if there != said {
            let state = state_of(state).as_str();
            found.problems.push(format!("scope {scope} has {there} tasks in {state}, not {said}"));
        }
    }
    for ((scope, state), there) in there {
        let state = state_of(state).as_str();
        found.problems.push(format!("scope {scope} has {there} tasks in {state} that are not counted"));
    }
    Ok(())
}

/// Every task must read back, and be what its row says.
fn check_tasks(connection: &Connection, found: &mut StoreCheck) -> rusqlite::Result<()> {
    let mut select = connection.prepare("SELECT task FROM tasks")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let Some((row, id)) = load::find_by_number(connection, row.get(0)?)? else { continue };
        let id = TaskId::from(id);
        let task = load::load(connection, &row, &id)
            .and_then(|loaded| loaded.snapshot.task.value().map_err(load::unreadable));
        match task {
            Ok(task) if row.rank.is_of(&task) && task.id == id => {}
            Ok(_) => found.problems.push(format!("task {id} is not what its row says")),
            Err(error) => found.problems.push(format!("task {id} cannot be read: {error}")),
        }
        if found.problems.len() >= MOST_PROBLEMS {
            return Ok(());
        }
    }
    Ok(())
}

/// No events without their task, and none missing in between.
fn check_strays(connection: &Connection, found: &mut StoreCheck) -> rusqlite::Result<()> {
    let mut select = connection.prepare("SELECT place, last FROM events ORDER BY place")?;
    let mut rows = select.query([])?;
    let (mut current, mut expected) = (None, 1);
    while let Some(row) = rows.next()? {
        let (place, last): (i64, u64) = (row.get(0)?, row.get(1)?);
        let task = place::task(place);
        if current != Some(task) {
            let known = connection
                .prepare_cached("SELECT number IS NULL FROM tasks WHERE task = ?")?
                .query_map(params![task], |row| row.get::<_, bool>(0))?
                .next()
                .transpose()?;
            if known.is_none() {
                found.problems.push(format!("there are events of task number {task}, which is not there"));
            }
            // Of a task that has been compacted, some may be left to be removed.
            expected = if known == Some(true) { 1 } else { place::number(place) };
            current = Some(task);
        }
        if place::number(place) != expected {
            found.problems.push(format!("task number {task} has no event {expected}"));
        }
        expected = last + 1;
        if found.problems.len() >= MOST_PROBLEMS {
            return Ok(());
        }
    }
    Ok(())
}
