//! The watcher: the helper, where a program has no namespaces. It stays outside of what shuts the program in, inherits every
//! process that the program abandons, and ends all of them when the program, its task or the gateway ends. It also sees to
//! it that the program's own directory stays within its limit.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid, getppid, gettid};

use super::helper::{Broken, broken, by_signal, exit_code};
use super::plan::{INSIDE, Limits, PLAN, Plan};

/// How often the directory is looked at, and how much longer than a look the pause is at least.
const EVERY: Duration = Duration::from_millis(20);
const PAUSE: u32 = 4;
/// How deep a directory may be that is counted.
const DEEPEST: usize = 32;
/// Between two looks at who is left.
const MOMENT: Duration = Duration::from_millis(1);

/// Runs the second helper, which becomes the program, and comes back when nothing of it is left.
pub(super) fn run(mut plan: Plan) -> Result<ExitCode, Broken> {
    // Nothing but SIGKILL ends it before its work is done. What it starts has its signals back.
    let signals = SigSet::all();
    signals.thread_block().map_err(|error| broken("hold signals back", error))?;
    let told = SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
        .map_err(|error| broken("hear signals", error))?;
    prctl::set_pdeathsig(Signal::SIGTERM).map_err(|error| broken("be tied to its parent", error))?;
    prctl::set_child_subreaper(true).map_err(|error| broken("inherit processes", error))?;
    let gateway = std::mem::replace(&mut plan.parent, getpid().as_raw());
    if getppid().as_raw() != gateway {
        return Err(Broken("the gateway is gone".to_owned()));
    }
    let text = serde_json::to_string(&plan).map_err(|error| broken("write the plan", error))?;
    let started = Command::new("/proc/self/exe").arg(INSIDE).env(PLAN, text).spawn();
    let program = started.map_err(|error| broken("start the second helper", error))?;
    // Its environment and memory are nobody's to read.
    let _ = prctl::set_dumpable(false);
    let ended = watch(&plan, Pid::from_raw(program.id().cast_signed()), &told);
    end_all();
    if let Some(directory) = &plan.directory {
        remove(directory);
    }
    ended
}

/// Waits until the program has ended, or is to be ended.
fn watch(plan: &Plan, program: Pid, told: &SignalFd) -> Result<ExitCode, Broken> {
    let directory = plan.directory.as_deref().ok_or_else(|| Broken("no directory".to_owned()))?;
    let mut pause = EVERY;
    loop {
        let wait = PollTimeout::try_from(pause).unwrap_or(PollTimeout::from(20_u8));
        let mut heard = [PollFd::new(told.as_fd(), PollFlags::POLLIN)];
        match poll(&mut heard, wait) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(broken("wait for the program", error)),
        }
        while let Ok(Some(signal)) = told.read_signal() {
            if signal.ssi_signo == Signal::SIGTERM as u32 {
                return Ok(by_signal(Signal::SIGTERM as i32));
            }
        }
        if let Some(code) = reap(program)? {
            return Ok(code);
        }
        let began = Instant::now();
        if !fits(directory, &plan.limits) {
            let most = plan.limits.disk_bytes;
            let _ = writeln!(
                io::stderr(),
                "{}!The program kept more than the {most} bytes or {} files that it may keep",
                plan.nonce,
                plan.limits.files()
            );
            return Ok(by_signal(Signal::SIGKILL as i32));
        }
        pause = EVERY.max(began.elapsed() * PAUSE);
    }
}

/// Takes leave of all that have ended. The code of the program, if it is among them.
fn reap(program: Pid) -> Result<Option<ExitCode>, Broken> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => return Ok(None),
            Ok(status) if status.pid() == Some(program) => {
                if let Some(code) = exit_code(status) {
                    return Ok(Some(code));
                }
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(broken("wait for the program", error)),
        }
    }
}

/// Ends its children until there are none: those of a child that has ended become its own.
fn end_all() {
    loop {
        let Some(children) = children() else { return };
        for child in children {
            let _ = kill(child, Signal::SIGKILL);
        }
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => break,
                Ok(_) | Err(Errno::EINTR) => {}
                // There are none.
                Err(_) => return,
            }
        }
        std::thread::sleep(MOMENT);
    }
}

fn children() -> Option<Vec<Pid>> {
    let listed = fs::read_to_string(format!("/proc/self/task/{}/children", gettid())).ok()?;
    Some(listed.split_whitespace().filter_map(|pid| Some(Pid::from_raw(pid.parse().ok()?))).collect())
}

/// Whether what it keeps is within its limits: what is in its directory, and what it holds open that has no name there any
/// more. What cannot be counted does not fit.
fn fits(directory: &Path, limits: &Limits) -> bool {
    let Ok(home) = fs::symlink_metadata(directory) else { return true };
    let mut count = Count { bytes: 0, files: 0, seen: HashSet::new(), limits: *limits };
    count.folder(directory, 0) && count.nameless(home.dev())
}

struct Count {
    bytes: u64,
    files: u64,
    seen: HashSet<u64>,
    limits: Limits,
}

impl Count {
    fn folder(&mut self, folder: &Path, depth: usize) -> bool {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => return error.kind() == io::ErrorKind::NotFound,
        };
        depth <= DEEPEST
            && entries.flatten().all(|entry| match entry.metadata() {
                Ok(found) => self.add(&found) && (!found.is_dir() || self.folder(&entry.path(), depth + 1)),
                Err(error) => error.kind() == io::ErrorKind::NotFound,
            })
    }

    fn nameless(&mut self, device: u64) -> bool {
        let mut waiting = children().unwrap_or_default();
        while let Some(pid) = waiting.pop() {
            let lists = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            let children = lists.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
            for listed in children {
                waiting
                    .extend(listed.split_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw));
            }
            for file in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
                let Ok(found) = fs::metadata(file.path()) else { continue };
                if found.nlink() == 0 && found.dev() == device && !self.add(&found) {
                    return false;
                }
            }
        }
        true
    }

    fn add(&mut self, found: &fs::Metadata) -> bool {
        if self.seen.insert(found.ino()) {
            self.files += 1;
            // Folders are counted as files, and not as what they take up themselves.
            self.bytes += if found.is_dir() { 0 } else { found.blocks().saturating_mul(512) };
        }
        self.bytes <= self.limits.disk_bytes && self.files <= self.limits.files()
    }
}

/// Removes a directory in which nobody is any more, also what cannot be entered.
fn remove(directory: &Path) {
    fn open(folder: &Path, depth: usize) {
        let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
        if depth > DEEPEST {
            return;
        }
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open(&entry.path(), depth + 1);
            }
        }
    }
    open(directory, 0);
    let _ = fs::remove_dir_all(directory);
}
