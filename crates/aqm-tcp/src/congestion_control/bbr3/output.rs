//! Pacing rate and window.
//!
//! draft-ietf-ccwg-bbr, section "Updating Control Parameters".

use aqm_net::Span;

use super::{Bbr3, Profile, State};
use crate::arithmetic::{Limited, floor, real};
use crate::congestion_control::RateSample;

/// `MinPipeCwnd`, in segments.
pub(super) const MIN_PIPE_SEGMENTS: f64 = 4.0;
/// Fraction of the estimated bandwidth at which the sender paces (`PacingMarginPercent`).
const PACED_SHARE: f64 = 0.99;
/// Round-trip time before the first sample, in seconds.
const NOMINAL_RTT: f64 = 1e-3;
/// Maximum send quantum, in bytes.
const MAX_QUANTUM: f64 = 65_536.0;
/// Difference between `MAX_QUANTUM` and the payload of Linux's largest burst, in bytes (`MAX_TCP_HEADER` plus one
/// byte).
const LINUX_QUANTUM_HEADER: f64 = 321.0;
/// Number of send quanta that the hosts hold back.
const OFFLOAD_QUANTA: f64 = 3.0;

impl Bbr3 {
    /// `InitPacingRate`.
    pub(super) fn initialise_pacing_rate(&mut self, srtt: Option<Span>) {
        let measured = srtt.filter(|srtt| !srtt.is_zero()).map(Span::seconds);
        self.has_rtt = measured.is_some();
        let bandwidth = self.initial_cwnd / measured.unwrap_or(NOMINAL_RTT);
        self.pacing_rate = self.paced(State::Startup.pacing_gain(self.profile) * bandwidth);
    }

    /// `SetPacingRate`.
    pub(super) fn update_pacing_rate(&mut self, srtt: Option<Span>) {
        if !self.has_rtt && srtt.is_some() {
            self.initialise_pacing_rate(srtt);
        }
        self.set_pacing_rate(self.state.pacing_gain(self.profile));
    }

    /// `SetPacingRateWithGain`.
    pub(super) fn set_pacing_rate(&mut self, gain: f64) {
        let rate = self.paced(gain * self.bw * PACED_SHARE);
        if self.full.is_reached || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// Returns a pacing rate of at least one segment per second.
    fn paced(&self, rate: f64) -> f64 {
        rate.at_least(self.smss)
    }

    /// Returns the send quantum (`SetSendQuantum`; Linux: `bbr_tso_segs_goal`).
    fn send_quantum(&self) -> f64 {
        match self.profile {
            Profile::Draft => (self.pacing_rate * 1e-3).at_most(MAX_QUANTUM).at_least(2.0 * self.smss),
            Profile::Linux => {
                let halvings = self.min_rtt.delay.map_or(u64::MAX, |delay| (delay.nanos() / 1000) >> 9);
                let of_rtt = if halvings < 32 { (65_536_u64 >> halvings) as f64 } else { 0.0 };
                let bytes = (self.pacing_rate / 1024.0 + of_rtt).at_most(MAX_QUANTUM - LINUX_QUANTUM_HEADER);
                floor(bytes / self.smss).at_least(2.0) * self.smss
            }
        }
    }

    /// `BDPMultiple`.
    pub(super) fn bdp(&self, bw: f64, gain: f64) -> f64 {
        self.min_rtt.delay.map_or(self.initial_cwnd, |delay| gain * bw * delay.seconds())
    }

    /// `QuantizationBudget`.
    fn with_budget(&self, inflight: f64) -> f64 {
        let least = (OFFLOAD_QUANTA * self.send_quantum()).at_least(MIN_PIPE_SEGMENTS * self.smss);
        let more = if self.state == State::Up { 2.0 * self.smss } else { 0.0 };
        inflight.at_least(least) + more
    }

    /// `Inflight`.
    pub(super) fn inflight(&self, bw: f64, gain: f64) -> f64 {
        self.with_budget(self.bdp(bw, gain))
    }

    /// Returns the amount of data that will be in the network when the next paced segment departs (Linux:
    /// `bbr_packets_in_net_at_edt`).
    pub(super) fn inflight_at_departure(&self, in_flight: u64, sample: &RateSample) -> f64 {
        let delivered = self.bw * sample.pacing_delay.seconds();
        let is_growing = self.state.pacing_gain(self.profile) > 1.0;
        let departing = if is_growing { self.send_quantum() } else { 0.0 };
        (real(in_flight) + departing - delivered).at_least(0.0)
    }

    /// `SetCwnd`.
    pub(super) fn update_cwnd(&mut self, sample: &RateSample) {
        let least = MIN_PIPE_SEGMENTS * self.smss;
        if sample.newly_acked > 0 {
            let acked = real(sample.newly_acked);
            let max_inflight =
                self.with_budget(self.bdp(self.bw, self.state.cwnd_gain()) + self.extra_acked());
            let is_early = match self.profile {
                Profile::Draft => real(sample.delivered) < self.initial_cwnd,
                Profile::Linux => self.cwnd < 2.0 * self.initial_cwnd,
            };
            if self.full.is_reached {
                self.cwnd = (self.cwnd + acked).at_most(max_inflight);
            } else if self.cwnd < max_inflight || is_early {
                self.cwnd += acked;
            }
            self.cwnd = self.cwnd.at_least(least);
        }
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.at_most(self.probe_rtt_cwnd());
        }
        self.bound_cwnd(least);
    }

    /// `BoundCwndForModel`.
    fn bound_cwnd(&mut self, least: f64) {
        let longterm = match self.state {
            State::Down | State::Refill | State::Up => self.longterm,
            State::Cruise | State::ProbeRtt => self.longterm_with_headroom(),
            State::Startup | State::Drain => f64::INFINITY,
        };
        let cap = longterm.at_most(self.shortterm.inflight).at_least(least);
        self.cwnd = self.cwnd.at_most(cap);
    }
}
