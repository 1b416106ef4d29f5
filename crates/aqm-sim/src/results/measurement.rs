//! The recorded data of a run, and the measurement of links, queues and edges.

use aqm_net::Instant;
use aqm_net::table::Rows;
use aqm_net::watch::{LinkView, View};
use aqm_queue::qdisc::Root;
use aqm_queue::{ClassCounters, QueueDiscipline, Reason};
use serde_json::Value;

use crate::engine::event::Timer;
use crate::network::{LinkSnapshot, Network};
use crate::results::call_tables::{CallRow, FrameRow};
use crate::results::gauges::Gauges;
use crate::results::guest_tables::ReportRow;
use crate::results::page_tables::{PageLoadRow, PageObjectRow};
use crate::results::probe_tables::{ProbeIntervalRow, ProbeRow};
use crate::results::tables::{DropRow, FlowRow, PacketRow, PageRow, QueueRow, SenderRow, TransferRow};
use crate::scenario::Scenario;
use crate::scenario::links::{self, LinkSpec};
use crate::scenario::sections::Record;

/// All recorded data of a run, from which the tables are built.
#[derive(Default)]
pub(crate) struct RunRecord {
    /// Rows of the table `flows`. A row is written when a flow ends, and the rows are later sorted by the order in
    /// which the flows were opened.
    pub(crate) flows: Rows<FlowRow, u32>,
    /// Rows of the table `transfers`. The exchanges of a conversation are written in order, and sorting the rows
    /// preserves this order.
    pub(crate) transfers: Rows<TransferRow, u32>,
    pub(crate) pages: Rows<PageRow, (u32, u32)>,
    pub(crate) queue: Vec<QueueRow>,
    pub(crate) gauges: Gauges,
    pub(crate) senders: Vec<SenderRow>,
    pub(crate) drops: Vec<DropRow>,
    pub(crate) packets: Vec<PacketRow>,
    pub(crate) calls: Vec<CallRow>,
    pub(crate) frames: Vec<FrameRow>,
    pub(crate) probes: Vec<ProbeRow>,
    pub(crate) probe_intervals: Vec<ProbeIntervalRow>,
    pub(crate) page_loads: Vec<PageLoadRow>,
    pub(crate) page_objects: Vec<PageObjectRow>,
    pub(crate) reports: Vec<ReportRow>,
    /// Names of the values in `reports`.
    pub(crate) report_names: Vec<String>,
    /// State of the managed links at the beginning of the measurement interval.
    pub(crate) before: Measurement,
    /// State of the managed links at the end of the run.
    pub(crate) after: Measurement,
    /// The state of the disciplines at the end of the run in the output format of `tc`, if the scenario requests this
    /// output.
    pub(crate) qdiscs: Option<Value>,
    pub(crate) events: u64,
    /// Names and values of the quantities that the workloads report about their loads, by position of the workload.
    pub(crate) facts: Vec<Vec<(&'static str, f64)>>,
}

impl RunRecord {
    /// Creates the record of a run.
    pub(crate) fn new(record: &Record) -> Self {
        Self {
            flows: Rows::with_columns(record.flow_columns.as_deref()),
            transfers: Rows::with_columns(record.transfer_columns.as_deref()),
            pages: Rows::with_columns(record.page_columns.as_deref()),
            ..Self::default()
        }
    }

    // Flow numbers, and therefore page numbers, fit into 32 bits.
    pub(crate) fn write_flow(&mut self, row: FlowRow) {
        self.flows.push(row.flow as u32, row);
    }

    pub(crate) fn write_transfer(&mut self, row: TransferRow) {
        self.transfers.push(row.flow as u32, row);
    }

    pub(crate) fn write_page(&mut self, row: PageRow) {
        self.pages.push((row.traffic, row.page as u32), row);
    }
}

/// The names and counters of a queue's service classes.
pub(crate) type Classes = Vec<(String, ClassCounters)>;

/// State of the managed links at a given time, in the order of link numbers.
#[derive(Default)]
pub(crate) struct Measurement {
    pub(crate) links: Vec<LinkSnapshot>,
    pub(crate) classes: Vec<Classes>,
}

/// Sets the first timers of a run, for the start of the measurement interval and for the first sample.
pub(crate) fn schedule(net: &mut impl Network, scenario: &Scenario) {
    net.set_timer(Instant::START + scenario.warm_up, 0, Timer::WarmUp);
    if !scenario.record.queue_every.is_zero() {
        net.set_timer(Instant::START + scenario.record.queue_every, 0, Timer::Sample);
    }
}

/// Returns the counters of the managed links. The links must have been served up to `now`.
pub(crate) fn measure(net: &mut impl Network, now: Instant) -> Measurement {
    let links = net.snapshot(now);
    let classes = net.disciplines().map(|queue| {
        let mut classes = Vec::new();
        queue.classes(now, &mut |name, counters| classes.push((name.to_owned(), counters)));
        classes
    });
    let classes = classes.collect();
    Measurement { links, classes }
}

/// Returns the output of `tc -s -j qdisc show` for the managed links, if the scenario requests this output. The links
/// must have been served up to `now`.
pub(crate) fn qdiscs(net: &mut impl Network, scenario: &Scenario, now: Instant) -> Option<Value> {
    let counted = scenario.record.tc_statistics.then(|| net.snapshot(now))?;
    let managed = links::managed(&scenario.links).zip(net.disciplines()).zip(&counted);
    let shown = managed.flat_map(|(((_, link, queue), discipline), LinkSnapshot { counters, .. })| {
        let (device, config) = (&link.name, &queue.config);
        Root { device, config, rate: link.rate, queue: discipline, counters }.shown(now)
    });
    Some(shown.collect())
}

/// Samples the edges and the queues of the managed links. `managed` contains the numbers of the managed links. The
/// links must have been served up to `now`.
pub(crate) fn sample(net: &mut impl Network, managed: &[u32], record: &mut RunRecord, now: Instant) {
    for (&link, snapshot) in managed.iter().zip(net.snapshot(now)) {
        record.queue.push(QueueRow {
            time_s: now.seconds(),
            link,
            length_packets: snapshot.backlog.packets,
            length_bytes: snapshot.backlog.bytes,
            arrivals: snapshot.counters.arrivals,
            drops: snapshot.counters.drops,
            marks: snapshot.counters.marks,
        });
    }
    for (&link, queue) in managed.iter().zip(net.disciplines()) {
        record.gauges.sample_queue(link, queue, now);
    }
    for (node, edge) in net.edges().iter_mut().enumerate() {
        record.gauges.sample_edge(node as u32, edge.as_mut(), now);
    }
}

/// Returns the state of the managed links for a watcher. `managed` contains the numbers of the managed links.
pub(crate) fn view(net: &impl Network, managed: &[u32], links: &[LinkSpec], now: Instant) -> View {
    let view =
        |(position, ((&number, snapshot), queue)): (usize, ((&u32, LinkSnapshot), &dyn QueueDiscipline))| {
            let (link, LinkSnapshot { counters, backlog }) = (&links[number as usize], snapshot);
            let mut gauges = Vec::new();
            queue.gauges(&mut |gauge| gauges.push((gauge.name, gauge.value, gauge.unit)));
            LinkView {
                name: link.name.clone(),
                rate_bps: net.rate_at(position, now).unwrap_or(link.rate).bps() as f64,
                length_packets: backlog.packets,
                length_bytes: backlog.bytes,
                arrivals: counters.arrivals,
                departures: counters.departures,
                departed_bytes: counters.departed_bytes,
                marks: counters.marks,
                drops: Reason::NAMES.into_iter().zip(counters.drops_by_reason).collect(),
                gauges,
            }
        };
    View {
        time_s: now.seconds(),
        links: managed.iter().zip(net.glance()).zip(net.disciplines()).enumerate().map(view).collect(),
        lateness_us: Vec::new(),
    }
}
