//! Fair queueing: a queue for each flow, a buffer shared by all flows, and an order in which flows send.
//!
//! Each scheduler has a file with its [`Order`] and its own parameters. This folder also contains the parts that all
//! schedulers share: [`Fair`] is the discipline, [`classifier`] assigns packets to flows, [`flows`] stores the packets,
//! [`shared_buffer`] selects the flow that loses a packet when the buffer is full, and [`child`] contains a separate
//! discipline for each flow.
//!
//! The choices that aqmlab makes where the papers are silent apply to all schedulers. The `scheduler!` macro adds a
//! list of these choices to the documentation of each `Config`, which is part of the reference.

mod child;
pub(crate) mod classifier;
pub(crate) mod drr;
pub(crate) mod flows;
pub(crate) mod heap;
pub(crate) mod longest;
mod order;
pub(crate) mod pfq;
mod random_long;
pub(crate) mod ring;
pub(crate) mod rr;
pub(crate) mod scfq;
mod shared_buffer;
pub(crate) mod stfq;
mod tags;
pub(crate) mod wfq;

use aqm_net::{
    Backlog, ConfigError, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, Rng, Span, parameters,
};
use serde_json::{Value, json};

use crate::red::red;
use crate::start::Start;
use crate::{Config, Context, Gauge, Label, QueueDiscipline, Reason, Report};
use child::Children;
use classifier::Classifier;
use flows::{Dequeued, Flows};
use order::{Head, Loss, Order};
use shared_buffer::{DropFrom, SharedBuffer};
use tags::Unit;

/// Declares the `Config` of a scheduler, and implements `Build`. In `Config`, the scheduler's own parameters precede
/// the common parameters. `Config::order` checks the scheduler's own parameters and returns its [`Order`].
macro_rules! scheduler {
    ( $(#[doc = $about:literal])+ pub struct Config { $($own:tt)* } ) => {
        ::aqm_net::parameters! {
            $(#[doc = $about])+
            ///
            /// aqmlab's choices where the papers are silent:
            ///
            /// - The limit applies to all flows together and does not count the packet in transmission.
            /// - When a packet arrives at a flow's empty queue, the flow is assigned the weight of this packet's class.
            ///   The flow keeps this weight until its queue becomes empty again.
            /// - A flow is not charged for a dropped packet. The flow's next packet is served instead.
            /// - If a flow has a `child`, and the shared buffer drops a packet from the front of the flow, the child
            ///   treats this packet as sent.
            /// - Queue lengths are compared in the unit of the limit, bytes or packets. An arriving packet is enqueued
            ///   before the lengths are compared, so the packet's own flow may lose a packet if this flow's queue is
            ///   one of the longest. Packets are dropped one at a time until the backlog is within the limit. Before
            ///   each further drop, the queue lengths are compared again.
            /// - The hash that selects one of the `buckets` is computed from the flow number and a salt that is drawn
            ///   from the queue's random stream.
            pub struct Config {
                $($own)*
                /// Parameters common to all schedulers.
                #[serde(flatten)]
                pub common: $crate::fair::Common = $crate::fair::Common::default();
            }
        }

        impl $crate::Build for Config {
            fn build(
                &self,
                rate: ::aqm_net::Rate,
            ) -> Result<Box<dyn $crate::QueueDiscipline>, ::aqm_net::ConfigErrors> {
                self.common.build(|unit| self.order(unit, rate), rate)
            }
        }

        impl $crate::Describe for Config {
            fn inner(&self, rate: ::aqm_net::Rate) -> Vec<$crate::Inner<'_>> {
                let child = self.common.child.as_deref();
                child.map(|config| $crate::Inner { path: "child".to_owned(), config, rate }).into_iter().collect()
            }

            fn needs_classes(&self) -> bool {
                let $crate::fair::Common { weights, child, .. } = &self.common;
                !weights.is_empty() || child.as_ref().is_some_and(|child| child.needs_classes())
            }
        }

        impl $crate::TestCases for Config {
            fn corners(&self) -> Vec<::serde_json::Value> {
                $crate::fair::corners()
            }

            fn has_flow_queues(&self) -> bool {
                true
            }
        }
    };
}
use scheduler;

/// Returns test cases with each drop policy, with weights, with buckets and with children.
fn corners() -> Vec<Value> {
    let weights = [1, 2, 3, 10];
    let mut red = red::small();
    red["kind"] = json!("red");
    vec![
        json!({"limit": "20p", "drop": "tail", "weights": weights}),
        json!({"limit": "9999B", "drop": "longest-tail", "weights": weights}),
        json!({"limit": "5001B", "drop": "longest-front", "weights": weights}),
        json!({"limit": "20p", "drop": "random-long"}),
        json!({"limit": "20p", "buckets": 3, "perturb": "5ms", "weights": weights}),
        json!({"limit": "20p", "drop": "random-long", "child": red, "weights": weights}),
        json!({"limit": "9999B", "buckets": 2, "child": red}),
        json!({"limit": "30p", "drop": "tail", "child": {"kind": "drop-random", "probability": 0.2}}),
        json!({"limit": "30p", "buckets": 2, "child": {"kind": "drr", "limit": "9p"}}),
    ]
}

parameters! {
    /// The parameters common to all schedulers.
    pub struct Common {
        /// Maximum total backlog of all flows, in packets or bytes, not counting the packet in transmission.
        pub limit: Length = Length::Packets(100), "Roberts, fair queueing talk: 20, 100 or 625 packets";
        /// Packet that is dropped when the limit is reached.
        pub drop: DropFrom = DropFrom::LongestFront, "Suter et al. 1998";
        /// Weights of flows, indexed by the class of the flow's packets; the first weight applies to unclassified
        /// packets. The weight of a class beyond the end of the list is 1. Weights must be whole numbers, and their
        /// least common multiple must be at most a million.
        pub weights: Vec<u64> = Vec::new(), "aqmlab's choice: all flows have the weight 1";
        /// Number of buckets into which flows are hashed. The link is then shared fairly between buckets instead of
        /// flows. If omitted, each flow has its own queue.
        pub buckets: Option<u32> = None, "aqmlab's choice: flows are distinguished exactly";
        /// Interval between changes of the hash, so that no two flows share a bucket permanently. If omitted, the hash
        /// does not change.
        pub perturb: Option<Span> = None, "aqmlab's choice: off";
        /// Queue discipline for each flow's queue. If omitted, each flow's queue is first in, first out, without a
        /// limit per flow.
        pub child: Option<Box<Config>> = None, "aqmlab's choice: off";
        /// With `perturb`: state of the timer at the start of a run. The timer either has been running for a long time
        /// (`settled`) or starts when the run begins (`fresh`).
        pub start: Start = Start::Settled, "aqmlab's choice";
    }
}

impl Common {
    /// Checks the common parameters and builds the discipline. The function `order` receives the unit of tags as its
    /// argument.
    fn build<O: Order>(
        &self,
        order: impl FnOnce(Unit) -> Result<O, ConfigError>,
        rate: Rate,
    ) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        errors.check(self.limit.count() > 0, "limit", "must be at least 1p or 1B");
        if self.perturb.is_none() && !self.start.is_settled() {
            errors.add(ConfigError::without_effect("start", "without perturb"));
        }
        let unit = if self.weights.contains(&0) {
            Err(ConfigError::at("weights", "must each be at least 1"))
        } else {
            let problem = format!("must have a least common multiple of at most {}", Unit::MAX);
            Unit::of(&self.weights).ok_or_else(|| ConfigError::at("weights", problem))
        };
        let unit = errors.take(unit);
        let classifier = errors.take(Classifier::new(self.buckets, self.perturb));
        let children = errors.take(self.child.as_deref().map(|child| Children::new(child, rate)).transpose());
        let can_drop = self.child.is_none() || self.drop != DropFrom::LongestTail;
        let problem =
            "must not be \"longest-tail\" with a child, because packets can leave a child only at the front";
        errors.check(can_drop, "drop", problem);
        let can_rehash = self.child.is_none() || self.perturb.is_none();
        errors.check(
            can_rehash,
            "perturb",
            "must be omitted with a child, because a child's packets cannot move to other buckets",
        );
        let order = unit.and_then(|unit| errors.take(order(unit)));
        let ((order, classifier), children) = errors.finish_some(order.zip(classifier).zip(children))?;
        Ok(Box::new(Fair {
            classifier,
            // The conversion is safe, because `Unit` limits each weight.
            weights: self.weights.iter().map(|weight| *weight as u32).collect(),
            flows: Flows::new(O::REMEMBERS || children.is_some()),
            order,
            buffer: SharedBuffer::new(self.limit, self.drop),
            drop: self.drop,
            children,
            start: self.start,
        }))
    }
}

/// A fair queue: the flows, the order in which they send, and the shared buffer.
#[derive(Clone)]
struct Fair<O: Order> {
    classifier: Classifier,
    weights: Vec<u32>,
    flows: Flows<O::Stamp>,
    order: O,
    buffer: SharedBuffer,
    drop: DropFrom,
    children: Option<Children>,
    start: Start,
}

impl<O: Order> QueueDiscipline for Fair<O> {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        if self.classifier.renew_salt(cx.now, cx.rng) {
            self.rehash(cx.now);
        }
        let bytes = u64::from(packet.bytes);
        if self.drop == DropFrom::Tail && !self.buffer.fits(&self.flows, 1, bytes) {
            return cx.drop(packet, Reason::Overflow);
        }
        let flow = self.append(packet, cx.now);
        if let Some(children) = &mut self.children {
            children.enqueue(flow, packet, cx);
            self.remove_dropped(flow, cx.now);
        }
        while !self.buffer.fits(&self.flows, 0, 0) {
            let victim = self.buffer.victim(flow, &mut self.flows, cx.rng);
            if let Some(dequeued) = self.take(victim, self.drop == DropFrom::LongestTail, cx) {
                self.on_loss(victim, &dequeued, cx.now);
                cx.drop(dequeued.packet, Reason::Overflow);
            }
        }
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        if let Some(children) = &mut self.children {
            children.on_link_free(cx);
        }
        while self.flows.active() > 0 {
            let flows = &self.flows;
            let flow = self.order.next(|flow| flows.head(flow).0.bytes);
            // A child may drop all of its packets instead of returning a packet.
            if let Some(Dequeued { packet, .. }) = self.take(flow, false, cx) {
                self.order.on_sent(flow, packet.bytes);
                self.on_removed(flow, true);
                return Some(packet);
            }
        }
        self.order.on_idle();
        None
    }

    fn backlog(&self) -> Backlog {
        self.flows.backlog()
    }

    fn on_start(&mut self, chance: &mut Rng) {
        if self.start.is_settled() {
            self.classifier.draw_phase(chance);
        }
        if let Some(children) = &mut self.children {
            children.on_start(chance);
        }
    }

    fn on_label(&mut self, number: u16, label: &Label) {
        if let Some(children) = &mut self.children {
            children.on_label(number, label);
        }
    }
}

impl<O: Order> Report for Fair<O> {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        show(Gauge::new("active_flows", f64::from(self.flows.active()), "flows"));
    }

    fn inner(&self, show: &mut dyn FnMut(&str, &dyn QueueDiscipline)) {
        self.children.iter().flat_map(Children::running).for_each(|child| show("child", child));
    }
}

impl<O: Order> Fair<O> {
    /// Appends `packet` to the queue of its flow, and returns the flow.
    #[inline(always)]
    fn append(&mut self, packet: Packet, now: Instant) -> u32 {
        let (flow, is_new) = self.flows.number(self.classifier.key(&packet));
        if is_new {
            self.order.on_new_flow(flow);
            if let Some(children) = &mut self.children {
                children.on_new_flow(flow);
            }
        }
        let was_empty = self.flows.of(flow).packets == 0;
        if was_empty {
            let weight = self.weights.get(usize::from(packet.class)).copied().unwrap_or(1);
            self.order.on_backlogged(flow, weight);
        }
        let stamp = self.order.on_arrival(flow, packet.bytes, now);
        self.flows.push(flow, packet, stamp);
        if was_empty {
            self.order.on_head(flow, Head { bytes: packet.bytes, stamp });
        }
        self.buffer.on_grown(flow, &mut self.flows);
        flow
    }

    /// Removes the oldest or newest packet of `flow`. Returns `None` if the flow's child drops all of its packets.
    #[inline(always)]
    fn take(&mut self, flow: u32, newest: bool, cx: &mut Context<'_>) -> Option<Dequeued> {
        let Some(children) = &mut self.children else {
            return Some(if newest { self.flows.take_back(flow) } else { self.flows.take_front(flow) });
        };
        let packet = children.dequeue(flow, cx);
        self.remove_dropped(flow, cx.now);
        let was_head = self.flows.take_id(flow, packet?.id).was_head;
        packet.map(|packet| Dequeued { packet, was_head })
    }

    /// Removes the packets that the child of `flow` has dropped from the flow's chain.
    fn remove_dropped(&mut self, flow: u32, now: Instant) {
        while let Some(id) = self.children.as_mut().and_then(|children| children.dropped.pop()) {
            let dequeued = self.flows.take_id(flow, id);
            self.on_loss(flow, &dequeued, now);
        }
    }

    #[inline(never)]
    fn on_loss(&mut self, flow: u32, lost: &Dequeued, now: Instant) {
        let behind = if lost.was_head { self.flows.of(flow).bytes } else { 0 };
        self.order.on_lost(flow, Loss { bytes: lost.packet.bytes, behind }, now);
        self.on_removed(flow, lost.was_head);
    }

    /// Updates the buffer and the order after a packet of `flow` was removed.
    #[inline(always)]
    fn on_removed(&mut self, flow: u32, was_head: bool) {
        self.buffer.on_shrunk(flow, &self.flows);
        if self.flows.of(flow).packets == 0 {
            self.order.on_empty(flow);
            self.flows.retire(flow);
        } else if was_head {
            let (packet, stamp) = self.flows.head(flow);
            self.order.on_head(flow, Head { bytes: packet.bytes, stamp });
        }
    }

    /// Moves all queued packets to the buckets that the new salt selects. The scheduler treats all buckets as new
    /// flows.
    #[cold]
    fn rehash(&mut self, now: Instant) {
        let mut all = Vec::new();
        for flow in 0..self.flows.numbers() {
            while self.flows.of(flow).packets > 0 {
                let dequeued = self.flows.take_front(flow);
                self.on_loss(flow, &dequeued, now);
                all.push(dequeued.packet);
            }
        }
        for packet in all {
            self.append(packet, now);
        }
    }
}
