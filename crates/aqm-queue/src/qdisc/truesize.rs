//! The memory that Linux counts for a queued packet (`skb->truesize`), which several of its disciplines limit.
//!
//! Linux 6.1, `__alloc_skb`: the data with 64 bytes of headroom (`NET_SKB_PAD`), rounded up to whole cache lines, and
//! 320 bytes of metadata (`skb_shared_info`) are allocated from pools with sizes that are powers of two. The packet
//! descriptor (`sk_buff`) takes 256 bytes. A full Ethernet frame counts as 2304 bytes, the smallest frame as 768.
//!
//! aqmlab's choice: drivers differ and share memory pages; this is the size of a packet that is copied into memory of
//! its own.

/// The memory of a packet of this size.
pub(crate) const fn truesize(bytes: u16) -> u64 {
    let data = ((bytes as u64 + 64 + 63) & !63) + 320;
    // The next power of two, which is above 1.
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
