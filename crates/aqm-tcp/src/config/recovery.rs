//! `[tcp.recovery]`: loss detection and retransmission.
//!
//! RFC 5681, section 3.2 (fast retransmit and fast recovery); RFC 3042 (limited transmit); RFC 6582 (NewReno); RFC 6675
//! (SACK); RFC 8985 (RACK-TLP); RFC 6937 (PRR); RFC 5682 (F-RTO); RFC 3708 (undo with D-SACK); RFC 3522 (undo with
//! timestamps); RFC 9002 (QUIC).

use aqm_net::{choices, parameters};

choices! {
    /// Loss recovery. The parameter `congestion_control` determines the size of the window after a loss.
    pub enum RecoveryKind {
        /// Without SACK: the third duplicate acknowledgement sets the window to one segment, and transmission restarts
        /// at the oldest missing segment (V. Jacobson 1988).
        Tahoe = "tahoe",
        /// Without SACK: fast retransmit, and fast recovery that ends with the next acknowledgement of new data (RFC
        /// 5681, section 3.2, in the version of RFC 2581).
        Reno = "reno",
        /// Without SACK: fast recovery continues until all data that was sent before fast recovery is acknowledged, and
        /// a partial acknowledgement indicates the next missing segment (RFC 6582).
        NewReno = "newreno",
        /// With SACK: a scoreboard determines which segments are retransmitted (RFC 2018, RFC 6675).
        Sack = "sack",
        /// With SACK: losses are detected by elapsed time instead of by counting, and probes detect losses at the end
        /// of a transfer (RACK-TLP, RFC 8985).
        Rack = "rack",
        /// QUIC: packets are numbered, losses are detected by number and by time, and probe timeouts replace the
        /// retransmission timeout (RFC 9002). The profile `quic` sets all parameters that QUIC requires.
        Quic = "quic",
    }
}

choices! {
    /// Segment that is sent after the first and the second duplicate acknowledgement (RFC 3042).
    pub enum LimitedTransmit {
        /// None.
        Off = "off",
        /// One new segment.
        New = "new",
        /// The next segment in sequence. After a timeout, this segment may be a retransmission (ns-2).
        Next = "next",
    }
}

choices! {
    /// Condition for another fast retransmit.
    pub enum FastRetransmitGuard {
        /// No condition: a fast retransmit is always permitted.
        None = "none",
        /// All data that was sent before the last recovery or timeout has been acknowledged (RFC 6582, section 3.2;
        /// ns-2: `bugFix_`).
        Recover = "recover",
        /// As `recover`, but a fast retransmit is also permitted while the first segment of the connection is missing
        /// (ns-2: `bugfix_ss_`).
        RecoverOrFirst = "recover-or-first",
        /// As `recover` after a timeout, but without a condition after a recovery (ns-2's FullTcp).
        AfterTimeout = "after-timeout",
    }
}

choices! {
    /// Window inflation by duplicate acknowledgements above the threshold.
    pub enum Inflation {
        /// The inflation is separate from the window and applies only in fast recovery (RFC 5681, section 3.2).
        Beside = "beside",
        /// The inflation is part of the window, both after a timeout and in fast recovery. After an acknowledgement of
        /// new data, the inflation remains in the window, but only up to `ssthresh`; a timeout halves the inflated
        /// window. The duplicate acknowledgement that reaches the threshold triggers only the retransmission of the
        /// missing segment (ns-2's FullTcp).
        InWindow = "in-window",
    }
}

choices! {
    /// How the acknowledgement that ends fast recovery changes the window.
    pub enum ExitAck {
        /// The acknowledgement only removes the inflation (RFC 5681, section 3.2, step 6).
        Deflates = "deflates",
        /// The acknowledgement opens the window as any other acknowledgement does, but not with SACK (ns-2).
        Grows = "grows",
        /// The acknowledgement opens the window as any other acknowledgement does, also with SACK (ns-2's FullTcp).
        GrowsWithSack = "grows-with-sack",
    }
}

choices! {
    /// Window at the end of NewReno's fast recovery.
    pub enum ExitWindow {
        /// `ssthresh`, or the data in flight plus one segment, whichever is less (RFC 6582, 3.2, step 3).
        Flight = "flight",
        /// `ssthresh`.
        Ssthresh = "ssthresh",
        /// The window that remains after the partial acknowledgements (ns-2: `exit_recovery_fix_ 0`).
        Deflated = "deflated",
    }
}

choices! {
    /// Partial acknowledgements that restart the retransmission timer (NewReno only).
    pub enum PartialAckTimer {
        /// The first partial acknowledgement of a recovery ("impatient": many losses lead to a timeout; RFC 6582, 3.2,
        /// step 5).
        First = "first",
        /// Every partial acknowledgement ("slow but steady"; RFC 6582, section 4).
        Each = "each",
    }
}

choices! {
    /// How the window is reduced in fast recovery (SACK only).
    pub enum Reduction {
        /// Immediately, so that the sender sends nothing for half a round trip (RFC 6675).
        AtOnce = "at-once",
        /// In proportion to the delivered data (PRR, RFC 6937).
        Prr = "prr",
        /// In proportion to the delivered data (PRR, RFC 9937). The divisor is the amount of data that was not known to
        /// have arrived before recovery, and the bound is the one that `prr_bound = "safe-ack"` selects. The parameters
        /// `prr_bound` and `prr_share` have no effect.
        Rfc9937 = "rfc-9937",
        /// By one segment with every second acknowledgement (J. Hoe; Linux 2.4).
        RateHalving = "rate-halving",
    }
}

choices! {
    /// Amount of data that PRR may send while less data is in flight than the window allows.
    pub enum PrrBound {
        /// As much data as was delivered (RFC 6937, "conservative reduction bound").
        Crb = "crb",
        /// With each acknowledgement, one segment more than was delivered (RFC 6937, "slow-start reduction bound").
        Ssrb = "ssrb",
        /// As `ssrb` if the acknowledgement advances `SND.UNA` and indicates no further loss; otherwise, as `crb`
        /// (Linux since 3.17; RFC 9937).
        SafeAck = "safe-ack",
    }
}

choices! {
    /// Divisor that PRR applies to the delivered data.
    pub enum PrrShare {
        /// Unacknowledged data when the loss was detected (`RecoverFS`, RFC 6937).
        Flight = "flight-size",
        /// Congestion window before the reduction (Linux).
        Window = "window",
    }
}

choices! {
    /// Data that is considered lost after a timeout (RACK only).
    pub enum TimeoutLoses {
        /// All data that is not known to have arrived.
        All = "all",
        /// The oldest segment, and all segments that were sent more than one round trip ago (RFC 8985, section 6.3).
        Late = "late",
    }
}

choices! {
    /// Detection of spurious timeouts (SACK only).
    pub enum Frto {
        /// No detection.
        Off = "off",
        /// After a timeout, the sender first sends new data. If an acknowledgement reports the arrival of data that was
        /// sent before the timeout and has not been retransmitted, the sender stops retransmitting and restores the
        /// window (F-RTO, RFC 5682, section 3).
        On = "on",
    }
}

choices! {
    /// How unnecessary window reductions are detected and undone.
    pub enum Undo {
        /// Reductions are not undone.
        Off = "off",
        /// With SACK, the reduction is undone when D-SACK reports that all retransmitted data had already arrived (RFC
        /// 3708).
        Dsack = "dsack",
        /// As `dsack`. In addition, the reduction is undone when an acknowledgement echoes the timestamp of a segment
        /// that was sent before the first retransmission (Eifel detection, RFC 3522; Linux with `tcp_timestamps = 1`).
        DsackOrTimestamps = "dsack-or-timestamps",
    }
}

parameters! {
    /// Loss detection and retransmission (RFC 5681, section 3.2, and its extensions).
    pub struct Recovery {
        /// Loss recovery. The kinds `sack` and `rack` require SACK at both endpoints.
        pub kind: RecoveryKind = RecoveryKind::Reno, "RFC 5681, 3.2";
        /// Number of duplicate acknowledgements that indicate a loss (`DupThresh`). With a low value, reordering is
        /// mistaken for loss. With a high value, flows with small windows must wait until the retransmission timer
        /// expires.
        pub dupthresh: u32 = 3, "RFC 5681, 3.2";
        /// Segment that is sent after each duplicate acknowledgement below the threshold.
        pub limited_transmit: LimitedTransmit = LimitedTransmit::New, "RFC 3042";
        /// Condition for another fast retransmit. Without a condition, the losses in a single window of data may reduce
        /// the congestion window several times.
        pub fast_retransmit_guard: FastRetransmitGuard = FastRetransmitGuard::Recover, "RFC 6582, 3.2";
        /// Window inflation by duplicate acknowledgements above the threshold (only with `tahoe`, `reno` and
        /// `newreno`).
        pub inflation: Inflation = Inflation::Beside, "RFC 5681, 3.2";
        /// How the acknowledgement that ends fast recovery changes the window.
        pub exit_ack: ExitAck = ExitAck::Deflates, "RFC 5681, 3.2";
        /// Window at the end of NewReno's fast recovery.
        pub exit_window: ExitWindow = ExitWindow::Flight, "RFC 6582, 3.2";
        /// Partial acknowledgements that restart the retransmission timer (NewReno only).
        pub partial_ack_timer: PartialAckTimer = PartialAckTimer::First, "RFC 6582, 3.2";
        /// Maximum number of segments that NewReno sends in response to one acknowledgement in fast recovery, excluding
        /// retransmissions; by default, there is no limit.
        pub max_burst: Option<u64> = None, "aqmlab's choice; ns-2: 2";
        /// How the window is reduced in fast recovery (SACK only). Must be `at-once` if `sack.pipe` is not
        /// `scoreboard`.
        pub reduction: Reduction = Reduction::AtOnce, "RFC 6675, 5";
        /// Amount of data that PRR may send while less data is in flight than the window allows.
        pub prr_bound: PrrBound = PrrBound::Ssrb, "RFC 6937, 3";
        /// Divisor that PRR applies to the delivered data.
        pub prr_share: PrrShare = PrrShare::Flight, "RFC 6937, 3";
        /// Data that is considered lost after a timeout (RACK only).
        pub timeout_loses: TimeoutLoses = TimeoutLoses::All, "aqmlab's choice; RFC 8985, 6.3, excludes the newest segments";
        /// Detection of spurious timeouts (SACK only).
        pub frto: Frto = Frto::Off, "RFC 5682: optional";
        /// How unnecessary window reductions are detected and undone.
        pub undo: Undo = Undo::Off, "aqmlab's choice; RFC 3708: experimental";
    }
}
