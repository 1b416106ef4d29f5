//! COBALT, the AQM of CAKE's flow queues, applied to a single queue. CoDel controls responsive flows, and BLUE controls
//! unresponsive flows.
//!
//! The algorithm is in `cobalt_core.rs`. Linux implements COBALT only as a part of CAKE (`net/sched/sch_cake.c`); in
//! ns-3, COBALT is a separate queue discipline (`CobaltQueueDisc`). The profile `linux` behaves like Linux 6.1's CAKE
//! with a single flow queue (`besteffort flowblind`):
//! - The inverse square root of a fresh queue's `count` is not set, so the first drop does not wait for the interval.
//! - BLUE's probability never decreases, and CoDel's `count` decreases only when packets leave. The kernel lowers the
//!   probability when it finds a flow queue empty while other flow queues are backlogged (`cobalt_queue_empty`). If all
//!   flow queues are empty, `cake_dequeue` returns before it examines any flow queue. In addition, the last packet of a
//!   flow queue is never dropped.
//! - On a slow link, `target` and `interval` increase: `target` increases to at least the transmission time of one and
//!   a half full packets, and `interval` increases by the same amount and is at least twice `target`. A packet is late
//!   only if its sojourn time exceeds the transmission time of four full packets.
//! - If a packet arrives while the buffer is full, the packet is admitted, and the oldest packet is dropped instead.
//! - CoDel marks ECN-capable packets, but BLUE drops them. The last queued packet is never dropped.
//!
//! The profile `ns-3` behaves like ns-3.37, and differs from the profile `linux` in these points:
//! - The first drop of a fresh queue waits for the interval. The link rate has no effect.
//! - A packet that arrives while the buffer is full is dropped. The last queued packet may be dropped.
//! - BLUE's probability decreases when the link dequeues from an empty queue. The probability also increases, at most
//!   once per `target`, when the sojourn time of a packet exceeds `blue_threshold`.
//!
//! `start` has the following effect. In a *settled* queue, the stored inverse square root is the one for a `count` of
//! 0, and BLUE's probability is 0 and may change at once. In a *fresh* queue with the profile `linux`, the inverse
//! square root is not set. In a *fresh* queue with the profile `ns-3`, BLUE's probability may not change before
//! `target` has passed, because `m_lastUpdateTimeBlue` is initially 0.
//!
//! The documentation of [`Config`], which is printed in the reference, lists the differences from the sources.

use std::ops::ControlFlow;

use aqm_net::{
    Backlog, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, Size, Span, choices, parameters,
};
use serde_json::{Value, json};

use crate::codel::cobalt_core::{Cobalt as Core, PacketState, Times};
use crate::start::Start;
use crate::{Build, Context, Derived, Describe, Fifo, Gauge, QueueDiscipline, Reason, Report, TestCases};

parameters! {
    /// COBALT: the combination of CoDel and BLUE that CAKE uses, applied to a single queue.
    ///
    /// Differences from Linux and ns-3:
    ///
    /// - BLUE's probability is a multiple of 2^-32; ns-3 uses floating point.
    /// - A packet that CoDel marks and BLUE drops is not counted as marked.
    /// - The L4S mode of ns-3 is not supported.
    pub struct Config {
        /// Implementation of COBALT.
        pub profile: Profile = Profile::Linux, "aqmlab's choice: the kernel used in the recorded runs";
        /// Maximum backlog, excluding the packet in transmission.
        pub limit: Length = Length::Packets(1000), "ns-3: 1000 packets of 1500 bytes; CAKE limits memory";
        /// Acceptable queueing delay, and minimum time between two changes of BLUE's probability.
        pub target: Span = Span::from_millis(5), "Linux, ns-3, RFC 8289";
        /// Time for which the queueing delay must stay above `target` before CoDel acts; about one round-trip time.
        pub interval: Span = Span::from_millis(100), "Linux, ns-3, RFC 8289";
        /// Size of a full packet. In the profile `linux`, `target` and `interval` increase with the transmission time
        /// of a full packet.
        pub mtu: Size = Size::from_bytes(1514), "Ethernet";
        /// Whether CoDel marks ECN-capable packets instead of dropping them. Default: true in the profile `linux`,
        /// false in `ns-3`.
        pub ecn: Option<bool> = None, "Linux: CAKE always marks; ns-3: off";
        /// Sojourn time above which a packet is marked, if `ecn` is on. Default: no packet is marked because of its
        /// sojourn time alone.
        pub ce_threshold: Option<Span> = None, "ns-3; Linux has no such threshold";
        /// Sojourn time above which a packet increases BLUE's probability. Default: 400ms in the profile `ns-3`, none
        /// in `linux`.
        pub blue_threshold: Option<Span> = None, "ns-3";
        /// State of the queue at the start of the run. `settled`: the queue has dropped packets before; in the profile
        /// `ns-3`, BLUE's probability may change at once. `fresh`: in the profile `linux`, the first drop does not wait
        /// for the interval, as in a newly created CAKE; in the profile `ns-3`, BLUE's probability may change only
        /// after `target` has passed.
        pub start: Start = Start::Settled, "aqmlab's choice";
    }
}

choices! {
    /// Implementation of COBALT.
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

    /// Returns COBALT's effective times on a link with the given rate.
    fn times(&self, rate: Rate) -> Times {
        let (target, interval) = (self.target.nanos(), self.interval.nanos());
        let ns3 = self.profile == Profile::Ns3;
        let blue = self.blue_threshold.or(ns3.then_some(Span::from_millis(400)));
        let blue_threshold = blue.map_or(u64::MAX, Span::nanos);
        if ns3 {
            return Times { target, interval, mtu_time: 0, blue_threshold };
        }
        let mtu_time = rate.pace().time_for(self.mtu.bytes()).nanos();
        Times { blue_threshold, ..Times::for_link(target, interval, mtu_time) }
    }
}

/// Maximum value of a time parameter: four hours, so that no sum of times overflows.
const MAX_TIME: Span = Span::from_millis(4 * 3_600_000);

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        errors.check(
            self.limit.count() > 0,
            "limit",
            format_args!("must be at least 1p or 1B (got {})", self.limit),
        );
        for (name, time) in [("target", self.target), ("interval", self.interval)] {
            let is_time = time > Span::from_nanos(0) && time <= MAX_TIME;
            errors.check(is_time, name, format_args!("must be above 0s and at most {MAX_TIME} (got {time})"));
        }
        let is_size = (1..=u64::from(u16::MAX)).contains(&self.mtu.bytes());
        errors.check(is_size, "mtu", format_args!("must be from 1B to 65535B (got {})", self.mtu));
        let is_linux = self.profile == Profile::Linux;
        errors.check_effect(is_linux, self, &["mtu"], "in the profile `ns-3`");
        let marks = self.ecn() || self.ce_threshold.is_none();
        errors.check(marks, "ce_threshold", "marks packets, so `ecn` must be true");
        errors.finish(())?;
        let ns3 = self.profile == Profile::Ns3;
        Ok(Box::new(Cobalt {
            core: match self.start {
                Start::Settled => Core::SETTLED,
                Start::Fresh if ns3 => Core::FRESH_NS3,
                Start::Fresh => Core::FRESH,
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

/// A COBALT queue: the algorithm's state, the parameters and the packets.
#[derive(Clone)]
struct Cobalt {
    core: Core,
    times: Times,
    fifo: Fifo<Instant>,
    ecn: bool,
    ce_threshold: u64,
    ns3: bool,
    /// Sojourn time of the packet that was removed last.
    ldelay: Span,
}

impl QueueDiscipline for Cobalt {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        if self.fifo.has_room_for(&packet) || self.make_room(&packet, cx) {
            self.fifo.push_with(packet, cx.now);
        } else {
            cx.drop(packet, Reason::Overflow);
        }
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        match self.try_next(cx) {
            ControlFlow::Break(packet) => packet,
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
    /// Returns the next packet, `None` if the queue is empty, or `Continue` if a packet was dropped.
    #[inline(always)]
    fn try_next(&mut self, cx: &mut Context<'_>) -> ControlFlow<Option<Packet>> {
        let now = cx.now.nanos() as i64;
        let Some((mut packet, arrival)) = self.fifo.pop_with() else {
            // If all flow queues are empty, CAKE returns before it examines any of them.
            if self.ns3 {
                self.core.on_empty(&self.times, now);
            }
            return ControlFlow::Break(None);
        };
        self.ldelay = cx.now.since(arrival);
        let sojourn = self.ldelay.nanos();
        let can_be_marked = self.ecn && packet.ecn.can_be_marked();
        let state = PacketState { sojourn, can_be_marked, bulk_flows: 0 };
        let verdict = self.core.decide(&self.times, now, state, || (cx.rng.bits() >> 32) as u32);
        if let Some(why) = verdict.drop.filter(|_| self.ns3 || self.fifo.front().is_some()) {
            cx.drop_on(packet, why, self.core.evidence(why));
            return ControlFlow::Continue(());
        }
        if verdict.mark {
            cx.mark(&mut packet, Reason::Sojourn);
        } else if can_be_marked && sojourn > self.ce_threshold {
            cx.mark(&mut packet, Reason::CeThreshold);
        }
        ControlFlow::Break(Some(packet))
    }

    /// Returns the next packet after a drop. The loop is a separate function because the first packet is usually not
    /// dropped.
    #[inline(never)]
    fn after_a_drop(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        loop {
            if let ControlFlow::Break(packet) = self.try_next(cx) {
                return packet;
            }
        }
    }

    /// Drops older packets until there is room for `packet`. Returns `false` if no older packet may be dropped.
    #[inline(never)]
    fn make_room(&mut self, packet: &Packet, cx: &mut Context<'_>) -> bool {
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
    fn a_full_buffer_drops_its_oldest_packet_in_linux_and_the_newest_in_ns3() {
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
            // The packets are delayed for so long that BLUE's probability becomes large.
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
    fn on_a_slow_link_the_times_of_linux_increase() {
        let target = |kbps: u64, profile: Profile| {
            let derived = Config { profile, ..Config::default() }.derived(Rate::from_bps(kbps * 1000));
            (derived[0].value * 1e6, derived[1].value * 1e6)
        };
        assert_eq!(target(2000, Profile::Linux), (9084.0, 104_084.0));
        assert_eq!(target(100_000, Profile::Linux), (5000.0, 100_000.0));
        assert_eq!(target(2000, Profile::Ns3), (5000.0, 100_000.0));
    }

    #[test]
    fn a_threshold_marks_regardless_of_codel() {
        let mut queue = driver(json!({"ce_threshold": "1ms", "target": "50ms", "ecn": true}));
        (0..2).for_each(|_| {
            queue.offer(ect(1000));
        });
        at_ms(&mut queue, 1);
        queue.take();
        assert_eq!(queue.fates.counts.marks, 0);
        at_ms(&mut queue, 2);
        queue.take();
        assert_eq!(queue.fates.list[0].why, Reason::CeThreshold);
    }
}
