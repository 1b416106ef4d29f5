//! Tests of the SACK reports and acknowledgements that a receiver sends.

use super::*;
use crate::testing::{timer_context, timer_context_of};
use serde_json::json;

fn config(more: serde_json::Value) -> Config {
    crate::read(more).unwrap()
}

fn data(from: u64, to: u64) -> Segment {
    Segment { seq: from, len: (to - from) as u32, ..Segment::default() }
}

fn acknowledgement(receiver: &mut Receiver, config: &Config) -> Segment {
    let mut segment = Segment::default();
    receiver.write_acknowledgement(&mut segment, Instant::START, config);
    segment
}

#[test]
fn overlapping_and_touching_segments_are_merged() {
    let config = config(json!({ "receiver": { "delayed_ack": "off" } }));
    let mut receiver = Receiver::new();
    let mut receive = |from, to| {
        receiver.on_segment(&data(from, to), || timer_context(Instant::START), &config);
        (receiver.delivered(), receiver.disorder.as_ref().map_or(vec![], |it| it.ranges.clone()))
    };
    for (from, to) in [(10, 20), (30, 40), (60, 70), (25, 35), (18, 26), (50, 60)] {
        assert_eq!(receive(from, to).0, 0);
    }
    assert_eq!(receive(5, 12).1, [(5, 40), (50, 70)]);
    assert_eq!(receive(0, 6), (40, vec![(50, 70)]));
    assert_eq!(receive(30, 55), (70, vec![]));
    receive(0, 70);
    assert!(receiver.is_due());
    assert_eq!(acknowledgement(&mut receiver, &config).ack, 70);
    assert!(!receiver.is_due(), "both acknowledgements are merged");
}

#[test]
fn the_end_of_the_data_is_acknowledged_at_once() {
    let config = config(json!({ "receiver": { "delayed_ack": "every-second" } }));
    let mut receiver = Receiver::new();
    receiver.on_segment(&data(0, 50), || timer_context(Instant::START), &config);
    assert!(!receiver.is_due());
    receiver.on_segment(&data(50, 60), || timer_context(Instant::START), &config);
    assert!(receiver.is_due());
    acknowledgement(&mut receiver, &config);
    receiver.on_segment(
        &Segment { flags: Flags::FIN, ..data(60, 100) },
        || timer_context(Instant::START),
        &config,
    );
    assert!(receiver.is_due() && receiver.has_fin());
    assert_eq!((receiver.delivered(), acknowledgement(&mut receiver, &config).ack), (100, 101));
    assert_eq!(receiver.timer(), Instant::NEVER);
}

#[test]
fn the_first_quick_acks_segments_are_acknowledged_at_once() {
    let config = config(json!({ "receiver": { "quick_acks": 3 } }));
    let mut receiver = Receiver::new();
    let mut due = Vec::new();
    for number in 0..6 {
        receiver.on_segment(&data(number, number + 1), || timer_context(Instant::START), &config);
        due.push(receiver.is_due());
        if receiver.is_due() {
            acknowledgement(&mut receiver, &config);
        }
    }
    assert_eq!(due, [true, true, true, false, true, false]);
}

#[test]
fn sack_reports_may_wait_from_the_fourth_acknowledgement_of_a_gap_on() {
    let config = config(json!({
        "recovery": { "kind": "rack" }, "connection": { "mss": "10B" }, "rto": { "tick": "1ms" },
        "receiver": { "delayed_ack": "adaptive", "sack_delay": "1ms" },
    }));
    let mut receiver = Receiver::new();
    let start = Instant::START;
    let mut receive = |micros, from| {
        let now = start + Span::from_nanos(micros * 1000);
        receiver.on_timer(timer_context_of(&config, now));
        let delayed = receiver.is_due().then(|| acknowledgement(&mut receiver, &config).sacks.count());
        receiver.on_segment(&data(from, from + 10), || timer_context_of(&config, now), &config);
        let at_once = receiver.is_due().then(|| acknowledgement(&mut receiver, &config).sacks.count());
        (delayed, at_once, receiver.timer())
    };
    let (never, at) = (Instant::NEVER, |micros: u64| start + Span::from_nanos(micros * 1000));
    assert_eq!(
        [10, 30, 50].map(|from| receive(from, from)),
        [1, 2, 3].map(|blocks| (None, Some(blocks), never))
    );
    assert_eq!(receive(100, 70), (None, None, at(1100)));
    assert_eq!(receive(900, 90), (None, None, at(1100)), "the first delayed segment counts");
    assert_eq!(receive(1200, 110), (Some(3), None, at(2200)), "both are reported together, three blocks fit");
    assert_eq!(receive(1300, 0), (None, Some(3), never), "the gap moves");
    let after_move = [1400, 1500, 1600].map(|time| receive(time, time).1);
    assert_eq!(after_move, [Some(3); 3], "three immediate reports for the new gap");
    assert_eq!(receive(1700, 1700), (None, None, at(2700)));
}

#[test]
fn the_block_that_changed_last_is_first() {
    // RFC 2018, section 4, case 3: the first, third, fifth and seventh of eight segments of 500 bytes are lost.
    let config = config(json!({ "recovery": { "kind": "sack" } }));
    let mut receiver = Receiver::new();
    receiver.on_segment(&data(0, 5000), || timer_context(Instant::START), &config);
    let mut seen = Vec::new();
    for from in [5500, 6500, 7500, 8500] {
        receiver.on_segment(&data(from, from + 500), || timer_context(Instant::START), &config);
        let segment = acknowledgement(&mut receiver, &config);
        assert_eq!(segment.ack, 5000);
        seen.push(segment.sacks.ranges(5000).collect::<Vec<_>>());
    }
    assert_eq!(seen[1], [(6500, 7000), (5500, 6000)]);
    assert_eq!(seen[3], [(8500, 9000), (7500, 8000), (6500, 7000)]);
    receiver.on_segment(&data(7000, 7500), || timer_context(Instant::START), &config);
    let blocks: Vec<_> = acknowledgement(&mut receiver, &config).sacks.ranges(5000).collect();
    assert_eq!(blocks, [(6500, 8000), (8500, 9000)]);
}

#[test]
fn duplicate_data_is_reported_once() {
    // RFC 2883, section 4: duplicate data is below the acknowledgement number or within a SACK block.
    let config = config(json!({ "recovery": { "kind": "sack" } }));
    let mut receiver = Receiver::new();
    let blocks = |receiver: &mut Receiver| {
        let segment = acknowledgement(receiver, &config);
        segment.sacks.ranges(segment.ack).collect::<Vec<_>>()
    };
    receiver.on_segment(&data(0, 3000), || timer_context(Instant::START), &config);
    receiver.on_segment(&data(1000, 2000), || timer_context(Instant::START), &config);
    assert_eq!(blocks(&mut receiver), [(1000, 2000)]);
    assert_eq!(blocks(&mut receiver), []);
    receiver.on_segment(&data(4000, 6000), || timer_context(Instant::START), &config);
    blocks(&mut receiver);
    receiver.on_segment(&data(4500, 5000), || timer_context(Instant::START), &config);
    assert_eq!(blocks(&mut receiver), [(4500, 5000), (4000, 6000)]);
}

#[test]
fn a_mark_is_echoed_until_the_window_was_reduced() {
    let config = config(json!({ "receiver": { "delayed_ack": "off" }, "ecn": { "mode": "on" } }));
    let mut receiver = Receiver::new();
    let mut echo = |from, ecn, flags| {
        receiver.on_segment(
            &Segment { ecn, flags, ..data(from, from + 1) },
            || timer_context(Instant::START),
            &config,
        );
        acknowledgement(&mut receiver, &config).flags.has(Flags::ECE)
    };
    assert!(!echo(0, Ecn::Ect0, Flags::ACK));
    assert!(echo(1, Ecn::Ce, Flags::ACK));
    assert!(echo(2, Ecn::Ect0, Flags::ACK));
    assert!(!echo(3, Ecn::Ect0, Flags::CWR));
    assert!(echo(4, Ecn::Ce, Flags::CWR), "marked again");
}

#[test]
fn a_duplicate_part_of_a_segment_is_reported() {
    let config = config(json!({ "recovery": { "kind": "sack" } }));
    let mut receiver = Receiver::new();
    for (from, to) in [(0, 3000), (2000, 4000)] {
        receiver.on_segment(&data(from, to), || timer_context(Instant::START), &config);
    }
    let segment = acknowledgement(&mut receiver, &config);
    assert_eq!((segment.ack, segment.sacks.ranges(4000).collect::<Vec<_>>()), (4000, vec![(2000, 3000)]));
}

#[test]
fn duplicate_data_is_still_reported_when_new_data_arrives() {
    let config = config(json!({ "recovery": { "kind": "sack" } }));
    let mut receiver = Receiver::new();
    for (from, to) in [(0, 3000), (5000, 6000), (1000, 2000), (3000, 4000)] {
        receiver.on_segment(&data(from, to), || timer_context(Instant::START), &config);
    }
    let blocks: Vec<_> = acknowledgement(&mut receiver, &config).sacks.ranges(4000).collect();
    assert_eq!(blocks, [(1000, 2000), (5000, 6000)]);
}

/// A receiver with adaptive acknowledgement delay that acknowledges the first two segments immediately. Segments are
/// numbered from 0.
struct AdaptiveReceiver {
    receiver: Receiver,
    config: Config,
}

impl AdaptiveReceiver {
    fn new() -> Self {
        let receiver = json!({ "delayed_ack": "adaptive", "quick_acks": 2 });
        let config = config(json!({ "receiver": receiver, "rto": { "tick": "10ms" } }));
        Self { receiver: Receiver::new(), config }
    }

    /// Returns whether a segment that arrives after `millis` milliseconds is acknowledged immediately.
    fn receive(&mut self, millis: u64, number: u64, flags: Flags) -> bool {
        let now = Instant::from_nanos(millis * 1_000_000);
        let segment = Segment { flags, ..data(1000 * number, 1000 * (number + 1)) };
        self.receiver.on_segment(&segment, || timer_context_of(&self.config, now), &self.config);
        let is_due = self.receiver.is_due();
        if is_due {
            acknowledgement(&mut self.receiver, &self.config);
        }
        is_due
    }
}

#[test]
fn only_a_pending_acknowledgement_uses_up_a_quick_one() {
    let mut receiver = AdaptiveReceiver::new();
    assert!(receiver.receive(10, 0, Flags::ACK));
    // A data segment of the receiver carries an acknowledgement that contains no new information.
    acknowledgement(&mut receiver.receiver, &receiver.config);
    assert!(receiver.receive(20, 1, Flags::ACK));
    assert!(!receiver.receive(30, 2, Flags::ACK));
}

#[test]
fn the_end_of_the_data_written_so_far_is_acknowledged_at_once() {
    let mut receiver = AdaptiveReceiver::new();
    assert_eq!([0, 1].map(|number| receiver.receive(10 * number, number, Flags::ACK)), [true; 2]);
    assert!(receiver.receive(20, 2, Flags::PUSH));
}

#[test]
fn old_data_makes_acknowledgements_quick_again() {
    let mut receiver = AdaptiveReceiver::new();
    assert_eq!([0, 1].map(|number| receiver.receive(10 * number, number, Flags::ACK)), [true; 2]);
    assert!(receiver.receive(20, 1, Flags::ACK), "the newest segment again");
    assert!(receiver.receive(30, 2, Flags::ACK), "the second of two quick ones");
    assert!(!receiver.receive(40, 3, Flags::ACK));
}

#[test]
fn a_segment_that_fills_a_gap_counts_as_data_in_order_and_one_that_opens_it_does_not() {
    // After a gap that is longer than the timeout of one second, the next two in-order segments are acknowledged
    // immediately.
    let mut filled_late = AdaptiveReceiver::new();
    let quick = [(10, 0), (20, 1), (30, 3), (1100, 2), (1110, 4), (1120, 5)];
    let quick = quick.map(|(millis, number)| filled_late.receive(millis, number, Flags::ACK));
    assert_eq!(quick, [true, true, true, true, true, false]);
    let mut opened_late = AdaptiveReceiver::new();
    let quick = [(10, 0), (20, 1), (1100, 3), (1110, 2), (1120, 4), (1130, 5)];
    let quick = quick.map(|(millis, number)| opened_late.receive(millis, number, Flags::ACK));
    assert_eq!(quick, [true, true, true, true, true, false]);
}

/// RFC 7323, section 4.3: an acknowledgement echoes the timestamp of the last segment that advanced the left edge of
/// the window.
#[test]
fn an_acknowledgement_echoes_the_first_segment_that_it_covers() {
    let config = config(json!({
       "receiver": { "delayed_ack": "every-second" }, "recovery": { "undo": "dsack-or-timestamps" }
    }));
    let mut receiver = Receiver::new();
    let mut receive = |from, to, sent| {
        let segment = Segment { sent: Instant::from_nanos(sent), ..data(from, to) };
        receiver.on_segment(&segment, || timer_context(Instant::START), &config);
        receiver.is_due().then(|| acknowledgement(&mut receiver, &config).echo.nanos())
    };
    assert_eq!(receive(0, 10, 1), None);
    assert_eq!(receive(10, 20, 2), Some(1), "the earliest that was not acknowledged");
    assert_eq!(receive(30, 40, 3), Some(1), "a segment beyond a gap is not echoed");
    assert_eq!(receive(20, 30, 9), Some(9), "a retransmission that fills the gap is");
    assert_eq!(receive(20, 30, 2), Some(9), "an older copy is not");
}
