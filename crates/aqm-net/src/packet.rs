//! What a queue sees of a packet.

/// The two ECN bits of an IP header (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// The sender does not understand marks: congestion must be told by dropping.
    #[default]
    NotEct,
    /// ECN-capable transport, code point ECT(1).
    Ect1,
    /// ECN-capable transport, code point ECT(0).
    Ect0,
    /// A router met congestion.
    Ce,
}

impl Ecn {
    /// Whether a router may mark instead of dropping.
    pub const fn can_be_marked(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

/// A copyable description of a packet, 24 bytes. It owns no payload: `id` names what it carries,
/// which stays with whoever made the packet.
/// It has no time stamp either: a discipline that needs one keeps it beside the packet.
///
/// It is copied several times on each link. Its fields stand in this order so that what is only carried is moved in
/// one go; what links change or read comes behind that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Packet {
    /// Names the payload; its owner decides what the number means.
    pub id: u32,
    /// The flow it belongs to: unique in a run, never used again.
    pub flow: u32,
    /// The sender's congestion window in segments, written at the edge; 0 if it does not tell
    /// (the "edge hint" of SHRED).
    pub cwnd: u16,
    /// The host it comes from, by number from 1; 0 if that is not known.
    pub source: u16,
    /// The host it goes to, likewise.
    pub destination: u16,
    /// What its headers say beside: the number of a label that whoever made the packet told the queue of.
    pub label: u16,
    /// Where on its route the packet is: the business of whoever forwards it.
    pub hop: u32,
    /// Bytes on the wire, headers included.
    pub bytes: u16,
    /// Short or long, or what else an edge wrote; 0 unless something classified the packet.
    pub class: u8,
    /// ECN bits.
    pub ecn: Ecn,
}

impl Packet {
    /// The sender's window in segments, if the packet tells.
    pub const fn window(&self) -> Option<u16> {
        if self.cwnd == 0 { None } else { Some(self.cwnd) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_stays_small() {
        assert!(size_of::<Packet>() <= 24);
    }
}
