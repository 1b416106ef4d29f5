//! The fixed certificate of the server.
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

/// The name in the certificate.
pub const NAME: &str = "localhost";

/// The certificate (DER).
pub const CERTIFICATE: &[u8] = include_bytes!("../tls/certificate.der");
/// The key of the certificate (PKCS #8, DER).
pub const KEY: &[u8] = include_bytes!("../tls/key.der");
/// The application's protocol in ALPN (RFC 7301).
pub const PROTOCOL: &[u8] = b"file";
