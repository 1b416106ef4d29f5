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
/// if all queued packets are held back until [`next_ready`](Self::next_ready). At the end of a busy period `dequeue` is
/// called exactly once more, at the instant at which the last transmission ends. At this call a queue becomes idle.
///
/// Fates are reported to the [`Context`] instead of being returned, because the packet concerned is not always the
/// argument: RED drops the arriving packet, CoDel drops packets during `dequeue`, and fair queueing drops a packet of
/// another flow. Calls are in order of time. An algorithm with periodic updates catches up at the next call.
///
/// A discipline returned by `build` is also a prototype: each run uses a clone of it.
pub trait QueueDiscipline: Report + DynClone + Send + Sync {
    /// Accepts `packet`, which arrives at `cx.now`, or reports its fate to `cx`.
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>);

    /// Returns the packet to send next, when the link becomes free at `cx.now`. `None` if the queue is empty, or if all
    /// queued packets are held back until [`next_ready`](Self::next_ready).
    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet>;

    /// The backlog, in packets and bytes.
    fn backlog(&self) -> Backlog;

    /// After a `dequeue` that returned `None` although packets are queued: the time of the next call, unless a packet
    /// arrives earlier.
    fn next_ready(&self) -> Option<Instant> {
        None
    }

    /// Starts a run: the runner of a clone calls this method once, before the first packet. Timers that have been
    /// running for a long time (`start = "settled"`) get a phase drawn from `chance`, a random stream with no other
    /// use. Without this call, timers start with the run.
    fn on_start(&mut self, _chance: &mut Rng) {}

    /// Announces the headers of all packets with this label `number`, before the first of these packets.
    fn on_label(&mut self, _number: u16, _label: &Label) {}
}

/// The state that a running discipline reports. A discipline overrides the methods for which it has values.
pub trait Report {
    /// Reports the values worth plotting, each with a unique name. The table `gauges` has a row for each value. The
    /// value named `average` is also recorded with each packet of a link whose packets are recorded.
    fn gauges(&self, _show: &mut dyn FnMut(Gauge)) {}

    /// Statistics that `tc -s -j qdisc show` prints for this discipline only, under `tc`'s names and in its units; null
    /// if there are none. The statistics of every discipline (bytes, packets, drops, backlog) are added by the caller.
    /// `overlimits`, also a statistic of every discipline, is 0 unless this table contains it.
    fn tc_statistics(&self, _now: Instant) -> Value {
        Value::Null
    }

    /// Reports the inner disciplines, each with the path of its parameters, such as `classes.web.queue`.
    fn inner(&self, _show: &mut dyn FnMut(&str, &dyn QueueDiscipline)) {}

    /// Reports the inner disciplines that are qdiscs of their own in the kernel, with their statistics up to `now`.
    fn inner_qdiscs(&self, _now: Instant, _show: &mut dyn FnMut(InnerQdisc<'_>)) {}

    /// Reports the counters of each service class up to `now`, by name, in a fixed order.
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
    /// The integral of the backlog in packets over time, in packet-nanoseconds.
    pub packet_nanos: u128,
}

impl ClassCounters {
    /// The difference between these counters and the earlier counters `before`.
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

/// The arguments of every call of a discipline.
pub struct Context<'a> {
    /// The current time.
    pub now: Instant,
    /// The queue's own random stream.
    pub rng: &'a mut Rng,
    /// The receiver of the fates of packets.
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

/// Receives the fates of packets that are dropped or marked, and knows the TCP headers of packets.
pub trait Observer {
    /// `packet` was dropped at `now`.
    fn dropped(&mut self, packet: &Packet, why: Reason, now: Instant);
    /// `packet` was marked at `now`.
    fn marked(&mut self, packet: &Packet, why: Reason, now: Instant);
    /// The TCP header of `packet`, if the packet is a TCP packet with ACK and without SYN. An observer that forwards
    /// fates to another observer must forward this call, too.
    fn acknowledgement(&self, _packet: &Packet) -> Option<Acknowledgement> {
        None
    }
}
