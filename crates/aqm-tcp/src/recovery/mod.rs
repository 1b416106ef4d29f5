//! Loss recovery: what has been sent, what is lost, and what may be sent next.
//!
//! How far the window opens is not decided here: a recovery is told the windows and says what they allow. A new one
//! is one file beside `selective/`, with a [`LossRecovery`] and what `recoveries!` asks of it, its lines in the registry
//! below and its word in `config/recovery.rs`; `stop_and_wait.rs` is the smallest.

mod counted_pipe;
mod counting;
mod full_tcp;
mod rack;
mod reduction;
mod sacked;
mod selective;
mod sent;
#[cfg(test)]
mod stop_and_wait;

use aqm_net::{Instant, Span};

use crate::config::Config;
use crate::config::recovery::RecoveryKind;
use crate::config::rto::Rto;
use crate::rtt::Estimator;
use crate::segment::Sacks;

/// Lists the module that each kind of recovery is made by: it has a constant `HAS_SACK` (whether both ends use selective
/// acknowledgements, RFC 2018) and a function `new(&Config)`.
macro_rules! recoveries {
    ( $( $kind:ident => $module:ident, )+ ) => {
        impl RecoveryKind {
            /// Whether both ends use selective acknowledgements (RFC 2018).
            #[inline]
            pub const fn has_sack(self) -> bool {
                match self { $( Self::$kind => $module::HAS_SACK, )+ }
            }
        }

        impl AnyRecovery {
            /// The recovery that `config` asks for.
            pub fn new(config: &Config) -> Self {
                match config.recovery.kind { $( RecoveryKind::$kind => $module::new(config), )+ }
            }
        }
    };
}

recoveries! {
    Tahoe => counting,
    Reno => counting,
    NewReno => counting,
    Sack => selective,
    Rack => selective,
}

/// The present, and what is known of the path.
#[derive(Clone, Copy)]
pub(crate) struct TimerContext<'a> {
    pub now: Instant,
    pub estimator: &'a Estimator,
    pub config: &'a Rto,
}

impl TimerContext<'_> {
    /// The smoothed round-trip time.
    #[inline(always)]
    pub fn srtt(&self) -> Option<Span> {
        self.estimator.srtt(self.config)
    }

    /// The retransmission time-out.
    #[inline(always)]
    pub fn rto(&self) -> Span {
        self.estimator.rto(self.config)
    }
}

/// What an acknowledgement says.
#[derive(Clone, Copy)]
pub(crate) struct ReceivedAck<'a> {
    /// Everything below has arrived in order.
    pub ack: u64,
    /// Ranges that have arrived beyond.
    pub sacks: &'a Sacks,
    /// Whether it carries neither payload nor FIN, so that it may be a duplicate (RFC 5681, section 2).
    pub bare: bool,
    /// When the segment left that it answers; the start of the run if it does not tell.
    pub echo: Instant,
}

/// What is new after an acknowledgement, or after the recovery's own timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AckOutcome {
    /// Bytes acknowledged in order for the first time.
    pub acked: u64,
    /// Bytes that are known to have arrived for the first time.
    pub delivered: u64,
    /// When the newest segment was sent that is now known to have arrived, of those sent only once, or with
    /// `RttSamples::FirstSegment` the one that timestamps tell of if there is none;
    /// `NEVER` if there is none or the recovery does not keep these times.
    pub sent: Instant,
    /// As `sent`, of the newest segment whatever `rto.samples` says; `NEVER` also if only the acknowledgement in order
    /// brought it, and of that anything was sent again.
    pub newest: Instant,
    /// Whether it shows that the last reduction was needless.
    pub undone: bool,
    /// Whether it restarts the retransmission timer though it acknowledges nothing new
    /// (`RestartedBy::OldestSegment`).
    pub restarts: bool,
    /// When the oldest segment left, if the retransmission timer runs from then on; `NEVER` if from now.
    pub since: Instant,
    pub what: AckKind,
}

/// What an acknowledgement, or the recovery's own timer, means for the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckKind {
    /// Nothing new.
    Stale,
    /// New data is acknowledged, and nothing is known to be missing.
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
    /// As `Loss`, in a window that a mark has reduced already: it stays (ns-2's FullTcp).
    LossBehindMark,
    /// A probe repaired a loss: the window is to be reduced, and there is no more to repair (Linux).
    Repaired,
}

impl AckOutcome {
    /// Nothing new.
    pub const NONE: Self = Self {
        acked: 0,
        delivered: 0,
        sent: Instant::NEVER,
        newest: Instant::NEVER,
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
    fn on_ack(&mut self, received: &ReceivedAck, at: TimerContext<'_>, config: &Config) -> AckOutcome;
    /// The retransmission timer ran out: everything in flight counts as lost.
    fn on_timeout(&mut self, at: TimerContext<'_>, config: &Config);
    /// Its own timer ran out: a segment may count as lost by now, or a probe is to be sent.
    fn on_timer(&mut self, _at: TimerContext<'_>, _config: &Config) -> AckOutcome {
        AckOutcome::NONE
    }
    /// When its own timer runs out; `NEVER` if it is off.
    fn timer(&self) -> Instant {
        Instant::NEVER
    }
    /// After a loss was found: the congestion window fell from `from` to `to` segments.
    fn on_reduction(&mut self, _from: f64, _to: f64) {}
    /// A mark reduces the window; it was echoed with an acknowledgement that brought so many bytes. If it `falls`,
    /// `on_reduction` follows.
    fn on_mark(&mut self, _delivered: u64, _falls: bool) {}
    /// The windows are these from now on.
    fn set_windows(&mut self, windows: Windows, config: &Config);
    /// Whether the windows allow a segment now.
    fn has_next(&self, stream: Stream) -> bool;
    /// Whether the next segment answers an acknowledgement at once: a fast retransmission, or limited
    /// transmit.
    fn is_urgent(&self, config: &Config) -> bool;
    /// The next segment to send.
    fn next(&mut self, stream: Stream, at: TimerContext<'_>) -> Option<Sending>;
    /// The oldest byte not acknowledged (`SND.UNA`).
    fn una(&self) -> u64;
    /// The end of everything sent.
    fn sent(&self) -> u64;
    /// Bytes in the network, as far as the recovery knows: without SACK, those sent since the start or the last
    /// time-out and not acknowledged; with it, `pipe`.
    fn outstanding(&self) -> u64;
    /// Whether the windows allow no more, where the congestion window is `window` bytes.
    fn is_full(&self, window: u64) -> bool {
        self.outstanding() >= window
    }
    /// Bytes sent and not acknowledged, without those of limited transmit (`FlightSize`).
    fn flight(&self) -> u64;
    /// Duplicate acknowledgements since the last new one.
    fn dupacks(&self) -> u32;
    /// By how many segments partial acknowledgements took the window below that of the congestion control.
    fn deflation(&self) -> u32 {
        0
    }
    /// By how many segments duplicates have opened the window, or had until new data was acknowledged.
    fn inflation(&self) -> f64 {
        0.0
    }
    /// Whether it knows when each segment was sent, so that acknowledgements tell of any segment's round trip.
    fn keeps_times(&self) -> bool {
        false
    }
}

/// The recovery of a running sender: that without SACK in place, since most of what is simulated uses it.
pub(crate) enum AnyRecovery {
    Counting(counting::Counting),
    Apart(Apart),
}

/// A recovery that is kept apart: that with SACK, whose type is known so that what it is asked with every packet is no
/// call, or another.
pub(crate) enum Apart {
    Selective(Box<selective::Selective>),
    Other(Box<dyn LossRecovery>),
}

impl AnyRecovery {
    /// One of which nothing is known but what it does.
    fn other(recovery: impl LossRecovery + 'static) -> Self {
        Self::Apart(Apart::Other(Box::new(recovery)))
    }
}

/// Hands every function on to the recovery that runs: first those that ask, then those that tell.
macro_rules! hand_on {
    (
        asked: $( fn $ask:ident(&$it:ident $(, $about:ident: $what:ty)*) -> $answer:ty; )+
        told: $( fn $tell:ident(&mut $me:ident $(, $news:ident: $of:ty)*) $(-> $outcome:ty)?; )+
    ) => {
        impl LossRecovery for AnyRecovery {
            $(
                #[inline(always)]
                fn $ask(&$it $(, $about: $what)*) -> $answer {
                    match $it {
                        Self::Counting(recovery) => recovery.$ask($($about),*),
                        Self::Apart(Apart::Selective(recovery)) => recovery.$ask($($about),*),
                        Self::Apart(Apart::Other(recovery)) => recovery.$ask($($about),*),
                    }
                }
            )+
            $(
                #[inline(always)]
                fn $tell(&mut $me $(, $news: $of)*) $(-> $outcome)? {
                    match $me {
                        Self::Counting(recovery) => recovery.$tell($($news),*),
                        Self::Apart(Apart::Selective(recovery)) => recovery.$tell($($news),*),
                        Self::Apart(Apart::Other(recovery)) => recovery.$tell($($news),*),
                    }
                }
            )+
        }
    };
}

hand_on! {
    asked:
    fn timer(&self) -> Instant;
    fn has_next(&self, stream: Stream) -> bool;
    fn is_urgent(&self, config: &Config) -> bool;
    fn una(&self) -> u64;
    fn sent(&self) -> u64;
    fn outstanding(&self) -> u64;
    fn is_full(&self, window: u64) -> bool;
    fn flight(&self) -> u64;
    fn dupacks(&self) -> u32;
    fn deflation(&self) -> u32;
    fn inflation(&self) -> f64;
    fn keeps_times(&self) -> bool;
    told:
    fn on_ack(&mut self, received: &ReceivedAck, at: TimerContext<'_>, config: &Config) -> AckOutcome;
    fn on_timeout(&mut self, at: TimerContext<'_>, config: &Config);
    fn on_timer(&mut self, at: TimerContext<'_>, config: &Config) -> AckOutcome;
    fn on_reduction(&mut self, from: f64, to: f64);
    fn on_mark(&mut self, delivered: u64, falls: bool);
    fn set_windows(&mut self, windows: Windows, config: &Config);
    fn next(&mut self, stream: Stream, at: TimerContext<'_>) -> Option<Sending>;
}
