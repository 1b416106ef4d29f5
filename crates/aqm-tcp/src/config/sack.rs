//! `[tcp.sack]`: selective acknowledgements, where `[tcp.recovery]` is of a kind that uses them.
//!
//! M. Mathis et al., RFC 2018, 1996; S. Floyd et al., RFC 2883, 2000 (D-SACK); E. Blanton et al., RFC 6675,
//! 2012, whose functions have their names here (`pipe`, `NextSeg`).

use aqm_net::{choices, parameters};

choices! {
    /// How a sender with SACK knows how much is in the network (`pipe`).
    pub enum Pipe {
        /// From its scoreboard, segment by segment (RFC 6675, section 4).
        Scoreboard = "scoreboard",
        /// Counted: less one with each acknowledgement, less two with a partial one, one more with each
        /// segment sent; every hole below the highest SACKed segment is sent again once, and the
        /// scoreboard forgets all when recovery ends (ns-2's Sack1).
        Counted = "counted",
        /// Counted in bytes, in recovery only: less a segment with each acknowledgement, less two with a partial
        /// one, more by what is sent but for the first retransmission. Holes are filled once, behind marks and
        /// time-outs, too; any three duplicates mean a loss, unless they fall into a window reduced already
        /// (ns-2's FullTcp).
        Ns2Full = "ns-2-full",
    }
}

choices! {
    /// What a sender with SACK does in fast recovery when all that is known to be lost is sent again, and no
    /// new data may be.
    pub enum NextSeg {
        /// It sends again what may be lost, and at last the last segment (RFC 6675, rules (3) and (4)).
        AllRules = "all-rules",
        /// It waits (Linux).
        LostOnly = "lost-only",
    }
}

choices! {
    /// What a time-out does to what SACK has reported.
    pub enum SacksAtTimeout {
        /// It stays: only holes are sent again (RFC 6675, section 5.1).
        Kept = "kept",
        /// It is forgotten, in case the receiver discarded data (RFC 2018, section 8; ns-2).
        Forgotten = "forgotten",
    }
}

choices! {
    /// By how much SACK lengthens the segments that carry it.
    pub enum SackBytes {
        /// By the whole option (RFC 2018, section 3).
        Counted = "counted",
        /// By eight bytes each, without kind, length and padding (ns-2).
        Blocks = "blocks",
        /// By kind and length and eight bytes for each block, without padding (ns-2's FullTcp).
        Unpadded = "unpadded",
    }
}

choices! {
    /// Whether a receiver tells what came twice.
    pub enum Dsack {
        /// It does not.
        Off = "off",
        /// The first block of SACK may tell of it (RFC 2883).
        On = "on",
    }
}

parameters! {
    /// Selective acknowledgements, with the recoveries `sack` and `rack` (RFC 2018, RFC 6675).
    pub struct Sack {
        /// How a sender with SACK knows how much is in the network.
        pub pipe: Pipe = Pipe::Scoreboard, "RFC 6675, 4";
        /// What `NextSeg` chooses when nothing that is known to be lost, and no new data, is left.
        pub next_seg: NextSeg = NextSeg::AllRules, "RFC 6675, 4";
        /// What a time-out does to what SACK has reported.
        pub at_timeout: SacksAtTimeout = SacksAtTimeout::Kept, "RFC 6675, 5.1";
        /// Whether the blocks of SACK lengthen the segments that carry them.
        pub option_bytes: SackBytes = SackBytes::Counted, "RFC 2018, 3";
        /// Whether a receiver with SACK tells what came twice.
        pub dsack: Dsack = Dsack::On, "RFC 2883";
    }
}
