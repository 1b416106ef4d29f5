//! The bytes of the packets that are under way, by the number that the emulation gave them.

/// The largest packet that a host may send, in bytes: the MTU of every device.
pub const MTU: usize = 1500;

/// Packets for which memory is taken at once.
const CHUNK: usize = 256;

struct Slot {
    length: u16,
    bytes: [u8; MTU],
}

/// Packets by number. Numbers are small, because they are used again.
#[derive(Default)]
pub struct Buffers {
    chunks: Vec<Box<[Slot]>>,
}

impl Buffers {
    /// Room for so many packets, so that no memory is asked for later.
    pub fn with_room(packets: usize) -> Self {
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

    /// Keeps a packet of at most [`MTU`] bytes; more are cut off.
    pub fn put(&mut self, id: u32, packet: &[u8]) {
        let (chunk, place) = (id as usize / CHUNK, id as usize % CHUNK);
        while self.chunks.len() <= chunk {
            self.grow();
        }
        let slot = &mut self.chunks[chunk][place];
        let length = packet.len().min(MTU);
        slot.length = length as u16;
        slot.bytes[..length].copy_from_slice(&packet[..length]);
    }

    /// A packet that was put.
    pub fn get_mut(&mut self, id: u32) -> &mut [u8] {
        let slot = &mut self.chunks[id as usize / CHUNK][id as usize % CHUNK];
        &mut slot.bytes[..slot.length.into()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_what_was_put_last_under_its_number() {
        let mut buffers = Buffers::with_room(10);
        let room = buffers.chunks.len();
        for (id, packet) in [(0, &[1, 2][..]), (1000, &[3][..]), (0, &[4, 5, 6][..])] {
            buffers.put(id, packet);
        }
        assert_eq!((room, buffers.chunks.len()), (1, 4));
        assert_eq!(buffers.get_mut(0), &[4, 5, 6]);
        assert_eq!(buffers.get_mut(1000), &[3]);
        buffers.put(7, &[9; 2000]);
        assert_eq!(buffers.get_mut(7).len(), MTU);
    }
}
