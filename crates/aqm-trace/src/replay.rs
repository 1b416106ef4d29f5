//! Replay of a trace through a queue. Packets enter the queue at the times recorded in the trace, the link removes
//! packets from the queue, and all events are counted.
//!
//! Keys identify the flows of packets. A key is stored until its flow has sent no packets for `idle_timeout`. In the
//! queue, flows are identified by numbers that are not reused. If packets with the same key arrive after the time-out,
//! these packets belong to a new flow, even if packets of the old flow are still queued.

use std::cell::RefCell;

use aqm_link::{Departure, Port, Ties};
use aqm_net::table::{Row, Table as Rows};
use aqm_net::{ConfigError, Instant, Occupancy, Packet, Streams};
use aqm_queue::edge::Table;
use aqm_queue::{Counters, Observer, Reason};

use crate::histogram::Histogram;
use crate::packets::{Arrival, Key};
use crate::progress::InProgress;
use crate::sample::Samples;
use crate::scenario::{FlowState, Scenario, Settings};
use crate::tables::{ActiveRow, DistributionRow, ProgressRow, SummaryRow};
use aqm_net::level::Failure;

/// The results of a replay.
pub(crate) struct RunRecord {
    pub(crate) tables: Vec<Rows>,
    pub(crate) warnings: Vec<String>,
    pub(crate) most_flows_known: u64,
    pub(crate) packets: u64,
    pub(crate) sent: u64,
}

/// The outcome for a packet that arrived at the port: the packet was sent or dropped.
enum Fate {
    Sent(Departure),
    Dropped(Packet, Instant),
}

/// Outcomes in chronological order. Both the queue and the transmitter of a port append outcomes.
#[derive(Default)]
struct Fates(RefCell<Vec<Fate>>);

impl Observer for &Fates {
    fn dropped(&mut self, packet: &Packet, _: Reason, now: Instant) {
        self.0.borrow_mut().push(Fate::Dropped(*packet, now));
    }
    fn marked(&mut self, _: &Packet, _: Reason, _: Instant) {}
}

/// The state of a replay.
pub(crate) struct Replay<'a> {
    settings: &'a Settings,
    port: Port,
    fates: Fates,
    flows: Table<FlowState, Key>,
    /// Number of flows so far.
    flow_count: u64,
    max_known: u32,
    /// Number of flows that were removed early because the maximum number of flows was reached.
    evicted: u64,
    queued: QueuedPackets,
    packets: Slab,
    active: Occupancy,
    in_progress: InProgress,
    sojourn: Histogram,
    samples: Samples<ActiveRow>,
    most_active: u64,
    warm_up: Instant,
    /// Counters of the port at the end of the warm-up.
    warm_up_counters: Option<Counters>,
    /// Time of the first packet, measured by the clock of the trace.
    first: Option<Instant>,
    now: Instant,
}

impl<'a> Replay<'a> {
    pub(crate) fn new(scenario: &'a Scenario) -> Self {
        let settings = &scenario.settings;
        let streams = Streams::new(settings.seed);
        let mut discipline = scenario.discipline.clone();
        discipline.on_start(&mut streams.named("trace/queue-start", 0));
        let rng = streams.named("trace/queue", 0);
        Self {
            settings,
            port: Port::new(discipline, settings.rate, rng, Ties::default()),
            fates: Fates::default(),
            flows: scenario.flows.clone(),
            flow_count: 0,
            max_known: 0,
            evicted: 0,
            queued: QueuedPackets::default(),
            packets: Slab::default(),
            active: Occupancy::new(settings.warm_up.seconds()),
            in_progress: InProgress::new(settings.idle_timeout, settings.warm_up, settings.every),
            sojourn: Histogram::new(),
            samples: Samples::new(settings.every),
            most_active: 0,
            warm_up: Instant::START + settings.warm_up,
            warm_up_counters: None,
            first: None,
            now: Instant::START,
        }
    }

    /// Processes a packet of the trace. Packets must be passed in ascending order of time. Returns false if the packet
    /// is later than the end of the replay.
    pub(crate) fn accept(&mut self, arrival: Arrival) -> bool {
        let now = Instant::START + arrival.at.since(*self.first.get_or_insert(arrival.at));
        if self.settings.duration.is_some_and(|most| now > Instant::START + most) {
            return false;
        }
        self.now = now;
        self.sample_until(now);
        self.port
            .serve_before(now, &mut &self.fates, |sent| self.fates.0.borrow_mut().push(Fate::Sent(sent)));
        self.process_fates();
        self.remove_silent(self.in_progress.horizon(now));
        let flow = self.flow(arrival.key, now);
        let packet = Packet {
            id: self.packets.put(now),
            flow: flow.number,
            hop: flow.slot,
            bytes: arrival.bytes,
            ..Packet::default()
        };
        self.queued.add(flow.slot);
        self.port.accept(packet, now, &mut &self.fates, |sent| {
            self.fates.0.borrow_mut().push(Fate::Sent(sent));
        });
        self.process_fates();
        self.active.set(self.queued.flows, now.seconds());
        self.most_active = self.most_active.max(self.queued.flows as u64);
        true
    }

    /// Returns the flow of a key. If the key has no flow, creates a new flow.
    fn flow(&mut self, key: Key, now: Instant) -> FlowState {
        if self.flows.len() == self.settings.max_flows && !self.flows.contains(key) {
            self.evicted += 1;
            self.remove_one(Instant::NEVER);
        }
        let flow = self.flows.touch(key, now);
        if flow.number == 0 {
            self.flow_count += 1;
            // After 2^32 flows, numbers are reused. By then, the earlier flow with the same number has ended.
            *flow = FlowState { number: (self.flow_count as u32).max(1), slot: self.queued.open() };
            self.in_progress.start(now);
        }
        let flow = *flow;
        self.max_known = self.max_known.max(self.flows.len());
        flow
    }

    /// Removes flows whose last packet was earlier than `horizon`.
    fn remove_silent(&mut self, horizon: Instant) {
        while self.remove_one(horizon) {}
        self.in_progress.advance(horizon);
    }

    fn remove_one(&mut self, horizon: Instant) -> bool {
        let Some((last, flow)) = self.flows.take_before(horizon) else {
            return false;
        };
        self.in_progress.end(last);
        self.queued.close(flow.slot);
        true
    }

    /// Processes and removes the recorded outcomes of packets.
    fn process_fates(&mut self) {
        for fate in self.fates.0.get_mut().drain(..) {
            let (packet, at) = match fate {
                Fate::Sent(Departure { packet, start, end }) => {
                    if start >= self.warm_up {
                        self.sojourn.add(end.since(self.packets.since[packet.id as usize]));
                    }
                    (packet, start)
                }
                Fate::Dropped(packet, at) => (packet, at),
            };
            self.packets.free.push(packet.id);
            self.queued.remove(packet.hop);
            self.active.set(self.queued.flows, at.seconds());
        }
    }

    /// Takes the samples that are due before the events at `until`.
    fn sample_until(&mut self, until: Instant) {
        loop {
            let warm = if self.warm_up_counters.is_none() { self.warm_up } else { Instant::NEVER };
            let at = warm.min(self.samples.next());
            // The warm-up ends before other events at the same time.
            if at > until || at == Instant::NEVER {
                return;
            }
            self.port.serve_before(at, &mut &self.fates, |sent| {
                self.fates.0.borrow_mut().push(Fate::Sent(sent));
            });
            self.process_fates();
            if at == warm {
                self.warm_up_counters = Some(self.port.counters(at));
            }
            if at == self.samples.next() {
                self.samples.push(ActiveRow {
                    time_s: at.seconds(),
                    flows: self.queued.flows as u64,
                    most_flows: self.most_active,
                    backlog_packets: self.port.discipline().backlog().packets,
                });
                self.most_active = self.queued.flows as u64;
            }
        }
    }

    /// Ends the replay.
    pub(crate) fn finish(mut self) -> Result<RunRecord, Failure> {
        let end = self.now;
        let measured = end.since(self.warm_up);
        let Some(before) = self.warm_up_counters.filter(|_| !measured.is_zero()) else {
            return match self.first {
                None => Err(Failure::File("the trace contains no packets".to_owned())),
                Some(_) if end == Instant::START => Err(Failure::File(
                    "all packets of the trace have the same timestamp, so nothing can be measured".to_owned(),
                )),
                Some(_) => {
                    let problem =
                        format!("must be shorter than the trace, whose duration is {:.6} s", end.seconds());
                    Err(Failure::Config(ConfigError::at("warm_up", problem)))
                }
            };
        };
        self.remove_silent(self.in_progress.horizon(end));
        self.active.set(self.queued.flows, end.seconds());
        let counters = self.port.counters(end);
        let waiting = self.port.discipline().backlog().packets;
        let (in_progress, progress_rows) = self.in_progress.finish(end);
        let seconds = measured.seconds();
        let per_second = |after: u64, before: u64| (after - before) as f64 / seconds;
        let line = self.settings.rate;
        let arrival_rate = per_second(counters.arrived_bytes, before.arrived_bytes);
        let summary = SummaryRow {
            rate_bps: line.bps() as f64,
            duration_s: end.seconds(),
            measured_s: seconds,
            packets: counters.arrivals,
            bytes: counters.arrived_bytes,
            sent: counters.departures,
            dropped: counters.drops,
            waiting,
            flows: self.flow_count,
            mean_rate_bps: arrival_rate * 8.0,
            load: arrival_rate / line.bytes_per_second(),
            utilisation: per_second(counters.departed_bytes, before.departed_bytes) / line.bytes_per_second(),
            mean_active: self.active.mean(),
            p999_active: self.active.quantile(0.999) as u64,
            most_active: self.active.maximum() as u64,
            mean_in_progress: in_progress.as_ref().map(Occupancy::mean),
            most_in_progress: in_progress.as_ref().map(|number| number.maximum() as u64),
            mean_backlog_packets: (counters.packet_nanos - before.packet_nanos) as f64 / 1e9 / seconds,
            mean_sojourn_s: self.sojourn.mean(),
            p99_sojourn_s: self.sojourn.quantile(0.99),
        };
        let mut warnings = Vec::new();
        if in_progress.is_none() {
            warnings.push(format!(
                "the trace of {:.6} s is too short for a count of the flows in progress, which requires more \
                 than twice the `idle_timeout` of {}",
                end.seconds(),
                self.settings.idle_timeout
            ));
        }
        if self.evicted > 0 {
            warnings.push(format!(
                "{} flows ended early because of `max_flows`: raise `max_flows`, or lower `idle_timeout`",
                self.evicted
            ));
        }
        let none = |_: &str| Vec::new();
        let tables = vec![
            SummaryRow::table(vec![summary], none),
            DistributionRow::table(distribution(&self.active, in_progress.as_ref()), none),
            ActiveRow::table(self.samples.into_rows(), none),
            ProgressRow::table(progress_rows, none),
        ];
        Ok(RunRecord {
            tables,
            warnings,
            most_flows_known: self.max_known.into(),
            packets: counters.arrivals,
            sent: counters.departures,
        })
    }
}

/// For each number of flows from zero to the maximum, returns the fractions of the time during which this number of
/// flows was active and in progress.
fn distribution(active: &Occupancy, in_progress: Option<&Occupancy>) -> Vec<DistributionRow> {
    let total = |number: &Occupancy| -> f64 { number.seconds.iter().sum() };
    let most = active.maximum().max(in_progress.map_or(0, Occupancy::maximum));
    let at = |number: &Occupancy, time: f64, flows: usize| {
        number.seconds.get(flows).copied().unwrap_or(0.0) / time
    };
    let active_time = total(active);
    let in_progress = in_progress.map(|number| (number, total(number)));
    (0..=most)
        .map(|flows| DistributionRow {
            flows: flows as u64,
            active_share: at(active, active_time, flows),
            in_progress_share: in_progress.map(|(number, time)| at(number, time, flows)),
        })
        .collect()
}

/// The number of queued packets of each flow.
#[derive(Default)]
struct QueuedPackets {
    /// Counters of queued packets. The highest bit of a counter is set if the flow has ended; the counter can then be
    /// reused as soon as no packet of the flow is queued.
    counts: Vec<u32>,
    free: Vec<u32>,
    /// Number of flows with a queued packet.
    flows: usize,
}

/// Bit of a counter that is set if the flow has ended.
const FLOW_OVER: u32 = 1 << 31;

impl QueuedPackets {
    /// Returns a counter for a new flow.
    fn open(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.counts.push(0);
            self.counts.len() as u32 - 1
        })
    }

    /// Marks the flow as finished; some of its packets may still be queued.
    fn close(&mut self, slot: u32) {
        let count = &mut self.counts[slot as usize];
        if *count == 0 {
            self.free.push(slot);
        } else {
            *count |= FLOW_OVER;
        }
    }

    fn add(&mut self, slot: u32) {
        let count = &mut self.counts[slot as usize];
        self.flows += usize::from(*count == 0);
        *count += 1;
    }

    fn remove(&mut self, slot: u32) {
        let count = &mut self.counts[slot as usize];
        *count -= 1;
        if *count & !FLOW_OVER == 0 {
            self.flows -= 1;
            if *count == FLOW_OVER {
                *count = 0;
                self.free.push(slot);
            }
        }
    }
}

/// Storage for the arrival times of the queued packets.
#[derive(Default)]
struct Slab {
    since: Vec<Instant>,
    free: Vec<u32>,
}

impl Slab {
    fn put(&mut self, now: Instant) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.since[slot as usize] = now;
            return slot;
        }
        self.since.push(now);
        self.since.len() as u32 - 1
    }
}
