//! A trace meets a queue: packets go in at their own times, the line takes them out, and what happens is
//! counted.
//!
//! A flow's packets are told apart by keys, which are remembered until the flow has been silent for
//! `idle_timeout`; the queue knows flows by a number that is never used again. A flow that comes back after
//! its time-out is a new one, even if packets of it still wait.

use std::cell::RefCell;

use aqm_net::table::{Row, Table as Rows};
use aqm_net::{ConfigError, Instant, Occupancy, Packet, Streams};
use aqm_queue::edge::Table;
use aqm_queue::{Counters, Departure, Observer, Port, Reason, Ties};

use crate::histogram::Histogram;
use crate::packets::{Arrival, Key};
use crate::progress::InProgress;
use crate::sample::Samples;
use crate::scenario::{FlowState, Scenario, Settings};
use crate::tables::{ActiveRow, DistributionRow, ProgressRow, SummaryRow};
use aqm_net::stage::Failure;

/// What a replay has brought in.
pub(crate) struct RunRecord {
    pub(crate) tables: Vec<Rows>,
    pub(crate) warnings: Vec<String>,
    pub(crate) most_flows_known: u64,
    pub(crate) packets: u64,
    pub(crate) sent: u64,
}

/// What became of a packet.
enum Fate {
    Sent(Departure),
    Dropped(Packet, Instant),
}

/// Fates in the order in which they happen, from both sides of a port.
#[derive(Default)]
struct Fates(RefCell<Vec<Fate>>);

impl Observer for &Fates {
    fn dropped(&mut self, packet: &Packet, _: Reason, now: Instant) {
        self.0.borrow_mut().push(Fate::Dropped(*packet, now));
    }
    fn marked(&mut self, _: &Packet, _: Reason, _: Instant) {}
}

/// A replay at work.
pub(crate) struct Replay<'a> {
    settings: &'a Settings,
    port: Port,
    fates: Fates,
    flows: Table<FlowState, Key>,
    /// Flows met so far.
    met: u64,
    most_known: u32,
    /// Flows that were over only because there were too many.
    crowded_out: u64,
    waiting: Waiting,
    packets: Slab,
    active: Occupancy,
    in_progress: InProgress,
    sojourn: Histogram,
    samples: Samples<ActiveRow>,
    most_active: u64,
    warm_up: Instant,
    /// What the port had counted at the end of the warm-up.
    before: Option<Counters>,
    /// By the clock of the trace.
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
            met: 0,
            most_known: 0,
            crowded_out: 0,
            waiting: Waiting::default(),
            packets: Slab::default(),
            active: Occupancy::new(settings.warm_up.seconds()),
            in_progress: InProgress::new(settings.idle_timeout, settings.warm_up, settings.every),
            sojourn: Histogram::new(),
            samples: Samples::new(settings.every),
            most_active: 0,
            warm_up: Instant::START + settings.warm_up,
            before: None,
            first: None,
            now: Instant::START,
        }
    }

    /// A packet of the trace comes; packets come in the order of time. False if it comes too late to count.
    pub(crate) fn take(&mut self, arrival: Arrival) -> bool {
        let now = Instant::START + arrival.at.since(*self.first.get_or_insert(arrival.at));
        if self.settings.duration.is_some_and(|most| now > Instant::START + most) {
            return false;
        }
        self.now = now;
        self.look_until(now);
        self.port
            .serve_before(now, &mut &self.fates, |sent| self.fates.0.borrow_mut().push(Fate::Sent(sent)));
        self.settle();
        self.forget(self.in_progress.horizon(now));
        let flow = self.flow(arrival.key, now);
        let packet = Packet {
            id: self.packets.put(now),
            flow: flow.number,
            hop: flow.place,
            bytes: arrival.bytes,
            ..Packet::default()
        };
        self.waiting.add(flow.place);
        self.port.accept(packet, now, &mut &self.fates, |sent| {
            self.fates.0.borrow_mut().push(Fate::Sent(sent));
        });
        self.settle();
        self.active.set(self.waiting.flows, now.seconds());
        self.most_active = self.most_active.max(self.waiting.flows as u64);
        true
    }

    /// The flow of a key that is used now.
    fn flow(&mut self, key: Key, now: Instant) -> FlowState {
        if self.flows.len() == self.settings.max_flows && !self.flows.contains(key) {
            self.crowded_out += 1;
            self.forget_one(Instant::NEVER);
        }
        let flow = self.flows.touch(key, now);
        if flow.number == 0 {
            self.met += 1;
            // After four thousand million flows numbers come again, and nobody remembers the first.
            *flow = FlowState { number: (self.met as u32).max(1), place: self.waiting.open() };
            self.in_progress.start(now);
        }
        let flow = *flow;
        self.most_known = self.most_known.max(self.flows.len());
        flow
    }

    /// Forgets flows that were silent since before `horizon`.
    fn forget(&mut self, horizon: Instant) {
        while self.forget_one(horizon) {}
        self.in_progress.reach(horizon);
    }

    fn forget_one(&mut self, horizon: Instant) -> bool {
        let Some((last, flow)) = self.flows.take_before(horizon) else {
            return false;
        };
        self.in_progress.end(last);
        self.waiting.close(flow.place);
        true
    }

    /// Takes in what became of packets.
    fn settle(&mut self) {
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
            self.waiting.remove(packet.hop);
            self.active.set(self.waiting.flows, at.seconds());
        }
    }

    /// Looks at the queue whenever that is due before what happens at `until`.
    fn look_until(&mut self, until: Instant) {
        loop {
            let warm = if self.before.is_none() { self.warm_up } else { Instant::NEVER };
            let at = warm.min(self.samples.next());
            // The warm-up ends before whatever comes at that moment.
            if at > until || at == Instant::NEVER {
                return;
            }
            self.port.serve_before(at, &mut &self.fates, |sent| {
                self.fates.0.borrow_mut().push(Fate::Sent(sent));
            });
            self.settle();
            if at == warm {
                self.before = Some(self.port.counters(at));
            }
            if at == self.samples.next() {
                self.samples.push(ActiveRow {
                    time_s: at.seconds(),
                    flows: self.waiting.flows as u64,
                    most_flows: self.most_active,
                    backlog_packets: self.port.discipline().backlog().packets,
                });
                self.most_active = self.waiting.flows as u64;
            }
        }
    }

    /// The trace is over.
    pub(crate) fn finish(mut self) -> Result<RunRecord, Failure> {
        let end = self.now;
        let measured = end.since(self.warm_up);
        let Some(before) = self.before.filter(|_| !measured.is_zero()) else {
            return match self.first {
                None => Err(Failure::File("the trace holds no packet".to_owned())),
                Some(_) if end == Instant::START => {
                    Err(Failure::File("the trace holds one moment only: nothing can be measured".to_owned()))
                }
                Some(_) => {
                    let problem =
                        format!("must be shorter than the trace, which lasts {:.6} s", end.seconds());
                    Err(Failure::Config(ConfigError::at("warm_up", problem)))
                }
            };
        };
        self.forget(self.in_progress.horizon(end));
        self.active.set(self.waiting.flows, end.seconds());
        let counters = self.port.counters(end);
        let waiting = self.port.discipline().backlog().packets;
        let (in_progress, progress_rows) = self.in_progress.finish(end);
        let seconds = measured.seconds();
        let per_second = |after: u64, before: u64| (after - before) as f64 / seconds;
        let line = self.settings.rate;
        let came = per_second(counters.arrived_bytes, before.arrived_bytes);
        let summary = SummaryRow {
            rate_bps: line.bps() as f64,
            duration_s: end.seconds(),
            measured_s: seconds,
            packets: counters.arrivals,
            bytes: counters.arrived_bytes,
            sent: counters.departures,
            dropped: counters.drops,
            waiting,
            flows: self.met,
            mean_rate_bps: came * 8.0,
            load: came / line.bytes_per_second(),
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
                "the trace lasts {:.6} s: too short to tell how many flows are in progress, which takes more \
                 than twice `idle_timeout`, {}",
                end.seconds(),
                self.settings.idle_timeout
            ));
        }
        if self.crowded_out > 0 {
            warnings.push(format!(
                "{} flows were given up early for want of room: raise `max_flows`, or lower `idle_timeout`",
                self.crowded_out
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
            most_flows_known: self.most_known.into(),
            packets: counters.arrivals,
            sent: counters.departures,
        })
    }
}

/// Shares of the time, from no flow to the most there were.
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

/// How many packets of each flow wait.
#[derive(Default)]
struct Waiting {
    /// By place; the highest bit is set if the flow is over and the place free once nothing waits.
    counts: Vec<u32>,
    free: Vec<u32>,
    /// Flows with a packet.
    flows: usize,
}

/// Says of a place that its flow is over.
const OVER: u32 = 1 << 31;

impl Waiting {
    /// A place for a new flow.
    fn open(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.counts.push(0);
            self.counts.len() as u32 - 1
        })
    }

    /// The flow is over; packets of it may still wait.
    fn close(&mut self, place: u32) {
        let count = &mut self.counts[place as usize];
        if *count == 0 {
            self.free.push(place);
        } else {
            *count |= OVER;
        }
    }

    fn add(&mut self, place: u32) {
        let count = &mut self.counts[place as usize];
        self.flows += usize::from(*count == 0);
        *count += 1;
    }

    fn remove(&mut self, place: u32) {
        let count = &mut self.counts[place as usize];
        *count -= 1;
        if *count & !OVER == 0 {
            self.flows -= 1;
            if *count == OVER {
                *count = 0;
                self.free.push(place);
            }
        }
    }
}

/// When each packet that waits came.
#[derive(Default)]
struct Slab {
    since: Vec<Instant>,
    free: Vec<u32>,
}

impl Slab {
    fn put(&mut self, now: Instant) -> u32 {
        if let Some(place) = self.free.pop() {
            self.since[place as usize] = now;
            return place;
        }
        self.since.push(now);
        self.since.len() as u32 - 1
    }
}
