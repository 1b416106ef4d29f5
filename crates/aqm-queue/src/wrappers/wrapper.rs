//! The common parts of wrappers: a processing step before or after a queue, which may be any other discipline.
//!
//! The file of a wrapper contains its [`Wrapper`] and its own parameters. The inner queue is in this file: [`Inside`]
//! stores the queue, assigns new ids to its packets, and reports their fates under their original ids. A wrapper may
//! therefore replace a queued packet by another, and the queue never contains two packets with the same id. All reports
//! of the inner queue are also reports of the wrapper.
//!
//! aqmlab's choice: a gauge of the queue is hidden if the wrapper has a gauge of the same name.

use aqm_net::{Backlog, ConfigErrors, Instant, Packet, Rate, Rng};
use serde_json::{Value, json};

use crate::qdisc::InnerQdisc;
use crate::red::red;
use crate::{
    Acknowledgement, Build as _, ClassCounters, Config, Context, Gauge, Label, Observer, QueueDiscipline,
    Reason, Report, drop_tail, htb,
};

/// Declares the `Config` of a wrapper, with the wrapper's own parameters first, and implements `Build`.
/// `Config::wrapper` checks the own parameters and returns the [`Wrapper`]. `Config::own_corners` returns the hardest
/// sets of own parameters.
macro_rules! wrapper {
    ( $(#[doc = $about:literal])+ pub struct Config { $($own:tt)* } ) => {
        ::aqm_net::parameters! {
            $(#[doc = $about])+
            pub struct Config {
                $($own)*
                /// The inner queue, any discipline. If omitted, `drop-tail` with its defaults.
                pub queue: Option<Box<$crate::Config>> = None, "aqmlab's choice";
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
                queue.map(|config| $crate::Inner { path: "queue".to_owned(), config, rate }).into_iter().collect()
            }

            fn holds_back(&self) -> bool {
                self.queue.as_ref().is_some_and(|queue| queue.holds_back())
            }

            fn outlet(&self, link: ::aqm_net::Rate) -> ::aqm_net::Rate {
                self.queue.as_ref().map_or(link, |queue| queue.outlet(link))
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

/// Each of the wrapper's own sets of parameters, and the first of them with queues that drop, mark, reorder and delay
/// packets.
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

/// The processing of packets by a wrapper.
pub(crate) trait Wrapper: Clone + Send + Sync + 'static {
    /// The data that the wrapper stores for each queued packet.
    type Note: Copy + Send + Sync + 'static;

    /// Drops an arriving packet or enqueues it.
    fn on_arrival(&mut self, packet: Packet, inside: &mut Inside<Self::Note>, cx: &mut Context<'_>);

    /// Processes a departing packet. `inside` contains the packets behind it.
    #[inline]
    fn on_departure(
        &mut self,
        _packet: &mut Packet,
        _note: Self::Note,
        _inside: &Inside<Self::Note>,
        _cx: &mut Context<'_>,
    ) {
    }

    /// Notifies that the packet in `slot` is no longer queued, for any reason.
    #[inline]
    fn on_removed(&mut self, _slot: u32, _note: Self::Note) {}

    /// As [`QueueDiscipline::on_start`]. The queue is notified separately.
    fn on_start(&mut self, _chance: &mut Rng) {}

    /// The backlog.
    fn backlog(&self, inside: &Inside<Self::Note>) -> Backlog {
        inside.backlog()
    }

    /// As [`Report::gauges`].
    fn gauges(&self, _show: &mut dyn FnMut(Gauge)) {}

    /// As [`Report::tc_statistics`]. The queue reports its own statistics.
    fn tc_statistics(&self) -> Value {
        Value::Null
    }
}

/// Sentinel: no slot.
const NONE: u32 = u32::MAX;

/// A queued packet, as it would leave now, and its note.
#[derive(Clone, Copy)]
struct Slot<N> {
    packet: Packet,
    note: N,
}

/// A queue whose packets have slots. The number of its slot is a packet's id in the queue.
#[derive(Clone)]
pub(crate) struct Inside<N> {
    queue: Box<dyn QueueDiscipline>,
    packets: Packets<N>,
    /// The first free slot, which contains the number of the next free slot as an id; or [`NONE`].
    free: u32,
    arrivals: u64,
    departures: u64,
    departed_bytes: u64,
}

/// The packets in a queue.
#[derive(Clone)]
struct Packets<N> {
    slots: Vec<Slot<N>>,
    /// The slots of packets that were dropped in the current call.
    dropped: Vec<u32>,
}

impl<N: Copy> Inside<N> {
    /// Builds the queue of a wrapper; Drop Tail with its defaults if none is configured.
    pub fn build(queue: Option<&Config>, rate: Rate) -> Result<Self, ConfigErrors> {
        let queue = match queue {
            Some(queue) => queue.build(rate).map_err(|errors| errors.within("queue")),
            None => drop_tail::Config::default().build(rate),
        };
        Ok(Self {
            queue: queue?,
            packets: Packets { slots: Vec::new(), dropped: Vec::new() },
            free: NONE,
            arrivals: 0,
            departures: 0,
            departed_bytes: 0,
        })
    }

    /// Enqueues `packet` and returns its slot, which may already be empty again after a drop.
    #[inline]
    pub fn enqueue(&mut self, packet: Packet, note: N, cx: &mut Context<'_>) -> u32 {
        self.enqueue_with_length(packet, packet.bytes, note, cx)
    }

    /// Enqueues `packet` with a different length for the queue. All other code uses the packet's own length.
    #[inline]
    pub fn enqueue_with_length(
        &mut self,
        mut packet: Packet,
        length: u16,
        note: N,
        cx: &mut Context<'_>,
    ) -> u32 {
        self.arrivals += 1;
        let entry = Slot { packet, note };
        let slot = match self.packets.slots.get_mut(self.free as usize) {
            Some(free) => {
                let next = free.packet.id;
                *free = entry;
                std::mem::replace(&mut self.free, next)
            }
            None => {
                self.packets.slots.push(entry);
                self.packets.slots.len() as u32 - 1
            }
        };
        (packet.id, packet.bytes) = (slot, length);
        self.with(cx, |queue, cx| queue.enqueue(packet, cx));
        slot
    }

    /// The packet in this slot, which must not be empty, as it would leave now.
    pub fn packet(&self, slot: u32) -> &Packet {
        &self.packets.slots[slot as usize].packet
    }

    /// Replaces the packet in this slot and returns the previous one. The queue cannot distinguish the packets.
    pub fn exchange(&mut self, slot: u32, packet: Packet) -> Packet {
        std::mem::replace(&mut self.packets.slots[slot as usize].packet, packet)
    }

    /// The note of the packet in this slot.
    pub fn note(&mut self, slot: u32) -> &mut N {
        &mut self.packets.slots[slot as usize].note
    }

    /// Empties this slot and returns its contents.
    #[inline]
    fn remove(&mut self, slot: u32) -> Slot<N> {
        let removed = &mut self.packets.slots[slot as usize];
        let entry = *removed;
        removed.packet.id = std::mem::replace(&mut self.free, slot);
        entry
    }

    /// The backlog.
    pub fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    /// Calls the queue, and translates the ids of the fates that it reports.
    #[inline]
    fn with<T>(
        &mut self,
        cx: &mut Context<'_>,
        act: impl FnOnce(&mut dyn QueueDiscipline, &mut Context<'_>) -> T,
    ) -> T {
        let mut translator = Translator { packets: &mut self.packets, outer: cx.observer };
        act(self.queue.as_mut(), &mut Context { now: cx.now, rng: cx.rng, observer: &mut translator })
    }
}

/// Reports the fates of queued packets under their original ids.
struct Translator<'a, N> {
    packets: &'a mut Packets<N>,
    outer: &'a mut dyn Observer,
}

impl<N> Observer for Translator<'_, N> {
    fn dropped(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.packets.dropped.push(packet.id);
        self.outer.dropped(&self.packets.slots[packet.id as usize].packet, why, now);
    }

    fn marked(&mut self, packet: &Packet, why: Reason, now: Instant) {
        let outside = &mut self.packets.slots[packet.id as usize].packet;
        outside.ecn = packet.ecn;
        self.outer.marked(outside, why, now);
    }

    fn acknowledgement(&self, packet: &Packet) -> Option<Acknowledgement> {
        self.outer.acknowledgement(&self.packets.slots[packet.id as usize].packet)
    }
}

/// The running discipline: a wrapper and its queue.
#[derive(Clone)]
pub(crate) struct Wrapped<S: Wrapper> {
    pub wrapper: S,
    pub inside: Inside<S::Note>,
}

impl<S: Wrapper> Wrapped<S> {
    #[inline]
    fn remove_dropped(&mut self) {
        if !self.inside.packets.dropped.is_empty() {
            self.remove_all_dropped();
        }
    }

    #[cold]
    fn remove_all_dropped(&mut self) {
        while let Some(slot) = self.inside.packets.dropped.pop() {
            let Slot { note, .. } = self.inside.remove(slot);
            self.wrapper.on_removed(slot, note);
        }
    }
}

impl<S: Wrapper> QueueDiscipline for Wrapped<S> {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        self.wrapper.on_arrival(packet, &mut self.inside, cx);
        self.remove_dropped();
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        let sent = self.inside.with(cx, |queue, cx| queue.dequeue(cx));
        self.remove_dropped();
        let slot = sent?.id;
        let Slot { mut packet, note } = self.inside.remove(slot);
        self.wrapper.on_departure(&mut packet, note, &self.inside, cx);
        self.wrapper.on_removed(slot, note);
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
        show(InnerQdisc { path: "queue", class: 1, queue: queue.as_ref(), counters });
    }

    fn classes(&self, now: Instant, show: &mut dyn FnMut(&str, ClassCounters)) {
        self.inside.queue.classes(now, show);
    }
}
