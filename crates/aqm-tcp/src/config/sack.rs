//! `[tcp.sack]`: selective acknowledgements, for the kinds of `[tcp.recovery]` that use them.
//!
//! M. Mathis et al., RFC 2018, 1996; S. Floyd et al., RFC 2883, 2000 (D-SACK); E. Blanton et al., RFC 6675, 2012, whose
//! function names are used here (`pipe`, `NextSeg`).

use aqm_net::{choices, parameters};

choices! {
    /// Estimate of the data in the network (`pipe`), with SACK.
    pub enum Pipe {
        /// Computed from the scoreboard, segment by segment (RFC 6675, section 4).
        Scoreboard = "scoreboard",
        /// Counted in segments: minus one with each acknowledgement, minus two with a partial one, plus one with each
        /// segment sent. Every hole below the highest SACKed segment is retransmitted once, and the scoreboard is
        /// cleared when the recovery ends (ns-2's Sack1).
        Counted = "counted",
        /// Counted in bytes, in recovery only: minus one segment with each acknowledgement, minus two with a partial
        /// one, plus the bytes sent except the first retransmission. Holes are filled once, also after marks and
        /// timeouts. Any three duplicates indicate a loss, unless they belong to a window that was already reduced
        /// (ns-2's FullTcp).
        Ns2Full = "ns-2-full",
    }
}

choices! {
    /// Retransmissions in fast recovery after all lost data was retransmitted and while no new data may be sent, with
    /// SACK.
    pub enum NextSeg {
        /// Data that may be lost, and finally the last segment (RFC 6675, rules (3) and (4)).
        AllRules = "all-rules",
        /// None: the sender waits (Linux).
        LostOnly = "lost-only",
    }
}

choices! {
    /// Effect of a timeout on the SACK scoreboard.
    pub enum SacksAtTimeout {
        /// The scoreboard is kept: only holes are retransmitted (RFC 6675, section 5.1).
        Kept = "kept",
        /// The scoreboard is cleared, because the receiver may have discarded data (RFC 2018, section 8; ns-2).
        Forgotten = "forgotten",
    }
}

choices! {
    /// Bytes that SACK adds to a segment.
    pub enum SackBytes {
        /// The complete option (RFC 2018, section 3).
        Counted = "counted",
        /// Eight bytes per block, without kind, length and padding (ns-2).
        Blocks = "blocks",
        /// Kind, length and eight bytes per block, without padding (ns-2's FullTcp).
        Unpadded = "unpadded",
    }
}

choices! {
    /// Report of duplicate data by the receiver.
    pub enum Dsack {
        /// No report.
        Off = "off",
        /// The first SACK block may report duplicate data (RFC 2883).
        On = "on",
    }
}

parameters! {
    /// Selective acknowledgements, with the recoveries `sack` and `rack` (RFC 2018, RFC 6675).
    pub struct Sack {
        /// Estimate of the data in the network (`pipe`), with SACK.
        pub pipe: Pipe = Pipe::Scoreboard, "RFC 6675, 4";
        /// `NextSeg`'s choice when neither lost nor new data can be sent.
        pub next_seg: NextSeg = NextSeg::AllRules, "RFC 6675, 4";
        /// Effect of a timeout on the SACK scoreboard.
        pub at_timeout: SacksAtTimeout = SacksAtTimeout::Kept, "RFC 6675, 5.1";
        /// Bytes that SACK adds to a segment.
        pub option_bytes: SackBytes = SackBytes::Counted, "RFC 2018, 3";
        /// Report of duplicate data by a receiver with SACK.
        pub dsack: Dsack = Dsack::On, "RFC 2883";
    }
}
