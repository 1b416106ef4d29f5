//! What an ACK filter sees of a packet of TCP that acknowledges.

/// The header of a packet of TCP with the flag ACK and without SYN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acknowledgement {
    /// Whether the packet says nothing else: no data, and no flag but ACK and those of ECN.
    pub bare: bool,
    /// The next byte that is expected, counted from the beginning of the connection.
    pub number: u64,
    /// The blocks of SACK, each from its first byte to the one after its last, in the order of the header; those
    /// behind the last are empty.
    pub sacked: [[u64; 2]; 4],
    /// Whether it echoes a mark (ECE, RFC 3168).
    pub ece: bool,
    /// Whether it says that the window was reduced (CWR).
    pub cwr: bool,
}
