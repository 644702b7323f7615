//! The gateway's side: starts the helper, and sees to it that nothing of it outlives its task.

use std::io;
use std::os::unix::fs::chown;
use std::process::{ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, geteuid};
use tempfile::TempDir;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::plan::{OUTSIDE, PLAN, Plan};

/// A program that runs. Dropped, it is killed with all that it started.
pub(crate) struct Running {
    child: Child,
    group: Option<Pid>,
    nonce: String,
    /// Its own directory, where it has no file system of its own. Goes with it.
    _directory: Option<TempDir>,
}

/// It could not be started as it was to be.
#[derive(Debug, thiserror::Error)]
#[error("the sandbox cannot be made: {0}")]
pub(crate) struct SandboxFailure(pub(crate) String);

/// The user to whom a directory is given that root makes for a program.
const NOBODY: u32 = 65_534;

/// The allocator of the helper asks for no more than is used: what it has asked for counts against the limit that the
/// helper sets before it starts the program.
const LEAN: [(&str, &str); 1] = [("MIMALLOC_ARENA_RESERVE", "0")];

/// Starts a program as the plan says.
pub(crate) async fn launch(mut plan: Plan) -> io::Result<Running> {
    let directory = if plan.namespaces { None } else { Some(own_directory()?) };
    plan.directory = directory.as_ref().map(|directory| directory.path().to_owned());
    plan.nonce = nonce()?;
    plan.parent = std::process::id().cast_signed();
    // By this name it is the binary that runs, also if another has been put in its place since.
    let mut command = Command::new("/proc/self/exe");
    command.arg(OUTSIDE).env_clear().env(PLAN, serde_json::to_string(&plan)?).envs(LEAN);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    let child = spawn(command).await?;
    let group = child.id().map(|id| Pid::from_raw(id.cast_signed()));
    Ok(Running { child, group, nonce: plan.nonce, _directory: directory })
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
        self.kill();
        Ok(status)
    }

    /// What the helper has to say for itself among all that was said about errors.
    pub(crate) fn complaint(&self, stderr: &[u8]) -> Option<SandboxFailure> {
        let text = String::from_utf8_lossy(stderr);
        let said = text.lines().find_map(|line| line.strip_prefix(&self.nonce))?;
        Some(SandboxFailure(said.trim().to_owned()))
    }

    fn kill(&mut self) {
        if let Some(group) = self.group.take() {
            // There may be nobody left.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}
