//! The buffer of a discipline with one queue: first in, first out, with a limit. Fair queueing has a slab of
//! its own (`fair/flows.rs`).

use std::collections::VecDeque;

use aqm_net::{Backlog, Length, Packet, choices};

choices! {
    /// Which packets a buffer admits.
    pub enum Admission {
        /// Those that fit: no more than the limit ever waits, and a small packet may find room where a big one
        /// does not.
        WhatFits = "what-fits",
        /// All while no more than the limit waits, as Linux 2.4's `bfifo` and `pfifo`: one packet more than
        /// the limit may wait, and beyond it there is no room for any.
        UntilBeyond = "until-beyond",
    }
}

/// Packets in order of arrival, at most `limit` of them (or of their bytes); beside each an `S`, what a discipline
/// noted when the packet came, such as the moment.
#[derive(Clone, Debug)]
pub struct Fifo<S = ()> {
    waiting: VecDeque<(Packet, S)>,
    bytes: u64,
    limit: Length,
    admission: Admission,
}

impl<S> Fifo<S> {
    /// An empty buffer that admits what fits.
    pub fn new(limit: Length) -> Self {
        Self { waiting: VecDeque::new(), bytes: 0, limit, admission: Admission::WhatFits }
    }

    /// The same with another rule.
    pub(crate) fn admitting(self, admission: Admission) -> Self {
        Self { admission, ..self }
    }

    /// Whether `packet` still fits.
    pub fn has_room_for(&self, packet: &Packet) -> bool {
        let more = match self.admission {
            Admission::WhatFits => Backlog { packets: 1, bytes: packet.bytes.into() },
            Admission::UntilBeyond => Backlog::default(),
        };
        match self.limit {
            Length::Packets(limit) => self.waiting.len() as u64 + more.packets <= limit,
            Length::Bytes(limit) => self.bytes + more.bytes <= limit,
        }
    }

    /// Appends `packet` and what is noted of it; whether it fits is the caller's decision.
    #[inline]
    pub fn push_with(&mut self, packet: Packet, stamp: S) {
        self.bytes += u64::from(packet.bytes);
        self.waiting.push_back((packet, stamp));
    }

    /// Takes the oldest packet and what was noted of it.
    #[inline]
    pub fn pop_with(&mut self) -> Option<(Packet, S)> {
        let oldest = self.waiting.pop_front()?;
        self.bytes -= u64::from(oldest.0.bytes);
        Some(oldest)
    }

    /// The oldest packet and what was noted of it.
    pub fn front(&self) -> Option<&(Packet, S)> {
        self.waiting.front()
    }

    /// What waits.
    pub fn backlog(&self) -> Backlog {
        Backlog { packets: self.waiting.len() as u64, bytes: self.bytes }
    }
}

impl Fifo {
    /// Appends `packet`; whether it fits is the caller's decision.
    pub fn push(&mut self, packet: Packet) {
        self.push_with(packet, ());
    }

    /// Takes the oldest packet.
    pub fn pop(&mut self) -> Option<Packet> {
        self.pop_with().map(|(packet, ())| packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_limit_is_filled_to_the_byte() {
        let mut fifo: Fifo = Fifo::new(Length::Bytes(1000));
        let packet = |bytes| Packet { bytes, ..Packet::default() };
        fifo.push(packet(701));
        assert!(fifo.has_room_for(&packet(299)));
        assert!(!fifo.has_room_for(&packet(300)));
        fifo.pop();
        assert_eq!(fifo.backlog(), Backlog::default());
    }

    #[test]
    fn a_buffer_of_linux_2_4_fills_beyond_its_limit_and_then_admits_nothing() {
        for (limit, most) in [(Length::Bytes(1000), 2), (Length::Packets(1), 2)] {
            let mut fifo: Fifo = Fifo::new(limit).admitting(Admission::UntilBeyond);
            let packet = Packet { bytes: 1000, ..Packet::default() };
            while fifo.has_room_for(&packet) {
                fifo.push(packet);
            }
            assert_eq!(fifo.backlog().packets, most);
            assert!(!fifo.has_room_for(&Packet { bytes: 1, ..packet }));
        }
    }
}
