//! The interface of a queue discipline, and the context that every call receives.

use aqm_net::{Backlog, Instant, Packet, Rng};
use dyn_clone::DynClone;
use serde_json::Value;

use crate::qdisc::InnerQdisc;
use crate::{Acknowledgement, Gauge, Label, Reason};

/// The queued packets of a link, and the algorithm that admits, drops, marks and orders them.
///
/// [`enqueue`](Self::enqueue) is called for every arrival, and [`dequeue`](Self::dequeue) each time the link becomes
/// free. The packet in transmission is no longer in the queue. `dequeue` returns `None` only if the queue is empty, or
/// if the discipline delays all queued packets until [`next_ready`](Self::next_ready). At the end of a busy period,
/// `dequeue` is called once more, at the time at which the last transmission ends. In this call, `dequeue` returns
/// `None` and the discipline becomes idle.
///
/// Drops and marks are reported to the [`Context`] instead of being returned, because the packet concerned is not
/// always the argument: RED drops the arriving packet, CoDel drops packets during `dequeue`, and fair queueing drops a
/// packet of another flow. The times of successive calls never decrease. An algorithm with periodic updates executes
/// all due updates at the next call.
///
/// The discipline that `build` returns also serves as a prototype: each run uses a clone of it.
pub trait QueueDiscipline: Report + DynClone + Send + Sync {
    /// Enqueues `packet`, which arrives at `cx.now`, or reports to `cx` that the packet is dropped.
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>);

    /// Returns the packet to send next, when the link becomes free at `cx.now`. Returns `None` if the queue is empty,
    /// or if the discipline delays all queued packets until [`next_ready`](Self::next_ready).
    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet>;

    /// Returns the backlog, in packets and bytes.
    fn backlog(&self) -> Backlog;

    /// Returns the time at which to call `dequeue` again after a call that returned `None` although packets are queued.
    /// If a packet arrives earlier, `dequeue` is called then.
    fn next_ready(&self) -> Option<Instant> {
        None
    }

    /// Starts a run. The code that runs a clone calls this method once, before the first packet. With `start =
    /// "settled"`, timers have been running for a long time, so their phases are drawn from `chance`, a random stream
    /// with no other use. If this method is not called, timers start at the beginning of the run.
    fn on_start(&mut self, _chance: &mut Rng) {}

    /// Announces the header fields that all packets with this label `number` have, before the first of these packets
    /// arrives.
    fn on_label(&mut self, _number: u16, _label: &Label) {}
}

/// The state that a discipline reports during a run. A discipline overrides the methods for which it has values.
pub trait Report {
    /// Reports the discipline's gauges, each with a unique name. The table `gauges` has a row for each value. If the
    /// packets of a link are recorded, the value named `average` is also recorded with each packet.
    fn gauges(&self, _show: &mut dyn FnMut(Gauge)) {}

    /// Returns the statistics that `tc -s -j qdisc show` prints for this discipline only, with the names and units of
    /// `tc`; null if there are none. The caller adds the statistics that every discipline has (bytes, packets, drops,
    /// backlog). `overlimits` is also a statistic of every discipline, and is 0 unless this table contains it.
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

/// Counters of a service class since the discipline was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounters {
    /// Packets that arrived, including dropped packets.
    pub arrivals: u64,
    /// Packets that left.
    pub departures: u64,
    /// Bytes that left.
    pub departed_bytes: u64,
    /// Departed bytes that were sent with bandwidth borrowed from another class.
    pub borrowed_bytes: u64,
    /// Packets dropped.
    pub drops: u64,
    /// The integral of the backlog in packets over time, in packets times nanoseconds.
    pub packet_nanos: u128,
}

impl ClassCounters {
    /// Returns the difference between these counters and the earlier counters `before`.
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
    /// The random stream that only this queue uses.
    pub rng: &'a mut Rng,
    /// The receiver of reports on drops and marks.
    pub observer: &'a mut dyn Observer,
}

impl Context<'_> {
    /// Drops `packet`.
    pub fn drop(&mut self, packet: Packet, why: Reason) {
        self.observer.dropped(&packet, why, self.now);
    }

    /// Marks `packet` with "congestion experienced" (CE). A packet that is already marked stays unchanged and is not
    /// reported again.
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
    /// Returns the TCP header of `packet` if the packet is a TCP packet with the flag ACK and without the flag SYN. An
    /// observer that forwards drops and marks to another observer must forward this call, too.
    fn acknowledgement(&self, _packet: &Packet) -> Option<Acknowledgement> {
        None
    }
}
