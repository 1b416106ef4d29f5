//! What is measured from outside: the counters of links when the measurement begins and ends, queues and edges at
//! intervals, senders after each acknowledgement and time-out.

use aqm_net::{Instant, Span};
use aqm_queue::ClassCounters;

use super::World;
use crate::event::Timer;
use crate::flow::Ends;
use crate::network::{LinkSnapshot, Network};
use crate::tables::{QueueRow, SenderRow};

/// The service classes of a queue by name, and what each did.
pub(crate) type Classes = Vec<(String, ClassCounters)>;

/// The managed links at a moment, in the order of their numbers.
#[derive(Default)]
pub(crate) struct Measurement {
    pub(crate) links: Vec<LinkSnapshot>,
    pub(crate) classes: Vec<Classes>,
}

impl<N: Network> World<'_, N> {
    /// The warm-up is over: only what happens from now on counts.
    pub(super) fn begin_measuring(&mut self, now: Instant) {
        self.net.catch_up(now, &mut self.transit);
        self.record.before = self.measure(now);
        self.measuring = true;
        for flow in &mut self.flows {
            flow.begin_measuring();
        }
    }

    /// The counters of the managed links, which have caught up.
    pub(super) fn measure(&mut self, now: Instant) -> Measurement {
        let links = self.net.snapshot(now);
        let classes = self.net.disciplines().map(|queue| {
            let mut classes = Vec::new();
            queue.classes(now, &mut |name, counters| classes.push((name.to_owned(), counters)));
            classes
        });
        Measurement { links, classes: classes.collect() }
    }

    /// Samples queues and edges.
    pub(super) fn sample(&mut self, now: Instant) {
        self.net.catch_up(now, &mut self.transit);
        for (&link, snapshot) in self.managed.iter().zip(self.net.snapshot(now)) {
            self.record.queue.push(QueueRow {
                time_s: now.seconds(),
                link,
                length_packets: snapshot.backlog.packets,
                length_bytes: snapshot.backlog.bytes,
                arrivals: snapshot.counters.arrivals,
                drops: snapshot.counters.drops,
                marks: snapshot.counters.marks,
            });
        }
        for (&link, queue) in self.managed.iter().zip(self.net.disciplines()) {
            self.record.gauges.sample_queue(link, queue, now);
        }
        for (node, edge) in self.net.edges().iter_mut().enumerate() {
            self.record.gauges.sample_edge(node as u32, edge.as_mut(), now);
        }
        self.net.set_timer(now + self.scenario.record.queue_every, 0, Timer::Sample);
    }

    /// Samples the sender of a flow.
    pub(super) fn sample_sender(&mut self, slot: u32, now: Instant) {
        let flow = &self.flows[slot as usize];
        let Ends::Tcp([sender, _]) = &flow.ends else { return };
        self.record.senders.push(SenderRow {
            time_s: now.seconds(),
            flow: flow.number.into(),
            traffic: flow.traffic,
            cwnd_segments: sender.cwnd(),
            ssthresh_segments: sender.ssthresh(),
            srtt_s: sender.srtt().map(Span::seconds),
            rto_s: sender.rto().seconds(),
            dupacks: sender.dupacks().into(),
        });
    }
}
