//! `[tcp.rto]`: the retransmission timer, the round-trip estimate, and the limits of the timeout.
//!
//! V. Paxson, M. Allman, J. Chu, M. Sargent, "Computing TCP's Retransmission Timer", RFC 6298, 2011. The computations
//! are in `rtt/mod.rs`.

use aqm_net::{Span, choices, parameters};

choices! {
    /// Order in which the minimum timeout and the back-off are applied.
    pub enum MinRto {
        /// The minimum is applied first, so that the back-off multiplies the minimum (RFC 6298, rule 2.4 before rule
        /// 5.5).
        BeforeBackOff = "before-back-off",
        /// The back-off is applied first. A timeout that is then below the minimum is raised to the minimum (ns-2
        /// before March 2002: `rfc2988_ false`).
        AfterBackOff = "after-back-off",
    }
}

choices! {
    /// Arithmetic of the round-trip estimate.
    pub enum RtoArithmetic {
        /// RFC 6298's formulas without rounding. The tick is used only as the clock granularity `G`.
        Exact = "exact",
        /// As in ns-2 and BSD. Times are whole numbers of ticks, SRTT has 3 fractional bits and RTTVAR has 2, the
        /// minimum is applied before the back-off, and SRTT is discarded when the back-off exceeds 8.
        Ticks = "ticks",
        /// As in Linux. The variation is the largest deviation in a round trip and decreases slowly. A round-trip
        /// sample that is much shorter than the estimate does not increase the variation, and the variation's term in
        /// the timeout is at least `min`.
        Linux = "linux",
    }
}

choices! {
    /// Segments whose round-trip times are measured.
    pub enum RttSamples {
        /// One segment per window (RFC 6298, section 3).
        Window = "window",
        /// Every segment that was sent only once, if the loss recovery records departure times. Loss recovery with SACK
        /// records departure times; without SACK, one segment per window is measured.
        Segment = "segment",
        /// As `segment`, but only the first segment that each acknowledgement reports as delivered is measured, and no
        /// segment is measured if the acknowledgement covers a retransmission (Linux).
        FirstSegment = "first-segment",
    }
}

choices! {
    /// Event that ends the back-off of the retransmission timer.
    pub enum BackOffEnd {
        /// A round-trip sample. Acknowledgements of retransmissions therefore never end the back-off (P. Karn, C.
        /// Partridge 1987; RFC 6298, section 5).
        Sample = "sample",
        /// Any acknowledgement of new data (BSD, Linux, ns-2's FullTcp).
        Progress = "progress",
    }
}

choices! {
    /// Timeout to which the timer is set when the acknowledgement that restarts the timer also provides a round-trip
    /// sample.
    pub enum TimerRestart {
        /// The timeout that includes the new sample. The sample has already ended the back-off (RFC 6298, section 5).
        AfterSample = "after-sample",
        /// The timeout that does not yet include the new sample, so that the back-off applies to one more restart
        /// (ns-2's FullTcp).
        BeforeSample = "before-sample",
    }
}

choices! {
    /// Events that restart the retransmission timer, in addition to acknowledgements of new data.
    pub enum RestartedBy {
        /// No further events: the timer keeps running when a recovery begins (RFC 6298, section 5; ns-3). If `rto.min`
        /// is small, the timer expires before the retransmission can be acknowledged.
        NewData = "new-data",
        /// The first retransmission of a recovery.
        Recovery = "recovery",
        /// Any retransmission of the oldest segment, and a SACK of a segment that was sent before the oldest
        /// unacknowledged segment (Linux).
        OldestSegment = "oldest-segment",
    }
}

choices! {
    /// Resolution of timers.
    pub enum TimerClock {
        /// A timer expires exactly at the time for which it is set.
        Exact = "exact",
        /// A timer expires on a tick. Timers of less than 63 ticks expire on the next tick, timers of 63 ticks or more
        /// expire on every 8th tick, and timers of 504 ticks or more expire on every 64th tick (Linux since 4.8).
        Wheel = "wheel",
    }
}

parameters! {
    /// Retransmission timer (RFC 6298).
    pub struct Rto {
        /// Retransmission timeout before the first round-trip sample, including the timeout of the first SYN. If the
        /// initial timeout is shorter than the round-trip time, every SYN is sent twice, and the connection begins with
        /// the window that applies after the loss of a SYN.
        pub initial: Span = Span::from_millis(1000), "RFC 6298, 2.1";
        /// Timeout for the first data if a SYN timed out; `none` means that the backed-off timeout is used.
        pub after_syn_loss: Option<Span> = Some(Span::from_millis(3000)), "RFC 6298, 5.7";
        /// Minimum timeout. If the minimum is shorter than the delay of acknowledgements (`receiver.delayed_ack_timer`)
        /// plus the variation of the queueing delay, the timer expires although no segment is lost.
        pub min: Span = Span::from_millis(1000), "RFC 6298, 2.4";
        /// Order in which the minimum timeout and the back-off are applied.
        pub min_applies: MinRto = MinRto::BeforeBackOff, "RFC 6298, 2.4 and 5.5";
        /// Maximum timeout.
        pub max: Span = Span::from_millis(60_000), "RFC 6298, 2.5";
        /// Arithmetic of the round-trip estimate.
        pub arithmetic: RtoArithmetic = RtoArithmetic::Exact, "RFC 6298";
        /// Weight of a round-trip sample in SRTT (`alpha`).
        pub srtt_gain: f64 = 0.125, "RFC 6298, 2.3";
        /// Weight of a round-trip sample in RTTVAR (`beta`).
        pub rttvar_gain: f64 = 0.25, "RFC 6298, 2.3";
        /// Segments whose round-trip times are measured.
        pub samples: RttSamples = RttSamples::Window, "RFC 6298, 3";
        /// Event that ends the back-off of the retransmission timer.
        pub back_off_end: BackOffEnd = BackOffEnd::Sample, "RFC 6298, 5";
        /// Timeout to which the timer is set when the acknowledgement that restarts the timer also provides a
        /// round-trip sample.
        pub restart: TimerRestart = TimerRestart::AfterSample, "RFC 6298, 5";
        /// Further events that restart the retransmission timer. `oldest-segment` requires SACK.
        pub restarted_by: RestartedBy = RestartedBy::Recovery, "RFC 6298, 5: acknowledgements of new data";
        /// Resolution of timers.
        pub clock: TimerClock = TimerClock::Exact, "RFC 6298, 4";
        /// Clock granularity (`G`); 0s means no granularity. The values `ticks` and `wheel` require a granularity.
        /// Round-trip times and timeouts are then whole numbers of ticks, so that a coarse granularity lengthens every
        /// timeout.
        pub tick: Span = Span::ZERO, "RFC 6298, 4: finer than 100 ms is better";
        /// Time from the last tick of the clock to the start of the run, which must be less than one tick. With `clock
        /// = "wheel"`, the time from the last multiple of 64 ticks to the start of the run, which must be less than 64
        /// ticks.
        pub tick_phase: Span = Span::ZERO, "aqmlab's choice; only `ticks` and `wheel` use this value";
    }
}
