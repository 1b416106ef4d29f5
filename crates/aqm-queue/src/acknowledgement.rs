//! The header fields of a TCP acknowledgement that an ACK filter reads.

/// Fields from the header of a TCP packet whose ACK flag is set and whose SYN flag is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acknowledgement {
    /// Whether the packet contains only an acknowledgement: it has no data, and no flags except ACK and the ECN flags.
    pub bare: bool,
    /// The acknowledgement number: the next expected byte, counted from the start of the connection.
    pub number: u64,
    /// The SACK blocks in the order of the header. Each block is stored as the number of its first byte and the number
    /// of the byte after its last byte. Unused entries are empty blocks.
    pub sacked: [[u64; 2]; 4],
    /// Whether the packet has the flag ECE (RFC 3168), which echoes a congestion mark.
    pub ece: bool,
    /// Whether the packet has the flag CWR, which reports that the window was reduced.
    pub cwr: bool,
}
