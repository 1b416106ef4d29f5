//! What the headers of a packet say beside its size: what a classifier may look at.
//!
//! A [`Packet`](aqm_net::Packet) carries the number of its label only. Whoever makes packets gives the
//! numbers, from 0, and tells disciplines what they mean; so a classifier compares headers once for each label.

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

/// What packets of one kind have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The workload that they belong to, in either direction; empty if that is not known.
    pub traffic: String,
    /// Their protocol.
    pub protocol: Protocol,
    /// The port where their data goes; 0 if that is not known.
    pub port: u16,
    /// Differentiated-services code point (RFC 2474), 0 to 63.
    pub dscp: u8,
}
