//! The end that has data: opens, sends, retransmits, closes.
//!
//! W. Eddy, "Transmission Control Protocol", RFC 9293, 2022, as far as one direction of data
//! needs it; V. Paxson et al., RFC 6298, 2011, section 5 (when the timer runs); P. Karn, C.
//! Partridge, 1987 (no sample from a retransmission; without timestamps one a window).
//!
//! Ours, where the sources are silent: the acknowledgement of the SYN-ACK rides on the first data,
//! the FIN on the last; the FIN of the receiver rides on its last acknowledgement and is not
//! answered. A FIN that is alone counts as outstanding until it is answered.

use std::sync::Arc;

use aqm_net::{Instant, Rng, Span};

use crate::control::{Ack, Congestion, CongestionControl, Start};
use crate::counts::{Counts, GaveUp};
use crate::overhead::Overhead;
use crate::profile::{Close, ExitAck, GrowthWhenLimited, Handshake, Hint, ReductionBasis, RepeatedTimeout};
use crate::rtt::Estimator;
use crate::scoreboard::{News, Scoreboard, Windows};
use crate::segment::{Flags, Segment};
use crate::settings::Tcp;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Closed,
    Opening,
    Open,
    Done,
    Failed(GaveUp),
}

/// The sending end of a connection.
pub struct Sender {
    tcp: Arc<Tcp>,
    control: Box<dyn CongestionControl>,
    scoreboard: Scoreboard,
    /// Where the data ends.
    end: u64,
    /// The congestion window, in segments.
    window: f64,
    /// When the retransmission timer runs out.
    timer: Instant,
    /// The end of the segment whose round trip is timed, `NOT_TIMED` if none is.
    timed: u64,
    timed_since: Instant,
    estimator: Estimator,
    phase: Phase,
    /// A SYN, or a FIN without data, is to be sent.
    bare_due: bool,
    /// Of the same kind, so many have been sent.
    bare_sent: u32,
    /// Time-outs since the last progress.
    retries: u32,
    counts: Counts,
    overhead: Option<Box<Overhead>>,
}

/// No acknowledgement reaches this.
const NOT_TIMED: u64 = u64::MAX;

impl Sender {
    pub(crate) fn new(tcp: Arc<Tcp>, bytes: Option<u64>) -> Self {
        let start = Start { window: 1.0, ssthresh: first_ssthresh(&tcp) };
        Self {
            control: tcp.config.control.build(start),
            scoreboard: Scoreboard::default(),
            end: bytes.map_or(NOT_TIMED - (1 << 32), |bytes| tcp.end(bytes)),
            window: start.window,
            timer: Instant::NEVER,
            timed: NOT_TIMED,
            timed_since: Instant::START,
            estimator: Estimator::new(&tcp.rules),
            phase: Phase::Closed,
            bare_due: false,
            bare_sent: 0,
            retries: 0,
            counts: Counts::default(),
            overhead: None,
            tcp,
        }
    }

    /// Gives it the chance it needs for `send_overhead`; without it the parameter has no effect.
    #[must_use]
    pub fn with_chance(mut self, chance: impl FnOnce() -> Rng) -> Self {
        let longest = self.tcp.config.send_overhead;
        self.overhead = (!longest.is_zero()).then(|| Box::new(Overhead::new(longest, chance())));
        self
    }

    /// Opens the connection.
    pub fn open(&mut self, now: Instant) {
        if self.phase != Phase::Closed {
            return;
        }
        match self.tcp.config.handshake {
            Handshake::Syn => {
                self.phase = Phase::Opening;
                self.bare_due = true;
            }
            Handshake::None => self.begin(now),
        }
    }

    /// An acknowledgement arrived.
    pub fn on_segment(&mut self, segment: &Segment, now: Instant) {
        match self.phase {
            Phase::Open if !segment.flags.has(Flags::SYN) => self.on_ack(segment, now),
            Phase::Opening if segment.flags.has(Flags::SYN.and(Flags::ACK)) => self.on_syn_ack(now),
            _ => {}
        }
    }

    /// Time has passed; acts if the retransmission timer ran out.
    pub fn on_timer(&mut self, now: Instant) {
        if let Some(overhead) = &mut self.overhead {
            overhead.on_timer(now);
        }
        if now < self.timer {
            return;
        }
        self.counts.timeouts += 1;
        let limit = match self.phase {
            Phase::Opening => self.tcp.config.max_syn_retries,
            _ => self.tcp.config.max_retries,
        };
        if limit.is_some_and(|limit| self.retries >= limit) {
            let reason = if self.phase == Phase::Opening { GaveUp::NoAnswer } else { GaveUp::NoProgress };
            self.stop(Phase::Failed(reason));
            return;
        }
        if self.phase == Phase::Opening || self.scoreboard.una() == self.end {
            self.bare_due = true;
        } else {
            let repeated = self.retries > 0 && self.tcp.config.repeated_timeout == RepeatedTimeout::Holds;
            self.control.on_timeout(Congestion { repeated, ..self.congestion(now) });
            self.scoreboard.on_timeout();
            self.refresh();
        }
        self.retries += 1;
        self.timed = NOT_TIMED;
        self.estimator.back_off(&self.tcp.rules);
        self.restart_timer(now);
    }

    /// The next segment to send; ask until there is none.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Segment> {
        if self.bare_due {
            return Some(self.send_bare(now));
        }
        if self.phase != Phase::Open {
            return None;
        }
        if let Some(overhead) = &mut self.overhead {
            let wanted = self.scoreboard.has_next(self.end);
            if !self.scoreboard.is_urgent(&self.tcp.config) {
                if overhead.holds(wanted, now) {
                    return None;
                }
            } else if !wanted {
                overhead.close();
            }
        }
        let (seq, len, again) = self.scoreboard.next(self.end, self.tcp.mss)?;
        self.counts.segments_sent += 1;
        let mut flags = Flags::ACK;
        if again {
            self.counts.retransmitted += 1;
            flags = flags.and(Flags::RETRANSMISSION);
        } else if self.timed == NOT_TIMED {
            self.timed = seq + len;
            self.timed_since = now;
        }
        if seq + len == self.end && self.tcp.config.close == Close::Fin {
            flags = flags.and(Flags::FIN);
        }
        if self.timer == Instant::NEVER {
            self.restart_timer(now);
        }
        let wire = (len + self.tcp.config.header.bytes()) as u16;
        Some(Segment { seq, ack: 0, len: len as u32, wire, flags })
    }

    /// When `on_timer` wants to be called next.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let held = self.overhead.as_ref().map_or(Instant::NEVER, |overhead| overhead.until());
        let next = self.timer.min(held);
        (next != Instant::NEVER).then_some(next)
    }

    /// The window that packets tell routers: whole segments, at least 1, without inflation.
    #[inline]
    pub fn window_hint(&self) -> u16 {
        let window = match self.tcp.config.hint {
            Hint::Clipped => self.window.min(self.tcp.config.receiver_window as f64),
            Hint::Raw => self.window,
        };
        window.max(1.0) as u16 // saturates
    }

    /// Whether everything is acknowledged and the connection closed; never if it gave up.
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Why it gave up, if it did.
    pub fn gave_up(&self) -> Option<GaveUp> {
        match self.phase {
            Phase::Failed(reason) => Some(reason),
            _ => None,
        }
    }

    /// What it has done so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The congestion window, in segments, without inflation.
    pub fn cwnd(&self) -> f64 {
        self.window
    }

    /// The slow-start threshold, in segments.
    pub fn ssthresh(&self) -> f64 {
        self.control.ssthresh()
    }

    /// The smoothed round-trip time.
    pub fn srtt(&self) -> Option<Span> {
        self.estimator.srtt(&self.tcp.rules)
    }

    /// The round-trip time's variation.
    pub fn rttvar(&self) -> Option<Span> {
        self.estimator.rttvar(&self.tcp.rules)
    }

    /// The retransmission time-out, backed off.
    pub fn rto(&self) -> Span {
        self.estimator.rto(&self.tcp.rules)
    }

    /// Duplicate acknowledgements since the last new one.
    pub fn dupacks(&self) -> u32 {
        self.scoreboard.dupacks()
    }

    /// By what the time-out is multiplied.
    pub fn backoff(&self) -> u32 {
        self.estimator.backoff()
    }

    /// Bytes sent and not acknowledged.
    pub fn in_flight(&self) -> u64 {
        self.scoreboard.sent() - self.scoreboard.una()
    }

    fn on_syn_ack(&mut self, now: Instant) {
        self.counts.handshake_done = Some(now);
        if self.timed != NOT_TIMED {
            self.estimator.sample(self.timed_since, now, &self.tcp.rules);
        } else if let Some(rto) = self.tcp.config.rto_after_syn_loss {
            self.estimator.restart_from(rto);
        }
        self.begin(now);
    }

    /// Data may flow.
    fn begin(&mut self, now: Instant) {
        let config = &self.tcp.config;
        let syn_lost = self.bare_sent > 1;
        let window = if syn_lost { config.initial_window_after_syn_loss } else { config.initial_window };
        let ssthresh = first_ssthresh(&self.tcp);
        let after_loss = config.ssthresh_after_syn_loss.filter(|_| syn_lost);
        self.control.on_open(Start { window: window as f64, ssthresh: after_loss.unwrap_or(ssthresh) });
        self.phase = Phase::Open;
        self.bare_due = false;
        self.bare_sent = 0;
        self.retries = 0;
        self.timed = NOT_TIMED;
        self.timer = Instant::NEVER;
        self.refresh();
        if self.end == 0 {
            self.close(Flags::default(), now);
        }
    }

    fn on_ack(&mut self, segment: &Segment, now: Instant) {
        if self.scoreboard.una() == self.end {
            self.close(segment.flags, now);
            return;
        }
        let used = self.scoreboard.outstanding();
        match self.scoreboard.on_ack(segment.ack, &self.tcp.config) {
            News::Advance { bytes, ends_recovery } => {
                self.retries = 0;
                if segment.ack >= self.timed {
                    self.timed = NOT_TIMED;
                    self.estimator.sample(self.timed_since, now, &self.tcp.rules);
                }
                if self.scoreboard.una() == self.end {
                    self.close(segment.flags, now);
                    return;
                }
                self.restart_timer(now);
                self.grow(Advance { bytes, used, ends_recovery }, now);
            }
            News::Loss => {
                self.counts.fast_retransmits += 1;
                self.timed = NOT_TIMED;
                self.control.on_congestion(self.congestion(now));
                self.restart_timer(now);
            }
            News::Duplicate => {}
            News::Stale => return,
        }
        self.refresh();
    }

    fn grow(&mut self, advance: Advance, now: Instant) {
        let config = &self.tcp.config;
        if advance.ends_recovery && config.exit_ack == ExitAck::Deflates {
            return;
        }
        let may_grow = config.growth_when_limited == GrowthWhenLimited::Grows
            || advance.used >= (self.window as u64).saturating_mul(self.tcp.mss);
        let acked = advance.bytes as f64 / self.tcp.mss as f64;
        self.control.on_ack(Ack { now, acked, may_grow });
    }

    /// All data is acknowledged: ends, unless a FIN is still to be exchanged.
    fn close(&mut self, flags: Flags, now: Instant) {
        if self.tcp.config.close == Close::None || flags.has(Flags::FIN) {
            self.stop(Phase::Done);
        } else if self.bare_sent == 0 && !self.bare_due {
            self.bare_due = true;
            self.restart_timer(now);
        }
    }

    fn stop(&mut self, phase: Phase) {
        self.phase = phase;
        self.timer = Instant::NEVER;
        self.timed = NOT_TIMED;
        self.bare_due = false;
    }

    fn send_bare(&mut self, now: Instant) -> Segment {
        self.bare_due = false;
        let mut flags = if self.phase == Phase::Opening { Flags::SYN } else { Flags::FIN.and(Flags::ACK) };
        if self.bare_sent > 0 {
            flags = flags.and(Flags::RETRANSMISSION);
            self.counts.retransmitted += 1;
        } else {
            if self.phase == Phase::Opening {
                self.timed = 0;
                self.timed_since = now;
            }
            self.restart_timer(now);
        }
        self.bare_sent += 1;
        self.counts.segments_sent += 1;
        Segment {
            seq: self.scoreboard.sent(),
            ack: 0,
            len: 0,
            wire: self.tcp.config.syn_size.bytes() as u16,
            flags,
        }
    }

    fn restart_timer(&mut self, now: Instant) {
        self.timer = now + self.estimator.rto(&self.tcp.rules);
    }

    /// Takes over the window of the law and opens the scoreboard accordingly.
    fn refresh(&mut self) {
        self.window = self.control.window();
        let windows = Windows {
            congestion: self.window as u64,
            receiver: self.tcp.config.receiver_window,
            mss: self.tcp.mss,
        };
        self.scoreboard.open(windows, &self.tcp.config);
    }

    fn congestion(&self, now: Instant) -> Congestion {
        let config = &self.tcp.config;
        let basis = match config.reduction_basis {
            ReductionBasis::FlightSize => self.scoreboard.flight() as f64 / self.tcp.mss as f64,
            ReductionBasis::Window => self.window.min(config.receiver_window as f64),
        };
        Congestion { now, basis, repeated: false }
    }
}

/// What an acknowledgement brought.
struct Advance {
    bytes: u64,
    /// Bytes that had been outstanding.
    used: u64,
    ends_recovery: bool,
}

fn first_ssthresh(tcp: &Tcp) -> f64 {
    tcp.config.initial_ssthresh.unwrap_or(tcp.config.receiver_window as f64)
}
