//! Buffers for the bytes of packets in transit, indexed by the packet number that the emulation assigned.

/// The MTU of every device, in bytes, which is the maximum length of packets from hosts.
pub const MTU: usize = 1500;

/// Number of packets for which memory is allocated at once.
const CHUNK: usize = 256;

struct Slot {
    length: u16,
    bytes: [u8; MTU],
}

/// The bytes of packets, indexed by packet number. Packet numbers remain small, because the emulation reuses them.
#[derive(Default)]
pub struct Buffers {
    chunks: Vec<Box<[Slot]>>,
}

impl Buffers {
    /// Creates buffers and allocates memory for this number of packets. No further memory is allocated unless more
    /// packets are in transit at the same time.
    pub fn with_capacity(packets: usize) -> Self {
        let mut buffers = Self::default();
        while buffers.chunks.len() * CHUNK < packets {
            buffers.grow();
        }
        buffers
    }

    fn grow(&mut self) {
        let empty = || Slot { length: 0, bytes: [0; MTU] };
        self.chunks.push(std::iter::repeat_with(empty).take(CHUNK).collect());
    }

    /// Stores a packet of at most [`MTU`] bytes; a longer packet is truncated.
    pub fn put(&mut self, id: u32, packet: &[u8]) {
        let (chunk, slot) = (id as usize / CHUNK, id as usize % CHUNK);
        while self.chunks.len() <= chunk {
            self.grow();
        }
        let slot = &mut self.chunks[chunk][slot];
        let length = packet.len().min(MTU);
        slot.length = length as u16;
        slot.bytes[..length].copy_from_slice(&packet[..length]);
    }

    /// Returns a stored packet.
    pub fn get_mut(&mut self, id: u32) -> &mut [u8] {
        let slot = &mut self.chunks[id as usize / CHUNK][id as usize % CHUNK];
        &mut slot.bytes[..slot.length.into()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_the_last_one_stored_under_its_number() {
        let mut buffers = Buffers::with_capacity(10);
        let chunks = buffers.chunks.len();
        for (id, packet) in [(0, &[1, 2][..]), (1000, &[3][..]), (0, &[4, 5, 6][..])] {
            buffers.put(id, packet);
        }
        assert_eq!((chunks, buffers.chunks.len()), (1, 4));
        assert_eq!(buffers.get_mut(0), &[4, 5, 6]);
        assert_eq!(buffers.get_mut(1000), &[3]);
        buffers.put(7, &[9; 2000]);
        assert_eq!(buffers.get_mut(7).len(), MTU);
    }
}
