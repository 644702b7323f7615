//! The helper: our own binary, shutting itself in until only the program is left.
//!
//! Outside the namespaces it leaves off being root and makes them; a second process, the first in the new ones, makes the
//! file system, lets Landlock and the limits fall, and waits for the program as its child. When it ends, for whatever
//! reason, the kernel ends everything that the program may have left behind.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus};

use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, geteuid, getppid};

use super::plan::{INSIDE, OUTSIDE, PLAN, Plan, WORK};
use super::root::Binds;
use super::{facts, limits, namespaces, root, rules};

/// The exit status of a helper that could not do what it was told. It says so in words, too.
const CANNOT: u8 = 125;

/// A step that failed.
struct Broken(String);

/// Is the helper, if this process was started as that.
pub(crate) fn help() -> Option<ExitCode> {
    let role = std::env::args_os().nth(1)?;
    let inside = match role.to_str() {
        Some(OUTSIDE) => false,
        Some(INSIDE) => true,
        _ => return None,
    };
    let plan: Plan = serde_json::from_str(&std::env::var(PLAN).ok()?).ok()?;
    let nonce = plan.nonce.clone();
    let ended = if inside { within(&plan) } else { outside(plan) };
    Some(ended.unwrap_or_else(|Broken(what)| {
        let _ = writeln!(io::stderr(), "{nonce} {what}");
        ExitCode::from(CANNOT)
    }))
}

/// The first process: still among the machine's own.
fn outside(mut plan: Plan) -> Result<ExitCode, Broken> {
    namespaces::become_nobody().map_err(|error| broken("leave off being root", error))?;
    plan.user = geteuid().as_raw();
    die_with_parent()?;
    if getppid().as_raw() != plan.parent {
        return Err(Broken("the gateway is gone".to_owned()));
    }
    if !plan.namespaces {
        return without_namespaces(&plan);
    }
    namespaces::enter(plan.network).map_err(|error| broken("enter namespaces", error))?;
    let told = serde_json::to_string(&plan).map_err(|error| broken("write the plan", error))?;
    let mut second = Command::new("/proc/self/exe");
    let ended = second.arg(INSIDE).env(PLAN, told).status();
    Ok(code(ended.map_err(|error| broken("start the second helper", error))?))
}

/// The second process: the first among its own.
fn within(plan: &Plan) -> Result<ExitCode, Broken> {
    die_with_parent()?;
    let here = facts::namespaces();
    let _ = nix::unistd::sethostname("sandbox");
    let binds = root::enter(plan).map_err(|error| broken("make a file system", error))?;
    namespaces::enter_as_nobody().map_err(|error| broken("become nobody", error))?;
    limits::apply(&plan.limits).map_err(|error| broken("set limits", error))?;
    let landlock = shut(plan, &["/".into()], &[WORK.into()])?;
    if plan.program.is_empty() {
        return tell(plan, &here, landlock, binds);
    }
    let mut program = program(plan);
    let child = program.current_dir(WORK).spawn();
    let child = child.map_err(|error| broken(&format!("run {}", plan.program[0]), error))?;
    reap(Pid::from_raw(child.id().cast_signed()))
}

/// Where there are no namespaces, the helper becomes the program.
fn without_namespaces(plan: &Plan) -> Result<ExitCode, Broken> {
    let directory = plan.directory.as_deref().ok_or_else(|| Broken("no directory".to_owned()))?;
    std::env::set_current_dir(directory).map_err(|error| broken("enter its directory", error))?;
    let here = facts::namespaces();
    limits::apply(&plan.limits).map_err(|error| broken("set limits", error))?;
    let landlock = shut(plan, &root::readable(plan), &[directory.to_owned()])?;
    if plan.program.is_empty() {
        return tell(plan, &here, landlock, Binds::default());
    }
    let error = program(plan).exec();
    Err(broken(&format!("run {}", plan.program[0]), error))
}

/// Lets Landlock fall, if it is asked for, and forbids to gain rights in any case.
fn shut(plan: &Plan, read: &[PathBuf], write: &[PathBuf]) -> Result<bool, Broken> {
    prctl::set_no_new_privs().map_err(|error| broken("give up gaining rights", error))?;
    if !plan.landlock {
        return Ok(false);
    }
    let write = [write, &plan.write].concat();
    match rules::apply(read, &write, plan.network) {
        Ok(true) => Ok(true),
        Ok(false) => Err(Broken("this kernel has no Landlock".to_owned())),
        Err(error) => Err(broken("set Landlock rules", error)),
    }
}

fn tell(
    plan: &Plan,
    here: &BTreeMap<String, String>,
    landlock: bool,
    binds: Binds,
) -> Result<ExitCode, Broken> {
    let found = facts::look(plan, facts::own(plan, here), landlock, binds);
    let mut out = io::stdout();
    serde_json::to_writer(&mut out, &found).map_err(|error| broken("say what it found", error))?;
    out.flush().map_err(|error| broken("say what it found", error))?;
    Ok(ExitCode::SUCCESS)
}

fn program(plan: &Plan) -> Command {
    let mut command = Command::new(&plan.program[0]);
    command.args(&plan.program[1..]).env_clear().envs(&plan.environment);
    command
}

/// Waits for the program, and takes leave of every process that it abandons meanwhile.
fn reap(program: Pid) -> Result<ExitCode, Broken> {
    loop {
        match waitpid(None, None) {
            Ok(WaitStatus::Exited(pid, code)) if pid == program => {
                return Ok(ExitCode::from(u8::try_from(code).unwrap_or(CANNOT)));
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == program => {
                return Ok(by_signal(signal as i32));
            }
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(broken("wait for the program", error)),
        }
    }
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

fn by_signal(signal: i32) -> ExitCode {
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(CANNOT))
}

fn broken(step: &str, error: impl Display) -> Broken {
    Broken(format!("cannot {step}: {error}"))
}
