//! What one may choose about TCP: every parameter with its choices, its default and the default's source.
//!
//! The defaults are the profile `rfc`, TCP Reno without SACK and timestamps as today's RFCs have it: RFC
//! 9293 (TCP), RFC 1122 (section 4.2.3), RFC 5681 (congestion control), RFC 6298 (retransmission timer),
//! RFC 3042 (limited transmit), RFC 6928 (initial window). What SACK, NewReno and ECN add stands where it is
//! chosen. Other sets of values are in `profiles.rs`.
//!
//! Ours, where the sources are silent: a receiver's window that never limits, and the delay of an
//! acknowledgement within RFC 5681's bound, which is that of Linux.

use aqm_net::{Size, Span, choices, parameters};
use serde_json::Value;

use crate::control::Control;
use crate::rtt::{MinRto, RtoArithmetic, TimerClock};

choices! {
    /// How a connection opens.
    pub enum Handshake {
        /// SYN, SYN-ACK and an acknowledgement, each sent again until it is answered (RFC 9293, 3.5).
        ThreeWay = "three-way",
        /// SYN and its answer: the passive end keeps no state and no timer (ns-2's one-way TCP).
        TwoWay = "two-way",
        /// Data flows at once.
        None = "none",
    }
}

choices! {
    /// How the acknowledgement travels that ends a three-way handshake.
    pub enum HandshakeAck {
        /// On the first data, if there is some to send at once.
        WithData = "with-data",
        /// As a packet of its own before the data (ns-3).
        Alone = "alone",
    }
}

choices! {
    /// What a SYN does that comes again to the end that has answered it.
    pub enum RepeatedSyn {
        /// It is answered again.
        Answered = "answered",
        /// It is answered again, and the timer of the answer starts anew (Linux: `tcp_check_req`).
        Restarts = "restarts",
        /// Nothing: the timer of the answer is enough (ns-2's FullTcp).
        Ignored = "ignored",
    }
}

choices! {
    /// How a connection closes.
    pub enum Close {
        /// Each end sends a FIN behind its data, again until it is acknowledged (RFC 9293, 3.6).
        Fin = "fin",
        /// It ends when all data is acknowledged (ns-2's one-way TCP).
        None = "none",
    }
}

choices! {
    /// How the acknowledgement travels of the FIN that makes an end close, too.
    pub enum FinAck {
        /// On what that end still has to send, its own FIN if no more.
        WithData = "with-data",
        /// As a packet of its own before: the acknowledgement leaves at once, and the application closes after
        /// (Linux; ns-2's FullTcp).
        Alone = "alone",
    }
}

choices! {
    /// How long the last segment of a transfer is.
    pub enum LastSegment {
        /// As long as the data that is left.
        Exact = "exact",
        /// Full size, whatever is left (ns-2 counts whole segments).
        Padded = "padded",
    }
}

choices! {
    /// How losses are found and repaired. How far the window falls is another matter: `control`.
    pub enum Recovery {
        /// Without SACK: the third duplicate acknowledgement starts again from a window of one and the
        /// oldest hole (V. Jacobson 1988).
        Tahoe = "tahoe",
        /// Without SACK: fast retransmit and fast recovery, which ends with the next new
        /// acknowledgement (RFC 5681, section 3.2, in the form of RFC 2581).
        Reno = "reno",
        /// Without SACK: fast recovery goes on until all that was sent before it is acknowledged; a
        /// partial acknowledgement shows the next hole (RFC 6582).
        NewReno = "newreno",
        /// With SACK: what to send again follows from a scoreboard (RFC 2018, RFC 6675).
        Sack = "sack",
        /// With SACK, and time instead of counting decides what is lost; probes find lost tails
        /// (RACK-TLP, RFC 8985).
        Rack = "rack",
    }
}

choices! {
    /// How a sender with SACK knows how much is in the network (`pipe`).
    pub enum Pipe {
        /// From its scoreboard, segment by segment (RFC 6675, section 4).
        Scoreboard = "scoreboard",
        /// Counted: less one with each acknowledgement, less two with a partial one, one more with each
        /// segment sent; every hole below the highest SACKed segment is sent again once, and the
        /// scoreboard forgets all when recovery ends (ns-2's Sack1).
        Counted = "counted",
    }
}

choices! {
    /// How the window comes down in fast recovery, with SACK.
    pub enum Reduction {
        /// At once, so that the sender falls silent for half a round trip (RFC 6675).
        AtOnce = "at-once",
        /// In proportion to what arrives (PRR, RFC 6937).
        Prr = "prr",
        /// By a segment with every second acknowledgement (J. Hoe; Linux 2.4).
        RateHalving = "rate-halving",
    }
}

choices! {
    /// How much PRR sends once less is in flight than the window allows.
    pub enum PrrBound {
        /// As much as arrives (RFC 6937, "conservative reduction bound").
        Crb = "crb",
        /// A segment more with each acknowledgement (RFC 6937, "slow-start reduction bound").
        Ssrb = "ssrb",
        /// As `ssrb` if the acknowledgement moves on and shows no further loss, otherwise as `crb`
        /// (Linux since 3.17; RFC 9937).
        SafeAck = "safe-ack",
    }
}

choices! {
    /// By what PRR divides what has arrived.
    pub enum PrrShare {
        /// What was sent and not acknowledged when the loss was found (`RecoverFS`, RFC 6937).
        Flight = "flight-size",
        /// The window before it fell (Linux).
        Window = "window",
    }
}

choices! {
    /// What a sender with SACK does in fast recovery when all that is known to be lost is sent again, and no
    /// new data may be.
    pub enum Doubtful {
        /// It sends again what may be lost, and at last the last segment (RFC 6675, rules (3) and (4)).
        SentAgain = "sent-again",
        /// It waits (Linux).
        Waits = "waits",
    }
}

choices! {
    /// What a time-out does to what SACK told.
    pub enum SacksAtTimeout {
        /// It stays: only holes are sent again (RFC 6675, section 5.1).
        Kept = "kept",
        /// It is forgotten, in case the receiver discarded data (RFC 2018, section 8; ns-2).
        Forgotten = "forgotten",
    }
}

choices! {
    /// By how much SACK lengthens the segments that carry it.
    pub enum SackBytes {
        /// By the whole option (RFC 2018, section 3).
        Counted = "counted",
        /// By eight bytes each, without kind, length and padding (ns-2).
        Blocks = "blocks",
    }
}

choices! {
    /// Which partial acknowledgements of NewReno restart the retransmission timer.
    pub enum PartialAckTimer {
        /// The first of a recovery ("impatient": many losses end in a time-out; RFC 6582, 3.2, step 5).
        First = "first",
        /// Each ("slow but steady"; RFC 6582, section 4).
        Each = "each",
    }
}

choices! {
    /// The window after NewReno's fast recovery.
    pub enum ExitWindow {
        /// `ssthresh`, or a segment more than is in flight if that is less (RFC 6582, 3.2, step 3).
        Flight = "flight",
        /// `ssthresh`.
        Ssthresh = "ssthresh",
        /// Whatever partial acknowledgements left of it (ns-2: `exit_recovery_fix_ 0`).
        Deflated = "deflated",
    }
}

choices! {
    /// Which segments' round trips are timed.
    pub enum RttSamples {
        /// One a window (RFC 6298, section 3).
        Window = "window",
        /// Every one that was sent once, as far as the recovery keeps times: those with SACK do, the
        /// others time one a window.
        Segment = "segment",
        /// As `segment`, but of what one acknowledgement tells has arrived only the first segment, and none if
        /// it acknowledges anything that was sent again (Linux).
        FirstSegment = "first-segment",
    }
}

choices! {
    /// What ends the back-off of the retransmission timer.
    pub enum BackOffEnd {
        /// A sample of the round trip, so nothing that was sent again (P. Karn, C. Partridge 1987; RFC 6298,
        /// section 5).
        Sample = "sample",
        /// Any acknowledgement of new data (BSD, Linux, ns-2's FullTcp).
        Progress = "progress",
    }
}

choices! {
    /// What the retransmission timer is restarted with by an acknowledgement that is also a sample.
    pub enum TimerRestart {
        /// With the sample, and without the back-off it ends (RFC 6298, section 5).
        AfterSample = "after-sample",
        /// With what was known before, so the back-off of a time-out lasts for one more (ns-2's FullTcp).
        BeforeSample = "before-sample",
    }
}

choices! {
    /// What restarts the retransmission timer beside the acknowledgement of new data.
    pub enum TimerFollows {
        /// The first retransmission of a recovery.
        Recovery = "recovery",
        /// Any retransmission of the oldest segment, and SACK of a segment that left before that one did (Linux).
        OldestSegment = "oldest-segment",
    }
}

choices! {
    /// What a pause of the application does to the window.
    pub enum IdleRestart {
        /// Nothing.
        Off = "off",
        /// After a pause of a time-out the window is at most the initial window (RFC 5681, 4.1).
        InitialWindow = "initial-window",
        /// After a pause of a time-out it is one segment (ns-2).
        OneSegment = "one-segment",
        /// Whenever data leaves after a pause of a time-out, without its minimum and back-off, it is the
        /// initial window, even if it was smaller but not above `ssthresh` (ns-2's FullTcp, of 2 segments).
        ToInitialWindow = "to-initial-window",
    }
}

choices! {
    /// Whether packets may be marked instead of dropped.
    pub enum EcnUse {
        /// They may not.
        Off = "off",
        /// If the other end agrees: data sent for the first time is ECN-capable; an echoed mark reduces
        /// the window as a loss does, once a window of data (RFC 3168, section 6.1).
        On = "on",
    }
}

choices! {
    /// Whether a receiver tells what came twice.
    pub enum Dsack {
        /// It does not.
        Off = "off",
        /// The first block of SACK may tell of it (RFC 2883).
        On = "on",
    }
}

choices! {
    /// What the first and the second duplicate acknowledgement send (RFC 3042).
    pub enum LimitedTransmit {
        /// Nothing.
        Off = "off",
        /// One segment that was never sent.
        New = "new",
        /// The segment that is next in line, after a time-out also one sent before (ns-2).
        Next = "next",
    }
}

choices! {
    /// When duplicate acknowledgements may start a fast retransmit again.
    pub enum FastRetransmitGuard {
        /// At any time.
        None = "none",
        /// When everything sent before the last recovery or time-out is acknowledged
        /// (RFC 6582, section 3.2; ns-2: `bugFix_`).
        Recover = "recover",
        /// As `recover`, and always while the first segment is missing (ns-2: `bugfix_ss_`).
        RecoverOrFirst = "recover-or-first",
        /// As `recover` after a time-out; at any time after a recovery (ns-2's FullTcp).
        AfterTimeout = "after-timeout",
    }
}

choices! {
    /// Where the segments stand by which duplicate acknowledgements beyond the threshold open the window.
    pub enum Inflation {
        /// Beside the window, in fast recovery only (RFC 5681, section 3.2).
        Beside = "beside",
        /// In the window itself, after a time-out as in fast recovery: new data acknowledged leaves of it
        /// what `ssthresh` allows, a time-out halves it all. The duplicate at the threshold sends nothing
        /// but the missing segment (ns-2's FullTcp).
        InWindow = "in-window",
    }
}

choices! {
    /// What the acknowledgement does to the window that ends fast recovery.
    pub enum ExitAck {
        /// It only takes the inflation out (RFC 5681, section 3.2, step 6).
        Deflates = "deflates",
        /// It opens the window as any other (ns-2), but not with SACK.
        Grows = "grows",
        /// It opens the window as any other, with SACK too (ns-2's FullTcp).
        GrowsWithSack = "grows-with-sack",
    }
}

choices! {
    /// How a sender answers the echo of a mark, where ECN is on.
    pub enum MarkResponse {
        /// Any acknowledgement tells of a mark; the window keeps a segment; nothing sent again may be marked
        /// (RFC 3168, section 6.1).
        Rfc = "rfc",
        /// Only those of new data tell; a window below a segment waits for the timer, and the time-out then
        /// spares `ssthresh`; after another time-out the first echo counts; the loss of a segment in a window
        /// reduced by a mark halves it again; what is sent again may be marked, too (ns-2's FullTcp).
        FullTcp = "ns-2-full",
    }
}

choices! {
    /// What a loss halves.
    pub enum ReductionBasis {
        /// Data in flight, without what limited transmit added (RFC 5681, equation (4)); with SACK at most
        /// the window, since a lost retransmission lets unacknowledged data pile up without bound.
        FlightSize = "flight-size",
        /// The congestion window, at most the receiver's (ns-2).
        Window = "window",
        /// What is in the network when the loss is found, as the recovery counts it: with SACK without what
        /// has arrived or counts as lost (`pipe`; ns-3).
        Pipe = "pipe",
    }
}

choices! {
    /// What the window does while the sender leaves part of it unused.
    pub enum GrowthWhenLimited {
        /// It stays (RFC 7661, section 4, says why).
        Holds = "holds",
        /// It grows with every acknowledgement (ns-2).
        Grows = "grows",
        /// It grows if the whole window was in use at any time of the last round trip, in slow start also up
        /// to twice what was (Linux).
        GrowsIfUsed = "grows-if-used",
    }
}

choices! {
    /// What a further time-out of the same segment does to `ssthresh`.
    pub enum RepeatedTimeout {
        /// Nothing (RFC 5681, section 3.1, below equation (4)).
        Holds = "holds",
        /// It is halved again (ns-2).
        Halves = "halves",
        /// Nothing, and neither does a time-out in fast recovery, which has reduced it already (Linux).
        HoldsInRecovery = "holds-in-recovery",
    }
}

choices! {
    /// Whether a reduction is taken back that turns out to be needless.
    pub enum Undo {
        /// It is not.
        Off = "off",
        /// It is, with SACK, once D-SACK tells that everything sent again had arrived before (RFC 3708).
        Dsack = "dsack",
    }
}

choices! {
    /// Whether a sender with SACK looks for time-outs that are spurious.
    pub enum Frto {
        /// It does not.
        Off = "off",
        /// After a time-out new data goes first; if what was sent only once before it arrives, nothing is sent
        /// again and the reduction is taken back (F-RTO, RFC 5682, section 3).
        On = "on",
    }
}

choices! {
    /// What a time-out holds for lost, with RACK.
    pub enum TimeoutLoses {
        /// All that is not known to have arrived.
        All = "all",
        /// The oldest segment, and what left before the last round trip (RFC 8985, section 6.3).
        Late = "late",
    }
}

choices! {
    /// Whether the rest of the data waits that does not fill a segment.
    pub enum Nagle {
        /// It does not: the application disables the algorithm (`TCP_NODELAY`).
        Off = "off",
        /// It waits until all that was sent is acknowledged, unless more data fills the segment; the FIN
        /// waits with it (J. Nagle, RFC 896; RFC 9293, 3.7.4).
        On = "on",
    }
}

choices! {
    /// When in-order data is acknowledged.
    pub enum DelayedAck {
        /// At once.
        Off = "off",
        /// With every second segment, or after `delayed_ack_timer`.
        EverySecond = "every-second",
        /// With every second segment, or when the clock next passes a multiple of `delayed_ack_timer`: one
        /// timer for all connections (BSD's fast timer of 200 ms; ns-2's FullTcp).
        Heartbeat = "heartbeat",
        /// As `every-second`, but the delay adapts to the gaps between segments, from `delayed_ack_timer` on;
        /// `quick_acks` follow also a gap longer than the time-out and whatever came twice, and the segment
        /// that ends half a window of what the application wrote is acknowledged at once (Linux).
        Adaptive = "adaptive",
    }
}

choices! {
    /// Which window a sender writes into its packets for SHRED.
    pub enum Hint {
        /// The congestion window, at most the receiver's.
        Clipped = "clipped",
        /// The congestion window.
        Raw = "raw",
    }
}

parameters! {
    /// TCP: one side sends data, the other acknowledges it.
    pub struct Config {
        /// Payload of a full segment (`SMSS`).
        pub mss: Size = Size::from_bytes(1460), "RFC 9293, 3.7.1: 1500 less 40";
        /// Header of a data segment, IP included.
        pub header: Size = Size::from_bytes(40), "RFC 791, RFC 9293: 20 each, no options";
        /// A SYN or a bare FIN on the wire.
        pub syn_size: Size = Size::from_bytes(40), "as `header`";
        /// An acknowledgement on the wire, a SYN-ACK too.
        pub ack_size: Size = Size::from_bytes(40), "as `header`";
        /// How a connection opens.
        pub handshake: Handshake = Handshake::ThreeWay, "RFC 9293, 3.5";
        /// How the acknowledgement travels that ends a three-way handshake.
        pub handshake_ack: HandshakeAck = HandshakeAck::WithData, "RFC 9293, 3.10.7.3: data may go with it";
        /// What a SYN does that comes again in a three-way handshake.
        pub repeated_syn: RepeatedSyn = RepeatedSyn::Answered, "RFC 9293, 3.10.7.4: an acknowledgement at least; ours";
        /// How a connection closes.
        pub close: Close = Close::Fin, "RFC 9293, 3.6";
        /// How the acknowledgement travels of the FIN that makes an end close, too.
        pub fin_ack: FinAck = FinAck::WithData, "RFC 9293, 3.10.7.4: it may go with data; ours for a FIN";
        /// How long the last segment is.
        pub last_segment: LastSegment = LastSegment::Exact, "RFC 9293";
        /// Whether the rest of the data waits that does not fill a segment. Linux holds it only while an
        /// earlier segment of that kind is not acknowledged, and never with a FIN (G. Minshall's form of the
        /// algorithm): never what these workloads write, so its profiles are as if it were off.
        pub nagle: Nagle = Nagle::Off, "ours: RFC 9293, 3.7.4, lets applications disable it";
        /// First congestion window, in segments (`IW`).
        pub initial_window: u64 = 10, "RFC 6928";
        /// First congestion window if a SYN or its answer was lost, in segments.
        pub initial_window_after_syn_loss: u64 = 1, "RFC 5681, 3.1";
        /// First `ssthresh`, in segments; the receiver's window if left out.
        pub initial_ssthresh: Option<f64> = None, "RFC 5681, 3.1: arbitrarily high";
        /// First `ssthresh` if a SYN or its answer was lost, in segments; as without loss if left out.
        pub ssthresh_after_syn_loss: Option<f64> = None, "RFC 5681 asks for none";
        /// The receiver's window (`rwnd`), in segments.
        pub receiver_window: u64 = 10_000, "ours: never limits";
        /// The window that a receiver begins with, in segments, which then grows by two with each segment up to
        /// `receiver_window`, once as many have come; left out, it does not grow. Linux without timestamps begins with 64 kB, takes the
        /// time in which they came for the round trip, and so gives much more room from then on.
        pub first_receiver_window: Option<u64> = None, "ours: it does not grow";
        /// How losses are found and repaired.
        pub recovery: Recovery = Recovery::Reno, "RFC 5681, 3.2";
        /// Duplicate acknowledgements that mean a loss (`DupThresh`).
        pub dupthresh: u32 = 3, "RFC 5681, 3.2";
        /// What the duplicate acknowledgements before that send.
        pub limited_transmit: LimitedTransmit = LimitedTransmit::New, "RFC 3042";
        /// When a fast retransmit may follow another.
        pub fast_retransmit_guard: FastRetransmitGuard = FastRetransmitGuard::Recover, "RFC 6582, 3.2";
        /// How duplicates beyond the threshold open the window, with `tahoe`, `reno` and `newreno`.
        pub inflation: Inflation = Inflation::Beside, "RFC 5681, 3.2";
        /// How a sender answers the echo of a mark, with ECN.
        pub mark_response: MarkResponse = MarkResponse::Rfc, "RFC 3168, 6.1";
        /// What the acknowledgement does that ends fast recovery.
        pub exit_ack: ExitAck = ExitAck::Deflates, "RFC 5681, 3.2";
        /// Which partial acknowledgements of NewReno restart the retransmission timer.
        pub partial_ack_timer: PartialAckTimer = PartialAckTimer::First, "RFC 6582, 3.2";
        /// The window after NewReno's fast recovery.
        pub exit_window: ExitWindow = ExitWindow::Flight, "RFC 6582, 3.2";
        /// The most segments that one acknowledgement releases in NewReno's fast recovery, those sent again
        /// apart; without limit if left out.
        pub recovery_burst: Option<u64> = None, "ours; ns-2: 2";
        /// How a sender with SACK knows how much is in the network.
        pub pipe: Pipe = Pipe::Scoreboard, "RFC 6675, 4";
        /// How the window comes down in fast recovery, with SACK.
        pub reduction: Reduction = Reduction::AtOnce, "RFC 6675, 5";
        /// How much PRR sends once less is in flight than the window allows.
        pub prr_bound: PrrBound = PrrBound::Ssrb, "RFC 6937, 3";
        /// By what PRR divides what has arrived.
        pub prr_share: PrrShare = PrrShare::Flight, "RFC 6937, 3";
        /// What becomes of segments that may be lost, with SACK.
        pub doubtful: Doubtful = Doubtful::SentAgain, "RFC 6675, 4";
        /// What a time-out does to what SACK told.
        pub sacks_at_timeout: SacksAtTimeout = SacksAtTimeout::Kept, "RFC 6675, 5.1";
        /// What a time-out holds for lost, with RACK.
        pub timeout_loses: TimeoutLoses = TimeoutLoses::All, "ours; RFC 8985, 6.3, spares the newest";
        /// Whether a sender with SACK looks for time-outs that are spurious.
        pub frto: Frto = Frto::Off, "RFC 5682: may be used";
        /// Whether a reduction is taken back that turns out to be needless.
        pub undo: Undo = Undo::Off, "ours; RFC 3708: experimental";
        /// Whether the blocks of SACK lengthen the segments that carry them.
        pub sack_bytes: SackBytes = SackBytes::Counted, "RFC 2018, 3";
        /// Whether a receiver with SACK tells what came twice.
        pub dsack: Dsack = Dsack::On, "RFC 2883";
        /// Whether packets may be marked instead of dropped.
        pub ecn: EcnUse = EcnUse::Off, "ours: RFC 3168 leaves it open";
        /// What a loss halves.
        pub reduction_basis: ReductionBasis = ReductionBasis::FlightSize, "RFC 5681, equation (4)";
        /// The most that one acknowledgement counts where the window grows (`L`), in segments; all that it
        /// tells has arrived if left out.
        pub abc_limit: Option<f64> = Some(1.0), "RFC 5681, 3.1: at most SMSS; RFC 3465: 2";
        /// What the window does while part of it is unused.
        pub growth_when_limited: GrowthWhenLimited = GrowthWhenLimited::Holds, "RFC 7661";
        /// What a pause of the application does to the window.
        pub idle_restart: IdleRestart = IdleRestart::InitialWindow, "RFC 5681, 4.1";
        /// What a further time-out of the same segment does to `ssthresh`.
        pub repeated_timeout: RepeatedTimeout = RepeatedTimeout::Holds, "RFC 5681, 3.1";
        /// What the window allows is sent after a time uniform on [0, `send_overhead`], together with what
        /// it allows meanwhile; fast retransmissions and limited transmit do not wait. It breaks the phase
        /// effects of equal round-trip times at the sender.
        pub send_overhead: Span = Span::ZERO, "ns-2: `overhead_`";
        /// The arithmetic of the retransmission timer.
        pub rto_arithmetic: RtoArithmetic = RtoArithmetic::Exact, "RFC 6298";
        /// Clock granularity (`G`); 0s for none.
        pub tick: Span = Span::ZERO, "RFC 6298, 4: finer than 100 ms is better";
        /// How long before the run began the clock ticked last, less than a tick; with `timer_clock = "wheel"`
        /// when it stood at a multiple of 64 ticks, less than those.
        pub tick_phase: Span = Span::ZERO, "ours; only `ticks` and `wheel` look at it";
        /// Weight of a round-trip sample in SRTT (`alpha`).
        pub srtt_gain: f64 = 0.125, "RFC 6298, 2.3";
        /// Weight of a round-trip sample in RTTVAR (`beta`).
        pub rttvar_gain: f64 = 0.25, "RFC 6298, 2.3";
        /// Which segments' round trips are timed.
        pub rtt_samples: RttSamples = RttSamples::Window, "RFC 6298, 3";
        /// Retransmission time-out before any sample, so also that of the first SYN.
        pub initial_rto: Span = Span::from_millis(1000), "RFC 6298, 2.1";
        /// Time-out of the first data if a SYN timed out; the backed-off one if left out.
        pub rto_after_syn_loss: Option<Span> = Some(Span::from_millis(3000)), "RFC 6298, 5.7";
        /// What ends the back-off.
        pub back_off_end: BackOffEnd = BackOffEnd::Sample, "RFC 6298, 5";
        /// Whether the timer is restarted after what an acknowledgement tells of the round trip, or before.
        pub timer_restart: TimerRestart = TimerRestart::AfterSample, "RFC 6298, 5";
        /// What else restarts the timer, with SACK.
        pub timer_follows: TimerFollows = TimerFollows::Recovery, "RFC 6298, 5: acknowledgements of new data";
        /// When timers run out.
        pub timer_clock: TimerClock = TimerClock::Exact, "RFC 6298, 4";
        /// The least time-out.
        pub min_rto: Span = Span::from_millis(1000), "RFC 6298, 2.4";
        /// Whether the back-off multiplies the least time-out.
        pub min_rto_applies: MinRto = MinRto::BeforeBackOff, "RFC 6298, 2.4 and 5.5";
        /// The greatest time-out.
        pub max_rto: Span = Span::from_millis(60_000), "RFC 6298, 2.5";
        /// How often a SYN is sent again before the sender gives up; for ever if left out.
        pub max_syn_retries: Option<u32> = Some(7), "RFC 1122, 4.2.3.5: at least 3 minutes";
        /// How often data is sent again by the timer, with no progress, before the sender gives
        /// up; for ever if left out.
        pub max_retries: Option<u32> = Some(15), "Linux `tcp_retries2`; RFC 1122: at least 100 s";
        /// When in-order data is acknowledged.
        pub delayed_ack: DelayedAck = DelayedAck::EverySecond, "RFC 5681, 4.2";
        /// The longest an acknowledgement is delayed.
        pub delayed_ack_timer: Span = Span::from_millis(40), "Linux; RFC 5681, 4.2: at most 500 ms";
        /// The first so many data segments are acknowledged at once, delayed acknowledgements or not; with
        /// `adaptive` at most a segment for each two of the receiver's window.
        pub quick_acks: u64 = 0, "ours; Linux: 16";
        /// Which window packets tell, uninflated and rounded down, at least 1.
        pub hint: Hint = Hint::Clipped, "ours: the edge hint of SHRED";
        /// The law of the congestion window.
        pub control: Control = Control::default(), "RFC 5681";
    }
}

impl Config {
    /// The receiver's window when the connection opens, in segments.
    pub(crate) fn window_at_first(&self) -> u64 {
        self.first_receiver_window.unwrap_or(self.receiver_window)
    }

    /// The receiver's window when so many segments have come in order.
    pub(crate) fn grown_window(&self, segments: u64) -> u64 {
        let first = self.window_at_first();
        (first + 2 * segments.saturating_sub(first + 1)).min(self.receiver_window)
    }

    /// The table in full, every default filled in.
    ///
    /// # Panics
    /// Never: every parameter can be written.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("parameters can be written")
    }
}
