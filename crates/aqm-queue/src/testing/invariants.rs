//! Invariants of every queue discipline, which are checked at every call.
//!
//! [`watched`] wraps a discipline, keeps an independent record of every packet, and checks the following invariants:
//! - Every packet that has arrived is either still queued, or has been sent or reported as dropped exactly once.
//! - Packets of one flow keep their order. If ECN bits select the queue (`ecn_mask`), the order is kept within each
//!   queue, unless the discipline is inside an SFB queue that may mark packets before they reach the discipline. In
//!   CAKE, the order of a flow is kept until the flow shares a queue with another flow, because one of these flows
//!   later moves to a different queue of its set.
//! - The backlog never exceeds `limit`, and the backlog of an inner discipline never exceeds the `limit` of this
//!   discipline. The reported backlog is correct.
//! - Only ECN-capable packets are marked, at most once, and only if the parameters allow marks.
//! - Whenever the queue is not empty, a packet is sent, unless the discipline reports a time until which all packets
//!   are delayed.
//! - Gauges are finite, probabilities are between 0 and 1, and the `average` gauge never exceeds the longest queue
//!   length so far.
//!
//! By convention, some parameters have the same meaning in every discipline, and the invariants read them from the
//! configuration: `limit` (unless [`crate::TestCases::max_backlog`] returns a different limit; the backlog may exceed
//! the limit by one packet if `admits` or `kernel` selects the behaviour of Linux 2.4), `ecn` (marks are allowed unless
//! `ecn` is `"off"` or false; CAKE has no such parameter and always marks), `ce_threshold` (marks are allowed if
//! `ce_threshold` is set) and `min_th` (averages have the unit of `min_th` or, if `min_th` is not set, the unit of
//! `limit`). If a gauge belongs to a class, the name of the gauge ends with the number of the class, for example
//! `average_0`. A violated invariant means that aqmlab has a bug, so the wrapper panics.

use std::collections::{BTreeMap, VecDeque};

use aqm_net::{Backlog, ConfigErrors, Ecn, Instant, Length, Packet, Quantity, Rate, Rng};
use serde_json::Value;

use crate::qdisc::InnerQdisc;
use crate::{
    Acknowledgement, ClassCounters, Config, Context, Evidence, Gauge, Inner, Label, Observer,
    QueueDiscipline, Reason, Report, Transmission, drop_tail,
};

/// Builds the discipline that `config` describes, and adds the invariant checks. The ids of all queued packets must be
/// different.
///
/// # Errors
/// Returns the same errors as [`crate::Build::build`].
pub fn watched(config: &Config, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
    let mut limits = BTreeMap::new();
    find_limits(config, "", &mut limits);
    let expected = Expected::of(config);
    Ok(Box::new(Watched {
        inner: config.build(rate)?,
        expected,
        limits,
        calls_until_check: 0,
        accounting: Accounting::default(),
    }))
}

/// Returns whether the parameters of the discipline or of one of its inner disciplines allow packets to be marked.
pub fn may_mark(config: &Config) -> bool {
    fn allows(parameters: &Value) -> bool {
        match parameters {
            Value::Object(table) => table.iter().any(|(name, value)| match value {
                Value::Object(_) | Value::Array(_) => allows(value),
                _ => {
                    (name == "ecn" && *value != "off" && *value != false)
                        || (name == "kind" && value == "cake")
                        || name == "ecn_mask"
                        || (name == "ce_threshold" && !value.is_null())
                }
            }),
            Value::Array(list) => list.iter().any(allows),
            _ => false,
        }
    }
    allows(&config.to_value())
}

/// Returns how many times a flow had to share one of CAKE's queues, in the discipline or in its inner disciplines.
fn collisions(qdisc: &dyn QueueDiscipline, now: Instant) -> u64 {
    let statistics = qdisc.tc_statistics(now);
    let tins = statistics["tins"].as_array().into_iter().flatten();
    let mut found = tins.filter_map(|tin| tin["way_collisions"].as_u64()).sum();
    qdisc.inner(&mut |_, inner| found += collisions(inner, now));
    found
}

/// Returns the parameter `name` from the outermost level that contains a parameter with this name. The parameters of
/// inner disciplines are not searched.
fn setting<'a>(parameters: &'a Value, name: &str) -> Option<&'a Value> {
    let inside = |value: &&Value| value.get("kind").is_none();
    match parameters {
        Value::Object(table) => {
            table.get(name).or_else(|| table.values().filter(inside).find_map(|inner| setting(inner, name)))
        }
        Value::Array(list) => list.iter().filter(inside).find_map(|inner| setting(inner, name)),
        _ => None,
    }
}

/// Collects the limits of the inner disciplines. The limits are indexed by the paths of the disciplines' parameters,
/// which start with `path`.
fn find_limits(config: &Config, path: &str, found: &mut BTreeMap<String, Limit>) {
    // Any link rate can be used here, because the limits do not depend on the link rate.
    for inner in config.inner(Rate::default()) {
        let path = if path.is_empty() { inner.path } else { format!("{path}.{}", inner.path) };
        find_limits(inner.config, &path, found);
        found.insert(path, Limit::of(inner.config));
    }
}

/// The upper limit of a backlog.
#[derive(Clone, Copy)]
struct Limit {
    length: Option<Length>,
    /// Whether the backlog may exceed the limit by one packet.
    allows_one_more: bool,
}

impl Limit {
    fn of(config: &Config) -> Self {
        let parameters = config.to_value();
        let is = |name, word| setting(&parameters, name).is_some_and(|value| *value == word);
        Self {
            length: config.max_backlog().or(length(&parameters, "limit")),
            allows_one_more: is("admits", "until-beyond") || is("kernel", "2.4"),
        }
    }

    /// Checks the backlog of the discipline at `path` against this limit.
    fn check(self, waiting: Backlog, path: &str) {
        let Backlog { packets, bytes } = waiting;
        let more = if self.allows_one_more {
            Backlog { packets: 1, bytes: u16::MAX.into() }
        } else {
            Backlog::default()
        };
        match self.length {
            Some(Length::Packets(limit)) => {
                assert!(
                    packets <= limit + more.packets,
                    "{packets} packets are queued, more than the limit of {limit}{path}"
                );
            }
            Some(Length::Bytes(limit)) => {
                assert!(
                    bytes <= limit + more.bytes,
                    "{bytes} bytes are queued, more than the limit of {limit}{path}"
                );
            }
            None => {}
        }
    }
}

fn length(parameters: &Value, name: &str) -> Option<Length> {
    setting(parameters, name).and_then(Value::as_str).and_then(|text| Length::parse(text).ok())
}

/// The properties that the parameters of a discipline guarantee.
#[derive(Clone)]
struct Expected {
    limit: Limit,
    average_unit: Option<Length>,
    marks: bool,
    /// The ECN bits that assign a packet to a different queue.
    ecn_mask: u8,
    /// Whether a packet may be marked before its ECN bits select a queue. If so, the packet may overtake other packets
    /// of its flow.
    marks_before_queues: bool,
}

impl Expected {
    fn of(config: &Config) -> Self {
        let parameters = config.to_value();
        let own = length(&parameters, "min_th").or(length(&parameters, "limit"));
        // The average that a wrapper reports is the average of the wrapper's inner queue.
        let average_unit = own.filter(|_| config.inner(Rate::default()).is_empty());
        let ecn_mask = match setting(&parameters, "ecn_mask").and_then(Value::as_str) {
            Some("l4s-ect") => 1,
            Some(_) => 3,
            None => 0,
        };
        let is_chosen = |inner: &Inner<'_>| setting(&inner.config.to_value(), "ecn_mask").is_some();
        let marks_before_queues =
            config.kind() == "sfb" && config.inner(Rate::default()).iter().any(is_chosen);
        let limit = Limit::of(config);
        Self { limit, average_unit, marks: may_mark(config), ecn_mask, marks_before_queues }
    }
}

#[derive(Clone)]
struct Watched {
    inner: Box<dyn QueueDiscipline>,
    expected: Expected,
    /// The limits of the inner disciplines, indexed by the paths of their parameters.
    limits: BTreeMap<String, Limit>,
    /// Number of calls until the inner disciplines are checked again. Checking thousands of inner disciplines at every
    /// call would take too long.
    calls_until_check: u64,
    accounting: Accounting,
}

impl QueueDiscipline for Watched {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        self.accounting.arrive(packet, self.expected.ecn_mask);
        let mut observer = CheckingObserver {
            accounting: &mut self.accounting,
            marks: self.expected.marks,
            now: cx.now,
            outer: cx.observer,
        };
        self.inner.enqueue(packet, &mut Context { now: cx.now, rng: cx.rng, observer: &mut observer });
        self.check();
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        let mut observer = CheckingObserver {
            accounting: &mut self.accounting,
            marks: self.expected.marks,
            now: cx.now,
            outer: cx.observer,
        };
        let packet = self.inner.dequeue(&mut Context { now: cx.now, rng: cx.rng, observer: &mut observer });
        match packet {
            Some(packet) => {
                let is_free = self.expected.marks_before_queues;
                self.accounting.leave(&packet, || is_free || collisions(self.inner.as_ref(), cx.now) > 0);
            }
            None if self.accounting.backlog.packets == 0 => {}
            None => {
                let ready = self.inner.next_ready();
                assert!(ready.is_some_and(|at| at > cx.now), "no packet is sent although packets are queued");
            }
        }
        self.check();
        packet
    }

    fn backlog(&self) -> Backlog {
        self.inner.backlog()
    }

    fn next_ready(&self) -> Option<Instant> {
        self.inner.next_ready()
    }

    fn transmission(&self) -> Option<Transmission> {
        self.inner.transmission()
    }

    fn on_start(&mut self, chance: &mut Rng) {
        self.inner.on_start(chance);
    }

    fn on_label(&mut self, number: u16, label: &Label) {
        self.inner.on_label(number, label);
    }
}

impl Report for Watched {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        self.inner.gauges(show);
    }

    fn tc_statistics(&self, now: Instant) -> Value {
        self.inner.tc_statistics(now)
    }

    fn inner(&self, show: &mut dyn FnMut(&str, &dyn QueueDiscipline)) {
        self.inner.inner(show);
    }

    fn inner_qdiscs(&self, now: Instant, show: &mut dyn FnMut(InnerQdisc<'_>)) {
        self.inner.inner_qdiscs(now, show);
    }

    fn classes(&self, now: Instant, show: &mut dyn FnMut(&str, ClassCounters)) {
        self.inner.classes(now, show);
    }
}

impl Watched {
    fn check(&mut self) {
        let packets = self.accounting.backlog.packets;
        assert_eq!(self.inner.backlog(), self.accounting.backlog, "the reported backlog is wrong");
        self.expected.limit.check(self.accounting.backlog, "");
        self.calls_until_check = match self.calls_until_check {
            0 => self.check_inner(self.inner.as_ref(), "") / 16,
            calls => calls - 1,
        };
        let mut names = Vec::new();
        self.inner.gauges(&mut |Gauge { name, unit, value }| {
            assert!(value.is_finite(), "gauge {name} is {value}");
            assert!(!names.contains(&name), "two gauges have the name {name}");
            names.push(name);
            let kind = name.trim_end_matches(|c: char| c == '_' || c.is_ascii_digit());
            match (kind, self.expected.average_unit) {
                ("probability" | "prob" | "max_p", _) => {
                    assert!((0.0..=1.0).contains(&value), "{name} is {value}")
                }
                ("packets", _) => {
                    assert!(value <= packets as f64, "{name} is {value}, but {packets} packets are queued")
                }
                ("average", Some(expected)) => {
                    assert_eq!(unit, Gauge::length(name, value, expected).unit, "the unit of {name}");
                    // If an average is the sum of rounded parts, it may exceed the total by a rounding error.
                    let max = self.accounting.max.in_unit_of(expected) as f64 * (1.0 + 1e-9);
                    assert!((0.0..=max).contains(&value), "average is {value}, longest queue {max}");
                }
                _ => {}
            }
        });
    }
}

impl Watched {
    /// Checks the limits of the disciplines inside `outer`. The parameters of `outer` are at `path`. Returns the number
    /// of disciplines that were checked.
    fn check_inner(&self, outer: &dyn QueueDiscipline, path: &str) -> u64 {
        let mut checked = 0;
        outer.inner(&mut |name, inner| {
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            // If no queue is configured for an HTB leaf, the leaf has a Drop Tail queue with default parameters.
            let limit = self.limits.get(&path).copied().unwrap_or_else(|| Limit {
                length: Some(drop_tail::Config::default().limit),
                allows_one_more: false,
            });
            limit.check(inner.backlog(), &format!(" at {path}"));
            checked += 1 + self.check_inner(inner, &path);
        });
        checked
    }
}

/// An independent record of the queued packets.
#[derive(Clone, Default)]
struct Accounting {
    /// The queued packets, grouped by flow and by whether the ECN bits select a different queue.
    flows: BTreeMap<(u32, bool), VecDeque<Packet>>,
    backlog: Backlog,
    max: Backlog,
}

impl Accounting {
    fn arrive(&mut self, packet: Packet, ecn_mask: u8) {
        // The average may include the arriving packet, even if this packet is dropped.
        let queue = (packet.flow, packet.ecn as u8 & ecn_mask != 0);
        self.flows.entry(queue).or_default().push_back(packet);
        self.backlog.packets += 1;
        self.backlog.bytes += u64::from(packet.bytes);
        self.max.packets = self.max.packets.max(self.backlog.packets);
        self.max.bytes = self.max.bytes.max(self.backlog.bytes);
    }

    /// Returns the record of the queue that contains this packet.
    fn queue_of(&mut self, packet: &Packet) -> &mut VecDeque<Packet> {
        let waits = |queue: &VecDeque<Packet>| queue.iter().any(|waiting| waiting.id == packet.id);
        let is_other = self.flows.get(&(packet.flow, true)).is_some_and(waits);
        self.flows.entry((packet.flow, is_other)).or_default()
    }

    fn forget(&mut self, packet: &Packet) {
        self.backlog.packets -= 1;
        self.backlog.bytes -= u64::from(packet.bytes);
    }

    fn leave(&mut self, packet: &Packet, may_overtake: impl FnOnce() -> bool) {
        let first = self.queue_of(packet).front().copied();
        assert!(
            first == Some(*packet) || may_overtake(),
            "{first:?} is the first queued packet of its flow, but {packet:?} was sent"
        );
        self.discard(packet);
    }

    fn discard(&mut self, packet: &Packet) {
        let flow = self.queue_of(packet);
        let index = flow.iter().position(|waiting| waiting.id == packet.id);
        let waiting = index.and_then(|index| flow.remove(index));
        assert_eq!(waiting, Some(*packet), "left is queued; right was removed");
        self.forget(packet);
    }

    fn mark(&mut self, packet: &Packet) {
        let flow = self.queue_of(packet);
        // Most disciplines mark a packet that has just arrived.
        let waiting = flow.iter_mut().rev().find(|waiting| waiting.id == packet.id);
        let waiting = waiting.expect("a marked packet must be queued");
        assert!(matches!(waiting.ecn, Ecn::Ect0 | Ecn::Ect1), "{:?} cannot be marked", waiting.ecn);
        waiting.ecn = Ecn::Ce;
        assert_eq!(waiting, packet, "left is queued; right was marked");
    }
}

/// Checks and records reports on drops and marks, and forwards them to the outer observer.
struct CheckingObserver<'a> {
    accounting: &'a mut Accounting,
    marks: bool,
    now: Instant,
    outer: &'a mut dyn Observer,
}

impl Observer for CheckingObserver<'_> {
    fn dropped(&mut self, packet: &Packet, why: Reason, now: Instant) {
        assert_eq!(now, self.now, "a fate must be reported when it happens");
        self.accounting.discard(packet);
        self.outer.dropped(packet, why, now);
    }

    fn marked(&mut self, packet: &Packet, why: Reason, now: Instant) {
        assert_eq!(now, self.now, "a fate must be reported when it happens");
        assert!(self.marks, "a packet is marked although the parameters do not allow it");
        self.accounting.mark(packet);
        self.outer.marked(packet, why, now);
    }

    fn evidence(&mut self, evidence: &Evidence) {
        let Evidence { average, probability, count, draw } = *evidence;
        assert!(average.is_none_or(|average| average >= 0.0), "{evidence:?}");
        assert!(probability.is_none_or(|p| (0.0..=1.0).contains(&p)), "{evidence:?}");
        if let (Some(p), Some(draw)) = (probability, draw) {
            // Linux's RED compares the draw with the product of the probability and the count.
            let is_selected = draw < p || count.is_some_and(|count| draw <= p * count as f64);
            assert!(draw >= 0.0 && is_selected, "{evidence:?}");
        }
        self.outer.evidence(evidence);
    }

    fn acknowledgement(&self, packet: &Packet) -> Option<Acknowledgement> {
        self.outer.acknowledgement(packet)
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Streams;

    use super::*;
    use crate::Fifo;
    use crate::testing::Ignore;

    /// The faults that an intentionally defective discipline can have.
    #[derive(Clone, Copy, PartialEq)]
    enum Fault {
        None,
        LosesPackets,
        SendsTheNewestFirst,
        KeepsTooMany,
        SendsNothing,
        MarksWhatCannotBe,
        MarksAgainstTheRules,
        LosesTheMark,
        KeepsTooManyInside,
    }

    #[derive(Clone)]
    struct Faulty(Fault, Vec<Packet>);

    impl QueueDiscipline for Faulty {
        fn enqueue(&mut self, mut packet: Packet, cx: &mut Context<'_>) {
            let Self(fault, waiting) = self;
            if waiting.len() == 3 && !matches!(fault, Fault::KeepsTooMany | Fault::KeepsTooManyInside) {
                return cx.drop(packet, Reason::Overflow);
            }
            match fault {
                Fault::LosesPackets => return,
                Fault::MarksWhatCannotBe => cx.observer.marked(&packet, Reason::Early, cx.now),
                Fault::MarksAgainstTheRules => cx.mark(&mut packet, Reason::Early),
                Fault::LosesTheMark => cx.mark(&mut packet.clone(), Reason::Early),
                _ => {}
            }
            waiting.push(packet);
        }

        fn dequeue(&mut self, _cx: &mut Context<'_>) -> Option<Packet> {
            let Self(fault, waiting) = self;
            match fault {
                Fault::SendsNothing => None,
                Fault::SendsTheNewestFirst => waiting.pop(),
                _ if waiting.is_empty() => None,
                _ => Some(waiting.remove(0)),
            }
        }

        fn backlog(&self) -> Backlog {
            let mut fifo = Fifo::new(Length::Packets(9));
            self.1.iter().for_each(|packet| fifo.push(*packet));
            fifo.backlog()
        }
    }

    impl Report for Faulty {
        fn inner(&self, show: &mut dyn FnMut(&str, &dyn QueueDiscipline)) {
            if self.0 == Fault::KeepsTooManyInside {
                show("child", &Self(Fault::None, self.1.clone()));
            }
        }
    }

    fn run_with(fault: Fault, marks: bool, ecn: Ecn) {
        let limit = |packets| Limit { length: Some(Length::Packets(packets)), allows_one_more: false };
        let outer = limit(if fault == Fault::KeepsTooManyInside { 9 } else { 3 });
        let expected =
            Expected { limit: outer, average_unit: None, marks, ecn_mask: 0, marks_before_queues: false };
        let limits = [("child".to_owned(), limit(3))].into();
        let inner = Box::new(Faulty(fault, Vec::new()));
        let mut queue =
            Watched { inner, expected, limits, calls_until_check: 0, accounting: Accounting::default() };
        let mut rng = Streams::new(1).named("invariants", 0);
        let mut cx = Context { now: Instant::START, rng: &mut rng, observer: &mut Ignore };
        for id in 0..4 {
            queue.enqueue(Packet { id, bytes: 100, ecn, ..Packet::default() }, &mut cx);
        }
        for _ in 0..4 {
            queue.dequeue(&mut cx);
        }
    }

    #[test]
    fn a_correct_discipline_passes() {
        run_with(Fault::None, false, Ecn::NotEct);
    }

    macro_rules! caught {
        ($($name:ident: $fault:ident, $marks:literal, $ecn:ident, $message:literal;)+) => {
            $(#[test]
            #[should_panic(expected = $message)]
            fn $name() {
                run_with(Fault::$fault, $marks, Ecn::$ecn);
            })+
        };
    }
    caught! {
        an_unreported_loss_is_caught: LosesPackets, false, NotEct, "reported backlog is wrong";
        a_packet_that_overtakes_is_caught: SendsTheNewestFirst, false, NotEct, "first queued packet";
        a_queue_beyond_its_limit_is_caught: KeepsTooMany, false, NotEct, "more than the limit of 3";
        a_queue_beyond_its_limit_inside_another_is_caught: KeepsTooManyInside, false, NotEct, "limit of 3 at child";
        a_silent_queue_is_caught: SendsNothing, false, NotEct, "although packets are queued";
        a_mark_on_a_packet_without_ecn_is_caught: MarksWhatCannotBe, true, NotEct, "cannot be marked";
        a_mark_against_the_parameters_is_caught: MarksAgainstTheRules, false, Ect0, "do not allow";
        a_lost_mark_is_caught: LosesTheMark, true, Ect0, "first queued packet";
    }
}
