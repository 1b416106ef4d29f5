//! FQ-CoDel: flow queueing, and CoDel for each flow.
//!
//! T. Høiland-Jørgensen, P. McKenney, D. Täht, J. Gettys, E. Dumazet, "The Flow Queue CoDel Packet Scheduler and
//! Active Queue Management Algorithm", RFC 8290, 2018; Linux 6.1's `net/sched/sch_fq_codel.c`. Which packet is next
//! is in `flow_queues.rs`, what CoDel drops in `codel_core.rs`. Here is what happens when there is no room:
//! - A packet joins first. If now more than `limit` packets wait, or they take more than `memory_limit`, packets
//!   are dropped from the front of the queue with the most bytes, until half of its bytes are gone or `drop_batch`
//!   packets.
//!
//! How the two differ:
//! - CoDel drops nothing that leaves at most `mtu` bytes behind: in RFC 8289 in its own queue, in Linux in all queues
//!   together.
//! - In Linux packets dropped for want of room count for CoDel in that queue, as if it had dropped them.
//! - What `codel_core.rs` says.
//!
//! What `start` sets, with the profile `linux`: the kernel's clock has 32 bits and goes round in 73.3 minutes. CoDel
//! takes what it has counted for recent if the clock, less the time of the last drop, is less than 16 intervals, as
//! numbers with a sign (`codel_time_before`).
//! - *fresh*: no queue has a root (`rec_inv_sqrt` 0), and the last drop was when the clock read 0. The clock reads `age`
//!   as the run begins. If packets are dropped for want of room before CoDel first drops in a queue, and the clock reads
//!   less than 16 intervals, or between 36.7 and 73.3 minutes (half of all values), CoDel drops all it finds in that
//!   queue until it has caught up. The kernel does so in a queue that was never used.
//! - *settled*: each queue has dropped and did so last 16 intervals before the run. It begins again with the first drop
//!   whatever the clock reads, so `age` has no effect. A queue in which CoDel drops nothing for 36.7 minutes of the run
//!   meets the same half of the clock, as in the kernel. Then a first drop for want of room does change its rate.
//!
//! How it differs from its sources, and what it does where they are silent, stands in the documentation of
//! [`Config`], which the reference prints.

use aqm_net::{
    Backlog, ConfigError, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, Size, Span, choices,
    parameters,
};
use serde_json::{Value, json};

use crate::codel::core::{Codel, Control, Nanos, Settings, Source, Ticks, Time};
use crate::flow_queues::lists::{FlowQueues, MOST_FLOWS};
use crate::start::Start;
use crate::{Build, Context, Describe, Gauge, Label, QueueDiscipline, Reason, Report, TestCases};

parameters! {
    /// FQ-CoDel: hashed queues take turns, those that have just begun to be used first, and CoDel drops in each what
    /// waited too long.
    ///
    /// Differences from Linux and RFC 8290:
    ///
    /// - The hash is over the number of the flow and a salt from the random stream of the queue. The kernel hashes
    ///   addresses, ports and protocol.
    /// - What a packet takes of memory is counted as the kernel counts a packet that is copied into memory of its own:
    ///   2304 bytes for a full packet of Ethernet (`truesize`). Drivers differ.
    /// - Flows are told apart by the hash only: there are no filters of `tc` and no class identifiers of packets.
    /// - A queue that has sent all its credit gives its turn away at a credit of 0 or less, as in Linux; RFC 8290 says
    ///   when it is negative.
    /// - Packets dropped because of `memory_limit` have a reason of their own. `drop_overlimit` counts them, too, as in
    ///   the kernel.
    /// - RFC 8290 leaves open whether half of a queue is half of its packets or of its bytes: it is half of its bytes,
    ///   as in Linux.
    pub struct Config {
        /// Whose FQ-CoDel this is.
        pub profile: Profile = Profile::Linux, "ours: the kernel of the recorded runs";
        /// The time in queue that may stand for good.
        pub target: Span = Span::from_millis(5), "RFC 8290, Linux";
        /// How long packets must have waited too long before one is dropped; about the longest round trip.
        pub interval: Span = Span::from_millis(100), "RFC 8290, Linux";
        /// The queues that flows are hashed into.
        pub flows: u32 = 1024, "RFC 8290, Linux";
        /// Bytes that a turn is worth.
        pub quantum: Size = Size::from_bytes(1514), "RFC 8290, Linux: a full packet of Ethernet";
        /// The most packets that may wait, all queues together; the packet on the line is not counted.
        pub limit: Length = Length::Packets(10_240), "RFC 8290, Linux";
        /// The most memory that they may take, as the kernel counts it: 2304 bytes for a full packet.
        pub memory_limit: Size = Size::from_bytes(32 << 20), "RFC 8290, Linux";
        /// The most packets that are dropped at once when there is no room.
        pub drop_batch: u32 = 64, "RFC 8290, Linux";
        /// Whether packets that can be marked are marked instead of dropped, as long as there is room.
        pub ecn: bool = true, "RFC 8290, Linux";
        /// Packets that waited for longer are marked if they can be, with `ecn` or without. Left out: none are.
        pub ce_threshold: Option<Span> = None, "RFC 8290, Linux";
        /// `ce_threshold` is for packets only whose DS field (DSCP and ECN) has these bits under `ce_threshold_mask`: 1
        /// with a mask of 3 for those with ECT(1).
        pub ce_threshold_selector: u32 = 0, "Linux: tc-fq_codel";
        /// The bits of the DS field that must be those of `ce_threshold_selector`; 0 for all packets.
        pub ce_threshold_mask: u32 = 0, "Linux: tc-fq_codel";
        /// Nothing is dropped that leaves no more than so many bytes behind: a full packet.
        pub mtu: Size = Size::from_bytes(1514), "Linux: psched_mtu, of Ethernet";
        /// Whether each queue has dropped before, 16 intervals before the run (`settled`), or no queue was ever used. Makes
        /// a difference with the profile `linux` only.
        pub start: Start = Start::Settled, "ours";
        /// What the kernel's clock reads as a run begins with `start = "fresh"`: the time since the machine was started.
        /// Left out: 0s.
        pub age: Option<Span> = None, "ours";
    }
}

choices! {
    /// Whose FQ-CoDel.
    pub enum Profile {
        /// Linux 6.1, to the bit of its arithmetic.
        Linux = "linux",
        /// RFC 8290 with RFC 8289.
        Rfc = "rfc",
    }
}

/// The least quantum that the kernel uses, and the greatest that it takes.
const QUANTA: [u64; 2] = [256, 1 << 20];

impl Config {
    /// What CoDel remembers of a queue as a run begins.
    fn control<T: Time>(&self) -> Control<T> {
        match self.start {
            Start::Settled => Control::settled(self.interval),
            Start::Fresh => Control::fresh(self.age.unwrap_or(Span::ZERO)),
        }
    }

    fn settings(&self) -> Settings {
        let Self { target, interval, mtu, ecn, .. } = *self;
        let Self { ce_threshold, ce_threshold_selector, ce_threshold_mask, .. } = *self;
        Settings { target, interval, mtu, ecn, ce_threshold, ce_threshold_selector, ce_threshold_mask }
    }
}

impl Build for Config {
    fn build(&self, _rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let is_right = !self.limit.in_bytes() && self.limit.count() > 0;
        errors.check(is_right, "limit", "must be at least 1p, and in packets: memory_limit counts bytes");
        errors.check(self.memory_limit.bytes() > 0, "memory_limit", "must be at least 1B");
        let problem = format_args!("must be from 1 to {MOST_FLOWS}");
        errors.check((1..=MOST_FLOWS).contains(&self.flows), "flows", problem);
        let [least, most] = QUANTA;
        let least = if self.profile == Profile::Linux { least } else { 1 };
        let problem = format_args!("must be from {least}B to {most}B, not {}", self.quantum);
        errors.check((least..=most).contains(&self.quantum.bytes()), "quantum", problem);
        errors.check(self.drop_batch > 0, "drop_batch", "must be at least 1");
        self.settings().check(&mut errors);
        errors.check_effect(self.profile == Profile::Linux, self, &["start"], "with profile = \"rfc\"");
        errors.check_effect(!self.start.is_settled(), self, &["age"], "with start = \"settled\"");
        errors.finish(())?;
        Ok(match self.profile {
            Profile::Linux => Box::new(Running::<Ticks>::new(self)),
            Profile::Rfc => Box::new(Running::<Nanos>::new(self)),
        })
    }
}

impl Describe for Config {
    fn tc_options(&self, _rate: Rate) -> Option<Value> {
        let mut options = self.settings().tc_options("fq_codel");
        options["limit"] = json!(self.limit.count());
        options["flows"] = json!(self.flows);
        options["quantum"] = json!(self.quantum.bytes());
        options["memory_limit"] = json!(self.memory_limit.bytes());
        options["drop_batch"] = json!(self.drop_batch);
        if self.ce_threshold.is_some() {
            options["ce_threshold_selector"] = json!(self.ce_threshold_selector);
            options["ce_threshold_mask"] = json!(self.ce_threshold_mask);
        }
        Some(options)
    }

    fn warnings(&self, rate: Rate) -> Vec<ConfigError> {
        let full = rate.pace().time_for(self.mtu.bytes());
        let problem =
            format!("is less than the {full} that a full packet takes: RFC 8290 asks for at least that");
        let is_long = self.target >= full;
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

/// The running discipline, with the clock of a profile.
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
            codel: Codel::new(&config.settings()),
            queues: FlowQueues::new(config.flows, config.quantum.bytes(), config.control()),
            limit: config.limit.count(),
            memory_limit: config.memory_limit.bytes(),
            drop_batch: config.drop_batch,
            profile: config.profile,
            drop_overlimit: 0,
            drop_overmemory: 0,
        }
    }

    /// Makes room at the queue with the most bytes.
    #[inline(never)]
    fn drop_from_fattest(&mut self, reason: Reason, cx: &mut Context<'_>) {
        let flow = self.queues.fattest();
        let half = self.queues.of(flow).bytes / 2;
        let (mut packets, mut bytes) = (0, 0);
        while packets == 0 || (packets < self.drop_batch && bytes < half) {
            let (packet, _) = self.queues.pop(flow).expect("half of its bytes are left");
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

/// A queue, and what of the backlog behind a packet CoDel looks at.
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
        let mut told = json!({
            "maxpacket": self.codel.statistics.maxpacket,
            "drop_overlimit": self.drop_overlimit,
            "new_flow_count": self.queues.new_flow_count(),
            "ecn_mark": self.codel.statistics.ecn_mark,
            "new_flows_len": self.queues.new_flows(),
            "old_flows_len": self.queues.old_flows(),
        });
        let unless_nought = [
            ("ce_mark", self.codel.statistics.ce_mark),
            ("memory_used", self.queues.memory()),
            ("drop_overmemory", self.drop_overmemory),
        ];
        for (name, value) in unless_nought.into_iter().filter(|(_, value)| *value > 0) {
            told[name] = json!(value);
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::{Rng, Streams};

    use super::*;
    use crate::testing::Fates;

    /// A queue for a single flow, whose state can be seen.
    struct Alone<T: Time> {
        running: Running<T>,
        rng: Rng,
        fates: Fates,
    }

    impl<T: Time> Alone<T> {
        fn new(profile: Profile) -> Self {
            let limit = Length::Packets(100);
            let config =
                Config { profile, flows: 1, limit, ecn: false, start: Start::Fresh, ..Config::default() };
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

        /// Takes a packet, and counts the drops before it.
        fn take(&mut self, ms: u64) -> usize {
            let before = self.fates.told.len();
            self.with(ms, |running, cx| assert!(running.dequeue(cx).is_some()));
            self.fates.told.len() - before
        }

        fn count(&mut self) -> u32 {
            self.running.queues.aqm(0).count
        }
    }

    #[test]
    fn in_linux_what_is_dropped_for_want_of_room_counts_for_codel() {
        let (mut linux, mut rfc) = (Alone::<Ticks>::new(Profile::Linux), Alone::<Nanos>::new(Profile::Rfc));
        linux.offer(2000, 101);
        rfc.offer(2000, 101);
        assert_eq!((linux.fates.counts.overflow, linux.count()), (51, 51));
        assert_eq!((rfc.fates.counts.overflow, rfc.count()), (51, 0));
    }

    /// CoDel thinks that it has dropped so often before, but has no root to go by.
    #[test]
    fn right_after_the_start_such_a_queue_is_dropped_whole_as_in_a_kernel_right_after_its_start() {
        for (start, dropped) in [(0, 45), (2000, 0)] {
            let mut linux = Alone::<Ticks>::new(Profile::Linux);
            linux.offer(start, 101);
            let drops = [10, 111, 112].map(|ms| linux.take(start + ms));
            assert_eq!(drops, [0, 1, dropped]);
        }
    }
}
