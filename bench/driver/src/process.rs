//! A server as a child process: started on a free port, watched from outside, ended by its id.

use std::ffi::OsString;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::contender::Contender;
use crate::family;
use crate::folder::Folder;

pub(crate) struct Server {
    child: Child,
    /// Outlives the process, which is ended first.
    _folder: Option<Folder>,
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
}

/// How long one may take to start.
const MOST_TO_START: Duration = Duration::from_secs(60);
/// Who needs hardly any CPU for so long has nothing left to do.
const IDLE: Duration = Duration::from_millis(200);
/// In the flags of a contender.
const FOLDER: &str = "{folder}";

// === impl Server ===

impl Server {
    pub(crate) fn start(contender: &Contender, flags: &[&str]) -> anyhow::Result<Self> {
        Self::start_under(&[], contender, flags)
    }

    /// Starts the server as the last arguments of another program, say a profiler.
    pub(crate) fn start_under(
        wrapper: &[OsString],
        contender: &Contender,
        flags: &[&str],
    ) -> anyhow::Result<Self> {
        let needs_folder = contender.flags.iter().any(|flag| flag.contains(FOLDER));
        let folder = needs_folder.then(Folder::new).transpose()?;
        let path = folder.as_ref().map(|folder| folder.path().to_owned()).unwrap_or_default();
        let mut server = Self::spawn(wrapper, contender, flags, &path)?;
        server._folder = folder;
        server.wait_until_up()?;
        Ok(server)
    }

    /// Starts the server on a folder that is there already.
    pub(crate) fn start_in(folder: &Path, contender: &Contender, flags: &[&str]) -> anyhow::Result<Self> {
        let mut server = Self::spawn(&[], contender, flags, folder)?;
        server.wait_until_up()?;
        Ok(server)
    }

    /// Starts a program that is no package of ours, on a folder that goes with it.
    pub(crate) fn start_program(
        mut command: Command,
        name: &'static str,
        address: SocketAddr,
        folder: Folder,
    ) -> anyhow::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(folder.path().join("log"))?);
        let child = command.spawn().with_context(|| format!("could not start {name}"))?;
        let mut server = Self { child, _folder: Some(folder), name, address };
        server.wait_until_up()?;
        Ok(server)
    }

    fn spawn(
        wrapper: &[OsString],
        contender: &Contender,
        flags: &[&str],
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let address = free_address()?;
        let binary = binary(contender)?;
        let mut words = wrapper.iter().cloned().chain([binary.into_os_string()]);
        let program = words.next().context("a program to start")?;
        let child = Command::new(program)
            .args(words)
            .args(["--listen", &address.to_string()])
            .args(flags_in(folder, contender))
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("could not start {}", contender.name))?;
        Ok(Self { child, _folder: None, name: contender.name, address })
    }

    fn wait_until_up(&mut self) -> anyhow::Result<()> {
        let give_up = Instant::now() + MOST_TO_START;
        while TcpStream::connect(self.address).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended before it listened: {status}", self.name);
            }
            if Instant::now() > give_up {
                bail!("{} does not listen on {}", self.name, self.address);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// CPU time of all threads so far, ended ones included, user and system, of its workers too.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        let cpu = family::cpu(self.id());
        ensure!(cpu > Duration::ZERO, "{} has ended", self.name);
        Ok(cpu)
    }

    /// Waits until all its workers are up: until then they are busy starting.
    pub(crate) fn wait_until_idle(&self) -> anyhow::Result<()> {
        let give_up = Instant::now() + MOST_TO_START;
        let mut before = self.cpu()?;
        loop {
            std::thread::sleep(IDLE);
            let cpu = self.cpu()?;
            if cpu - before < IDLE / 20 {
                return Ok(());
            }
            ensure!(Instant::now() < give_up, "{} does not come to rest", self.name);
            before = cpu;
        }
    }

    /// Resident memory in bytes.
    pub(crate) fn resident(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().context("VmRSS is no number")?;
        Ok(kilobytes * 1024)
    }

    /// Asks it to end and waits until it has, so that a profiler around it can write its file.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        kill(pid(&self.child)?, Signal::SIGTERM)?;
        let give_up = Instant::now() + Duration::from_secs(60);
        while self.child.try_wait()?.is_none() {
            if Instant::now() > give_up {
                bail!("{} does not end", self.name);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing in it is worth saving, and it may have ended already.
        for process in family::of(self.id()).unwrap_or_default() {
            let _ = kill(Pid::from_raw(process), Signal::SIGKILL);
        }
        let _ = self.child.wait();
    }
}

pub(crate) fn pid(child: &Child) -> anyhow::Result<Pid> {
    Ok(Pid::from_raw(i32::try_from(child.id())?))
}

/// The flags of a contender, with the folder that they are about.
pub(crate) fn flags_in(folder: &Path, contender: &Contender) -> Vec<String> {
    let folder = folder.to_string_lossy();
    contender.flags.iter().map(|flag| flag.replace(FOLDER, &folder)).collect()
}

pub(crate) fn binary(contender: &Contender) -> anyhow::Result<PathBuf> {
    beside(contender.package)
}

/// Programs lie beside this one: cargo puts all into the same folder.
pub(crate) fn beside(package: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(package);
    if !path.exists() {
        bail!("{package} is not built: run without --no-build");
    }
    Ok(path)
}

pub(crate) fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
