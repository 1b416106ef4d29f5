//! The parts that all wrappers share. A wrapper is a processing step before or after an inner queue, which may be any
//! other discipline.
//!
//! The file of each wrapper contains the implementation of [`Wrapper`] and the wrapper's own parameters. This file
//! contains the code for the inner queue: [`Inside`] stores the inner queue, assigns new ids to the packets in the
//! inner queue, and reports drops and marks with the original ids. Therefore, a wrapper may replace a queued packet
//! with another packet, and the inner queue never contains two packets with the same id. The wrapper passes on all
//! reports of the inner queue.
//!
//! aqmlab's choice: a gauge of the inner queue is hidden if the wrapper has a gauge with the same name.

use aqm_net::{Backlog, ConfigErrors, Instant, Packet, Rate, Rng};
use serde_json::{Value, json};

use crate::qdisc::InnerQdisc;
use crate::red::red;
use crate::{
    Acknowledgement, Build as _, ClassCounters, Config, Context, Evidence, Gauge, Label, Observer,
    QueueDiscipline, Reason, Report, Transmission, drop_tail, htb,
};

/// Declares the `Config` of a wrapper, and implements `Build`. In `Config`, the wrapper's own parameters precede
/// `queue`. `Config::wrapper` must check the wrapper's own parameters and return the [`Wrapper`]. `Config::own_corners`
/// must return test cases for the wrapper's own parameters, and `Config::as_tc` implements [`crate::Describe::tc`].
macro_rules! wrapper {
    ( $(#[doc = $about:literal])+ pub struct Config { $($own:tt)* } ) => {
        ::aqm_net::parameters! {
            $(#[doc = $about])+
            pub struct Config {
                $($own)*
                /// Inner queue discipline, which may be any discipline. Default: `drop-tail` with default parameters.
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

            fn tc(&self, rate: ::aqm_net::Rate) -> Result<$crate::tc::Qdisc, ::aqm_net::ConfigErrors> {
                self.as_tc(rate)
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

/// Returns the test cases of a wrapper: every set of the wrapper's own parameters, as well as the first set in
/// combination with inner queues that drop, mark, reorder and delay packets.
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

/// The interface that every wrapper implements in order to process packets.
pub(crate) trait Wrapper: Clone + Send + Sync + 'static {
    /// The data that the wrapper stores for each queued packet.
    type Note: Copy + Send + Sync + 'static;

    /// Drops or enqueues an arriving packet.
    fn on_arrival(&mut self, packet: Packet, inside: &mut Inside<Self::Note>, cx: &mut Context<'_>);

    /// Processes a departing packet. `inside` contains the packets that remain in the queue.
    #[inline]
    fn on_departure(
        &mut self,
        _packet: &mut Packet,
        _note: Self::Note,
        _inside: &Inside<Self::Note>,
        _cx: &mut Context<'_>,
    ) {
    }

    /// Notifies the wrapper that the packet in `slot` is no longer queued, for any reason.
    #[inline]
    fn on_removed(&mut self, _slot: u32, _note: Self::Note) {}

    /// Starts a run, as [`QueueDiscipline::on_start`] does. The inner queue is notified separately.
    fn on_start(&mut self, _chance: &mut Rng) {}

    /// Returns the backlog of the wrapper.
    fn backlog(&self, inside: &Inside<Self::Note>) -> Backlog {
        inside.backlog()
    }

    /// Reports the wrapper's own gauges, as [`Report::gauges`] does.
    fn gauges(&self, _show: &mut dyn FnMut(Gauge)) {}

    /// Returns the wrapper's own statistics, as [`Report::tc_statistics`] does. The inner queue reports its statistics
    /// separately.
    fn tc_statistics(&self) -> Value {
        Value::Null
    }
}

/// The number that means "no slot".
const NONE: u32 = u32::MAX;

/// A queued packet, in the state that it would have if it left now, and its note.
#[derive(Clone, Copy)]
struct Slot<N> {
    packet: Packet,
    note: N,
}

/// An inner queue. Each packet of the inner queue has a slot, and the packet's id in the inner queue is the number of
/// this slot.
#[derive(Clone)]
pub(crate) struct Inside<N> {
    queue: Box<dyn QueueDiscipline>,
    packets: Packets<N>,
    /// The first free slot, or [`NONE`]. The packet id in a free slot is the number of the next free slot.
    free: u32,
    arrivals: u64,
    departures: u64,
    departed_bytes: u64,
}

/// The packets in the inner queue.
#[derive(Clone)]
struct Packets<N> {
    slots: Vec<Slot<N>>,
    /// The slots of packets that the inner queue dropped during the current call.
    dropped: Vec<u32>,
}

impl<N: Copy> Inside<N> {
    /// Builds the inner queue of a wrapper. If no queue is configured, the inner queue is a Drop Tail queue with
    /// default parameters.
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

    /// Enqueues `packet` and returns its slot. If the packet was dropped, the slot is already empty again.
    #[inline]
    pub fn enqueue(&mut self, packet: Packet, note: N, cx: &mut Context<'_>) -> u32 {
        self.enqueue_with_length(packet, packet.bytes, note, cx)
    }

    /// Enqueues `packet`. The inner queue uses `length` as the packet's length, and all other code uses the packet's
    /// original length.
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

    /// Returns the packet in this slot, in the state that the packet would have if it left now. The slot must not be
    /// empty.
    pub fn packet(&self, slot: u32) -> &Packet {
        &self.packets.slots[slot as usize].packet
    }

    /// Replaces the packet in this slot and returns the previous packet. The two packets must be so similar that the
    /// inner queue cannot distinguish them.
    pub fn exchange(&mut self, slot: u32, packet: Packet) -> Packet {
        std::mem::replace(&mut self.packets.slots[slot as usize].packet, packet)
    }

    /// Returns the note of the packet in this slot.
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

    /// Returns the backlog of the inner queue.
    pub fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    /// Calls the inner queue, and translates the packet ids in the inner queue's reports on drops and marks.
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

/// An observer that reports drops and marks of queued packets with the packets' original ids.
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

    fn evidence(&mut self, evidence: &Evidence) {
        self.outer.evidence(evidence);
    }

    fn acknowledgement(&self, packet: &Packet) -> Option<Acknowledgement> {
        self.outer.acknowledgement(&self.packets.slots[packet.id as usize].packet)
    }
}

/// A wrapper and its inner queue.
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

    fn transmission(&self) -> Option<Transmission> {
        self.inside.queue.transmission()
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
