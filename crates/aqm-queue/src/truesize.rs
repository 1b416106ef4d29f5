//! What memory a packet takes while it waits: what `memory_limit` of the kernel's queues counts.
//!
//! Linux 6.1 counts `skb->truesize`: the structure `sk_buff` and the whole buffer it points to, which depends on who
//! made the packet.
//!
//! Ours: each packet lies in one buffer, as most drivers and sockets make it on a 64-bit machine (`__alloc_skb`,
//! `SKB_TRUESIZE`): 64 bytes and 2 of room before it, the packet, 320 bytes of `skb_shared_info` after it, all
//! rounded up to the power of two that `kmalloc` gives, and 256 bytes of `sk_buff`. So 1514 bytes take 2304, and the
//! smallest packets 768.

use aqm_net::Packet;

/// The bytes of memory that `packet` takes.
#[inline]
pub(crate) const fn truesize(packet: &Packet) -> u64 {
    let buffer = 64 + 2 + packet.bytes as u32 + 320;
    (buffer.next_power_of_two() + 256) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_takes_the_memory_that_kernels_are_known_to_count() {
        let of = |bytes| truesize(&Packet { bytes, ..Packet::default() });
        // A bare acknowledgement, a datagram of 1000 B and a full segment.
        assert_eq!([66, 1042, 1514].map(of), [768, 2304, 2304]);
        assert_eq!([1, 126, 127, 638, 639, 65_535].map(of), [768, 768, 1280, 1280, 2304, 131_328]);
    }
}
