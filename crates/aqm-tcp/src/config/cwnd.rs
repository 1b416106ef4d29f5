//! `[tcp.cwnd]`: what a sender does with its congestion window, whichever congestion control moves it.
//!
//! M. Allman, V. Paxson, E. Blanton, "TCP Congestion Control", RFC 5681, 2009; J. Chu et al., RFC 6928, 2013
//! (initial window); M. Allman, RFC 3465, 2003 (appropriate byte counting).

use aqm_net::{choices, parameters};

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
    /// Which window a sender writes into its packets for SHRED.
    pub enum Hint {
        /// The congestion window, at most the receiver's.
        Clipped = "clipped",
        /// The congestion window.
        Raw = "raw",
        /// The congestion window, or what is in flight where that is more. So Linux has it, whose window falls as a
        /// proportional rate reduction goes on, not before it (RFC 6937; `tcp_cwnd_reduction`).
        AtLeastInFlight = "at-least-in-flight",
    }
}

parameters! {
    /// What a sender does with its congestion window, whichever congestion control moves it (RFC 5681).
    pub struct Cwnd {
        /// First congestion window, in segments (`IW`). It leaves as one burst: more than the bottleneck's queue
        /// holds is lost at once.
        pub initial: u64 = 10, "RFC 6928";
        /// First congestion window if a SYN or its answer was lost, in segments.
        pub initial_after_syn_loss: u64 = 1, "RFC 5681, 3.1";
        /// First `ssthresh`, in segments; the receiver's window if left out. A low one ends slow start before
        /// the path is full; with a high one the first slow start ends in an overflow.
        pub initial_ssthresh: Option<f64> = None, "RFC 5681, 3.1: arbitrarily high";
        /// First `ssthresh` if a SYN or its answer was lost, in segments; as without loss if left out.
        pub ssthresh_after_syn_loss: Option<f64> = None, "RFC 5681 asks for none";
        /// The most that one acknowledgement counts where the window grows (`L`), in segments; `none`: all that it
        /// acknowledges, which answers an acknowledgement of many segments with a burst.
        pub abc_limit: Option<f64> = Some(1.0), "RFC 5681, 3.1: at most SMSS; RFC 3465: 2";
        /// What the window does while part of it is unused. One that grows all the same says nothing of the
        /// path, and what is written later leaves as a burst.
        pub growth_when_limited: GrowthWhenLimited = GrowthWhenLimited::Holds, "RFC 7661";
        /// What a pause of the application does to the window.
        pub idle_restart: IdleRestart = IdleRestart::InitialWindow, "RFC 5681, 4.1";
        /// What a loss halves.
        pub reduction_basis: ReductionBasis = ReductionBasis::FlightSize, "RFC 5681, equation (4)";
        /// What a further time-out of the same segment does to `ssthresh`.
        pub repeated_timeout: RepeatedTimeout = RepeatedTimeout::Holds, "RFC 5681, 3.1";
        /// Which window a sender writes into its packets for SHRED, uninflated and rounded down, at least 1.
        pub hint: Hint = Hint::Clipped, "ours: the edge hint of SHRED";
    }
}
