//! TLS with a fixed certificate and a fixed date.
//!
//! The certificate has an Ed25519 key. Therefore, the lengths of all messages are constant, and the random keys of TLS
//! change only the contents of datagrams. The certificate is valid from 2026 to 2100, and was made with OpenSSL 3.0:
//!
//! ```text
//! printf '[req]\ndistinguished_name = name\n[name]\n' >request.cnf
//! openssl genpkey -algorithm ED25519 -outform DER -out key.der
//! openssl req -x509 -config request.cnf -key key.der -keyform DER -days 27000 -subj /CN=localhost \
//!     -addext subjectAltName=DNS:localhost -outform DER -out certificate.der
//! ```

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aqm_guest::Problem;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// The name in the certificate.
pub const NAME: &str = "localhost";

const CERTIFICATE: &[u8] = include_bytes!("../tls/certificate.der");
const KEY: &[u8] = include_bytes!("../tls/key.der");
/// The application's protocol in ALPN (RFC 7301).
const PROTOCOL: &[u8] = b"file";

/// Time from the year 1970 to the date that TLS reads, 1 January 2030. A guest must not read a clock.
const DATE: Duration = Duration::from_secs(1_893_456_000);

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
