//! The headers of a packet, apart from its size, that a classifier may read.
//!
//! A [`Packet`](aqm_net::Packet) carries only the number of its label. The creator of packets assigns the numbers,
//! starting at 0, and announces the meaning of each number to the disciplines, so that a classifier compares headers
//! only once per label.

use aqm_net::choices;

choices! {
    /// The protocol above IP.
    pub enum Protocol {
        /// TCP.
        Tcp = "tcp",
        /// UDP: datagrams.
        Udp = "udp",
    }
}

/// The headers common to all packets with one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The workload to which the packets belong, in either direction; empty if unknown.
    pub traffic: String,
    /// The packets' protocol.
    pub protocol: Protocol,
    /// The destination port of the data; 0 if unknown.
    pub port: u16,
    /// Differentiated-services code point (RFC 2474), 0 to 63.
    pub dscp: u8,
}
