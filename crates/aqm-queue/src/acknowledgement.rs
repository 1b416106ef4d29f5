//! The headers of a TCP acknowledgement, as an ACK filter reads them.

/// The header of a TCP packet with ACK and without SYN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acknowledgement {
    /// Whether the packet carries nothing but the acknowledgement: no data, and no flag except ACK and the ECN flags.
    pub bare: bool,
    /// The next expected byte, counted from the start of the connection.
    pub number: u64,
    /// The SACK blocks in the order of the header, each as its first byte and the byte after its last one. Unused
    /// entries are empty.
    pub sacked: [[u64; 2]; 4],
    /// Whether the packet has the flag ECE (RFC 3168), which echoes a congestion mark.
    pub ece: bool,
    /// Whether the packet has the flag CWR, which reports that the window was reduced.
    pub cwr: bool,
}
