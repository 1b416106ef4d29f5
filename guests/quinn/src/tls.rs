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

use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{ClientConfig, ServerConfig, TimeSource, TransportConfig};
use rustls::RootCertStore;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::time_provider::TimeProvider;

/// The name in the certificate.
pub const NAME: &str = "localhost";

const CERTIFICATE: &[u8] = include_bytes!("../tls/certificate.der");
const KEY: &[u8] = include_bytes!("../tls/key.der");
const PROTOCOL: &[u8] = b"file";

/// The date that TLS reads: 1 January 2030, in seconds since 1970. A guest must not read a clock.
const DATE: Duration = Duration::from_secs(1_893_456_000);

#[derive(Debug)]
struct FixedDate;

impl TimeProvider for FixedDate {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(DATE))
    }
}

impl TimeSource for FixedDate {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + DATE
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Returns the configuration of the client, which trusts the fixed certificate.
pub fn client(transport: Arc<TransportConfig>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(CERTIFICATE)).map_err(|error| error.to_string())?;
    let mut tls = rustls::ClientConfig::builder_with_details(provider(), Arc::new(FixedDate))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    let mut config =
        ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).map_err(|error| error.to_string())?));
    config.transport_config(transport);
    Ok(config)
}

/// Returns the configuration of the server.
pub fn server(transport: Arc<TransportConfig>) -> Result<ServerConfig, String> {
    let mut tls = rustls::ServerConfig::builder_with_details(provider(), Arc::new(FixedDate))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(CERTIFICATE)], PrivatePkcs8KeyDer::from(KEY).into())
        .map_err(|error| error.to_string())?;
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    let crypto = QuicServerConfig::try_from(tls).map_err(|error| error.to_string())?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(transport).time_source(Arc::new(FixedDate));
    Ok(config)
}
