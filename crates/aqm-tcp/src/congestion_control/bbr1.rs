//! BBR version 1 of Linux: the window and the pacing rate follow a model of the path, which consists of the
//! bottleneck's bandwidth (maximum delivery rate over the last ten round trips) and the round-trip time without
//! queueing (minimum over the last ten seconds). Neither losses nor marks reduce the values of the model.
//!
//! N. Cardwell, Y. Cheng, C. S. Gunn, S. H. Yeganeh, V. Jacobson, "BBR: Congestion-Based Congestion Control", ACM Queue
//! 14(5), 2016; Linux 6.1: `net/ipv4/tcp_bbr.c`. Names in backticks are functions of this file.
//!
//! Differences from Linux: Rates and volumes are real numbers (in Linux: integers); only the target of the window is
//! rounded as in Linux. Times have no granularity (Linux uses ticks for `min_rtt_stamp` and `probe_rtt_done_stamp`).
//! The model begins with the first transmission (in Linux: at the end of the handshake). An excess of acknowledged data
//! is not limited to 2^20 segments.

mod policer;
#[cfg(test)]
mod tests;

use aqm_net::{Instant, Rng, Span, Streams, parameters};

use super::ack_aggregation::{AckInterval, TwoWindowMax};
use super::window::Window;
use super::windowed_max::WindowedMax;
use super::{
    AckInfo, AnyControl, Build, Congestion, CongestionControl, ControlReport, LostSegment, RateSample,
    RecoveryPhase, SenderState, Transmit, WindowEvent,
};
use crate::arithmetic::{Limited, ceil, floor, real};
use policer::{Event, Interval, Policer, Verdict};

parameters! {
    /// BBR version 1 (Linux 6.1): paces at the measured bandwidth and keeps at most two bandwidth-delay products of
    /// data in the network.
    pub struct Config {
        /// Whether BBR detects a token-bucket policer from losses and then paces at the rate that the policer permits.
        pub policer_detection: bool = true, "Linux 6.1: `bbr_lt_bw_sampling`";
    }
}

impl Build for Config {
    fn uses_rates(&self) -> bool {
        true
    }

    fn uses_random(&self) -> bool {
        true
    }

    fn build(&self) -> AnyControl {
        AnyControl::of(Bbr1::new(self))
    }
}

/// Pacing and window gain in `STARTUP` (`bbr_high_gain`), about 2/ln(2).
const HIGH_GAIN: f64 = 739.0 / 256.0;
/// Pacing gain in `DRAIN` (`bbr_drain_gain`).
const DRAIN_GAIN: f64 = 88.0 / 256.0;
/// Window gain in `PROBE_BW` (`bbr_cwnd_gain`).
const CWND_GAIN: f64 = 2.0;
/// Pacing gains in the phases of `PROBE_BW` (`bbr_pacing_gain`).
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Number of phases from which the first phase is drawn at random (`bbr_cycle_rand`).
const RANDOM_PHASES: u64 = 7;
/// Length of the bandwidth filter, in rounds (`bbr_bw_rtts`).
const BANDWIDTH_ROUNDS: u64 = 10;
/// Length of the filter for the minimum round-trip time (`bbr_min_rtt_win_sec`).
const MIN_RTT_WINDOW: Span = Span::from_millis(10_000);
/// Duration of `PROBE_RTT` (`bbr_probe_rtt_mode_ms`).
const PROBE_RTT_DURATION: Span = Span::from_millis(200);
/// Minimum window, in segments (`bbr_cwnd_min_target`).
const MIN_CWND: f64 = 4.0;
/// Window while there is no round-trip sample, and amount of delivered data below which the bandwidth is not yet
/// considered reliable; in segments (`TCP_INIT_CWND`).
const INITIAL_CWND: f64 = 10.0;
/// Factor by which the bandwidth grows if the path is not yet full (`bbr_full_bw_thresh`).
const FULL_GROWTH: f64 = 1.25;
/// Number of rounds without this growth after which the path is considered full (`bbr_full_bw_cnt`).
const FULL_ROUNDS: u32 = 3;
/// Pacing rate at a gain of 1, as a fraction of the bandwidth (`bbr_pacing_margin_percent`).
const PACED_SHARE: f64 = 0.99;
/// Round-trip time before the first sample (`USEC_PER_MSEC`), in seconds.
const NOMINAL_RTT: f64 = 1e-3;
/// Length of each of the two windows over which the excess of acknowledged data is measured, in rounds
/// (`bbr_extra_acked_win_rtts`).
const EXCESS_ROUNDS: u32 = 5;
/// Limit of the excess, as a transmission time at the estimated bandwidth, in seconds (`bbr_extra_acked_max_us`).
const MAX_EXCESS: f64 = 0.1;
/// Minimum pacing rate in bytes per second: one unit of Linux's bandwidth estimate, 715 bit/s.
const MIN_RATE: f64 = 90.0;

/// States (`enum bbr_mode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// State of BBR version 1 for one sender. Bandwidths and rates are in bytes per second, and windows are in segments.
struct Bbr1 {
    mode: Mode,
    rng: Rng,
    /// Payload of a full segment, in bytes; 0 before the first transmission.
    mss: f64,
    pacing_gain: f64,
    cwnd_gain: f64,
    pacing_rate: f64,
    /// Number of segments sent back to back at the pacing rate (`bbr_tso_segs_goal`).
    burst: f64,
    /// Whether the pacing rate is based on a measured round-trip time.
    has_rtt: bool,
    max_bandwidth: WindowedMax,
    rounds: u64,
    next_round_delivered: u64,
    is_round_start: bool,
    /// Minimum round-trip time, in whole microseconds.
    min_rtt: Option<Span>,
    min_rtt_at: Instant,
    /// End of `PROBE_RTT`, which is set once the window is small enough.
    probe_rtt_until: Option<Instant>,
    is_probe_rtt_round_done: bool,
    is_idle_restart: bool,
    full_bandwidth: f64,
    full_rounds: u32,
    is_full: bool,
    cycle_phase: usize,
    cycle_since: Instant,
    /// Recovery phase at the last acknowledgement (`prev_ca_state`).
    phase: RecoveryPhase,
    conserves_packets: bool,
    /// Window before the last recovery or `PROBE_RTT`.
    prior_cwnd: f64,
    ack_interval: AckInterval,
    excess: TwoWindowMax,
    policer: Option<Policer>,
    /// State of the connection at the last acknowledgement.
    last: Interval,
}

impl CongestionControl for Bbr1 {
    fn on_ack(&mut self, _window: &mut Window, _ack: &AckInfo) {}

    fn reduce(&mut self, window: &mut Window, _congestion: &Congestion) {
        self.save_window(window);
    }

    fn on_event(&mut self, event: WindowEvent) {
        if event == WindowEvent::Undone {
            (self.full_bandwidth, self.full_rounds) = (0.0, 0);
            let last = self.last;
            if let Some(policer) = &mut self.policer {
                policer.restart(last);
            }
        }
    }

    fn on_transmit(&mut self, window: &mut Window, transmit: &Transmit) {
        if self.mss == 0.0 {
            self.begin(window, transmit);
        }
        if transmit.is_app_limited {
            self.is_idle_restart = true;
            self.ack_interval.restart(transmit.now);
            match self.mode {
                Mode::ProbeBw => self.set_pacing_rate(1.0),
                Mode::ProbeRtt => self.check_probe_rtt_done(window, transmit.now),
                Mode::Startup | Mode::Drain => {}
            }
        }
    }

    fn on_lost(&mut self, _window: &mut Window, lost: &LostSegment) {
        self.last.lost = lost.total_lost;
    }

    fn on_rates(&mut self, window: &mut Window, sample: &RateSample) {
        self.last = Interval { at: sample.now, delivered: sample.delivered, lost: sample.lost };
        let rate = self.update_bandwidth(sample);
        if rate.is_some() {
            self.update_excess(window, sample);
        }
        self.update_cycle(sample);
        self.check_full(sample);
        self.check_drain(window, sample);
        self.update_min_rtt(window, sample);
        self.update_gains();
        self.update_pacing_rate(window, sample.srtt);
        self.update_window(window, sample);
    }

    /// `bbr_set_state` and `tcp_enter_loss`.
    fn on_timeout(&mut self, window: &mut Window, in_flight: u64, mss: u64) {
        self.phase = RecoveryPhase::Loss;
        self.full_bandwidth = 0.0;
        self.is_round_start = true;
        self.sample_policer(true, false);
        window.cwnd = in_flight as f64 / mss as f64 + 1.0;
    }

    fn limits_rate(&self) -> bool {
        self.mode == Mode::ProbeRtt
    }

    fn set_random(&mut self, random: Rng) {
        self.rng = random;
    }

    fn pacing_rate(&self) -> Option<f64> {
        (self.pacing_rate > 0.0).then_some(self.pacing_rate)
    }

    fn report(&self) -> ControlReport {
        let state = match self.mode {
            Mode::Startup => SenderState::Startup,
            Mode::Drain => SenderState::Drain,
            Mode::ProbeBw => SenderState::ProbeBw,
            Mode::ProbeRtt => SenderState::ProbeRtt,
        };
        let bandwidth = Some(self.bandwidth()).filter(|&bandwidth| bandwidth > 0.0);
        ControlReport { state: Some(state), bandwidth, min_rtt: self.min_rtt, ..ControlReport::default() }
    }
}

impl Bbr1 {
    fn new(config: &Config) -> Self {
        Self {
            mode: Mode::Startup,
            rng: Streams::new(0).named("tcp/congestion-control", 0),
            mss: 0.0,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            pacing_rate: 0.0,
            burst: 1.0,
            has_rtt: false,
            max_bandwidth: WindowedMax::default(),
            rounds: 0,
            next_round_delivered: 0,
            is_round_start: false,
            min_rtt: None,
            min_rtt_at: Instant::START,
            probe_rtt_until: None,
            is_probe_rtt_round_done: false,
            is_idle_restart: false,
            full_bandwidth: 0.0,
            full_rounds: 0,
            is_full: false,
            cycle_phase: 0,
            cycle_since: Instant::START,
            phase: RecoveryPhase::Open,
            conserves_packets: false,
            prior_cwnd: 0.0,
            ack_interval: AckInterval::default(),
            excess: TwoWindowMax::default(),
            policer: config.policer_detection.then(Policer::default),
            last: Interval::default(),
        }
    }

    /// `bbr_init`.
    fn begin(&mut self, window: &Window, transmit: &Transmit) {
        self.mss = transmit.mss as f64;
        self.min_rtt = transmit.srtt.map(whole_micros).filter(|srtt| !srtt.is_zero());
        self.min_rtt_at = transmit.now;
        self.ack_interval.restart(transmit.now);
        self.initialise_pacing_rate(window, transmit.srtt);
    }

    /// `bbr_init_pacing_rate_from_rtt`.
    fn initialise_pacing_rate(&mut self, window: &Window, srtt: Option<Span>) {
        let measured = srtt.filter(|srtt| !srtt.is_zero()).map(Span::seconds);
        self.has_rtt = measured.is_some();
        let rate = window.cwnd * self.mss / measured.unwrap_or(NOMINAL_RTT);
        self.pace((HIGH_GAIN * rate * PACED_SHARE).max(MIN_RATE));
    }

    /// Sets the pacing rate and the size of a burst, which changes only with the pacing rate.
    fn pace(&mut self, rate: f64) {
        /// Maximum payload (`GSO_MAX_SIZE - 1 - MAX_TCP_HEADER`).
        const MAX_BYTES: f64 = 65_536.0 - 1.0 - 320.0;
        /// Rate below which single segments are sent (`bbr_min_tso_rate`), in bytes per second.
        const MIN_BURST_RATE: f64 = 150_000.0;
        if rate != self.pacing_rate {
            let least = if rate < MIN_BURST_RATE { 1.0 } else { 2.0 };
            self.burst = floor((rate / 1024.0).min(MAX_BYTES) / self.mss).clamp(least, 127.0);
            self.pacing_rate = rate;
        }
    }

    /// Returns the estimated bandwidth (`bbr_bw`): the policer's rate if a policer was detected, otherwise the maximum
    /// of the recent delivery rates.
    fn bandwidth(&self) -> f64 {
        let policed = self.policer.as_ref().and_then(Policer::rate);
        policed.unwrap_or_else(|| self.max_bandwidth.get())
    }

    /// Updates the bandwidth and the number of rounds (`bbr_update_bw`). Returns the delivery rate, if there is a
    /// sample.
    fn update_bandwidth(&mut self, sample: &RateSample) -> Option<f64> {
        self.is_round_start = false;
        let segment = sample.segment?;
        let rate = segment.rate()?;
        if segment.delivered_when_sent >= self.next_round_delivered {
            self.next_round_delivered = sample.delivered;
            self.rounds += 1;
            self.is_round_start = true;
            self.conserves_packets = false;
        }
        self.sample_policer(sample.newly_lost > 0, segment.is_app_limited);
        if !segment.is_app_limited || rate >= self.max_bandwidth.get() {
            self.max_bandwidth.add(BANDWIDTH_ROUNDS, self.rounds, rate);
        }
        Some(rate)
    }

    /// `bbr_lt_bw_sampling`.
    fn sample_policer(&mut self, has_losses: bool, is_app_limited: bool) {
        let Some(policer) = &mut self.policer else { return };
        let event = Event {
            now: self.last,
            has_losses,
            is_app_limited,
            is_round_start: self.is_round_start,
            is_probing: self.mode == Mode::ProbeBw,
        };
        match policer.sample(&event) {
            Verdict::Unchanged => {}
            Verdict::Detected => self.pacing_gain = 1.0,
            Verdict::Expired => self.start_probe_bw(),
        }
    }

    /// `bbr_update_ack_aggregation`.
    fn update_excess(&mut self, window: &Window, sample: &RateSample) {
        if self.is_round_start {
            self.excess.on_round(EXCESS_ROUNDS);
        }
        let acked = real(sample.newly_acked) / self.mss;
        let excess = self.ack_interval.excess(sample.now, acked, self.bandwidth() / self.mss);
        self.excess.add(excess.at_most(window.cwnd));
    }

    /// Returns the amount of data in flight that the gain `gain` requires, in segments (`bbr_bdp`).
    fn bdp(&self, bandwidth: f64, gain: f64) -> f64 {
        let Some(min_rtt) = self.min_rtt else { return INITIAL_CWND };
        ceil(gain * bandwidth * min_rtt.seconds() / self.mss)
    }

    /// Adds the amount of data that the hosts hold back (`bbr_quantization_budget`).
    fn with_budget(&self, cwnd: f64) -> f64 {
        let even = 2.0 * ceil((cwnd + 3.0 * self.burst) / 2.0);
        let is_probing = self.mode == Mode::ProbeBw && self.cycle_phase == 0;
        if is_probing { even + 2.0 } else { even }
    }

    /// `bbr_inflight`.
    fn inflight(&self, bandwidth: f64, gain: f64) -> f64 {
        self.with_budget(self.bdp(bandwidth, gain))
    }

    /// Returns the number of segments that will be in the network when the next paced segment departs
    /// (`bbr_packets_in_net_at_edt`).
    fn inflight_at_departure(&self, in_flight: u64, sample: &RateSample) -> f64 {
        let delivered = floor(self.bandwidth() * sample.pacing_delay.seconds() / self.mss);
        let departing = if self.pacing_gain > 1.0 { self.burst } else { 0.0 };
        (real(in_flight) / self.mss + departing - delivered).at_least(0.0)
    }

    /// `bbr_update_cycle_phase`.
    fn update_cycle(&mut self, sample: &RateSample) {
        if self.mode == Mode::ProbeBw && self.is_phase_over(sample) {
            self.advance_cycle(sample.now);
        }
    }

    /// `bbr_is_next_cycle_phase`.
    fn is_phase_over(&self, sample: &RateSample) -> bool {
        let is_full_length = self.min_rtt.is_some_and(|rtt| sample.now.since(self.cycle_since) > rtt);
        if self.pacing_gain == 1.0 {
            return is_full_length;
        }
        let inflight = self.inflight_at_departure(sample.in_flight_before, sample);
        let bandwidth = self.max_bandwidth.get();
        if self.pacing_gain > 1.0 {
            let has_filled = || inflight >= self.inflight(bandwidth, self.pacing_gain);
            return is_full_length && (sample.newly_lost > 0 || has_filled());
        }
        is_full_length || inflight <= self.inflight(bandwidth, 1.0)
    }

    /// `bbr_advance_cycle_phase`.
    fn advance_cycle(&mut self, now: Instant) {
        self.cycle_phase = (self.cycle_phase + 1) % CYCLE.len();
        self.cycle_since = now;
    }

    /// `bbr_reset_probe_bw_mode`.
    fn start_probe_bw(&mut self) {
        self.mode = Mode::ProbeBw;
        self.cycle_phase = CYCLE.len() - 1 - self.rng.below(RANDOM_PHASES) as usize;
        self.advance_cycle(self.last.at);
    }

    /// Checks whether the bandwidth has stopped growing (`bbr_check_full_bw_reached`).
    fn check_full(&mut self, sample: &RateSample) {
        let is_app_limited = sample.segment.is_some_and(|segment| segment.is_app_limited);
        if self.is_full || !self.is_round_start || is_app_limited {
            return;
        }
        if self.max_bandwidth.get() >= FULL_GROWTH * self.full_bandwidth {
            (self.full_bandwidth, self.full_rounds) = (self.max_bandwidth.get(), 0);
            return;
        }
        self.full_rounds += 1;
        self.is_full = self.full_rounds >= FULL_ROUNDS;
    }

    /// `bbr_check_drain`.
    fn check_drain(&mut self, window: &mut Window, sample: &RateSample) {
        if self.mode == Mode::Startup && self.is_full {
            self.mode = Mode::Drain;
            window.ssthresh = self.inflight(self.max_bandwidth.get(), 1.0);
        }
        if self.mode == Mode::Drain
            && self.inflight_at_departure(sample.in_flight, sample)
                <= self.inflight(self.max_bandwidth.get(), 1.0)
        {
            self.start_probe_bw();
        }
    }

    /// `bbr_update_min_rtt`.
    fn update_min_rtt(&mut self, window: &mut Window, sample: &RateSample) {
        let now = sample.now;
        let has_expired = now > self.min_rtt_at + MIN_RTT_WINDOW;
        if let Some(rtt) = sample.rtt.map(whole_micros)
            && (self.min_rtt.is_none_or(|least| rtt < least) || (has_expired && !is_delayed(sample)))
        {
            (self.min_rtt, self.min_rtt_at) = (Some(rtt.max(Span::from_nanos(1000))), now);
        }
        if has_expired && !self.is_idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_window(window);
            self.probe_rtt_until = None;
        }
        if self.mode == Mode::ProbeRtt {
            if self.probe_rtt_until.is_some() {
                self.is_probe_rtt_round_done |= self.is_round_start;
                if self.is_probe_rtt_round_done {
                    self.check_probe_rtt_done(window, now);
                }
            } else if real(sample.in_flight) <= MIN_CWND * self.mss {
                self.probe_rtt_until = Some(now + PROBE_RTT_DURATION);
                self.is_probe_rtt_round_done = false;
                self.next_round_delivered = sample.delivered;
            }
        }
        if sample.newly_acked > 0 {
            self.is_idle_restart = false;
        }
    }

    /// `bbr_check_probe_rtt_done`.
    fn check_probe_rtt_done(&mut self, window: &mut Window, now: Instant) {
        if self.probe_rtt_until.is_none_or(|until| now <= until) {
            return;
        }
        self.min_rtt_at = now;
        window.cwnd = window.cwnd.max(self.prior_cwnd);
        if self.is_full {
            self.start_probe_bw();
        } else {
            self.mode = Mode::Startup;
        }
    }

    /// `bbr_update_gains`.
    fn update_gains(&mut self) {
        let is_policed = self.policer.as_ref().is_some_and(|policer| policer.rate().is_some());
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw => (if is_policed { 1.0 } else { CYCLE[self.cycle_phase] }, CWND_GAIN),
            Mode::ProbeRtt => (1.0, 1.0),
        };
    }

    /// `bbr_set_pacing_rate`.
    fn update_pacing_rate(&mut self, window: &Window, srtt: Option<Span>) {
        if !self.has_rtt && srtt.is_some() {
            self.initialise_pacing_rate(window, srtt);
        }
        self.set_pacing_rate(self.pacing_gain);
    }

    fn set_pacing_rate(&mut self, gain: f64) {
        let rate = (gain * self.bandwidth() * PACED_SHARE).at_least(MIN_RATE);
        if self.is_full || rate > self.pacing_rate {
            self.pace(rate);
        }
    }

    /// `bbr_save_cwnd`.
    fn save_window(&mut self, window: &Window) {
        let is_open = matches!(self.phase, RecoveryPhase::Open | RecoveryPhase::Marked);
        self.prior_cwnd = if is_open && self.mode != Mode::ProbeRtt {
            window.cwnd
        } else {
            self.prior_cwnd.max(window.cwnd)
        };
    }

    /// `bbr_set_cwnd`.
    fn update_window(&mut self, window: &mut Window, sample: &RateSample) {
        if sample.newly_acked > 0 {
            let acked = real(sample.newly_acked) / self.mss;
            let cwnd = self.recovery_window(window.cwnd, acked, sample);
            window.cwnd = if self.conserves_packets { cwnd } else { self.open_window(cwnd, acked, sample) };
        }
        if self.mode == Mode::ProbeRtt {
            window.cwnd = window.cwnd.min(MIN_CWND);
        }
    }

    /// Returns the window that results if a window of `cwnd` segments is opened towards its target.
    fn open_window(&self, cwnd: f64, acked: f64, sample: &RateSample) -> f64 {
        let bandwidth = self.bandwidth();
        let excess = if self.is_full { self.excess.get() } else { 0.0 };
        let excess = floor(excess.at_most(bandwidth * MAX_EXCESS / self.mss));
        let target = self.with_budget(self.bdp(bandwidth, self.cwnd_gain) + excess);
        let cwnd = if self.is_full {
            (cwnd + acked).at_most(target)
        } else if cwnd < target || real(sample.delivered) < INITIAL_CWND * self.mss {
            cwnd + acked
        } else {
            cwnd
        };
        cwnd.at_least(MIN_CWND)
    }

    /// Returns the window after the adjustments for loss recovery (`bbr_set_cwnd_to_recover_or_restore`).
    fn recovery_window(&mut self, cwnd: f64, acked: f64, sample: &RateSample) -> f64 {
        let recovers = |phase| matches!(phase, RecoveryPhase::Recovery | RecoveryPhase::Loss);
        let conserved = real(sample.in_flight) / self.mss + acked;
        let mut cwnd = cwnd;
        if sample.newly_lost > 0 {
            cwnd = (cwnd - sample.newly_lost as f64 / self.mss).max(1.0);
        }
        if sample.phase == RecoveryPhase::Recovery && self.phase != RecoveryPhase::Recovery {
            self.conserves_packets = true;
            self.next_round_delivered = sample.delivered;
            cwnd = conserved;
        } else if recovers(self.phase) && !recovers(sample.phase) {
            self.conserves_packets = false;
            cwnd = cwnd.max(self.prior_cwnd);
        }
        self.phase = sample.phase;
        if self.conserves_packets { cwnd.at_least(conserved) } else { cwnd }
    }
}

/// Returns a round-trip time in whole microseconds, as measured by Linux.
fn whole_micros(rtt: Span) -> Span {
    Span::from_nanos(rtt.nanos() / 1000 * 1000)
}

/// Returns whether the receiver may have delayed the acknowledgement because the segment was not full
/// (`FLAG_ACK_MAYBE_DELAYED`).
fn is_delayed(sample: &RateSample) -> bool {
    let is_alone = sample.segment.is_some_and(|segment| segment.delivered == sample.newly_acked);
    is_alone && sample.newly_acked < sample.mss && sample.phase == RecoveryPhase::Open
}
