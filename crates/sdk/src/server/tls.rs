//! TLS, with certificates that are read again when their files change.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How often the files are looked at, at most, unless said otherwise.
const RECHECK: Duration = Duration::from_secs(10);

/// How long a client may take for its handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A certificate and its key, from PEM files.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    certificate: Arc<Reloading>,
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or is not PEM.
    #[error("cannot read `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Certificate and key do not work together.
    #[error("the certificate and the key do not fit")]
    Key(#[from] rustls::Error),
}

impl Tls {
    /// Reads a certificate chain and its private key. A changed file is read again; if that fails, the last
    /// good pair stays in use.
    pub fn from_files(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Result<Self, TlsError> {
        let files = Files { certificate: certificate.into(), key: key.into() };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        // First the stamp: a file that changes meanwhile must look changed.
        let stamp = files.stamp();
        let current = Current { key: files.load()?, stamp, checked: Instant::now(), every: RECHECK };
        let certificate = Arc::new(Reloading { files, current: Mutex::new(current) });
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(certificate.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), certificate })
    }

    /// How often the files are looked at for a change, at most; every ten seconds unless said otherwise. They
    /// are looked at when a client connects.
    #[must_use]
    pub fn recheck_every(self, every: Duration) -> Self {
        self.certificate.current.lock().every = every;
        self
    }

    pub(super) fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> impl Future<Output = io::Result<TlsStream<S>>> + use<S> {
        let handshake = self.acceptor.accept(stream);
        async move { tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await? }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

#[derive(Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

#[derive(Debug)]
struct Reloading {
    files: Files,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    key: Arc<CertifiedKey>,
    stamp: [Option<SystemTime>; 2],
    checked: Instant,
    every: Duration,
}

impl Files {
    fn load(&self) -> Result<Arc<CertifiedKey>, TlsError> {
        let failed = |path: &Path, source: rustls::pki_types::pem::Error| TlsError::File {
            path: path.to_owned(),
            source: Box::new(source),
        };
        let chain = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| failed(&self.certificate, error))?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| failed(&self.key, error))?;
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        Ok(Arc::new(CertifiedKey::from_der(chain, key, &provider)?))
    }

    fn stamp(&self) -> [Option<SystemTime>; 2] {
        [&self.certificate, &self.key].map(|path| path.metadata().and_then(|facts| facts.modified()).ok())
    }
}

impl ResolvesServerCert for Reloading {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let mut current = self.current.lock();
        if current.checked.elapsed() < current.every {
            return Some(current.key.clone());
        }
        current.checked = Instant::now();
        let stamp = self.files.stamp();
        if stamp != current.stamp {
            match self.files.load() {
                Ok(key) => {
                    tracing::info!("certificate reloaded");
                    (current.key, current.stamp) = (key, stamp);
                }
                Err(error) => tracing::warn!(%error, "certificate not reloaded; the last one stays in use"),
            }
        }
        Some(current.key.clone())
    }
}
