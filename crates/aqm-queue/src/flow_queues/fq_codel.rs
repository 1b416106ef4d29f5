//! FQ-CoDel: flow queueing in which each queue has its own CoDel.
//!
//! T. Høiland-Jørgensen, P. McKenney, D. Täht, J. Gettys, E. Dumazet, "The Flow Queue CoDel Packet Scheduler and Active
//! Queue Management Algorithm", RFC 8290, 2018; Linux 6.1's `net/sched/sch_fq_codel.c`. The scheduler is in
//! `flow_queues/lists.rs`, and the CoDel algorithm is in `codel/core.rs`. This file adds the behaviour in overload:
//! - An arriving packet is enqueued first. If the queues then contain more than `limit` packets, or use more memory
//!   than `memory_limit`, packets are dropped from the head of the queue with the most bytes, until half of this
//!   queue's bytes or `drop_batch` packets have been dropped.
//!
//! Differences between RFC 8290 and Linux:
//! - CoDel does not drop a packet if the backlog behind it is at most `mtu` bytes. For this rule, RFC 8289 counts the
//!   backlog of the packet's own queue, and Linux counts the backlog of all queues.
//! - In Linux, packets dropped because of overload increase CoDel's drop count in that queue, as if CoDel had dropped
//!   them.
//! - Further differences are listed in `codel/core.rs`.
//!
//! With the profile `linux`, `start` has an effect because the kernel's clock has 32 bits and wraps around after 73.3
//! minutes. CoDel treats its drop count as recent if the difference between the clock and the time of the last drop, as
//! a signed number, is less than 16 intervals (`codel_time_before`).
//! - *fresh*: the inverse square root is not set in any queue (`rec_inv_sqrt` is 0), and the stored time of the last
//!   drop is the clock value 0. The clock reads `age` when the run begins. A problem occurs if a queue loses packets
//!   because of overload before CoDel has dropped a packet of this queue, and if the clock then reads less than 16
//!   intervals, or between 36.7 and 73.3 minutes (half of all values). In this case, CoDel drops all packets of this
//!   queue until the time of the next drop has caught up with the current time. The kernel has the same problem in a
//!   queue that has never been used.
//! - *settled*: each queue has dropped packets before, the last one 16 intervals before the run. In each queue, CoDel
//!   treats the next drop as the first drop, regardless of the clock, so that `age` has no effect. As in the kernel, a
//!   queue in which CoDel does not drop a packet during 36.7 minutes of the run reaches the problematic half of the
//!   clock's range. If the queue's first drop in this half is due to overload, the drop rate changes.
//!
//! Differences from the sources, and choices where the sources are silent, are listed in the documentation of
//! [`Config`], which the reference prints.

use aqm_net::{
    Backlog, ConfigError, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, Size, Span, parameters,
};
use serde_json::{Value, json};

use crate::codel::core::{Codel, Control, Nanos, Profile, Settings, Source, Ticks, Time};
use crate::flow_queues::lists::{FlowQueues, Scheduler};
use crate::start::Start;
use crate::tc::Qdisc;
use crate::{Build, Context, Describe, Gauge, Label, QueueDiscipline, Reason, Report, TestCases};

parameters! {
    /// FQ-CoDel: assigns flows to queues by a hash; queues take turns, newly active queues are served first, and in
    /// each queue, CoDel drops packets that have waited too long.
    ///
    /// Differences from Linux and RFC 8290:
    ///
    /// - The hash is computed from the flow number and a salt drawn from the queue's random stream. The kernel hashes
    ///   addresses, ports and protocol.
    /// - A packet's memory is counted as the kernel counts a packet that is copied into a separate buffer: 2304 bytes
    ///   for a full Ethernet packet (`truesize`). With real network drivers, the memory of a packet may differ.
    /// - Flows are distinguished by the hash only: `tc` filters and the packets' class identifiers are not supported.
    /// - A queue's turn ends when its deficit is 0 or less, as in Linux. RFC 8290 ends the turn when the deficit is
    ///   negative.
    /// - Packets dropped because of `memory_limit` have a separate drop reason. As in the kernel, `drop_overlimit` also
    ///   counts these packets.
    /// - RFC 8290 does not state whether "half" of a queue means half of its packets or half of its bytes. aqmlab uses
    ///   bytes, as in Linux.
    pub struct Config {
        /// Parameters of CoDel, which apply to each queue.
        #[serde(flatten)]
        pub codel: Settings = Settings { ecn: true, ..Settings::default() };
        /// Parameters of the scheduler.
        #[serde(flatten)]
        pub scheduler: Scheduler = Scheduler::default();
        /// Maximum backlog of all queues together, in packets, excluding the packet in transmission.
        pub limit: Length = Length::Packets(10_240), "RFC 8290, Linux";
        /// Maximum memory used by the queued packets, as the kernel counts it: 2304 bytes for a full Ethernet packet.
        pub memory_limit: Size = Size::from_bytes(32 << 20), "RFC 8290, Linux";
        /// Maximum number of packets dropped at once when the queue is full.
        pub drop_batch: u32 = 64, "RFC 8290, Linux";
        /// State of the queue at the start of the run, which matters only with the profile `linux`. `settled`: each
        /// queue has dropped packets before, the last one 16 intervals before the run. `fresh`: no queue has ever been
        /// used.
        pub start: Start = Start::Settled, "aqmlab's choice";
        /// With `start = "fresh"`: time from the start of the machine to the start of the run. Default: 0s.
        pub age: Option<Span> = None, "aqmlab's choice";
    }
}

/// The smallest quantum that the kernel uses, in bytes.
const MIN_QUANTUM: u64 = 256;

impl Config {
    /// Returns the state of CoDel in each queue at the start of a run.
    fn control<T: Time>(&self) -> Control<T> {
        match self.start {
            Start::Settled => Control::settled(self.codel.interval),
            Start::Fresh => Control::fresh(self.age.unwrap_or(Span::ZERO)),
        }
    }
}

impl Build for Config {
    fn build(&self, _rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let is_valid = !self.limit.in_bytes() && self.limit.count() > 0;
        errors.check(is_valid, "limit", "must be at least 1p (in packets; memory_limit limits bytes)");
        errors.check(self.memory_limit.bytes() > 0, "memory_limit", "must be at least 1B");
        let least = if self.codel.profile == Profile::Linux { MIN_QUANTUM } else { 1 };
        self.scheduler.check(least, &mut errors);
        errors.check(self.drop_batch > 0, "drop_batch", "must be at least 1");
        self.codel.check(&mut errors);
        errors.check_effect(self.codel.profile == Profile::Linux, self, &["start"], "with profile = \"rfc\"");
        errors.check_effect(!self.start.is_settled(), self, &["age"], "with start = \"settled\"");
        errors.finish(())?;
        Ok(match self.codel.profile {
            Profile::Linux => Box::new(Running::<Ticks>::new(self)),
            Profile::Rfc => Box::new(Running::<Nanos>::new(self)),
        })
    }
}

impl Describe for Config {
    fn tc_options(&self, _rate: Rate) -> Option<Value> {
        let mut options = self.codel.tc_options("fq_codel");
        options["limit"] = json!(self.limit.count());
        self.scheduler.add_tc_options(&mut options);
        options["memory_limit"] = json!(self.memory_limit.bytes());
        options["drop_batch"] = json!(self.drop_batch);
        if self.codel.ce_threshold.is_some() {
            options["ce_threshold_selector"] = json!(self.codel.ce_threshold_selector);
            options["ce_threshold_mask"] = json!(self.codel.ce_threshold_mask);
        }
        Some(options)
    }

    fn tc(&self, _rate: Rate) -> Result<Qdisc, ConfigErrors> {
        let Settings { ce_threshold, ce_threshold_selector: selector, ce_threshold_mask: mask, .. } =
            self.codel;
        let limited = Qdisc::new("fq_codel").count("limit", self.limit.count());
        let scheduled = self.scheduler.add_tc(limited).count("memory_limit", self.memory_limit.bytes());
        let fq_codel = self.codel.add_tc(scheduled.count("drop_batch", self.drop_batch.into()));
        let selects = ce_threshold.is_some() && (selector, mask) != (0, 0);
        let fq_codel = if selects {
            fq_codel.with("ce_threshold_selector", format_args!("{selector:#x}/{mask:#x}"))
        } else {
            fq_codel
        };
        fq_codel.finish()
    }

    fn warnings(&self, rate: Rate) -> Vec<ConfigError> {
        let full = rate.pace().time_for(self.codel.mtu.bytes());
        let problem = format!(
            "is less than {full}, the transmission time of a full packet, which RFC 8290 recommends as a minimum"
        );
        let is_long = self.codel.target >= full;
        ConfigError::unless(is_long, "target", problem).err().into_iter().collect()
    }
}

impl TestCases for Config {
    fn has_flow_queues(&self) -> bool {
        true
    }

    fn corners(&self) -> Vec<Value> {
        let quick = |change: Value| {
            let mut table = json!({
                "target": "1ms", "interval": "8ms", "limit": "20p", "mtu": "0B", "flows": 3, "quantum": "300B",
            });
            table.as_object_mut().into_iter().zip(change.as_object()).for_each(|(t, c)| t.extend(c.clone()));
            table
        };
        vec![
            quick(json!({})),
            quick(json!({"ecn": false, "drop_batch": 2, "limit": "9p"})),
            quick(json!({"ecn": false, "limit": "30p", "flows": 1, "interval": "20ms", "start": "fresh"})),
            quick(json!({"limit": "30p", "flows": 1, "interval": "20ms", "start": "fresh", "age": "40min"})),
            quick(json!({"profile": "rfc", "quantum": "70B", "memory_limit": "20kB"})),
            quick(json!({"profile": "rfc", "flows": 1, "ecn": false, "ce_threshold": "500us"})),
            quick(
                json!({"ce_threshold": "0s", "ce_threshold_selector": 2, "ce_threshold_mask": 3, "drop_batch": 1}),
            ),
            json!({"profile": "rfc", "ecn": false}),
        ]
    }
}

/// An FQ-CoDel queue. `T` is the clock of the profile.
#[derive(Clone)]
struct Running<T: Time> {
    codel: Codel<T>,
    queues: FlowQueues<T, Control<T>>,
    limit: u64,
    memory_limit: u64,
    drop_batch: u32,
    profile: Profile,
    drop_overlimit: u64,
    drop_overmemory: u64,
}

impl<T: Time> Running<T> {
    fn new(config: &Config) -> Self {
        Self {
            codel: Codel::new(&config.codel),
            queues: FlowQueues::new(&config.scheduler, config.control()),
            limit: config.limit.count(),
            memory_limit: config.memory_limit.bytes(),
            drop_batch: config.drop_batch,
            profile: config.codel.profile,
            drop_overlimit: 0,
            drop_overmemory: 0,
        }
    }

    /// Drops packets from the queue with the most bytes.
    #[inline(never)]
    fn drop_from_fattest(&mut self, reason: Reason, cx: &mut Context<'_>) {
        let flow = self.queues.fattest();
        let half = self.queues.of(flow).bytes / 2;
        let (mut packets, mut bytes) = (0, 0);
        while packets == 0 || (packets < self.drop_batch && bytes < half) {
            let (packet, _) = self.queues.pop(flow).expect("half of the queue's bytes are left");
            packets += 1;
            bytes += u64::from(packet.bytes);
            cx.drop(packet, reason);
        }
        if self.profile == Profile::Linux {
            let count = &mut self.queues.aqm(flow).count;
            *count = count.wrapping_add(packets);
        }
        self.drop_overlimit += u64::from(packets);
        if reason == Reason::Overmemory {
            self.drop_overmemory += u64::from(packets);
        }
    }
}

/// The queue that is served, with the backlog that CoDel checks after it has removed a packet.
struct Turn<'a, T: Time> {
    queues: &'a mut FlowQueues<T, Control<T>>,
    flow: u32,
    profile: Profile,
}

impl<T: Time> Source<T> for Turn<'_, T> {
    #[inline(always)]
    fn take(&mut self) -> Option<(Packet, T)> {
        self.queues.pop(self.flow)
    }

    #[inline]
    fn bytes_behind(&self) -> u64 {
        match self.profile {
            Profile::Linux => self.queues.backlog().bytes,
            Profile::Rfc => self.queues.of(self.flow).bytes,
        }
    }
}

impl<T: Time> QueueDiscipline for Running<T> {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        let flow = self.queues.classify(&packet, cx.rng);
        self.queues.push(flow, packet, T::at(cx.now));
        if self.queues.memory() > self.memory_limit {
            self.drop_from_fattest(Reason::Overmemory, cx);
        } else if self.queues.backlog().packets > self.limit {
            self.drop_from_fattest(Reason::Overflow, cx);
        }
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        let Self { codel, queues, profile, .. } = self;
        queues.dequeue(|queues, flow| {
            let mut control = *queues.aqm(flow);
            let packet = codel.dequeue(&mut control, &mut Turn { queues, flow, profile: *profile }, cx);
            *queues.aqm(flow) = control;
            packet
        })
    }

    fn backlog(&self) -> Backlog {
        self.queues.backlog()
    }

    fn on_label(&mut self, number: u16, label: &Label) {
        self.codel.on_label(number, label);
    }
}

impl<T: Time> Report for Running<T> {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        show(Gauge::new("new_flows_len", self.queues.new_flows().into(), "flows"));
        show(Gauge::new("old_flows_len", self.queues.old_flows().into(), "flows"));
        show(Gauge::new("memory_used", self.queues.memory() as f64, "bytes"));
    }

    fn tc_statistics(&self, _now: Instant) -> Value {
        let mut statistics = json!({
            "maxpacket": self.codel.statistics.maxpacket,
            "drop_overlimit": self.drop_overlimit,
            "new_flow_count": self.queues.new_flow_count(),
            "ecn_mark": self.codel.statistics.ecn_mark,
            "new_flows_len": self.queues.new_flows(),
            "old_flows_len": self.queues.old_flows(),
        });
        let nonzero = [
            ("ce_mark", self.codel.statistics.ce_mark),
            ("memory_used", self.queues.memory()),
            ("drop_overmemory", self.drop_overmemory),
        ];
        for (name, value) in nonzero.into_iter().filter(|(_, value)| *value > 0) {
            statistics[name] = json!(value);
        }
        statistics
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::{Rng, Streams};

    use super::*;
    use crate::testing::Fates;

    /// CoDel as part of FQ-CoDel with a single flow, whose state the tests can read.
    struct SingleFlow<T: Time> {
        running: Running<T>,
        rng: Rng,
        fates: Fates,
    }

    impl<T: Time> SingleFlow<T> {
        fn new(profile: Profile) -> Self {
            let limit = Length::Packets(100);
            let codel = Settings { profile, ..Settings::default() };
            let scheduler = Scheduler { flows: 1, ..Scheduler::default() };
            let config = Config { codel, scheduler, limit, start: Start::Fresh, ..Config::default() };
            let rng = Streams::new(1).named("queue", 0);
            Self { running: Running::new(&config), rng, fates: Fates::default() }
        }

        fn with(&mut self, ms: u64, act: impl FnOnce(&mut Running<T>, &mut Context<'_>)) {
            let now = Instant::from_nanos(ms * 1_000_000);
            act(&mut self.running, &mut Context { now, rng: &mut self.rng, observer: &mut self.fates });
        }

        fn offer(&mut self, ms: u64, packets: u32) {
            let packet = Packet { bytes: 1000, ..Packet::default() };
            (0..packets).for_each(|_| self.with(ms, |running, cx| running.enqueue(packet, cx)));
        }

        /// Dequeues a packet and returns the number of packets that were dropped before it.
        fn take(&mut self, ms: u64) -> usize {
            let before = self.fates.list.len();
            self.with(ms, |running, cx| assert!(running.dequeue(cx).is_some()));
            self.fates.list.len() - before
        }

        fn count(&mut self) -> u32 {
            self.running.queues.aqm(0).count
        }
    }

    #[test]
    fn in_linux_overload_drops_count_for_codel() {
        let (mut linux, mut rfc) =
            (SingleFlow::<Ticks>::new(Profile::Linux), SingleFlow::<Nanos>::new(Profile::Rfc));
        linux.offer(2000, 101);
        rfc.offer(2000, 101);
        assert_eq!((linux.fates.counts.overflow, linux.count()), (51, 51));
        assert_eq!((rfc.fates.counts.overflow, rfc.count()), (51, 0));
    }

    /// CoDel's drop count is large, but the stored inverse square root is 0.
    #[test]
    fn shortly_after_boot_codel_drops_a_whole_queue_as_in_the_kernel() {
        for (start, dropped) in [(0, 45), (2000, 0)] {
            let mut linux = SingleFlow::<Ticks>::new(Profile::Linux);
            linux.offer(start, 101);
            let drops = [10, 111, 112].map(|ms| linux.take(start + ms));
            assert_eq!(drops, [0, 1, dropped]);
        }
    }
}
