//! Google Congestion Control, the rate control of WebRTC.
//!
//! Sources: S. Holmer, H. Lundin, G. Carlucci, L. De Cicco, S. Mascolo, "A Google Congestion Control Algorithm for
//! Real-Time Communication", draft-ietf-rmcat-gcc-02, 2016; libwebrtc, `modules/congestion_controller/goog_cc`, which
//! has developed further than the draft: trendline filter instead of Kalman filter, estimate of the link's capacity,
//! probing, application-limited periods. Each file of this folder implements one stage. Constants have libwebrtc's
//! values, and names in comments are libwebrtc's.
//!
//! The control runs at the sender and uses feedback about each packet. The target rate is the loss-based rate, whose
//! upper limit is the delay-based rate. ECN marks have no effect.
//!
//! aqmlab's choices, where implementations differ: by default, the loss-based rate follows the draft's rule (first version
//! of libwebrtc's loss-based control), and there is no congestion window (libwebrtc: `CongestionWindowPushback`, an option).

mod application_limit;
mod arrival_groups;
mod delay_based;
mod link_capacity;
mod loss_based;
mod loss_estimator;
mod probing;
#[cfg(test)]
mod tests;
mod throughput;
mod trendline;

use std::collections::VecDeque;

use aqm_net::{ConfigError, Instant, Rate, Span, choices, parameters};

use self::application_limit::ApplicationLimit;
use self::arrival_groups::ArrivalGroups;
use self::delay_based::DelayBased;
use self::loss_based::LossBased;
use self::loss_estimator::Outcome;
use self::probing::{ProbeResults, Probing};
use self::throughput::Throughput;
use self::trendline::{Trendline, Usage};
use super::fixed::check_pacing_factor;
use super::{Build, Media, PacketReport, Probe, RateControl, SentPacket};

choices! {
    /// Rule of the loss-based rate.
    pub enum LossRule {
        /// The rate grows up to a loss of 2 %, and falls above 10 % (draft-ietf-rmcat-gcc-02, section 6).
        Draft = "draft",
        /// The rate is the most likely rate at which losses begin (libwebrtc: `LossBasedBweV2`).
        Libwebrtc = "libwebrtc",
    }
}

parameters! {
    /// Google Congestion Control (GCC), the rate control of WebRTC: a delay-based and a loss-based rate, and probing.
    pub struct Config {
        /// Initial target rate.
        pub start_rate: Rate = Rate::from_bps(300_000), "libwebrtc: `BitrateConstraints`";
        /// Minimum target rate.
        pub min_rate: Rate = Rate::from_bps(5_000), "libwebrtc: `kCongestionControllerMinBitrate`";
        /// Ratio between the rate at which the packets of a frame are sent and the target rate.
        pub pacing_factor: f64 = 2.5, "libwebrtc: `kDefaultPaceMultiplier`";
        /// Rule of the loss-based rate.
        pub loss_rule: LossRule = LossRule::Draft, "draft-ietf-rmcat-gcc-02, section 6; libwebrtc's default is `libwebrtc`";
        /// Whether the control probes for a higher rate.
        pub probing: bool = true, "libwebrtc";
    }
}

/// Maximum target rate of a control (libwebrtc: the initial `max_configured_bitrate_` of the AIMD control is 30 Mb/s).
const MAX_BPS: f64 = 30e6;
/// Time without feedback about received packets after which the delay-based stages start afresh (libwebrtc:
/// `kStreamTimeOut`).
const STALE: Span = Span::from_millis(2000);
/// Number of feedbacks over which the round-trip time is averaged (libwebrtc: `kMaxFeedbackRttWindow`).
const RTT_WINDOW: usize = 32;
/// Maximum number of sent packets without feedback that the control remembers: at 30 Mb/s and 1200 B per packet, more
/// than 5 s.
const MAX_REMEMBERED: usize = 1 << 14;

impl Build for Config {
    fn build(&self, media: Media) -> Result<Box<dyn RateControl>, ConfigError> {
        let (least, start) = (self.min_rate.bps() as f64, self.start_rate.bps() as f64);
        ConfigError::unless(least > 0.0 && least <= MAX_BPS, "min_rate", "must be between 1bps and 30Mbps")?;
        let problem = format_args!("must be between `min_rate`, which is {}, and 30Mbps", self.min_rate);
        ConfigError::unless((least..=MAX_BPS).contains(&start), "start_rate", problem)?;
        check_pacing_factor(self.pacing_factor)?;
        let bounds = (least, MAX_BPS);
        let mut limit = ApplicationLimit::default();
        limit.set_target(start);
        Ok(Box::new(Gcc {
            pacing_factor: self.pacing_factor,
            sent: VecDeque::new(),
            first: 0,
            groups: ArrivalGroups::default(),
            trendline: Trendline::default(),
            throughput: Throughput::default(),
            delay_based: DelayBased::new(start, bounds),
            loss_based: LossBased::new(start, bounds, self.loss_rule == LossRule::Libwebrtc),
            limit,
            limited_until: None,
            probing: self.probing.then(|| Probing::new(start, media.most.bps() as f64)),
            results: ProbeResults::default(),
            rtts: VecDeque::new(),
            heard_at: None,
            usage: Usage::Normal,
        }))
    }
}

/// A rate control at a sender.
#[derive(Clone)]
struct Gcc {
    pacing_factor: f64,
    /// Sent packets in the order of their numbers; `None` for packets with feedback.
    sent: VecDeque<Option<SentPacket>>,
    /// Number of the first packet in `sent`.
    first: u64,
    groups: ArrivalGroups,
    trendline: Trendline,
    throughput: Throughput,
    delay_based: DelayBased,
    loss_based: LossBased,
    limit: ApplicationLimit,
    /// End of the last period in which the application limited the rate.
    limited_until: Option<Instant>,
    probing: Option<Probing>,
    results: ProbeResults,
    /// The last round-trip times.
    rtts: VecDeque<Span>,
    /// Time of the last feedback about a received packet.
    heard_at: Option<Instant>,
    usage: Usage,
}

impl RateControl for Gcc {
    fn on_sent(&mut self, packet: SentPacket) {
        self.sent.push_back(Some(packet));
        if self.sent.len() > MAX_REMEMBERED {
            self.sent.pop_front();
            self.first += 1;
        }
        self.loss_based.on_sent(packet.at);
        self.limit.on_sent(packet.bytes, packet.at);
        self.note_limit(packet.at);
    }

    fn on_feedback(&mut self, reports: &[PacketReport], now: Instant) {
        let (mut received, mut outcomes) = (Vec::new(), Vec::new());
        for report in reports {
            let Some(packet) = self.forget(report.number) else { continue };
            outcomes.push(Outcome { packet, lost: report.arrival.is_none() });
            received.extend(report.arrival.map(|arrival| (arrival, packet)));
        }
        let lost = (outcomes.len() - received.len()) as u32;
        received.sort_by_key(|&(arrival, packet)| (arrival, packet.number));
        let rtt = received.iter().map(|(_, packet)| now.since(packet.at)).min();
        if let Some(most) = received.iter().map(|(_, packet)| now.since(packet.at)).max() {
            self.note_rtt(most);
            self.on_received(&received, now);
        }
        let packets = received.len() as u32 + lost;
        if packets > 0 {
            self.loss_based.on_feedback(packets, lost, rtt, now);
            let throughput = || self.throughput.estimate().filter(|_| self.limit.since().is_none());
            self.loss_based.on_outcomes(&outcomes, throughput, now);
        }
        self.propagate(now);
    }

    fn on_timer(&mut self, now: Instant) {
        self.loss_based.update(now);
        // libwebrtc advances the budget only when packets are sent. Without media, time alone ends or begins a period.
        self.limit.on_sent(0, now);
        self.note_limit(now);
        self.propagate(now);
        if let Some(probing) = &mut self.probing {
            probing.on_timer(self.limit.since(), now);
        }
    }

    fn target_rate(&self) -> f64 {
        self.loss_based.rate()
    }

    fn pacing_rate(&self) -> f64 {
        self.pacing_factor * self.target_rate()
    }

    fn next_probe(&mut self) -> Option<Probe> {
        let probe = self.probing.as_mut()?.next()?;
        self.results.begin(&probe);
        Some(probe)
    }
}

impl Gcc {
    /// Removes a packet from the packets without feedback.
    fn forget(&mut self, number: u64) -> Option<SentPacket> {
        let position = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let packet = self.sent.get_mut(position)?.take();
        while self.sent.front().is_some_and(Option::is_none) {
            self.sent.pop_front();
            self.first += 1;
        }
        packet
    }

    fn note_rtt(&mut self, rtt: Span) {
        if self.rtts.len() == RTT_WINDOW {
            self.rtts.pop_front();
        }
        self.rtts.push_back(rtt);
        let sum: u64 = self.rtts.iter().map(|rtt| rtt.nanos()).sum();
        self.delay_based.set_rtt(Span::from_nanos(sum / self.rtts.len() as u64));
    }

    /// Handles feedback about received packets, in the order of their arrivals.
    fn on_received(&mut self, received: &[(Instant, SentPacket)], now: Instant) {
        if self.heard_at.replace(now).is_some_and(|heard| now.since(heard) > STALE) {
            self.groups = ArrivalGroups::default();
            self.trendline = Trendline::default();
        }
        let mut probed_bps = None;
        for &(arrival, packet) in received {
            self.throughput.add(packet.at, arrival, packet.bytes);
            if let Some(deltas) = self.groups.add(packet.at, arrival) {
                self.trendline.add(deltas, arrival);
            }
            if let Some(probe) = packet.probe {
                probed_bps = self.results.add(probe, packet.bytes, packet.at, arrival).or(probed_bps);
            }
        }
        self.update_delay_based(probed_bps, now);
    }

    /// Updates the delay-based rate, and the loss-based rate's limit (libwebrtc: `DelayBasedBwe::MaybeUpdateEstimate`).
    fn update_delay_based(&mut self, probed_bps: Option<f64>, now: Instant) {
        let (usage, throughput) = (self.trendline.usage(), self.throughput.estimate());
        let recovered = self.usage == Usage::Underuse && usage == Usage::Normal;
        self.usage = usage;
        match (usage, probed_bps) {
            (Usage::Overuse, _) => {
                if throughput.is_none() {
                    self.delay_based.set_rate(self.delay_based.rate() / 2.0, now);
                } else if self.delay_based.may_decrease(throughput, now) {
                    self.delay_based.update(usage, throughput, now);
                }
            }
            (_, Some(bps)) => {
                self.delay_based.set_rate(bps, now);
                self.loss_based.limit(f64::INFINITY);
                self.loss_based.set_rate(self.delay_based.rate());
            }
            _ => self.delay_based.update(usage, throughput, now),
        }
        self.loss_based.limit(self.delay_based.rate());
        if recovered && let Some(probing) = &mut self.probing {
            probing.on_recovery(self.limit.since().is_some(), self.limited_until, now);
        }
    }

    /// Passes the target rate to the stages that use it.
    fn propagate(&mut self, now: Instant) {
        let target = self.loss_based.rate();
        self.limit.set_target(target);
        if let Some(probing) = &mut self.probing {
            probing.set_estimate(target, now);
        }
    }

    /// Notes that the application limits the rate.
    fn note_limit(&mut self, now: Instant) {
        if self.limit.since().is_some() {
            self.limited_until = Some(now);
        }
    }
}
