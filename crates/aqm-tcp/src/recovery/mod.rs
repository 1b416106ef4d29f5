//! Loss recovery, which records sent data, detects losses, and selects the next transmission.
//!
//! A recovery does not compute the windows. The sender sets the windows, and the recovery determines which
//! transmissions the windows permit. A new recovery requires a file next to `selective/`, entries in the registry
//! below, and a kind in `config/recovery.rs`. The file contains a [`LossRecovery`] and the items that `recoveries!`
//! requires. The smallest example is `stop_and_wait.rs`.

mod counted_pipe;
mod counting;
pub(crate) mod delivery_rate;
mod full_tcp;
mod quic;
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

/// Lists the module that implements each kind of recovery. Each module contains a function `new(&Config)` and a
/// constant `HAS_SACK`, which states whether the endpoints use selective acknowledgements (RFC 2018).
macro_rules! recoveries {
    ( $( $kind:ident => $module:ident, )+ ) => {
        impl RecoveryKind {
            /// Returns whether the endpoints use selective acknowledgements (RFC 2018).
            #[inline]
            pub const fn has_sack(self) -> bool {
                match self { $( Self::$kind => $module::HAS_SACK, )+ }
            }
        }

        impl AnyRecovery {
            /// Creates the recovery that `config` selects.
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
    Quic => quic,
}

/// The current time, the round-trip estimate and the parameters of the retransmission timer.
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
        self.estimator.rto()
    }
}

/// The contents of an acknowledgement.
#[derive(Clone, Copy)]
pub(crate) struct ReceivedAck<'a> {
    /// Sequence number below which all data has arrived.
    pub ack: u64,
    /// Ranges of data that have arrived beyond `ack`.
    pub sacks: &'a Sacks,
    /// Whether the segment carries neither a payload nor a FIN. Only a segment without payload and FIN may be a
    /// duplicate acknowledgement (RFC 5681, section 2).
    pub bare: bool,
    /// Departure time of the segment that triggered the acknowledgement, or the start of the run if there is no
    /// timestamp.
    pub echo: Instant,
}

/// The result of processing an acknowledgement or the expiry of the recovery's own timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AckOutcome {
    /// Number of bytes that are acknowledged in order for the first time.
    pub acked: u64,
    /// Number of bytes that are newly known to have arrived.
    pub delivered: u64,
    /// Departure time of the newest of the segments that are newly known to have arrived and were sent only once. With
    /// `RttSamples::FirstSegment`, departure time of the first of these segments or, if there are none, the time
    /// derived from timestamps. `NEVER` if there is no such departure time, or if the recovery does not record
    /// departure times.
    pub sent: Instant,
    /// Like `sent`, but always the departure time of the newest segment, regardless of `rto.samples`. The value is also
    /// `NEVER` if the segment was acknowledged only cumulatively and the acknowledgement covers a retransmission.
    pub newest: Instant,
    /// Whether the acknowledgement shows that the last window reduction was unnecessary.
    pub undone: bool,
    /// Whether the retransmission timer restarts although no new data is acknowledged (`RestartedBy::OldestSegment`).
    pub restarts: bool,
    /// Departure time of the oldest segment if the retransmission timer runs from this time; `NEVER` if the timer runs
    /// from the current time.
    pub since: Instant,
    pub kind: AckKind,
}

/// The meaning, for the sender, of an acknowledgement or of the expiry of the recovery's own timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckKind {
    /// No new information.
    Stale,
    /// New data is acknowledged, and no data is known to be missing.
    Advance,
    /// Like `Advance`, but after duplicate acknowledgements that inflated the window without a fast retransmit.
    Opened,
    /// A hole was filled and another hole was detected, so fast recovery continues.
    Partial,
    /// Fast recovery ends.
    Exit,
    /// Data arrived out of order.
    Duplicate,
    /// A loss was detected, so fast recovery begins.
    Loss,
    /// Like `Loss`, but an ECN mark has already reduced this window, so the window stays constant (ns-2's FullTcp).
    LossAfterMark,
    /// A probe repaired a loss. The window must be reduced, and no other loss remains (Linux).
    Repaired,
    /// Losses were detected that lasted longer than several probe timeouts, so the window restarts from its minimum
    /// (RFC 9002, section 7.6).
    PersistentCongestion,
}

/// Probe timeouts of QUIC (RFC 9002, section 6.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProbeTimeouts {
    /// Number of probe timeouts since the last acknowledgement (`pto_count`).
    pub consecutive: u32,
    /// Number of probe timeouts since the connection was opened.
    pub total: u32,
}

impl AckOutcome {
    /// Result of an acknowledgement that carries no new information.
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

/// Limits on the amount of data in the network, in whole segments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Windows {
    pub congestion: u64,
    pub receiver: u64,
    pub mss: u64,
}

/// The data that the sender has to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    /// End of the data that the application has written so far.
    pub end: u64,
    /// Whether a FIN follows the data. The FIN has the sequence number `end` and is sent with the last data segment if
    /// possible.
    pub fin: bool,
    pub mss: u64,
}

impl Stream {
    /// Returns the sequence number that follows the data and the FIN.
    pub fn limit(&self) -> u64 {
        self.end + u64::from(self.fin)
    }

    /// Returns the number of sequence numbers that the segment beginning at `seq` occupies.
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
    /// Number of sequence numbers that the segment occupies, including a FIN.
    pub len: u64,
    /// Whether the segment, or a part of the segment, has been sent before.
    pub is_retransmission: bool,
}

/// Records a sender's data, and determines what is sent next. An implementation receives the windows only through
/// `set_windows`.
pub(crate) trait LossRecovery: Send {
    /// Processes an acknowledgement.
    fn on_ack(&mut self, received: &ReceivedAck, at: TimerContext<'_>, config: &Config) -> AckOutcome;
    /// Processes the expiry of the retransmission timer, after which all data in flight is considered lost.
    fn on_timeout(&mut self, at: TimerContext<'_>, config: &Config);
    /// Processes the expiry of the recovery's own timer, after which a segment may be considered lost, or a probe may
    /// be due.
    fn on_timer(&mut self, _at: TimerContext<'_>, _config: &Config) -> AckOutcome {
        AckOutcome::NONE
    }
    /// Returns the expiry time of the recovery's own timer; `NEVER` if the timer is not running.
    fn timer(&self) -> Instant {
        Instant::NEVER
    }
    /// Reports that the congestion window fell from `from` to `to` segments because of a loss.
    fn on_reduction(&mut self, _from: f64, _to: f64) {}
    /// Reports that an ECN mark reduces the window. The mark was echoed on an acknowledgement of `delivered` new bytes.
    /// If the reduction is `gradual`, `on_reduction` is called next.
    fn on_mark(&mut self, _delivered: u64, _gradual: bool) {}
    /// Sets the windows.
    fn set_windows(&mut self, windows: Windows, config: &Config);
    /// Returns whether the windows permit the transmission of a segment now.
    fn has_next(&self, stream: Stream) -> bool;
    /// Returns whether the next segment is sent without a random delay, because the segment is a fast retransmission or
    /// is sent by limited transmit.
    fn is_urgent(&self, config: &Config) -> bool;
    /// Returns the next segment to send.
    fn next(&mut self, stream: Stream, at: TimerContext<'_>) -> Option<Transmission>;
    /// Returns the oldest unacknowledged byte (`SND.UNA`).
    fn una(&self) -> u64;
    /// Returns the sequence number that follows all sent data.
    fn sent(&self) -> u64;
    /// Returns the recovery's estimate of the number of bytes in the network. With SACK, this number is `pipe`; without
    /// SACK, this number counts the unacknowledged bytes that have been sent since the connection was opened or since
    /// the last timeout.
    fn outstanding(&self) -> u64;
    /// Returns whether a congestion window of `window` bytes is full.
    fn is_full(&self, window: u64) -> bool {
        self.outstanding() >= window
    }
    /// Returns the number of unacknowledged bytes, excluding bytes sent by limited transmit (`FlightSize`).
    fn flight(&self) -> u64;
    /// Returns the number of duplicate acknowledgements since the last acknowledgement of new data.
    fn dupacks(&self) -> u32;
    /// Returns the number of segments by which partial acknowledgements have reduced the window below the congestion
    /// control's window.
    fn deflation(&self) -> u32 {
        0
    }
    /// Returns the number of segments by which duplicate acknowledgements have inflated the window. After an
    /// acknowledgement of new data, this function returns the number before this acknowledgement.
    fn inflation(&self) -> f64 {
        0.0
    }
    /// Returns whether the recovery records the departure time of each segment. If departure times are recorded, an
    /// acknowledgement of any segment yields a round-trip sample.
    fn records_times(&self) -> bool {
        false
    }
    /// Returns the phase of the recovery.
    fn phase(&self) -> RecoveryPhase {
        RecoveryPhase::Open
    }
    /// Whether there is data that is considered lost and has not been retransmitted yet.
    fn has_lost(&self) -> bool {
        false
    }
    /// Sets whether the delivery rate is measured. This function must be called before any data is sent. Only the
    /// recoveries `sack` and `rack` can measure the delivery rate.
    fn measure_rate(&mut self, _is_on: bool) {}
    /// Returns the state for measuring the delivery rate; `None` if the delivery rate is not measured.
    fn rate(&mut self) -> Option<&mut DeliveryRate> {
        None
    }
    /// Returns the number of the last packet (QUIC only).
    fn packet_number(&self) -> Option<u64> {
        None
    }
    /// Returns the numbers of probe timeouts (QUIC only).
    fn probe_timeouts(&self) -> ProbeTimeouts {
        ProbeTimeouts::default()
    }
}

/// The recovery of a running sender. The recovery without SACK is stored without a box, because most simulations use
/// this recovery.
pub(crate) enum AnyRecovery {
    Counting(counting::Counting),
    Boxed(BoxedRecovery),
}

/// A recovery stored in a box. The recovery with SACK has a concrete type, so that the calls for every packet can be
/// inlined. All other recoveries are trait objects.
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

/// Delegates every function to the sender's recovery. Functions that only query the recovery are listed first, followed
/// by functions that change the recovery.
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
    fn packet_number(&self) -> Option<u64>;
    fn probe_timeouts(&self) -> ProbeTimeouts;
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
