//! How much memory Linux counts for a packet that waits (`skb->truesize`), which several of its disciplines limit.
//!
//! Linux 6.1, `__alloc_skb`: the data with 64 bytes of headroom (`NET_SKB_PAD`), in whole cache lines, and 320 bytes
//! that describe it (`skb_shared_info`) come from a pool of powers of two; the packet itself (`sk_buff`) takes 256.
//! A full Ethernet frame counts 2304 bytes, the smallest 768.
//!
//! Ours: drivers differ, and share pages; this is the packet that is copied into memory of its own.

/// The memory of a packet of so many bytes.
pub(crate) const fn truesize(bytes: u16) -> u64 {
    let data = ((bytes as u64 + 64 + 63) & !63) + 320;
    // The power of two that is not less, which is above 1.
    (2 << (data - 1).ilog2()) + 256
}

#[cfg(test)]
mod tests {
    use super::truesize;

    #[test]
    fn a_frame_counts_as_the_power_of_two_that_it_fits_into() {
        assert_eq!([64, 1514, 1664, 1665, 9014].map(truesize), [768, 2304, 2304, 4352, 16_640]);
    }
}
