//! COBALT compared with ns-3: the cases of its test suite, and recorded packet sequences of ns-3.37.

use aqm_net::{Instant, Packet};
use aqm_queue::testing::{Driver, ect, packet};
use serde_json::{Value, json};

/// ns-3's COBALT; BLUE ignores sojourn times unless `more` sets `blue_threshold`.
fn ns3(more: Value) -> Driver {
    let mut table = json!({"kind": "cobalt", "profile": "ns-3", "start": "fresh", "blue_threshold": "60min"});
    table.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Driver::new(table, 1)
}

fn at(queue: &mut Driver, micros: u64) -> &mut Driver {
    queue.now = Instant::from_nanos(micros * 1000);
    queue
}

/// The fates of `count` arrivals every `gap_in` microseconds, with a dequeue every `gap_out` microseconds from 50 us
/// on.
fn constant(queue: &mut Driver, like: Packet, count: u64, [gap_in, gap_out, until]: [u64; 3]) -> Vec<String> {
    let (mut arrivals, mut services) = (0, 1);
    loop {
        let next_arrival = if arrivals < count { arrivals * gap_in } else { u64::MAX };
        let next_service = 50 + services * gap_out;
        if next_arrival.min(next_service) > until {
            break;
        }
        if next_arrival <= next_service {
            at(queue, next_arrival).offer(like);
            arrivals += 1;
        } else {
            at(queue, next_service).take();
            services += 1;
        }
    }
    let fates = queue.fates.list.iter().map(|fate| {
        let kind = if fate.is_mark { "m" } else { "d" };
        format!("{:.2}:{kind}{}", fate.at.nanos() as f64 / 1e6, fate.packet.id)
    });
    fates.collect()
}

#[track_caller]
fn assert_starts_with(fates: &[String], recorded: &str) {
    let recorded: Vec<&str> = recorded.split_whitespace().collect();
    assert_eq!(fates[..recorded.len().min(fates.len())], recorded);
}

#[test]
fn constant_overload_drops_the_packets_that_ns3_drops() {
    let mut queue = ns3(json!({}));
    let fates = constant(&mut queue, packet(1000), 5000, [1000, 1250, 5_000_000]);
    assert_starts_with(
        &fates,
        "120.05:d95 191.30:d153 248.80:d200 298.80:d241 343.80:d278 385.05:d312 422.55:d343 457.55:d372 491.30:d400 \
         522.55:d426 552.55:d451 581.30:d475 610.05:d499 636.30:d521 662.55:d543 687.55:d564 711.30:d584 735.05:d604 \
         757.55:d623 780.05:d642 801.30:d660 822.55:d678 843.80:d696 863.80:d713 883.80:d730 903.80:d747 923.80:d764 \
         942.55:d780 960.05:d795 978.80:d811",
    );
    assert_eq!((fates.len(), queue.queue.backlog().packets), (656, 345));
}

#[test]
fn constant_overload_marks_the_packets_that_ns3_marks() {
    let mut queue = ns3(json!({"ecn": true}));
    let fates = constant(&mut queue, ect(1000), 5000, [1000, 1250, 5_000_000]);
    assert_starts_with(
        &fates,
        "120.05:m95 191.30:m152 248.80:m198 298.80:m238 343.80:m274 385.05:m307 422.55:m337 457.55:m365 491.30:m392 \
         522.55:m417 552.55:m441 581.30:m464 610.05:m487 636.30:m508 662.55:m529 687.55:m549 711.30:m568 735.05:m587 \
         757.55:m605 780.05:m623 801.30:m640 822.55:m657 843.80:m674 863.80:m690 883.80:m706 903.80:m722 923.80:m738 \
         942.55:m753 960.05:m767 978.80:m782",
    );
    let counts = queue.fates.counts;
    assert_eq!((counts.marks, counts.overflow, queue.queue.backlog().packets), (655, 1, 1000));
}

#[test]
fn a_burst_loses_the_packets_that_ns3_drops() {
    let mut queue = ns3(json!({}));
    let fates = constant(&mut queue, packet(1000), 200, [0, 1000, 1_000_000]);
    assert_eq!(fates, ["105.05:d104", "176.05:d176"]);
}

#[test]
fn with_six_arrivals_and_seven_departures_no_packet_is_lost() {
    let mut queue = ns3(json!({"target": "4ms", "interval": "50ms"}));
    (0..6).for_each(|_| {
        queue.offer(packet(1000));
    });
    let ids: Vec<Option<u32>> = (0..7).map(|_| queue.take().map(|packet| packet.id)).collect();
    assert_eq!(ids, [Some(0), Some(1), Some(2), Some(3), Some(4), Some(5), None]);
    assert!(queue.fates.list.is_empty());
}

#[test]
fn an_overflow_raises_blues_probability() {
    let mut queue = ns3(json!({"limit": "100p"}));
    for k in 1..=200 {
        at(&mut queue, k * 10_000).offer(packet(1000));
    }
    assert_eq!(queue.fates.counts.overflow, 100);
    assert_eq!(queue.gauge("prob"), 100.0 / 256.0);
}

#[test]
fn marks_begin_after_the_interval_and_continue_while_packets_are_late() {
    // The number of ECN-capable packets, then the marks and drops after each dequeue. Calculated by hand: `drop_next`
    // is 267 ms, then it increases by 50, 45, 41 and 38 ms.
    for (capable, expected) in [(20, [(0, 0), (1, 0), (2, 0), (3, 0)]), (3, [(0, 0), (1, 0), (2, 0), (2, 4)])]
    {
        let mut queue = ns3(json!({"ecn": true, "limit": "500p"}));
        for k in 0..20 {
            queue.offer(if k < capable { ect(1000) } else { packet(1000) });
        }
        let counted = [10, 210, 210, 420].map(|millis| {
            at(&mut queue, millis * 1000).take();
            (queue.fates.counts.marks, queue.fates.counts.drops())
        });
        assert_eq!(counted, expected);
    }
}

#[test]
fn a_threshold_of_one_millisecond_marks_the_eleventh_packet() {
    // The interval between departures is 0.1 ms longer than that between arrivals, so the delay exceeds 1 ms from the
    // eleventh packet on.
    let mut queue = ns3(json!({"ecn": true, "ce_threshold": "1ms"}));
    for k in 1..=12_u64 {
        at(&mut queue, k * 1000).offer(ect(1000));
        at(&mut queue, k * 1100).take();
        assert_eq!(queue.fates.counts.marks, u64::from(k == 11) + 2 * u64::from(k == 12), "{k}");
    }
}

#[test]
fn long_sojourn_times_raise_blues_probability_sixty_times() {
    let drops: Vec<u64> = (1..=200)
        .map(|seed| {
            let mut queue = Driver::new(json!({"kind": "cobalt", "profile": "ns-3", "start": "fresh"}), seed);
            (0..200).for_each(|_| {
                queue.offer(ect(1000));
            });
            for k in 1..=100 {
                at(&mut queue, k * 10_000).take();
            }
            assert_eq!(queue.gauge("prob"), 60.0 / 256.0, "from the 41st dequeue on");
            queue.fates.counts.drops()
        })
        .collect();
    // ns-3 had 49 drops with one random stream: drops of CoDel alone, and the additional ones of BLUE.
    let mean = drops.iter().sum::<u64>() as f64 / 200.0;
    assert!((drops.iter().min(), drops.iter().max()) < (Some(&49), Some(&49)), "{drops:?}");
    assert!((mean - 49.0).abs() < 4.0, "{mean}");
    let mut queue = ns3(json!({"ecn": true}));
    (0..200).for_each(|_| {
        queue.offer(ect(1000));
    });
    for k in 1..=100 {
        at(&mut queue, k * 10_000).take();
    }
    assert_eq!((queue.gauge("prob"), queue.fates.counts.drops()), (0.0, 0));
}
