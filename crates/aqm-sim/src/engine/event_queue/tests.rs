use aqm_net::Streams;
use proptest::prelude::*;

use super::*;
use crate::engine::event::{rank_of_link, rank_of_timer};
use crate::hosts::side::Side;

fn packet(id: u32) -> Packet {
    Packet { id, ..Packet::default() }
}

fn id(next: NextEvent, packet: Packet) -> u32 {
    match next {
        NextEvent::Packet | NextEvent::Processed => packet.id,
        NextEvent::Timer(Timer::End(Side::Sender, slot)) => slot,
        NextEvent::Timer(other) => panic!("no such timer was set: {other:?}"),
    }
}

/// Adds and removes events in random order, and compares the removed events with a sorted list.
fn agrees_with_a_sorted_list(seed: u64, spread: u64, reversed: bool, in_pairs: bool) {
    let mut rng = Streams::new(seed).named("event_queue", 0);
    let mut event_queue = EventQueue::new(reversed, LINK_LANES, in_pairs);
    let mut list: Vec<(Key, u32)> = Vec::new();
    let mut now = 0;
    for round in 0..2_000_u32 {
        for _ in 0..rng.below(4) {
            let time = now + rng.below(spread) * (1 + rng.below(3) * rng.below(spread));
            let (lane, at) = (rng.below(10) as u8, Instant::from_nanos(time));
            let number = list.len() as u32 + round * 16;
            // The links that share a lane have adjacent numbers. Links without a lane may have any number.
            let link =
                if lane < 8 { u32::from(lane) * 8 + rng.below(8) as u32 } else { rng.below(99) as u32 };
            let timer = Timer::End(Side::Sender, number);
            let rank = match lane {
                7 => rank_of_processing(link),
                9 => rank_of_timer(timer, link),
                _ => rank_of_link(link),
            };
            let key = Key::new(time, TieOrder::new(reversed).of_timer(rank));
            // A link does not deliver two packets at the same time.
            if list.iter().any(|(other, _)| *other == key) {
                continue;
            }
            match lane {
                7 => event_queue.put_processed(at, Packet { flow: link, ..packet(number) }),
                9 => event_queue.put_timer(at, rank, timer),
                8 => event_queue.put_packet(NO_LANE, at, rank, packet(number)),
                _ => {
                    let lane = event_queue.lanes(lane.into()).lane(rng.below(2) == 0);
                    event_queue.put_packet(lane, at, rank, packet(number));
                }
            }
            list.push((key, number));
        }
        for _ in 0..rng.below(4) {
            let until = now + rng.below(2 * spread);
            list.sort_by_key(|(key, _)| *key);
            let mut packet = packet(u32::MAX);
            match event_queue.next(Instant::from_nanos(until), &mut packet) {
                Some((at, due)) => {
                    let (key, number) = list.remove(0);
                    assert_eq!((at.nanos(), id(due, packet)), (key.time, number));
                    now = key.time;
                }
                None => {
                    assert!(list.first().is_none_or(|(key, _)| key.time > until));
                    now = until;
                }
            }
        }
    }
}

/// Removes packets in batches, with and without lanes. The packets have only a few distinct times, so that many ties
/// occur.
fn batches_agree_with_a_sorted_list(seed: u64, classes: usize, reversed: bool, in_pairs: bool) {
    let mut rng = Streams::new(seed).named("batches", 0);
    let mut event_queue = EventQueue::new(reversed, classes, in_pairs);
    let mut list: Vec<(Key, u32)> = Vec::new();
    let (mut now, mut number) = (0, 0);
    for _ in 0..400 {
        for _ in 0..rng.below(30) {
            let (time, class) = (now + 1 + rng.below(25), rng.below(classes as u64 + 1) as usize);
            let link = class as u32 * 8 + rng.below(8) as u32;
            let (lane, link) = match class < classes {
                true => (event_queue.lanes(class).lane(rng.below(2) == 0), link),
                false => (NO_LANE, rng.below(8 * classes as u64) as u32),
            };
            let key = Key::new(time, TieOrder::new(reversed).of_packet(rank_of_link(link)));
            if list.iter().all(|(other, _)| *other != key) {
                event_queue.put_packet(lane, Instant::from_nanos(time), rank_of_link(link), packet(number));
                list.push((key, number));
                number += 1;
            }
        }
        now += rng.below(20);
        list.sort_by_key(|(key, _)| *key);
        let due = list.partition_point(|(key, _)| key.time <= now);
        let expected: Vec<(u64, u32)> = list.drain(..due).map(|(key, number)| (key.time, number)).collect();
        let mut taken = Vec::new();
        let until = Instant::from_nanos(now);
        event_queue.take_packets(until, |at, packet| taken.push((at.nanos(), packet.id)));
        assert_eq!(taken, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn events_come_in_order_of_time_and_rank(
        seed: u64, exponent in 1..40_u32, reversed: bool, in_pairs: bool
    ) {
        agrees_with_a_sorted_list(seed, 1 << (exponent / 2), reversed, in_pairs);
    }

    #[test]
    fn batches_come_in_order_of_time_and_rank(
        seed: u64, classes in 1..LANES, reversed: bool, in_pairs: bool
    ) {
        batches_agree_with_a_sorted_list(seed, classes, reversed, in_pairs);
    }
}
