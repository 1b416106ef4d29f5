//! The description of a packet as queues see it.

/// The two ECN bits of an IP header (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// The transport does not support ECN, so that a router must signal congestion by dropping.
    #[default]
    NotEct,
    /// ECN-capable transport, code point ECT(1).
    Ect1,
    /// ECN-capable transport, code point ECT(0).
    Ect0,
    /// A router experienced congestion.
    Ce,
}

impl Ecn {
    /// Returns whether a router may mark the packet instead of dropping it.
    pub const fn can_be_marked(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

/// A copyable description of a packet, 24 bytes. It has no payload: `id` identifies the payload, which remains with the
/// creator of the packet. It has no timestamp: a queue discipline that needs one stores it next to the packet.
///
/// A packet is copied several times on each link. The order of the fields allows the fields that links do not use to be
/// copied together; the fields that links read or change come last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Packet {
    /// Identifier of the payload; its owner defines the meaning of the number.
    pub id: u32,
    /// Flow of the packet: unique within a run and never reused.
    pub flow: u32,
    /// The sender's congestion window in segments, set by the edge; 0 if unknown (the "edge hint" of SHRED).
    pub cwnd: u16,
    /// Number of the source host, from 1; 0 if unknown.
    pub source: u16,
    /// Number of the destination host, from 1; 0 if unknown.
    pub destination: u16,
    /// Number of a label with further header fields, which the creator of the packet has registered with the queue.
    pub label: u16,
    /// Position of the packet on its route; used only by the forwarder.
    pub hop: u32,
    /// Bytes on the wire, including headers.
    pub bytes: u16,
    /// Class set by an edge, for example short or long; 0 if the packet is not classified.
    pub class: u8,
    /// ECN bits.
    pub ecn: Ecn,
}

impl Packet {
    /// Returns the sender's congestion window in segments, if it is known.
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
