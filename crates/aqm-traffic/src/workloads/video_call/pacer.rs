//! The pacer: the queue between the encoder and the network, which releases the packets of a frame at the pacing rate,
//! and the packets of a probe at the probe's rate.
//!
//! Sources: draft-ietf-rmcat-gcc-02, section 2 (bursts every 5 ms); libwebrtc, `modules/pacing/pacing_controller.cc`
//! and `bitrate_prober.cc`.
//!
//! aqmlab's choices: audio is not paced (libwebrtc gives audio priority). A probe begins with a frame. Padding packets
//! are as large as the bytes that the probe sends in 2 ms.

use std::collections::VecDeque;

use aqm_net::{Instant, Span};

use super::datagrams::VideoPacket;
use crate::rate_control::Probe;

/// Interval of bursts (draft, section 2: burst_time).
const BURST: Span = Span::from_millis(5);
/// Time in which the queue must become empty, if necessary at a higher rate (libwebrtc: `kMaxExpectedQueueLength`).
const MAX_QUEUE_S: f64 = 2.0;
/// Minimum interval between two bursts of a probe (libwebrtc: `min_probe_delta`).
const PROBE_BURST: Span = Span::from_millis(2);
/// Minimum and maximum size of a padding packet, including headers (libwebrtc: `kMaxPaddingLength` of 224 B is the
/// size of padding without media; retransmitted media is used for larger padding).
const PADDING: (f64, f64) = (264.0, 1240.0);
/// Time after which a probe that has not begun is out of date (libwebrtc: `kProbeClusterTimeout`).
const PROBE_EXPIRES: Span = Span::from_millis(5000);

/// A packet that the pacer releases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Paced {
    pub(super) bytes: u16,
    /// Video; `None` for padding.
    pub(super) video: Option<VideoPacket>,
    /// Number of the probe to which the packet belongs.
    pub(super) probe: Option<u32>,
}

/// How the pacer releases packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pacing {
    /// Rate in bits per second.
    pub(super) rate_bps: f64,
    /// Whether the packets of `BURST` leave at once.
    pub(super) bursts: bool,
    /// Maximum number of bytes.
    pub(super) window: f64,
}

/// The pacer of one direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Pacer {
    /// Packets, and the times since which the packets wait.
    queue: VecDeque<(VideoPacket, u16, Instant)>,
    queued_bytes: u64,
    /// Whether the first packet is larger than the send window.
    blocked: bool,
    /// Time at which the packets that have been released have left at the pacing rate.
    free_at: Instant,
    pending: VecDeque<(Instant, Probe)>,
    probe: Option<Progress>,
}

/// A probe in progress.
#[derive(Clone, Copy, Debug)]
struct Progress {
    probe: Probe,
    begin: Instant,
    packets: u32,
    bytes: u64,
}

impl Progress {
    /// Returns the time of the next burst.
    fn next_at(&self) -> Instant {
        self.begin + Span::from_seconds(8.0 * self.bytes as f64 / self.probe.rate_bps)
    }

    /// Returns the minimum number of bytes in a burst.
    fn burst(&self) -> f64 {
        self.probe.rate_bps * PROBE_BURST.seconds() / 8.0
    }
}

impl Pacer {
    /// Adds a packet to the end of the queue.
    pub(super) fn push(&mut self, packet: VideoPacket, bytes: u16, now: Instant) {
        self.queue.push_back((packet, bytes, now));
        self.queued_bytes += u64::from(bytes);
    }

    /// Adds a retransmission to the front of the queue.
    pub(super) fn push_first(&mut self, packet: VideoPacket, bytes: u16, now: Instant) {
        self.queue.push_front((packet, bytes, now));
        self.queued_bytes += u64::from(bytes);
    }

    /// Returns the time for which the oldest packet has waited.
    pub(super) fn oldest(&self, now: Instant) -> Span {
        self.queue.iter().map(|&(_, _, since)| now.since(since)).max().unwrap_or(Span::ZERO)
    }

    /// Handles a change of the send window.
    pub(super) fn unblock(&mut self) {
        self.blocked = false;
    }

    /// Adds a probe.
    pub(super) fn add_probe(&mut self, probe: Probe, now: Instant) {
        self.pending.push_back((now, probe));
    }

    /// Begins the next probe, unless another is in progress. The caller has just added a frame.
    pub(super) fn begin_probe(&mut self, now: Instant) {
        while self.probe.is_none()
            && let Some((since, probe)) = self.pending.pop_front()
        {
            if now.since(since) <= PROBE_EXPIRES {
                self.probe = Some(Progress { probe, begin: now, packets: 0, bytes: 0 });
            }
        }
    }

    /// Returns the time at which the pacer can release the next packet; `None` if there is nothing to release.
    pub(super) fn next_release(&self) -> Option<Instant> {
        match self.probe {
            Some(one) => Some(one.next_at()),
            None => (!self.queue.is_empty() && !self.blocked).then_some(self.free_at),
        }
    }

    /// Releases the packets that are due. Packets that belong to no probe have together at most `window` bytes.
    pub(super) fn release(&mut self, pacing: Pacing, now: Instant, send: &mut impl FnMut(Paced)) {
        let Pacing { rate_bps, bursts, mut window } = pacing;
        let rate = rate_bps.max(8.0 * self.queued_bytes as f64 / MAX_QUEUE_S).max(1.0);
        let take_time = |free_at: Instant, bytes: u16| {
            free_at.max(now) + Span::from_seconds(8.0 * f64::from(bytes) / rate)
        };
        while let Some(mut one) = self.probe.filter(|one| one.next_at() <= now) {
            let mut burst = 0.0;
            while burst < one.burst() {
                let (video, bytes) = match self.queue.pop_front() {
                    Some((packet, bytes, _)) => {
                        self.queued_bytes -= u64::from(bytes);
                        (Some(packet), bytes)
                    }
                    None => (None, one.burst().clamp(PADDING.0, PADDING.1) as u16),
                };
                send(Paced { bytes, video, probe: Some(one.probe.number) });
                burst += f64::from(bytes);
                one.packets += 1;
                one.bytes += u64::from(bytes);
                self.free_at = take_time(self.free_at, bytes);
            }
            let done = one.packets >= one.probe.packets && one.bytes >= one.probe.bytes;
            self.probe = (!done).then_some(one);
        }
        if self.probe.is_some() || self.free_at > now {
            return;
        }
        let until = if bursts { now + BURST } else { now + Span::from_nanos(1) };
        while self.free_at < until
            && let Some(&(packet, bytes, _)) = self.queue.front()
        {
            self.blocked = f64::from(bytes) > window;
            if self.blocked {
                return;
            }
            self.queue.pop_front();
            window -= f64::from(bytes);
            self.queued_bytes -= u64::from(bytes);
            send(Paced { bytes, video: Some(packet), probe: None });
            self.free_at = take_time(self.free_at, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::video_call::datagrams::FrameInfo;

    fn packet(sequence: u64) -> VideoPacket {
        let captured = Instant::START;
        let frame = FrameInfo { number: 0, first: 0, packets: 10, captured, key: false, resumes: false };
        VideoPacket { sequence, frame }
    }

    fn pacing(rate_bps: f64) -> Pacing {
        Pacing { rate_bps, bursts: true, window: f64::INFINITY }
    }

    /// Releases all packets from `now` on. Returns the time in milliseconds, size, and probe of each.
    fn drain(pacer: &mut Pacer, bps: f64, mut now: Instant) -> Vec<(f64, u16, Option<u32>)> {
        let mut found = Vec::new();
        while let Some(at) = pacer.next_release() {
            now = now.max(at);
            pacer.release(pacing(bps), now, &mut |one| {
                found.push((now.seconds() * 1e3, one.bytes, one.probe))
            });
        }
        found
    }

    #[test]
    fn packets_leave_in_bursts_of_five_milliseconds() {
        let mut pacer = Pacer::default();
        (0..10).for_each(|sequence| pacer.push(packet(sequence), 1000, Instant::START));
        // At 4 Mb/s, a packet takes 2 ms, so 3 packets leave every 6 ms.
        let times: Vec<f64> = drain(&mut pacer, 4e6, Instant::START).iter().map(|one| one.0).collect();
        assert_eq!(times, [0.0, 0.0, 0.0, 6.0, 6.0, 6.0, 12.0, 12.0, 12.0, 18.0]);
        // At 800 kb/s, a packet takes 10 ms.
        (0..3).for_each(|sequence| pacer.push(packet(sequence), 1000, Instant::START));
        let times = drain(&mut pacer, 800e3, Instant::from_nanos(100_000_000));
        assert_eq!(times.iter().map(|one| one.0).collect::<Vec<_>>(), [100.0, 110.0, 120.0]);
    }

    #[test]
    fn a_long_queue_leaves_within_two_seconds() {
        let mut pacer = Pacer::default();
        (0..1000).for_each(|sequence| pacer.push(packet(sequence), 1000, Instant::START));
        let times = drain(&mut pacer, 100e3, Instant::START);
        // The rate is 4 Mb/s at first, and decreases with the queue.
        assert!((400.0..1000.0).contains(&times[250].0), "{:?}", times[250]);
    }

    #[test]
    fn a_probe_sends_media_and_then_padding_at_its_rate() {
        let mut pacer = Pacer::default();
        (0..3).for_each(|sequence| pacer.push(packet(sequence), 1240, Instant::START));
        pacer.add_probe(Probe { number: 4, rate_bps: 1.8e6, bytes: 22_500, packets: 5 }, Instant::START);
        pacer.begin_probe(Instant::START);
        let found = drain(&mut pacer, 750e3, Instant::START);
        assert!(found.iter().all(|one| one.2 == Some(4)));
        assert!(found[..3].iter().all(|one| one.1 == 1240));
        // Padding packets have 1.8 Mb/s * 2 ms = 450 B.
        assert!(found[3..].iter().all(|one| one.1 == 450));
        let before: f64 = found[..found.len() - 1].iter().map(|one| f64::from(one.1)).sum();
        assert!((22_050.0..22_500.0).contains(&before), "{before}");
        let last = found.last().unwrap().0;
        assert!((last - before * 8.0 / 1.8e3).abs() < 1e-3, "{last}");
    }

    #[test]
    fn the_send_window_holds_back_packets_until_it_changes() {
        let mut pacer = Pacer::default();
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        (0..3).for_each(|sequence| pacer.push(packet(sequence), 1000, at(sequence)));
        let mut released = 0;
        pacer.release(Pacing { window: 2500.0, ..pacing(8e6) }, at(10), &mut |_| released += 1);
        assert_eq!((released, pacer.next_release(), pacer.oldest(at(12))), (2, None, Span::from_millis(10)));
        pacer.unblock();
        assert_eq!(pacer.next_release(), Some(at(12)));
        pacer.release(Pacing { window: 1000.0, ..pacing(8e6) }, at(12), &mut |_| released += 1);
        assert_eq!((released, pacer.next_release(), pacer.oldest(at(12))), (3, None, Span::ZERO));
    }

    #[test]
    fn without_bursts_each_packet_has_its_interval() {
        let mut pacer = Pacer::default();
        (0..3).for_each(|sequence| pacer.push(packet(sequence), 1000, Instant::START));
        let mut times = Vec::new();
        while let Some(now) = pacer.next_release() {
            let pacing = Pacing { bursts: false, ..pacing(4e6) };
            pacer.release(pacing, now, &mut |_| times.push(now.seconds() * 1e3));
        }
        assert_eq!(times, [0.0, 2.0, 4.0]);
    }

    #[test]
    fn an_old_probe_is_dropped() {
        let mut pacer = Pacer::default();
        pacer.add_probe(Probe { number: 0, rate_bps: 1e6, bytes: 1000, packets: 5 }, Instant::START);
        pacer.begin_probe(Instant::START + Span::from_millis(5001));
        assert_eq!(pacer.next_release(), None);
    }
}
