//! The half of an end that has data: sends it, sends it again, and listens to acknowledgements.
//!
//! W. Eddy, "Transmission Control Protocol", RFC 9293, 2022; M. Allman, V. Paxson, E. Blanton, RFC
//! 5681, 2009; V. Paxson et al., RFC 6298, 2011; K. Ramakrishnan et al., RFC 3168, 2001, section 6.1.2
//! (how a sender answers an echoed mark); J. Nagle, RFC 896, 1984. What is lost is found by a [`LossRecovery`],
//! how far the window opens is said by a [`CongestionControl`]; this file carries the words between them.
//!
//! Ours, where the sources are silent: a mark echoed while a loss is repaired, or for data of a window
//! that was reduced already, is not a further sign; nor is a loss in a window that a mark reduced.

use aqm_net::{Ecn, Instant, Span};

use crate::config::CheckedConfig;
use crate::config::Config;
use crate::config::connection::Nagle;
use crate::config::cwnd::{GrowthWhenLimited, Hint, IdleRestart, ReductionBasis, RepeatedTimeout};
use crate::config::ecn::MarkResponse;
use crate::config::receiver::DelayedAck;
use crate::config::recovery::{
    ExitAck, ExitWindow, Frto, Inflation, PartialAckTimer, RecoveryKind, TimeoutLoses, Undo,
};
use crate::config::rto::{BackOffEnd, RestartedBy, RttSamples, TimerRestart};
use crate::config::sack::Pipe;
use crate::control::{AckInfo, Congestion, CongestionSignal, Controller};
use crate::counts::Counts;
use crate::overhead::Overhead;
use crate::recovery::{
    AckKind, AckOutcome, AnyRecovery, LossRecovery, ReceivedAck, Stream, TimerContext, Windows,
};
use crate::segment::{Flags, Segment};
use crate::timer::Timer;

/// The sending half of an end: the board, what the timer has learnt, what else every packet needs, and the
/// rest, each about a cache line.
#[repr(C)]
pub(crate) struct Sender {
    recovery: AnyRecovery,
    pub timer: Timer,
    /// Where the data ends so far.
    pub end: u64,
    /// The congestion window, in segments, less what partial acknowledgements took of it.
    cwnd: f64,
    congestion: Box<Controller>,
    cold: Option<Box<ColdState>>,
    /// The other end is to hear that the window was reduced.
    tell_reduction: bool,
    /// Whether packets may be marked: both ends agreed.
    pub ecn: bool,
    /// Whether a FIN follows the data.
    pub fin: bool,
    in_recovery: bool,
    last_reduced: Reduced,
    /// Whether a partial acknowledgement came in this recovery.
    partial: bool,
    /// When data was sent last.
    last_sent: Instant,
    pub counts: Counts,
    /// What had been sent when a mark last reduced the window, and when anything did; 0 for never.
    marked_up_to: u64,
    reduced_up_to: u64,
}

/// What only some senders need.
#[derive(Default)]
struct ColdState {
    /// A random wait before what the window allows is sent.
    overhead: Option<Overhead>,
    usage: Usage,
}

/// What was used of the window (Linux: `tcp_cwnd_validate`).
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    /// Whether all of it was.
    full: bool,
    /// The most bytes in flight while it was not.
    most: u64,
    /// It holds until this is acknowledged.
    until: u64,
    /// What had been sent when it was looked at last.
    seen: u64,
    /// The window and `ssthresh` before the last reduction, in case it is taken back.
    prior: (f64, f64),
}

/// What reduced the window last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reduced {
    Never,
    Mark,
    Loss,
    Timeout,
}

impl Sender {
    pub fn new(tcp: &CheckedConfig) -> Self {
        Self {
            recovery: AnyRecovery::new(&tcp.config),
            timer: Timer::new(&tcp.config.rto),
            cwnd: 1.0,
            congestion: Controller::new(&*tcp.config.congestion_control, 1.0, first_ssthresh(tcp)),
            end: 0,
            last_sent: Instant::START,
            marked_up_to: 0,
            reduced_up_to: 0,
            counts: Counts::default(),
            cold: None,
            tell_reduction: false,
            ecn: false,
            fin: false,
            in_recovery: false,
            last_reduced: Reduced::Never,
            partial: false,
        }
    }

    /// A random wait before what the window allows is sent.
    pub fn set_overhead(&mut self, overhead: Overhead) {
        self.cold.get_or_insert_default().overhead = Some(overhead);
    }

    /// The handshake is over: data may flow. `again` says whether it needed a retransmission.
    pub fn begin(&mut self, again: bool, tcp: &CheckedConfig) {
        let config = &tcp.config;
        let window = if again { config.cwnd.initial_after_syn_loss } else { config.cwnd.initial };
        let after_loss = config.cwnd.ssthresh_after_syn_loss.filter(|_| again);
        let ssthresh = after_loss.unwrap_or(first_ssthresh(tcp));
        self.congestion.open(window as f64, ssthresh);
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

    /// Data may leave after a pause: everything before is acknowledged.
    fn end_pause(&mut self, now: Instant, tcp: &CheckedConfig) {
        let initial = tcp.config.cwnd.initial as f64;
        let rto_passed = now.since(self.last_sent) > self.timer.rto(&tcp.config.rto);
        match tcp.config.cwnd.idle_restart {
            IdleRestart::InitialWindow if rto_passed => self.congestion.cap(initial),
            IdleRestart::OneSegment if rto_passed => self.congestion.cap(1.0),
            IdleRestart::ToInitialWindow
                if self.timer.estimator.has_passed(self.last_sent, now, &tcp.config.rto) =>
            {
                self.congestion.cap(initial);
                self.open_by(initial - self.congestion.cwnd(), now, tcp);
            }
            _ => {}
        }
    }

    /// An acknowledgement arrived.
    #[inline]
    pub fn on_ack(&mut self, segment: &Segment, bare: bool, now: Instant, tcp: &CheckedConfig) {
        let used = self.recovery.outstanding();
        let ack_info = ReceivedAck { ack: segment.ack, sacks: &segment.sacks, bare };
        let at = TimerContext { now, estimator: &self.timer.estimator, config: &tcp.config.rto };
        let outcome = self.recovery.on_ack(&ack_info, at, &tcp.config);
        let echo = self.ecn && segment.flags.has(Flags::ECE);
        if echo && (outcome.acked > 0 || !answers_as_full_tcp(tcp)) {
            self.on_mark(tcp);
        }
        // An acknowledgement with an echo opens no window (RFC 3168, 6.1.2).
        self.apply(outcome, (!echo).then_some(used), now, tcp);
        if self.waits_for_timer(tcp) && (echo || self.timer.at == Instant::NEVER) {
            self.timer.restart(now, &tcp.config.rto);
        }
    }

    /// Time has passed; `true` if the retransmission timer ran out (the caller has checked the limit of
    /// retries).
    pub fn on_timer(&mut self, now: Instant, tcp: &CheckedConfig) {
        if let Some(overhead) = self.cold.as_mut().and_then(|cold| cold.overhead.as_mut()) {
            overhead.on_timer(now);
        }
        if now >= self.recovery.alarm() {
            let at = TimerContext { now, estimator: &self.timer.estimator, config: &tcp.config.rto };
            let outcome = self.recovery.on_alarm(at, &tcp.config);
            self.timer.restart(now, &tcp.config.rto);
            self.apply(outcome, None, now, tcp);
            self.count_from(outcome.since, now, tcp);
        }
    }

    /// The retransmission timer ran out.
    pub fn on_timeout(&mut self, now: Instant, tcp: &CheckedConfig) {
        let config = &tcp.config;
        let repeated = match config.cwnd.repeated_timeout {
            RepeatedTimeout::Holds => self.timer.retries > 0,
            RepeatedTimeout::HoldsInRecovery => self.timer.retries > 0 || self.in_recovery,
            RepeatedTimeout::Halves => false,
        };
        let before = self.restorable();
        let mut congestion = self.reduction(CongestionSignal::Timeout, tcp);
        if config.recovery.inflation == Inflation::InWindow
            && self.recovery.dupacks() >= config.recovery.dupthresh
        {
            congestion.basis =
                (congestion.basis + self.recovery.inflation()).min(config.receiver.window as f64);
        }
        if self.last_reduced == Reduced::Mark && answers_as_full_tcp(tcp) {
            self.congestion.cap(1.0);
            self.open_by(1.0 - self.congestion.cwnd(), now, tcp);
        } else {
            self.congestion.on_congestion(&Congestion { repeated, ..congestion });
            self.last_reduced = Reduced::Timeout;
        }
        if !repeated {
            self.note_prior(before, tcp);
        }
        let at = TimerContext { now, estimator: &self.timer.estimator, config: &tcp.config.rto };
        self.recovery.on_timeout(at, config);
        if config.recovery.timeout_loses == TimeoutLoses::Late {
            let left = self.recovery.outstanding() / tcp.mss;
            self.congestion.restore((left + 1) as f64, 0.0);
        }
        self.in_recovery = false;
        self.note_reduction();
        if self.recovery.una() < self.recovery.sent() {
            self.refresh(tcp);
            self.timer.back_off(now, &tcp.config.rto);
        } else {
            // Nothing is lost: a window below a segment has waited.
            self.end_pause(now, tcp);
            self.refresh(tcp);
            self.timer.forget();
            self.timer.at = Instant::NEVER;
        }
    }

    /// The next segment with data or a FIN; ask until there is none. Its acknowledgement is not filled in.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant, tcp: &CheckedConfig) -> Option<Segment> {
        if self.cold.is_some() && self.must_wait(now, tcp) {
            return None;
        }
        let at = TimerContext { now, estimator: &self.timer.estimator, config: &tcp.config.rto };
        let Some(sending) = self.recovery.next(self.stream(tcp), at) else {
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
        } else {
            self.timer.time(end, now);
        }
        if self.ecn && len > 0 && (!sending.again || answers_as_full_tcp(tcp)) {
            ecn = Ecn::Ect0;
            if std::mem::take(&mut self.tell_reduction) {
                flags = flags.union(Flags::CWR);
            }
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

    /// When `on_timer` wants to be called next, the retransmission timer apart.
    #[inline]
    pub fn alarm(&self) -> Instant {
        let alarm = self.recovery.alarm();
        match self.cold.as_ref().and_then(|cold| cold.overhead.as_ref()) {
            Some(overhead) => alarm.min(overhead.until()),
            _ => alarm,
        }
    }

    /// Whether everything written is acknowledged, a FIN too.
    #[inline]
    pub fn is_acknowledged(&self) -> bool {
        self.recovery.una() == self.end + u64::from(self.fin)
    }

    /// Everything below is acknowledged.
    pub fn una(&self) -> u64 {
        self.recovery.una()
    }

    /// The end of everything sent.
    pub fn sent(&self) -> u64 {
        self.recovery.sent()
    }

    pub fn dupacks(&self) -> u32 {
        self.recovery.dupacks()
    }

    pub fn window(&self) -> f64 {
        self.cwnd
    }

    pub fn ssthresh(&self) -> f64 {
        self.congestion.ssthresh()
    }

    /// The window that packets tell routers: whole segments, at least 1, without inflation.
    #[inline]
    pub fn window_hint(&self, tcp: &CheckedConfig) -> u16 {
        let window = self.whole_window();
        let told = match tcp.config.cwnd.hint {
            Hint::Clipped => window.min(tcp.config.receiver.window),
            Hint::Raw => window,
        };
        told.clamp(1, u16::MAX.into()) as u16
    }

    /// Acts on what the board found; `used` is what was in the network before, if the window may grow.
    #[inline(always)]
    fn apply(&mut self, outcome: AckOutcome, used: Option<u64>, now: Instant, tcp: &CheckedConfig) {
        if outcome.acked > 0 {
            self.timer.retries = 0;
            let before = tcp.config.rto.restart == TimerRestart::BeforeSample;
            if before {
                self.timer.restart(now, &tcp.config.rto);
            }
            if tcp.config.rto.back_off_end == BackOffEnd::Progress {
                self.timer.estimator.end_back_off();
            }
            self.sample(&outcome, now, tcp);
            if self.recovery.una() == self.recovery.sent() {
                self.timer.at = Instant::NEVER;
            } else if !before && (outcome.what != AckKind::Partial || self.restarts_timer(tcp)) {
                self.timer.restart(now, &tcp.config.rto);
            }
            self.count_from(outcome.since, now, tcp);
        } else if outcome.restarts && tcp.config.rto.restarted_by == RestartedBy::OldestSegment {
            self.sample(&outcome, now, tcp);
            self.timer.restart(now, &tcp.config.rto);
        } else if tcp.config.rto.samples == RttSamples::FirstSegment {
            self.sample(&outcome, now, tcp);
        }
        if outcome.undone {
            let (window, ssthresh) = self.cold.as_ref().map_or((0.0, 0.0), |cold| cold.usage.prior);
            self.congestion.restore(window, ssthresh);
            self.timer.retries = 0;
            self.refresh(tcp);
        }
        match outcome.what {
            AckKind::Stale => return,
            AckKind::Duplicate => {}
            AckKind::Advance => self.grow(&outcome, used, now, tcp),
            AckKind::Opened => {
                // What duplicates opened after a time-out stays.
                self.open_by(self.recovery.inflation(), now, tcp);
                self.grow(&outcome, used, now, tcp);
            }
            AckKind::Partial => self.partial = true,
            AckKind::Exit => {
                self.in_recovery = false;
                self.leave(tcp);
                let grows = match tcp.config.recovery.exit_ack {
                    ExitAck::Deflates => false,
                    ExitAck::Grows => !is_selective(&tcp.config),
                    ExitAck::GrowsWithSack => true,
                };
                if grows {
                    self.grow(&outcome, used, now, tcp);
                }
            }
            AckKind::Loss => self.on_loss(now, tcp),
            AckKind::Repaired => {
                self.counts.fast_retransmits += 1;
                self.last_reduced = Reduced::Loss;
                let congestion = self.reduction(CongestionSignal::Loss, tcp);
                self.congestion.on_congestion(&congestion);
                self.note_reduction();
                self.grow(&outcome, used, now, tcp);
            }
        }
        let idle = self.timer.at == Instant::NEVER && self.congestion.cwnd() >= 1.0;
        if tcp.config.cwnd.idle_restart == IdleRestart::ToInitialWindow && idle {
            self.end_pause(now, tcp);
        }
        self.refresh(tcp);
    }

    /// The retransmission timer, if it runs, has run since the oldest segment left.
    fn count_from(&mut self, since: Instant, now: Instant, tcp: &CheckedConfig) {
        if since != Instant::NEVER && self.timer.at != Instant::NEVER {
            let end = since + self.timer.rto(&tcp.config.rto);
            let left = if end > now { end.since(now) } else { Span::ZERO };
            self.timer.at = tcp.config.rto.expiry(now, left);
        }
    }

    #[inline]
    fn sample(&mut self, outcome: &AckOutcome, now: Instant, tcp: &CheckedConfig) {
        let (config, rules) = (&tcp.config, &tcp.config.rto);
        if config.rto.samples == RttSamples::Window || !keeps_times(config) {
            self.timer.on_ack(self.recovery.una(), now, rules);
        } else if outcome.sent != Instant::NEVER {
            self.timer.forget();
            self.timer.estimator.reach(self.recovery.una(), self.recovery.sent());
            self.timer.estimator.sample(outcome.sent, now, rules);
        }
    }

    /// Whether a partial acknowledgement restarts the timer.
    fn restarts_timer(&self, tcp: &CheckedConfig) -> bool {
        let config = &tcp.config;
        config.recovery.kind != RecoveryKind::NewReno
            || config.recovery.partial_ack_timer == PartialAckTimer::Each
            || !self.partial
    }

    #[inline]
    fn grow(&mut self, outcome: &AckOutcome, used: Option<u64>, now: Instant, tcp: &CheckedConfig) {
        let may_grow = used.is_some_and(|used| match tcp.config.cwnd.growth_when_limited {
            GrowthWhenLimited::Grows => true,
            GrowthWhenLimited::Holds => used >= self.whole_window().saturating_mul(tcp.mss),
            GrowthWhenLimited::GrowsIfUsed => {
                let slow_start = self.congestion.cwnd() < self.congestion.ssthresh();
                let (full, most) =
                    self.cold.as_ref().map_or((false, 0), |cold| (cold.usage.full, cold.usage.most));
                full || (slow_start && self.whole_window().saturating_mul(tcp.mss) < 2 * most)
            }
        });
        let acked = outcome.delivered as i64 as f64 / tcp.mss as i64 as f64; // signed: one instruction each
        let counted = tcp.config.cwnd.abc_limit.map_or(acked, |limit| acked.min(limit));
        let srtt = self.timer.estimator.srtt(&tcp.config.rto);
        self.congestion.on_ack(&AckInfo { now, acked, counted, may_grow, srtt });
    }

    /// All that may be sent now is sent: notes how much of the window that uses.
    fn note_usage(&mut self, tcp: &CheckedConfig) {
        let (una, sent) = (self.recovery.una(), self.recovery.sent());
        let full = self.recovery.is_full(self.whole_window().saturating_mul(tcp.mss));
        let usage = &mut self.cold.get_or_insert_default().usage;
        if !full && sent == usage.seen {
            return;
        }
        usage.seen = sent;
        let out = sent - una;
        if una >= usage.until || full || (!usage.full && out > usage.most) {
            *usage = Usage { full, most: out, until: sent, ..*usage };
        }
    }

    /// Opens the window by so many segments, as far as slow start goes.
    #[cold]
    fn open_by(&mut self, segments: f64, now: Instant, tcp: &CheckedConfig) {
        let room = (self.congestion.ssthresh() - self.congestion.cwnd()).max(0.0);
        let acked = segments.min(room);
        let srtt = self.timer.estimator.srtt(&tcp.config.rto);
        self.congestion.on_ack(&AckInfo { now, acked, counted: acked, may_grow: true, srtt });
    }

    /// Fast recovery is over.
    fn leave(&mut self, tcp: &CheckedConfig) {
        if tcp.config.recovery.kind == RecoveryKind::NewReno {
            match tcp.config.recovery.exit_window {
                ExitWindow::Ssthresh => {}
                ExitWindow::Deflated => self.congestion.cap(self.cwnd),
                ExitWindow::Flight => {
                    let flight = (self.recovery.flight() as f64 / tcp.mss as f64).max(1.0);
                    self.congestion.cap(flight + 1.0);
                }
            }
        }
    }

    /// The window now, and what `ssthresh` is to be if a reduction is taken back (Linux: `tcp_current_ssthresh`).
    fn restorable(&self) -> (f64, f64) {
        let window = self.congestion.cwnd();
        (window, self.congestion.ssthresh().max(libm::floor(window * 0.75)))
    }

    /// The window and `ssthresh` may be taken back to `prior`.
    fn note_prior(&mut self, prior: (f64, f64), tcp: &CheckedConfig) {
        if tcp.config.recovery.undo == Undo::Dsack || tcp.config.recovery.frto == Frto::On {
            self.cold.get_or_insert_default().usage.prior = prior;
        }
    }

    fn on_loss(&mut self, now: Instant, tcp: &CheckedConfig) {
        self.counts.fast_retransmits += 1;
        self.timer.forget();
        self.partial = false;
        self.last_reduced = Reduced::Loss;
        let from = self.cwnd;
        self.note_prior(self.restorable(), tcp);
        let congestion = self.reduction(CongestionSignal::Loss, tcp);
        if tcp.config.recovery.kind == RecoveryKind::Tahoe {
            let signal = CongestionSignal::Timeout;
            self.congestion.on_congestion(&Congestion { signal, repeated: self.is_reduced(), ..congestion });
            self.note_reduction();
        } else {
            self.in_recovery = true;
            if !self.is_reduced() {
                self.congestion.on_congestion(&congestion);
                self.note_reduction();
            } else if answers_as_full_tcp(tcp) {
                self.congestion.cap(congestion.basis / 2.0);
            }
        }
        if tcp.config.recovery.inflation == Inflation::InWindow && !is_selective(&tcp.config) {
            // It becomes `ssthresh` and the duplicates, so a fraction of a segment is lost.
            self.congestion.cap(self.congestion.ssthresh());
        }
        self.recovery.on_reduction(from, self.congestion.cwnd());
        self.timer.restart(now, &tcp.config.rto);
    }

    fn on_mark(&mut self, tcp: &CheckedConfig) {
        let una = self.recovery.una();
        let full = answers_as_full_tcp(tcp);
        // Until the first segment behind is acknowledged, which tells of the reduction, the echo goes on.
        let told = self.reduced_up_to > 0 && una <= self.reduced_up_to;
        let ignores_mark =
            if full { told && self.last_reduced != Reduced::Timeout } else { told || self.in_recovery };
        if ignores_mark {
            return;
        }
        self.last_reduced = Reduced::Mark;
        self.counts.marks_heeded += 1;
        let before = self.congestion.cwnd();
        self.congestion.on_congestion(&self.reduction(CongestionSignal::Mark, tcp));
        // The least `ssthresh` must not open a smaller window.
        self.congestion.cap(before);
        self.note_reduction();
        self.marked_up_to = self.recovery.sent();
        self.refresh(tcp);
    }

    /// The window was reduced: the other end is told (RFC 3168, 6.1.2).
    fn note_reduction(&mut self) {
        self.reduced_up_to = self.recovery.sent();
        self.tell_reduction = self.ecn;
    }

    /// Whether a mark reduced the window of data that is being acknowledged.
    fn is_reduced(&self) -> bool {
        self.recovery.una() < self.marked_up_to
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

    /// Takes over the window of the law and opens the board accordingly.
    #[inline]
    fn refresh(&mut self, tcp: &CheckedConfig) {
        self.cwnd = self.congestion.cwnd();
        let deflation = self.recovery.deflation();
        if deflation > 0.0 {
            self.cwnd = (self.cwnd - deflation).max(1.0);
        }
        let receiver = match tcp.config.receiver.first_window {
            _ if self.waits_for_timer(tcp) => 0,
            None => tcp.config.receiver.window,
            Some(_) => tcp.config.receiver.grown_window(self.recovery.una() / tcp.mss),
        };
        let windows = Windows { congestion: self.whole_window(), receiver, mss: tcp.mss };
        self.recovery.open(windows, &tcp.config);
    }

    /// Whether marks left less than a segment of the window, and that counts as nothing.
    #[inline]
    fn waits_for_timer(&self, tcp: &CheckedConfig) -> bool {
        self.cwnd < 1.0 && self.last_reduced == Reduced::Mark && answers_as_full_tcp(tcp)
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

    fn reduction(&self, signal: CongestionSignal, tcp: &CheckedConfig) -> Congestion {
        let config = &tcp.config;
        let basis = match config.cwnd.reduction_basis {
            ReductionBasis::FlightSize => {
                let flight = self.recovery.flight() as f64 / tcp.mss as f64;
                if is_selective(config) { flight.min(self.cwnd) } else { flight }
            }
            ReductionBasis::Pipe => self.recovery.outstanding() as f64 / tcp.mss as f64,
            ReductionBasis::Window => self.cwnd.min(config.receiver.window as f64),
        };
        Congestion { signal, basis, repeated: false }
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

fn answers_as_full_tcp(tcp: &CheckedConfig) -> bool {
    tcp.config.ecn.response == MarkResponse::Ns2Full
}

fn is_selective(config: &Config) -> bool {
    matches!(config.recovery.kind, RecoveryKind::Sack | RecoveryKind::Rack)
}

/// Whether the board knows when each segment was sent.
fn keeps_times(config: &Config) -> bool {
    config.recovery.kind == RecoveryKind::Rack
        || (config.recovery.kind == RecoveryKind::Sack && config.sack.pipe == Pipe::Scoreboard)
}

fn first_ssthresh(tcp: &CheckedConfig) -> f64 {
    tcp.config.cwnd.initial_ssthresh.unwrap_or(tcp.config.receiver.window as f64)
}
