//! The parts that several guests share: the configuration, the events, the file that the server sends, and TLS with a
//! fixed certificate and a fixed date.

pub mod certificate;
pub mod source;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "tls")]
pub mod tls;

use std::time::Duration;

use aqm_guest::{Event, Problem, RECEIVED, WINDOW};
use aqm_net::Span;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::source::Source;

/// Size of the file that the server sends by default, in bytes (aqmlab's choice).
pub const SIZE: u64 = 1_000_000;

/// Time from the year 1970 to the date that TLS reads, 1 January 2030. A guest must not read a clock.
pub const DATE: Duration = Duration::from_secs(1_893_456_000);

/// Bytes that the server passes to a library at once.
static BLOCK: [u8; 65_536] = [0; 65_536];

/// Returns the next bytes of a file of which `left` bytes are left, at most 65,536 bytes. All bytes are 0.
pub fn block(left: u64) -> &'static [u8] {
    &BLOCK[..left.min(BLOCK.len() as u64) as usize]
}

/// Reads a configuration, which is a JSON table.
///
/// # Errors
/// Returns a description of the first invalid value.
pub fn read_table<C: DeserializeOwned>(text: &str) -> Result<C, Problem> {
    Ok(serde_json::from_str(text).map_err(|error| format!("configuration: {error}"))?)
}

/// Reads the configuration of a transfer, which is a JSON table. `most` is the maximum size that the library can
/// transfer, in bytes, and `size` returns the size in a configuration.
///
/// # Errors
/// Returns a description of the first invalid value.
pub fn read<C: DeserializeOwned>(text: &str, size: impl Fn(&C) -> u64, most: u64) -> Result<C, Problem> {
    let config = read_table(text)?;
    let size = size(&config);
    if size == 0 || size > most {
        return Err(format!("configuration: size must be from 1 to {most} (got {size})").into());
    }
    Ok(config)
}

/// Checks `ecn` in the configuration of a library that has no ECN.
///
/// # Errors
/// Returns an error if `ecn` is true.
pub fn refuse_ecn(ecn: bool, library: &str) -> Result<(), Problem> {
    if ecn {
        return Err(format!("configuration: ecn must be false, because {library} has no ECN").into());
    }
    Ok(())
}

/// Maximum offset in a stream of QUIC (RFC 9000, section 4.1).
pub const MAX_OFFSET: u64 = (1 << 62) - 1;

/// The configuration of one end of a QUIC library. `C` is the type of the library's congestion controls. The defaults are
/// those of the library, except for the size, which is aqmlab's choice.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default, bound(deserialize = "C: Default + Deserialize<'de>"))]
pub struct QuicConfig<C> {
    /// Congestion control.
    pub control: C,
    /// Bytes of the file that the server sends.
    pub size: u64,
    /// Whether the datagrams have the library's ECN bits. Otherwise, all datagrams are Not-ECT, and the guest hides the
    /// ECN bits of received datagrams from the library.
    pub ecn: bool,
    /// Bytes that the server's application passes to the library at once, every `interval_s` seconds from time 0. By
    /// default, the application passes the file as fast as the library accepts the file.
    pub burst: Option<u64>,
    /// Time between two bursts, in seconds.
    pub interval_s: Option<f64>,
    /// Whether the server also reports the pacing rate and the bandwidth estimate of the congestion control, if the
    /// library publishes the values.
    pub model: bool,
}

impl<C: Default> Default for QuicConfig<C> {
    fn default() -> Self {
        let control = C::default();
        Self { control, size: SIZE, ecn: true, burst: None, interval_s: None, model: false }
    }
}

impl<C: Default + DeserializeOwned> QuicConfig<C> {
    /// Reads a configuration.
    ///
    /// # Errors
    /// Returns a description of the first invalid value.
    pub fn read(text: &str) -> Result<Self, Problem> {
        let config = read(text, |config: &Self| config.size, MAX_OFFSET)?;
        config.source()?;
        Ok(config)
    }

    /// Returns the application of the server.
    ///
    /// # Errors
    /// Returns a description of the first invalid value.
    pub fn source(&self) -> Result<Source, Problem> {
        match (self.burst, self.interval_s) {
            (None, None) => Ok(Source::file(self.size)),
            (Some(burst), Some(interval)) if burst > 0 && (1e-6..=1e6).contains(&interval) => {
                Ok(Source::bursts(self.size, burst, Span::from_seconds(interval)))
            }
            (burst, interval) => Err(format!(
                "configuration: burst must be at least 1 and interval_s from 0.000001 to 1000000, or both must be \
                 absent (got {burst:?} and {interval:?})"
            )
            .into()),
        }
    }
}

/// Reports that the application received `bytes`, unless the number is 0.
pub fn report_received(events: &mut Vec<Event>, bytes: usize) {
    if bytes > 0 {
        events.push(Event { name: RECEIVED.to_owned(), value: bytes as f64 });
    }
}

/// The values that the sender reports when the values change.
#[derive(Default)]
pub struct SenderReport {
    cwnd: u64,
    rtt: Duration,
    model: Model,
}

/// The values of a congestion control that estimates the bandwidth.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Model {
    /// Pacing rate, in bits per second.
    pub pacing_rate_bps: Option<u64>,
    /// Estimated bandwidth, in bits per second.
    pub bandwidth_bps: Option<u64>,
}

impl SenderReport {
    /// Reports the congestion window in bytes and the smoothed round-trip time, if they differ from the last values.
    pub fn update(&mut self, events: &mut Vec<Event>, cwnd: u64, rtt: Duration) {
        if cwnd != self.cwnd {
            self.cwnd = cwnd;
            events.push(Event { name: WINDOW.to_owned(), value: cwnd as f64 });
        }
        if rtt != self.rtt {
            self.rtt = rtt;
            events.push(Event { name: "rtt_s".to_owned(), value: rtt.as_secs_f64() });
        }
    }

    /// Reports the values of the model that differ from the last values.
    pub fn update_model(&mut self, events: &mut Vec<Event>, model: Model) {
        for (name, last, value) in [
            ("pacing_rate_bps", self.model.pacing_rate_bps, model.pacing_rate_bps),
            ("bandwidth_bps", self.model.bandwidth_bps, model.bandwidth_bps),
        ] {
            if let Some(value) = value.filter(|_| value != last) {
                events.push(Event { name: name.to_owned(), value: value as f64 });
            }
        }
        self.model = model;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Size {
        size: u64,
    }

    #[test]
    fn an_invalid_configuration_is_named() {
        let read = |text| read(text, |config: &Size| config.size, 9);
        assert_eq!(read(r#"{"size": 9}"#).expect("a valid size").size, 9);
        for (text, message) in [
            (r#"{"length": 5}"#, "unknown field `length`"),
            (r#"{"size": -1}"#, "invalid value: integer `-1`"),
            (r#"{"size": 0}"#, "size must be from 1 to 9 (got 0)"),
            (r#"{"size": 10}"#, "size must be from 1 to 9 (got 10)"),
            ("size", "expected value"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.starts_with("configuration: ") && error.contains(message), "{error}");
        }
    }

    #[test]
    fn a_value_is_reported_when_the_value_changes() {
        let (mut report, mut events) = (SenderReport::default(), Vec::new());
        for (cwnd, rtt) in [(10, 5), (10, 6), (12, 6), (12, 6)] {
            report.update(&mut events, cwnd, Duration::from_secs(rtt));
        }
        let events: Vec<_> = events.iter().map(|event| (event.name.as_str(), event.value)).collect();
        assert_eq!(events, [("cwnd_bytes", 10.0), ("rtt_s", 5.0), ("rtt_s", 6.0), ("cwnd_bytes", 12.0)]);
    }

    #[test]
    fn the_last_block_ends_at_the_end_of_the_file() {
        assert_eq!((block(70_000).len(), block(4464).len(), block(0).len()), (65_536, 4464, 0));
    }
}
