//! Passes delivery rates to congestion controls that model the path, and determines the pacing rate.
//!
//! N. Cardwell, I. Swett, J. Beshay, draft-ietf-ccwg-bbr, editor's copy of 3 August 2026, section "Delivery Rate
//! Samples"; Linux 6.1: `tcp_rate_check_app_limited`, `tcp_update_pacing_rate`.

use aqm_net::{Instant, Span};

use super::Sender;
use super::congestion::AckContext;
use super::pacer::Departure;
use crate::config::CheckedConfig;
use crate::config::pacing::Burst;
use crate::congestion_control::{
    ControlReport, DeliveredSegment, RateSample, RecoveryPhase, SenderState, Transmit,
};
use crate::recovery::{AckOutcome, LossRecovery};
use crate::segment::Segment;

impl Sender {
    /// Records that the sender is application-limited, if the windows would permit more data than the application has
    /// written and the congestion control uses delivery rates.
    #[inline(always)]
    pub(super) fn check_app_limited(&mut self, tcp: &CheckedConfig) {
        if self.uses_rates && self.recovery.sent() >= self.end + u64::from(self.fin) {
            self.limit_if_unused(tcp);
        }
    }

    /// Records that the sender is application-limited, if the window is not full and no lost data is waiting.
    #[cold]
    fn limit_if_unused(&mut self, tcp: &CheckedConfig) {
        let in_flight = self.recovery.outstanding();
        let is_full = in_flight >= self.whole_window().saturating_mul(tcp.mss);
        if is_full || self.recovery.has_lost() {
            return;
        }
        if let Some(rate) = self.recovery.rate() {
            rate.limit(in_flight);
        }
    }

    /// Passes an acknowledgement to a congestion control that models the path, and updates the windows and the pacing
    /// rate.
    #[inline(never)]
    pub(super) fn report_to_model(
        &mut self,
        outcome: &AckOutcome,
        context: &AckContext,
        now: Instant,
        tcp: &CheckedConfig,
    ) {
        if self.uses_rates {
            self.report_rates(outcome, context, now, tcp);
        }
        self.refresh(tcp);
        self.update_pacing(tcp);
    }

    /// Passes the segments that an acknowledgement shows to be lost, and the acknowledgement's delivery-rate sample, to
    /// the congestion control.
    fn report_rates(
        &mut self,
        outcome: &AckOutcome,
        context: &AckContext,
        now: Instant,
        tcp: &CheckedConfig,
    ) {
        let (in_flight, phase) = (self.recovery.outstanding(), self.recovery.phase());
        let rtt = (outcome.newest != Instant::NEVER).then(|| now.since(outcome.newest));
        let Some(rate) = self.recovery.rate() else { return };
        rate.on_marked(context.marked);
        if let Some(rtt) = rtt {
            rate.on_round_trip(rtt);
        }
        if rate.has_lost() {
            self.report_lost(now);
        }
        let Some(rate) = self.recovery.rate() else { return };
        let sample = rate.sample(now);
        let delivered = rate.delivered();
        let sample = RateSample {
            now,
            newly_acked: sample.acked,
            newly_lost: sample.lost,
            newly_marked: sample.marked,
            delivered,
            lost: rate.lost(),
            marked: rate.marked(),
            segment: sample.prior.map(|prior| DeliveredSegment {
                delivered_when_sent: prior.delivered,
                lost_when_sent: prior.lost,
                marked_when_sent: prior.marked,
                in_flight_when_sent: prior.in_flight,
                is_app_limited: prior.is_app_limited,
                delivered: delivered - prior.delivered,
                interval: sample.interval,
            }),
            rtt,
            srtt: self.timer.estimator.srtt(&tcp.config.rto),
            in_flight_before: context.in_flight,
            in_flight,
            is_cwnd_limited: sample.is_cwnd_limited,
            phase,
            pacing_delay: self.pacing_delay(now),
            mss: tcp.mss,
        };
        self.congestion.on_rates(&sample);
        if self.congestion.limits_rate()
            && let Some(rate) = self.recovery.rate()
        {
            rate.limit(in_flight);
        }
    }

    /// Passes the segments that have been considered lost since the last call to the congestion control.
    #[cold]
    fn report_lost(&mut self, now: Instant) {
        let Some(rate) = self.recovery.rate() else { return };
        for segment in rate.lost_segments(now) {
            self.congestion.on_lost(&segment);
        }
    }

    /// Reports to the congestion control a timeout and the segments that are considered lost because of the timeout.
    pub(super) fn report_timeout(&mut self, now: Instant, tcp: &CheckedConfig) {
        self.report_lost(now);
        self.congestion.on_model_timeout(self.recovery.outstanding(), tcp.mss);
    }

    /// Records a transmission of `len` sequence numbers for pacing and congestion control. Returns the contents of the
    /// field `sent` of a QUIC packet; [`Instant::START`] for TCP.
    #[cold]
    pub(super) fn on_cold_sent(&mut self, len: u64, now: Instant, tcp: &CheckedConfig) -> Instant {
        if self.uses_rates {
            self.report_transmission(len, now, tcp);
        }
        let min_rtt = self.burst_rtt(tcp);
        let number = self.counts.segments_sent;
        if let Some(pacer) = self.cold.as_mut().and_then(|cold| cold.pacer.as_mut()) {
            let departure = Departure { payload: len.min(tcp.mss), number, mss: tcp.mss, min_rtt, now };
            pacer.on_sent(&departure, &tcp.config.pacing);
            // If the next segment must wait, the sender need not be polled again at this time.
            self.is_paced_out(now, tcp);
        }
        self.recovery.packet_number().map_or(Instant::START, Segment::stamp_of)
    }

    /// Processes a transmission of `len` sequence numbers. If no other data is in the network, the transmission is
    /// reported to the congestion control. If the transmission fills the window, the measurement of the delivery rate
    /// records that the window is full.
    fn report_transmission(&mut self, len: u64, now: Instant, tcp: &CheckedConfig) {
        let outstanding = self.recovery.outstanding();
        let is_full = outstanding + tcp.mss > self.whole_window().saturating_mul(tcp.mss);
        let Some(rate) = self.recovery.rate() else { return };
        if is_full {
            rate.on_full();
        }
        if outstanding > len {
            return;
        }
        self.congestion.on_transmit(&Transmit {
            now,
            delivered: rate.delivered(),
            is_app_limited: rate.is_app_limited(),
            srtt: self.timer.estimator.srtt(&tcp.config.rto),
            mss: tcp.mss,
        });
        self.refresh(tcp);
        self.update_pacing(tcp);
    }

    /// Returns the minimum round-trip time, which determines the size of a burst; `None` if each burst consists of one
    /// segment.
    fn burst_rtt(&mut self, tcp: &CheckedConfig) -> Option<Span> {
        if tcp.config.pacing.burst == Burst::Segment {
            return None;
        }
        let measured = self.recovery.rate().and_then(|rate| rate.min_rtt());
        measured.or(self.timer.estimator.srtt(&tcp.config.rto))
    }

    /// Updates the pacing rate.
    #[inline]
    pub(super) fn update_pacing(&mut self, tcp: &CheckedConfig) {
        let Some(pacer) = self.cold.as_mut().and_then(|cold| cold.pacer.as_mut()) else { return };
        if self.recovery.una() == self.end + u64::from(self.fin) {
            pacer.stop_waiting();
        }
        let config = &tcp.config.pacing;
        let rate = self.congestion.pacing_rate().or_else(|| {
            let srtt = self.timer.estimator.srtt(&tcp.config.rto).filter(|srtt| !srtt.is_zero())?;
            let is_early = self.cwnd < self.congestion.ssthresh() / 2.0;
            let ratio = if is_early { config.slow_start_ratio } else { config.avoidance_ratio };
            let unacknowledged = (self.recovery.sent() - self.recovery.una()) as f64;
            Some(ratio * (self.cwnd * tcp.mss as f64).max(unacknowledged) / srtt.seconds())
        });
        if let Some(rate) = rate {
            pacer.set_rate(rate, config);
        }
    }

    /// Returns the time until the next paced departure.
    fn pacing_delay(&self, now: Instant) -> Span {
        let pacer = self.cold.as_ref().and_then(|cold| cold.pacer.as_ref());
        pacer.map_or(Span::ZERO, |pacer| pacer.delay(now))
    }

    /// Returns the pacing rate in bytes per second; `None` if the sender does not pace, or before the first round-trip
    /// sample.
    pub fn pacing_rate(&self) -> Option<f64> {
        let pacer = self.cold.as_ref().and_then(|cold| cold.pacer.as_ref())?;
        Some(pacer.rate()).filter(|rate| rate.is_finite())
    }

    /// Returns the state and the estimates of the congestion control.
    pub fn control_report(&self) -> ControlReport {
        let report = self.congestion.report();
        let of_window = || match self.recovery.phase() {
            RecoveryPhase::Loss => SenderState::Loss,
            RecoveryPhase::Recovery => SenderState::Recovery,
            _ if self.in_recovery => SenderState::Recovery,
            _ if self.congestion.in_slow_start() => SenderState::SlowStart,
            _ => SenderState::Avoidance,
        };
        ControlReport { state: Some(report.state.unwrap_or_else(of_window)), ..report }
    }
}
