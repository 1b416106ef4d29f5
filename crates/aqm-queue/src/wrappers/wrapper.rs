//! What wrappers have in common: a step before or behind a queue, which may be any other discipline.
//!
//! A wrapper's file holds its [`Wrapper`] and the parameters that are its own. The queue that it serves is here:
//! [`Inside`] holds it, knows the packets in it by ids of its own, and tells their fates under the ids they came with.
//! So a wrapper may let a packet take the place of another that waits, and the queue never sees two packets with one id.
//! What the queue tells of itself, the wrapper tells.
//!
//! Ours: a gauge of the queue that has the name of one of the wrapper is not shown.

use aqm_net::{Backlog, ConfigErrors, Instant, Packet, Rate, Rng};
use serde_json::{Value, json};

use crate::qdisc::InnerQdisc;
use crate::red::red;
use crate::{
    Acknowledgement, Build as _, ClassCounters, Config, Context, Gauge, Label, Observer, QueueDiscipline,
    Reason, Report, drop_tail, htb,
};

/// Declares the `Config` of a wrapper, the parameters of its own first, and how it is built: `Config::wrapper` checks its
/// own and makes its [`Wrapper`], `Config::own_corners` has the tables of its own that are hard for it.
macro_rules! wrapper {
    ( $(#[doc = $about:literal])+ pub struct Config { $($own:tt)* } ) => {
        ::aqm_net::parameters! {
            $(#[doc = $about])+
            pub struct Config {
                $($own)*
                /// The queue, any discipline. Left out: `drop-tail` as it comes.
                pub queue: Option<Box<$crate::Config>> = None, "ours";
            }
        }

        impl $crate::Build for Config {
            fn build(
                &self,
                rate: ::aqm_net::Rate,
            ) -> Result<Box<dyn $crate::QueueDiscipline>, ::aqm_net::ConfigErrors> {
                let mut errors = ::aqm_net::ErrorCollector::default();
                let wrapper = errors.take(self.wrapper(rate));
                let inside = errors.take($crate::wrappers::wrapper::Inside::build(self.queue.as_deref(), rate));
                let (wrapper, inside) = errors.finish_some(wrapper.zip(inside))?;
                Ok(Box::new($crate::wrappers::wrapper::Wrapped { wrapper, inside }))
            }
        }

        impl $crate::Describe for Config {
            fn inner(&self, rate: ::aqm_net::Rate) -> Vec<$crate::Inner<'_>> {
                let queue = self.queue.as_deref();
                queue.map(|config| $crate::Inner { place: "queue".to_owned(), config, rate }).into_iter().collect()
            }

            fn holds_back(&self) -> bool {
                self.queue.as_ref().is_some_and(|queue| queue.holds_back())
            }

            fn outlet(&self, line: ::aqm_net::Rate) -> ::aqm_net::Rate {
                self.queue.as_ref().map_or(line, |queue| queue.outlet(line))
            }
        }

        impl $crate::TestCases for Config {
            fn has_flow_queues(&self) -> bool {
                self.queue.as_ref().is_some_and(|queue| queue.has_flow_queues())
            }

            fn corners(&self) -> Vec<::serde_json::Value> {
                $crate::wrappers::wrapper::corners(Self::own_corners())
            }
        }
    };
}
pub(crate) use wrapper;

/// Each table of a wrapper's own; the first of them, with queues that drop, mark, reorder and hold back.
pub(crate) fn corners(own: Vec<Value>) -> Vec<Value> {
    let mut small = red::small();
    small["kind"] = json!("red");
    let queues = [
        json!({"kind": "drop-tail", "limit": "5001B", "admits": "until-beyond"}),
        small.clone(),
        json!({"kind": "drr", "limit": "30p", "buckets": 2, "drop": "longest-front", "child": small.clone()}),
        json!({"kind": "ce-threshold", "threshold": "2p", "queue": {"kind": "policer", "rate": "9Mbps", "queue": small}}),
    ];
    let shaper = htb::corners().into_iter().map(|mut htb| {
        htb["kind"] = json!("htb");
        htb
    });
    let over_first = |queue: Value| {
        let mut corner = own.first().cloned().unwrap_or_else(|| json!({}));
        corner["queue"] = queue;
        corner
    };
    let around = queues.into_iter().chain(shaper.take(1)).map(over_first).collect();
    [own.clone(), around].concat()
}

/// What a wrapper does with packets.
pub(crate) trait Wrapper: Clone + Send + Sync + 'static {
    /// What it notes of a packet in the queue.
    type Note: Copy + Send + Sync + 'static;

    /// A packet arrives: it drops it, or lets it in.
    fn on_arrival(&mut self, packet: Packet, inside: &mut Inside<Self::Note>, cx: &mut Context<'_>);

    /// A packet leaves; what waits behind it is `inside`.
    #[inline]
    fn on_departure(
        &mut self,
        _packet: &mut Packet,
        _noted: Self::Note,
        _inside: &Inside<Self::Note>,
        _cx: &mut Context<'_>,
    ) {
    }

    /// The packet of this `place` does not wait any more, whatever became of it.
    #[inline]
    fn on_gone(&mut self, _place: u32, _noted: Self::Note) {}

    /// As [`QueueDiscipline::on_start`]; the queue is told, too.
    fn on_start(&mut self, _chance: &mut Rng) {}

    /// What waits.
    fn backlog(&self, inside: &Inside<Self::Note>) -> Backlog {
        inside.backlog()
    }

    /// As [`QueueDiscipline::gauges`].
    fn gauges(&self, _show: &mut dyn FnMut(Gauge)) {}

    /// As [`QueueDiscipline::tc_statistics`]; those of the queue are told by the queue.
    fn tc_statistics(&self) -> Value {
        Value::Null
    }
}

/// The number of no place.
const NONE: u32 = u32::MAX;

/// A packet in the queue, as it would leave now, and what was noted of it.
#[derive(Clone, Copy)]
struct Place<N> {
    packet: Packet,
    noted: N,
}

/// A queue in which packets have places; the number of its place is the id that a packet has there.
#[derive(Clone)]
pub(crate) struct Inside<N> {
    queue: Box<dyn QueueDiscipline>,
    waiting: Waiting<N>,
    /// The first place without a packet, where the number of the next stands for an id; or [`NONE`].
    free: u32,
    arrivals: u64,
    departures: u64,
    departed_bytes: u64,
}

/// The packets in a queue.
#[derive(Clone)]
struct Waiting<N> {
    places: Vec<Place<N>>,
    /// Places of those that were dropped in the present call.
    lost: Vec<u32>,
}

impl<N: Copy> Inside<N> {
    /// The queue of a wrapper; Drop Tail as it comes if none is named.
    pub fn build(queue: Option<&Config>, rate: Rate) -> Result<Self, ConfigErrors> {
        let queue = match queue {
            Some(queue) => queue.build(rate).map_err(|errors| errors.within("queue")),
            None => drop_tail::Config::default().build(rate),
        };
        Ok(Self {
            queue: queue?,
            waiting: Waiting { places: Vec::new(), lost: Vec::new() },
            free: NONE,
            arrivals: 0,
            departures: 0,
            departed_bytes: 0,
        })
    }

    /// Offers `packet` to the queue; returns its place, from which it may be gone already.
    #[inline]
    pub fn enqueue(&mut self, packet: Packet, noted: N, cx: &mut Context<'_>) -> u32 {
        self.enqueue_with_length(packet, packet.bytes, noted, cx)
    }

    /// The same, where the queue takes the packet for one of another length; all others see it as it is.
    #[inline]
    pub fn enqueue_with_length(
        &mut self,
        mut packet: Packet,
        length: u16,
        noted: N,
        cx: &mut Context<'_>,
    ) -> u32 {
        self.arrivals += 1;
        let one = Place { packet, noted };
        let place = match self.waiting.places.get_mut(self.free as usize) {
            Some(free) => {
                let next = free.packet.id;
                *free = one;
                std::mem::replace(&mut self.free, next)
            }
            None => {
                self.waiting.places.push(one);
                self.waiting.places.len() as u32 - 1
            }
        };
        (packet.id, packet.bytes) = (place, length);
        self.with(cx, |queue, cx| queue.enqueue(packet, cx));
        place
    }

    /// The packet of this place, in which one waits, as it would leave now.
    pub fn packet(&self, place: u32) -> &Packet {
        &self.waiting.places[place as usize].packet
    }

    /// Lets `packet` have this place; returns the one that had it. The queue cannot tell one from the other.
    pub fn exchange(&mut self, place: u32, packet: Packet) -> Packet {
        std::mem::replace(&mut self.waiting.places[place as usize].packet, packet)
    }

    /// What is noted of the packet of this place.
    pub fn noted(&mut self, place: u32) -> &mut N {
        &mut self.waiting.places[place as usize].noted
    }

    /// Nothing waits in this place any more; returns what did.
    #[inline]
    fn leave(&mut self, place: u32) -> Place<N> {
        let left = &mut self.waiting.places[place as usize];
        let one = *left;
        left.packet.id = std::mem::replace(&mut self.free, place);
        one
    }

    /// What waits.
    pub fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    /// Lets the queue act, and translates what it tells.
    #[inline]
    fn with<T>(
        &mut self,
        cx: &mut Context<'_>,
        act: impl FnOnce(&mut dyn QueueDiscipline, &mut Context<'_>) -> T,
    ) -> T {
        let mut translator = Translator { waiting: &mut self.waiting, outer: cx.observer };
        act(self.queue.as_mut(), &mut Context { now: cx.now, rng: cx.rng, observer: &mut translator })
    }
}

/// Tells the fates of packets in the queue under the ids with which they came.
struct Translator<'a, N> {
    waiting: &'a mut Waiting<N>,
    outer: &'a mut dyn Observer,
}

impl<N> Observer for Translator<'_, N> {
    fn dropped(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.waiting.lost.push(packet.id);
        self.outer.dropped(&self.waiting.places[packet.id as usize].packet, why, now);
    }

    fn marked(&mut self, packet: &Packet, why: Reason, now: Instant) {
        let outside = &mut self.waiting.places[packet.id as usize].packet;
        outside.ecn = packet.ecn;
        self.outer.marked(outside, why, now);
    }

    fn acknowledgement(&self, packet: &Packet) -> Option<Acknowledgement> {
        self.outer.acknowledgement(&self.waiting.places[packet.id as usize].packet)
    }
}

/// A wrapper and its queue: the running discipline.
#[derive(Clone)]
pub(crate) struct Wrapped<S: Wrapper> {
    pub wrapper: S,
    pub inside: Inside<S::Note>,
}

impl<S: Wrapper> Wrapped<S> {
    #[inline]
    fn learn_of_losses(&mut self) {
        if !self.inside.waiting.lost.is_empty() {
            self.forget_the_lost();
        }
    }

    #[cold]
    fn forget_the_lost(&mut self) {
        while let Some(place) = self.inside.waiting.lost.pop() {
            let Place { noted, .. } = self.inside.leave(place);
            self.wrapper.on_gone(place, noted);
        }
    }
}

impl<S: Wrapper> QueueDiscipline for Wrapped<S> {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        self.wrapper.on_arrival(packet, &mut self.inside, cx);
        self.learn_of_losses();
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        let sent = self.inside.with(cx, |queue, cx| queue.dequeue(cx));
        self.learn_of_losses();
        let place = sent?.id;
        let Place { mut packet, noted } = self.inside.leave(place);
        self.wrapper.on_departure(&mut packet, noted, &self.inside, cx);
        self.wrapper.on_gone(place, noted);
        self.inside.departures += 1;
        self.inside.departed_bytes += u64::from(packet.bytes);
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.wrapper.backlog(&self.inside)
    }

    fn next_ready(&self) -> Option<Instant> {
        self.inside.queue.next_ready()
    }

    fn on_start(&mut self, chance: &mut Rng) {
        self.wrapper.on_start(chance);
        self.inside.queue.on_start(chance);
    }

    fn on_label(&mut self, number: u16, label: &Label) {
        self.inside.queue.on_label(number, label);
    }
}

impl<S: Wrapper> Report for Wrapped<S> {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        let mut own = Vec::new();
        self.wrapper.gauges(&mut |gauge| {
            own.push(gauge.name);
            show(gauge);
        });
        self.inside.queue.gauges(&mut |gauge| {
            if !own.contains(&gauge.name) {
                show(gauge);
            }
        });
    }

    fn tc_statistics(&self, _now: Instant) -> Value {
        self.wrapper.tc_statistics()
    }

    fn inner(&self, show: &mut dyn FnMut(&str, &dyn QueueDiscipline)) {
        show("queue", self.inside.queue.as_ref());
    }

    fn inner_qdiscs(&self, _now: Instant, show: &mut dyn FnMut(InnerQdisc<'_>)) {
        let Inside { queue, arrivals, departures, departed_bytes, .. } = &self.inside;
        let counters = ClassCounters {
            arrivals: *arrivals,
            departures: *departures,
            departed_bytes: *departed_bytes,
            drops: arrivals - departures - queue.backlog().packets,
            ..ClassCounters::default()
        };
        show(InnerQdisc { place: "queue", class: 1, queue: queue.as_ref(), counters });
    }

    fn classes(&self, now: Instant, show: &mut dyn FnMut(&str, ClassCounters)) {
        self.inside.queue.classes(now, show);
    }
}
