//! str0m, a WebRTC library, as a guest in virtual time: the server sends a video, whose rate follows str0m's estimate of
//! the bandwidth, to the client.
//!
//! str0m draws identifiers from the crate fastrand, whose generator the guest seeds before each call. str0m converts
//! times to dates with one reading of the system's clocks, which the guest compensates ([`clock`]). The cryptography
//! ([`crypto`]) has no random numbers. The streams of a connection are in a hash table with random keys, whose order has no
//! effect because each end has one stream.

mod clock;
mod config;
#[path = "../../../reference/gcc_original/src/crypto.rs"]
mod crypto;
mod host;

use aqm_guest::{Answer, Guest, Payload, Problem, Start};
use aqm_net::Instant;

use crate::config::Config;
use crate::host::Host;

/// str0m as a guest.
#[derive(Default)]
pub struct Str0m {
    host: Option<Host>,
}

impl Guest for Str0m {
    fn start(&mut self, start: &Start) -> Result<Option<Instant>, Problem> {
        let config = Config::read(&start.config)?;
        self.host = Some(Host::new(start.end, config, start.seed, clock::zero()?, false)?);
        Ok(Some(Instant::START))
    }

    fn run(&mut self, now: Instant, received: Vec<Payload>) -> Result<Answer, Problem> {
        self.host.as_mut().ok_or("the guest must be started before it runs")?.run(now, received)
    }
}

#[cfg(test)]
mod tests {
    use guest_common::testing::{transfer, values};

    use super::*;

    #[test]
    fn two_runs_with_the_same_seed_are_equal() {
        let first = transfer::<Str0m>("{}", 1, 0.01);
        assert_eq!(first.digest, transfer::<Str0m>("{}", 1, 0.01).digest);
        assert!(values(&first, "rtt_s").iter().all(|rtt| *rtt > 0.04));
    }

    #[test]
    fn the_video_reaches_its_maximum_rate_and_ends() {
        let report = transfer::<Str0m>(r#"{"max_rate": 400000, "duration": 5}"#, 1, 0.0);
        let targets = values(&report, "target_bps");
        assert_eq!((targets[0], targets.last()), (300_000.0, Some(&0.0)));
        assert!(targets.contains(&400_000.0), "{targets:?}");
        let received = values(&report, "received_bytes").iter().sum::<f64>() * 8.0;
        assert!((300_000.0 * 5.0..400_000.0 * 5.0).contains(&received), "{received}");
    }
}
