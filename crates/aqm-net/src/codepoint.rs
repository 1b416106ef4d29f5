//! The ECN codepoint of a sender's packets.

use crate::{Ecn, choices};

choices! {
    /// ECN codepoint of data.
    pub enum Codepoint {
        /// ECT(0) (RFC 3168).
        Ect0 = "ect0",
        /// ECT(1), which identifies L4S traffic (RFC 9331).
        Ect1 = "ect1",
    }
}

impl Codepoint {
    /// Returns the ECN bits of a packet.
    pub fn ecn(self) -> Ecn {
        match self {
            Self::Ect0 => Ecn::Ect0,
            Self::Ect1 => Ecn::Ect1,
        }
    }
}
