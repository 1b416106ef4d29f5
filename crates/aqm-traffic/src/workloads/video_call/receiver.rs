//! The receiver of one direction: feedback about packets, requests for missing packets and key frames, and the rendering
//! of frames.
//!
//! A frame is rendered as soon as all of its packets have arrived and the frame before has been rendered; a key frame
//! does not need the frame before. There is no jitter buffer. With retransmissions, the receiver requests a missing
//! packet as soon as a later packet arrives, and again after each round-trip time, up to ten times. When the receiver
//! gives up a packet, or without retransmissions at once, the receiver requests a key frame.

use std::collections::BTreeMap;

use aqm_net::{Ecn, Instant, Span};

use super::datagrams::{FrameInfo, VideoPacket};
use super::freezes::Freezes;
use crate::rate_control::PacketReport;

/// Maximum number of requests for a packet (libwebrtc: `kMaxNackRetries`).
const MAX_REQUESTS: u32 = 10;
/// Maximum number of missing packets (libwebrtc: `kMaxNackPackets`).
const MAX_MISSING: u64 = 1000;
/// Initial round-trip time (libwebrtc, `NackRequester`: `kDefaultRttMs`).
const INITIAL_RTT: Span = Span::from_millis(100);
/// Interval at which the receiver looks for missing packets (libwebrtc: `kUpdateInterval`).
pub(super) const CHECK: Span = Span::from_millis(20);
/// Time without a rendered frame after which the receiver requests a key frame (libwebrtc: `kMaxWaitForFrame`), and
/// interval between two such requests (libwebrtc: `kMaxWaitForKeyFrame`).
const MAX_WAIT: Span = Span::from_millis(3000);
const KEY_RETRY: Span = Span::from_millis(200);

/// A rendered frame, and the length of the freeze that the frame ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rendered {
    pub(super) frame: FrameInfo,
    pub(super) freeze: Span,
}

/// What the receiver requests from the sender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Requests {
    /// Sequence numbers of missing video packets.
    pub(super) packets: Vec<u64>,
    pub(super) key_frame: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Missing {
    requested_at: Option<Instant>,
    requests: u32,
}

#[derive(Clone, Copy, Debug)]
struct Partial {
    frame: FrameInfo,
    received: u64,
}

/// The receiver of one direction.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    retransmit: bool,
    /// First media packet that has not been reported yet.
    next_report: u64,
    /// Media packets that have arrived since the last feedback.
    arrived: BTreeMap<u64, (Instant, Ecn)>,
    /// Sequence number that follows the largest sequence number of all video packets that have arrived.
    next_sequence: u64,
    missing: BTreeMap<u64, Missing>,
    frames: BTreeMap<u64, Partial>,
    /// Number of the first frame that can still be rendered.
    next_frame: u64,
    /// Whether the frame before `next_frame` has been rendered, so that the other frames can be decoded.
    decodable: bool,
    last_rendered: Option<Instant>,
    key_requested_at: Option<Instant>,
    needs_key: bool,
    rtt: Span,
    freezes: Freezes,
}

impl Receiver {
    pub(super) fn new(retransmit: bool) -> Self {
        Self {
            retransmit,
            next_report: 0,
            arrived: BTreeMap::new(),
            next_sequence: 0,
            missing: BTreeMap::new(),
            frames: BTreeMap::new(),
            next_frame: 0,
            decodable: false,
            last_rendered: None,
            key_requested_at: None,
            needs_key: false,
            rtt: INITIAL_RTT,
            freezes: Freezes::default(),
        }
    }

    /// Handles the arrival of a media packet.
    pub(super) fn on_packet(&mut self, number: u64, ecn: Ecn, now: Instant) {
        self.arrived.insert(number, (now, ecn));
    }

    /// Returns the number of media packets that have arrived since the last feedback.
    pub(super) fn unreported(&self) -> usize {
        self.arrived.len()
    }

    /// Returns the reports that are due, in the order of the packets' numbers: all packets up to the last that has
    /// arrived. A packet that arrives after having been reported missing is reported again.
    pub(super) fn take_reports(&mut self) -> Vec<PacketReport> {
        let arrived = std::mem::take(&mut self.arrived);
        let Some((&last, _)) = arrived.last_key_value() else { return Vec::new() };
        let report = |number: u64, found: Option<&(Instant, Ecn)>| PacketReport {
            number,
            arrival: found.map(|one| one.0),
            ecn: found.map_or(Ecn::NotEct, |one| one.1),
        };
        let late = arrived.range(..self.next_report).map(|(&number, found)| report(number, Some(found)));
        let due = (self.next_report..=last).map(|number| report(number, arrived.get(&number)));
        let reports = late.chain(due).collect();
        self.next_report = self.next_report.max(last + 1);
        reports
    }

    /// Handles the arrival of a video packet. Passes the frames that can now be rendered to `render`.
    pub(super) fn on_video(&mut self, packet: VideoPacket, now: Instant, render: &mut impl FnMut(Rendered)) {
        let VideoPacket { sequence, frame } = packet;
        if sequence < self.next_sequence {
            let Some(missing) = self.missing.remove(&sequence) else { return };
            if let Some(at) = missing.requested_at {
                // RFC 6298, section 2: the weight of a sample is 1/8.
                let sample = now.since(at).nanos();
                self.rtt = Span::from_nanos(self.rtt.nanos() - self.rtt.nanos() / 8 + sample / 8);
            }
        } else {
            let gap = sequence - self.next_sequence;
            self.missing.extend((self.next_sequence..sequence).map(|one| (one, Missing::default())));
            self.next_sequence = sequence + 1;
            if gap > 0 && (!self.retransmit || self.missing.len() as u64 > MAX_MISSING) {
                self.give_up();
            }
        }
        if frame.number < self.next_frame {
            return;
        }
        let partial = self.frames.entry(frame.number).or_insert(Partial { frame, received: 0 });
        partial.received += 1;
        if partial.received == frame.packets {
            self.render_frames(now, render);
        }
    }

    /// Gives up all missing packets, so that only a key frame can continue the video.
    fn give_up(&mut self) {
        self.missing.clear();
        self.needs_key = true;
    }

    fn render_frames(&mut self, now: Instant, render: &mut impl FnMut(Rendered)) {
        loop {
            let is_complete = |one: &&Partial| one.received == one.frame.packets;
            let next = self.frames.get(&self.next_frame).filter(is_complete);
            let next = next.filter(|one| one.frame.key || self.decodable).copied();
            let key = || self.frames.values().filter(is_complete).find(|one| one.frame.key).copied();
            let Some(Partial { frame, .. }) = next.or_else(key) else { return };
            self.frames = self.frames.split_off(&(frame.number + 1));
            self.missing = self.missing.split_off(&(frame.first + frame.packets));
            self.next_frame = frame.number + 1;
            self.decodable = true;
            self.needs_key &= !frame.key;
            self.last_rendered = Some(now);
            render(Rendered { frame, freeze: self.freezes.on_frame(now, frame.resumes) });
        }
    }

    /// Returns whether the receiver must look for requests regularly.
    pub(super) fn is_waiting(&self) -> bool {
        self.needs_key || !self.missing.is_empty() || !self.frames.is_empty()
    }

    /// Returns the requests that are due.
    pub(super) fn take_requests(&mut self, now: Instant) -> Requests {
        let mut requests = Requests::default();
        if self.retransmit {
            let interval = self.rtt.max(CHECK);
            for (&sequence, missing) in &mut self.missing {
                if missing.requested_at.is_none_or(|at| now.since(at) >= interval) {
                    missing.requested_at = Some(now);
                    missing.requests += 1;
                    requests.packets.push(sequence);
                }
            }
            if self.missing.values().any(|missing| missing.requests > MAX_REQUESTS) {
                requests.packets.clear();
                self.give_up();
            }
        }
        let starved =
            !self.frames.is_empty() && self.last_rendered.is_some_and(|at| now.since(at) > MAX_WAIT);
        let is_due = self.key_requested_at.is_none_or(|at| now.since(at) >= KEY_RETRY);
        if (self.needs_key || starved) && is_due {
            self.key_requested_at = Some(now);
            requests.key_frame = true;
        }
        requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::START + Span::from_millis(millis)
    }

    /// Returns a packet of a video in which each frame has two packets.
    fn packet(sequence: u64, key: bool) -> VideoPacket {
        let number = sequence / 2;
        let frame = FrameInfo { number, first: 2 * number, packets: 2, captured: at(0), key, resumes: false };
        VideoPacket { sequence, frame }
    }

    /// Passes packets to a receiver. Returns the numbers of the rendered frames. The frames in `keys` are key frames.
    fn pass(receiver: &mut Receiver, sequences: &[u64], keys: &[u64], now: Instant) -> Vec<u64> {
        let mut rendered = Vec::new();
        for &sequence in sequences {
            let one = packet(sequence, keys.contains(&(sequence / 2)));
            receiver.on_video(one, now, &mut |rendering| rendered.push(rendering.frame.number));
        }
        rendered
    }

    #[test]
    fn reports_cover_all_packets_up_to_the_last_arrival() {
        let mut receiver = Receiver::new(true);
        assert!(receiver.take_reports().is_empty());
        receiver.on_packet(0, Ecn::NotEct, at(1));
        receiver.on_packet(2, Ecn::Ce, at(2));
        let brief = |one: &PacketReport| (one.number, one.arrival, one.ecn);
        let found: Vec<_> = receiver.take_reports().iter().map(brief).collect();
        let expected = [(0, Some(at(1)), Ecn::NotEct), (1, None, Ecn::NotEct), (2, Some(at(2)), Ecn::Ce)];
        assert_eq!(found, expected);
        receiver.on_packet(1, Ecn::NotEct, at(3));
        receiver.on_packet(3, Ecn::NotEct, at(4));
        let found: Vec<_> = receiver.take_reports().iter().map(brief).collect();
        assert_eq!(found, [(1, Some(at(3)), Ecn::NotEct), (3, Some(at(4)), Ecn::NotEct)]);
    }

    #[test]
    fn a_frame_waits_for_the_retransmission_of_the_frame_before() {
        let mut receiver = Receiver::new(true);
        assert_eq!(pass(&mut receiver, &[0, 1, 2, 4, 5], &[0], at(0)), [0]);
        assert_eq!(receiver.take_requests(at(0)).packets, [3]);
        assert_eq!(receiver.take_requests(at(99)), Requests::default(), "the round-trip time is 100 ms");
        assert_eq!(receiver.take_requests(at(100)).packets, [3]);
        assert_eq!(pass(&mut receiver, &[3], &[0], at(150)), [1, 2]);
        // The retransmission took 50 ms.
        assert_eq!(receiver.rtt, Span::from_nanos(93_750_000));
        assert!(!receiver.is_waiting());
        assert_eq!(pass(&mut receiver, &[3], &[0], at(160)), <[u64; 0]>::default(), "a duplicate");
    }

    #[test]
    fn after_ten_requests_the_receiver_requests_key_frames_until_one_arrives() {
        let mut receiver = Receiver::new(true);
        pass(&mut receiver, &[0, 1, 2, 4, 5], &[0], at(0));
        for request in 0..10 {
            let found = receiver.take_requests(at(100 * request));
            assert_eq!(found, Requests { packets: vec![3], key_frame: false });
        }
        let key = Requests { packets: vec![], key_frame: true };
        assert_eq!(receiver.take_requests(at(1000)), key);
        assert_eq!(receiver.take_requests(at(1199)), Requests::default());
        assert_eq!(receiver.take_requests(at(1200)), key);
        // Frame 3 needs the frames 1 and 2, but the key frame 4 does not.
        assert_eq!(pass(&mut receiver, &[6, 7, 8, 9, 10, 11], &[4], at(1300)), [4, 5]);
        assert!(!receiver.is_waiting() && !receiver.take_requests(at(2000)).key_frame);
    }

    #[test]
    fn without_retransmissions_a_loss_leads_to_a_request_for_a_key_frame() {
        let mut receiver = Receiver::new(false);
        assert_eq!(pass(&mut receiver, &[0, 1, 2, 4, 5], &[0], at(0)), [0]);
        assert_eq!(receiver.take_requests(at(0)), Requests { packets: vec![], key_frame: true });
        assert_eq!(pass(&mut receiver, &[6, 7, 8, 9], &[4], at(300)), [4]);
    }
}
