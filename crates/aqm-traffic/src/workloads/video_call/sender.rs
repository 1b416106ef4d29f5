//! The sender of one direction: encoder, pacer, rate control, and the packets that can be retransmitted.

use std::collections::VecDeque;

use aqm_net::{Instant, Span};

use super::datagrams::{FrameInfo, RETRANSMISSION_HEADER, RTP_HEADERS, VideoPacket};
use super::encoder::Encoder;
use super::pacer::{Paced, Pacer, Pacing};
use super::recent_bytes::RecentBytes;
use crate::rate_control::{MediaFrame, PacketReport, RateControl, SentPacket};

/// Maximum payload of a video packet (libwebrtc: `kVideoMtu` of 1200 B is the size of an RTP packet).
pub(super) const MAX_PAYLOAD: u64 = 1200;
/// Number of video packets that can be retransmitted (libwebrtc: `kMaxCapacity` of 9600 packets).
const HISTORY: usize = 9600;

/// Window in which the rate of retransmissions is limited to the target rate (libwebrtc: `kRetransmitWindowSizeMs`).
const RETRANSMISSION_WINDOW: Span = Span::from_millis(500);
/// Window in which the share of retransmissions is measured (libwebrtc: bitrate statistics over 1 s), and maximum share
/// by which the encoder reduces its rate (libwebrtc, `FecControllerDefault`: `overhead_threshold`).
const SHARE_WINDOW: Span = Span::from_millis(1000);
const MAX_SHARE: f64 = 0.5;

/// The video rates that an encoder can use.
#[derive(Clone, Debug)]
pub(super) struct VideoRates {
    /// Minimum and maximum, in bits per second.
    pub(super) bounds_bps: (f64, f64),
    /// Available rates in ascending order; empty if all rates are available.
    pub(super) steps_bps: Vec<f64>,
}

impl VideoRates {
    /// Returns the highest available rate that does not exceed `bps`, or the lowest available rate.
    pub(super) fn choose(&self, bps: f64) -> f64 {
        let bps = bps.clamp(self.bounds_bps.0, self.bounds_bps.1);
        let Some(&lowest) = self.steps_bps.first() else { return bps };
        self.steps_bps.iter().rev().find(|&&step| step <= bps).copied().unwrap_or(lowest)
    }
}

/// The sender of one direction.
#[derive(Clone)]
pub(super) struct Sender {
    pub(super) control: Box<dyn RateControl>,
    pub(super) pacer: Pacer,
    pub(super) encoder: Encoder,
    rates: VideoRates,
    /// Rate of the audio, including headers.
    audio_bps: f64,
    /// Number of the next media packet, video packet and frame.
    next_number: u64,
    next_sequence: u64,
    next_frame: u64,
    /// The last video packets and their sizes, in the order of their sequence numbers.
    history: VecDeque<(VideoPacket, u16)>,
    /// Bytes of retransmissions in the two windows, and bytes of frames in the longer window.
    recently_retransmitted: [RecentBytes; 2],
    recently_encoded: RecentBytes,
    pub(super) retransmitted: u64,
    pub(super) probes: u64,
}

impl Sender {
    pub(super) fn new(
        control: Box<dyn RateControl>,
        encoder: Encoder,
        rates: VideoRates,
        audio_bps: f64,
    ) -> Self {
        Self {
            control,
            pacer: Pacer::default(),
            encoder,
            rates,
            audio_bps,
            next_number: 0,
            next_sequence: 0,
            next_frame: 0,
            history: VecDeque::new(),
            recently_retransmitted: [RETRANSMISSION_WINDOW, SHARE_WINDOW].map(RecentBytes::new),
            recently_encoded: RecentBytes::new(SHARE_WINDOW),
            retransmitted: 0,
            probes: 0,
        }
    }

    /// Registers a media packet that is being sent. Returns the packet's number.
    pub(super) fn number(&mut self, bytes: u16, probe: Option<u32>, now: Instant) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.control.on_sent(SentPacket { number, bytes, at: now, probe });
        number
    }

    /// Encodes a frame and passes the frame's packets to the pacer. Returns the frame and its size in bytes.
    pub(super) fn send_frame(&mut self, resumes: bool, now: Instant) -> (FrameInfo, u64) {
        let share = self.retransmitted_share(now);
        let rate = self.rates.choose((self.control.target_rate() - self.audio_bps) * (1.0 - share));
        let (size, key) = self.encoder.encode(rate, now);
        let packets = libm::ceil(size / (MAX_PAYLOAD + RTP_HEADERS) as f64).max(1.0) as u64;
        let frame = FrameInfo {
            number: self.next_frame,
            first: self.next_sequence,
            packets,
            captured: now,
            key,
            resumes,
        };
        let bytes = (size as u64).max(packets * (RTP_HEADERS + 1));
        let interval = self.encoder.interval();
        let nominal_bytes = rate * interval.seconds() / 8.0;
        let queued = self.pacer.oldest(now);
        self.control.on_frame(MediaFrame { bytes, nominal_bytes, queued, interval });
        for position in 0..packets {
            // The packets have equal sizes, apart from the remainder.
            let share = bytes / packets + u64::from(position < bytes % packets);
            let packet = VideoPacket { sequence: self.next_sequence + position, frame };
            self.pacer.push(packet, share as u16, now);
            self.history.push_back((packet, share as u16));
            if self.history.len() > HISTORY {
                self.history.pop_front();
            }
        }
        self.recently_encoded.add(bytes, now);
        self.next_frame += 1;
        self.next_sequence += packets;
        self.pacer.begin_probe(now);
        (frame, bytes)
    }

    /// Handles feedback.
    pub(super) fn on_feedback(&mut self, reports: &[PacketReport], now: Instant) {
        self.control.on_feedback(reports, now);
        self.pacer.unblock();
        self.take_probes(now);
    }

    /// Handles the passing of time.
    pub(super) fn on_timer(&mut self, now: Instant) {
        self.control.on_timer(now);
        self.pacer.unblock();
        self.take_probes(now);
    }

    fn take_probes(&mut self, now: Instant) {
        while let Some(probe) = self.control.next_probe() {
            self.probes += 1;
            self.pacer.add_probe(probe, now);
        }
    }

    /// Returns the share of retransmissions in the video of the last second, which the encoder leaves to
    /// retransmissions.
    fn retransmitted_share(&mut self, now: Instant) -> f64 {
        let retransmitted = self.recently_retransmitted[1].sum(now) as f64;
        let all = retransmitted + self.recently_encoded.sum(now) as f64;
        if all > 0.0 { (retransmitted / all).min(MAX_SHARE) } else { 0.0 }
    }

    /// Handles a request for missing packets, which are sent before all other video packets. The rate of
    /// retransmissions is limited to the target rate, and requests that exceed the limit are ignored.
    pub(super) fn on_nack(&mut self, sequences: &[u64], now: Instant) {
        let Some(&(first, _)) = self.history.front() else { return };
        let limit = self.control.target_rate() * RETRANSMISSION_WINDOW.seconds() / 8.0;
        let mut accepted = Vec::new();
        for &sequence in sequences {
            let position = sequence.checked_sub(first.sequence).and_then(|one| usize::try_from(one).ok());
            let Some(&(packet, bytes)) = position.and_then(|position| self.history.get(position)) else {
                continue;
            };
            let bytes = bytes.saturating_add(RETRANSMISSION_HEADER);
            if (self.recently_retransmitted[0].sum(now) + u64::from(bytes)) as f64 > limit {
                break;
            }
            self.recently_retransmitted.iter_mut().for_each(|window| window.add(bytes.into(), now));
            self.retransmitted += 1;
            accepted.push((packet, bytes));
        }
        for (packet, bytes) in accepted.into_iter().rev() {
            self.pacer.push_first(packet, bytes, now);
        }
    }

    /// Releases the packets that are due.
    pub(super) fn release(&mut self, now: Instant, send: &mut impl FnMut(Paced)) {
        let pacing = Pacing {
            rate_bps: self.control.pacing_rate(),
            bursts: self.control.sends_bursts(),
            window: self.control.send_window(),
        };
        self.pacer.release(pacing, now, send);
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::{Ecn, Rate};

    use super::*;
    use crate::rate_control::{Config, Media};

    fn sender(steps_bps: &[f64]) -> Sender {
        let control =
            Config::default().build(Media { most: Rate::from_bps(2_000_000), ecn: Ecn::NotEct }).unwrap();
        let rates = VideoRates { bounds_bps: (30e3, 2e6), steps_bps: steps_bps.to_vec() };
        Sender::new(control, Encoder::new(30.0, 4.0), rates, 48e3)
    }

    #[test]
    fn the_video_uses_what_the_audio_leaves_of_the_target_rate() {
        let mut sender = sender(&[]);
        let frames: Vec<u64> = (0..61).map(|_| sender.send_frame(false, Instant::START).1).collect();
        // 300 kb/s less 48 kb/s at 30 frames per second are 1050 B per frame.
        assert_eq!((frames[0], frames[60]), (4200, 1050));
    }

    #[test]
    fn a_ladder_limits_the_rates() {
        let rates = VideoRates { bounds_bps: (30e3, 2e6), steps_bps: vec![100e3, 300e3, 1e6] };
        assert_eq!(
            [0.0, 120e3, 299e3, 300e3, 5e6].map(|bps| rates.choose(bps)),
            [100e3, 100e3, 100e3, 300e3, 1e6]
        );
    }

    #[test]
    fn missing_packets_are_sent_first() {
        let mut sender = sender(&[]);
        sender.send_frame(false, Instant::START);
        let mut now = Instant::START;
        let mut released = Vec::new();
        while let Some(at) = sender.pacer.next_release() {
            now = now.max(at);
            sender.release(now, &mut |one| released.push(one));
        }
        assert_eq!(released.iter().map(|one| one.bytes).collect::<Vec<_>>(), [1050; 4]);
        sender.send_frame(false, now);
        sender.on_nack(&[1, 3, 99], now);
        released.clear();
        while let Some(at) = sender.pacer.next_release() {
            now = now.max(at);
            sender.release(now, &mut |one| released.push(one));
        }
        let found: Vec<(u64, u16)> =
            released.iter().map(|one| (one.video.unwrap().sequence, one.bytes)).collect();
        assert_eq!(found[..2], [(1, 1052), (3, 1052)]);
        assert_eq!((found[2].0, found.len(), sender.retransmitted), (4, 3, 2));
    }
    #[test]
    fn retransmissions_are_limited_to_the_target_rate_and_lower_the_rate_of_the_encoder() {
        let mut sender = sender(&[]);
        let at = |frame: u64| Instant::START + Span::from_millis(33 * frame);
        (0..90).for_each(|frame| {
            sender.send_frame(false, at(frame));
        });
        let all: Vec<u64> = (0..90).collect();
        sender.on_nack(&all, at(90));
        // Half a second at 300 kb/s is 18,750 B. The first packets are larger than the others.
        assert!((12..=19).contains(&sender.retransmitted), "{}", sender.retransmitted);
        let before = sender.retransmitted;
        sender.on_nack(&all, at(91));
        assert_eq!(sender.retransmitted, before);
        let (_, bytes) = sender.send_frame(false, at(91));
        assert!((525..840).contains(&bytes), "{bytes} of 1050 B");
        sender.on_nack(&all[50..60], at(110));
        assert_eq!(sender.retransmitted, before + 10);
    }
}
