//! Measures the delivery rate, which is the rate at which the network delivers a sender's data.
//!
//! N. Cardwell, I. Swett, J. Beshay, "BBR Congestion Control", draft-ietf-ccwg-bbr, editor's copy of 3 August 2026,
//! section "Delivery Rate Samples"; Linux 6.1: `tcp_rate.c`.

use std::collections::VecDeque;

use aqm_net::{Instant, Span};

use super::sent::Stamp;
use crate::congestion_control::LostSegment;

/// State of the connection at the time when a segment was last sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Number of bytes delivered.
    pub delivered: u64,
    /// Time of the last delivery, or time at which the current flight started.
    pub delivered_at: Instant,
    /// Departure time of the segment that was delivered last, or of the first segment of the current flight.
    pub first_sent_at: Instant,
    /// Number of bytes lost.
    pub lost: u64,
    /// Number of bytes reported as marked.
    pub marked: u64,
    /// Number of bytes in the network, including the segment.
    pub in_flight: u64,
    /// Whether the sender was application-limited.
    pub is_app_limited: bool,
}

/// Delivery-rate sample that an acknowledgement yields.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    /// Numbers of bytes newly delivered, newly lost and newly reported as marked.
    pub acked: u64,
    pub lost: u64,
    pub marked: u64,
    /// State of the connection when the newest delivered segment was sent; `None` if no segment was delivered.
    pub prior: Option<Snapshot>,
    /// Interval over which the sample was measured; `None` if the interval is shorter than the minimum round-trip time,
    /// or if no segment was delivered.
    pub interval: Option<Span>,
    /// Whether the congestion window has been full at any time since the newest delivered segment was sent.
    pub is_cwnd_limited: bool,
}

/// State for measuring one sender's delivery rate: the state of the connection, and a snapshot of the connection's
/// state for each sent segment.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeliveryRate {
    /// Snapshots for the segments in the scoreboard, in the order of the scoreboard.
    snapshots: VecDeque<Snapshot>,
    /// Number of bytes delivered since the connection was opened, including bytes delivered by unnecessary
    /// retransmissions.
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    /// Number of bytes considered lost since the connection was opened.
    lost: u64,
    /// Number of bytes reported as marked since the connection was opened.
    marked: u64,
    /// Value of `delivered` when the congestion window was last full.
    full_at: Option<u64>,
    /// Value of `delivered` up to which the sender is application-limited; 0 if the sender is not application-limited.
    app_limited_until: u64,
    min_rtt: Option<Span>,
    /// Newest segment delivered by the current acknowledgement, and the snapshot for this segment.
    newest: Option<(Stamp, Snapshot)>,
    acked: u64,
    newly_lost: u64,
    newly_marked: u64,
    /// Segments that are considered lost as a result of the current event.
    lost_segments: Vec<LostSegment>,
}

impl DeliveryRate {
    /// Returns the number of bytes delivered since the connection was opened.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns the number of bytes considered lost since the connection was opened.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the number of bytes reported as marked since the connection was opened.
    pub fn marked(&self) -> u64 {
        self.marked
    }

    /// Records that the receiver reported `bytes` bytes as marked.
    pub fn on_marked(&mut self, bytes: u64) {
        self.marked += bytes;
        self.newly_marked += bytes;
    }

    /// Records that the congestion window is full.
    pub fn on_full(&mut self) {
        self.full_at = Some(self.delivered);
    }

    /// Returns the connection's minimum round-trip time.
    pub fn min_rtt(&self) -> Option<Span> {
        self.min_rtt
    }

    /// Records a round-trip time.
    pub fn on_round_trip(&mut self, rtt: Span) {
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
    }

    /// Records the transmission of a new segment of `len` bytes. `in_flight` is the number of bytes in the network,
    /// including this segment.
    pub fn on_new(&mut self, len: u64, in_flight: u64, now: Instant) {
        let snapshot = self.snapshot(len, in_flight, now);
        self.snapshots.push_back(snapshot);
    }

    /// Records a retransmission of the segment with the given index.
    pub fn on_resent(&mut self, index: usize, len: u64, in_flight: u64, now: Instant) {
        self.snapshots[index] = self.snapshot(len, in_flight, now);
    }

    fn snapshot(&mut self, len: u64, in_flight: u64, now: Instant) -> Snapshot {
        if in_flight <= len {
            (self.first_sent_at, self.delivered_at) = (now, now);
        }
        Snapshot {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            lost: self.lost,
            marked: self.marked,
            in_flight,
            is_app_limited: self.app_limited_until > 0,
        }
    }

    /// Records the first delivery of the segment with the given index, which was last sent at `stamp`.
    pub fn on_delivered(&mut self, index: usize, len: u64, stamp: Stamp) {
        self.acked += len;
        if self.newest.is_none_or(|(newest, _)| stamp > newest) {
            self.newest = Some((stamp, self.snapshots[index]));
        }
    }

    /// Records the first delivery of the oldest segment, which was last sent at `stamp`, and removes the segment.
    pub fn on_front_delivered(&mut self, len: u64, stamp: Stamp) {
        self.acked += len;
        if let Some(&snapshot) = self.snapshots.front()
            && self.newest.is_none_or(|(newest, _)| stamp > newest)
        {
            self.newest = Some((stamp, snapshot));
        }
        self.snapshots.pop_front();
    }

    /// Records that a part of a segment was delivered.
    pub fn on_partly_delivered(&mut self, bytes: u64) {
        self.acked += bytes;
    }

    /// Removes the oldest segment.
    pub fn pop_front(&mut self) {
        self.snapshots.pop_front();
    }

    /// Records that the segment with the given index, which begins at `begin`, is considered lost.
    pub fn on_lost(&mut self, index: usize, begin: u64, len: u64) {
        self.lost += len;
        self.newly_lost += len;
        let Snapshot { delivered, lost, in_flight, is_app_limited, .. } = self.snapshots[index];
        self.lost_segments.push(LostSegment {
            now: Instant::START,
            begin,
            bytes: len,
            delivered: self.delivered,
            total_lost: self.lost,
            delivered_when_sent: delivered,
            lost_when_sent: lost,
            in_flight_when_sent: in_flight,
            is_app_limited,
        });
    }

    /// Returns whether segments have been considered lost since the last call of `lost_segments`.
    pub fn has_lost(&self) -> bool {
        !self.lost_segments.is_empty()
    }

    /// Returns the segments that have been considered lost since the last call. The returned segments contain the
    /// current time and the number of bytes delivered by the current acknowledgement.
    pub fn lost_segments(&mut self, now: Instant) -> impl Iterator<Item = LostSegment> {
        let delivered = self.delivered + self.acked;
        self.lost_segments.drain(..).map(move |segment| LostSegment { now, delivered, ..segment })
    }

    /// Whether the sender is application-limited.
    pub fn is_app_limited(&self) -> bool {
        self.app_limited_until > 0
    }

    /// Records that the sender is application-limited while `in_flight` bytes are in the network.
    pub fn limit(&mut self, in_flight: u64) {
        self.app_limited_until = (self.delivered + in_flight).max(1);
    }

    /// Ends the processing of an acknowledgement. Returns the resulting delivery-rate sample.
    pub fn sample(&mut self, now: Instant) -> Sample {
        let (acked, lost) = (std::mem::take(&mut self.acked), std::mem::take(&mut self.newly_lost));
        let marked = std::mem::take(&mut self.newly_marked);
        if acked > 0 {
            self.delivered += acked;
            self.delivered_at = now;
        }
        let Some((stamp, prior)) = self.newest.take() else {
            return Sample { acked, lost, marked, prior: None, interval: None, is_cwnd_limited: false };
        };
        self.first_sent_at = stamp.sent;
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let send_elapsed = stamp.sent.since(prior.first_sent_at);
        let interval = send_elapsed.max(now.since(prior.delivered_at));
        let interval = Some(interval).filter(|&it| it >= self.min_rtt.unwrap_or(it) && !it.is_zero());
        let is_cwnd_limited = self.full_at.is_some_and(|full_at| full_at >= prior.delivered);
        Sample { acked, lost, marked, prior: Some(prior), interval, is_cwnd_limited }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    fn stamp(micros: u64, number: u64) -> Stamp {
        Stamp { number, sent: at(micros) }
    }

    /// Delivers `segments`, each with its departure time and number, at time `now`. Returns the delivery rate of the
    /// resulting sample, in bytes per second.
    fn deliver(rate: &mut DeliveryRate, segments: &[(u64, u64)], now: u64) -> Option<f64> {
        for &(sent, number) in segments {
            rate.on_delivered(0, MSS, stamp(sent, number));
            rate.pop_front();
        }
        let sample = rate.sample(at(now));
        let delivered = rate.delivered() - sample.prior?.delivered;
        Some(delivered as f64 / sample.interval?.seconds())
    }

    #[test]
    fn a_constant_link_gives_its_rate_and_compressed_acknowledgements_give_no_more_than_the_send_rate() {
        let mut rate = DeliveryRate::default();
        // A segment of 1000 B is sent every millisecond and acknowledged 10 ms later. The last twenty segments are
        // acknowledged at the same instant.
        let mut sample = None;
        for k in 0..60 {
            rate.on_new(MSS, (k.min(9) + 1) * MSS, at(k * 1000));
            rate.on_round_trip(Span::from_millis(10));
            if (10..40).contains(&k) {
                sample = deliver(&mut rate, &[((k - 10) * 1000, k - 10)], k * 1000);
            }
        }
        assert!((sample.unwrap() / 1e6 - 1.0).abs() < 0.01, "{sample:?}");
        let rest: Vec<(u64, u64)> = (30..50).map(|k| (k * 1000, k)).collect();
        let compressed = deliver(&mut rate, &rest, 60_000).unwrap();
        assert!(compressed <= 1.01e6, "{compressed}");
    }

    #[test]
    fn an_interval_below_the_smallest_round_trip_gives_no_sample() {
        let mut rate = DeliveryRate::default();
        rate.on_round_trip(Span::from_millis(10));
        rate.on_new(MSS, MSS, at(0));
        assert_eq!(deliver(&mut rate, &[(0, 0)], 9_999), None);
        rate.on_new(MSS, MSS, at(20_000));
        assert_eq!(deliver(&mut rate, &[(20_000, 1)], 30_000), Some(1e5));
    }

    #[test]
    fn samples_are_app_limited_until_the_data_in_flight_is_delivered() {
        let mut rate = DeliveryRate::default();
        let mut limited = Vec::new();
        for k in 0..4 {
            if k == 1 {
                rate.limit(MSS);
            }
            rate.on_new(MSS, MSS, at(k * 1000));
            rate.on_delivered(0, MSS, stamp(k * 1000, k));
            rate.pop_front();
            limited.push(rate.sample(at(k * 1000 + 500)).prior.unwrap().is_app_limited);
        }
        assert_eq!(limited, [false, true, true, false]);
    }

    #[test]
    fn a_lost_segment_reports_the_state_at_its_departure() {
        let mut rate = DeliveryRate::default();
        for k in 0..3 {
            rate.on_new(MSS, (k + 1) * MSS, at(0));
        }
        rate.on_lost(1, MSS, MSS);
        rate.on_lost(2, 2 * MSS, MSS);
        let lost: Vec<_> = rate.lost_segments(at(7)).collect();
        assert!(lost.iter().all(|it| it.now == at(7) && it.delivered == 0));
        assert_eq!(lost.iter().map(|it| it.in_flight_when_sent).collect::<Vec<_>>(), [2000, 3000]);
        assert_eq!(lost.iter().map(|it| it.total_lost).collect::<Vec<_>>(), [1000, 2000]);
        assert_eq!(rate.lost(), 2000);
        assert!(!rate.has_lost());
        assert_eq!(rate.sample(at(10)).lost, 2000);
    }

    #[test]
    fn the_window_limits_the_rate_if_it_was_full_after_the_delivered_segment_was_sent() {
        let mut rate = DeliveryRate::default();
        let mut limited = Vec::new();
        for k in 0..4 {
            rate.on_new(MSS, MSS, at(k * 1000));
            if k == 1 {
                rate.on_full();
            }
            rate.on_delivered(0, MSS, stamp(k * 1000, k));
            rate.pop_front();
            limited.push(rate.sample(at(k * 1000 + 500)).is_cwnd_limited);
        }
        assert_eq!(limited, [false, true, false, false]);
    }

    #[test]
    fn a_mark_is_counted_once_and_known_to_segments_sent_later() {
        let mut rate = DeliveryRate::default();
        rate.on_new(MSS, MSS, at(0));
        rate.on_marked(MSS);
        rate.on_delivered(0, MSS, stamp(0, 0));
        rate.pop_front();
        let sample = rate.sample(at(500));
        assert_eq!((sample.marked, sample.prior.unwrap().marked, rate.marked()), (MSS, 0, MSS));
        rate.on_new(MSS, MSS, at(1000));
        rate.on_delivered(0, MSS, stamp(1000, 1));
        rate.pop_front();
        let sample = rate.sample(at(1500));
        assert_eq!((sample.marked, sample.prior.unwrap().marked), (0, MSS));
    }
}
