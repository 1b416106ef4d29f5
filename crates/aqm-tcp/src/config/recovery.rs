//! `[tcp.recovery]`: loss detection and retransmission.
//!
//! RFC 5681, section 3.2 (fast retransmit and fast recovery); RFC 3042 (limited transmit); RFC 6582 (NewReno); RFC 6675
//! (SACK); RFC 8985 (RACK-TLP); RFC 6937 (PRR); RFC 5682 (F-RTO); RFC 3708 (undo with D-SACK); RFC 3522 (undo with
//! timestamps).

use aqm_net::{choices, parameters};

choices! {
    /// Loss recovery. The size of the window after a loss is set by `congestion_control`.
    pub enum RecoveryKind {
        /// Without SACK: the third duplicate acknowledgement sets the window to one segment and restarts transmission
        /// at the oldest hole (V. Jacobson 1988).
        Tahoe = "tahoe",
        /// Without SACK: fast retransmit and fast recovery, which ends with the next new acknowledgement (RFC 5681,
        /// section 3.2, in the form of RFC 2581).
        Reno = "reno",
        /// Without SACK: fast recovery continues until all data sent before it is acknowledged; a partial
        /// acknowledgement indicates the next hole (RFC 6582).
        NewReno = "newreno",
        /// With SACK: a scoreboard selects the retransmissions (RFC 2018, RFC 6675).
        Sack = "sack",
        /// With SACK: losses are detected by time instead of counting, and probes detect tail losses (RACK-TLP, RFC
        /// 8985).
        Rack = "rack",
    }
}

choices! {
    /// Transmission on the first and the second duplicate acknowledgement (RFC 3042).
    pub enum LimitedTransmit {
        /// None.
        Off = "off",
        /// One new segment.
        New = "new",
        /// The next segment in sequence; after a timeout this may be a retransmission (ns-2).
        Next = "next",
    }
}

choices! {
    /// Condition for a further fast retransmit.
    pub enum FastRetransmitGuard {
        /// None: a fast retransmit is always permitted.
        None = "none",
        /// All data sent before the last recovery or timeout is acknowledged (RFC 6582, section 3.2; ns-2: `bugFix_`).
        Recover = "recover",
        /// As `recover`, and always while the first segment is missing (ns-2: `bugfix_ss_`).
        RecoverOrFirst = "recover-or-first",
        /// As `recover` after a timeout; no condition after a recovery (ns-2's FullTcp).
        AfterTimeout = "after-timeout",
    }
}

choices! {
    /// Window inflation by duplicate acknowledgements beyond the threshold.
    pub enum Inflation {
        /// The inflation is separate from the window and applies in fast recovery only (RFC 5681, section 3.2).
        Beside = "beside",
        /// The inflation is part of the window, after a timeout as well as in fast recovery. An acknowledgement of new
        /// data leaves as much of it as `ssthresh` allows; a timeout halves the inflated window. The duplicate at the
        /// threshold triggers only the retransmission of the missing segment (ns-2's FullTcp).
        InWindow = "in-window",
    }
}

choices! {
    /// Effect on the window of the acknowledgement that ends fast recovery.
    pub enum ExitAck {
        /// It only removes the inflation (RFC 5681, section 3.2, step 6).
        Deflates = "deflates",
        /// It opens the window like any other acknowledgement (ns-2), but not with SACK.
        Grows = "grows",
        /// It opens the window like any other acknowledgement, also with SACK (ns-2's FullTcp).
        GrowsWithSack = "grows-with-sack",
    }
}

choices! {
    /// Window after NewReno's fast recovery.
    pub enum ExitWindow {
        /// `ssthresh`, or one segment more than is in flight if that is less (RFC 6582, 3.2, step 3).
        Flight = "flight",
        /// `ssthresh`.
        Ssthresh = "ssthresh",
        /// The window that partial acknowledgements left (ns-2: `exit_recovery_fix_ 0`).
        Deflated = "deflated",
    }
}

choices! {
    /// NewReno's partial acknowledgements that restart the retransmission timer.
    pub enum PartialAckTimer {
        /// The first of a recovery ("impatient": many losses lead to a timeout; RFC 6582, 3.2, step 5).
        First = "first",
        /// Every one ("slow but steady"; RFC 6582, section 4).
        Each = "each",
    }
}

choices! {
    /// Reduction of the window in fast recovery, with SACK.
    pub enum Reduction {
        /// Immediate, so that the sender is silent for half a round trip (RFC 6675).
        AtOnce = "at-once",
        /// In proportion to delivered data (PRR, RFC 6937).
        Prr = "prr",
        /// By one segment with every second acknowledgement (J. Hoe; Linux 2.4).
        RateHalving = "rate-halving",
    }
}

choices! {
    /// PRR's sending limit when less data is in flight than the window allows.
    pub enum PrrBound {
        /// The delivered data (RFC 6937, "conservative reduction bound").
        Crb = "crb",
        /// One segment more than the delivered data with each acknowledgement (RFC 6937, "slow-start reduction bound").
        Ssrb = "ssrb",
        /// As `ssrb` if the acknowledgement advances and shows no further loss, otherwise as `crb` (Linux since 3.17;
        /// RFC 9937).
        SafeAck = "safe-ack",
    }
}

choices! {
    /// PRR's divisor of delivered data.
    pub enum PrrShare {
        /// Data unacknowledged when the loss was detected (`RecoverFS`, RFC 6937).
        Flight = "flight-size",
        /// Window before the reduction (Linux).
        Window = "window",
    }
}

choices! {
    /// Data considered lost at a timeout, with RACK.
    pub enum TimeoutLoses {
        /// All data that is not known to have arrived.
        All = "all",
        /// The oldest segment, and segments sent more than one round trip ago (RFC 8985, section 6.3).
        Late = "late",
    }
}

choices! {
    /// Detection of spurious timeouts, with SACK.
    pub enum Frto {
        /// No detection.
        Off = "off",
        /// After a timeout, new data is sent first. If data that was sent only once, before the timeout, arrives, the
        /// sender stops retransmitting and restores the window (F-RTO, RFC 5682, section 3).
        On = "on",
    }
}

choices! {
    /// Undo of unnecessary window reductions.
    pub enum Undo {
        /// No undo.
        Off = "off",
        /// With SACK, the reduction is undone when D-SACK reports that all retransmitted data had already arrived (RFC
        /// 3708).
        Dsack = "dsack",
        /// As `dsack`, and also when an acknowledgement echoes the timestamp of a segment sent before the first
        /// retransmission (Eifel detection, RFC 3522; Linux with `tcp_timestamps = 1`).
        DsackOrTimestamps = "dsack-or-timestamps",
    }
}

parameters! {
    /// Loss detection and retransmission (RFC 5681, section 3.2, and its extensions).
    pub struct Recovery {
        /// Loss recovery; `sack` and `rack` need SACK at both endpoints.
        pub kind: RecoveryKind = RecoveryKind::Reno, "RFC 5681, 3.2";
        /// Number of duplicate acknowledgements that indicate a loss (`DupThresh`). A low value mistakes reordering for
        /// loss; with a high value, small windows wait for the retransmission timer.
        pub dupthresh: u32 = 3, "RFC 5681, 3.2";
        /// Transmission on the duplicate acknowledgements below the threshold.
        pub limited_transmit: LimitedTransmit = LimitedTransmit::New, "RFC 3042";
        /// Condition for a further fast retransmit. Without a condition, the losses of one window may reduce it several
        /// times.
        pub fast_retransmit_guard: FastRetransmitGuard = FastRetransmitGuard::Recover, "RFC 6582, 3.2";
        /// Window inflation by duplicate acknowledgements beyond the threshold, with `tahoe`, `reno` and `newreno`.
        pub inflation: Inflation = Inflation::Beside, "RFC 5681, 3.2";
        /// Effect on the window of the acknowledgement that ends fast recovery.
        pub exit_ack: ExitAck = ExitAck::Deflates, "RFC 5681, 3.2";
        /// Window after NewReno's fast recovery.
        pub exit_window: ExitWindow = ExitWindow::Flight, "RFC 6582, 3.2";
        /// NewReno's partial acknowledgements that restart the retransmission timer.
        pub partial_ack_timer: PartialAckTimer = PartialAckTimer::First, "RFC 6582, 3.2";
        /// Maximum number of segments that one acknowledgement releases in NewReno's fast recovery, without
        /// retransmissions; no limit by default.
        pub max_burst: Option<u64> = None, "aqmlab's choice; ns-2: 2";
        /// Reduction of the window in fast recovery, with SACK; must be `at-once` with a counted pipe.
        pub reduction: Reduction = Reduction::AtOnce, "RFC 6675, 5";
        /// PRR's sending limit when less data is in flight than the window allows.
        pub prr_bound: PrrBound = PrrBound::Ssrb, "RFC 6937, 3";
        /// PRR's divisor of delivered data.
        pub prr_share: PrrShare = PrrShare::Flight, "RFC 6937, 3";
        /// Data considered lost at a timeout, with RACK.
        pub timeout_loses: TimeoutLoses = TimeoutLoses::All, "aqmlab's choice; RFC 8985, 6.3, excludes the newest";
        /// Detection of spurious timeouts, with SACK.
        pub frto: Frto = Frto::Off, "RFC 5682: optional";
        /// Undo of unnecessary window reductions.
        pub undo: Undo = Undo::Off, "aqmlab's choice; RFC 3708: experimental";
    }
}
