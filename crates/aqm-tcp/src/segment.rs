//! What travels between the two ends of a connection.

/// A TCP segment without its payload. Sequence numbers count payload bytes from zero in 64 bits,
/// so they never wrap; SYN and FIN are flags and take no sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The first payload byte this segment carries, or the next one its sender would send.
    pub seq: u64,
    /// The next payload byte its sender expects.
    pub ack: u64,
    /// Payload bytes carried; 0 for a bare control segment.
    pub len: u32,
    /// Bytes on the wire, headers included.
    pub wire: u16,
    /// What it is.
    pub flags: Flags,
}

/// What a segment is, as a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// Opens a connection.
    pub const SYN: Self = Self(1);
    /// Its `ack` is meant.
    pub const ACK: Self = Self(2);
    /// Nothing follows its payload.
    pub const FIN: Self = Self(4);
    /// Its payload was sent before.
    pub const RETRANSMISSION: Self = Self(8);

    /// Both sets together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is in this set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}
