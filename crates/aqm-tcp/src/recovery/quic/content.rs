//! The content of QUIC packets: which part of the data each packet carries, which parts have arrived, and which parts
//! must be sent again.
//!
//! J. Iyengar, M. Thomson, "QUIC: A UDP-Based Multiplexed and Secure Transport", RFC 9000, 2021, section 13.3
//! (retransmission of information).
//!
//! aqmlab's choices where the source is silent: data is sent again in pieces of the same size. Data of a lost packet is
//! not sent again while a later copy of the data, which a probe carried, is in the network. Data that was lost is sent
//! before new data, in the order in which the losses were detected.

use std::collections::VecDeque;

/// Number of a piece of data, which is equal to the number of pieces that were first sent before this piece.
pub(super) type PieceNumber = u64;

/// A piece of data that one packet carries.
#[derive(Clone, Copy, Debug)]
struct Piece {
    seq: u64,
    len: u32,
    /// Packet that carried the piece last.
    packet: u64,
    has_arrived: bool,
    /// Whether the piece waits to be sent again.
    is_waiting: bool,
}

/// All pieces from the first piece that has not arrived to the newest piece.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pieces: VecDeque<Piece>,
    first: PieceNumber,
    /// Sequence number below which all data has arrived.
    una: u64,
    /// Sequence number that follows all sent data.
    end: u64,
    /// Pieces that wait to be sent again. Some of these pieces may have arrived in the meantime.
    waiting: VecDeque<PieceNumber>,
}

impl Content {
    /// Returns the sequence number below which all data has arrived.
    pub fn una(&self) -> u64 {
        self.una
    }

    /// Returns the sequence number that follows all sent data.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns whether all sent data has arrived.
    pub fn is_complete(&self) -> bool {
        self.una == self.end
    }

    /// Returns whether any piece waits to be sent again.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Adds a new piece of `len` bytes, which `packet` carries. Returns the number and the sequence number of the piece.
    pub fn add(&mut self, len: u64, packet: u64) -> (PieceNumber, u64) {
        let seq = self.end;
        self.pieces.push_back(Piece { seq, len: len as u32, packet, has_arrived: false, is_waiting: false });
        self.end += len;
        (self.first + self.pieces.len() as u64 - 1, seq)
    }

    /// Removes the first waiting piece, which `packet` carries now. Returns its number, sequence number and length.
    pub fn resend(&mut self, packet: u64) -> Option<(PieceNumber, u64, u64)> {
        let number = self.waiting.pop_front()?;
        self.refresh_waiting();
        self.copy(number, packet)
    }

    /// Returns the number, sequence number and length of the oldest piece that has not arrived. `packet` carries a copy
    /// of this piece.
    pub fn probe(&mut self, packet: u64, skipped: usize) -> Option<(PieceNumber, u64, u64)> {
        let missing = self.pieces.iter().enumerate().filter(|(_, piece)| !piece.has_arrived);
        let index = missing.map(|(index, _)| index).nth(skipped)?;
        self.copy(self.first + index as u64, packet)
    }

    fn copy(&mut self, number: PieceNumber, packet: u64) -> Option<(PieceNumber, u64, u64)> {
        let piece = self.pieces.get_mut(number.checked_sub(self.first)? as usize)?;
        (piece.packet, piece.is_waiting) = (packet, false);
        Some((number, piece.seq, piece.len.into()))
    }

    /// Records that a packet that carried the piece has arrived. Returns by how much `una` advances.
    pub fn on_arrived(&mut self, number: PieceNumber) -> u64 {
        let Some(index) = number.checked_sub(self.first) else { return 0 };
        if let Some(piece) = self.pieces.get_mut(index as usize) {
            piece.has_arrived = true;
        }
        let before = self.una;
        while let Some(piece) = self.pieces.front().filter(|piece| piece.has_arrived) {
            self.una = piece.seq + u64::from(piece.len);
            self.pieces.pop_front();
            self.first += 1;
        }
        self.refresh_waiting();
        self.una - before
    }

    /// Records that the packet `packet`, which carried the piece, is lost.
    pub fn on_lost(&mut self, number: PieceNumber, packet: u64) {
        let Some(index) = number.checked_sub(self.first) else { return };
        let Some(piece) = self.pieces.get_mut(index as usize) else { return };
        if !piece.has_arrived && !piece.is_waiting && piece.packet == packet {
            piece.is_waiting = true;
            self.waiting.push_back(number);
        }
    }

    /// Removes pieces that have arrived from the front of `waiting`.
    fn refresh_waiting(&mut self) {
        while let Some(&number) = self.waiting.front() {
            let index = number.checked_sub(self.first);
            let piece = index.and_then(|index| self.pieces.get(index as usize));
            if piece.is_some_and(|piece| !piece.has_arrived && piece.is_waiting) {
                return;
            }
            self.waiting.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_below_the_first_missing_piece_has_arrived() {
        let mut content = Content::default();
        for packet in 0..4 {
            assert_eq!(content.add(100, packet), (packet, 100 * packet));
        }
        assert_eq!([2, 1, 0, 3].map(|number| content.on_arrived(number)), [0, 0, 300, 100]);
        assert!(content.is_complete() && content.end() == 400);
        assert_eq!(content.on_arrived(1), 0, "a second copy changes nothing");
    }

    #[test]
    fn lost_pieces_are_sent_again_in_the_order_of_their_losses() {
        let mut content = Content::default();
        for packet in 0..4 {
            content.add(100, packet);
        }
        for packet in [2, 0, 2, 3] {
            content.on_lost(packet, packet);
        }
        content.on_arrived(0);
        assert_eq!(content.resend(4), Some((2, 200, 100)));
        assert_eq!(content.resend(5), Some((3, 300, 100)), "piece 0 has arrived");
        assert!(!content.has_waiting() && content.resend(6).is_none());
    }

    #[test]
    fn a_lost_piece_is_not_sent_again_while_a_later_copy_is_in_the_network() {
        let mut content = Content::default();
        content.add(100, 0);
        content.add(100, 1);
        assert_eq!(content.probe(2, 0), Some((0, 0, 100)));
        assert_eq!(content.probe(3, 1), Some((1, 100, 100)));
        content.on_lost(0, 0);
        assert!(!content.has_waiting());
        content.on_lost(0, 2);
        assert_eq!(content.resend(4), Some((0, 0, 100)));
    }
}
