//! The interface of a queue discipline, and the context that every call receives.

use aqm_net::{Backlog, Instant, Packet, Rng, Span};
use dyn_clone::DynClone;
use serde_json::Value;

use crate::qdisc::InnerQdisc;
use crate::{Acknowledgement, Evidence, Gauge, Label, Reason};

/// The queue of a link: the queued packets, and the algorithm that admits, drops, marks and orders packets.
///
/// [`enqueue`](Self::enqueue) is called for every arrival, and [`dequeue`](Self::dequeue) each time the link becomes
/// free. The packet in transmission is no longer in the queue. `dequeue` returns `None` only if the queue is empty, or
/// if the discipline delays all queued packets until [`next_ready`](Self::next_ready). At the end of a busy period,
/// `dequeue` is called once more, at the time when the last transmission ends. This call returns `None`, and the
/// discipline becomes idle.
///
/// Drops and marks are reported to the [`Context`] instead of being returned, because the packet that is dropped or
/// marked is not always the argument of the call: RED drops the arriving packet, CoDel drops packets during `dequeue`,
/// and fair queueing drops a packet of another flow. The time never decreases from one call to the next. An algorithm
/// with periodic updates performs all updates that are due at the next call.
///
/// The discipline that `build` returns also serves as a prototype: each run uses a clone of this prototype.
pub trait QueueDiscipline: Report + DynClone + Send + Sync {
    /// Enqueues `packet`, which arrives at `cx.now`, or reports to `cx` that the packet is dropped.
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>);

    /// Returns the packet to send next. The link has become free at `cx.now`. Returns `None` if the queue is empty, or
    /// if the discipline delays all queued packets until [`next_ready`](Self::next_ready).
    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet>;

    /// Returns the backlog, in packets and bytes.
    fn backlog(&self) -> Backlog;

    /// Returns the time at which to call `dequeue` again after a call of `dequeue` returned `None` although packets are
    /// queued. If a packet arrives before this time, `dequeue` is called when the packet arrives.
    fn next_ready(&self) -> Option<Instant> {
        None
    }

    /// Returns the transmission of the packet that [`dequeue`](Self::dequeue) returned last, if the discipline
    /// determines how long transmissions take. By default, the rate of the link determines the time, and the result is
    /// always `None`. Otherwise, the result is never `None`, even before the first packet.
    fn transmission(&self) -> Option<Transmission> {
        None
    }

    /// Starts a run. The code that runs a clone calls this method once, before the first packet. If the parameter
    /// `start` is `settled`, timers have already been running for a long time when the run begins, so the phases of the
    /// timers are drawn from `chance`, a random stream with no other use. If this method is not called, timers start
    /// when the run begins.
    fn on_start(&mut self, _chance: &mut Rng) {}

    /// Passes to the discipline the header fields that all packets with the label `number` have. This method is called
    /// before the first packet with this label arrives.
    fn on_label(&mut self, _number: u16, _label: &Label) {}
}

/// A transmission whose duration is determined by the discipline instead of the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transmission {
    /// Time from the start of the transmission until the last bit of the packet has been sent.
    pub sent: Span,
    /// Time from the start of the transmission until the next transmission may begin.
    pub busy: Span,
    /// Whether the next packet is part of the same transmission. If so, `dequeue` must be called again at the same
    /// instant.
    pub continues: bool,
}

/// The state that a discipline reports during a run. A discipline overrides only the methods for which it has something
/// to report.
pub trait Report {
    /// Reports the discipline's gauges, each with a unique name. The `gauges` table contains a row for each reported
    /// value. If the packets of a link are recorded, the gauge named `average` is also recorded with each packet.
    fn gauges(&self, _show: &mut dyn FnMut(Gauge)) {}

    /// Returns the statistics that are specific to this discipline in the output of `tc -s -j qdisc show`, with the
    /// names and units of `tc`, or null if there are no such statistics. The caller adds the statistics that every
    /// discipline has (bytes, packets, drops, backlog). `overlimits` is also a statistic of every discipline, and is 0
    /// unless the returned table contains `overlimits`.
    fn tc_statistics(&self, _now: Instant) -> Value {
        Value::Null
    }

    /// Reports the inner disciplines, each with the path of its parameters, such as `classes.web.queue`.
    fn inner(&self, _show: &mut dyn FnMut(&str, &dyn QueueDiscipline)) {}

    /// Reports the inner disciplines that are separate qdiscs in the kernel, with their statistics up to `now`.
    fn inner_qdiscs(&self, _now: Instant, _show: &mut dyn FnMut(InnerQdisc<'_>)) {}

    /// Reports the name of each service class and its counters up to `now`, in a fixed order.
    fn classes(&self, _now: Instant, _show: &mut dyn FnMut(&str, ClassCounters)) {}
}

dyn_clone::clone_trait_object!(QueueDiscipline);

/// Counters of a service class, starting when the discipline was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounters {
    /// Packets that arrived, including dropped packets.
    pub arrivals: u64,
    /// Packets that left.
    pub departures: u64,
    /// Bytes that left.
    pub departed_bytes: u64,
    /// Bytes that were sent with bandwidth borrowed from another class.
    pub borrowed_bytes: u64,
    /// Packets dropped.
    pub drops: u64,
    /// The time integral of the backlog in packets, in packet-nanoseconds.
    pub packet_nanos: u128,
}

impl ClassCounters {
    /// Returns the increase of the counters since the earlier counters `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            arrivals: self.arrivals - before.arrivals,
            departures: self.departures - before.departures,
            departed_bytes: self.departed_bytes - before.departed_bytes,
            borrowed_bytes: self.borrowed_bytes - before.borrowed_bytes,
            drops: self.drops - before.drops,
            packet_nanos: self.packet_nanos - before.packet_nanos,
        }
    }
}

/// The arguments that every method of a discipline receives.
pub struct Context<'a> {
    /// The current simulation time.
    pub now: Instant,
    /// The random stream that is used only by this queue.
    pub rng: &'a mut Rng,
    /// The receiver of reports on drops and marks.
    pub observer: &'a mut dyn Observer,
}

impl Context<'_> {
    /// Drops `packet`.
    pub fn drop(&mut self, packet: Packet, why: Reason) {
        self.observer.dropped(&packet, why, self.now);
    }

    /// Drops `packet` because of the numbers in `evidence`.
    #[cold]
    pub fn drop_on(&mut self, packet: Packet, why: Reason, evidence: Evidence) {
        self.observer.evidence(&evidence);
        self.observer.dropped(&packet, why, self.now);
    }

    /// Marks `packet` with "congestion experienced" (CE). If the packet is already marked, nothing is changed or
    /// reported.
    pub fn mark(&mut self, packet: &mut Packet, why: Reason) {
        debug_assert!(packet.ecn.can_be_marked(), "only an ECN-capable packet can be marked");
        if packet.ecn != aqm_net::Ecn::Ce {
            packet.ecn = aqm_net::Ecn::Ce;
            self.observer.marked(packet, why, self.now);
        }
    }
}

/// Receives reports on packets that are dropped or marked, and returns the TCP headers of packets.
pub trait Observer {
    /// Records that `packet` was dropped at `now`.
    fn dropped(&mut self, packet: &Packet, why: Reason, now: Instant);
    /// Records that `packet` was marked at `now`.
    fn marked(&mut self, packet: &Packet, why: Reason, now: Instant);
    /// Receives the numbers that led to the drop that is reported next. An observer that forwards drops and marks to
    /// another observer must also forward this call.
    fn evidence(&mut self, _evidence: &Evidence) {}
    /// Returns the TCP header of `packet` if the packet is a TCP packet in which the ACK flag is set and the SYN flag
    /// is not set. An observer that forwards drops and marks to another observer must also forward this call.
    fn acknowledgement(&self, _packet: &Packet) -> Option<Acknowledgement> {
        None
    }
}
