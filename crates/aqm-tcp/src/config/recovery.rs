//! `[tcp.recovery]`: how losses are found and repaired.
//!
//! RFC 5681, section 3.2 (fast retransmit and fast recovery); RFC 3042 (limited transmit); RFC 6582 (NewReno);
//! RFC 6675 (SACK); RFC 8985 (RACK-TLP); RFC 6937 (PRR); RFC 5682 (F-RTO); RFC 3708 (undo with D-SACK);
//! RFC 3522 (undo with timestamps).

use aqm_net::{choices, parameters};

choices! {
    /// How losses are found and repaired. How far the window falls is another matter: `congestion_control`.
    pub enum RecoveryKind {
        /// Without SACK: the third duplicate acknowledgement starts again from a window of one and the
        /// oldest hole (V. Jacobson 1988).
        Tahoe = "tahoe",
        /// Without SACK: fast retransmit and fast recovery, which ends with the next new
        /// acknowledgement (RFC 5681, section 3.2, in the form of RFC 2581).
        Reno = "reno",
        /// Without SACK: fast recovery goes on until all that was sent before it is acknowledged; a
        /// partial acknowledgement shows the next hole (RFC 6582).
        NewReno = "newreno",
        /// With SACK: what to send again follows from a scoreboard (RFC 2018, RFC 6675).
        Sack = "sack",
        /// With SACK, and time instead of counting decides what is lost; probes find lost tails
        /// (RACK-TLP, RFC 8985).
        Rack = "rack",
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
        /// As `recover` after a time-out; at any time after a recovery (ns-2's FullTcp).
        AfterTimeout = "after-timeout",
    }
}

choices! {
    /// Where the segments stand by which duplicate acknowledgements beyond the threshold open the window.
    pub enum Inflation {
        /// Beside the window, in fast recovery only (RFC 5681, section 3.2).
        Beside = "beside",
        /// In the window itself, after a time-out as in fast recovery: new data acknowledged leaves of it
        /// what `ssthresh` allows, a time-out halves it all. The duplicate at the threshold sends nothing
        /// but the missing segment (ns-2's FullTcp).
        InWindow = "in-window",
    }
}

choices! {
    /// What the acknowledgement does to the window that ends fast recovery.
    pub enum ExitAck {
        /// It only takes the inflation out (RFC 5681, section 3.2, step 6).
        Deflates = "deflates",
        /// It opens the window as any other (ns-2), but not with SACK.
        Grows = "grows",
        /// It opens the window as any other, with SACK too (ns-2's FullTcp).
        GrowsWithSack = "grows-with-sack",
    }
}

choices! {
    /// The window after NewReno's fast recovery.
    pub enum ExitWindow {
        /// `ssthresh`, or a segment more than is in flight if that is less (RFC 6582, 3.2, step 3).
        Flight = "flight",
        /// `ssthresh`.
        Ssthresh = "ssthresh",
        /// Whatever partial acknowledgements left of it (ns-2: `exit_recovery_fix_ 0`).
        Deflated = "deflated",
    }
}

choices! {
    /// Which partial acknowledgements of NewReno restart the retransmission timer.
    pub enum PartialAckTimer {
        /// The first of a recovery ("impatient": many losses end in a time-out; RFC 6582, 3.2, step 5).
        First = "first",
        /// Each ("slow but steady"; RFC 6582, section 4).
        Each = "each",
    }
}

choices! {
    /// How the window comes down in fast recovery, with SACK.
    pub enum Reduction {
        /// At once, so that the sender falls silent for half a round trip (RFC 6675).
        AtOnce = "at-once",
        /// In proportion to what arrives (PRR, RFC 6937).
        Prr = "prr",
        /// By a segment with every second acknowledgement (J. Hoe; Linux 2.4).
        RateHalving = "rate-halving",
    }
}

choices! {
    /// How much PRR sends once less is in flight than the window allows.
    pub enum PrrBound {
        /// As much as arrives (RFC 6937, "conservative reduction bound").
        Crb = "crb",
        /// A segment more with each acknowledgement (RFC 6937, "slow-start reduction bound").
        Ssrb = "ssrb",
        /// As `ssrb` if the acknowledgement moves on and shows no further loss, otherwise as `crb`
        /// (Linux since 3.17; RFC 9937).
        SafeAck = "safe-ack",
    }
}

choices! {
    /// By what PRR divides what has arrived.
    pub enum PrrShare {
        /// What was sent and not acknowledged when the loss was found (`RecoverFS`, RFC 6937).
        Flight = "flight-size",
        /// The window before it fell (Linux).
        Window = "window",
    }
}

choices! {
    /// What a time-out holds for lost, with RACK.
    pub enum TimeoutLoses {
        /// All that is not known to have arrived.
        All = "all",
        /// The oldest segment, and what left before the last round trip (RFC 8985, section 6.3).
        Late = "late",
    }
}

choices! {
    /// Whether a sender with SACK looks for time-outs that are spurious.
    pub enum Frto {
        /// It does not.
        Off = "off",
        /// After a time-out new data goes first; if what was sent only once before it arrives, nothing is sent
        /// again and the reduction is taken back (F-RTO, RFC 5682, section 3).
        On = "on",
    }
}

choices! {
    /// Whether a reduction is taken back that turns out to be needless.
    pub enum Undo {
        /// It is not.
        Off = "off",
        /// It is, with SACK, once D-SACK tells that everything sent again had arrived before (RFC 3708).
        Dsack = "dsack",
        /// As `dsack`, and also once an acknowledgement echoes the timestamp of a segment that left before the first
        /// retransmission (Eifel detection, RFC 3522; Linux with `tcp_timestamps = 1`).
        DsackOrTimestamps = "dsack-or-timestamps",
    }
}

parameters! {
    /// How losses are found and repaired (RFC 5681, section 3.2, and what builds on it).
    pub struct Recovery {
        /// How losses are found and repaired; `sack` and `rack` need SACK at both ends.
        pub kind: RecoveryKind = RecoveryKind::Reno, "RFC 5681, 3.2";
        /// Duplicate acknowledgements that mean a loss (`DupThresh`). With fewer, reordering is taken for loss;
        /// with more, small windows wait for the timer.
        pub dupthresh: u32 = 3, "RFC 5681, 3.2";
        /// What the duplicate acknowledgements before that send.
        pub limited_transmit: LimitedTransmit = LimitedTransmit::New, "RFC 3042";
        /// When a fast retransmit may follow another. Without a guard the losses of one window may reduce it
        /// several times.
        pub fast_retransmit_guard: FastRetransmitGuard = FastRetransmitGuard::Recover, "RFC 6582, 3.2";
        /// How duplicates beyond the threshold open the window, with `tahoe`, `reno` and `newreno`.
        pub inflation: Inflation = Inflation::Beside, "RFC 5681, 3.2";
        /// What the acknowledgement does that ends fast recovery.
        pub exit_ack: ExitAck = ExitAck::Deflates, "RFC 5681, 3.2";
        /// The window after NewReno's fast recovery.
        pub exit_window: ExitWindow = ExitWindow::Flight, "RFC 6582, 3.2";
        /// Which partial acknowledgements of NewReno restart the retransmission timer.
        pub partial_ack_timer: PartialAckTimer = PartialAckTimer::First, "RFC 6582, 3.2";
        /// The most segments that one acknowledgement releases in NewReno's fast recovery, those sent again
        /// apart; without limit if left out.
        pub max_burst: Option<u64> = None, "ours; ns-2: 2";
        /// How the window comes down in fast recovery, with SACK; `at-once` with a counted pipe.
        pub reduction: Reduction = Reduction::AtOnce, "RFC 6675, 5";
        /// How much PRR sends once less is in flight than the window allows.
        pub prr_bound: PrrBound = PrrBound::Ssrb, "RFC 6937, 3";
        /// By what PRR divides what has arrived.
        pub prr_share: PrrShare = PrrShare::Flight, "RFC 6937, 3";
        /// What a time-out holds for lost, with RACK.
        pub timeout_loses: TimeoutLoses = TimeoutLoses::All, "ours; RFC 8985, 6.3, spares the newest";
        /// Whether a sender with SACK looks for time-outs that are spurious.
        pub frto: Frto = Frto::Off, "RFC 5682: may be used";
        /// Whether a reduction is taken back that turns out to be needless.
        pub undo: Undo = Undo::Off, "ours; RFC 3708: experimental";
    }
}
