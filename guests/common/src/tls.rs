//! TLS of rustls with the fixed certificate and the fixed date.

use std::sync::Arc;
use std::time::SystemTime;

use aqm_guest::Problem;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::DATE;
pub use crate::certificate::NAME;
use crate::certificate::{CERTIFICATE, KEY, PROTOCOL};

#[derive(Debug)]
struct FixedDate;

impl TimeProvider for FixedDate {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(DATE))
    }
}

/// Returns the date that TLS reads.
pub fn date() -> SystemTime {
    SystemTime::UNIX_EPOCH + DATE
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn problem(error: rustls::Error) -> Problem {
    error.to_string().into()
}

/// Returns the configuration of the client, which trusts the fixed certificate.
///
/// # Errors
/// Returns an error if rustls rejects the certificate or the cryptography.
pub fn client() -> Result<ClientConfig, Problem> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(CERTIFICATE)).map_err(problem)?;
    let mut tls = ClientConfig::builder_with_details(provider(), Arc::new(FixedDate))
        .with_protocol_versions(&[&TLS13])
        .map_err(problem)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(tls)
}

/// Returns the configuration of the server, which has the fixed certificate.
///
/// # Errors
/// Returns an error if rustls rejects the certificate or the cryptography.
pub fn server() -> Result<ServerConfig, Problem> {
    let mut tls = ServerConfig::builder_with_details(provider(), Arc::new(FixedDate))
        .with_protocol_versions(&[&TLS13])
        .map_err(problem)?
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(CERTIFICATE)], PrivatePkcs8KeyDer::from(KEY).into())
        .map_err(problem)?;
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(tls)
}
