//! `[tcp.sack]`: selective acknowledgements, for the recoveries that use them.
//!
//! M. Mathis et al., RFC 2018, 1996; S. Floyd et al., RFC 2883, 2000 (D-SACK); E. Blanton et al., RFC 6675, 2012. The
//! function names of RFC 6675 are used here (`pipe`, `NextSeg`).

use aqm_net::{choices, parameters};

choices! {
    /// Estimate of the amount of data in the network (`pipe`), with SACK.
    pub enum Pipe {
        /// The estimate is computed from the scoreboard, segment by segment (RFC 6675, section 4).
        Scoreboard = "scoreboard",
        /// The estimate is counted in segments: minus one with each acknowledgement, minus two with a partial
        /// acknowledgement, and plus one with each sent segment. Every missing segment below the highest SACKed segment
        /// is retransmitted once, and the scoreboard is cleared when the recovery ends (ns-2's Sack1).
        Counted = "counted",
        /// The estimate is counted in bytes, only in recovery: minus one segment with each acknowledgement, minus two
        /// segments with a partial acknowledgement, and plus the bytes sent, excluding the first retransmission.
        /// Missing segments are retransmitted once, also after marks and timeouts. Any three duplicate acknowledgements
        /// indicate a loss, unless they belong to a window that was already reduced (ns-2's FullTcp).
        Ns2Full = "ns-2-full",
    }
}

choices! {
    /// What is retransmitted in fast recovery after all lost data has been retransmitted and while no new data may be
    /// sent, with SACK.
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
    /// Size in bytes by which the SACK option lengthens a segment.
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
        /// No report.
        Off = "off",
        /// The first SACK block may report duplicate data (RFC 2883).
        On = "on",
    }
}

parameters! {
    /// Selective acknowledgements, which the recoveries `sack` and `rack` use (RFC 2018, RFC 6675).
    pub struct Sack {
        /// Estimate of the amount of data in the network (`pipe`), with SACK.
        pub pipe: Pipe = Pipe::Scoreboard, "RFC 6675, 4";
        /// What `NextSeg` selects if neither lost data nor new data can be sent.
        pub next_seg: NextSeg = NextSeg::AllRules, "RFC 6675, 4";
        /// Effect of a timeout on the SACK scoreboard.
        pub at_timeout: SacksAtTimeout = SacksAtTimeout::Kept, "RFC 6675, 5.1";
        /// Size in bytes by which the SACK option lengthens a segment.
        pub option_bytes: SackBytes = SackBytes::Counted, "RFC 2018, 3";
        /// Whether a receiver with SACK reports duplicate data.
        pub dsack: Dsack = Dsack::On, "RFC 2883";
    }
}
