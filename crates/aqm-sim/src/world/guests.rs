//! The rows of workloads that consist of guests.

use std::collections::BTreeMap;

use aqm_net::Instant;
use aqm_traffic::Transfer;
use aqm_traffic::guest_record::GuestTransfer;

use super::World;
use crate::hosts::side::Side;
use crate::network::Network;
use crate::results::guest_tables::ReportRow;
use crate::results::tables::{FlowRow, TransferRow};

/// Payload bytes of a full-sized datagram, for the number of segments of a transfer: the size that every QUIC connection
/// supports (RFC 9000, section 14).
const DATAGRAM: u64 = 1200;

impl<N: Network> World<'_, N> {
    /// Returns the slot of the flow from the server to the client; `None` if the server sent nothing.
    fn guest_slot(&self, traffic: usize, flow: u32) -> Option<u32> {
        self.workloads[traffic].streams[Side::Sender as usize].get(flow as usize).copied().flatten()
    }

    /// Returns the rows of the table `reports`, and the names of the values.
    pub(super) fn report_rows(&self) -> (Vec<ReportRow>, Vec<String>) {
        let (mut rows, mut names, mut numbers) = (Vec::new(), Vec::new(), BTreeMap::new());
        for (traffic, state) in self.workloads.iter().enumerate() {
            let Some(record) = state.workload.guest_record() else { continue };
            for report in &record.reports {
                let Some(slot) = self.guest_slot(traffic, report.flow) else { continue };
                let name = &report.event.name;
                let number = *numbers.entry(name.clone()).or_insert_with(|| {
                    names.push(name.clone());
                    names.len() as u32 - 1
                });
                rows.push(ReportRow {
                    time_s: report.at.seconds(),
                    flow: self.flows[slot as usize].number.into(),
                    traffic: traffic as u32,
                    end: report.end as u32,
                    report: number,
                    value: report.event.value,
                });
            }
        }
        (rows, names)
    }

    /// Writes the row of a flow from the server to the client. As for connections, the opposite direction has no row, and
    /// the delivered bytes are those that the client received in order, if the client reports these bytes.
    #[cold]
    pub(super) fn write_guest_flow(&mut self, slot: u32, mut row: FlowRow) {
        let flow = &self.flows[slot as usize];
        let (traffic, number) = (flow.traffic as usize, Transfer::from(flow.transfer).host);
        if self.guest_slot(traffic, number) != Some(slot) {
            return;
        }
        let Some(record) = self.workloads[traffic].workload.guest_record() else { return };
        row.size_bytes = record.transfers.iter().find(|one| one.flow == number).map(|one| one.size);
        let (begin, duration) = (self.scenario.warm_up, self.scenario.duration);
        if let Some(bytes) = record.received_since(number, Instant::START + begin) {
            row.delivered_bytes = bytes;
            row.goodput_bps = 8.0 * bytes as f64 / (duration - begin).seconds();
        }
        self.record.write_flow(row);
    }

    /// Writes the rows of the guests' transfers.
    pub(super) fn write_guest_transfers(&mut self) {
        for traffic in 0..self.workloads.len() {
            let Some(record) = self.workloads[traffic].workload.guest_record() else { continue };
            let rows: Vec<TransferRow> = record
                .transfers
                .iter()
                .filter_map(|transfer| self.guest_transfer_row(traffic, transfer))
                .collect();
            rows.into_iter().for_each(|row| self.record.write_transfer(row));
        }
    }

    fn guest_transfer_row(&self, traffic: usize, transfer: &GuestTransfer) -> Option<TransferRow> {
        let flow = &self.flows[self.guest_slot(traffic, transfer.flow)? as usize];
        let after = |at: Option<Instant>| at.map(|at| at.since(transfer.begin).seconds());
        Some(TransferRow {
            start_s: transfer.begin.seconds(),
            segments: transfer.size.div_ceil(DATAGRAM),
            first_byte_s: after(transfer.first_byte),
            duration_s: after(transfer.completed),
            complete: transfer.completed.is_some(),
            timeouts: None,
            fast_retransmits: None,
            ..flow.row_of(None, transfer.size, flow.counted())
        })
    }
}
