//! What every discipline owes the world, checked at every call.
//!
//! [`watched`] builds a discipline inside a bookkeeper that keeps its own account of every packet:
//! - a packet is waiting, sent or reported as dropped, once, and nothing else happens to it;
//! - packets of one flow keep their order, of each queue of its own where ECN bits choose the queue (`ecn_mask`), unless
//!   SFB around it may mark them first; in CAKE until flows have shared a queue, after which one of them moves to
//!   another of its set;
//! - no more waits than `limit` says, in a discipline inside another no more than its own, and the backlog is
//!   told truly;
//! - only ECN-capable packets are marked, once, and only if the parameters allow marks;
//! - something is sent as long as anything waits, or it is said until when all of it is held back;
//! - gauges are finite, probabilities are probabilities, and the `average` queue is never longer than
//!   the longest queue there was.
//!
//! By convention the parameters `limit` (if [`crate::Build::holds_at_most`] says nothing else; one packet more
//! where `admits` or `kernel` is that of Linux 2.4), `ecn` (allowed unless `"off"` or false; CAKE has none and marks),
//! `ce_threshold` (marks if there is one) and `min_th` (the unit of averages; that of `limit` where there is none) mean
//! the same in every discipline; the invariants read them from the configuration. A gauge of one class has its number
//! at its end: `average_0`. A broken invariant is a bug of ours, so the bookkeeper panics.

use std::collections::{BTreeMap, VecDeque};

use aqm_net::{Backlog, ConfigErrors, Ecn, Instant, Length, Packet, Quantity, Rate, Rng};
use serde_json::Value;

use crate::qdisc::InnerQdisc;
use crate::{
    Acknowledgement, ClassCounters, Config, Context, Gauge, Inner, Label, Observer, QueueDiscipline, Reason,
    Report, drop_tail,
};

/// Builds the discipline of `config` inside the bookkeeper. Ids of waiting packets must differ.
///
/// # Errors
/// As [`crate::Build::build`].
pub fn watched(config: &Config, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
    let mut limits = BTreeMap::new();
    find_limits(config, "", &mut limits);
    let expected = Expected::of(config);
    Ok(Box::new(Watched {
        inner: config.build(rate)?,
        expected,
        limits,
        unchecked: 0,
        book: Book::default(),
    }))
}

/// Whether the parameters allow marks, of the discipline itself or of one inside.
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

/// How often a flow has had to share a queue of CAKE, in the discipline itself or in those inside.
fn collisions(qdisc: &dyn QueueDiscipline, now: Instant) -> u64 {
    let statistics = qdisc.tc_statistics(now);
    let tins = statistics["tins"].as_array().into_iter().flatten();
    let mut found = tins.filter_map(|tin| tin["way_collisions"].as_u64()).sum();
    qdisc.inner(&mut |_, inner| found += collisions(inner, now));
    found
}

/// The parameter `name`, at the outermost level that has it; those of disciplines inside do not count.
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

/// The limits of the disciplines inside, by the places of their parameters below `place`.
fn find_limits(config: &Config, place: &str, found: &mut BTreeMap<String, Limit>) {
    // How much may wait does not depend on the line.
    for inner in config.inner(Rate::default()) {
        let place = if place.is_empty() { inner.place } else { format!("{place}.{}", inner.place) };
        find_limits(inner.config, &place, found);
        found.insert(place, Limit::of(inner.config));
    }
}

/// How much may wait.
#[derive(Clone, Copy)]
struct Limit {
    length: Option<Length>,
    /// Whether one packet more may wait.
    one_more: bool,
}

impl Limit {
    fn of(config: &Config) -> Self {
        let parameters = config.to_value();
        let is = |name, word| setting(&parameters, name).is_some_and(|value| *value == word);
        Self {
            length: config.holds_at_most().or(length(&parameters, "limit")),
            one_more: is("admits", "until-beyond") || is("kernel", "2.4"),
        }
    }

    /// Checks what waits at `place`.
    fn check(self, waiting: Backlog, place: &str) {
        let Backlog { packets, bytes } = waiting;
        let more =
            if self.one_more { Backlog { packets: 1, bytes: u16::MAX.into() } } else { Backlog::default() };
        match self.length {
            Some(Length::Packets(limit)) => {
                assert!(packets <= limit + more.packets, "{packets} packets wait, not {limit}{place}");
            }
            Some(Length::Bytes(limit)) => {
                assert!(bytes <= limit + more.bytes, "{bytes} bytes wait, not {limit}{place}");
            }
            None => {}
        }
    }
}

fn length(parameters: &Value, name: &str) -> Option<Length> {
    setting(parameters, name).and_then(Value::as_str).and_then(|text| Length::parse(text).ok())
}

/// What the parameters promise.
#[derive(Clone)]
struct Expected {
    limit: Limit,
    average_unit: Option<Length>,
    marks: bool,
    /// The ECN bits that send a packet to another queue.
    ecn_mask: u8,
    /// Whether a packet may be marked before ECN bits choose its queue, and so overtake others of its flow.
    marks_before_queues: bool,
}

impl Expected {
    fn of(config: &Config) -> Self {
        let parameters = config.to_value();
        let own = length(&parameters, "min_th").or(length(&parameters, "limit"));
        // The average that a wrapper shows is that of its queue.
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
    /// Of the disciplines inside, by the places of their parameters.
    limits: BTreeMap<String, Limit>,
    /// For how many calls the disciplines inside are left alone, so that thousands do not cost all the time.
    unchecked: u64,
    book: Book,
}

impl QueueDiscipline for Watched {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        self.book.arrive(packet, self.expected.ecn_mask);
        let mut witness =
            Witness { book: &mut self.book, marks: self.expected.marks, now: cx.now, outer: cx.observer };
        self.inner.enqueue(packet, &mut Context { now: cx.now, rng: cx.rng, observer: &mut witness });
        self.check();
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        let mut witness =
            Witness { book: &mut self.book, marks: self.expected.marks, now: cx.now, outer: cx.observer };
        let packet = self.inner.dequeue(&mut Context { now: cx.now, rng: cx.rng, observer: &mut witness });
        match packet {
            Some(packet) => {
                let is_free = self.expected.marks_before_queues;
                self.book.leave(&packet, || is_free || collisions(self.inner.as_ref(), cx.now) > 0);
            }
            None if self.book.backlog.packets == 0 => {}
            None => {
                let ready = self.inner.next_ready();
                assert!(ready.is_some_and(|at| at > cx.now), "nothing is sent although packets wait");
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
        let packets = self.book.backlog.packets;
        assert_eq!(self.inner.backlog(), self.book.backlog, "the backlog is not what waits");
        self.expected.limit.check(self.book.backlog, "");
        self.unchecked = match self.unchecked {
            0 => self.check_inner(self.inner.as_ref(), "") / 16,
            calls => calls - 1,
        };
        let mut names = Vec::new();
        self.inner.gauges(&mut |Gauge { name, unit, value }| {
            assert!(value.is_finite(), "gauge {name} is {value}");
            assert!(!names.contains(&name), "two gauges are called {name}");
            names.push(name);
            let kind = name.trim_end_matches(|c: char| c == '_' || c.is_ascii_digit());
            match (kind, self.expected.average_unit) {
                ("probability" | "prob" | "max_p", _) => {
                    assert!((0.0..=1.0).contains(&value), "{name} is {value}")
                }
                ("packets", _) => assert!(value <= packets as f64, "{name} is {value}, and {packets} wait"),
                ("average", Some(expected)) => {
                    assert_eq!(unit, Gauge::length(name, value, expected).unit, "the unit of {name}");
                    // Sums of rounded parts may exceed the whole by a rounding.
                    let most = self.book.most.in_unit_of(expected) as f64 * (1.0 + 1e-9);
                    assert!((0.0..=most).contains(&value), "average is {value}, longest queue {most}");
                }
                _ => {}
            }
        });
    }
}

impl Watched {
    /// Checks the limits of the disciplines inside this `outer`, whose parameters stand at `place`; returns how many
    /// there are.
    fn check_inner(&self, outer: &dyn QueueDiscipline, place: &str) -> u64 {
        let mut checked = 0;
        outer.inner(&mut |name, inner| {
            let place = if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
            // A leaf of HTB without a queue of its own has Drop Tail as it comes.
            let limit = self.limits.get(&place).copied().unwrap_or_else(|| Limit {
                length: Some(drop_tail::Config::default().limit),
                one_more: false,
            });
            limit.check(inner.backlog(), &format!(" at {place}"));
            checked += 1 + self.check_inner(inner, &place);
        });
        checked
    }
}

/// Our own account of what waits.
#[derive(Clone, Default)]
struct Book {
    /// By flow, and by whether ECN bits sent the packets to another queue.
    flows: BTreeMap<(u32, bool), VecDeque<Packet>>,
    backlog: Backlog,
    most: Backlog,
}

impl Book {
    fn arrive(&mut self, packet: Packet, ecn_mask: u8) {
        // What an average may see includes the packet that arrives, whatever becomes of it.
        let line = (packet.flow, packet.ecn as u8 & ecn_mask != 0);
        self.flows.entry(line).or_default().push_back(packet);
        self.backlog.packets += 1;
        self.backlog.bytes += u64::from(packet.bytes);
        self.most.packets = self.most.packets.max(self.backlog.packets);
        self.most.bytes = self.most.bytes.max(self.backlog.bytes);
    }

    /// The packets among which this one waits, if it does.
    fn line_of(&mut self, packet: &Packet) -> &mut VecDeque<Packet> {
        let waits = |line: &VecDeque<Packet>| line.iter().any(|waiting| waiting.id == packet.id);
        let is_other = self.flows.get(&(packet.flow, true)).is_some_and(waits);
        self.flows.entry((packet.flow, is_other)).or_default()
    }

    fn forget(&mut self, packet: &Packet) {
        self.backlog.packets -= 1;
        self.backlog.bytes -= u64::from(packet.bytes);
    }

    fn leave(&mut self, packet: &Packet, may_overtake: impl FnOnce() -> bool) {
        let first = self.line_of(packet).front().copied();
        assert!(
            first == Some(*packet) || may_overtake(),
            "{first:?} is the first packet that waits of its flow; {packet:?} was sent"
        );
        self.discard(packet);
    }

    fn discard(&mut self, packet: &Packet) {
        let flow = self.line_of(packet);
        let place = flow.iter().position(|waiting| waiting.id == packet.id);
        let waiting = place.and_then(|place| flow.remove(place));
        assert_eq!(waiting, Some(*packet), "left waits; right is gone");
        self.forget(packet);
    }

    fn mark(&mut self, packet: &Packet) {
        let flow = self.line_of(packet);
        let waiting = flow.iter_mut().find(|waiting| waiting.id == packet.id);
        let waiting = waiting.expect("a marked packet waits");
        assert!(matches!(waiting.ecn, Ecn::Ect0 | Ecn::Ect1), "{:?} cannot be marked", waiting.ecn);
        waiting.ecn = Ecn::Ce;
        assert_eq!(waiting, packet, "left waits; right was marked");
    }
}

/// Hears of fates, books them and passes them on.
struct Witness<'a> {
    book: &'a mut Book,
    marks: bool,
    now: Instant,
    outer: &'a mut dyn Observer,
}

impl Observer for Witness<'_> {
    fn dropped(&mut self, packet: &Packet, why: Reason, now: Instant) {
        assert_eq!(now, self.now, "a fate is told when it happens");
        self.book.discard(packet);
        self.outer.dropped(packet, why, now);
    }

    fn marked(&mut self, packet: &Packet, why: Reason, now: Instant) {
        assert_eq!(now, self.now, "a fate is told when it happens");
        assert!(self.marks, "a packet is marked although the parameters do not allow it");
        self.book.mark(packet);
        self.outer.marked(packet, why, now);
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

    /// What a bad discipline does wrong.
    #[derive(Clone, Copy, PartialEq)]
    enum Sin {
        None,
        LosesInSilence,
        SendsTheNewestFirst,
        KeepsTooMany,
        SendsNothing,
        MarksWhatCannotBe,
        MarksAgainstTheRules,
        LosesTheMark,
        KeepsTooManyInside,
    }

    #[derive(Clone)]
    struct Bad(Sin, Vec<Packet>);

    impl QueueDiscipline for Bad {
        fn enqueue(&mut self, mut packet: Packet, cx: &mut Context<'_>) {
            let Self(sin, waiting) = self;
            if waiting.len() == 3 && !matches!(sin, Sin::KeepsTooMany | Sin::KeepsTooManyInside) {
                return cx.drop(packet, Reason::Overflow);
            }
            match sin {
                Sin::LosesInSilence => return,
                Sin::MarksWhatCannotBe => cx.observer.marked(&packet, Reason::Early, cx.now),
                Sin::MarksAgainstTheRules => cx.mark(&mut packet, Reason::Early),
                Sin::LosesTheMark => cx.mark(&mut packet.clone(), Reason::Early),
                _ => {}
            }
            waiting.push(packet);
        }

        fn dequeue(&mut self, _cx: &mut Context<'_>) -> Option<Packet> {
            let Self(sin, waiting) = self;
            match sin {
                Sin::SendsNothing => None,
                Sin::SendsTheNewestFirst => waiting.pop(),
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

    impl Report for Bad {
        fn inner(&self, show: &mut dyn FnMut(&str, &dyn QueueDiscipline)) {
            if self.0 == Sin::KeepsTooManyInside {
                show("child", &Self(Sin::None, self.1.clone()));
            }
        }
    }

    fn commit(sin: Sin, marks: bool, ecn: Ecn) {
        let limit = |packets| Limit { length: Some(Length::Packets(packets)), one_more: false };
        let outer = limit(if sin == Sin::KeepsTooManyInside { 9 } else { 3 });
        let expected =
            Expected { limit: outer, average_unit: None, marks, ecn_mask: 0, marks_before_queues: false };
        let limits = [("child".to_owned(), limit(3))].into();
        let inner = Box::new(Bad(sin, Vec::new()));
        let mut queue = Watched { inner, expected, limits, unchecked: 0, book: Book::default() };
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
    fn an_honest_discipline_passes() {
        commit(Sin::None, false, Ecn::NotEct);
    }

    macro_rules! caught {
        ($($name:ident: $sin:ident, $marks:literal, $ecn:ident, $message:literal;)+) => {
            $(#[test]
            #[should_panic(expected = $message)]
            fn $name() {
                commit(Sin::$sin, $marks, Ecn::$ecn);
            })+
        };
    }
    caught! {
        a_packet_lost_in_silence_is_missed: LosesInSilence, false, NotEct, "backlog is not what waits";
        a_packet_that_overtakes_is_caught: SendsTheNewestFirst, false, NotEct, "first packet that waits";
        a_queue_beyond_its_limit_is_caught: KeepsTooMany, false, NotEct, "4 packets wait, not 3";
        a_queue_beyond_its_limit_inside_another_is_caught: KeepsTooManyInside, false, NotEct, "not 3 at child";
        a_silent_queue_is_caught: SendsNothing, false, NotEct, "although packets wait";
        a_mark_on_a_packet_without_ecn_is_caught: MarksWhatCannotBe, true, NotEct, "cannot be marked";
        a_mark_against_the_parameters_is_caught: MarksAgainstTheRules, false, Ect0, "do not allow";
        a_lost_mark_is_caught: LosesTheMark, true, Ect0, "first packet that waits";
    }
}
