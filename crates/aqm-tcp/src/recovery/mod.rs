//! Loss recovery: what has been sent, what is lost, and what may be sent next.
//!
//! How far the window opens is not decided here: a board is told the window and says what it allows. A
//! new scheme is one file beside `counting.rs` with a [`LossRecovery`] of its own, a word of `Recovery` in the
//! profile and a line in [`AnyRecovery::new`].

mod counted_pipe;
mod counting;
mod rack;
mod reduction;
mod selective;
mod sent;

use aqm_net::{Instant, Span};

use crate::config::Config;
use crate::config::recovery::RecoveryKind;
use crate::config::rto::Rto;
use crate::config::sack::Pipe;
use crate::rtt::Estimator;
use crate::segment::Sacks;

pub(crate) use counted_pipe::CountedPipe;
pub(crate) use counting::Counting;
pub(crate) use selective::Selective;

/// The present, and what is known of the path.
#[derive(Clone, Copy)]
pub(crate) struct TimerContext<'a> {
    pub now: Instant,
    pub estimator: &'a Estimator,
    pub config: &'a Rto,
}

impl TimerContext<'_> {
    /// The smoothed round-trip time.
    pub fn srtt(&self) -> Option<Span> {
        self.estimator.srtt(self.config)
    }

    /// The retransmission time-out.
    pub fn rto(&self) -> Span {
        self.estimator.rto(self.config)
    }
}

/// What an acknowledgement says.
#[derive(Clone, Copy)]
pub(crate) struct ReceivedAck<'a> {
    /// Everything below has arrived.
    pub ack: u64,
    /// What has arrived beyond.
    pub sacks: &'a Sacks,
    /// Whether it carries neither payload nor FIN, so that it may be a duplicate (RFC 5681, section 2).
    pub bare: bool,
}

/// What is new after an acknowledgement, or after a board's own alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AckOutcome {
    /// Bytes acknowledged in order for the first time.
    pub acked: u64,
    /// Bytes that are known to have arrived for the first time.
    pub delivered: u64,
    /// When the newest segment was sent that is now known to have arrived, of those sent only once;
    /// `NEVER` if there is none or the board does not keep these times.
    pub sent: Instant,
    /// Whether it shows that the last reduction was needless.
    pub undone: bool,
    /// Whether it restarts the retransmission timer though it acknowledges nothing new
    /// (`RestartedBy::OldestSegment`).
    pub restarts: bool,
    /// When the oldest segment left, if the retransmission timer runs from then on; `NEVER` if from now.
    pub since: Instant,
    pub what: AckKind,
}

/// What it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckKind {
    /// Nothing.
    Stale,
    /// All is well.
    Advance,
    /// As `Advance`, after duplicates that opened the window without a fast retransmit.
    Opened,
    /// A hole is filled and another found; fast recovery goes on.
    Partial,
    /// Fast recovery ends.
    Exit,
    /// Something arrived, though not the next.
    Duplicate,
    /// A loss was found: fast recovery begins.
    Loss,
    /// A probe repaired a loss: the window is to be reduced, and there is no more to repair (Linux).
    Repaired,
}

impl AckOutcome {
    /// Nothing new.
    pub const NONE: Self = Self {
        acked: 0,
        delivered: 0,
        sent: Instant::NEVER,
        undone: false,
        restarts: false,
        since: Instant::NEVER,
        what: AckKind::Stale,
    };
}

/// The windows that bound what is sent, in whole segments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Windows {
    pub congestion: u64,
    pub receiver: u64,
    pub mss: u64,
}

/// The data there is to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    /// Where the data ends so far.
    pub end: u64,
    /// Whether a FIN follows: it takes the sequence number `end` and rides on the last data if it can.
    pub fin: bool,
    pub mss: u64,
}

impl Stream {
    /// Where the sequence numbers end.
    pub fn limit(&self) -> u64 {
        self.end + u64::from(self.fin)
    }

    /// How many sequence numbers a segment takes that begins at `seq`.
    #[inline]
    pub fn segment(&self, seq: u64) -> u64 {
        let data = self.mss.min(self.end.saturating_sub(seq));
        data + u64::from(self.fin && seq + data == self.end)
    }
}

/// A segment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sending {
    pub seq: u64,
    /// How many sequence numbers it takes, a FIN included.
    pub len: u64,
    /// Whether it, or a part of it, was sent before.
    pub again: bool,
}

/// The sender's record of its data. It knows no windows but those it is told.
pub(crate) trait LossRecovery: Send {
    /// Takes in an acknowledgement.
    fn on_ack(&mut self, ack_info: &ReceivedAck, at: TimerContext<'_>, config: &Config) -> AckOutcome;
    /// The retransmission timer ran out: everything in flight counts as lost.
    fn on_timeout(&mut self, at: TimerContext<'_>, config: &Config);
    /// Its own alarm is due (a late retransmission decision, a probe).
    fn on_alarm(&mut self, _at: TimerContext<'_>, _config: &Config) -> AckOutcome {
        AckOutcome::NONE
    }
    /// When `on_alarm` wants to be called; `NEVER` for never.
    fn alarm(&self) -> Instant {
        Instant::NEVER
    }
    /// After a loss was found: the window fell from `from` to `to` segments.
    fn on_reduction(&mut self, _from: f64, _to: f64) {}
    /// Sets how far transmissions may go.
    fn open(&mut self, windows: Windows, config: &Config);
    /// Whether the windows allow a segment now.
    fn has_next(&self, stream: Stream) -> bool;
    /// Whether the next segment answers an acknowledgement at once: a fast retransmission, or limited
    /// transmit.
    fn is_urgent(&self, config: &Config) -> bool;
    /// The next segment to send.
    fn next(&mut self, stream: Stream, at: TimerContext<'_>) -> Option<Sending>;
    /// The oldest byte not acknowledged.
    fn una(&self) -> u64;
    /// The end of everything sent.
    fn sent(&self) -> u64;
    /// Bytes sent since the start or the last time-out and not acknowledged.
    fn outstanding(&self) -> u64;
    /// Whether as much is in the network as the window allows, which is `window` unless the board knows better.
    fn is_full(&self, window: u64) -> bool {
        self.outstanding() >= window
    }
    /// Bytes sent and not acknowledged, without those of limited transmit (`FlightSize`).
    fn flight(&self) -> u64;
    /// Duplicate acknowledgements since the last new one.
    fn dupacks(&self) -> u32;
    /// Segments by which partial acknowledgements took the window below that of its law.
    fn deflation(&self) -> f64 {
        0.0
    }

    /// By how many segments duplicates have opened the window, or had until new data was acknowledged.
    fn inflation(&self) -> f64 {
        0.0
    }
}

/// The board of a running sender: that without SACK in place, since most of what is simulated uses it.
pub(crate) enum AnyRecovery {
    Counting(Counting),
    Other(Box<dyn LossRecovery>),
}

impl AnyRecovery {
    pub fn new(config: &Config) -> Self {
        match config.recovery.kind {
            RecoveryKind::Tahoe | RecoveryKind::Reno | RecoveryKind::NewReno => {
                Self::Counting(Counting::default())
            }
            RecoveryKind::Sack if config.sack.pipe == Pipe::Counted => {
                Self::Other(Box::new(CountedPipe::default()))
            }
            RecoveryKind::Sack | RecoveryKind::Rack => Self::Other(Box::new(Selective::new(config))),
        }
    }
}

/// Hands a call on to the board that runs.
macro_rules! running {
    ($self:expr, $recovery:ident => $call:expr) => {
        match $self {
            AnyRecovery::Counting($recovery) => $call,
            AnyRecovery::Other($recovery) => $call,
        }
    };
}

impl LossRecovery for AnyRecovery {
    #[inline]
    fn on_ack(&mut self, ack_info: &ReceivedAck, at: TimerContext<'_>, config: &Config) -> AckOutcome {
        running!(self, recovery => recovery.on_ack(ack_info, at, config))
    }
    fn on_timeout(&mut self, at: TimerContext<'_>, config: &Config) {
        running!(self, recovery => recovery.on_timeout(at, config));
    }
    fn on_alarm(&mut self, at: TimerContext<'_>, config: &Config) -> AckOutcome {
        running!(self, recovery => recovery.on_alarm(at, config))
    }
    #[inline]
    fn alarm(&self) -> Instant {
        running!(self, recovery => recovery.alarm())
    }
    fn on_reduction(&mut self, from: f64, to: f64) {
        running!(self, recovery => recovery.on_reduction(from, to));
    }
    #[inline]
    fn open(&mut self, windows: Windows, config: &Config) {
        running!(self, recovery => recovery.open(windows, config));
    }
    fn has_next(&self, stream: Stream) -> bool {
        running!(self, recovery => recovery.has_next(stream))
    }
    fn is_urgent(&self, config: &Config) -> bool {
        running!(self, recovery => recovery.is_urgent(config))
    }
    #[inline]
    fn next(&mut self, stream: Stream, at: TimerContext<'_>) -> Option<Sending> {
        running!(self, recovery => recovery.next(stream, at))
    }
    #[inline]
    fn una(&self) -> u64 {
        running!(self, recovery => recovery.una())
    }
    #[inline]
    fn sent(&self) -> u64 {
        running!(self, recovery => recovery.sent())
    }
    #[inline]
    fn outstanding(&self) -> u64 {
        running!(self, recovery => recovery.outstanding())
    }
    fn is_full(&self, window: u64) -> bool {
        running!(self, recovery => recovery.is_full(window))
    }
    fn flight(&self) -> u64 {
        running!(self, recovery => recovery.flight())
    }
    fn dupacks(&self) -> u32 {
        running!(self, recovery => recovery.dupacks())
    }
    fn deflation(&self) -> f64 {
        running!(self, recovery => recovery.deflation())
    }

    fn inflation(&self) -> f64 {
        running!(self, recovery => recovery.inflation())
    }
}
