//! The probe: our own binary in the place of the program, behind everything that shuts the program in. It tries what a program
//! must not be able to do, and says what came of it. Nothing is believed because it was asked for.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as LocalAddress, UnixStream};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use keyutils::{Keyring, SpecialKeyring};
use nix::errno::Errno;
use nix::sys::personality::{self, Persona};
use nix::sys::signal::kill;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use nix::unistd::{Pid, geteuid, getpid, getppid, setsid};
use serde::{Deserialize, Serialize};

use super::limits;
use super::plan::{Limits, SURVIVOR};

/// How long what the probe leaves behind lives if nobody ends it.
const LIFE: Duration = Duration::from_secs(60);
/// How much of questions is read.
const MOST: u64 = 64 * 1024;

/// What is laid out for it, which it must not reach.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Questions {
    /// A file that everybody may read.
    pub(super) file: PathBuf,
    /// A folder that everybody may write to.
    pub(super) folder: PathBuf,
    /// Where the gateway's user is at home.
    pub(super) home: Option<PathBuf>,
    /// A socket in the file system, and one with a name of its own.
    pub(super) socket: PathBuf,
    pub(super) socket_name: String,
    /// Addresses of the machine where somebody listens. None if it may reach them.
    pub(super) addresses: Option<(SocketAddr, SocketAddr)>,
    /// The gateway.
    pub(super) gateway: i32,
    pub(super) limits: Limits,
    /// Whether memory is limited by the cgroup.
    pub(super) whole: bool,
}

/// What the helper saw of itself while it could.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Seen {
    /// As whom the program runs, as the machine sees it.
    pub(super) user: u32,
    /// The kinds of namespace that are its own.
    pub(super) own: Vec<String>,
    /// Whether Landlock is in force.
    pub(super) landlock: bool,
    /// What of the machine's files was bound into its file system, and how much of that it may write.
    pub(super) binds: usize,
    pub(super) writable_binds: usize,
}

/// What the probe found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Facts {
    pub(super) seen: Seen,
    /// Whether each check passed, by its name.
    pub(super) checks: BTreeMap<String, bool>,
    /// The names in its environment.
    pub(super) environment: Vec<String>,
    /// Whether its directory is in memory, has a limit, and goes with it.
    pub(super) tmpfs: bool,
    /// Whether the limits of its process are in force.
    pub(super) limits: bool,
}

/// Reads what it is to try, tries it, and leaves somebody behind.
pub(super) fn run(seen: &str) -> io::Result<ExitCode> {
    let mut asked = Vec::new();
    io::stdin().take(MOST).read_to_end(&mut asked)?;
    let questions: Questions = serde_json::from_slice(&asked)?;
    let seen: Seen = serde_json::from_str(seen)?;
    let left = leave_somebody();
    if !questions.whole {
        // Not before: it counts what this binary takes up, which is not the program's.
        limits::apply(&questions.limits, false)?;
    }
    let checks = [
        ("uid-nonzero", seen.user != 0 && !geteuid().is_root()),
        ("no-host-files", fs::File::open(&questions.file).is_err()),
        ("no-host-writes", fs::write(questions.folder.join("found"), "").is_err()),
        ("no-host-sockets", !reaches_local(&questions)),
        ("no-host-processes", !reaches_processes(&questions, &seen)),
        ("no-keyring", Keyring::attach(SpecialKeyring::Session).is_err()),
        ("filtered-calls", is_filtered()),
        // The first process of a namespace takes all others with it.
        ("processes-end", left || getpid().as_raw() == 1),
    ];
    let mut checks: BTreeMap<_, _> =
        checks.into_iter().map(|(name, passed)| (name.to_owned(), passed)).collect();
    if let Some(home) = &questions.home {
        checks.insert("no-host-home".to_owned(), fs::read_dir(home).is_err());
    }
    if let Some((stream, datagram)) = questions.addresses {
        checks.insert("no-network".to_owned(), !reaches_network(stream, datagram));
    }
    let facts = Facts {
        seen,
        checks,
        environment: std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect(),
        tmpfs: statfs(".").is_ok_and(|found| found.filesystem_type() == TMPFS_MAGIC),
        limits: limits::hold(&questions.limits, questions.whole),
    };
    let mut out = io::stdout();
    serde_json::to_writer(&mut out, &facts)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Starts a process that leaves its session and holds on to what the gateway listens to, so that the gateway hears of its end.
fn leave_somebody() -> bool {
    let started =
        Command::new("/proc/self/exe").arg(SURVIVOR).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let Ok(mut somebody) = started else { return false };
    let mut byte = [0];
    somebody.stdout.take().is_some_and(|mut said| said.read_exact(&mut byte).is_ok())
}

/// Is what the probe leaves behind.
pub(super) fn survive() -> io::Result<ExitCode> {
    setsid()?;
    let mut out = io::stdout();
    out.write_all(b"!")?;
    out.flush()?;
    std::thread::sleep(LIFE);
    Ok(ExitCode::SUCCESS)
}

fn reaches_local(questions: &Questions) -> bool {
    let named = LocalAddress::from_abstract_name(&questions.socket_name);
    UnixStream::connect(&questions.socket).is_ok()
        || named.is_ok_and(|address| UnixStream::connect_addr(&address).is_ok())
}

fn reaches_network(stream: SocketAddr, datagram: SocketAddr) -> bool {
    let sent = UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.send_to(b"!", datagram));
    sent.is_ok() || TcpStream::connect_timeout(&stream, Duration::from_secs(2)).is_ok()
}

/// Processes outside, where their numbers mean anything.
fn reaches_processes(questions: &Questions, seen: &Seen) -> bool {
    let others = [Pid::from_raw(questions.gateway), getppid()];
    !seen.own.iter().any(|kind| kind == "pid") && others.into_iter().any(|pid| kill(pid, None).is_ok())
}

/// Whether calls are refused that anybody may make whom no filter holds.
fn is_filtered() -> bool {
    let usual = personality::get().unwrap_or(Persona::empty());
    let sockets = [AddressFamily::Vsock, AddressFamily::Packet, AddressFamily::Alg];
    let refused =
        |family| socket(family, SockType::Stream, SockFlag::empty(), None).err() == Some(Errno::EPERM);
    personality::set(usual | Persona::ADDR_NO_RANDOMIZE).err() == Some(Errno::EPERM)
        && sockets.into_iter().all(refused)
}
