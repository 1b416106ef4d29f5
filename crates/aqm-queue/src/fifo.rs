//! The buffer of a discipline with one queue: a first-in, first-out queue with a limit. Fair queueing stores packets in
//! `fair/flows.rs` instead.

use std::collections::VecDeque;

use aqm_net::{Backlog, Length, Packet, choices};

choices! {
    /// The rule by which a buffer admits packets.
    pub enum Admission {
        /// A packet is admitted if the backlog including this packet does not exceed the limit. A small packet may
        /// therefore be admitted in a situation in which a large packet is not.
        WhatFits = "what-fits",
        /// A packet is admitted if the backlog before its arrival does not exceed the limit, as in `bfifo` and `pfifo`
        /// of Linux 2.4. The backlog may therefore exceed the limit by one packet, in which case no further packet is
        /// admitted.
        UntilBeyond = "until-beyond",
    }
}

/// A queue of packets in order of arrival, with at most `limit` packets or bytes. Each packet has a stamp of type `S`,
/// for example its arrival time.
#[derive(Clone, Debug)]
pub struct Fifo<S = ()> {
    waiting: VecDeque<(Packet, S)>,
    bytes: u64,
    limit: Length,
    admission: Admission,
}

impl<S> Fifo<S> {
    /// Creates an empty buffer that admits a packet if the backlog including this packet does not exceed `limit`.
    pub fn new(limit: Length) -> Self {
        Self { waiting: VecDeque::new(), bytes: 0, limit, admission: Admission::WhatFits }
    }

    /// Returns this buffer with the admission rule replaced.
    pub(crate) fn with_admission(self, admission: Admission) -> Self {
        Self { admission, ..self }
    }

    /// Returns whether `packet` would be admitted.
    pub fn has_room_for(&self, packet: &Packet) -> bool {
        let added = match self.admission {
            Admission::WhatFits => Backlog { packets: 1, bytes: packet.bytes.into() },
            Admission::UntilBeyond => Backlog::default(),
        };
        match self.limit {
            Length::Packets(limit) => self.waiting.len() as u64 + added.packets <= limit,
            Length::Bytes(limit) => self.bytes + added.bytes <= limit,
        }
    }

    /// Appends `packet` and its stamp. The caller must have checked that the buffer has room for the packet.
    #[inline]
    pub fn push_with(&mut self, packet: Packet, stamp: S) {
        self.bytes += u64::from(packet.bytes);
        self.waiting.push_back((packet, stamp));
    }

    /// Removes the oldest packet and returns it with its stamp.
    #[inline]
    pub fn pop_with(&mut self) -> Option<(Packet, S)> {
        let oldest = self.waiting.pop_front()?;
        self.bytes -= u64::from(oldest.0.bytes);
        Some(oldest)
    }

    /// Returns the oldest packet and its stamp, or `None` if the buffer is empty.
    pub fn front(&self) -> Option<&(Packet, S)> {
        self.waiting.front()
    }

    /// Returns the backlog, in packets and bytes.
    pub fn backlog(&self) -> Backlog {
        Backlog { packets: self.waiting.len() as u64, bytes: self.bytes }
    }
}

impl Fifo {
    /// Appends `packet`. The caller must have checked that the buffer has room for the packet.
    pub fn push(&mut self, packet: Packet) {
        self.push_with(packet, ());
    }

    /// Removes and returns the oldest packet. Returns `None` if the buffer is empty.
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
            let mut fifo: Fifo = Fifo::new(limit).with_admission(Admission::UntilBeyond);
            let packet = Packet { bytes: 1000, ..Packet::default() };
            while fifo.has_room_for(&packet) {
                fifo.push(packet);
            }
            assert_eq!(fifo.backlog().packets, most);
            assert!(!fifo.has_room_for(&Packet { bytes: 1, ..packet }));
        }
    }
}
