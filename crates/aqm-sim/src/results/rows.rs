//! Construction of the tables of a run from the recorded data.

use std::collections::BTreeMap;

use aqm_guest::End;
use aqm_net::Instant;
use aqm_net::table::{Row, Table};
use aqm_tcp::congestion_control::SenderState;
use aqm_traffic::description::Application;
use aqm_traffic::probe_record::{Phase, ProbeKind};

use crate::network::LinkSnapshot;
use crate::results::call_tables::{CallRow, FrameRow};
use crate::results::guest_tables::ReportRow;
use crate::results::measurement::RunRecord;
use crate::results::page_tables::{PageLoadRow, PageObjectRow};
use crate::results::probe_tables::{ProbeIntervalRow, ProbeRow};
use crate::results::recorder::{ECN_NAMES, PacketEvent};
use crate::results::tables::{ClassRow, DropRow, GaugeRow, LinkRow, PacketRow, QueueRow, SenderRow};
use crate::scenario::Scenario;
use crate::scenario::links::{LinkSpec, Queue, managed};

/// Returns the tables of a run, in the order of the catalogue.
pub(crate) fn tables(scenario: &Scenario, record: RunRecord) -> Vec<Table> {
    let links = link_rows(scenario, &record);
    let (class_rows, classes) = class_rows(scenario, &record);
    let words = |column: &str| -> Vec<String> {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        match column {
            "traffic" => scenario.traffic.iter().map(|one| one.name.clone()).collect(),
            "link" => scenario.links.iter().map(|link| link.name.clone()).collect(),
            "reason" => owned(&aqm_queue::Reason::NAMES),
            "node" => scenario.edges.iter().map(|edge| edge.node.clone()).collect(),
            "event" => owned(&PacketEvent::NAMES),
            "ecn" => owned(&ECN_NAMES),
            "state" => owned(SenderState::WORDS),
            "class" => classes.clone(),
            "name" => record.gauges.names.list(),
            "unit" => record.gauges.units.list(),
            "phase" => owned(&Phase::NAMES),
            "probe" => owned(&ProbeKind::NAMES),
            "end" => End::ALL.map(|end| end.name().to_owned()).to_vec(),
            "report" => record.report_names.clone(),
            _ => unreachable!("no column of words has the name {column}"),
        }
    };
    let mut packets = record.packets;
    packets.sort_by(|a, b| a.time_s.total_cmp(&b.time_s));
    let mut drops = record.drops;
    // Links are served at different times, so drops with equal times must be sorted by link.
    drops.sort_by(|a, b| a.time_s.total_cmp(&b.time_s).then(a.link.cmp(&b.link)));
    // Most runs do not have these tables.
    let is_test = |application| matches!(application, Some(Application::Responsiveness(_)));
    let is_call = |application| matches!(application, Some(Application::VideoCall { .. }));
    let has_calls = scenario.traffic.iter().any(|one| is_call(one.config.application()));
    let calls =
        has_calls.then(|| [CallRow::table(record.calls, words), FrameRow::table(record.frames, words)]);
    let has_probes = scenario.traffic.iter().any(|one| is_test(one.config.application()));
    let probes = has_probes.then(|| {
        [ProbeRow::table(record.probes, words), ProbeIntervalRow::table(record.probe_intervals, words)]
    });
    let records_pages = scenario.traffic.iter().any(|one| one.config.records_pages());
    let page_loads = records_pages.then(|| {
        [PageLoadRow::table(record.page_loads, words), PageObjectRow::table(record.page_objects, words)]
    });
    let has_guests = scenario.traffic.iter().any(|one| one.config.has_guests());
    let reports = has_guests.then(|| ReportRow::table(record.reports, words));
    let always = vec![
        record.flows.table(words),
        record.transfers.table(words),
        record.pages.table(words),
        DropRow::table(drops, words),
        QueueRow::table(record.queue, words),
        GaugeRow::table(record.gauges.rows, words),
        SenderRow::table(record.senders, words),
        PacketRow::table(packets, words),
        LinkRow::table(links, words),
        ClassRow::table(class_rows, words),
    ];
    let of_workloads = [calls, probes, page_loads].into_iter().flatten().flatten();
    always.into_iter().chain(of_workloads).chain(reports).collect()
}

/// Returns the rows of service classes, and the names of the classes.
fn class_rows(scenario: &Scenario, record: &RunRecord) -> (Vec<ClassRow>, Vec<String>) {
    let seconds = (scenario.duration - scenario.warm_up).seconds();
    let (before, after) = (&record.before.classes, &record.after.classes);
    let (mut rows, mut names, mut numbers) = (Vec::new(), Vec::new(), BTreeMap::new());
    for ((number, ..), (first, last)) in managed(&scenario.links).zip(before.iter().zip(after)) {
        for ((name, earlier), (_, later)) in first.iter().zip(last) {
            let counts = later.since(*earlier);
            let class = *numbers.entry(name).or_insert_with(|| {
                names.push(name.clone());
                names.len() - 1
            });
            let waited = counts.packet_nanos as f64 / 1e9;
            rows.push(ClassRow {
                link: number as u32,
                class: class as u32,
                arrivals: counts.arrivals,
                departures: counts.departures,
                departed_bytes: counts.departed_bytes,
                borrowed_bytes: counts.borrowed_bytes,
                drops: counts.drops,
                drop_fraction: share(counts.drops, counts.arrivals),
                throughput_bps: counts.departed_bytes as f64 * 8.0 / seconds,
                mean_queue_packets: waited / seconds,
                mean_queue_delay_s: if counts.departures == 0 {
                    0.0
                } else {
                    waited / counts.departures as f64
                },
            });
        }
    }
    (rows, names)
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Returns the rate of a link in bits per second. If the rate varies, returns the mean rate at which the link could
/// have sent during the measurement interval.
fn mean_rate(scenario: &Scenario, link: &LinkSpec) -> f64 {
    let Some(service) = &link.extras.service else { return link.rate.bps() as f64 };
    let measured = [scenario.warm_up, scenario.duration];
    let bits = service.bits(link.outages(&scenario.chance()), measured.map(|at| Instant::START + at));
    bits / (scenario.duration - scenario.warm_up).seconds()
}

fn link_rows(scenario: &Scenario, record: &RunRecord) -> Vec<LinkRow> {
    let seconds = (scenario.duration - scenario.warm_up).seconds();
    let (before, after) = (&record.before.links, &record.after.links);
    let snapshots = before.iter().zip(after);
    let row =
        |((number, link, _), (first, last)): ((usize, &LinkSpec, &Queue), (&LinkSnapshot, &LinkSnapshot))| {
            let (first, last) = (&first.counters, &last.counters);
            let (arrivals, departures) = (last.arrivals - first.arrivals, last.departures - first.departures);
            let departed_bytes = last.departed_bytes - first.departed_bytes;
            let waited = (last.packet_nanos - first.packet_nanos) as f64 / 1e9;
            let rate_bps = mean_rate(scenario, link);
            LinkRow {
                link: number as u32,
                rate_bps,
                arrivals,
                arrived_bytes: last.arrived_bytes - first.arrived_bytes,
                departures,
                departed_bytes,
                drops: last.drops - first.drops,
                marks: last.marks - first.marks,
                utilisation: if rate_bps == 0.0 {
                    0.0
                } else {
                    departed_bytes as f64 * 8.0 / (rate_bps * seconds)
                },
                drop_fraction: share(last.drops - first.drops, arrivals),
                mark_fraction: share(last.marks - first.marks, arrivals),
                mean_queue_packets: waited / seconds,
                mean_queue_delay_s: if departures == 0 { 0.0 } else { waited / departures as f64 },
                tied_fraction: share(last.tied - first.tied, arrivals),
            }
        };
    managed(&scenario.links).zip(snapshots).map(row).collect()
}
