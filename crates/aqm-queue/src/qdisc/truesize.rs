//! Computes the memory that Linux counts for a queued packet (`skb->truesize`). Several Linux queue disciplines limit
//! this memory.
//!
//! Linux 6.1, `__alloc_skb`: the data with 64 bytes of headroom (`NET_SKB_PAD`), rounded up to whole cache lines, plus
//! 320 bytes of metadata (`skb_shared_info`), are allocated in a block whose size is a power of two. The packet
//! descriptor (`sk_buff`) takes another 256 bytes. A full Ethernet frame therefore counts as 2304 bytes, and the
//! smallest frame as 768 bytes.
//!
//! aqmlab's choice: the result is the memory that is used by a packet that has been copied into a separate buffer. With
//! real network drivers, a packet may use a different amount of memory, because some drivers share memory pages between
//! packets.

/// Returns the number of bytes of memory that are counted for a packet of this size.
pub(crate) const fn truesize(bytes: u16) -> u64 {
    let data = ((bytes as u64 + 64 + 63) & !63) + 320;
    // The block size is the next power of two, and is greater than 1.
    (2 << (data - 1).ilog2()) + 256
}

#[cfg(test)]
mod tests {
    use super::truesize;

    #[test]
    fn a_frame_counts_as_the_next_power_of_two() {
        assert_eq!([64, 1514, 1664, 1665, 9014].map(truesize), [768, 2304, 2304, 4352, 16_640]);
    }
}
