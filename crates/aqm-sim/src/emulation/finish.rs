//! The result tables of a run between external hosts, which include data that is available only to the owner of the
//! hosts.

use aqm_net::table::{Row as _, Table};
use aqm_net::{Instant, Span};
use aqm_traffic::Transfer;
use serde_json::Value;

use super::{CarriedTransfer, Emulation, SenderState};
use crate::hosts::pages::Pages;
use crate::network::Network as _;
use crate::results::measurement::{measure, qdiscs};
use crate::results::rows::tables;
use crate::results::tables::{FromClientRow, SenderRow};

impl Emulation {
    /// Returns the output of `tc -s -j qdisc show` for the managed links at `end`, if the scenario requests this
    /// output.
    pub fn qdiscs(&mut self, end: Instant) -> Option<Value> {
        self.net.catch_up(end, &mut self.transit);
        qdiscs(&mut self.net, &self.plan.scenario, end)
    }

    /// Returns the tables of a run that ended at `end`, which are the same tables as for a simulation. `carried`
    /// contains the requested transfers with their flows, and `senders` contains the samples of senders; the two lists
    /// may be in any order. If the plan has programs, the result also contains the table `from_client`.
    pub fn finish(
        mut self,
        end: Instant,
        carried: &[CarriedTransfer],
        senders: &[SenderState],
    ) -> Vec<Table> {
        let scenario = &mut self.plan.scenario;
        // The measurement interval ends at the actual end of the run.
        scenario.duration = end.since(Instant::START);
        if scenario.warm_up >= scenario.duration {
            scenario.warm_up = Span::ZERO;
        }
        self.net.catch_up(end, &mut self.transit);
        self.record.after = measure(&mut self.net, end);
        let mut record = std::mem::take(&mut self.record);
        let scenario = &self.plan.scenario;
        let mut of_flow: Vec<Option<&CarriedTransfer>> = vec![None; self.flows.len()];
        for one in carried {
            of_flow[one.flow as usize] = Some(one);
        }
        let measured = (Instant::START + scenario.warm_up, scenario.duration - scenario.warm_up);
        let mut pages = Pages::default();
        let mut completions: Vec<(Instant, u32, &Transfer)> = Vec::new();
        for (flow, one) in self.flows.iter().zip(of_flow) {
            let ends = one.map(|one| one.ends).unwrap_or_default();
            let size = one.and_then(|one| one.transfer.bytes);
            record.write_flow(flow.row(size, &ends, measured));
            let Some((one, bytes)) = one.zip(size) else { continue };
            let tcp = scenario.tcp_of(&scenario.traffic[flow.traffic as usize]);
            let segments = |bytes| tcp.checked.segments(bytes);
            if !one.exchanges.is_empty() {
                flow.exchange_rows(one, segments).for_each(|row| record.write_transfer(row));
                continue;
            }
            record.write_transfer(flow.transfer_row(&one.transfer, bytes, segments(bytes), &ends));
            pages.open(flow.traffic, &one.transfer, flow.opened);
            completions.extend(flow.completed(bytes).map(|at| (at, flow.traffic, &one.transfer)));
        }
        completions.sort_by_key(|&(at, ..)| at);
        for (at, traffic, transfer) in completions {
            pages.complete(traffic, transfer, at).into_iter().for_each(|row| record.write_page(row));
        }
        pages.incomplete().for_each(|row| record.write_page(row));
        record.senders = senders.iter().filter(|one| one.at <= end).map(|one| self.sender_row(one)).collect();
        record.senders.sort_by(|a, b| a.time_s.total_cmp(&b.time_s).then(a.flow.cmp(&b.flow)));
        record.drops = std::mem::take(&mut self.transit.recorder.drops);
        record.packets = std::mem::take(&mut self.transit.recorder.packets);
        record.events = self.net.events();
        let from_client = self.sent_by_clients(measured.1);
        let mut tables = tables(&self.plan.scenario, record);
        tables.extend(from_client);
        tables
    }

    /// Returns the table of the data that clients of programs sent, or `None` if the plan has no programs. `measured`
    /// is the duration of the measurement interval.
    fn sent_by_clients(&self, measured: Span) -> Option<Table> {
        let workloads = &self.plan.scenario.traffic;
        let is_program = |traffic: u32| workloads[traffic as usize].config.programs().is_some();
        if !(0..workloads.len() as u32).any(is_program) {
            return None;
        }
        let flows = self.flows.iter().filter(|flow| is_program(flow.traffic));
        let rows = flows.map(|flow| flow.client_row(measured)).collect();
        // The column of workload names is the table's only text column.
        Some(FromClientRow::table(rows, |_| workloads.iter().map(|one| one.name.clone()).collect()))
    }

    fn sender_row(&self, state: &SenderState) -> SenderRow {
        let traffic = self.flows[state.flow as usize].traffic;
        let scenario = &self.plan.scenario;
        let window = scenario.tcp_of(&scenario.traffic[traffic as usize]).config.receiver.window;
        SenderRow {
            time_s: state.at.seconds(),
            flow: state.flow.into(),
            traffic,
            cwnd_segments: state.cwnd.into(),
            // Before the first loss, the threshold is reported as in a simulation.
            ssthresh_segments: state.ssthresh.map_or(window as f64, f64::from),
            srtt_s: state.srtt.map(Span::seconds),
            rto_s: state.rto.seconds(),
            dupacks: None,
            state: None,
            pacing_rate_bps: None,
            bandwidth_bps: None,
            min_rtt_s: None,
            marked_share: None,
        }
    }
}
