//! The device through which smoltcp exchanges IP packets. The contents of a datagram are a TCP segment: the path adds the
//! IP header and 8 bytes more.

use std::collections::VecDeque;

use aqm_net::Ecn;
use smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use smoltcp::wire::{IPV4_HEADER_LEN, IpProtocol, Ipv4Address, Ipv4Packet, Ipv4Repr};

use aqm_guest::Payload;

/// Length of the longest IP packet. On the path, the packet has 1500 bytes, because the path adds 28 bytes to the TCP
/// segment.
const MTU: usize = 1492;

/// Hops that a packet may take, of which the path takes none: smoltcp's default.
const HOPS: u8 = 64;

/// The packets on the way to smoltcp and from smoltcp.
pub struct Wire {
    local: Ipv4Address,
    remote: Ipv4Address,
    received: VecDeque<Vec<u8>>,
    /// The datagrams that smoltcp sends.
    pub sent: Vec<Payload>,
}

impl Wire {
    /// Creates the device of the host with the address `local`, which receives packets from `remote`.
    pub fn new(local: Ipv4Address, remote: Ipv4Address) -> Self {
        Self { local, remote, received: VecDeque::new(), sent: Vec::new() }
    }

    /// Passes a TCP segment to smoltcp, with the IP header that the sender removed.
    pub fn receive(&mut self, segment: &[u8]) {
        let header = Ipv4Repr {
            src_addr: self.remote,
            dst_addr: self.local,
            next_header: IpProtocol::Tcp,
            payload_len: segment.len(),
            hop_limit: HOPS,
        };
        let mut packet = vec![0; IPV4_HEADER_LEN + segment.len()];
        packet[IPV4_HEADER_LEN..].copy_from_slice(segment);
        header.emit(&mut Ipv4Packet::new_unchecked(&mut packet), &ChecksumCapabilities::default());
        self.received.push_back(packet);
    }
}

impl Device for Wire {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sender<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sender<'_>)> {
        let packet = self.received.pop_front()?;
        Some((Received(packet), Sender(&mut self.sent)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sender<'_>> {
        Some(Sender(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = MTU;
        capabilities
    }
}

/// A packet that smoltcp receives.
pub struct Received(Vec<u8>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

/// A packet that smoltcp may send.
pub struct Sender<'a>(&'a mut Vec<Payload>);

impl TxToken for Sender<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        let mut packet = vec![0; length];
        let result = write(&mut packet);
        // smoltcp writes IP headers without options.
        let data = packet.split_off(IPV4_HEADER_LEN);
        self.0.push(Payload { flow: 0, ecn: Ecn::NotEct, data });
        result
    }
}

#[cfg(test)]
mod tests {
    use smoltcp::wire::Ipv4Packet;

    use super::*;

    #[test]
    fn a_received_packet_has_the_header_that_the_sender_removed() {
        let (local, remote) = (Ipv4Address::new(10, 0, 0, 1), Ipv4Address::new(10, 0, 0, 2));
        let segment = [7; 100];
        let mut sender = Wire::new(remote, local);
        let header = Ipv4Repr {
            src_addr: remote,
            dst_addr: local,
            next_header: IpProtocol::Tcp,
            payload_len: segment.len(),
            hop_limit: HOPS,
        };
        let sent = sender.transmit(Instant::ZERO).expect("a token").consume(120, |packet| {
            packet[IPV4_HEADER_LEN..].copy_from_slice(&segment);
            header.emit(&mut Ipv4Packet::new_unchecked(&mut *packet), &ChecksumCapabilities::default());
            packet.to_vec()
        });
        assert_eq!(sender.sent[0].data, segment);
        let mut receiver = Wire::new(local, remote);
        receiver.receive(&sender.sent[0].data);
        let (packet, _) = Device::receive(&mut receiver, Instant::ZERO).expect("a packet");
        assert_eq!(packet.consume(<[u8]>::to_vec), sent);
    }
}
