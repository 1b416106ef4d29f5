//! The configuration of the guest, which is a JSON table.

use std::io::{self, PipeReader, Write};
use std::os::fd::AsRawFd;

use aqm_guest::{End, Problem};
use guest_common::certificate::PROTOCOL;
use serde::Deserialize;
use tquic::{CongestionControlAlgorithm, TlsConfig};

/// Time without a packet after which an end closes the connection, in milliseconds: as tquic's programs
/// (`tools/src/bin/tquic_server.rs`). The library's default is no limit.
const IDLE_TIMEOUT: u64 = 30_000;

/// The certificate of the server, which has an ECDSA key: a client of tquic does not offer signatures with Ed25519. The
/// lengths of the signatures are from 70 to 72 bytes, and depend only on the seed. The certificate is valid from 2026 to
/// 2100, and was made with OpenSSL 3.0:
///
/// ```text
/// printf '[req]\ndistinguished_name = name\n[name]\n' >request.cnf
/// openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem
/// openssl req -x509 -config request.cnf -key key.pem -days 27000 -subj /CN=localhost \
///     -addext subjectAltName=DNS:localhost -out certificate.pem
/// ```
const CERTIFICATE: &str = include_str!("../tls/certificate.pem");
const KEY: &str = include_str!("../tls/key.pem");

/// The configuration of one end.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Congestion control.
    pub control: Control,
    /// Bytes of the file that the server sends.
    pub size: u64,
    /// Whether the packets are ECN-capable, which tquic does not implement.
    pub ecn: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { control: Control::Bbr, size: guest_common::SIZE, ecn: false }
    }
}

/// A congestion control of tquic, with tquic's name.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Control {
    Cubic,
    /// BBR version 1.
    Bbr,
    Bbr3,
    Copa,
}

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// Returns a description of the first invalid value.
    pub fn read(text: &str) -> Result<Self, Problem> {
        let config: Self = guest_common::read(text, |config: &Self| config.size, guest_common::MAX_OFFSET)?;
        guest_common::refuse_ecn(config.ecn, "tquic")?;
        Ok(config)
    }

    /// Returns tquic's configuration. Parameters that this function does not set have tquic's defaults.
    ///
    /// # Errors
    /// Returns an error if BoringSSL refuses the certificate.
    pub fn transport(&self, end: End) -> Result<tquic::Config, Problem> {
        let mut transport = tquic::Config::new().map_err(|error| error.to_string())?;
        transport.set_congestion_control_algorithm(match self.control {
            Control::Cubic => CongestionControlAlgorithm::Cubic,
            Control::Bbr => CongestionControlAlgorithm::Bbr,
            Control::Bbr3 => CongestionControlAlgorithm::Bbr3,
            Control::Copa => CongestionControlAlgorithm::Copa,
        });
        transport.set_max_idle_timeout(IDLE_TIMEOUT);
        transport.set_tls_config(tls(end)?);
        Ok(transport)
    }
}

/// Returns the configuration of TLS. As tquic's programs, the client does not check the name in the certificate.
fn tls(end: End) -> Result<TlsConfig, Problem> {
    let protocols = vec![PROTOCOL.to_vec()];
    let tls = match end {
        End::Client => TlsConfig::new_client_config(protocols, false),
        End::Server => {
            let (certificate, key) = (Readable::new(CERTIFICATE)?, Readable::new(KEY)?);
            TlsConfig::new_server_config(&certificate.path(), &key.path(), protocols, false)
        }
    };
    tls.map_err(|error| error.to_string().into())
}

/// A text that can be read once at a path. tquic reads the certificate and the key from files, which a guest cannot create.
struct Readable(PipeReader);

impl Readable {
    fn new(text: &str) -> Result<Self, Problem> {
        let filled = || {
            let (reader, mut writer) = io::pipe()?;
            // A pipe has space for 64 kB (pipe(7)), so that the call returns before the text is read.
            writer.write_all(text.as_bytes())?;
            Ok(Self(reader))
        };
        filled().map_err(|error: io::Error| format!("a pipe: {error}").into())
    }

    fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.0.as_raw_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_read() {
        assert_eq!(Config::read("{}").ok(), Some(Config::default()));
        let expected = Config { control: Control::Copa, size: 5, ecn: false };
        assert_eq!(Config::read(r#"{"control": "copa", "size": 5, "ecn": false}"#).ok(), Some(expected));
    }

    #[test]
    fn an_invalid_configuration_is_named() {
        for (text, message) in [
            (r#"{"control": "dummy"}"#, "expected one of `cubic`, `bbr`, `bbr3`, `copa`"),
            (r#"{"length": 5}"#, "unknown field `length`"),
            (r#"{"size": 4611686018427387904}"#, "size must be from 1 to 4611686018427387903"),
            (r#"{"ecn": true}"#, "ecn must be false"),
        ] {
            let error = Config::read(text).expect_err(text).to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
