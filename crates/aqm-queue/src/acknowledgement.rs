//! The header fields of a TCP acknowledgement that an ACK filter reads.

/// Fields from the header of a TCP packet in which the ACK flag is set and the SYN flag is not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acknowledgement {
    /// Whether the packet contains only an acknowledgement: the packet contains no data, and no flags are set except
    /// ACK and the ECN flags.
    pub bare: bool,
    /// The acknowledgement number: the next expected byte, counted from the start of the connection.
    pub number: u64,
    /// The SACK blocks, in the order in which they appear in the header. Each block is stored as the number of its
    /// first byte and the number of the byte after its last byte. Unused entries are empty blocks.
    pub sacked: [[u64; 2]; 4],
    /// Whether the ECE flag (RFC 3168), which echoes a congestion mark, is set.
    pub ece: bool,
    /// Whether the CWR flag, which reports that the sender has reduced its window, is set.
    pub cwr: bool,
}
