//! COBALT, the discipline of CAKE's flows, with a queue for all: CoDel for senders that listen, BLUE for the others.
//!
//! The decisions are in `cobalt_core.rs`. Linux has COBALT only inside CAKE (`net/sched/sch_cake.c`), ns-3 as a
//! discipline of its own (`CobaltQueueDisc`). The profile `linux` is the only flow of Linux 6.1's CAKE
//! (`besteffort flowblind`):
//! - The root of a fresh queue is not set, so its first drop comes without the interval.
//! - BLUE's probability never falls, and CoDel's `count` falls only as packets leave. The kernel lowers the probability
//!   where it finds a flow empty while others wait (`cobalt_queue_empty`); with nothing waiting at all `cake_dequeue`
//!   returns before it looks at any flow, and the last packet of a flow is never dropped.
//! - On a slow line `target` and `interval` grow: `target` to at least one and a half packets of full size, `interval`
//!   by as much, and to at least twice `target`; and a packet must have waited for more than four of full size.
//! - A packet that finds the buffer full is admitted, and the oldest goes for it.
//! - What can be marked is marked, but BLUE drops it nevertheless. The last packet that waits is never dropped.
//!
//! The profile `ns-3` is that of ns-3.37, and differs:
//! - The first drop of a fresh queue waits for the interval. The rate of the line does not matter.
//! - A packet that finds the buffer full is dropped. The last one that waits may be.
//! - BLUE's probability falls when the line asks for a packet and none waits. It also rises when a packet waited for longer than `blue_threshold`, at most once per `target`.
//!
//! What `start` sets: a *settled* queue has a root, that of a `count` of 0, and BLUE, whose probability is 0, may move at
//! once. In a *fresh* one the root is missing (`linux`), or BLUE may not move before `target` has passed (`ns-3`, whose
//! `m_lastUpdateTimeBlue` is 0 at first).
//!
//! How it differs from its sources, and what it does where they are silent, stands in the documentation of
//! [`Config`], which the reference prints.

use std::ops::ControlFlow;

use aqm_net::{
    Backlog, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, Size, Span, choices, parameters,
};
use serde_json::{Value, json};

use crate::codel::cobalt_core::{Cobalt as Core, Judged, Times};
use crate::start::Start;
use crate::{Build, Context, Derived, Describe, Fifo, Gauge, QueueDiscipline, Reason, Report, TestCases};

parameters! {
    /// COBALT: CoDel and BLUE at once, as in CAKE, with one queue.
    ///
    /// Differences from Linux and ns-3:
    ///
    /// - The chances of BLUE are multiples of 2^-32, where ns-3 has floating point.
    /// - A packet that is to be marked and to be dropped is dropped and not counted as marked.
    /// - The mode of ns-3 for L4S does not exist here.
    pub struct Config {
        /// Whose COBALT this is.
        pub profile: Profile = Profile::Linux, "ours: the kernel of the recorded runs";
        /// The most that may wait; the packet on the line is not counted.
        pub limit: Length = Length::Packets(1000), "ns-3: 1000 packets of 1500 bytes; CAKE limits memory";
        /// The time in queue that is tolerated, and the least time between two steps of BLUE.
        pub target: Span = Span::from_millis(5), "Linux, ns-3, RFC 8289";
        /// How long packets may wait longer than that before CoDel acts, about a round trip.
        pub interval: Span = Span::from_millis(100), "Linux, ns-3, RFC 8289";
        /// The size of a full packet, for the rules of `linux` on slow lines.
        pub mtu: Size = Size::from_bytes(1514), "Ethernet";
        /// Whether CoDel marks packets that can be marked instead of dropping them. Left out: the profile's, true in
        /// `linux`, false in `ns-3`.
        pub ecn: Option<bool> = None, "Linux: CAKE always marks; ns-3: off";
        /// A packet that waited for longer is marked, if `ecn` allows it. Left out: none is.
        pub ce_threshold: Option<Span> = None, "ns-3; Linux has none";
        /// A packet that waited for longer raises BLUE's probability. Left out: the profile's, 400ms in `ns-3`, never
        /// in `linux`.
        pub blue_threshold: Option<Span> = None, "ns-3";
        /// Whether the queue has dropped before (`settled`), or the first drop comes without the interval, as in a CAKE that
        /// was just created. In `ns-3`: whether BLUE may move at once, or after `target`.
        pub start: Start = Start::Settled, "ours";
    }
}

choices! {
    /// Whose COBALT.
    pub enum Profile {
        /// A flow of CAKE in Linux 6.1.
        Linux = "linux",
        /// ns-3.37.
        Ns3 = "ns-3",
    }
}

impl Config {
    fn ecn(&self) -> bool {
        self.ecn.unwrap_or(self.profile == Profile::Linux)
    }

    /// The times that it goes by on a line of this rate.
    fn times(&self, rate: Rate) -> Times {
        let (target, interval) = (self.target.nanos(), self.interval.nanos());
        let ns3 = self.profile == Profile::Ns3;
        let blue = self.blue_threshold.or(ns3.then_some(Span::from_millis(400)));
        let blue_threshold = blue.map_or(u64::MAX, Span::nanos);
        if ns3 {
            return Times { target, interval, mtu_time: 0, blue_threshold };
        }
        let mtu_time = rate.pace().time_for(self.mtu.bytes()).nanos();
        Times { blue_threshold, ..Times::on_line(target, interval, mtu_time) }
    }
}

/// The longest times: four hours, so that no sum overflows.
const LONGEST: Span = Span::from_millis(4 * 3_600_000);

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        errors.check(self.limit.count() > 0, "limit", "must be at least 1p or 1B");
        for (name, time) in [("target", self.target), ("interval", self.interval)] {
            let is_time = time > Span::from_nanos(0) && time <= LONGEST;
            errors.check(is_time, name, format_args!("must be above 0s and at most {LONGEST}, not {time}"));
        }
        let is_size = (1..=u64::from(u16::MAX)).contains(&self.mtu.bytes());
        errors.check(is_size, "mtu", "must be from 1B to 65535B");
        let is_linux = self.profile == Profile::Linux;
        errors.check_effect(is_linux, self, &["mtu"], "in the profile `ns-3`");
        let marks = self.ecn() || self.ce_threshold.is_none();
        errors.check(marks, "ce_threshold", "marks, so `ecn` must be true");
        errors.finish(())?;
        let ns3 = self.profile == Profile::Ns3;
        Ok(Box::new(Cobalt {
            core: match self.start {
                Start::Settled => Core::SETTLED,
                Start::Fresh if ns3 => Core::UNUSED_IN_NS3,
                Start::Fresh => Core::UNUSED,
            },
            times: self.times(rate),
            fifo: Fifo::new(self.limit),
            ecn: self.ecn(),
            ce_threshold: self.ce_threshold.map_or(u64::MAX, Span::nanos),
            ns3,
            ldelay: Span::from_nanos(0),
        }))
    }
}

impl Describe for Config {
    fn derived(&self, rate: Rate) -> Vec<Derived> {
        let Times { target, interval, .. } = self.times(rate);
        let seconds = |nanos: u64| Span::from_nanos(nanos).seconds();
        vec![
            Derived::new("target", seconds(target), "s"),
            Derived::new("interval", seconds(interval), "s"),
            Derived::new("ecn", f64::from(u8::from(self.ecn())), ""),
        ]
    }
}

impl TestCases for Config {
    fn corners(&self) -> Vec<Value> {
        vec![
            json!({"limit": "9p"}),
            json!({"limit": "5001B", "target": "1ms", "interval": "3ms", "ecn": false}),
            json!({"limit": "60p", "ecn": true, "ce_threshold": "2ms", "target": "1ms", "interval": "500us"}),
            json!({"profile": "ns-3", "limit": "60p", "ecn": false, "blue_threshold": "10ms"}),
            json!({"profile": "ns-3", "limit": "5001B", "ecn": true, "target": "1ms", "interval": "1ms"}),
        ]
    }
}

/// The running discipline.
#[derive(Clone)]
struct Cobalt {
    core: Core,
    times: Times,
    fifo: Fifo<Instant>,
    ecn: bool,
    ce_threshold: u64,
    ns3: bool,
    /// How long the packet that was judged last had waited.
    ldelay: Span,
}

impl QueueDiscipline for Cobalt {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        if self.fifo.has_room_for(&packet) || self.makes_room(&packet, cx) {
            self.fifo.push_with(packet, cx.now);
        } else {
            cx.drop(packet, Reason::Overflow);
        }
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        match self.try_next(cx) {
            ControlFlow::Break(found) => found,
            ControlFlow::Continue(()) => self.after_a_drop(cx),
        }
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }
}

impl Report for Cobalt {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        show(Gauge::new("ldelay", self.ldelay.seconds(), "s"));
        show(Gauge::number("count", f64::from(self.core.count())));
        show(Gauge::number("dropping", f64::from(u8::from(self.core.is_dropping()))));
        show(Gauge::number("prob", self.core.p_drop()));
    }
}

impl Cobalt {
    /// The next packet, if it is not dropped; `None` if nothing waits.
    #[inline(always)]
    fn try_next(&mut self, cx: &mut Context<'_>) -> ControlFlow<Option<Packet>> {
        let now = cx.now.nanos() as i64;
        let Some((mut packet, came)) = self.fifo.pop_with() else {
            // CAKE returns before it looks at a flow.
            if self.ns3 {
                self.core.on_empty(&self.times, now);
            }
            return ControlFlow::Break(None);
        };
        self.ldelay = cx.now.since(came);
        let sojourn = self.ldelay.nanos();
        let can_be_marked = self.ecn && packet.ecn.can_be_marked();
        let judged = Judged { sojourn, can_be_marked, bulk_flows: 0 };
        let verdict = self.core.judge(&self.times, now, judged, || (cx.rng.bits() >> 32) as u32);
        if let Some(why) = verdict.drops.filter(|_| self.ns3 || self.fifo.front().is_some()) {
            cx.drop(packet, why);
            return ControlFlow::Continue(());
        }
        if verdict.marks {
            cx.mark(&mut packet, Reason::Sojourn);
        } else if can_be_marked && sojourn > self.ce_threshold {
            cx.mark(&mut packet, Reason::CeThreshold);
        }
        ControlFlow::Break(Some(packet))
    }

    /// The next packet after one that was dropped. A loop of its own: mostly the first packet is the one.
    #[inline(never)]
    fn after_a_drop(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        loop {
            if let ControlFlow::Break(found) = self.try_next(cx) {
                return found;
            }
        }
    }

    /// Whether there is room for `packet` once older ones have gone.
    #[inline(never)]
    fn makes_room(&mut self, packet: &Packet, cx: &mut Context<'_>) -> bool {
        while !self.fifo.has_room_for(packet) {
            self.core.on_overflow(&self.times, cx.now.nanos() as i64);
            let oldest = if self.ns3 { None } else { self.fifo.pop_with() };
            let Some((oldest, _)) = oldest else { return false };
            cx.drop(oldest, Reason::Overflow);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Driver, ect, packet};

    fn driver(more: Value) -> Driver {
        let mut table = json!({"kind": "cobalt", "start": "fresh"});
        table.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Driver::new(table, 1)
    }

    fn at_ms(queue: &mut Driver, millis: u64) {
        queue.now = Instant::from_nanos(millis * 1_000_000);
    }

    #[test]
    fn a_full_buffer_loses_its_oldest_packet_in_linux_and_the_newest_in_ns3() {
        for (profile, lost) in [("linux", [0, 1]), ("ns-3", [3, 4])] {
            let mut queue = driver(json!({"profile": profile, "limit": "3p"}));
            (0..5).for_each(|_| {
                queue.offer(packet(1000));
            });
            let dropped: Vec<u32> = queue.fates.dropped_packets().map(|packet| packet.id).collect();
            assert_eq!(dropped, lost, "{profile}");
        }
    }

    #[test]
    fn the_last_packet_is_never_dropped_in_linux_and_may_be_in_ns3() {
        for (profile, blue, drops) in [("linux", "1ms", 0), ("ns-3", "1ms", 1)] {
            let mut queue = driver(json!({"profile": profile, "blue_threshold": blue, "ecn": false}));
            let mut dropped = 0;
            // So late that BLUE is sure of it.
            for k in 1..400 {
                queue.offer(packet(1000));
                at_ms(&mut queue, k * 20);
                queue.take();
                dropped = u64::from(queue.fates.counts.drops() > 0);
            }
            assert_eq!(dropped, drops, "{profile}");
        }
    }

    #[test]
    fn on_a_slow_line_linux_has_more_patience() {
        let target = |kbps: u64, profile: Profile| {
            let derived = Config { profile, ..Config::default() }.derived(Rate::from_bps(kbps * 1000));
            (derived[0].value * 1e6, derived[1].value * 1e6)
        };
        assert_eq!(target(2000, Profile::Linux), (9084.0, 104_084.0));
        assert_eq!(target(100_000, Profile::Linux), (5000.0, 100_000.0));
        assert_eq!(target(2000, Profile::Ns3), (5000.0, 100_000.0));
    }

    #[test]
    fn a_threshold_marks_whatever_codel_does() {
        let mut queue = driver(json!({"ce_threshold": "1ms", "target": "50ms", "ecn": true}));
        (0..2).for_each(|_| {
            queue.offer(ect(1000));
        });
        at_ms(&mut queue, 1);
        queue.take();
        assert_eq!(queue.fates.counts.marks, 0);
        at_ms(&mut queue, 2);
        queue.take();
        assert_eq!(queue.fates.told[0].why, Reason::CeThreshold);
    }
}
