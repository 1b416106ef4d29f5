//! `[tcp.sack]`: selective acknowledgements, for the loss recoveries that use them.
//!
//! M. Mathis et al., RFC 2018, 1996; S. Floyd et al., RFC 2883, 2000 (D-SACK); E. Blanton et al., RFC 6675, 2012. The
//! code uses the function names of RFC 6675 (`pipe`, `NextSeg`).

use aqm_net::{choices, parameters};

choices! {
    /// Estimate of the amount of data in the network (`pipe`, SACK only).
    pub enum Pipe {
        /// The estimate is computed from the scoreboard, segment by segment (RFC 6675, section 4).
        Scoreboard = "scoreboard",
        /// The estimate is a count of segments. Each acknowledgement subtracts one, a partial acknowledgement subtracts
        /// two, and each sent segment adds one. Every missing segment below the highest SACKed segment is retransmitted
        /// once, and the scoreboard is cleared when the recovery ends (ns-2's Sack1).
        Counted = "counted",
        /// The estimate is a count of bytes, which is kept only in recovery. Each acknowledgement subtracts one
        /// segment, a partial acknowledgement subtracts two segments, and the bytes sent are added, excluding the first
        /// retransmission. Missing segments are retransmitted once, also after marks and timeouts. Any three duplicate
        /// acknowledgements indicate a loss, unless they belong to a window that was already reduced (ns-2's FullTcp).
        Ns2Full = "ns-2-full",
    }
}

choices! {
    /// Data that is retransmitted in fast recovery when all lost data has already been retransmitted and no new data
    /// may be sent (SACK only).
    pub enum NextSeg {
        /// Data that may be lost, and finally the last segment (RFC 6675, rules (3) and (4)).
        AllRules = "all-rules",
        /// Nothing: the sender waits (Linux).
        LostOnly = "lost-only",
    }
}

choices! {
    /// Effect of a timeout on the SACK scoreboard.
    pub enum SacksAtTimeout {
        /// The scoreboard is kept, and only missing segments are retransmitted (RFC 6675, section 5.1).
        Kept = "kept",
        /// The scoreboard is cleared, because the receiver may have discarded data (RFC 2018, section 8; ns-2).
        Forgotten = "forgotten",
    }
}

choices! {
    /// Number of bytes that the SACK option adds to a segment.
    pub enum SackBytes {
        /// The complete option (RFC 2018, section 3).
        Counted = "counted",
        /// Eight bytes per block, excluding kind, length and padding (ns-2).
        Blocks = "blocks",
        /// Kind, length, and eight bytes per block, excluding padding (ns-2's FullTcp).
        Unpadded = "unpadded",
    }
}

choices! {
    /// Whether the receiver reports duplicate data.
    pub enum Dsack {
        /// Duplicate data is not reported.
        Off = "off",
        /// The first SACK block may report duplicate data (RFC 2883).
        On = "on",
    }
}

parameters! {
    /// Selective acknowledgements, which `recovery.kind = "sack"` and `"rack"` use (RFC 2018, RFC 6675).
    pub struct Sack {
        /// Estimate of the amount of data in the network (`pipe`, SACK only).
        pub pipe: Pipe = Pipe::Scoreboard, "RFC 6675, 4";
        /// Data that `NextSeg` selects if neither lost data nor new data can be sent.
        pub next_seg: NextSeg = NextSeg::AllRules, "RFC 6675, 4";
        /// Effect of a timeout on the SACK scoreboard.
        pub at_timeout: SacksAtTimeout = SacksAtTimeout::Kept, "RFC 6675, 5.1";
        /// Number of bytes that the SACK option adds to a segment.
        pub option_bytes: SackBytes = SackBytes::Counted, "RFC 2018, 3";
        /// Whether a receiver with SACK reports duplicate data.
        pub dsack: Dsack = Dsack::On, "RFC 2883";
    }
}
