//! `[tcp.cwnd]`: use of the congestion window, which does not depend on the congestion control.
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
        /// window also grows to up to twice the largest amount of data that was in flight in the last round trip
        /// (Linux).
        GrowsIfUsed = "grows-if-used",
        /// The window grows up to twice the largest amount of data in flight since the last reduction in slow start,
        /// and up to this amount plus one segment in congestion avoidance (draft-ietf-ccwg-ratelimited-increase).
        RateLimitedIncrease = "rate-limited-increase",
    }
}

choices! {
    /// Effect on the window of an idle period of the application.
    pub enum IdleRestart {
        /// No effect.
        Off = "off",
        /// After an idle period longer than the retransmission timeout, the window is at most the initial window (RFC
        /// 5681, 4.1).
        InitialWindow = "initial-window",
        /// After an idle period longer than the retransmission timeout, the window is one segment (ns-2).
        OneSegment = "one-segment",
        /// When data is sent after an idle period longer than the retransmission timeout (computed without its minimum
        /// and back-off), the window is set to the initial window. A window that is smaller than the initial window is
        /// raised, but not above `ssthresh` (ns-2's FullTcp, with 2 segments).
        ToInitialWindow = "to-initial-window",
    }
}

choices! {
    /// Quantity that is halved after a loss.
    pub enum ReductionBasis {
        /// Data in flight, excluding the segments sent by limited transmit (RFC 5681, equation (4)). With SACK, this
        /// quantity is at most the congestion window, because after a lost retransmission unacknowledged data can grow
        /// without bound.
        FlightSize = "flight-size",
        /// Congestion window, but at most the receiver's window (ns-2).
        Window = "window",
        /// Data in the network when the loss is detected, according to the recovery's estimate. With SACK, data that
        /// has arrived or is considered lost is excluded (`pipe`; ns-3).
        Pipe = "pipe",
    }
}

choices! {
    /// Effect on `ssthresh` of a repeated timeout of the same segment.
    pub enum RepeatedTimeout {
        /// `ssthresh` stays constant (RFC 5681, section 3.1, below equation (4)).
        Holds = "holds",
        /// `ssthresh` is halved again (ns-2).
        Halves = "halves",
        /// `ssthresh` stays constant. At a timeout in fast recovery `ssthresh` stays constant, too, because fast
        /// recovery has already reduced it (Linux).
        HoldsInRecovery = "holds-in-recovery",
    }
}

choices! {
    /// Value that a sender writes into its packets for SHRED as its window.
    pub enum Hint {
        /// Congestion window, but at most the receiver's window.
        Clipped = "clipped",
        /// Congestion window.
        Raw = "raw",
        /// Congestion window or data in flight, whichever is larger. The congestion window of Linux has this value,
        /// because Linux lowers the window during a proportional rate reduction and not before it (RFC 6937;
        /// `tcp_cwnd_reduction`).
        AtLeastInFlight = "at-least-in-flight",
    }
}

parameters! {
    /// Use of the congestion window, which does not depend on the congestion control (RFC 5681).
    pub struct Cwnd {
        /// Initial congestion window, in segments (`IW`). The initial window is sent as one burst. The part of the
        /// burst that exceeds the bottleneck's queue is lost.
        pub initial: u64 = 10, "RFC 6928";
        /// Initial congestion window after the loss of a SYN or SYN-ACK, in segments.
        pub initial_after_syn_loss: u64 = 1, "RFC 5681, 3.1";
        /// Initial `ssthresh`, in segments; by default, the receiver's window. A low value ends slow start before the
        /// path is full. A high value lets the first slow start overflow the queue.
        pub initial_ssthresh: Option<f64> = None, "RFC 5681, 3.1: arbitrarily high";
        /// Initial `ssthresh` after the loss of a SYN or SYN-ACK, in segments; by default, `initial_ssthresh`.
        pub ssthresh_after_syn_loss: Option<f64> = None, "RFC 5681 requires no other value";
        /// Maximum number of segments for which one acknowledgement opens the window (`L`). With `none`, all
        /// acknowledged segments open the window, so that an acknowledgement of many segments triggers a burst.
        pub abc_limit: Option<f64> = Some(1.0), "RFC 5681, 3.1: at most SMSS; RFC 3465: 2";
        /// Growth of the congestion window while the sender does not use the whole window. A window that grows while it
        /// is partly unused says nothing about the path, and data written later is sent as a burst.
        pub growth_when_limited: GrowthWhenLimited = GrowthWhenLimited::Holds, "RFC 7661";
        /// Effect on the window of an idle period of the application.
        pub idle_restart: IdleRestart = IdleRestart::InitialWindow, "RFC 5681, 4.1";
        /// Quantity that is halved after a loss.
        pub reduction_basis: ReductionBasis = ReductionBasis::FlightSize, "RFC 5681, equation (4)";
        /// Effect on `ssthresh` of a repeated timeout of the same segment.
        pub repeated_timeout: RepeatedTimeout = RepeatedTimeout::Holds, "RFC 5681, 3.1";
        /// Value that a sender writes into its packets for SHRED as its window. The value is rounded down, is at least
        /// 1, and does not include window inflation.
        pub hint: Hint = Hint::Clipped, "aqmlab's choice: SHRED's edge hint";
    }
}
