//! Events in order of time, ties by the one written rule.
//!
//! Packets over links of the same delay mostly arrive in the order they were sent, so they wait in
//! a few shared first-in-first-out lanes; an entry that would break a lane's order, and every
//! alarm, goes to the exact wheel behind them. Taking the next event compares the heads of the
//! lanes and asks the wheel only for what lies before them.
//!
//! **The tie rule.** At the same nanosecond, packets come before alarms; packets in the order of
//! the numbers of the links they came over, then packets that a host was still working on, by
//! number of their flow; alarms of flows by number of the flow, then those of workloads by
//! position in the scenario; samplers look last. The rule knows nothing of lanes and wheels, so
//! every engine that obeys it gives the same run.

use std::collections::VecDeque;

use aqm_net::{Instant, Packet};

use crate::wheel::Wheel;

/// How many lanes there are; what finds no lane uses the wheel.
pub(crate) const LANES: usize = 8;

/// The lane of those that have none.
pub(crate) const NO_LANE: u8 = LANES as u8;

/// When an event is due, and its place among those of the same nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) time: u64,
    pub(crate) rank: u32,
}

impl Key {
    const NEVER: Self = Self { time: u64::MAX, rank: u32::MAX };
}

/// Something that happens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A packet reaches the end of the link `hop` names, or a host is through with it.
    Packet(Packet),
    /// Somebody asked to be told.
    Alarm(Alarm),
}

/// Who asked to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alarm {
    /// The sender of the flow in this slot.
    Sender(u32),
    /// The receiver of the flow in this slot.
    Receiver(u32),
    /// The workload at this position.
    Workload(u32),
    /// The measurement begins.
    WarmUp,
    /// The queues are sampled.
    Sample,
}

const PROCESSING: u32 = 1 << 30;
const ALARMS: u32 = 1 << 31;
const WORKLOADS: u32 = ALARMS | 1 << 30;
/// No rank reaches the greatest number: as a limit, that lies behind all of them.
const SAMPLERS: u32 = u32::MAX - 2;

/// The place among ties of a packet that comes over `link`.
pub(crate) const fn rank_of_link(link: u32) -> u32 {
    link
}

/// The place among ties of a packet of `flow` that a host is through with.
pub(crate) const fn rank_of_processing(flow: u32) -> u32 {
    PROCESSING | (flow & (PROCESSING - 1))
}

/// The place among ties of an alarm of the flow with this number, of the workload at this
/// position, or of a sampler.
pub(crate) const fn rank_of_alarm(alarm: Alarm, flow: u32) -> u32 {
    match alarm {
        Alarm::Sender(_) | Alarm::Receiver(_) => ALARMS | (flow & (PROCESSING - 1)),
        Alarm::Workload(position) => WORKLOADS | position,
        Alarm::WarmUp => SAMPLERS,
        Alarm::Sample => SAMPLERS + 1,
    }
}

/// The order of a run's ties: the rule, or the rule upside down to see how much ties matter.
pub(crate) const fn with_ties(rank: u32, reversed: bool) -> u32 {
    // Samplers look last either way.
    if reversed && rank < SAMPLERS { SAMPLERS - 1 - rank } else { rank }
}

struct Entry {
    key: Key,
    packet: Packet,
}

#[derive(Default)]
struct Lane {
    waiting: VecDeque<Entry>,
    tail: Option<Key>,
}

/// All that is due.
pub(crate) struct Agenda {
    heads: [u64; LANES],
    lanes: [Lane; LANES],
    wheel: Wheel,
    reversed: bool,
    taken: u64,
}

impl Agenda {
    pub(crate) fn new(reversed: bool) -> Self {
        Self {
            heads: [u64::MAX; LANES],
            lanes: Default::default(),
            wheel: Wheel::new(),
            reversed,
            taken: 0,
        }
    }

    /// How many events were taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// A packet is due at `at`; `lane` is where those like it wait.
    #[inline]
    pub(crate) fn put_packet(&mut self, lane: u8, at: Instant, rank: u32, packet: Packet) {
        let key = Key { time: at.nanos(), rank: with_ties(rank, self.reversed) };
        if let Some(queue) = self.lanes.get_mut(lane as usize)
            && queue.tail.is_none_or(|tail| key >= tail)
        {
            queue.tail = Some(key);
            if queue.waiting.is_empty() {
                self.heads[lane as usize] = key.time;
            }
            queue.waiting.push_back(Entry { key, packet });
        } else {
            self.wheel.push(key, Event::Packet(packet));
        }
    }

    /// An alarm is due at `at`.
    pub(crate) fn put_alarm(&mut self, at: Instant, rank: u32, alarm: Alarm) {
        let key = Key { time: at.nanos(), rank: with_ties(rank, self.reversed) };
        self.wheel.push(key, Event::Alarm(alarm));
    }

    /// Takes the next event, unless it lies after `until`; then the time has come to `until`.
    #[inline]
    pub(crate) fn next(&mut self, until: Instant) -> Option<(Instant, Event)> {
        let (first, lane) = self.first_lane();
        let limit = first.min(Key { time: until.nanos(), rank: u32::MAX });
        if let Some((key, event)) = self.wheel.pop_before(limit) {
            self.taken += 1;
            return Some((Instant::from_nanos(key.time), event));
        }
        if first.time > until.nanos() {
            return None;
        }
        let queue = &mut self.lanes[lane];
        let entry = queue.waiting.pop_front()?;
        match queue.waiting.front() {
            Some(next) => self.heads[lane] = next.key.time,
            None => {
                self.heads[lane] = u64::MAX;
                // An empty lane takes anything again.
                queue.tail = None;
            }
        }
        self.taken += 1;
        Some((Instant::from_nanos(entry.key.time), Event::Packet(entry.packet)))
    }

    /// The lane whose head is due first, and that head's key.
    #[inline]
    fn first_lane(&self) -> (Key, usize) {
        let [a, b, c, d, e, f, g, h] = self.heads;
        let earliest = a.min(b).min(c.min(d)).min(e.min(f).min(g.min(h)));
        if earliest == u64::MAX {
            return (Key::NEVER, 0);
        }
        let mut first = (Key::NEVER, 0);
        for (lane, &head) in self.heads.iter().enumerate() {
            if head == earliest {
                let key = self.lanes[lane].waiting.front().map_or(Key::NEVER, |entry| entry.key);
                if key < first.0 {
                    first = (key, lane);
                }
            }
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Streams;
    use proptest::prelude::*;

    use super::*;

    fn packet(id: u32) -> Packet {
        Packet { id, ..Packet::default() }
    }

    fn id(event: Event) -> u32 {
        match event {
            Event::Packet(packet) => packet.id,
            Event::Alarm(Alarm::Sender(slot)) => slot,
            Event::Alarm(other) => panic!("no such alarm was set: {other:?}"),
        }
    }

    /// Pushes and pops at random; what comes out must be what a sorted list gives.
    fn agrees_with_a_sorted_list(seed: u64, spread: u64, reversed: bool) {
        let mut rng = Streams::new(seed).named("agenda", 0);
        let mut agenda = Agenda::new(reversed);
        let mut list: Vec<(Key, u32)> = Vec::new();
        let mut now = 0;
        for round in 0..2_000_u32 {
            for _ in 0..rng.below(4) {
                let time = now + rng.below(spread) * (1 + rng.below(3) * rng.below(spread));
                let (lane, at) = (rng.below(10) as u8, Instant::from_nanos(time));
                let number = list.len() as u32 + round * 16;
                let rank = if lane == 9 {
                    let rank = rank_of_alarm(Alarm::Sender(number), lane.into());
                    agenda.put_alarm(at, rank, Alarm::Sender(number));
                    rank
                } else {
                    agenda.put_packet(lane, at, rank_of_link(lane.into()), packet(number));
                    lane.into()
                };
                list.push((Key { time, rank: with_ties(rank, reversed) }, number));
            }
            for _ in 0..rng.below(4) {
                let until = now + rng.below(2 * spread);
                list.sort_by_key(|(key, _)| *key);
                match agenda.next(Instant::from_nanos(until)) {
                    Some((at, event)) => {
                        let (key, number) = list.remove(0);
                        assert_eq!((at.nanos(), id(event)), (key.time, number));
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

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn events_come_in_order_of_time_and_rank(seed: u64, exponent in 1..40_u32, reversed: bool) {
            agrees_with_a_sorted_list(seed, 1 << (exponent / 2), reversed);
        }
    }
}
