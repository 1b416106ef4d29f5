//! `[tcp.cwnd]`: use of the congestion window, independent of the congestion control.
//!
//! M. Allman, V. Paxson, E. Blanton, "TCP Congestion Control", RFC 5681, 2009; J. Chu et al., RFC 6928, 2013 (initial
//! window); M. Allman, RFC 3465, 2003 (appropriate byte counting).

use aqm_net::{choices, parameters};

choices! {
    /// Growth of the window while the sender does not use all of it.
    pub enum GrowthWhenLimited {
        /// The window stays constant (RFC 7661, section 4, gives the reasons).
        Holds = "holds",
        /// The window grows with every acknowledgement (ns-2).
        Grows = "grows",
        /// The window grows if the sender filled it at any time in the last round trip. In slow start it also grows up
        /// to twice the largest amount of data in flight in that round trip (Linux).
        GrowsIfUsed = "grows-if-used",
    }
}

choices! {
    /// Effect of an idle period of the application on the window.
    pub enum IdleRestart {
        /// No effect.
        Off = "off",
        /// After an idle period longer than the retransmission timeout, the window is at most the initial window (RFC
        /// 5681, 4.1).
        InitialWindow = "initial-window",
        /// After an idle period longer than the retransmission timeout, the window is one segment (ns-2).
        OneSegment = "one-segment",
        /// When data is sent after an idle period longer than the retransmission timeout (without its minimum and
        /// back-off), the window is set to the initial window. A smaller window is raised, but not above `ssthresh`
        /// (ns-2's FullTcp, with 2 segments).
        ToInitialWindow = "to-initial-window",
    }
}

choices! {
    /// Quantity that a loss halves.
    pub enum ReductionBasis {
        /// Data in flight, without the segments of limited transmit (RFC 5681, equation (4)). With SACK it is at most
        /// the congestion window, because a lost retransmission lets unacknowledged data grow without bound.
        FlightSize = "flight-size",
        /// Congestion window, at most the receiver's window (ns-2).
        Window = "window",
        /// Data in the network when the loss is detected, as counted by the recovery. With SACK, data that has arrived
        /// or is considered lost does not count (`pipe`; ns-3).
        Pipe = "pipe",
    }
}

choices! {
    /// Effect of a repeated timeout of the same segment on `ssthresh`.
    pub enum RepeatedTimeout {
        /// `ssthresh` stays constant (RFC 5681, section 3.1, below equation (4)).
        Holds = "holds",
        /// `ssthresh` is halved again (ns-2).
        Halves = "halves",
        /// `ssthresh` stays constant, also at a timeout in fast recovery, which has already reduced it (Linux).
        HoldsInRecovery = "holds-in-recovery",
    }
}

choices! {
    /// Window that a sender writes into its packets for SHRED.
    pub enum Hint {
        /// Congestion window, at most the receiver's window.
        Clipped = "clipped",
        /// Congestion window.
        Raw = "raw",
        /// Larger of the congestion window and the data in flight. Linux' window has this value because Linux lowers it
        /// during a proportional rate reduction, not before (RFC 6937; `tcp_cwnd_reduction`).
        AtLeastInFlight = "at-least-in-flight",
    }
}

parameters! {
    /// Use of the congestion window, independent of the congestion control (RFC 5681).
    pub struct Cwnd {
        /// Initial congestion window, in segments (`IW`). It is sent as one burst; the part that exceeds the
        /// bottleneck's queue is lost.
        pub initial: u64 = 10, "RFC 6928";
        /// Initial congestion window after the loss of a SYN or SYN-ACK, in segments.
        pub initial_after_syn_loss: u64 = 1, "RFC 5681, 3.1";
        /// Initial `ssthresh`, in segments; by default the receiver's window. A low value ends slow start before the
        /// path is full; a high value lets the first slow start overflow the queue.
        pub initial_ssthresh: Option<f64> = None, "RFC 5681, 3.1: arbitrarily high";
        /// Initial `ssthresh` after the loss of a SYN or SYN-ACK, in segments; by default the value without a loss.
        pub ssthresh_after_syn_loss: Option<f64> = None, "RFC 5681 requires no other";
        /// Maximum number of segments by which one acknowledgement counts for window growth (`L`). With `none`, all
        /// acknowledged segments count, so that an acknowledgement of many segments triggers a burst.
        pub abc_limit: Option<f64> = Some(1.0), "RFC 5681, 3.1: at most SMSS; RFC 3465: 2";
        /// Growth of the window while part of it is unused. A window that grows nevertheless contains no information
        /// about the path, and data written later is sent as a burst.
        pub growth_when_limited: GrowthWhenLimited = GrowthWhenLimited::Holds, "RFC 7661";
        /// Effect of an idle period of the application on the window.
        pub idle_restart: IdleRestart = IdleRestart::InitialWindow, "RFC 5681, 4.1";
        /// Quantity that a loss halves.
        pub reduction_basis: ReductionBasis = ReductionBasis::FlightSize, "RFC 5681, equation (4)";
        /// Effect of a repeated timeout of the same segment on `ssthresh`.
        pub repeated_timeout: RepeatedTimeout = RepeatedTimeout::Holds, "RFC 5681, 3.1";
        /// Window that a sender writes into its packets for SHRED, without inflation, rounded down, at least 1.
        pub hint: Hint = Hint::Clipped, "aqmlab's choice: SHRED's edge hint";
    }
}
