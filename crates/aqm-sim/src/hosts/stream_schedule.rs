//! The streams of one direction of a connection: the order in which the sender sends their bytes, and the bytes of each
//! stream that have arrived.
//!
//! M. Thomson, C. Benfield, RFC 9113 (HTTP/2), 2022, section 5; J. Iyengar, M. Thomson, RFC 9000 (QUIC), 2021, section 2.
//!
//! K. Oku, L. Pardue, RFC 9218 (priorities of HTTP), 2022, section 10: more urgent streams first.
//!
//! A stream is assigned to each byte of a connection when the byte enters the send buffer, which is between the streams
//! and the connection. By default, the send buffer is empty, so that the stream is assigned when the byte is first sent
//! (aqmlab's choice). A retransmission carries the same bytes of the same streams.

use std::collections::VecDeque;

use aqm_traffic::http::Priority;

/// Number of a stream within its connection.
pub(crate) type StreamNumber = u32;

/// Consecutive bytes of one stream that one packet carries.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Sequence number of the byte after the piece.
    end: u64,
    stream: StreamNumber,
    has_arrived: bool,
}

/// A stream with bytes that have not been sent.
#[derive(Clone, Copy, Debug)]
struct Unsent {
    stream: StreamNumber,
    /// Number of bytes that have not been sent.
    left: u64,
    /// Number of bytes of the current frame that have not been sent.
    frame_left: u64,
    urgency: u8,
}

/// The streams of one direction.
#[derive(Clone, Debug)]
pub(crate) struct StreamSchedule {
    priority: Priority,
    /// Number of bytes of a frame. With [`Priority::RoundRobin`], streams take turns after the packet that completes a
    /// frame.
    frame: u64,
    /// Number of bytes in the send buffer.
    buffer: u64,
    /// Streams with bytes that have not been sent. The next stream is first. More urgent streams precede less urgent
    /// streams.
    unsent: VecDeque<Unsent>,
    /// Number of bytes that have not arrived, by stream.
    missing: Vec<u64>,
    /// Pieces from the first piece that has not arrived to the newest piece.
    pieces: VecDeque<Piece>,
    /// Sequence number of the first byte of the first piece.
    begin: u64,
    /// Sequence number after the last byte to which a stream is assigned.
    assigned: u64,
}

impl StreamSchedule {
    /// Returns a schedule without streams. The frames and the send buffer have the given numbers of bytes. A send buffer
    /// requires that bytes arrive in order.
    pub(crate) fn new(priority: Priority, frame: u64, buffer: u64) -> Self {
        Self {
            priority,
            frame,
            buffer,
            unsent: VecDeque::new(),
            missing: Vec::new(),
            pieces: VecDeque::new(),
            begin: 0,
            assigned: 0,
        }
    }

    /// Adds the stream with this number, which has `bytes` bytes. The stream is sent after the streams of the same
    /// urgency, and before less urgent streams (higher numbers). A frame in progress is completed first.
    pub(crate) fn write(&mut self, stream: StreamNumber, bytes: u64, urgency: u8) {
        let is_in_frame = self.unsent.front().is_some_and(|one| one.frame_left < self.frame);
        let position = self.turn_after(urgency).max(usize::from(is_in_frame));
        self.unsent.insert(position, Unsent { stream, left: bytes, frame_left: self.frame, urgency });
        if self.missing.len() <= stream as usize {
            self.missing.resize(stream as usize + 1, 0);
        }
        self.missing[stream as usize] = bytes;
    }

    /// Returns the position after the streams of this urgency.
    fn turn_after(&self, urgency: u8) -> usize {
        self.unsent.partition_point(|one| one.urgency <= urgency)
    }

    /// Refills the send buffer after the bytes below `end` were sent for the first time, all in one packet.
    pub(crate) fn on_sent(&mut self, end: u64) {
        let end = end + self.buffer;
        while self.assigned < end {
            let Some(next) = self.unsent.front_mut() else { return };
            let bytes = next.left.min(end - self.assigned);
            next.left -= bytes;
            next.frame_left = next.frame_left.saturating_sub(bytes);
            let frame_is_complete = next.frame_left == 0;
            if frame_is_complete {
                next.frame_left = self.frame;
            }
            let next = *next;
            self.assigned += bytes;
            self.pieces.push_back(Piece { end: self.assigned, stream: next.stream, has_arrived: false });
            let is_next_turn = frame_is_complete && self.priority == Priority::RoundRobin;
            if next.left == 0 || is_next_turn {
                self.unsent.pop_front();
            }
            if next.left > 0 && is_next_turn {
                let position = self.turn_after(next.urgency);
                self.unsent.insert(position, next);
            }
        }
    }

    /// Records the arrival of the bytes `[from, to)`. Calls `arrived` with each stream to which any of the bytes belongs
    /// and that was incomplete, and with the number of bytes that are still missing. A piece arrives as a whole, with its
    /// last byte.
    pub(crate) fn on_arrived(&mut self, from: u64, to: u64, mut arrived: impl FnMut(StreamNumber, u64)) {
        let first = self.pieces.partition_point(|piece| piece.end <= from);
        let mut begin = if first == 0 { self.begin } else { self.pieces[first - 1].end };
        for piece in self.pieces.range_mut(first..) {
            if piece.end > to {
                break;
            }
            let bytes = piece.end - std::mem::replace(&mut begin, piece.end);
            if !std::mem::replace(&mut piece.has_arrived, true) {
                let missing = &mut self.missing[piece.stream as usize];
                *missing -= bytes;
                arrived(piece.stream, *missing);
            }
        }
        while let Some(piece) = self.pieces.front().filter(|piece| piece.has_arrived) {
            self.begin = piece.end;
            self.pieces.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(priority: Priority, sizes: &[u64]) -> StreamSchedule {
        schedule_in_frames(priority, 1, sizes)
    }

    fn schedule_in_frames(priority: Priority, frame: u64, sizes: &[u64]) -> StreamSchedule {
        let mut schedule = StreamSchedule::new(priority, frame, 0);
        for (stream, &bytes) in (0..).zip(sizes) {
            schedule.write(stream, bytes, 3);
        }
        schedule
    }

    /// Sends packets of 100 bytes. Returns the stream and the length of each piece.
    fn send(schedule: &mut StreamSchedule, bytes: u64) -> Vec<(u32, u64)> {
        (0..bytes).step_by(100).for_each(|seq| schedule.on_sent((seq + 100).min(bytes)));
        let mut begin = schedule.begin;
        let length = |piece: &Piece| (piece.stream, piece.end - std::mem::replace(&mut begin, piece.end));
        schedule.pieces.iter().map(length).collect()
    }

    /// Returns the streams that complete with the arrival of the bytes.
    fn complete(schedule: &mut StreamSchedule, from: u64, to: u64) -> Vec<u32> {
        let mut complete = Vec::new();
        schedule.on_arrived(from, to, |stream, missing| complete.extend((missing == 0).then_some(stream)));
        complete
    }

    #[test]
    fn streams_are_sent_in_order_or_in_turn() {
        let mut in_order = schedule(Priority::InOrder, &[150, 100, 50]);
        assert_eq!(send(&mut in_order, 300), [(0, 100), (0, 50), (1, 50), (1, 50), (2, 50)]);
        let mut in_turn = schedule(Priority::RoundRobin, &[250, 100, 150]);
        let pieces = [(0, 100), (1, 100), (2, 100), (0, 100), (2, 50), (0, 50)];
        assert_eq!(send(&mut in_turn, 500), pieces);
    }

    #[test]
    fn a_stream_keeps_its_turn_until_its_frame_is_complete() {
        let mut streams = schedule_in_frames(Priority::RoundRobin, 250, &[700, 100]);
        streams.on_sent(100);
        streams.write(2, 100, 1);
        let pieces: Vec<_> = send(&mut streams, 900).iter().map(|piece| piece.0).collect();
        // Packets have 100 bytes, so that a frame takes three packets.
        assert_eq!(pieces, [0, 0, 0, 2, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn a_new_stream_waits_behind_the_send_buffer() {
        let mut streams = StreamSchedule::new(Priority::RoundRobin, 1, 250);
        streams.write(0, 1000, 3);
        streams.on_sent(100);
        streams.write(1, 50, 3);
        (200..=500).step_by(100).for_each(|end| streams.on_sent(end));
        // 350 bytes were sent or in the buffer when stream 1 was written, and the next 100 bytes follow in turn.
        assert!(complete(&mut streams, 0, 400).is_empty());
        assert_eq!(complete(&mut streams, 400, 500), [1]);
    }

    #[test]
    fn a_stream_is_complete_when_all_of_its_bytes_have_arrived_in_any_order() {
        let mut streams = schedule(Priority::InOrder, &[200, 200, 100]);
        send(&mut streams, 500);
        assert!(complete(&mut streams, 100, 200).is_empty());
        assert_eq!(complete(&mut streams, 200, 400), [1], "packet 0 is lost");
        assert!(complete(&mut streams, 300, 400).is_empty(), "a second copy");
        assert_eq!(complete(&mut streams, 0, 100), [0]);
        assert_eq!(complete(&mut streams, 400, 500), [2]);
        assert!(streams.pieces.is_empty() && streams.begin == 500);
    }

    #[test]
    fn a_stream_may_be_written_while_others_are_sent() {
        let mut streams = schedule(Priority::InOrder, &[100]);
        send(&mut streams, 100);
        streams.write(1, 30, 3);
        streams.on_sent(130);
        assert_eq!(complete(&mut streams, 0, 130), [0, 1]);
    }

    #[test]
    fn a_more_urgent_stream_precedes_the_streams_in_progress() {
        for (priority, expected) in [
            (Priority::InOrder, [(0, 100), (2, 100), (2, 100), (0, 100), (1, 100)]),
            (Priority::RoundRobin, [(0, 100), (2, 100), (2, 100), (1, 100), (0, 100)]),
        ] {
            let mut streams = schedule(priority, &[200, 100]);
            streams.on_sent(100);
            streams.write(2, 200, 1);
            (200..=500).step_by(100).for_each(|end| streams.on_sent(end));
            let pieces: Vec<_> = streams.pieces.iter().map(|piece| (piece.stream, piece.end)).collect();
            let ends = (1..).map(|number| number * 100);
            let expected: Vec<_> = expected.iter().map(|piece| piece.0).zip(ends).collect();
            assert_eq!(pieces, expected);
        }
    }
}
