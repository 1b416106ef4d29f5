//! `[tcp.rto]`: the retransmission timer, its estimate of round trips and its limits.
//!
//! V. Paxson, M. Allman, J. Chu, M. Sargent, "Computing TCP's Retransmission Timer", RFC 6298, 2011. What
//! computes with these is in `rtt/mod.rs`.

use aqm_net::{Span, choices, parameters};

choices! {
    /// Where the least time-out stands.
    pub enum MinRto {
        /// Below the back-off, which multiplies it (RFC 6298, rule 2.4 before rule 5.5).
        BeforeBackOff = "before-back-off",
        /// Above the back-off: only a time-out that is still too short after it is raised (ns-2 before
        /// March 2002: `rfc2988_ false`).
        AfterBackOff = "after-back-off",
    }
}

choices! {
    /// The arithmetic of the estimate.
    pub enum RtoArithmetic {
        /// As RFC 6298 writes it, without rounding; a tick is only the clock granularity `G`.
        Exact = "exact",
        /// ns-2 and BSD: times in whole ticks, SRTT with 3 and RTTVAR with 2 binary digits, the
        /// minimum before the back-off, and SRTT forgotten after a back-off beyond 8.
        Ticks = "ticks",
        /// Linux: the variation is the largest of a round trip, falls slowly, is not raised by a round
        /// trip that was much shorter, and its term in the time-out is never below `min`.
        Linux = "linux",
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
    pub enum RestartedBy {
        /// Nothing: the timer that runs when a recovery begins goes on (RFC 6298, section 5; ns-3). With a small
        /// `rto.min` it expires before the retransmission can be acknowledged.
        NewData = "new-data",
        /// The first retransmission of a recovery.
        Recovery = "recovery",
        /// Any retransmission of the oldest segment, and SACK of a segment that left before that one did (Linux).
        OldestSegment = "oldest-segment",
    }
}

choices! {
    /// When a timer runs out that was set for some time.
    pub enum TimerClock {
        /// When the time has passed.
        Exact = "exact",
        /// Not before the next tick: a wait of 63 ticks and more only on each 8th tick, of 504 and more on
        /// each 64th (Linux since 4.8).
        Wheel = "wheel",
    }
}

parameters! {
    /// The retransmission timer (RFC 6298).
    pub struct Rto {
        /// Retransmission time-out before any sample, so also that of the first SYN. Below the round trip every
        /// SYN is sent twice, and the first window is that after a loss.
        pub initial: Span = Span::from_millis(1000), "RFC 6298, 2.1";
        /// Time-out of the first data if a SYN timed out; `none`: the backed-off one.
        pub after_syn_loss: Option<Span> = Some(Span::from_millis(3000)), "RFC 6298, 5.7";
        /// The least time-out. Below the delay of delayed acknowledgements (`receiver.delayed_ack_timer`) and the
        /// variation of the queue the timer runs out though nothing is lost.
        pub min: Span = Span::from_millis(1000), "RFC 6298, 2.4";
        /// Whether the back-off multiplies the least time-out.
        pub min_applies: MinRto = MinRto::BeforeBackOff, "RFC 6298, 2.4 and 5.5";
        /// The greatest time-out.
        pub max: Span = Span::from_millis(60_000), "RFC 6298, 2.5";
        /// The arithmetic of the estimate.
        pub arithmetic: RtoArithmetic = RtoArithmetic::Exact, "RFC 6298";
        /// Weight of a round-trip sample in SRTT (`alpha`).
        pub srtt_gain: f64 = 0.125, "RFC 6298, 2.3";
        /// Weight of a round-trip sample in RTTVAR (`beta`).
        pub rttvar_gain: f64 = 0.25, "RFC 6298, 2.3";
        /// Which segments' round trips are timed.
        pub samples: RttSamples = RttSamples::Window, "RFC 6298, 3";
        /// What ends the back-off.
        pub back_off_end: BackOffEnd = BackOffEnd::Sample, "RFC 6298, 5";
        /// Whether the timer is restarted after what an acknowledgement tells of the round trip, or before.
        pub restart: TimerRestart = TimerRestart::AfterSample, "RFC 6298, 5";
        /// What else restarts the timer; `oldest-segment` only with SACK.
        pub restarted_by: RestartedBy = RestartedBy::Recovery, "RFC 6298, 5: acknowledgements of new data";
        /// When timers run out.
        pub clock: TimerClock = TimerClock::Exact, "RFC 6298, 4";
        /// Clock granularity (`G`); 0s for none. `ticks` and `wheel` need one: round trips and time-outs come in
        /// whole ticks, so a coarse one lengthens every time-out.
        pub tick: Span = Span::ZERO, "RFC 6298, 4: finer than 100 ms is better";
        /// How long before the run began the clock ticked last, less than a tick; with `clock = "wheel"`
        /// when it stood at a multiple of 64 ticks, less than those.
        pub tick_phase: Span = Span::ZERO, "ours; only `ticks` and `wheel` look at it";
    }
}
