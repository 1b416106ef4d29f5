//! The description of a packet, as seen by queues.

/// The two ECN bits of an IP header (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// The transport does not support ECN, so a router must signal congestion by dropping the packet.
    #[default]
    NotEct,
    /// ECN-capable transport, code point ECT(1).
    Ect1,
    /// ECN-capable transport, code point ECT(0).
    Ect0,
    /// Congestion experienced: a router has marked the packet.
    Ce,
}

impl Ecn {
    /// Returns whether a router may mark the packet instead of dropping it.
    pub const fn can_be_marked(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

/// A copyable description of a packet, which occupies 24 bytes. The description contains no payload: `id` identifies
/// the payload, which the creator of the packet stores. The description contains no timestamp either: a queue
/// discipline that needs a timestamp stores the timestamp next to the packet.
///
/// A packet is copied several times on each link. The fields that links read or change are placed last, so that the
/// other fields can be copied together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Packet {
    /// Identifier of the payload. The owner of the payload defines what the identifier means.
    pub id: u32,
    /// Number of the packet's flow, which is unique within a run and is never reused.
    pub flow: u32,
    /// The sender's congestion window in segments, set by an edge router; 0 if unknown (the "edge hint" of SHRED).
    pub cwnd: u16,
    /// Number of the source host, starting at 1; 0 if unknown.
    pub source: u16,
    /// Number of the destination host, starting at 1; 0 if unknown.
    pub destination: u16,
    /// Number of a label that contains further header fields. The creator of the packet has registered the label with
    /// the queue.
    pub label: u16,
    /// Position of the packet on its route; used only by the forwarder.
    pub hop: u32,
    /// Bytes on the wire, including headers.
    pub bytes: u16,
    /// Class set by an edge router, for example short or long; 0 if the packet is not classified.
    pub class: u8,
    /// ECN bits.
    pub ecn: Ecn,
}

impl Packet {
    /// Returns the sender's congestion window in segments, if the window is known.
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
