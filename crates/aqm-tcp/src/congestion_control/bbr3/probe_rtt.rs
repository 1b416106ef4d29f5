//! The round-trip time without queueing, and the state `ProbeRTT`, in which the sender keeps little data in flight in
//! order to measure this time.
//!
//! draft-ietf-ccwg-bbr, section "ProbeRTT".

use aqm_net::{Instant, Span};

use super::output::MIN_PIPE_SEGMENTS;
use super::probe_bw::AckPhase;
use super::{Ack, Bbr3, Profile, State, is_recovery};
use crate::arithmetic::{Limited, real};

/// `MinRTTFilterLen`.
const MIN_RTT_WINDOW: Span = Span::from_millis(10_000);
/// `ProbeRTTInterval`.
const INTERVAL: Span = Span::from_millis(5000);
/// `ProbeRTTDuration`.
const DURATION: Span = Span::from_millis(200);
/// `ProbeRTTCwndGain`.
pub(super) const CWND_GAIN: f64 = 0.5;

/// Estimates of the round-trip time without queueing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MinRtt {
    /// `min_rtt`
    pub delay: Option<Span>,
    /// `min_rtt_stamp`
    at: Instant,
    /// `probe_rtt_min_delay`
    probe_delay: Option<Span>,
    /// `probe_rtt_min_stamp`
    pub probe_at: Instant,
    /// `probe_rtt_done_stamp`
    done_at: Option<Instant>,
    /// `probe_rtt_round_done`
    is_round_done: bool,
}

impl MinRtt {
    /// Initialises the estimates with the smoothed round-trip time, if there is one.
    pub fn begin(&mut self, srtt: Option<Span>, now: Instant) {
        self.delay = srtt.filter(|srtt| !srtt.is_zero());
        (self.at, self.probe_at) = (now, now);
    }

    /// `UpdateMinRTT`. Returns whether `ProbeRTT` must begin.
    fn update(&mut self, rtt: Option<Span>, now: Instant, profile: Profile) -> bool {
        let is_lower = |value: Span, least: Option<Span>| least.is_none_or(|least| value < least);
        let is_due = now > self.probe_at + INTERVAL;
        if let Some(rtt) = rtt
            && (is_due || is_lower(rtt, self.probe_delay))
        {
            (self.probe_delay, self.probe_at) = (Some(rtt), now);
        }
        let has_expired = now > self.at + MIN_RTT_WINDOW;
        if let Some(delay) = self.probe_delay {
            let renews = profile == Profile::Linux && self.delay == Some(delay);
            if has_expired || renews || is_lower(delay, self.delay) {
                (self.delay, self.at) = (Some(delay), self.probe_at);
            }
        }
        is_due
    }
}

impl Bbr3 {
    /// `UpdateMinRTT` and `CheckProbeRTT`.
    pub(super) fn update_min_rtt(&mut self, ack: &Ack<'_>) {
        let sample = ack.sample;
        let nanos = |rtt: Span| match self.profile {
            Profile::Draft => rtt.nanos(),
            Profile::Linux => rtt.nanos() / 1000 * 1000,
        };
        let rtt = sample.rtt.map(|rtt| Span::from_nanos(nanos(rtt).max(1)));
        let is_due = self.min_rtt.update(rtt, sample.now, self.profile);
        if self.state != State::ProbeRtt && is_due && !self.is_idle_restart {
            self.state = State::ProbeRtt;
            self.save_cwnd();
            self.min_rtt.done_at = None;
            self.cycle.ack_phase = AckPhase::Stopping;
            self.rounds.start(sample.delivered);
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(ack);
        }
        if ack.segment.delivered > 0 {
            self.is_idle_restart = false;
        }
    }

    /// `HandleProbeRTT`. In this state, the sender marks the connection as application-limited (`limits_rate`).
    fn handle_probe_rtt(&mut self, ack: &Ack<'_>) {
        let sample = ack.sample;
        if self.min_rtt.done_at.is_some() {
            self.min_rtt.is_round_done |= self.rounds.is_start;
            if self.min_rtt.is_round_done {
                self.check_probe_rtt_done(sample.now, sample.delivered);
            }
        } else if real(sample.in_flight) <= self.probe_rtt_cwnd() {
            self.min_rtt.done_at = Some(sample.now + DURATION);
            self.min_rtt.is_round_done = false;
            self.rounds.start(sample.delivered);
        }
    }

    /// `CheckProbeRTTDone` and `ExitProbeRTT`.
    pub(super) fn check_probe_rtt_done(&mut self, now: Instant, delivered: u64) {
        if self.min_rtt.done_at.is_none_or(|done_at| now <= done_at) {
            return;
        }
        self.min_rtt.probe_at = now;
        self.restore_cwnd();
        self.shortterm.reset();
        if self.full.is_reached {
            self.start_down(now, delivered);
            self.start_cruise();
        } else {
            self.state = State::Startup;
        }
    }

    /// `ProbeRTTCwnd`.
    pub(super) fn probe_rtt_cwnd(&self) -> f64 {
        self.bdp(self.bw, CWND_GAIN).at_least(MIN_PIPE_SEGMENTS * self.smss)
    }

    /// `SaveCwnd`.
    pub(super) fn save_cwnd(&mut self) {
        let is_good = !is_recovery(self.phase) && self.state != State::ProbeRtt;
        self.prior_cwnd = if is_good { self.cwnd } else { self.prior_cwnd.max(self.cwnd) };
    }

    /// `RestoreCwnd`.
    pub(super) fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }
}
