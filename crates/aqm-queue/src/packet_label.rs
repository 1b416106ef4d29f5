//! The header fields of a packet, apart from its size, that a classifier may read.
//!
//! A [`Packet`](aqm_net::Packet) contains only the number of its label. The code that creates packets assigns label
//! numbers, starting at 0, and passes the header fields of each label to the disciplines. A classifier therefore needs
//! to compare header fields only once per label.

use aqm_net::choices;

choices! {
    /// The protocol above IP.
    pub enum Protocol {
        /// Transmission Control Protocol (TCP).
        Tcp = "tcp",
        /// User Datagram Protocol (UDP).
        Udp = "udp",
    }
}

/// The header fields that are common to all packets with the same label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The workload to which the packets belong, in either direction; empty if unknown.
    pub traffic: String,
    /// The packets' protocol.
    pub protocol: Protocol,
    /// The destination port of the workload's data; 0 if unknown.
    pub port: u16,
    /// Differentiated-services code point (RFC 2474), 0 to 63.
    pub dscp: u8,
}
