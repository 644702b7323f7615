//! What is laid out on the machine for the probe to find, if it can: files, sockets and addresses that are open to everybody.

use std::fs::{self, Permissions};
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;

use nix::unistd::{User, geteuid};
use tempfile::TempDir;

use super::plan::Plan;
use super::probe::Questions;

/// Gone when it is dropped.
pub(super) struct Canary {
    folder: TempDir,
    name: String,
    stream: TcpListener,
    datagram: UdpSocket,
    _local: [UnixListener; 2],
}

impl Canary {
    pub(super) fn lay() -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("chancery-canary-").tempdir()?;
        let path = |name: &str| folder.path().join(name);
        let open = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
        fs::write(path("file"), "not for programs")?;
        fs::create_dir(path("folder"))?;
        let name = path("name").to_string_lossy().into_owned();
        let local = [
            UnixListener::bind(path("socket"))?,
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?,
        ];
        open(folder.path(), 0o755)?;
        open(&path("file"), 0o644)?;
        open(&path("folder"), 0o777)?;
        open(&path("socket"), 0o777)?;
        let (stream, datagram) = (TcpListener::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
        Ok(Self { folder, name, stream, datagram, _local: local })
    }

    /// What the probe is asked, in the place of a program of this plan.
    pub(super) fn questions(&self, plan: &Plan, whole: bool) -> io::Result<Questions> {
        let path = |name: &str| self.folder.path().join(name);
        let addresses = (self.stream.local_addr()?, self.datagram.local_addr()?);
        let user = User::from_uid(geteuid())?;
        // Who has no home has none to be seen.
        let home = user.map(|user| user.dir).filter(|home| home.components().count() > 1 && home.is_dir());
        Ok(Questions {
            file: path("file"),
            folder: path("folder"),
            home,
            socket: path("socket"),
            socket_name: self.name.clone(),
            addresses: (!plan.network).then_some(addresses),
            gateway: std::process::id().cast_signed(),
            limits: plan.limits,
            whole,
        })
    }
}
