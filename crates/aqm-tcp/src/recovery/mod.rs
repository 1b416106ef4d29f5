//! Loss recovery: records sent data, detects losses and selects the next transmission.
//!
//! A recovery does not set the window; it gets the windows and determines what they permit. A new recovery needs one
//! file next to `selective/`, which contains a [`LossRecovery`] and the items that `recoveries!` requires, its lines in
//! the registry below and its kind in `config/recovery.rs`; `stop_and_wait.rs` is the smallest.

mod counted_pipe;
mod counting;
pub(crate) mod delivery_rate;
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
use crate::congestion_control::RecoveryPhase;
use crate::rtt::Estimator;
use crate::segment::Sacks;
use delivery_rate::DeliveryRate;

/// Lists the module that implements each kind of recovery. A module has a constant `HAS_SACK` (whether both endpoints
/// use selective acknowledgements, RFC 2018) and a function `new(&Config)`.
macro_rules! recoveries {
    ( $( $kind:ident => $module:ident, )+ ) => {
        impl RecoveryKind {
            /// Whether both endpoints use selective acknowledgements (RFC 2018).
            #[inline]
            pub const fn has_sack(self) -> bool {
                match self { $( Self::$kind => $module::HAS_SACK, )+ }
            }
        }

        impl AnyRecovery {
            /// Creates the recovery selected by `config`.
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

/// Current time and state of the path.
#[derive(Clone, Copy)]
pub(crate) struct TimerContext<'a> {
    pub now: Instant,
    pub estimator: &'a Estimator,
    pub config: &'a Rto,
}

impl TimerContext<'_> {
    /// Returns the smoothed round-trip time.
    #[inline(always)]
    pub fn srtt(&self) -> Option<Span> {
        self.estimator.srtt(self.config)
    }

    /// Returns the retransmission timeout.
    #[inline(always)]
    pub fn rto(&self) -> Span {
        self.estimator.rto(self.config)
    }
}

/// Contents of an acknowledgement.
#[derive(Clone, Copy)]
pub(crate) struct ReceivedAck<'a> {
    /// Everything below has arrived in order.
    pub ack: u64,
    /// Ranges that have arrived beyond `ack`.
    pub sacks: &'a Sacks,
    /// Whether the segment carries neither payload nor FIN, so that it may be a duplicate (RFC 5681, section 2).
    pub bare: bool,
    /// Departure time of the segment that triggered the acknowledgement; the start of the run if there is no timestamp.
    pub echo: Instant,
}

/// Result of an acknowledgement or of the recovery's own timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AckOutcome {
    /// Bytes acknowledged in order for the first time.
    pub acked: u64,
    /// Bytes newly known to have arrived.
    pub delivered: u64,
    /// Departure time of the newest segment that is newly known to have arrived, among segments sent once. With
    /// `RttSamples::FirstSegment`, that of the first such segment, or else the time derived from timestamps. `NEVER` if
    /// there is no such segment or the recovery does not record these times.
    pub sent: Instant,
    /// As `sent`, of the newest segment regardless of `rto.samples`. Also `NEVER` if the segment was acknowledged in
    /// order only and the acknowledgement covers a retransmission.
    pub newest: Instant,
    /// Whether the acknowledgement shows that the last reduction was unnecessary.
    pub undone: bool,
    /// Whether the retransmission timer restarts although no new data is acknowledged (`RestartedBy::OldestSegment`).
    pub restarts: bool,
    /// Departure time of the oldest segment if the retransmission timer counts from then on; `NEVER` if it counts from
    /// now.
    pub since: Instant,
    pub kind: AckKind,
}

/// Meaning of an acknowledgement, or of the recovery's own timer, for the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckKind {
    /// Nothing new.
    Stale,
    /// New data is acknowledged, and no data is known to be missing.
    Advance,
    /// As `Advance`, after duplicates that opened the window without a fast retransmit.
    Opened,
    /// A hole is filled and another detected; fast recovery continues.
    Partial,
    /// Fast recovery ends.
    Exit,
    /// Data arrived out of order.
    Duplicate,
    /// A loss was detected: fast recovery begins.
    Loss,
    /// As `Loss`, in a window that a mark has already reduced: the window stays constant (ns-2's FullTcp).
    LossAfterMark,
    /// A probe repaired a loss: the window must be reduced, and no other loss remains (Linux).
    Repaired,
}

impl AckOutcome {
    /// Result without news.
    pub const NONE: Self = Self {
        acked: 0,
        delivered: 0,
        sent: Instant::NEVER,
        newest: Instant::NEVER,
        undone: false,
        restarts: false,
        since: Instant::NEVER,
        kind: AckKind::Stale,
    };
}

/// Limits of the data in the network, in whole segments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Windows {
    pub congestion: u64,
    pub receiver: u64,
    pub mss: u64,
}

/// Data to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    /// End of the data written so far.
    pub end: u64,
    /// Whether a FIN follows the data. The FIN has the sequence number `end` and is sent with the last data if
    /// possible.
    pub fin: bool,
    pub mss: u64,
}

impl Stream {
    /// Returns the end of the sequence numbers.
    pub fn limit(&self) -> u64 {
        self.end + u64::from(self.fin)
    }

    /// Returns the number of sequence numbers of the segment that begins at `seq`.
    #[inline]
    pub fn segment(&self, seq: u64) -> u64 {
        let data = self.mss.min(self.end.saturating_sub(seq));
        data + u64::from(self.fin && seq + data == self.end)
    }
}

/// A segment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transmission {
    pub seq: u64,
    /// Number of sequence numbers, including a FIN.
    pub len: u64,
    /// Whether the segment, or a part of it, was sent before.
    pub is_retransmission: bool,
}

/// Sender's record of its data. It knows the windows only from `set_windows`.
pub(crate) trait LossRecovery: Send {
    /// Processes an acknowledgement.
    fn on_ack(&mut self, received: &ReceivedAck, at: TimerContext<'_>, config: &Config) -> AckOutcome;
    /// Processes the expiry of the retransmission timer: everything in flight is considered lost.
    fn on_timeout(&mut self, at: TimerContext<'_>, config: &Config);
    /// Processes the expiry of the recovery's own timer: a segment may now be considered lost, or a probe may be due.
    fn on_timer(&mut self, _at: TimerContext<'_>, _config: &Config) -> AckOutcome {
        AckOutcome::NONE
    }
    /// Returns the expiry time of the recovery's own timer; `NEVER` if it is off.
    fn timer(&self) -> Instant {
        Instant::NEVER
    }
    /// Reports that the congestion window fell from `from` to `to` segments because of a loss.
    fn on_reduction(&mut self, _from: f64, _to: f64) {}
    /// Reports a mark that reduces the window, echoed on an acknowledgement of `delivered` new bytes. If the reduction
    /// is `gradual`, a call of `on_reduction` follows.
    fn on_mark(&mut self, _delivered: u64, _gradual: bool) {}
    /// Sets the windows.
    fn set_windows(&mut self, windows: Windows, config: &Config);
    /// Whether the windows permit a segment now.
    fn has_next(&self, stream: Stream) -> bool;
    /// Whether the next segment is sent without a random delay: a fast retransmission or limited transmit.
    fn is_urgent(&self, config: &Config) -> bool;
    /// Returns the next segment to send.
    fn next(&mut self, stream: Stream, at: TimerContext<'_>) -> Option<Transmission>;
    /// Returns the oldest unacknowledged byte (`SND.UNA`).
    fn una(&self) -> u64;
    /// Returns the end of all sent data.
    fn sent(&self) -> u64;
    /// Returns the bytes in the network as known to the recovery: with SACK, `pipe`; without it, the unacknowledged
    /// bytes sent since the start or the last timeout.
    fn outstanding(&self) -> u64;
    /// Whether the windows permit no more, where the congestion window is `window` bytes.
    fn is_full(&self, window: u64) -> bool {
        self.outstanding() >= window
    }
    /// Returns the unacknowledged bytes, without those of limited transmit (`FlightSize`).
    fn flight(&self) -> u64;
    /// Returns the number of duplicate acknowledgements since the last new one.
    fn dupacks(&self) -> u32;
    /// Returns the number of segments by which partial acknowledgements have lowered the window below the congestion
    /// control's.
    fn deflation(&self) -> u32 {
        0
    }
    /// Returns the number of segments by which duplicates have opened the window; after an acknowledgement of new data,
    /// the number before it.
    fn inflation(&self) -> f64 {
        0.0
    }
    /// Whether the recovery records the departure time of each segment, so that an acknowledgement of any segment is a
    /// round-trip sample.
    fn records_times(&self) -> bool {
        false
    }
    /// Returns the phase of the recovery.
    fn phase(&self) -> RecoveryPhase {
        RecoveryPhase::Open
    }
    /// Whether data is considered lost that was not retransmitted yet.
    fn has_lost(&self) -> bool {
        false
    }
    /// Sets whether the delivery rate is measured; no data has been sent yet. Only the recoveries `sack` and `rack` can
    /// measure the rate.
    fn measure_rate(&mut self, _is_on: bool) {}
    /// Returns the delivery rate, if it is measured.
    fn rate(&mut self) -> Option<&mut DeliveryRate> {
        None
    }
}

/// Recovery of a running sender. The one without SACK is stored inline, because most simulations use it.
pub(crate) enum AnyRecovery {
    Counting(counting::Counting),
    Boxed(BoxedRecovery),
}

/// A recovery stored in a box: the one with SACK, whose type is known so that calls for every packet can be inlined, or
/// another one.
pub(crate) enum BoxedRecovery {
    Selective(Box<selective::Selective>),
    Other(Box<dyn LossRecovery>),
}

impl AnyRecovery {
    /// Boxes a recovery as a trait object.
    fn other(recovery: impl LossRecovery + 'static) -> Self {
        Self::Boxed(BoxedRecovery::Other(Box::new(recovery)))
    }
}

/// Delegates every function to the running recovery: first the queries, then the updates.
macro_rules! delegate {
    (
        queries: $( fn $query:ident(&$this:ident $(, $argument:ident: $type:ty)*) -> $answer:ty; )+
        updates: $( fn $update:ident(&mut $receiver:ident $(, $input:ident: $input_type:ty)*) $(-> $outcome:ty)?; )+
    ) => {
        impl LossRecovery for AnyRecovery {
            $(
                #[inline(always)]
                fn $query(&$this $(, $argument: $type)*) -> $answer {
                    match $this {
                        Self::Counting(recovery) => recovery.$query($($argument),*),
                        Self::Boxed(BoxedRecovery::Selective(recovery)) => recovery.$query($($argument),*),
                        Self::Boxed(BoxedRecovery::Other(recovery)) => recovery.$query($($argument),*),
                    }
                }
            )+
            $(
                #[inline(always)]
                fn $update(&mut $receiver $(, $input: $input_type)*) $(-> $outcome)? {
                    match $receiver {
                        Self::Counting(recovery) => recovery.$update($($input),*),
                        Self::Boxed(BoxedRecovery::Selective(recovery)) => recovery.$update($($input),*),
                        Self::Boxed(BoxedRecovery::Other(recovery)) => recovery.$update($($input),*),
                    }
                }
            )+
        }
    };
}

delegate! {
    queries:
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
    fn records_times(&self) -> bool;
    fn phase(&self) -> RecoveryPhase;
    fn has_lost(&self) -> bool;
    updates:
    fn on_ack(&mut self, received: &ReceivedAck, at: TimerContext<'_>, config: &Config) -> AckOutcome;
    fn on_timeout(&mut self, at: TimerContext<'_>, config: &Config);
    fn on_timer(&mut self, at: TimerContext<'_>, config: &Config) -> AckOutcome;
    fn on_reduction(&mut self, from: f64, to: f64);
    fn on_mark(&mut self, delivered: u64, gradual: bool);
    fn set_windows(&mut self, windows: Windows, config: &Config);
    fn next(&mut self, stream: Stream, at: TimerContext<'_>) -> Option<Transmission>;
    fn measure_rate(&mut self, is_on: bool);
    fn rate(&mut self) -> Option<&mut DeliveryRate>;
}
