//! What one may choose about TCP, and the named sets of choices.
//!
//! `rfc` is TCP Reno without SACK and timestamps as today's RFCs have it: RFC 9293 (TCP), RFC 1122
//! (section 4.2.3), RFC 5681 (congestion control), RFC 6298 (retransmission timer), RFC 3042
//! (limited transmit), RFC 6928 (initial window), RFC 6582 (only its guard against a second fast
//! retransmit). `ns-2.35` is that simulator's `Agent/TCP/Reno` with `Agent/TCPSink` and their
//! defaults (`ns-default.tcl`, `tcp.cc`, `tcp-reno.cc`, `tcp-sink.cc`). It differs in two things:
//! all connections share one `tick_phase`, which ns-2 draws for each, and a second SYN-ACK is
//! ignored, which ns-2 counts as a duplicate acknowledgement.
//!
//! Ours, where the sources are silent: a receiver's window that never limits, and the delay of an
//! acknowledgement within RFC 5681's bound, which is that of Linux.

use aqm_net::{ConfigError, Size, Span, choices, parameters, registry};
use serde_json::Value;

use crate::control::{Control, RenoConfig, SlowStartEnd, SsthreshRounding};
use crate::rtt::RtoArithmetic;

choices! {
    /// How a connection opens.
    pub enum Handshake {
        /// SYN and SYN-ACK cost a round trip before the first data.
        Syn = "syn",
        /// Data flows at once.
        None = "none",
    }
}

choices! {
    /// How a connection closes.
    pub enum Close {
        /// The last data segment carries a FIN, the acknowledgement of all data another.
        Fin = "fin",
        /// It ends when all data is acknowledged (ns-2's one-way TCP).
        None = "none",
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
    }
}

choices! {
    /// What the acknowledgement does to the window that ends fast recovery.
    pub enum ExitAck {
        /// It only takes the inflation out (RFC 5681, section 3.2, step 6).
        Deflates = "deflates",
        /// It opens the window as any other (ns-2).
        Grows = "grows",
    }
}

choices! {
    /// What a loss halves.
    pub enum ReductionBasis {
        /// Data in flight, without what limited transmit added (RFC 5681, equation (4)).
        FlightSize = "flight-size",
        /// The congestion window, at most the receiver's (ns-2).
        Window = "window",
    }
}

choices! {
    /// What the window does while the sender leaves part of it unused.
    pub enum GrowthWhenLimited {
        /// It stays (RFC 7661, section 4, says why).
        Holds = "holds",
        /// It grows with every acknowledgement (ns-2).
        Grows = "grows",
    }
}

choices! {
    /// What a further time-out of the same segment does to `ssthresh`.
    pub enum RepeatedTimeout {
        /// Nothing (RFC 5681, section 3.1, below equation (4)).
        Holds = "holds",
        /// It is halved again (ns-2).
        Halves = "halves",
    }
}

choices! {
    /// When in-order data is acknowledged.
    pub enum DelayedAck {
        /// At once.
        Off = "off",
        /// With every second segment, or after `delayed_ack_timer`.
        EverySecond = "every-second",
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
        pub handshake: Handshake = Handshake::Syn, "RFC 9293, 3.5";
        /// How a connection closes.
        pub close: Close = Close::Fin, "RFC 9293, 3.6";
        /// How long the last segment is.
        pub last_segment: LastSegment = LastSegment::Exact, "RFC 9293";
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
        /// Duplicate acknowledgements that mean a loss (`DupThresh`).
        pub dupthresh: u32 = 3, "RFC 5681, 3.2";
        /// What the duplicate acknowledgements before that send.
        pub limited_transmit: LimitedTransmit = LimitedTransmit::New, "RFC 3042";
        /// When a fast retransmit may follow another.
        pub fast_retransmit_guard: FastRetransmitGuard = FastRetransmitGuard::Recover, "RFC 6582, 3.2";
        /// What the acknowledgement does that ends fast recovery.
        pub exit_ack: ExitAck = ExitAck::Deflates, "RFC 5681, 3.2";
        /// What a loss halves.
        pub reduction_basis: ReductionBasis = ReductionBasis::FlightSize, "RFC 5681, equation (4)";
        /// What the window does while part of it is unused.
        pub growth_when_limited: GrowthWhenLimited = GrowthWhenLimited::Holds, "RFC 7661";
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
        /// How long before the run began the clock ticked last, less than a tick.
        pub tick_phase: Span = Span::ZERO, "ours; only `ticks` looks at it";
        /// Weight of a round-trip sample in SRTT (`alpha`).
        pub srtt_gain: f64 = 0.125, "RFC 6298, 2.3";
        /// Weight of a round-trip sample in RTTVAR (`beta`).
        pub rttvar_gain: f64 = 0.25, "RFC 6298, 2.3";
        /// Retransmission time-out before any sample, so also that of the first SYN.
        pub initial_rto: Span = Span::from_millis(1000), "RFC 6298, 2.1";
        /// Time-out of the first data if a SYN timed out; the backed-off one if left out.
        pub rto_after_syn_loss: Option<Span> = Some(Span::from_millis(3000)), "RFC 6298, 5.7";
        /// The least time-out.
        pub min_rto: Span = Span::from_millis(1000), "RFC 6298, 2.4";
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
        /// Which window packets tell, uninflated and rounded down, at least 1.
        pub hint: Hint = Hint::Clipped, "ours: the edge hint of SHRED";
        /// The law of the congestion window.
        pub control: Control = Control::default(), "RFC 5681";
    }
}

/// The named sets: name, what it is, and the parameters.
pub fn profiles() -> Vec<(&'static str, &'static str, Config)> {
    vec![
        ("rfc", "TCP Reno as today's RFCs have it, without SACK and timestamps.", Config::default()),
        ("ns-2.35", "ns-2.35's Agent/TCP/Reno and Agent/TCPSink with their defaults.", ns_2_35()),
    ]
}

fn ns_2_35() -> Config {
    Config {
        mss: Size::from_bytes(1000),
        close: Close::None,
        last_segment: LastSegment::Padded,
        initial_window: 2,
        ssthresh_after_syn_loss: Some(2.0),
        receiver_window: 20,
        limited_transmit: LimitedTransmit::Next,
        fast_retransmit_guard: FastRetransmitGuard::RecoverOrFirst,
        exit_ack: ExitAck::Grows,
        reduction_basis: ReductionBasis::Window,
        growth_when_limited: GrowthWhenLimited::Grows,
        repeated_timeout: RepeatedTimeout::Halves,
        rto_arithmetic: RtoArithmetic::Ticks,
        tick: Span::from_millis(10),
        initial_rto: Span::from_millis(3000),
        rto_after_syn_loss: None,
        min_rto: Span::from_millis(200),
        max_syn_retries: None,
        max_retries: None,
        delayed_ack: DelayedAck::Off,
        delayed_ack_timer: Span::from_millis(100),
        control: Control::reno(RenoConfig {
            ssthresh_rounding: SsthreshRounding::Down,
            slow_start_end: SlowStartEnd::PastThreshold,
        }),
        ..Config::default()
    }
}

/// Reads a `[tcp]` table: a `profile`, by default `rfc`, and what differs from it.
///
/// # Errors
/// If the profile or a parameter is unknown or malformed.
pub fn read(value: Value) -> Result<Config, ConfigError> {
    let Value::Object(mut table) = value else {
        return Err(ConfigError::new("", "must be a table"));
    };
    let name = table.remove("profile").unwrap_or_else(|| "rfc".into());
    let known = profiles();
    let Some((_, _, base)) = known.iter().find(|(profile, ..)| name == *profile) else {
        let names: Vec<String> = known.iter().map(|(profile, ..)| format!("`{profile}`")).collect();
        let problem = format!("unknown profile {name}, expected one of {}", names.join(", "));
        return Err(ConfigError::new("profile", problem));
    };
    let mut full = base.to_value();
    merge(&mut full, Value::Object(table));
    // A window law is read by itself, so that an error in it has the place of its own field.
    if let Some(control) = full.get_mut("control") {
        *control = Control::read(control.take()).map_err(|error| error.within("control"))?.to_value();
    }
    registry::read(full)
}

/// Lays `over` on `base`, table by table; a table of another `kind` replaces the old one.
fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            if over.get("kind").is_some_and(|kind| base.get("kind") != Some(kind)) {
                *base = over;
                return;
            }
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

impl Config {
    /// The table in full, every default filled in.
    ///
    /// # Panics
    /// Never: every parameter can be written.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("parameters can be written")
    }
}
