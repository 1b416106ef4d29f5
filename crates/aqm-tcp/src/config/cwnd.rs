//! `[tcp.cwnd]`: rules for the congestion window that do not depend on the congestion control.
//!
//! M. Allman, V. Paxson, E. Blanton, "TCP Congestion Control", RFC 5681, 2009; J. Chu et al., RFC 6928, 2013 (initial
//! window); M. Allman, RFC 3465, 2003 (appropriate byte counting).

use aqm_net::{choices, parameters};

choices! {
    /// Growth of the congestion window while the sender does not use the whole window.
    pub enum GrowthWhenLimited {
        /// The window stays constant (RFC 7661, section 4, gives the reasons).
        Holds = "holds",
        /// The window grows with every acknowledgement (ns-2).
        Grows = "grows",
        /// The window grows if the sender used the whole window at any time in the last round trip. In slow start, the
        /// window also grows while it is smaller than twice the largest amount of data that was in flight in the last
        /// round trip (Linux).
        GrowsIfUsed = "grows-if-used",
        /// In slow start, the window grows up to twice the largest amount of data that was in flight since the last
        /// reduction. In congestion avoidance, the window grows up to this amount plus one segment
        /// (draft-ietf-ccwg-ratelimited-increase).
        RateLimitedIncrease = "rate-limited-increase",
    }
}

choices! {
    /// Effect of an idle period of the application on the congestion window.
    pub enum IdleRestart {
        /// No effect.
        Off = "off",
        /// After an idle period longer than the retransmission timeout, the window is reduced to at most the initial
        /// window (RFC 5681, 4.1).
        InitialWindow = "initial-window",
        /// After an idle period longer than the retransmission timeout, the window is reduced to one segment (ns-2).
        OneSegment = "one-segment",
        /// When data is sent after an idle period longer than the retransmission timeout (computed without the minimum
        /// and the back-off), the window is set to the initial window. A window that is smaller than the initial window
        /// is raised, but not above `ssthresh` (ns-2's FullTcp, with 2 segments).
        ToInitialWindow = "to-initial-window",
    }
}

choices! {
    /// Quantity that is halved after a loss.
    pub enum ReductionBasis {
        /// Data in flight, excluding the segments sent by limited transmit (RFC 5681, equation (4)). With SACK, this
        /// quantity is at most the congestion window, because the amount of unacknowledged data can grow without bound
        /// after a retransmission is lost.
        FlightSize = "flight-size",
        /// The smaller of the congestion window and the receiver's window (ns-2).
        Window = "window",
        /// Data in the network when the loss is detected, as estimated by the loss recovery. With SACK, data that has
        /// arrived or is considered lost is excluded (`pipe`; ns-3).
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
        /// `ssthresh` stays constant. At a timeout in fast recovery, `ssthresh` stays constant as well, because fast
        /// recovery has already reduced `ssthresh` (Linux).
        HoldsInRecovery = "holds-in-recovery",
    }
}

choices! {
    /// Window that a sender reports in its packets for SHRED.
    pub enum Hint {
        /// The smaller of the congestion window and the receiver's window.
        Clipped = "clipped",
        /// Congestion window.
        Raw = "raw",
        /// The larger of the congestion window and the data in flight. Linux's congestion window has this value,
        /// because Linux lowers the window gradually during proportional rate reduction, and not before (RFC 6937;
        /// `tcp_cwnd_reduction`).
        AtLeastInFlight = "at-least-in-flight",
    }
}

parameters! {
    /// Rules for the congestion window that do not depend on the congestion control (RFC 5681).
    pub struct Cwnd {
        /// Initial congestion window, in segments (`IW`). The initial window is sent as one burst. The part of the
        /// burst that does not fit into the bottleneck's queue is lost.
        pub initial: u64 = 10, "RFC 6928";
        /// Initial congestion window after the loss of a SYN or SYN-ACK, in segments.
        pub initial_after_syn_loss: u64 = 1, "RFC 5681, 3.1";
        /// Initial `ssthresh`, in segments; by default, the receiver's window. A low value ends slow start before the
        /// path is full. A high value lets the first slow start overflow the queue.
        pub initial_ssthresh: Option<f64> = None, "RFC 5681, 3.1: arbitrarily high";
        /// Initial `ssthresh` after the loss of a SYN or SYN-ACK, in segments; by default, `initial_ssthresh`.
        pub ssthresh_after_syn_loss: Option<f64> = None, "RFC 5681 requires no other value";
        /// Maximum number of acknowledged segments per acknowledgement that open the window (`L`). With `none`, all
        /// acknowledged segments open the window, so that an acknowledgement of many segments triggers a burst.
        pub abc_limit: Option<f64> = Some(1.0), "RFC 5681, 3.1: at most SMSS; RFC 3465: 2";
        /// Growth of the congestion window while the sender does not use the whole window. If the window grows while it
        /// is partly unused, its size does not reflect the capacity of the path, and data written later is sent as a
        /// burst.
        pub growth_when_limited: GrowthWhenLimited = GrowthWhenLimited::Holds, "RFC 7661";
        /// Effect of an idle period of the application on the congestion window.
        pub idle_restart: IdleRestart = IdleRestart::InitialWindow, "RFC 5681, 4.1";
        /// Quantity that is halved after a loss.
        pub reduction_basis: ReductionBasis = ReductionBasis::FlightSize, "RFC 5681, equation (4)";
        /// Effect of a repeated timeout of the same segment on `ssthresh`.
        pub repeated_timeout: RepeatedTimeout = RepeatedTimeout::Holds, "RFC 5681, 3.1";
        /// Window that a sender reports in its packets for SHRED. The value is rounded down, is at least 1, and does
        /// not include window inflation.
        pub hint: Hint = Hint::Clipped, "aqmlab's choice: SHRED's edge hint";
    }
}
