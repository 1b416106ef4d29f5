//! The configuration of the guest, which is a JSON table.

use aqm_guest::Problem;
use boring::pkey::PKey;
use boring::ssl::{SslContextBuilder, SslMethod, SslSignatureAlgorithm};
use boring::x509::X509;
use guest_common::certificate::{CERTIFICATE, KEY, PROTOCOL};
use quiche::CongestionControlAlgorithm;
use serde::Deserialize;

/// Time without a packet after which an end closes the connection, in milliseconds: as quiche's program quiche-client
/// (`apps/src/args.rs`). The library's default is no limit.
const IDLE_TIMEOUT: u64 = 30_000;
/// Initial flow control windows of the connection and of a stream, in bytes: as quiche-client. The library's default is 0.
/// quiche increases the windows up to 24 MiB and 16 MiB.
const CONNECTION_WINDOW: u64 = 10_000_000;
const STREAM_WINDOW: u64 = 1_000_000;
/// Unidirectional streams that the peer may open: the stream of the file.
const STREAMS: u64 = 1;

/// The configuration of one end.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Congestion control.
    pub control: Control,
    /// Bytes of the file that the server sends.
    pub size: u64,
    /// Whether the packets are ECN-capable, which quiche does not implement.
    pub ecn: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { control: Control::Cubic, size: guest_common::SIZE, ecn: false }
    }
}

/// A congestion control of quiche, with quiche's name.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    /// NewReno.
    Reno,
    /// CUBIC.
    Cubic,
    /// BBRv2 of Google's QUIC.
    #[serde(rename = "bbr2_gcongestion")]
    Bbr2,
}

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// Returns a description of the first invalid value.
    pub fn read(text: &str) -> Result<Self, Problem> {
        let config: Self = guest_common::read(text, |config: &Self| config.size, guest_common::MAX_OFFSET)?;
        guest_common::refuse_ecn(config.ecn, "quiche")?;
        Ok(config)
    }

    /// Returns quiche's configuration. Parameters that this function does not set have quiche's defaults.
    ///
    /// # Errors
    /// Returns an error if BoringSSL refuses the certificate.
    pub fn transport(&self) -> Result<quiche::Config, Problem> {
        let context = context().map_err(|error| error.to_string())?;
        self.with_context(context).map_err(|error| error.to_string().into())
    }

    fn with_context(&self, context: SslContextBuilder) -> quiche::Result<quiche::Config> {
        let mut transport = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, context)?;
        transport.set_application_protos(&[PROTOCOL])?;
        transport.set_cc_algorithm(match self.control {
            Control::Reno => CongestionControlAlgorithm::Reno,
            Control::Cubic => CongestionControlAlgorithm::CUBIC,
            Control::Bbr2 => CongestionControlAlgorithm::Bbr2Gcongestion,
        });
        transport.set_max_idle_timeout(IDLE_TIMEOUT);
        transport.set_initial_max_data(CONNECTION_WINDOW);
        transport.set_initial_max_stream_data_uni(STREAM_WINDOW);
        transport.set_initial_max_streams_uni(STREAMS);
        Ok(transport)
    }
}

/// Returns a context of TLS whose client trusts the fixed certificate, and whose server has the fixed certificate. By
/// default, a client of BoringSSL does not offer signatures with Ed25519.
fn context() -> Result<SslContextBuilder, boring::error::ErrorStack> {
    let mut context = SslContextBuilder::new(SslMethod::tls())?;
    let certificate = X509::from_der(CERTIFICATE)?;
    context.set_certificate(&certificate)?;
    let key = PKey::private_key_from_der(KEY)?;
    context.set_private_key(&key)?;
    context.cert_store_mut().add_cert(certificate)?;
    context.set_verify_algorithm_prefs(&[SslSignatureAlgorithm::ED25519])?;
    Ok(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_read() {
        assert_eq!(Config::read("{}").ok(), Some(Config::default()));
        let expected = Config { control: Control::Bbr2, size: 5, ecn: false };
        let text = r#"{"control": "bbr2_gcongestion", "size": 5, "ecn": false}"#;
        assert_eq!(Config::read(text).ok(), Some(expected));
    }

    #[test]
    fn an_invalid_configuration_is_named() {
        for (text, message) in [
            (r#"{"control": "bbr"}"#, "expected one of `reno`, `cubic`, `bbr2_gcongestion`"),
            (r#"{"length": 5}"#, "unknown field `length`"),
            (r#"{"size": 4611686018427387904}"#, "size must be from 1 to 4611686018427387903"),
            (r#"{"ecn": true}"#, "ecn must be false"),
        ] {
            let error = Config::read(text).expect_err(text).to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
