//! `[tcp.rto]`: the retransmission timer, its round-trip estimate and its limits.
//!
//! V. Paxson, M. Allman, J. Chu, M. Sargent, "Computing TCP's Retransmission Timer", RFC 6298, 2011. The computations
//! are in `rtt/mod.rs`.

use aqm_net::{Span, choices, parameters};

choices! {
    /// Order of the minimum timeout and the back-off.
    pub enum MinRto {
        /// The minimum is applied first, so that the back-off multiplies it (RFC 6298, rule 2.4 before rule 5.5).
        BeforeBackOff = "before-back-off",
        /// The back-off is applied first; a timeout that is still below the minimum is raised to it (ns-2 before March
        /// 2002: `rfc2988_ false`).
        AfterBackOff = "after-back-off",
    }
}

choices! {
    /// Arithmetic of the estimate.
    pub enum RtoArithmetic {
        /// RFC 6298's formulas without rounding; a tick is only the clock granularity `G`.
        Exact = "exact",
        /// ns-2 and BSD: times in whole ticks, SRTT with 3 and RTTVAR with 2 fractional bits, the minimum before the
        /// back-off, and SRTT discarded after a back-off beyond 8.
        Ticks = "ticks",
        /// Linux: the variation is the largest of a round trip, decreases slowly, is not raised by a round trip that
        /// was much shorter, and its term in the timeout is at least `min`.
        Linux = "linux",
    }
}

choices! {
    /// Segments whose round trips are measured.
    pub enum RttSamples {
        /// One per window (RFC 6298, section 3).
        Window = "window",
        /// Every segment that was sent once, if the recovery records departure times: the recoveries with SACK do, the
        /// others measure one segment per window.
        Segment = "segment",
        /// As `segment`, but only the first segment that an acknowledgement reports as delivered, and none if the
        /// acknowledgement covers a retransmission (Linux).
        FirstSegment = "first-segment",
    }
}

choices! {
    /// End of the back-off of the retransmission timer.
    pub enum BackOffEnd {
        /// A round-trip sample, and so never the acknowledgement of a retransmission (P. Karn, C. Partridge 1987; RFC
        /// 6298, section 5).
        Sample = "sample",
        /// Any acknowledgement of new data (BSD, Linux, ns-2's FullTcp).
        Progress = "progress",
    }
}

choices! {
    /// Timeout with which an acknowledgement restarts the timer when it is also a round-trip sample.
    pub enum TimerRestart {
        /// The timeout after the sample, without the back-off that the sample ends (RFC 6298, section 5).
        AfterSample = "after-sample",
        /// The timeout before the sample, so that the back-off applies to one more restart (ns-2's FullTcp).
        BeforeSample = "before-sample",
    }
}

choices! {
    /// Events that restart the retransmission timer, in addition to acknowledgements of new data.
    pub enum RestartedBy {
        /// None: the timer keeps running when a recovery begins (RFC 6298, section 5; ns-3). With a small `rto.min` it
        /// expires before the retransmission can be acknowledged.
        NewData = "new-data",
        /// The first retransmission of a recovery.
        Recovery = "recovery",
        /// Any retransmission of the oldest segment, and SACK of a segment that was sent before the oldest one (Linux).
        OldestSegment = "oldest-segment",
    }
}

choices! {
    /// Resolution of timers.
    pub enum TimerClock {
        /// Exact: a timer expires when its time has passed.
        Exact = "exact",
        /// Ticks: a timer expires on the next tick, timers of 63 ticks or more only on every 8th tick, and timers of
        /// 504 ticks or more only on every 64th tick (Linux since 4.8).
        Wheel = "wheel",
    }
}

parameters! {
    /// Retransmission timer (RFC 6298).
    pub struct Rto {
        /// Retransmission timeout before any sample, including the first SYN's. If it is shorter than the round trip,
        /// every SYN is sent twice, and the connection begins with the window after a loss.
        pub initial: Span = Span::from_millis(1000), "RFC 6298, 2.1";
        /// Timeout of the first data if a SYN timed out; `none`: the backed-off timeout.
        pub after_syn_loss: Option<Span> = Some(Span::from_millis(3000)), "RFC 6298, 5.7";
        /// Minimum timeout. If it is shorter than the delay of acknowledgements (`receiver.delayed_ack_timer`) plus the
        /// variation of the queueing delay, the timer expires without a loss.
        pub min: Span = Span::from_millis(1000), "RFC 6298, 2.4";
        /// Order of the minimum timeout and the back-off.
        pub min_applies: MinRto = MinRto::BeforeBackOff, "RFC 6298, 2.4 and 5.5";
        /// Maximum timeout.
        pub max: Span = Span::from_millis(60_000), "RFC 6298, 2.5";
        /// Arithmetic of the estimate.
        pub arithmetic: RtoArithmetic = RtoArithmetic::Exact, "RFC 6298";
        /// Weight of a round-trip sample in SRTT (`alpha`).
        pub srtt_gain: f64 = 0.125, "RFC 6298, 2.3";
        /// Weight of a round-trip sample in RTTVAR (`beta`).
        pub rttvar_gain: f64 = 0.25, "RFC 6298, 2.3";
        /// Segments whose round trips are measured.
        pub samples: RttSamples = RttSamples::Window, "RFC 6298, 3";
        /// End of the back-off.
        pub back_off_end: BackOffEnd = BackOffEnd::Sample, "RFC 6298, 5";
        /// Timeout with which an acknowledgement restarts the timer when it is also a round-trip sample.
        pub restart: TimerRestart = TimerRestart::AfterSample, "RFC 6298, 5";
        /// Further events that restart the timer; `oldest-segment` requires SACK.
        pub restarted_by: RestartedBy = RestartedBy::Recovery, "RFC 6298, 5: acknowledgements of new data";
        /// Resolution of timers.
        pub clock: TimerClock = TimerClock::Exact, "RFC 6298, 4";
        /// Clock granularity (`G`); 0s for none. `ticks` and `wheel` need a granularity: round trips and timeouts are
        /// whole ticks, so that a coarse granularity lengthens every timeout.
        pub tick: Span = Span::ZERO, "RFC 6298, 4: finer than 100 ms is better";
        /// Time from the last tick of the clock to the start of the run, less than one tick. With `clock = "wheel"`:
        /// time from the last multiple of 64 ticks, less than 64 ticks.
        pub tick_phase: Span = Span::ZERO, "aqmlab's choice; only `ticks` and `wheel` use it";
    }
}
