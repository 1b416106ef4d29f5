//! What is measured from outside: the counters when the measurement begins, queues and edges at intervals,
//! senders after each acknowledgement and time-out.

use aqm_net::{Instant, Span};

use super::World;
use crate::event::Timer;
use crate::flow::Ends;
use crate::network::Network;
use crate::tables::{EdgeRow, GaugeRow, QueueRow};

impl<N: Network> World<'_, N> {
    /// The warm-up is over: what is counted from now on counts.
    pub(super) fn begin_measuring(&mut self, now: Instant) {
        self.net.catch_up(now, &mut self.transit);
        self.record.snapshots[0] = self.net.snapshot(now);
        self.record.classes[0] = self.net.classes(now);
        self.measuring = true;
        for flow in &mut self.flows {
            flow.begin_measuring();
        }
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
                average: snapshot.average,
                probability: snapshot.probability,
                max_p: snapshot.max_p,
                active_flows: snapshot.active_flows,
                arrivals: snapshot.counters.arrivals,
                drops: snapshot.counters.drops,
                marks: snapshot.counters.marks,
            });
        }
        for (node, snapshot) in self.net.edge_snapshots(now).into_iter().enumerate() {
            self.record.edges.push(EdgeRow {
                time_s: now.seconds(),
                node: node as u32,
                flows: snapshot.flows as u64,
                threshold: snapshot.threshold,
                evicted: snapshot.evicted as u64,
            });
        }
        self.net.set_timer(now + self.scenario.record.queue_every, 0, Timer::Sample);
    }

    /// Samples the sender of a flow.
    pub(super) fn sample_sender(&mut self, slot: u32, now: Instant) {
        let flow = &self.flows[slot as usize];
        let Ends::Tcp([sender, _]) = &flow.ends else { return };
        self.record.gauges.push(GaugeRow {
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
