//! The half of an end that has data: sends it, sends it again, and takes in acknowledgements.
//!
//! W. Eddy, "Transmission Control Protocol", RFC 9293, 2022; J. Nagle, RFC 896, 1984. What is lost is found by a
//! [`LossRecovery`], how far the window opens is said by a [`Controller`]; this file carries the words between
//! them. Beside it: the way of an acknowledgement (`ack.rs`), what it, a loss, a mark or a time-out does to the window
//! (`congestion.rs`), the answer to marks (`ecn.rs`), whether the window is used (`cwnd_validation.rs`) and
//! when the retransmission timer starts anew (`rto_restart.rs`).

mod ack;
mod congestion;
mod cwnd_validation;
mod ecn;
mod rto_restart;

use aqm_net::{Ecn, Instant};

use crate::config::CheckedConfig;
use crate::config::connection::Nagle;
use crate::config::cwnd::{GrowthWhenLimited, Hint};
use crate::config::receiver::DelayedAck;
use crate::config::rto::RestartedBy;
use crate::congestion_control::Controller;
use crate::counts::SenderCounts;
use crate::overhead::Overhead;
use crate::recovery::{AnyRecovery, Apart, LossRecovery, Sending, Stream, Windows};
use crate::segment::{Flags, Segment};
use crate::timer::Timer;
use congestion::Heard;
use cwnd_validation::CwndUsage;
use ecn::EcnResponse;

/// The sending half of an end. The order of the fields puts what a packet touches on few cache lines: what
/// acknowledgements move, the timer, and what changes seldom.
#[repr(C)]
pub(crate) struct Sender {
    recovery: AnyRecovery,
    /// The end of the data written so far.
    pub end: u64,
    /// The congestion window, in segments, less what partial acknowledgements took of it.
    cwnd: f64,
    congestion: Controller,
    pub timer: Timer,
    cold: Option<Box<ColdState>>,
    ecn: Option<Box<EcnResponse>>,
    /// Whether a FIN follows the data.
    pub fin: bool,
    in_recovery: bool,
    /// Whether a partial acknowledgement came in this recovery.
    partial: bool,
    /// Whether the recovery knows when each segment was sent.
    keeps_times: bool,
    /// Whether the congestion control is told of samples of the round trip.
    tells_samples: bool,
    /// When data was sent last.
    last_sent: Instant,
    pub counts: SenderCounts,
    /// When the handshake was over; `NEVER` until then.
    pub began: Instant,
}

/// What only some senders need.
#[derive(Default)]
struct ColdState {
    /// A random wait before what the window allows is sent.
    overhead: Option<Overhead>,
    usage: CwndUsage,
    prior: PriorWindow,
}

/// The window and `ssthresh` before the last reduction, in segments, in case it is taken back.
#[derive(Clone, Copy, Default)]
struct PriorWindow {
    cwnd: f64,
    ssthresh: f64,
}

impl Sender {
    pub fn new(tcp: &CheckedConfig) -> Self {
        let recovery = AnyRecovery::new(&tcp.config);
        let congestion = Controller::new(&*tcp.config.congestion_control, 1.0, first_ssthresh(tcp));
        Self {
            keeps_times: recovery.keeps_times(),
            tells_samples: congestion.wants_samples(),
            recovery,
            timer: Timer::new(&tcp.config.rto),
            cwnd: 1.0,
            congestion,
            end: 0,
            last_sent: Instant::START,
            counts: SenderCounts::default(),
            began: Instant::NEVER,
            cold: None,
            ecn: None,
            fin: false,
            in_recovery: false,
            partial: false,
        }
    }

    /// A random wait before what the window allows is sent.
    pub fn set_overhead(&mut self, overhead: Overhead) {
        self.cold.get_or_insert_default().overhead = Some(overhead);
    }

    /// Whether packets may be marked: both ends have agreed.
    pub fn set_ecn(&mut self, tcp: &CheckedConfig) {
        self.ecn = Some(Box::new(EcnResponse::new(tcp.config.ecn.response)));
    }

    /// Whether packets may be marked.
    pub fn has_ecn(&self) -> bool {
        self.ecn.is_some()
    }

    /// The handshake is over: data may flow. `after_syn_loss` says whether it needed a retransmission.
    pub fn begin(&mut self, after_syn_loss: bool, tcp: &CheckedConfig) {
        let config = &tcp.config.cwnd;
        let cwnd = if after_syn_loss { config.initial_after_syn_loss } else { config.initial };
        let ssthresh = config.ssthresh_after_syn_loss.filter(|_| after_syn_loss);
        self.congestion.open(cwnd as f64, ssthresh.unwrap_or(first_ssthresh(tcp)));
        self.timer.retries = 0;
        self.timer.stop();
        self.refresh(tcp);
    }

    /// The application wrote more data; after a pause the window starts again (RFC 5681, 4.1).
    pub fn write(&mut self, bytes: u64, now: Instant, tcp: &CheckedConfig) {
        if self.recovery.sent() > 0 && self.recovery.una() == self.recovery.sent() {
            self.end_pause(now, tcp);
            self.refresh(tcp);
        }
        self.end = self.end.saturating_add(bytes).min(ENDLESS);
    }

    /// Time has passed: the wait of the host may be over, and a timer of the recovery due. The caller looks after
    /// the retransmission timer.
    pub fn on_timer(&mut self, now: Instant, tcp: &CheckedConfig) {
        if let Some(overhead) = self.cold.as_mut().and_then(|cold| cold.overhead.as_mut()) {
            overhead.on_timer(now);
        }
        if now >= self.recovery.timer() {
            let at = self.timer.context(now, &tcp.config.rto);
            let outcome = self.recovery.on_timer(at, &tcp.config);
            self.timer.restart(now, &tcp.config.rto);
            self.apply(outcome, Heard::default(), now, tcp);
            self.count_from(outcome.since, now, tcp);
        }
    }

    /// The next segment with data or a FIN; ask until there is none. Its acknowledgement is not filled in.
    #[inline(always)]
    pub fn poll_transmit(&mut self, now: Instant, tcp: &CheckedConfig) -> Option<Segment> {
        if self.cold.is_some() && self.must_wait(now, tcp) {
            return None;
        }
        let next = match self.recovery {
            AnyRecovery::Counting(_) => self.next(now, tcp),
            AnyRecovery::Apart(_) => self.next_elsewhere(now, tcp),
        };
        let Some(sending) = next else {
            if tcp.config.cwnd.growth_when_limited == GrowthWhenLimited::GrowsIfUsed {
                self.note_usage(tcp);
            }
            return None;
        };
        self.counts.segments_sent += 1;
        self.last_sent = now;
        let end = sending.seq + sending.len;
        let fin = end > self.end;
        let len = sending.len - u64::from(fin);
        let mut flags = if fin { Flags::FIN } else { Flags::default() };
        let mut ecn = Ecn::NotEct;
        if sending.again {
            self.counts.retransmitted += 1;
            flags = flags.union(Flags::RETRANSMISSION);
            self.timer.forget_within(sending.seq, end);
        } else {
            self.timer.time(end, now);
        }
        if let Some(response) = self.ecn.as_mut().filter(|_| len > 0) {
            let tells;
            (ecn, tells) = response.on_data(sending.again);
            flags = flags.union(if tells { Flags::CWR } else { Flags::default() });
        }
        let oldest = sending.again && sending.seq == self.recovery.una();
        if oldest && tcp.config.rto.restarted_by == RestartedBy::OldestSegment {
            self.timer.restart(now, &tcp.config.rto);
        }
        self.timer.start(now, &tcp.config.rto);
        if tcp.config.receiver.delayed_ack == DelayedAck::Adaptive && self.pushes(sending.seq, end, tcp) {
            flags = flags.union(Flags::PUSH);
        }
        let header = if len > 0 { tcp.config.connection.header } else { tcp.config.connection.syn_size };
        let wire = (len + header.bytes()) as u16;
        Some(Segment { seq: sending.seq, len: len as u32, wire, flags, ecn, ..Segment::default() })
    }

    /// Whether `poll_transmit` may have another segment, or something to note if it has not; it says so in doubt.
    #[inline(always)]
    pub fn may_transmit(&self, tcp: &CheckedConfig) -> bool {
        self.cold.is_some()
            || tcp.config.cwnd.growth_when_limited == GrowthWhenLimited::GrowsIfUsed
            || match &self.recovery {
                AnyRecovery::Counting(counting) => counting.may_send(),
                AnyRecovery::Apart(Apart::Selective(selective)) => selective.may_send(),
                AnyRecovery::Apart(Apart::Other(_)) => true,
            }
    }

    /// What the recovery sends next.
    #[inline(always)]
    fn next(&mut self, now: Instant, tcp: &CheckedConfig) -> Option<Sending> {
        let at = self.timer.context(now, &tcp.config.rto);
        self.recovery.next(self.stream(tcp), at)
    }

    /// As `next`, of a recovery that is not in place; apart, so that what it is told need not be in memory for one
    /// that is.
    #[inline(never)]
    fn next_elsewhere(&mut self, now: Instant, tcp: &CheckedConfig) -> Option<Sending> {
        self.next(now, tcp)
    }

    /// When `on_timer`, or after it the retransmission timer, wants to be looked at next; `NEVER` for never.
    #[inline]
    pub fn next_timer(&self) -> Instant {
        let next = self.timer.at.min(self.recovery.timer());
        match self.cold.as_ref().and_then(|cold| cold.overhead.as_ref()) {
            Some(overhead) => next.min(overhead.until()),
            None => next,
        }
    }

    /// Whether everything written is acknowledged, a FIN too.
    #[inline]
    pub fn is_acknowledged(&self) -> bool {
        self.recovery.una() == self.end + u64::from(self.fin)
    }

    /// The oldest byte not acknowledged (`SND.UNA`).
    pub fn una(&self) -> u64 {
        self.recovery.una()
    }

    /// The end of everything sent.
    pub fn sent(&self) -> u64 {
        self.recovery.sent()
    }

    /// Duplicate acknowledgements since the last new one.
    pub fn dupacks(&self) -> u32 {
        self.recovery.dupacks()
    }

    /// The congestion window, in segments, without inflation.
    pub fn cwnd(&self) -> f64 {
        self.cwnd
    }

    /// The slow-start threshold, in segments.
    pub fn ssthresh(&self) -> f64 {
        self.congestion.ssthresh()
    }

    /// The window that packets tell routers: whole segments, at least 1, without inflation.
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

    /// All that may be sent now is sent: notes how much of the window that uses.
    fn note_usage(&mut self, tcp: &CheckedConfig) {
        let is_full = self.recovery.is_full(self.whole_window().saturating_mul(tcp.mss));
        let usage = &mut self.cold.get_or_insert_default().usage;
        usage.note(self.recovery.una(), self.recovery.sent(), is_full);
    }

    /// Whether a segment ends what the application wrote so far, or half a window of it (Linux: `forced_push`).
    fn pushes(&self, seq: u64, end: u64, tcp: &CheckedConfig) -> bool {
        let pushed = tcp.config.receiver.window_at_first() / 2 + 1;
        end >= self.end || seq / tcp.mss % pushed == pushed - 1
    }

    /// The window in whole segments; what 32 bits do not hold is without bound anyway.
    #[inline]
    fn whole_window(&self) -> u64 {
        u64::from(self.cwnd as u32)
    }

    /// Takes over the window from the congestion control and tells the recovery how far it may send.
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

    /// Whether marks left less than a segment of the window, and that counts as nothing.
    #[inline]
    fn is_closed(&self) -> bool {
        self.cwnd < 1.0 && self.ecn.as_ref().is_some_and(|ecn| ecn.closes_below_a_segment())
    }

    /// What there is to send, as far as Nagle's algorithm lets go of it.
    #[inline]
    fn stream(&self, tcp: &CheckedConfig) -> Stream {
        if tcp.config.connection.nagle == Nagle::On && self.holds_rest(tcp) {
            return Stream { end: self.recovery.sent(), fin: false, mss: tcp.mss };
        }
        Stream { end: self.end, fin: self.fin, mss: tcp.mss }
    }

    /// Whether what was never sent does not fill a segment while something is not acknowledged.
    #[cold]
    fn holds_rest(&self, tcp: &CheckedConfig) -> bool {
        let sent = self.recovery.sent();
        (1..tcp.mss).contains(&self.end.saturating_sub(sent)) && self.recovery.una() < sent
    }

    /// Whether the random wait of the host holds back what the window allows.
    #[cold]
    fn must_wait(&mut self, now: Instant, tcp: &CheckedConfig) -> bool {
        let stream = self.stream(tcp);
        let overhead = self.cold.as_mut().and_then(|cold| cold.overhead.as_mut());
        let Some(overhead) = overhead else { return false };
        let wanted = self.recovery.has_next(stream);
        if !self.recovery.is_urgent(&tcp.config) {
            return overhead.holds(wanted, now);
        }
        if !wanted {
            overhead.close();
        }
        false
    }
}

/// The end of data without end; far enough from overflow.
pub(crate) const ENDLESS: u64 = u64::MAX - (1 << 33);

fn first_ssthresh(tcp: &CheckedConfig) -> f64 {
    tcp.config.cwnd.initial_ssthresh.unwrap_or(tcp.config.receiver.window as f64)
}

#[cfg(test)]
mod tests;
