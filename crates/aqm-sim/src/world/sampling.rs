//! Measurements during a run. Links are measured at the beginning and at the end of the measurement interval, queues
//! and edges are sampled at regular intervals, and senders are sampled after each acknowledgement and time-out.

use aqm_net::watch::Watch;
use aqm_net::{Instant, Span};

use super::World;
use crate::engine::event::Timer;
use crate::hosts::flow::Ends;
use crate::network::Network;
use crate::results::measurement::{measure, sample, view};
use crate::results::probe_tables::{ProbeIntervalRow, ProbeRow};
use crate::results::tables::SenderRow;

impl<N: Network> World<'_, N> {
    /// Starts the measurement interval at the end of the warm-up.
    #[inline(never)]
    pub(super) fn begin_measuring(&mut self, now: Instant) {
        self.catch_up(now);
        self.record.before = measure(&mut self.net, now);
        self.measuring = true;
        for flow in &mut self.flows {
            flow.begin_measuring();
        }
    }

    /// Samples queues and edges, and reports the samples to `watch`.
    #[inline(never)]
    pub(super) fn sample(&mut self, now: Instant, watch: &Watch) {
        self.catch_up(now);
        sample(&mut self.net, &self.managed, &mut self.record, now);
        watch.show(|| view(&self.net, &self.managed, &self.scenario.links, now));
        watch.wait_at(now.nanos());
        self.net.set_timer(now + self.scenario.record.queue_every, 0, Timer::Sample);
    }

    /// Samples the sender of a flow.
    #[inline(never)]
    pub(super) fn sample_sender(&mut self, slot: u32, now: Instant) {
        let flow = &self.flows[slot as usize];
        let Ends::Tcp([sender, _]) = &flow.ends else { return };
        let report = sender.control_report();
        self.record.senders.push(SenderRow {
            time_s: now.seconds(),
            flow: flow.number.into(),
            traffic: flow.traffic,
            cwnd_segments: sender.cwnd(),
            ssthresh_segments: sender.ssthresh(),
            srtt_s: sender.srtt().map(Span::seconds),
            rto_s: sender.rto().seconds(),
            dupacks: Some(sender.dupacks().into()),
            state: report.state.map(|state| state as u32),
            pacing_rate_bps: sender.pacing_rate().map(|rate| 8.0 * rate),
            bandwidth_bps: report.bandwidth.map(|rate| 8.0 * rate),
            min_rtt_s: report.min_rtt.map(Span::seconds),
            marked_share: report.marked_share,
        });
    }

    /// Returns the records of tests of responsiveness in the columns of the tables `test_probes` and `test_intervals`.
    pub(super) fn probe_rows(&self) -> (Vec<ProbeRow>, Vec<ProbeIntervalRow>) {
        let (mut probes, mut intervals) = (Vec::new(), Vec::new());
        for (traffic, state) in (0..).zip(&self.workloads) {
            let Some(record) = state.workload.probe_record() else { continue };
            probes.extend(record.probes.iter().map(|one| ProbeRow::new(traffic, one)));
            intervals.extend(record.intervals.iter().map(|one| ProbeIntervalRow::new(traffic, one)));
        }
        (probes, intervals)
    }
}
