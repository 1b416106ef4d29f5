//! Probing: when the control probes, and what a probe's packets tell about the path (libwebrtc,
//! `goog_cc/probe_controller.cc` and `goog_cc/probe_bitrate_estimator.cc`).
//!
//! - At the start, the control probes 3 and 6 times the start rate. As long as the result exceeds 70 % of the last
//!   probe's rate, the control probes twice the result.
//! - While the application limits the rate, the control probes twice the target rate every 5 s.
//! - When the path recovers from an overuse that has reduced the target rate by more than a third, the control probes
//!   85 % of the previous rate, unless the application uses the whole rate.

use std::collections::{BTreeMap, VecDeque};

use aqm_net::{Instant, Span};

use crate::rate_control::Probe;

/// Factors of the start rate (`p1`, `p2`), and of a result (`step_size`).
const FIRST: [f64; 2] = [3.0, 6.0];
const FURTHER: f64 = 2.0;
/// Share of a probe's rate that a result must exceed to be followed by another probe (`further_probe_threshold`).
const FURTHER_SHARE: f64 = 0.7;
/// Factor of the target rate, and interval, while the application limits the rate (`alr_scale`, `alr_interval`).
const LIMITED: f64 = 2.0;
const LIMITED_INTERVAL: Span = Span::from_millis(5000);
/// A probe's rate is at most this multiple of the rate that the application can use (`InitiateProbing`).
const MAX_FACTOR: f64 = 2.0;
/// Duration of the first probes and of other probes (`initial_probe_duration`, `min_probe_duration`), and their minimum
/// number of packets (`min_probe_packets_sent`).
const FIRST_DURATION: Span = Span::from_millis(100);
const DURATION: Span = Span::from_millis(15);
const PACKETS: u32 = 5;
/// Time that the control waits for a result (`kMaxWaitingTimeForProbingResult`).
const PATIENCE: Span = Span::from_millis(1000);
/// Share of the previous target rate below which a drop is large (`kBitrateDropThreshold`), share of the previous rate
/// that the control then probes (`kProbeFractionAfterDrop`), and the uncertainty of a result (`kProbeUncertainty`).
const LARGE_DROP: f64 = 0.66;
const AFTER_DROP: f64 = 0.85;
const UNCERTAINTY: f64 = 0.05;
/// Time after a large drop in which the control probes (`kBitrateDropTimeout`), minimum interval between such probes
/// (`kMinTimeBetweenAlrProbes`), and time after a limited period in which the control probes (`kAlrEndedTimeout`).
const DROP_EXPIRES: Span = Span::from_millis(5000);
const DROP_INTERVAL: Span = Span::from_millis(5000);
const LIMITED_EXPIRES: Span = Span::from_millis(3000);

/// The decisions about probes.
#[derive(Clone, Debug)]
pub(super) struct Probing {
    /// Highest rate of a probe.
    most_bps: f64,
    estimate_bps: f64,
    pending: VecDeque<Probe>,
    next_number: u32,
    /// Time of the last probe; `None` before the first probe.
    probed_at: Option<Instant>,
    /// Result that leads to another probe, while the control waits for results.
    further_bps: Option<f64>,
    dropped_from: Option<(Instant, f64)>,
    drop_probed_at: Option<Instant>,
}

impl Probing {
    pub(super) fn new(start_bps: f64, useful_bps: f64) -> Self {
        Self {
            most_bps: MAX_FACTOR * useful_bps,
            estimate_bps: start_bps,
            pending: VecDeque::new(),
            next_number: 0,
            probed_at: None,
            further_bps: None,
            dropped_from: None,
            drop_probed_at: None,
        }
    }

    /// Returns the next probe to send.
    pub(super) fn next(&mut self) -> Option<Probe> {
        self.pending.pop_front()
    }

    /// Handles the passing of time. `limited_since` is the time since which the application limits the rate.
    pub(super) fn on_timer(&mut self, limited_since: Option<Instant>, now: Instant) {
        let Some(probed_at) = self.probed_at else {
            let rates = FIRST.map(|factor| factor * self.estimate_bps);
            return self.probe(&rates, FIRST_DURATION, true, now);
        };
        if now.since(probed_at) > PATIENCE {
            self.further_bps = None;
        }
        if self.further_bps.is_none()
            && limited_since.is_some_and(|since| now.since(since.max(probed_at)) >= LIMITED_INTERVAL)
        {
            self.probe(&[LIMITED * self.estimate_bps], DURATION, true, now);
        }
    }

    /// Handles a new target rate.
    pub(super) fn set_estimate(&mut self, bps: f64, now: Instant) {
        if bps < LARGE_DROP * self.estimate_bps {
            self.dropped_from = Some((now, self.estimate_bps));
        }
        self.estimate_bps = bps;
        if self.further_bps.is_some_and(|further| bps > further) {
            self.probe(&[FURTHER * bps], DURATION, true, now);
        }
    }

    /// Handles the recovery of the path from an overuse. `limited` states whether the application limits the rate, and
    /// `limited_until` is the end of the last period in which the application limited the rate.
    pub(super) fn on_recovery(&mut self, limited: bool, limited_until: Option<Instant>, now: Instant) {
        let recently = limited_until.is_some_and(|end| now.since(end) < LIMITED_EXPIRES);
        let Some((dropped_at, before)) = self.dropped_from else { return };
        let rate = AFTER_DROP * before;
        let is_due = self.drop_probed_at.is_none_or(|at| now.since(at) > DROP_INTERVAL);
        if (limited || recently)
            && self.further_bps.is_none()
            && (1.0 - UNCERTAINTY) * rate > self.estimate_bps
            && now.since(dropped_at) < DROP_EXPIRES
            && is_due
        {
            self.drop_probed_at = Some(now);
            self.probe(&[rate], DURATION, false, now);
        }
    }

    fn probe(&mut self, rates: &[f64], duration: Span, further: bool, now: Instant) {
        let mut further = further;
        for &rate in rates {
            further &= rate < self.most_bps;
            let rate_bps = rate.min(self.most_bps);
            let bytes = (rate_bps * duration.seconds() / 8.0) as u64;
            self.pending.push_back(Probe { number: self.next_number, rate_bps, bytes, packets: PACKETS });
            self.next_number = self.next_number.wrapping_add(1);
            self.further_bps = further.then_some(FURTHER_SHARE * rate_bps);
        }
        self.probed_at = Some(now);
    }
}

/// Minimum number of received packets (`kMinClusterSize`), and minimum share of the probe's packets and bytes
/// (`kMinReceivedProbesRatio`, `kMinReceivedBytesRatio`).
const LEAST_RECEIVED: u32 = 4;
const RECEIVED_SHARE: f64 = 0.8;
/// Maximum duration of a probe (`kMaxProbeInterval`).
const MAX_DURATION: Span = Span::from_millis(1000);
/// Maximum ratio between the receiving and the sending rate (`kMaxValidRatio`).
const MAX_RATIO: f64 = 2.0;
/// If the receiving rate is below this share of the sending rate, the link is saturated
/// (`kMinRatioForUnsaturatedLink`), and the result is 95 % of the receiving rate.
const UNSATURATED: f64 = 0.9;
const UTILISATION: f64 = 0.95;
/// Maximum number of probes whose packets are remembered. A probe's results arrive within a few round-trip times, and
/// probes are at least a round-trip time apart, except for the two first.
const MAX_REMEMBERED: usize = 16;

/// What the packets of probes tell about the path.
#[derive(Clone, Debug, Default)]
pub(super) struct ProbeResults {
    probes: BTreeMap<u32, Progress>,
}

#[derive(Clone, Debug)]
struct Progress {
    least_packets: f64,
    least_bytes: f64,
    packets: u32,
    bytes: f64,
    sent: (Instant, Instant),
    last_sent_bytes: f64,
    received: (Instant, Instant),
    first_received_bytes: f64,
}

impl ProbeResults {
    /// Prepares for the packets of a probe.
    pub(super) fn begin(&mut self, probe: &Probe) {
        self.probes.insert(
            probe.number,
            Progress {
                least_packets: RECEIVED_SHARE * f64::from(probe.packets),
                least_bytes: RECEIVED_SHARE * probe.bytes as f64,
                packets: 0,
                bytes: 0.0,
                sent: (Instant::NEVER, Instant::START),
                last_sent_bytes: 0.0,
                received: (Instant::NEVER, Instant::START),
                first_received_bytes: 0.0,
            },
        );
        if self.probes.len() > MAX_REMEMBERED {
            self.probes.pop_first();
        }
    }

    /// Adds a received packet of a probe. Returns the probe's result in bits per second, if enough packets have arrived.
    pub(super) fn add(&mut self, probe: u32, bytes: u16, sent: Instant, arrival: Instant) -> Option<f64> {
        let one = self.probes.get_mut(&probe)?;
        let bytes = f64::from(bytes);
        one.packets += 1;
        one.bytes += bytes;
        one.sent.0 = one.sent.0.min(sent);
        if sent >= one.sent.1 {
            one.sent.1 = sent;
            one.last_sent_bytes = bytes;
        }
        if arrival < one.received.0 {
            one.received.0 = arrival;
            one.first_received_bytes = bytes;
        }
        one.received.1 = one.received.1.max(arrival);
        one.result()
    }
}

impl Progress {
    fn result(&self) -> Option<f64> {
        let enough = self.packets >= LEAST_RECEIVED
            && f64::from(self.packets) >= self.least_packets
            && self.bytes >= self.least_bytes;
        if !enough {
            return None;
        }
        let rate = |(first, last): (Instant, Instant), excluded: f64| {
            let duration = last.since(first);
            let valid = !duration.is_zero() && duration <= MAX_DURATION;
            valid.then(|| 8.0 * (self.bytes - excluded) / duration.seconds())
        };
        let sent = rate(self.sent, self.last_sent_bytes)?;
        let received = rate(self.received, self.first_received_bytes)?;
        if received > MAX_RATIO * sent {
            return None;
        }
        Some(if received < UNSATURATED * sent { UTILISATION * received } else { sent.min(received) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::START + Span::from_millis(millis)
    }

    const NO_PROBES: [f64; 0] = [];

    fn rates(probing: &mut Probing) -> Vec<f64> {
        std::iter::from_fn(|| probing.next()).map(|probe| probe.rate_bps).collect()
    }

    #[test]
    fn the_control_first_probes_three_and_six_times_the_start_rate() {
        let mut probing = Probing::new(300e3, 2e6);
        probing.on_timer(None, at(0));
        let first = probing.next().unwrap();
        assert_eq!(first, Probe { number: 0, rate_bps: 900e3, bytes: 11_250, packets: 5 });
        assert_eq!(rates(&mut probing), [1.8e6]);
        probing.on_timer(None, at(25));
        assert_eq!(rates(&mut probing), NO_PROBES);
    }

    #[test]
    fn a_good_result_leads_to_another_probe_and_a_late_result_does_not() {
        let mut probing = Probing::new(300e3, 5e6);
        probing.on_timer(None, at(0));
        rates(&mut probing);
        probing.set_estimate(1.2e6, at(100));
        assert_eq!(rates(&mut probing), NO_PROBES, "1.2 Mb/s are less than 70 % of 1.8 Mb/s");
        probing.set_estimate(1.7e6, at(200));
        assert_eq!(rates(&mut probing), [3.4e6]);
        probing.on_timer(None, at(1300));
        probing.set_estimate(3.3e6, at(1400));
        assert_eq!(rates(&mut probing), NO_PROBES);
    }

    #[test]
    fn probes_are_limited_to_twice_the_rate_that_the_application_can_use() {
        let mut probing = Probing::new(300e3, 700e3);
        probing.on_timer(None, at(0));
        assert_eq!(rates(&mut probing), [900e3, 1.4e6]);
        probing.set_estimate(1.4e6, at(100));
        assert_eq!(rates(&mut probing), NO_PROBES, "no further probe follows the highest");
    }

    #[test]
    fn while_the_application_limits_the_rate_the_control_probes_every_five_seconds() {
        let mut probing = Probing::new(300e3, 2e6);
        probing.on_timer(None, at(0));
        rates(&mut probing);
        let mut found = Vec::new();
        for step in 1..800 {
            let now = at(25 * step);
            probing.on_timer(Some(at(2000)), now);
            found.extend(rates(&mut probing).iter().map(|rate| (now, *rate)));
        }
        assert_eq!(found, [(at(7000), 600e3), (at(12_000), 600e3), (at(17_000), 600e3)]);
    }

    #[test]
    fn after_a_large_drop_the_control_probes_the_previous_rate_if_the_application_limited_the_rate() {
        for (limited, expected) in [(true, &[0.85 * 2e6][..]), (false, &[])] {
            let mut probing = Probing::new(2e6, 4e6);
            probing.on_timer(None, at(0));
            rates(&mut probing);
            probing.on_timer(None, at(2000));
            probing.set_estimate(1e6, at(3000));
            probing.on_recovery(limited, None, at(3500));
            assert_eq!(rates(&mut probing), expected);
            probing.on_recovery(limited, None, at(4000));
            assert_eq!(rates(&mut probing), NO_PROBES, "one probe per five seconds");
        }
    }

    /// Returns the last result of a probe of 10 packets of 1000 B that are sent every `sent` and arrive every `received`
    /// milliseconds.
    fn result(sent: u64, received: u64) -> Option<f64> {
        let mut results = ProbeResults::default();
        results.begin(&Probe { number: 7, rate_bps: 2e6, bytes: 10_000, packets: 5 });
        let one = |number: u64| results.add(7, 1000, at(sent * number), at(100 + received * number));
        (0..10).map(one).last().unwrap().map(libm::round)
    }

    #[test]
    fn the_result_is_the_smaller_rate_or_95_per_cent_of_what_a_saturated_link_carries() {
        // Nine packets of 8000 bits take nine gaps.
        assert_eq!(result(4, 4), Some(2e6));
        assert_eq!(result(5, 4), Some(1.6e6));
        assert_eq!(result(4, 8), Some(0.95e6));
        assert_eq!(result(9, 4), None, "the receiving rate is too high to be true");
        assert_eq!(result(0, 4), None, "the sending rate is unknown");
    }

    #[test]
    fn a_result_needs_80_per_cent_of_the_bytes() {
        let mut results = ProbeResults::default();
        results.begin(&Probe { number: 0, rate_bps: 2e6, bytes: 10_000, packets: 5 });
        let found: Vec<Option<f64>> =
            (0..8).map(|number| results.add(0, 1000, at(4 * number), at(4 * number))).collect();
        assert!(found[..7].iter().all(Option::is_none) && found[7].is_some(), "{found:?}");
    }
}
