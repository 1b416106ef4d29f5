//! Parameters that several workloads share: hosts, start and stop times, loads, and requests. This file is the only
//! place where these parameters are parsed and checked.

use aqm_net::{ConfigError, Instant, Length, Rate, Size, Span, choices};

use crate::distributions::{Distribution as _, Uniform};
use crate::{BuildContext, Packetisation};

choices! {
    /// Hosts of a workload's flows.
    pub enum Hosts {
        /// Each flow has its own host on each side.
        Own = "own",
        /// All flows of the workload share one host on each side.
        Shared = "shared",
    }
}

impl Hosts {
    /// Returns the number of hosts that `flows` flows use.
    pub(crate) fn count(self, flows: u32) -> u64 {
        match self {
            Self::Own => u64::from(flows),
            Self::Shared => 1,
        }
    }

    /// Returns the host of flow number `flow`.
    pub(crate) fn of(self, flow: u32) -> u32 {
        match self {
            Self::Own => flow,
            Self::Shared => 0,
        }
    }
}

/// Maximum number of flows. A larger number is assumed to be a typing error.
const MAX_FLOWS: u32 = 1_000_000;

/// Checks the number of flows of a workload.
pub(crate) fn check_flows(flows: u32) -> Result<(), ConfigError> {
    if !(1..=MAX_FLOWS).contains(&flows) {
        return Err(ConfigError::at("flows", format!("must be between 1 and {MAX_FLOWS} (got {flows})")));
    }
    Ok(())
}

/// A period of the run, from its start up to but not including its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Period {
    pub(crate) start: Instant,
    pub(crate) end: Instant,
}

impl Period {
    /// Checks that the parameters `start` and `stop` are consistent with the duration of the run.
    pub(crate) fn new(start: Span, stop: Option<Span>, duration: Span) -> Result<Self, ConfigError> {
        if stop.is_some_and(|stop| stop <= start) {
            return Err(ConfigError::at("stop", format!("must be later than `start`, which is {start}")));
        }
        let end = Instant::START + stop.map_or(duration, |stop| stop.min(duration));
        Ok(Self { start: Instant::START + start, end })
    }

    /// Returns the length of the period in seconds; zero if the run ends before the period begins.
    pub(crate) fn seconds(self) -> f64 {
        self.end.since(self.start).seconds()
    }

    /// Returns the load that `bytes` bytes cause in this period, as a fraction of `rate`; zero if the period is empty.
    pub(crate) fn load(self, bytes: u64, rate: Rate) -> f64 {
        let room = rate.bytes_per_second() * self.seconds();
        if room > 0.0 { bytes as f64 / room } else { 0.0 }
    }
}

/// Returns the delay of flow number `flow` after the earliest start. The delay is uniformly distributed on [0,
/// `stagger`) and does not depend on the number of flows.
pub(crate) fn start_offset(stagger: Span, flow: u32, context: &BuildContext<'_>) -> Span {
    let mut stream = context.streams.named(&format!("{}/start", context.name), u64::from(flow));
    Span::from_nanos(Uniform::below(stagger.nanos() as f64).sample(&mut stream) as u64)
}

/// Checks a load.
pub(crate) fn check_load(load: f64) -> Result<(), ConfigError> {
    if load > 0.0 && load <= 10.0 {
        return Ok(());
    }
    Err(ConfigError::at("load", format!("must be above 0 and at most 10 (got {load})")))
}

/// Maximum size of a request in bytes. A larger size is assumed to be a typing error.
const MAX_REQUEST: u64 = 1_000_000;

/// Checks the size of the request that a client sends for an object.
pub(crate) fn check_request(request: Option<Size>) -> Result<(), ConfigError> {
    if request.is_none_or(|request| (1..=MAX_REQUEST).contains(&request.bytes())) {
        return Ok(());
    }
    Err(ConfigError::at("request", "must be between 1B and 1MB"))
}

/// Returns the size in bytes of a request whose size has already been checked.
pub(crate) fn request_bytes(request: Size) -> u32 {
    request.bytes() as u32
}

/// Maximum number of transfers per run. The number is limited because each transfer needs memory.
const MAX_TRANSFERS: f64 = 5e7;

/// Returns an error if the number of transfers exceeds `MAX_TRANSFERS`. `expected` is the number of transfers that
/// result from the parameter `path`. `remedy` tells the user how to reduce this number.
pub(crate) fn check_transfers(expected: f64, path: &str, remedy: &str) -> Result<(), ConfigError> {
    if expected <= MAX_TRANSFERS {
        return Ok(());
    }
    let problem =
        format!("would cause about {expected:.0} transfers in this run; the maximum is {MAX_TRANSFERS:.0}");
    Err(ConfigError::at(path, format!("{problem}: {remedy}")))
}

/// Maximum number of datagrams per run. A run with more datagrams would take too long.
const MAX_DATAGRAMS: f64 = 1e10;

/// Returns an error if the number of datagrams exceeds `MAX_DATAGRAMS`. `expected` is the number of datagrams that
/// result from the parameter `path`.
pub(crate) fn check_datagrams(expected: f64, path: &str) -> Result<(), ConfigError> {
    if expected <= MAX_DATAGRAMS {
        return Ok(());
    }
    let problem =
        format!("would cause about {expected:.0} datagrams in this run; the maximum is {MAX_DATAGRAMS:.0}");
    Err(ConfigError::at(path, problem))
}

/// Size of the IPv4 and UDP headers, in bytes.
const IP_AND_UDP: u64 = 28;

/// Returns an error if datagrams of `least` bytes are too small to contain the link header, which is part of the
/// datagram size.
pub(crate) fn check_link_header(
    least: u64,
    path: &str,
    context: &BuildContext<'_>,
) -> Result<(), ConfigError> {
    let (link, most) = (context.link_header, context.link_header.bytes() + IP_AND_UDP);
    let problem =
        format_args!("must be at least {most}B, including a `host.link_header` of {link} (got {least}B)");
    ConfigError::unless(link.bytes() == 0 || least >= most, path, problem)
}

/// Maximum size of an IP packet, in bytes.
pub(crate) const MAX_BYTES: u64 = 65_535;

/// Returns the number of bytes per unit of `length`, which is 1 for bytes, and the payload of a full-sized packet for
/// packets.
pub(crate) fn unit(length: Length, packetisation: &dyn Packetisation) -> u64 {
    if length.in_bytes() { 1 } else { packetisation.payload().max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_ends_with_the_run_at_the_latest() {
        let second = Span::from_millis(1000);
        let end = |stop| Period::new(Span::ZERO, stop, second.saturating_mul(10)).unwrap().seconds();
        assert_eq!((end(None), end(Some(second)), end(Some(second.saturating_mul(20)))), (10.0, 1.0, 10.0));
        assert_eq!(Period::new(second, None, Span::ZERO).unwrap().seconds(), 0.0);
        assert_eq!(Period::new(second, Some(second), second).unwrap_err().path, "stop");
    }

    #[test]
    fn a_full_link_has_a_load_of_one() {
        let period = Period::new(Span::ZERO, None, Span::from_millis(2000)).unwrap();
        assert_eq!(period.load(2_500_000, Rate::from_bps(10_000_000)), 1.0);
        let empty = Period::new(Span::from_millis(2000), None, Span::from_millis(1000)).unwrap();
        assert_eq!(empty.load(0, Rate::from_bps(10_000_000)), 0.0);
    }
}
