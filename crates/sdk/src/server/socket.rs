//! What is listened on: an address, or a socket in the file system.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::net::{TcpListener, TcpStream};

/// What is listened on.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(unix::Socket),
}

/// A connection that was taken.
pub(super) enum Accepted {
    /// With the address of the other end.
    Tcp(TcpStream, IpAddr),
    #[cfg(unix)]
    Unix(tokio::net::UnixStream),
}

impl Listener {
    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr(),
            #[cfg(unix)]
            Self::Unix(_) => {
                Err(io::Error::new(io::ErrorKind::Unsupported, "a socket in the file system has no address"))
            }
        }
    }

    pub(super) async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Self::Tcp(listener) => loop {
                let (stream, peer) = listener.accept().await?;
                match stream.set_nodelay(true) {
                    Ok(()) => return Ok(Accepted::Tcp(stream, peer.ip())),
                    Err(error) => tracing::debug!(%error, "connection lost before it was served"),
                }
            },
            #[cfg(unix)]
            Self::Unix(socket) => socket.accept().await.map(Accepted::Unix),
        }
    }
}

#[cfg(unix)]
pub(super) mod unix {
    //! A socket in the file system.

    use std::fs::{self, Permissions};
    use std::io;
    use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
    use std::path::{Path, PathBuf};

    use tokio::net::{UnixListener, UnixStream};

    /// A socket in the file system, which is gone when this is.
    #[derive(Debug)]
    pub(in super::super) struct Socket {
        listener: UnixListener,
        path: PathBuf,
    }

    impl Socket {
        /// Listens at a path, for those whom the mode lets in. One that somebody left there is replaced, one that somebody
        /// listens on is not.
        pub(in super::super) fn bind(path: &Path, mode: u32) -> io::Result<Self> {
            if let Ok(found) = fs::symlink_metadata(path) {
                if !found.file_type().is_socket() {
                    let text = format!("{} is there and is no socket", path.display());
                    return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
                }
                if std::os::unix::net::UnixStream::connect(path).is_ok() {
                    let text = format!("somebody listens on {} already", path.display());
                    return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
                }
            }
            // Under another name until its mode is right. Then it takes the place of what is there, in one step.
            let mut draft = path.as_os_str().to_owned();
            draft.push(format!(".{}", std::process::id()));
            let draft = PathBuf::from(draft);
            let _ = fs::remove_file(&draft);
            let listener = UnixListener::bind(&draft)?;
            let placed = fs::set_permissions(&draft, Permissions::from_mode(mode))
                .and_then(|()| fs::rename(&draft, path));
            if let Err(error) = placed {
                let _ = fs::remove_file(&draft);
                return Err(error);
            }
            Ok(Self { listener, path: path.to_owned() })
        }

        pub(super) async fn accept(&self) -> io::Result<UnixStream> {
            Ok(self.listener.accept().await?.0)
        }
    }

    impl Drop for Socket {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.path);
        }
    }
}
