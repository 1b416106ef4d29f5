//! The end that gets data: puts it in order and acknowledges it.
//!
//! W. Eddy, RFC 9293, 2022, section 3.10.7.4; M. Allman, V. Paxson, E. Blanton, RFC 5681, 2009,
//! section 4.2 (when an acknowledgement may wait; at once if data is out of order or fills a gap).
//!
//! Ours, where the sources are silent: acknowledgements that became due before the end was asked
//! merge into one; the application takes data at once, so the window stays open.

use std::sync::Arc;

use aqm_net::Instant;

use crate::profile::DelayedAck;
use crate::segment::{Flags, Segment};
use crate::settings::Tcp;

/// The receiving end of a connection.
#[derive(Debug)]
pub struct Receiver {
    tcp: Arc<Tcp>,
    /// Everything below has arrived (`RCV.NXT`).
    expected: u64,
    /// What has arrived beyond: `[from, to)`, ascending, with gaps between.
    beyond: Vec<(u64, u64)>,
    /// What the application sent, if it ends.
    size: u64,
    /// Where the FIN stands, `NO_FIN` if it has not arrived.
    fin_at: u64,
    /// When a delayed acknowledgement leaves.
    timer: Instant,
    due: Due,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Nothing,
    Ack,
    SynAck,
}

const NO_FIN: u64 = u64::MAX;

impl Receiver {
    pub(crate) fn new(tcp: Arc<Tcp>, bytes: Option<u64>) -> Self {
        Self {
            tcp,
            expected: 0,
            beyond: Vec::new(),
            size: bytes.unwrap_or(u64::MAX),
            fin_at: NO_FIN,
            timer: Instant::NEVER,
            due: Due::Nothing,
        }
    }

    /// A segment arrived.
    pub fn on_segment(&mut self, segment: &Segment, now: Instant) {
        if segment.flags.has(Flags::SYN) {
            self.due = Due::SynAck;
            return;
        }
        let end = segment.seq + u64::from(segment.len);
        let fin = segment.flags.has(Flags::FIN);
        if fin {
            self.fin_at = end;
        }
        if segment.seq == self.expected && self.beyond.is_empty() && segment.len > 0 {
            self.expected = end;
            let may_wait = self.tcp.config.delayed_ack == DelayedAck::EverySecond && !fin;
            if may_wait && self.timer == Instant::NEVER && self.due == Due::Nothing {
                self.timer = now + self.tcp.config.delayed_ack_timer;
                return;
            }
        } else if segment.len > 0 {
            self.store(segment.seq, end);
        } else if !fin {
            return;
        }
        self.acknowledge();
    }

    /// Time has passed; a delayed acknowledgement may be due.
    pub fn on_timer(&mut self, now: Instant) {
        if now >= self.timer {
            self.acknowledge();
        }
    }

    /// The next segment to send; ask until there is none.
    #[inline]
    pub fn poll_transmit(&mut self, _now: Instant) -> Option<Segment> {
        let mut flags = match self.due {
            Due::Nothing => return None,
            Due::Ack => Flags::ACK,
            Due::SynAck => Flags::SYN.and(Flags::ACK),
        };
        if self.due == Due::Ack && self.expected >= self.fin_at {
            flags = flags.and(Flags::FIN);
        }
        self.due = Due::Nothing;
        let wire = self.tcp.config.ack_size.bytes() as u16;
        Some(Segment { seq: 0, ack: self.expected, len: 0, wire, flags })
    }

    /// When `on_timer` wants to be called next.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        (self.timer != Instant::NEVER).then_some(self.timer)
    }

    /// Payload bytes that arrived in order, each counted once and padding not at all.
    pub fn delivered(&self) -> u64 {
        self.expected.min(self.size)
    }

    /// Whether all of a transfer has arrived; never for data without end.
    pub fn is_complete(&self) -> bool {
        self.expected >= self.size
    }

    fn acknowledge(&mut self) {
        self.timer = Instant::NEVER;
        if self.due == Due::Nothing {
            self.due = Due::Ack;
        }
    }

    /// Takes in data that is not simply the next.
    fn store(&mut self, from: u64, to: u64) {
        if to <= self.expected {
            return;
        }
        match self.beyond.last_mut() {
            // Nearly always the newest data continues the newest range or opens one behind it.
            Some(last) if from == last.1 => last.1 = to,
            Some(last) if from > last.1 => self.beyond.push((from, to)),
            None if from > self.expected => self.beyond.push((from, to)),
            _ => self.insert(from, to),
        }
        let filled = self.beyond.iter().take_while(|range| range.0 <= self.expected).count();
        for range in self.beyond.drain(..filled) {
            self.expected = self.expected.max(range.1);
        }
    }

    /// Adds a range anywhere, joined with all that it touches.
    fn insert(&mut self, mut from: u64, mut to: u64) {
        let first = self.beyond.partition_point(|range| range.1 < from);
        let behind = self.beyond.partition_point(|range| range.0 <= to);
        if let Some(touched) = self.beyond.get(first..behind).filter(|touched| !touched.is_empty()) {
            from = from.min(touched[0].0);
            to = to.max(touched[touched.len() - 1].1);
        }
        self.beyond.splice(first..behind, [(from, to)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn receiver(delayed_ack: &str) -> Receiver {
        let tcp = crate::read(json!({ "delayed_ack": delayed_ack })).unwrap().build().unwrap();
        Arc::new(tcp).receiver(Some(100))
    }

    fn data(from: u64, to: u64) -> Segment {
        Segment { seq: from, len: (to - from) as u32, ..Segment::default() }
    }

    #[test]
    fn pieces_that_overlap_and_touch_are_joined() {
        let mut receiver = receiver("off");
        for (from, to) in [(10, 20), (30, 40), (60, 70), (25, 35), (18, 26), (50, 60), (5, 12)] {
            receiver.on_segment(&data(from, to), Instant::START);
            assert_eq!(receiver.delivered(), 0);
        }
        assert_eq!(receiver.beyond, [(5, 40), (50, 70)]);
        receiver.on_segment(&data(0, 6), Instant::START);
        assert_eq!((receiver.delivered(), &receiver.beyond[..]), (40, &[(50, 70)][..]));
        receiver.on_segment(&data(30, 55), Instant::START);
        assert_eq!((receiver.delivered(), receiver.beyond.len()), (70, 0));
        receiver.on_segment(&data(0, 70), Instant::START);
        assert_eq!(receiver.poll_transmit(Instant::START).unwrap().ack, 70);
        assert_eq!(receiver.poll_transmit(Instant::START), None, "they merged into one");
    }

    #[test]
    fn the_end_of_the_data_is_acknowledged_at_once() {
        let mut receiver = receiver("every-second");
        receiver.on_segment(&data(0, 50), Instant::START);
        assert!(receiver.poll_transmit(Instant::START).is_none());
        receiver.on_segment(&data(50, 60), Instant::START);
        assert!(receiver.poll_transmit(Instant::START).is_some());
        receiver.on_segment(&Segment { flags: Flags::FIN, ..data(60, 100) }, Instant::START);
        assert!(receiver.poll_transmit(Instant::START).unwrap().flags.has(Flags::FIN));
        assert_eq!(receiver.poll_timeout(), None);
    }
}
