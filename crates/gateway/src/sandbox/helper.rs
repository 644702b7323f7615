//! The helper: our own binary, shutting itself in until only the program is left.
//!
//! Outside the namespaces it leaves off being root and makes them; a second process, the first in the new ones, makes the
//! file system, lets limits, Landlock and the filter of system calls fall, and waits for the program as its child. When it
//! ends, for whatever reason, the kernel ends everything that the program may have left behind. Where there are no namespaces
//! the first process is the watcher, and the second becomes the program.

use std::convert::Infallible;
use std::ffi::CString;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus};

use keyutils::Keyring;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, close, fexecve, geteuid, getppid, setsid};

use super::calls::{self, CallRules};
use super::plan::{INSIDE, Namespaces, OUTSIDE, PLAN, PROBE, Plan, SURVIVOR, WORK};
use super::probe::{self, Seen};
use super::root::Binds;
use super::{cgroup, limits, namespaces, root, rules, watch};

/// The exit status of a helper that could not do what it was told. It says so in words, too.
const CANNOT: u8 = 125;
/// How much sooner than others the kernel ends a program when the machine runs out of memory.
const SOONER: &str = "800";

/// A step that failed.
pub(super) struct Broken(pub(super) String);

/// Is the helper, if this process was started as that.
pub(crate) fn help() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let role = arguments.next()?;
    let inside = match role.to_str() {
        Some(OUTSIDE) => false,
        Some(INSIDE) => true,
        Some(PROBE) => return Some(probed(probe::run(arguments.next()?.to_str()?))),
        Some(SURVIVOR) => return Some(probed(probe::survive())),
        _ => return None,
    };
    let plan: Plan = serde_json::from_str(&std::env::var(PLAN).ok()?).ok()?;
    let nonce = plan.nonce.clone();
    let ended = if inside { within(plan) } else { outside(plan) };
    Some(ended.unwrap_or_else(|Broken(what)| {
        let _ = writeln!(io::stderr(), "{nonce} {what}");
        ExitCode::from(CANNOT)
    }))
}

fn probed(ended: io::Result<ExitCode>) -> ExitCode {
    ended.unwrap_or_else(|error| {
        let _ = writeln!(io::stderr(), "the probe cannot go on: {error}");
        ExitCode::from(CANNOT)
    })
}

/// The first process: still among the machine's own.
fn outside(mut plan: Plan) -> Result<ExitCode, Broken> {
    close_inherited();
    if let Some(leaf) = &plan.cgroup {
        cgroup::enter(leaf).map_err(|error| broken("enter its cgroup", error))?;
    }
    let by_root = plan.way.namespaces == Namespaces::OwnByRoot;
    if !by_root {
        become_nobody()?;
    }
    plan.user = geteuid().as_raw();
    if plan.way.namespaces == Namespaces::None {
        return watch::run(plan);
    }
    die_with_parent()?;
    if getppid().as_raw() != plan.parent {
        return Err(Broken("the gateway is gone".to_owned()));
    }
    namespaces::enter(plan.network, by_root).map_err(|error| broken("enter namespaces", error))?;
    let told = serde_json::to_string(&plan).map_err(|error| broken("write the plan", error))?;
    let mut second = Command::new("/proc/self/exe");
    let ended = second.arg(INSIDE).env(PLAN, told).status();
    Ok(code(ended.map_err(|error| broken("start the second helper", error))?))
}

/// Closes files that whoever started the gateway left open for it, and so for everything that it starts.
fn close_inherited() {
    let listed = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let open: Vec<i32> = listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for file in open.into_iter().filter(|file| *file > 2) {
        // The list itself is closed already.
        let _ = close(file);
    }
}

/// The second process: the first among its own, or the one that becomes the program.
fn within(mut plan: Plan) -> Result<ExitCode, Broken> {
    die_with_parent()?;
    // What the probe is run from, while it has a path.
    let binary = if plan.program.is_empty() { Some(File::open("/proc/self/exe")) } else { None };
    let binary = binary.transpose().map_err(|error| broken("open the probe", error))?;
    let mut seen = Seen { own: namespaces::own(&plan.outer), ..Seen::default() };
    // It has no right to lower it again.
    fs::write("/proc/self/oom_score_adj", SOONER).map_err(|error| broken("let others live longer", error))?;
    if plan.way.namespaces != Namespaces::Own {
        let user = if geteuid().is_root() { namespaces::NOBODY } else { plan.user };
        plan.limits.processes += limits::threads_of(user);
    }
    let binds = enter(&plan)?;
    (seen.binds, seen.writable_binds) = (binds.all, binds.writable);
    if plan.way.namespaces == Namespaces::OwnByRoot {
        plan.user = geteuid().as_raw();
    }
    seen.user = plan.user;
    // What is the gateway's in its environment is not the program's to read.
    let _ = prctl::set_dumpable(false);
    // The probe has more to load than the program, and limits its memory itself.
    let whole = plan.cgroup.is_some() || binary.is_some();
    limits::apply(&plan.limits, whole).map_err(|error| broken("set limits", error))?;
    seen.landlock = shut(&plan, binary.as_ref())?;
    if let Some(binary) = binary {
        let Err(error) = become_probe(&plan, &seen, &binary);
        return Err(error);
    }
    run(&plan)
}

/// Moves to where the program is to be, as whom it is to be.
fn enter(plan: &Plan) -> Result<Binds, Broken> {
    if plan.way.namespaces == Namespaces::None {
        if getppid().as_raw() != plan.parent {
            return Err(Broken("the watcher is gone".to_owned()));
        }
        let directory = plan.directory.as_deref().ok_or_else(|| Broken("no directory".to_owned()))?;
        std::env::set_current_dir(directory).map_err(|error| broken("enter its directory", error))?;
        // A signal to its own group is not to reach the watcher.
        setsid().map_err(|error| broken("begin a session", error))?;
        return Ok(if plan.way.landlock { root::shown(plan) } else { Binds::default() });
    }
    let _ = nix::unistd::sethostname("sandbox");
    let binds = root::enter(plan).map_err(|error| broken("make a file system", error))?;
    if plan.way.namespaces == Namespaces::OwnByRoot {
        become_nobody()?;
        // To be somebody else is to be tied to nobody.
        die_with_parent()?;
    } else {
        namespaces::enter_as_nobody().map_err(|error| broken("become nobody", error))?;
    }
    Ok(binds)
}

/// Forbids to gain rights and lets Landlock and the filter fall, as far as they are asked for. Whether Landlock is in force.
fn shut(plan: &Plan, binary: Option<&File>) -> Result<bool, Broken> {
    prctl::set_no_new_privs().map_err(|error| broken("give up gaining rights", error))?;
    let keyring = Keyring::join_anonymous_session();
    if let (Err(error), false) = (keyring, plan.way.filter) {
        // Where calls are filtered, no keyring can be asked for anything.
        return Err(broken("begin a keyring of its own", error));
    }
    let landlock = plan.way.landlock && landlock(plan, binary)?;
    if plan.way.filter {
        let alone = plan.way.namespaces == Namespaces::None;
        let rules = CallRules {
            network: plan.network,
            // Without a file system of its own it sees all of the machine's sockets; with the machine's network, all names.
            local_sockets: !alone && (landlock || !plan.network),
            only_own_memory: plan.cgroup.is_none(),
            untouchable: if alone { vec![plan.parent, plan.gateway] } else { Vec::new() },
        };
        calls::apply(&rules).map_err(|error| broken("filter system calls", error))?;
    }
    Ok(landlock)
}

fn landlock(plan: &Plan, binary: Option<&File>) -> Result<bool, Broken> {
    let (read, own) = match &plan.directory {
        Some(directory) => (root::readable(plan), directory.clone()),
        None => (vec!["/".into()], PathBuf::from(WORK)),
    };
    let write = [&[own], &plan.write[..]].concat();
    match rules::apply(&read, &write, binary, plan.network) {
        Ok(true) => Ok(true),
        Ok(false) => Err(Broken("this kernel has no Landlock".to_owned())),
        Err(error) => Err(broken("set Landlock rules", error)),
    }
}

/// Runs the program, as a child where this is the first process of a namespace.
fn run(plan: &Plan) -> Result<ExitCode, Broken> {
    let mut command = Command::new(&plan.program[0]);
    command.args(&plan.program[1..]).env_clear().envs(&plan.environment);
    let cannot = |error| broken(&format!("run {}", plan.program[0]), error);
    if plan.way.namespaces == Namespaces::None {
        return Err(cannot(command.exec()));
    }
    let child = command.current_dir(WORK).spawn().map_err(cannot)?;
    reap(Pid::from_raw(child.id().cast_signed()))
}

fn become_probe(plan: &Plan, seen: &Seen, binary: &File) -> Result<Infallible, Broken> {
    let seen = serde_json::to_string(seen).map_err(|error| broken("say what it saw", error))?;
    let text = |text: String| CString::new(text).map_err(|error| broken("start the probe", error));
    let arguments = ["chancery".to_owned(), PROBE.to_owned(), seen].map(text);
    let arguments = arguments.into_iter().collect::<Result<Vec<_>, _>>()?;
    let pairs = plan.environment.iter().map(|(name, value)| text(format!("{name}={value}")));
    let environment = pairs.collect::<Result<Vec<_>, _>>()?;
    fexecve(binary, &arguments, &environment).map_err(|error| broken("start the probe", error))
}

/// Waits for the program, and takes leave of every process that it abandons meanwhile.
fn reap(program: Pid) -> Result<ExitCode, Broken> {
    loop {
        match waitpid(None, None) {
            Ok(status) if status.pid() == Some(program) => {
                if let Some(code) = exit_code(status) {
                    return Ok(code);
                }
            }
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(broken("wait for the program", error)),
        }
    }
}

/// How a process ended, if it has ended.
pub(super) fn exit_code(status: WaitStatus) -> Option<ExitCode> {
    match status {
        WaitStatus::Exited(_, code) => Some(ExitCode::from(u8::try_from(code).unwrap_or(CANNOT))),
        WaitStatus::Signaled(_, signal, _) => Some(by_signal(signal as i32)),
        _ => None,
    }
}

fn become_nobody() -> Result<(), Broken> {
    namespaces::become_nobody().map_err(|error| broken("leave off being root", error))
}

fn die_with_parent() -> Result<(), Broken> {
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(|error| broken("be tied to its parent", error))
}

/// How a process ended, as a shell would say it.
fn code(status: ExitStatus) -> ExitCode {
    match (status.code(), status.signal()) {
        (Some(code), _) => ExitCode::from(u8::try_from(code).unwrap_or(CANNOT)),
        (None, signal) => by_signal(signal.unwrap_or_default()),
    }
}

pub(super) fn by_signal(signal: i32) -> ExitCode {
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(CANNOT))
}

pub(super) fn broken(step: &str, error: impl Display) -> Broken {
    Broken(format!("cannot {step}: {error}"))
}
