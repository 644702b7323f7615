//! The gateway's side: starts the helper, and sees to it that nothing of it outlives its task. Where there is a watcher, it is
//! told to end everything; else all of the helper's group is killed, and the kernel ends the rest with its namespace.

use std::io;
use std::os::unix::fs::chown;
use std::process::{ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, geteuid};
use tempfile::TempDir;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::cgroup::{self, CgroupLeaf};
use super::namespaces::NOBODY;
use super::plan::{Limits, Namespaces, OUTSIDE, PLAN, Plan};

/// A program that runs. Dropped, it is killed with all that it started.
pub(crate) struct Running {
    child: Child,
    helper: Option<Pid>,
    /// Whether the helper is a watcher.
    watched: bool,
    nonce: String,
    memory_bytes: u64,
    leaf: Option<CgroupLeaf>,
    /// Its own directory, where it has no file system of its own. Goes with it.
    _directory: Option<TempDir>,
}

/// It could not be started as it was to be.
#[derive(Debug, thiserror::Error)]
#[error("the sandbox cannot be made: {0}")]
pub(crate) struct SandboxFailure(pub(crate) String);

/// The allocator of the helper asks for no more than is used: what it has asked for counts against the limit that the
/// helper sets before it starts the program.
const LEAN: [(&str, &str); 1] = [("MIMALLOC_ARENA_RESERVE", "0")];

/// Starts a program as the plan says.
pub(crate) async fn launch(mut plan: Plan) -> io::Result<Running> {
    let watched = plan.way.namespaces == Namespaces::None;
    let directory = if watched { Some(own_directory()?) } else { None };
    plan.directory = directory.as_ref().map(|directory| directory.path().to_owned());
    plan.nonce = nonce()?;
    (plan.parent, plan.gateway) = (std::process::id().cast_signed(), std::process::id().cast_signed());
    let leaf = cgroup::tree().map(|tree| tree.leaf(&plan.nonce, &plan.limits)).transpose()?;
    plan.cgroup = leaf.as_ref().map(|leaf| leaf.path().to_owned());
    // By this name it is the binary that runs, also if another has been put in its place since.
    let mut command = Command::new("/proc/self/exe");
    command.arg(OUTSIDE).env_clear().env(PLAN, serde_json::to_string(&plan)?).envs(LEAN);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A watcher that is killed can end nobody.
    command.process_group(0).kill_on_drop(!watched);
    let child = spawn(command).await?;
    let helper = child.id().map(|id| Pid::from_raw(id.cast_signed()));
    let memory_bytes = plan.limits.memory_bytes;
    Ok(Running { child, helper, watched, nonce: plan.nonce, memory_bytes, leaf, _directory: directory })
}

fn own_directory() -> io::Result<TempDir> {
    let directory = tempfile::Builder::new().prefix("chancery-").tempdir()?;
    if geteuid().is_root() {
        chown(directory.path(), Some(NOBODY), Some(NOBODY))?;
    }
    Ok(directory)
}

fn nonce() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

type Job = (Command, Handle, oneshot::Sender<io::Result<Child>>);

/// Starts it from a thread that lives as long as the gateway: a child that is tied to its parent is tied to the thread
/// that started it.
async fn spawn(command: Command) -> io::Result<Child> {
    static STARTER: OnceLock<mpsc::Sender<Job>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (jobs, queue) = mpsc::channel::<Job>();
        std::thread::spawn(move || {
            for (mut command, runtime, answer) in queue {
                let _entered = runtime.enter();
                // If nobody waits for it any more, it is dropped, and killed.
                let _ = answer.send(command.spawn());
            }
        });
        jobs
    });
    let (answer, started) = oneshot::channel();
    let gone = || io::Error::other("the thread that starts programs is gone");
    starter.send((command, Handle::current(), answer)).map_err(|_| gone())?;
    started.await.map_err(|_| gone())?
}

impl Running {
    /// What it is told, what it says, and what it says about itself. Can be taken once.
    pub(crate) fn pipes(&mut self) -> io::Result<(ChildStdin, ChildStdout, ChildStderr)> {
        let child = &mut self.child;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        match pipes {
            (Some(stdin), Some(stdout), Some(stderr)) => Ok((stdin, stdout, stderr)),
            _ => Err(io::Error::other("the pipes are taken")),
        }
    }

    /// Waits for its end, and ends what it has left behind.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        if self.watched {
            // It has ended everybody, and its number may be somebody else's by now.
            self.helper = None;
        }
        self.kill();
        Ok(status)
    }

    /// What the helper has to say for itself among all that was said about errors.
    pub(crate) fn complaint(&self, stderr: &[u8]) -> Option<SandboxFailure> {
        Some(SandboxFailure(self.said(stderr)?.strip_prefix(' ')?.trim().to_owned()))
    }

    /// Which limit it was ended at.
    pub(crate) fn exceeded(&self, stderr: &[u8]) -> Option<String> {
        if self.leaf.as_ref().is_some_and(CgroupLeaf::ran_out_of_memory) {
            let most = self.memory_bytes;
            return Some(format!("The program used more than the {most} bytes of memory that it may use"));
        }
        Some(self.said(stderr)?.strip_prefix('!')?.trim().to_owned())
    }

    fn said(&self, stderr: &[u8]) -> Option<String> {
        let text = String::from_utf8_lossy(stderr);
        text.lines().find_map(|line| line.strip_prefix(&self.nonce)).map(str::to_owned)
    }

    /// Whether its cgroup limits all of it. None if it has none.
    pub(super) fn is_limited(&self, limits: &Limits) -> Option<bool> {
        Some(self.leaf.as_ref()?.holds(limits))
    }

    fn kill(&mut self) {
        if let Some(helper) = self.helper.take() {
            // There may be nobody left.
            let _ =
                if self.watched { kill(helper, Signal::SIGTERM) } else { killpg(helper, Signal::SIGKILL) };
        }
        if let Some(leaf) = self.leaf.as_ref().filter(|_| !self.watched) {
            leaf.kill();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}
