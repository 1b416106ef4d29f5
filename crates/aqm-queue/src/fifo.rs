//! The buffer every discipline is built on: first in, first out, with a limit.

use std::collections::VecDeque;

use aqm_net::{Backlog, Length, Packet};

/// Packets in order of arrival, at most `limit` of them (or of their bytes).
#[derive(Clone, Debug)]
pub struct Fifo {
    waiting: VecDeque<Packet>,
    bytes: u64,
    limit: Length,
}

impl Fifo {
    /// An empty buffer.
    pub fn new(limit: Length) -> Self {
        Self { waiting: VecDeque::new(), bytes: 0, limit }
    }

    /// Whether `packet` still fits.
    pub fn has_room_for(&self, packet: &Packet) -> bool {
        match self.limit {
            Length::Packets(limit) => (self.waiting.len() as u64) < limit,
            Length::Bytes(limit) => self.bytes + u64::from(packet.bytes) <= limit,
        }
    }

    /// Appends `packet`; whether it fits is the caller's decision.
    pub fn push(&mut self, packet: Packet) {
        self.bytes += u64::from(packet.bytes);
        self.waiting.push_back(packet);
    }

    /// Takes the oldest packet.
    pub fn pop(&mut self) -> Option<Packet> {
        let packet = self.waiting.pop_front()?;
        self.bytes -= u64::from(packet.bytes);
        Some(packet)
    }

    /// What waits.
    pub fn backlog(&self) -> Backlog {
        Backlog { packets: self.waiting.len() as u64, bytes: self.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_limit_is_filled_to_the_byte() {
        let mut fifo = Fifo::new(Length::Bytes(1000));
        let packet = |bytes| Packet { bytes, ..Packet::default() };
        fifo.push(packet(701));
        assert!(fifo.has_room_for(&packet(299)));
        assert!(!fifo.has_room_for(&packet(300)));
        fifo.pop();
        assert_eq!(fifo.backlog(), Backlog::default());
    }
}
