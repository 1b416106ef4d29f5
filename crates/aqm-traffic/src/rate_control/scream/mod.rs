//! Self-Clocked Rate Adaptation for Multimedia, version 2 (SCReAMv2).
//!
//! Sources: I. Johansson, M. Westerlund, M. Kühlewind, "Self-Clocked Rate Adaptation for Multimedia",
//! draft-ietf-ccwg-rfc8298bis-screamv2-01, July 2026, called the draft below; where the draft has no value, its
//! reference implementation, `ScreamV2Tx.cpp` of github.com/EricssonResearch/scream. Each file of this folder implements
//! one part. Names in comments are the draft's.
//!
//! The control runs at the sender and uses feedback about each packet. Packets with the codepoint ECT(1) select the L4S
//! mode. The target rate is the reference window per round-trip time, and the send window limits the bytes in flight.
//!
//! aqmlab's choices: marks on packets with ECT(0) have the effect of classic ECN. The options of section 4.5 are left
//! out, except for the compensation of competing flows: clock drift, because the clocks of both ends agree; losses of
//! links and policers; the undershoot of the window.

mod flight;
mod marks;
mod media_rate;
mod queue_delay;
mod reference_window;
mod target_delay;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use aqm_net::{ConfigError, Ecn, Instant, Rate, Span, parameters};

use self::flight::Flight;
use self::marks::Marks;
use self::media_rate::MediaRate;
use self::queue_delay::QueueDelay;
use self::reference_window::{ReferenceWindow, Signals};
use self::target_delay::TargetDelay;
use super::{Build, Media, MediaFrame, PacketReport, Probe, RateControl, Reporting, SentPacket};

parameters! {
    /// Self-Clocked Rate Adaptation for Multimedia, version 2 (SCReAMv2): a window that follows the queueing delay, losses
    /// and ECN marks, with a scalable response to the marks of L4S.
    pub struct Config {
        /// Minimum target rate.
        pub min_rate: Rate = Rate::from_bps(50_000), "draft-ietf-ccwg-rfc8298bis-screamv2-01, section 4.3.2: RATE_PACE_MIN";
        /// Target of the queueing delay. The window is reduced from half of the target on.
        pub target_delay: Span = Span::from_millis(60), "draft-ietf-ccwg-rfc8298bis-screamv2-01, section 4.2.2: QDELAY_TARGET_LO";
        /// Maximum target of the queueing delay beside competing flows.
        pub max_target_delay: Span = Span::from_millis(400), "draft-ietf-ccwg-rfc8298bis-screamv2-01, section 4.2.2: QDELAY_TARGET_HI";
        /// Whether the target of the queueing delay rises beside flows that respond only to losses.
        pub competing_flows: bool = false, "draft-ietf-ccwg-rfc8298bis-screamv2-01, section 4.5.4: optional; kEnableSbd of the reference implementation";
        /// Whether jitter of the queueing delay slows down the growth of the window and limits the bytes in flight.
        pub reduce_jitter: bool = false, "draft-ietf-ccwg-rfc8298bis-screamv2-01, section 4.2.1.4: REDUCE_JITTER";
    }
}

/// Maximum size of a data unit in bytes (draft, section 4.2.2: `MSS`).
const MSS: f64 = 1000.0;
/// The virtual round-trip time in seconds: flows with shorter round-trip times have equal shares (draft, section 4.2.2:
/// `VIRTUAL_RTT`).
const VIRTUAL_RTT_S: f64 = 0.025;
/// Round-trip time in seconds before the first feedback, for which the draft has no value (reference implementation:
/// the initial `sRtt`).
const INITIAL_RTT_S: f64 = 0.05;
/// Weight of a sample in the smoothed round-trip time (RFC 6298, section 2: alpha), and weight of a shorter sample while
/// the window is much larger than the bytes in flight (draft, section 6; reference implementation: 1/1024 while
/// `isApplicationLimited`).
const RTT_WEIGHT: f64 = 1.0 / 8.0;
const IDLE_RTT_WEIGHT: f64 = 1.0 / 1024.0;
/// Ratio between the maximum number of bytes in flight and the window, without jitter and with much jitter (draft,
/// section 4.3.1: `REF_WND_OVERHEAD_MAX`, `REF_WND_OVERHEAD_MIN`).
const OVERHEAD: (f64, f64) = (1.5, 3.0);
/// Number of packets after which the receiver reports at once (draft, section 5).
const REPORTED_PACKETS: u32 = 16;
/// Share of the maximum rate from which the window is limited to the largest number of bytes in flight of the last
/// second or to 1.5 times the product of maximum rate and round-trip time (draft, section 4.2.2.2; reference
/// implementation: `maxBytesInFlightHist` of 20 values every 50 ms).
const LIMITED_FROM: f64 = 0.95;
const HISTORY: usize = 20;
const HISTORY_INTERVAL: Span = Span::from_millis(50);
const LIMIT_FACTOR: f64 = 1.5;
const LIMIT_MARGIN_S: f64 = 0.001;

impl Build for Config {
    fn build(&self, media: Media) -> Result<Box<dyn RateControl>, ConfigError> {
        let most = media.most.bps() as f64;
        ConfigError::unless(self.min_rate.bps() > 0, "min_rate", "must be greater than zero")?;
        let (low, high) = (self.target_delay, self.max_target_delay);
        let sensible = (Span::from_millis(1)..=Span::from_millis(10_000)).contains(&low);
        ConfigError::unless(sensible, "target_delay", "must be between 1ms and 10s")?;
        let problem = format_args!("must be between `target_delay`, which is {low}, and 10s");
        let sensible = (low..=Span::from_millis(10_000)).contains(&high);
        ConfigError::unless(sensible, "max_target_delay", problem)?;
        let mut control = Scream {
            flight: Flight::default(),
            delay: QueueDelay::new(self.reduce_jitter, low.seconds()),
            target_delay: TargetDelay::new((low.seconds(), high.seconds()), self.competing_flows),
            marks: Marks::default(),
            window: ReferenceWindow::new(media.ecn == Ecn::Ect1),
            rate: MediaRate::new((most.min(self.min_rate.bps() as f64), most)),
            rtt_s: None,
            history: VecDeque::with_capacity(HISTORY + 1),
            noted_at: Instant::START,
        };
        control.update_rate();
        Ok(Box::new(control))
    }
}

/// A rate control at a sender.
#[derive(Clone)]
struct Scream {
    flight: Flight,
    delay: QueueDelay,
    target_delay: TargetDelay,
    marks: Marks,
    window: ReferenceWindow,
    rate: MediaRate,
    /// Smoothed round-trip time in seconds (draft: `s_rtt`); `None` before the first sample.
    rtt_s: Option<f64>,
    /// The maximum numbers of bytes in flight of the last second.
    history: VecDeque<u64>,
    noted_at: Instant,
}

impl RateControl for Scream {
    fn on_sent(&mut self, packet: SentPacket) {
        self.flight.on_sent(packet);
    }

    fn on_feedback(&mut self, reports: &[PacketReport], now: Instant) {
        let found = self.flight.on_feedback(reports, now);
        if let Some(sample) = found.rtt {
            self.add_rtt(sample.seconds());
        }
        let rtt_s = self.rtt_s();
        let target_s = self.target_delay.seconds();
        self.delay.add(&found.delays, target_s, rtt_s, now);
        self.target_delay.add(self.delay.latest_s, found.lost, rtt_s, now);
        self.marks.add(found.units, found.marked, rtt_s, now);
        let signals = Signals {
            acknowledged: found.bytes as f64,
            marked_bytes: found.marked_bytes as f64,
            lost: found.lost,
            marked: found.marked > 0,
            alpha: self.marks.alpha(),
            rtt_s,
            delay_s: self.delay.latest_s,
            average_delay_s: self.delay.average_s,
            target_delay_s: self.target_delay.seconds(),
            jitter_scale: self.delay.scale(),
            most_in_flight: self.flight.most(),
            may_grow: self.rate.may_grow(),
        };
        self.window.update(&signals, now);
        self.limit_window(now);
        self.flight.update_round(rtt_s, now);
        self.update_rate();
    }

    fn on_timer(&mut self, now: Instant) {
        self.flight.on_timer(now);
    }

    fn on_frame(&mut self, frame: MediaFrame) {
        self.rate.on_frame(&frame);
        self.update_rate();
    }

    fn target_rate(&self) -> f64 {
        self.rate.target()
    }

    fn pacing_rate(&self) -> f64 {
        self.rate.pacing()
    }

    /// The intervals of packets belong to the pacing rate (draft, section 4.3.2: `t_pace`).
    fn sends_bursts(&self) -> bool {
        false
    }

    fn send_window(&self) -> f64 {
        let overhead = OVERHEAD.0 + (OVERHEAD.1 - OVERHEAD.0) * self.delay.scale();
        (self.window.bytes() * overhead - self.flight.bytes() as f64).max(0.0)
    }

    fn reporting(&self) -> Reporting {
        Reporting::Frames { packets: REPORTED_PACKETS }
    }

    fn next_probe(&mut self) -> Option<Probe> {
        None
    }
}

impl Scream {
    fn rtt_s(&self) -> f64 {
        self.rtt_s.unwrap_or(INITIAL_RTT_S)
    }

    fn add_rtt(&mut self, sample_s: f64) {
        let Some(rtt_s) = self.rtt_s else {
            self.rtt_s = Some(sample_s);
            return;
        };
        let is_idle = self.window.exceeds(self.flight.most());
        let weight = if is_idle && sample_s < rtt_s { IDLE_RTT_WEIGHT } else { RTT_WEIGHT };
        self.rtt_s = Some((1.0 - weight) * rtt_s + weight * sample_s);
    }

    /// Limits the window near the maximum rate.
    fn limit_window(&mut self, now: Instant) {
        if now.since(self.noted_at) >= HISTORY_INTERVAL {
            self.noted_at = now;
            self.history.push_back(self.flight.most()[0]);
            if self.history.len() > HISTORY {
                self.history.pop_front();
            }
        }
        if self.rate.share() > LIMITED_FROM {
            let most = self.history.iter().copied().max().unwrap_or(0).max(self.flight.most()[0]);
            let needed = LIMIT_FACTOR * self.rate.maximum() / 8.0 * (self.rtt_s() + LIMIT_MARGIN_S);
            self.window.limit(needed.max(most as f64));
        }
    }

    fn update_rate(&mut self) {
        self.rate.update(self.window.bytes(), self.window.ratio(), self.rtt_s());
    }
}
