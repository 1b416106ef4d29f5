//! What a queue discipline is: the calls that it answers, and what every call tells it.

use aqm_net::{Backlog, Instant, Packet, Rng};
use dyn_clone::DynClone;
use serde_json::Value;

use crate::qdisc::InnerQdisc;
use crate::{Acknowledgement, Gauge, Label, Reason};

/// Packets that wait for a line, and the algorithm that admits, drops, marks and orders them.
///
/// A discipline is told of every arrival ([`enqueue`](Self::enqueue)) and asked for a packet each
/// time the line is free ([`dequeue`](Self::dequeue)). The packet on the line is no longer in the
/// queue. `dequeue` returns `None` only if nothing waits, or if [`next_ready`](Self::next_ready) says until when
/// all that waits is held back. At the end of a busy period it is called exactly once more, at the instant the
/// last transmission ends: this is when a queue becomes idle.
///
/// Fates are told through the [`Context`], not returned: RED refuses the packet that arrives,
/// CoDel drops while serving, fair queueing drops a packet of another flow. Calls come in the order
/// of time; an algorithm that adapts at intervals catches up on the next call.
///
/// A discipline that was just built is a prototype, too: each run takes a clone of it.
pub trait QueueDiscipline: Report + DynClone + Send + Sync {
    /// A packet arrives at `cx.now`: keep it, or report its fate to `cx`.
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>);

    /// The line is free at `cx.now`: the packet to send next. `None` if nothing waits, or if all that waits is
    /// held back until [`next_ready`](Self::next_ready).
    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet>;

    /// What waits.
    fn backlog(&self) -> Backlog;

    /// After a `dequeue` that returned `None` although packets wait: when to call it again, if none arrives before.
    fn next_ready(&self) -> Option<Instant> {
        None
    }

    /// A run begins: called once, before the first packet, by whoever runs a clone of what was built. Timers that have
    /// been running for long (`start = "settled"`) take a phase that `chance` draws, a stream for this alone. Without
    /// this call they start with the run.
    fn on_start(&mut self, _chance: &mut Rng) {}

    /// Packets that carry this `number` have the headers that `label` says: told before the first of them.
    fn on_label(&mut self, _number: u16, _label: &Label) {}
}

/// What a running discipline shows of itself. A discipline overrides what it has to show.
pub trait Report {
    /// Shows the values worth plotting, each with a name of its own. The table `gauges` has a row for each; that of
    /// the name `average` also stands beside each packet of a link whose packets are recorded.
    fn gauges(&self, _show: &mut dyn FnMut(Gauge)) {}

    /// The statistics that `tc -s -j qdisc show` has of this discipline beyond those of every one (bytes, packets,
    /// drops, backlog), a table under `tc`'s names and in its units; null if there are none. `overlimits`, which is
    /// one of every one, is 0 unless it stands here.
    fn tc_statistics(&self, _now: Instant) -> Value {
        Value::Null
    }

    /// Shows the disciplines inside, each with the place of its parameters, such as `classes.web.queue`.
    fn inner(&self, _show: &mut dyn FnMut(&str, &dyn QueueDiscipline)) {}

    /// Shows the disciplines inside that the kernel has as disciplines of their own, with what each did up to `now`.
    fn inner_qdiscs(&self, _now: Instant, _show: &mut dyn FnMut(InnerQdisc<'_>)) {}

    /// Shows what each service class did up to `now`, by name, in a fixed order.
    fn classes(&self, _now: Instant, _show: &mut dyn FnMut(&str, ClassCounters)) {}
}

dyn_clone::clone_trait_object!(QueueDiscipline);

/// What went through a service class since the discipline was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounters {
    /// Packets that arrived, the dropped ones included.
    pub arrivals: u64,
    /// Packets that left.
    pub departures: u64,
    /// Bytes that left.
    pub departed_bytes: u64,
    /// Of those, sent with what another class lent.
    pub borrowed_bytes: u64,
    /// Packets dropped.
    pub drops: u64,
    /// The integral of the number of waiting packets over time, in packet nanoseconds.
    pub packet_nanos: u128,
}

impl ClassCounters {
    /// What was counted after `before`.
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

/// What a discipline is told with every call.
pub struct Context<'a> {
    /// The present moment.
    pub now: Instant,
    /// The queue's own random stream.
    pub rng: &'a mut Rng,
    /// Whoever wants to know the fates of packets.
    pub observer: &'a mut dyn Observer,
}

impl Context<'_> {
    /// Drops `packet`.
    pub fn drop(&mut self, packet: Packet, why: Reason) {
        self.observer.dropped(&packet, why, self.now);
    }

    /// Marks `packet` with "congestion experienced". A packet that carries the mark already stays
    /// as it is, and is not reported twice.
    pub fn mark(&mut self, packet: &mut Packet, why: Reason) {
        debug_assert!(packet.ecn.can_be_marked(), "only an ECN-capable packet can be marked");
        if packet.ecn != aqm_net::Ecn::Ce {
            packet.ecn = aqm_net::Ecn::Ce;
            self.observer.marked(packet, why, self.now);
        }
    }
}

/// Is told the fate of packets that are not simply sent, and knows what they carry.
pub trait Observer {
    /// `packet` was dropped at `now`.
    fn dropped(&mut self, packet: &Packet, why: Reason, now: Instant);
    /// `packet` was marked at `now`.
    fn marked(&mut self, packet: &Packet, why: Reason, now: Instant);
    /// What the header of `packet` says, if it is one of TCP that acknowledges and does not open a connection. Whoever
    /// passes on fates passes on this question.
    fn acknowledgement(&self, _packet: &Packet) -> Option<Acknowledgement> {
        None
    }
}
