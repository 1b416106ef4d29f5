//! Fair queueing: a queue for each flow, one buffer for all, and an order in which flows send.
//!
//! Each scheduler's file holds its [`Order`] and the parameters that are its own. What they share is
//! here: [`Fair`] is the discipline; [`classifier`] says to which flow a packet belongs, [`flows`] holds the packets,
//! [`shared_buffer`] names the victim when the buffer is full, and [`child`] gives each flow a discipline of its own.
//!
//! What all do where the papers are silent stands in the documentation that `scheduler!` adds to each `Config`, and that
//! the reference prints.

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

use aqm_net::{Backlog, ConfigError, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, Rng, Span};
use serde_json::{Value, json};

use crate::red::red;
use crate::start::Start;
use crate::{Config, Context, Gauge, Label, QueueDiscipline, Reason, Report};
use child::Children;
use classifier::Classifier;
use flows::{Flows, Taken};
use order::{Head, Loss, Order};
use shared_buffer::{DropFrom, SharedBuffer};
use tags::Unit;

/// Declares the `Config` of a scheduler, the parameters of its own first, then those that all share, and how
/// it is built: `Config::order` checks its own and makes its [`Order`].
macro_rules! scheduler {
    ( $(#[doc = $about:literal])+ pub struct Config { $($own:tt)* } ) => {
        ::aqm_net::parameters! {
            $(#[doc = $about])+
            ///
            /// Where the papers are silent:
            ///
            /// - The limit is on all flows together and does not count the packet on the line.
            /// - A flow has the weight of the class of the packet that found nothing of it waiting, and keeps it until
            ///   nothing waits again.
            /// - A packet that is dropped is not charged: the next packet of its flow takes its turn.
            /// - A packet dropped from the front under a `child` is one that the child takes for sent.
            /// - Queues are compared in the unit of the limit, bytes or packets. A new packet joins first and then counts:
            ///   if the queue of its own flow is among the longest, that flow loses a packet. Packets are dropped one at a
            ///   time until the rest fits, and each time the flow is chosen anew.
            /// - The hash into `buckets` is over the number of the flow and a salt from the random stream of the queue.
            pub struct Config {
                $($own)*
                /// The most that may wait, all flows together, in packets or bytes; the packet on the
                /// line is not counted.
                pub limit: ::aqm_net::Length = ::aqm_net::Length::Packets(100),
                    "Roberts, fair queueing talk: 20, 100 or 625 packets";
                /// Which packet goes when that is full.
                pub drop: $crate::fair::shared_buffer::DropFrom = $crate::fair::shared_buffer::DropFrom::LongestFront,
                    "Suter et al. 1998";
                /// Weights of flows by the class of their packets, the first that of packets that nothing
                /// classified; 1 for a class beyond the list. Whole numbers of which the least common
                /// multiple is at most a million.
                pub weights: Vec<u64> = Vec::new(), "ours: all flows alike";
                /// Hash flows into so many buckets, and be fair to buckets. Left out: a queue for each flow.
                pub buckets: Option<u32> = None, "ours: flows are told apart exactly";
                /// Hash anew this often, so that no two flows share a bucket for ever. Left out: never.
                pub perturb: Option<::aqm_net::Span> = None, "ours: off";
                /// The discipline that each flow gets for its own queue. Left out: first in, first out,
                /// without a limit of its own.
                pub child: Option<Box<$crate::Config>> = None, "ours: off";
                /// With `perturb`: whether its timer has been running for long as a run begins (`settled`), or starts with
                /// the run.
                pub start: $crate::start::Start = $crate::start::Start::Settled, "ours";
            }
        }

        impl $crate::Build for Config {
            fn build(
                &self,
                rate: ::aqm_net::Rate,
            ) -> Result<Box<dyn $crate::QueueDiscipline>, ::aqm_net::ConfigErrors> {
                self.common().build(|unit| self.order(unit, rate), rate)
            }
        }

        impl $crate::Describe for Config {
            fn inner(&self, rate: ::aqm_net::Rate) -> Vec<$crate::Inner<'_>> {
                let child = self.child.as_deref();
                child.map(|config| $crate::Inner { place: "child".to_owned(), config, rate }).into_iter().collect()
            }

            fn wants_classes(&self) -> bool {
                !self.weights.is_empty() || self.child.as_ref().is_some_and(|child| child.wants_classes())
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

        impl Config {
            fn common(&self) -> $crate::fair::Common<'_> {
                let Self { limit, drop, weights, buckets, perturb, child, start, .. } = self;
                $crate::fair::Common {
                    limit: *limit,
                    drop: *drop,
                    weights,
                    buckets: *buckets,
                    perturb: *perturb,
                    child: child.as_deref(),
                    start: *start,
                }
            }
        }
    };
}
use scheduler;

/// Each drop policy, with weights, buckets and children.
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

/// The parameters that all schedulers share.
struct Common<'a> {
    limit: Length,
    drop: DropFrom,
    weights: &'a [u64],
    buckets: Option<u32>,
    perturb: Option<Span>,
    child: Option<&'a Config>,
    start: Start,
}

impl Common<'_> {
    /// Checks all of them and makes the running discipline; `order` gets the unit of tags.
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
            Err(ConfigError::at("weights", "must be at least 1 each"))
        } else {
            let problem = format!("must have a least common multiple of at most {}", Unit::MOST);
            Unit::of(self.weights).ok_or_else(|| ConfigError::at("weights", problem))
        };
        let unit = errors.take(unit);
        let classifier = errors.take(Classifier::new(self.buckets, self.perturb));
        let children = errors.take(self.child.map(|child| Children::new(child, rate)).transpose());
        let gives = self.child.is_none() || self.drop != DropFrom::LongestTail;
        let problem = "must not be \"longest-tail\" with a child, which gives from the front only";
        errors.check(gives, "drop", problem);
        let stays = self.child.is_none() || self.perturb.is_none();
        errors.check(stays, "perturb", "must be left out with a child, whose packets cannot move");
        let order = unit.and_then(|unit| errors.take(order(unit)));
        let ((order, classifier), children) = errors.finish_some(order.zip(classifier).zip(children))?;
        Ok(Box::new(Fair {
            classifier,
            // The unit bounds each weight.
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

/// The running discipline.
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
            self.move_all(cx.now);
        }
        let bytes = u64::from(packet.bytes);
        if self.drop == DropFrom::Tail && !self.buffer.fits(&self.flows, 1, bytes) {
            return cx.drop(packet, Reason::Overflow);
        }
        let flow = self.join(packet, cx.now);
        if let Some(children) = &mut self.children {
            children.enqueue(flow, packet, cx);
            self.learn_of_drops(flow, cx.now);
        }
        while !self.buffer.fits(&self.flows, 0, 0) {
            let victim = self.buffer.victim(flow, &mut self.flows, cx.rng);
            if let Some(taken) = self.give(victim, self.drop == DropFrom::LongestTail, cx) {
                self.after_loss(victim, &taken, cx.now);
                cx.drop(taken.packet, Reason::Overflow);
            }
        }
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        if let Some(children) = &mut self.children {
            children.on_line_free(cx);
        }
        while self.flows.active() > 0 {
            let flows = &self.flows;
            let flow = self.order.next(|flow| flows.head(flow).0.bytes);
            // A child may find that all it has must be dropped.
            if let Some(Taken { packet, .. }) = self.give(flow, false, cx) {
                self.order.on_sent(flow, packet.bytes);
                self.after_taking(flow, true);
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
    /// Puts `packet` into the queue of its flow; returns the flow.
    #[inline(always)]
    fn join(&mut self, packet: Packet, now: Instant) -> u32 {
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

    /// Takes the oldest packet of `flow`, or the newest, unless a child drops all there is.
    #[inline(always)]
    fn give(&mut self, flow: u32, newest: bool, cx: &mut Context<'_>) -> Option<Taken> {
        let Some(children) = &mut self.children else {
            return Some(if newest { self.flows.take_back(flow) } else { self.flows.take_front(flow) });
        };
        let packet = children.dequeue(flow, cx);
        self.learn_of_drops(flow, cx.now);
        let was_head = self.flows.take_id(flow, packet?.id).was_head;
        packet.map(|packet| Taken { packet, was_head })
    }

    /// Takes out of the chain of `flow` what its child has dropped.
    fn learn_of_drops(&mut self, flow: u32, now: Instant) {
        while let Some(id) = self.children.as_mut().and_then(|children| children.dropped.pop()) {
            let taken = self.flows.take_id(flow, id);
            self.after_loss(flow, &taken, now);
        }
    }

    #[inline(never)]
    fn after_loss(&mut self, flow: u32, lost: &Taken, now: Instant) {
        let behind = if lost.was_head { self.flows.of(flow).bytes } else { 0 };
        self.order.on_lost(flow, Loss { bytes: lost.packet.bytes, behind }, now);
        self.after_taking(flow, lost.was_head);
    }

    /// Tells who must know that `flow` has a packet less.
    #[inline(always)]
    fn after_taking(&mut self, flow: u32, was_head: bool) {
        self.buffer.on_shrunk(flow, &self.flows);
        if self.flows.of(flow).packets == 0 {
            self.order.on_empty(flow);
            self.flows.retire(flow);
        } else if was_head {
            let (packet, stamp) = self.flows.head(flow);
            self.order.on_head(flow, Head { bytes: packet.bytes, stamp });
        }
    }

    /// Puts all that waits where the new salt wants it: everybody starts afresh.
    #[cold]
    fn move_all(&mut self, now: Instant) {
        let mut all = Vec::new();
        for flow in 0..self.flows.numbers() {
            while self.flows.of(flow).packets > 0 {
                let taken = self.flows.take_front(flow);
                self.after_loss(flow, &taken, now);
                all.push(taken.packet);
            }
        }
        for packet in all {
            self.join(packet, now);
        }
    }
}
