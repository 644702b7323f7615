//! Whom to trust with https: the authorities of the system, and those that were added.

use std::io;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::OnceCell;

use super::refused::ConnectError;

/// Made into a configuration when it is first needed, since reading the system's store takes time.
#[derive(Clone, Debug, Default)]
pub(super) struct Trust {
    added: Vec<CertificateDer<'static>>,
    config: Arc<OnceCell<Arc<ClientConfig>>>,
}

/// Why a text is not a list of certificate authorities.
#[derive(Debug, thiserror::Error)]
#[error("these are not certificates of authorities in PEM")]
pub struct InvalidRoots(#[source] Option<Box<dyn std::error::Error + Send + Sync>>);

impl Trust {
    pub(super) fn with_pem(&self, pem: &[u8]) -> Result<Self, InvalidRoots> {
        let mut added = self.added.clone();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| InvalidRoots(Some(Box::new(error))))?;
            let checked = RootCertStore::empty().add(certificate.clone());
            checked.map_err(|error| InvalidRoots(Some(Box::new(error))))?;
            added.push(certificate);
        }
        if added.len() == self.added.len() {
            return Err(InvalidRoots(None));
        }
        Ok(Self { added, config: Arc::default() })
    }

    pub(super) async fn config(&self) -> Result<Arc<ClientConfig>, ConnectError> {
        let added = self.added.clone();
        let load = || async {
            let loaded = tokio::task::spawn_blocking(|| load(added)).await;
            loaded.map_err(io::Error::other)?.map_err(io::Error::other)
        };
        Ok(self.config.get_or_try_init(load).await.map_err(ConnectError::Tls)?.clone())
    }
}

fn load(added: Vec<CertificateDer<'static>>) -> Result<Arc<ClientConfig>, rustls::Error> {
    let system = rustls_native_certs::load_native_certs();
    for error in &system.errors {
        tracing::warn!(%error, "part of the system's certificate authorities cannot be read");
    }
    let mut roots = RootCertStore::empty();
    let (_, ignored) = roots.add_parsable_certificates(system.certs.into_iter().chain(added));
    if roots.is_empty() {
        tracing::warn!(ignored, "no certificate authority is known, so no https can be dialled");
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
