//! The sending half of an endpoint, which sends and retransmits data and processes acknowledgements.
//!
//! W. Eddy, "Transmission Control Protocol", RFC 9293, 2022; J. Nagle, RFC 896, 1984. A [`LossRecovery`] detects
//! losses, and a [`Controller`] sets the congestion window. This file connects the two components. The other files
//! process acknowledgements (`ack.rs`), apply acknowledgements, losses, marks and timeouts to the window
//! (`congestion.rs`), respond to marks (`ecn.rs`), pace segments (`pacer.rs`), measure delivery rates for models of the
//! path (`rates.rs`), record how much of the window is used (`cwnd_validation.rs`, `rate_limited_increase.rs`), restart
//! the retransmission timer (`rto_restart.rs`), and delay segments randomly (`overhead.rs`).

mod ack;
mod congestion;
mod cwnd_validation;
mod ecn;
mod overhead;
mod pacer;
mod rate_limited_increase;
mod rates;
mod rto_restart;

use aqm_net::{Ecn, Instant, Rng};

use crate::config::CheckedConfig;
use crate::config::connection::Nagle;
use crate::config::cwnd::{GrowthWhenLimited, Hint};
use crate::config::ecn::Feedback;
use crate::config::pacing::PacingMode;
use crate::config::receiver::DelayedAck;
use crate::config::rto::RestartedBy;
use crate::congestion_control::{Controller, RenoConfig};
use crate::counts::SenderCounts;
use crate::recovery::{
    AnyRecovery, BoxedRecovery, LossRecovery, ProbeTimeouts, Stream, Transmission, Windows,
};
use crate::segment::{Flags, Segment};
use crate::timer::Timer;
use congestion::AckContext;
use cwnd_validation::CwndUsage;
use ecn::EcnResponse;
pub(crate) use overhead::Overhead;
use pacer::Pacer;
use rate_limited_increase::MaxFlight;

/// The sending half of an endpoint. The fields are ordered so that the data needed for each packet occupies few cache
/// lines: first the state that acknowledgements change, then the timer, and last the state that rarely changes.
#[repr(C)]
pub(crate) struct Sender {
    recovery: AnyRecovery,
    /// Sequence number that follows the data that the application has written so far.
    pub end: u64,
    /// Congestion window in segments, minus the number of segments by which partial acknowledgements have reduced the
    /// window.
    cwnd: f64,
    congestion: Controller,
    pub timer: Timer,
    cold: Option<Box<ColdState>>,
    ecn: Option<Box<EcnResponse>>,
    /// Whether a FIN follows the data.
    pub fin: bool,
    in_recovery: bool,
    /// Whether a partial acknowledgement has arrived in the current recovery.
    has_partial_ack: bool,
    /// Whether the recovery records the departure time of each segment.
    records_times: bool,
    /// Whether the congestion control uses round-trip samples.
    uses_samples: bool,
    /// Whether the congestion control uses delivery rates.
    uses_rates: bool,
    /// Time of the last transmission of data.
    last_sent: Instant,
    pub counts: SenderCounts,
    /// Time at which the handshake was completed; `NEVER` before the handshake is complete.
    pub established_at: Instant,
}

/// State that only some senders use.
#[derive(Default)]
struct ColdState {
    /// Random delay of segments before they are sent.
    overhead: Option<Overhead>,
    /// State of pacing; `None` if the sender is not paced.
    pacer: Option<Pacer>,
    usage: CwndUsage,
    max_flight: Option<MaxFlight>,
    prior: PriorWindow,
    /// Timestamp of the last acknowledgement.
    timestamp: Instant,
}

impl ColdState {
    /// Returns the time at which the current delay ends; `NEVER` if no segment is waiting.
    #[inline]
    fn timer(&self) -> Instant {
        let delay = self.overhead.as_ref().map_or(Instant::NEVER, Overhead::until);
        self.pacer.as_ref().map_or(delay, |pacer| delay.min(pacer.until()))
    }
}

/// Window and `ssthresh` before the last reduction, in segments, which are restored if the reduction is undone.
#[derive(Clone, Copy, Default)]
struct PriorWindow {
    cwnd: f64,
    ssthresh: f64,
}

impl Sender {
    pub fn new(tcp: &CheckedConfig) -> Self {
        let mut recovery = AnyRecovery::new(&tcp.config);
        let mut congestion = Controller::new(&*tcp.config.congestion_control, 1.0, first_ssthresh(tcp));
        if tcp.is_paced {
            congestion.set_paced();
        }
        let uses_rates = congestion.is_model_based();
        if uses_rates {
            recovery.measure_rate(true);
        }
        let cold = (tcp.is_paced || uses_rates || tcp.is_quic)
            .then(|| Box::new(ColdState { pacer: tcp.is_paced.then(Pacer::new), ..ColdState::default() }));
        Self {
            records_times: recovery.records_times(),
            uses_samples: congestion.uses_samples(),
            uses_rates,
            recovery,
            timer: Timer::new(&tcp.config.rto),
            cwnd: 1.0,
            congestion,
            end: 0,
            last_sent: Instant::START,
            counts: SenderCounts::default(),
            established_at: Instant::NEVER,
            cold,
            ecn: None,
            fin: false,
            in_recovery: false,
            has_partial_ack: false,
        }
    }

    /// Makes the sender delay segments randomly.
    pub fn set_overhead(&mut self, overhead: Overhead) {
        self.cold.get_or_insert_default().overhead = Some(overhead);
    }

    /// Records the timestamp of an acknowledgement.
    pub fn set_timestamp(&mut self, timestamp: Instant) {
        self.cold.get_or_insert_default().timestamp = timestamp;
    }

    /// Returns the timestamp of the last acknowledgement, which the next data segment echoes (RFC 7323).
    pub fn timestamp(&self) -> Instant {
        self.cold.as_ref().map_or(Instant::START, |cold| cold.timestamp)
    }

    /// Sets the random number generator of the congestion control.
    pub fn set_control_random(&mut self, random: Rng) {
        self.congestion.set_random(random);
    }

    /// Makes the sender's packets ECN-capable. Both endpoints have agreed on `feedback`.
    pub fn set_ecn(&mut self, feedback: Feedback, tcp: &CheckedConfig) {
        self.ecn = Some(Box::new(EcnResponse::new(tcp.config.ecn.response, feedback, &tcp.ecn)));
    }

    /// Records the ECN bits of the received SYN. With accurate feedback, the SYN/ACK reports these bits.
    pub fn set_syn_ecn(&mut self, ecn: Ecn) {
        if let Some(response) = &mut self.ecn {
            response.syn_ecn = ecn;
        }
    }

    /// Returns the ECN bits of the received SYN.
    pub fn syn_ecn(&self) -> Ecn {
        self.ecn.as_ref().map_or(Ecn::NotEct, |response| response.syn_ecn)
    }

    /// Returns the feedback on which both endpoints agreed; `None` if ECN is not used.
    pub fn feedback(&self) -> Option<Feedback> {
        self.ecn.as_ref().map(|ecn| ecn.feedback())
    }

    /// Returns the ECN bits with which a pure acknowledgement is sent.
    pub fn ecn_of_ack(&self) -> Ecn {
        self.ecn.as_ref().map_or(Ecn::NotEct, |ecn| ecn.of_ack())
    }

    /// Replaces the congestion control with Reno, if the endpoints did not agree on the ECN feedback that the
    /// congestion control requires.
    pub fn fall_back(&mut self, tcp: &CheckedConfig) {
        let (cwnd, ssthresh) = (self.congestion.cwnd(), self.congestion.ssthresh());
        self.congestion = Controller::new(&RenoConfig::default(), cwnd, ssthresh);
        (self.uses_samples, self.uses_rates) = (false, false);
        self.recovery.measure_rate(false);
        if let Some(cold) = self.cold.as_mut().filter(|_| tcp.config.pacing.mode != PacingMode::On) {
            cold.pacer = None;
        }
    }

    /// Sets the initial window after the handshake. `after_syn_loss` states whether a retransmission was necessary
    /// during the handshake.
    pub fn begin(&mut self, after_syn_loss: bool, tcp: &CheckedConfig) {
        let config = &tcp.config.cwnd;
        let cwnd = if after_syn_loss { config.initial_after_syn_loss } else { config.initial };
        let ssthresh = config.ssthresh_after_syn_loss.filter(|_| after_syn_loss);
        self.congestion.open(cwnd as f64, ssthresh.unwrap_or(first_ssthresh(tcp)));
        self.timer.retries = 0;
        if tcp.is_quic {
            self.timer.replace();
        } else {
            self.timer.stop();
        }
        self.refresh(tcp);
        self.update_pacing(tcp);
    }

    /// Adds `bytes` bytes that the application has written. After an idle period, the window is reset (RFC 5681, 4.1).
    pub fn write(&mut self, bytes: u64, now: Instant, tcp: &CheckedConfig) {
        self.check_app_limited(tcp);
        if self.recovery.sent() > 0 && self.recovery.una() == self.recovery.sent() {
            self.end_pause(now, tcp);
            self.refresh(tcp);
        }
        self.end = self.end.saturating_add(bytes).min(ENDLESS);
    }

    /// Processes the expiry of the random delay and of the recovery's timer. The caller processes the expiry of the
    /// retransmission timer.
    pub fn on_timer(&mut self, now: Instant, tcp: &CheckedConfig) {
        if let Some(overhead) = self.cold.as_mut().and_then(|cold| cold.overhead.as_mut()) {
            overhead.on_timer(now);
        }
        if now >= self.recovery.timer() {
            self.check_app_limited(tcp);
            let at = self.timer.context(now, &tcp.config.rto);
            let in_flight = self.recovery.outstanding();
            let outcome = self.recovery.on_timer(at, &tcp.config);
            self.timer.restart(now, &tcp.config.rto);
            self.apply(outcome, AckContext { in_flight, ..AckContext::default() }, now, tcp);
            self.count_from(outcome.since, now, tcp);
        }
    }

    /// Returns the next segment that carries data or a FIN; `None` if no segment can be sent. The caller sets the
    /// acknowledgement fields of the segment.
    #[inline(always)]
    pub fn poll_transmit(&mut self, now: Instant, tcp: &CheckedConfig) -> Option<Segment> {
        if self.cold.is_some() && self.must_wait(now, tcp) {
            return None;
        }
        let next = match self.recovery {
            AnyRecovery::Counting(_) => self.next(now, tcp),
            AnyRecovery::Boxed(_) => self.next_boxed(now, tcp),
        };
        let Some(sending) = next else {
            if tcp.config.cwnd.growth_when_limited == GrowthWhenLimited::GrowsIfUsed {
                self.note_usage(tcp);
            }
            return None;
        };
        self.counts.segments_sent += 1;
        self.last_sent = now;
        let sent =
            if self.cold.is_some() { self.on_cold_sent(sending.len, now, tcp) } else { Instant::START };
        let end = sending.seq + sending.len;
        let fin = end > self.end;
        let len = sending.len - u64::from(fin);
        let mut flags = if fin { Flags::FIN } else { Flags::default() };
        let mut ecn = Ecn::NotEct;
        if sending.is_retransmission {
            self.counts.retransmitted += 1;
            flags = flags.union(Flags::RETRANSMISSION);
            self.timer.forget_within(sending.seq, end);
        } else {
            self.timer.time(end, now);
        }
        if let Some(response) = self.ecn.as_mut().filter(|_| len > 0) {
            let tells;
            (ecn, tells) = response.on_data(sending.is_retransmission);
            flags = flags.union(if tells { Flags::CWR } else { Flags::default() });
        }
        let oldest = sending.is_retransmission && sending.seq == self.recovery.una();
        if oldest && tcp.config.rto.restarted_by == RestartedBy::OldestSegment {
            self.timer.restart(now, &tcp.config.rto);
        }
        self.timer.start(now, &tcp.config.rto);
        if tcp.config.receiver.delayed_ack == DelayedAck::Adaptive && self.pushes(sending.seq, end, tcp) {
            flags = flags.union(Flags::PUSH);
        }
        let header = if len > 0 { tcp.config.connection.header } else { tcp.config.connection.syn_size };
        let wire = (len + header.bytes()) as u16;
        Some(Segment { seq: sending.seq, len: len as u32, wire, flags, ecn, sent, ..Segment::default() })
    }

    /// Returns whether `poll_transmit` may return another segment or may have to update its state. If the result is
    /// `false`, calling `poll_transmit` is unnecessary; if the result is `true`, calling `poll_transmit` may still have
    /// no effect.
    #[inline(always)]
    pub fn may_transmit(&self, tcp: &CheckedConfig) -> bool {
        if let Some(cold) = &self.cold {
            return !cold.pacer.as_ref().is_some_and(Pacer::is_closed);
        }
        tcp.config.cwnd.growth_when_limited == GrowthWhenLimited::GrowsIfUsed
            || match &self.recovery {
                AnyRecovery::Counting(counting) => counting.may_send(),
                AnyRecovery::Boxed(BoxedRecovery::Selective(selective)) => selective.may_send(),
                AnyRecovery::Boxed(BoxedRecovery::Other(_)) => true,
            }
    }

    /// Returns the next transmission that the loss recovery selects.
    #[inline(always)]
    fn next(&mut self, now: Instant, tcp: &CheckedConfig) -> Option<Transmission> {
        let at = self.timer.context(now, &tcp.config.rto);
        self.recovery.next(self.stream(tcp), at)
    }

    /// Like `next`, for a recovery that is stored in a box. This function is separate so that, for a recovery that is
    /// stored without a box, the compiler can keep the arguments in registers.
    #[inline(never)]
    fn next_boxed(&mut self, now: Instant, tcp: &CheckedConfig) -> Option<Transmission> {
        self.next(now, tcp)
    }

    /// Returns the time at which `on_timer` must be called next or the retransmission timer expires, whichever is
    /// earlier; `NEVER` if no timer is running.
    #[inline]
    pub fn next_timer(&self) -> Instant {
        let next = self.timer.at.min(self.recovery.timer());
        match &self.cold {
            Some(cold) => next.min(cold.timer()),
            None => next,
        }
    }

    /// Returns whether pacing has held back a segment until `now`.
    #[inline]
    pub fn departs(&self, now: Instant) -> bool {
        self.cold.as_ref().and_then(|cold| cold.pacer.as_ref()).is_some_and(|pacer| pacer.until() <= now)
    }

    /// Returns whether all written data has been acknowledged, including a FIN.
    #[inline]
    pub fn is_acknowledged(&self) -> bool {
        self.recovery.una() == self.end + u64::from(self.fin)
    }

    /// Returns the oldest unacknowledged byte (`SND.UNA`).
    pub fn una(&self) -> u64 {
        self.recovery.una()
    }

    /// Returns the sequence number that follows all sent data.
    pub fn sent(&self) -> u64 {
        self.recovery.sent()
    }

    /// Returns the numbers of probe timeouts (QUIC only).
    pub fn probe_timeouts(&self) -> ProbeTimeouts {
        self.recovery.probe_timeouts()
    }

    /// Returns the number of duplicate acknowledgements since the last acknowledgement of new data.
    pub fn dupacks(&self) -> u32 {
        self.recovery.dupacks()
    }

    /// Returns the congestion window in segments, excluding window inflation.
    pub fn cwnd(&self) -> f64 {
        self.cwnd
    }

    /// Returns the slow-start threshold in segments.
    pub fn ssthresh(&self) -> f64 {
        self.congestion.ssthresh()
    }

    /// Returns the congestion window that packets report to routers, in whole segments. The reported window is at least
    /// 1 and does not include window inflation.
    #[inline]
    pub fn window_hint(&self, tcp: &CheckedConfig) -> u16 {
        let cwnd = self.whole_window();
        let hint = match tcp.config.cwnd.hint {
            Hint::Clipped => cwnd.min(tcp.config.receiver.window),
            Hint::Raw => cwnd,
            Hint::AtLeastInFlight => cwnd.max(self.recovery.outstanding().div_ceil(tcp.mss)),
        };
        hint.clamp(1, u16::MAX.into()) as u16
    }

    /// Records how much of the window is used after all permitted data has been sent.
    fn note_usage(&mut self, tcp: &CheckedConfig) {
        if self.uses_rates {
            return;
        }
        let is_full = self.recovery.is_full(self.whole_window().saturating_mul(tcp.mss));
        let usage = &mut self.cold.get_or_insert_default().usage;
        usage.note(self.recovery.una(), self.recovery.sent(), is_full);
    }

    /// Returns whether a segment must carry the PSH flag, because the segment contains the end of the data written so
    /// far, or because half a window of data has been sent since the last segment with this flag (Linux:
    /// `forced_push`).
    fn pushes(&self, seq: u64, end: u64, tcp: &CheckedConfig) -> bool {
        let pushed = tcp.config.receiver.window_at_first() / 2 + 1;
        end >= self.end || seq / tcp.mss % pushed == pushed - 1
    }

    /// Returns the window in whole segments. A window that does not fit into 32 bits is in practice unlimited.
    #[inline]
    fn whole_window(&self) -> u64 {
        u64::from(self.cwnd as u32)
    }

    /// Reads the window from the congestion control, and passes the limits to the recovery.
    #[inline(always)]
    fn refresh(&mut self, tcp: &CheckedConfig) {
        self.cwnd = self.congestion.cwnd();
        let deflation = self.recovery.deflation();
        if deflation > 0 {
            self.cwnd = (self.cwnd - f64::from(deflation)).max(1.0);
        }
        let receiver = match tcp.config.receiver.first_window {
            _ if self.is_closed() => 0,
            None => tcp.config.receiver.window,
            Some(_) => tcp.config.receiver.grown_window(self.recovery.una() / tcp.mss),
        };
        let windows = Windows { congestion: self.whole_window(), receiver, mss: tcp.mss };
        self.recovery.set_windows(windows, &tcp.config);
    }

    /// Returns whether the window counts as zero because marks have reduced it below one segment.
    #[inline]
    fn is_closed(&self) -> bool {
        self.cwnd < 1.0 && self.ecn.as_ref().is_some_and(|ecn| ecn.closes_below_a_segment())
    }

    /// Returns the data that may be sent under Nagle's algorithm.
    #[inline]
    fn stream(&self, tcp: &CheckedConfig) -> Stream {
        if tcp.config.connection.nagle == Nagle::On && self.delays_rest(tcp) {
            return Stream { end: self.recovery.sent(), fin: false, mss: tcp.mss };
        }
        Stream { end: self.end, fin: self.fin, mss: tcp.mss }
    }

    /// Returns whether less than one full segment of data is unsent while earlier data is unacknowledged.
    #[cold]
    fn delays_rest(&self, tcp: &CheckedConfig) -> bool {
        let sent = self.recovery.sent();
        (1..tcp.mss).contains(&self.end.saturating_sub(sent)) && self.recovery.una() < sent
    }

    /// Whether pacing holds back all segments at `now`. If the window permits a segment, this segment waits.
    #[inline(always)]
    fn is_paced_out(&mut self, now: Instant, tcp: &CheckedConfig) -> bool {
        let stream = self.stream(tcp);
        let Some(pacer) = self.cold.as_mut().and_then(|cold| cold.pacer.as_mut()) else { return false };
        let is_paced_out = pacer.delays(now, || self.recovery.has_next(stream));
        if is_paced_out && tcp.config.cwnd.growth_when_limited == GrowthWhenLimited::GrowsIfUsed {
            self.note_usage(tcp);
        }
        is_paced_out
    }

    /// Whether pacing or the random delay holds back a segment that the window permits.
    #[cold]
    fn must_wait(&mut self, now: Instant, tcp: &CheckedConfig) -> bool {
        self.is_paced_out(now, tcp)
            || (self.cold.as_ref().is_some_and(|cold| cold.overhead.is_some()) && self.is_delayed(now, tcp))
    }

    /// Whether the random delay holds back a segment that the window permits.
    #[cold]
    fn is_delayed(&mut self, now: Instant, tcp: &CheckedConfig) -> bool {
        let has_segment = self.recovery.has_next(self.stream(tcp));
        let overhead = self.cold.as_mut().and_then(|cold| cold.overhead.as_mut());
        let Some(overhead) = overhead else { return false };
        if !self.recovery.is_urgent(&tcp.config) {
            return overhead.delays(has_segment, now);
        }
        if !has_segment {
            overhead.close();
        }
        false
    }
}

/// End of unlimited data. The value is small enough to prevent sums from overflowing.
pub(crate) const ENDLESS: u64 = u64::MAX - (1 << 33);

fn first_ssthresh(tcp: &CheckedConfig) -> f64 {
    tcp.config.cwnd.initial_ssthresh.unwrap_or(tcp.config.receiver.window as f64)
}

#[cfg(test)]
mod tests;
