//! A run at flow level. The link serves the arriving flows, and the run counts and records all arrivals and departures.
//!
//! If a departure and an arrival have the same time, the departure is processed first. Other events can have equal
//! times only because their last binary digit was rounded. These events are processed in the alphabetical order of the
//! names of their traffic classes.

use aqm_net::watch::{Stopped, Watch};
use aqm_net::{Instant, Occupancy, Span};

use crate::scenario::{Scenario, Service};
use crate::server::{Job, Server};
use crate::sources::Sources;
use crate::tables::{ClassRow, DistributionRow, FlowRow, LinkRow, SampleRow};

/// The recorded data of a run.
pub(crate) struct RunRecord {
    pub(crate) flows: Vec<FlowRow>,
    pub(crate) samples: Vec<SampleRow>,
    pub(crate) distribution: Vec<DistributionRow>,
    pub(crate) classes: Vec<ClassRow>,
    pub(crate) link: Vec<LinkRow>,
    /// Total number of arrivals and departures of flows.
    pub(crate) events: u64,
}

/// A flow in progress.
#[derive(Clone, Copy)]
struct Flow {
    number: u64,
    start: f64,
    bytes: u64,
    class: u32,
    session: u32,
}

/// The counters of a class.
struct Count {
    in_progress: Occupancy,
    elastic: bool,
    /// Peak rate of the flows, in bits per second; `None` if the flows have no peak rate.
    peak: Option<u64>,
    flows: u64,
    offered: u64,
    completed: u64,
    /// Total duration of the completed flows that arrived after the warm-up, in seconds.
    seconds: f64,
    carried_in_warm_up: f64,
}

/// The state of a run.
pub(crate) struct World<'a, S> {
    scenario: &'a Scenario,
    server: S,
    sources: Sources,
    /// Flows in progress, by slot.
    flows: Vec<Flow>,
    /// Unused slots.
    free: Vec<u32>,
    classes: Vec<Count>,
    /// Number of elastic flows in progress.
    elastic: Occupancy,
    /// Number of all flows in progress.
    all: Occupancy,
    /// One if the sum of the peak rates of the flows in progress is at least the capacity, otherwise zero.
    saturated: Occupancy,
    arrivals: u64,
    departures: u64,
    rows: Vec<FlowRow>,
    samples: Vec<SampleRow>,
    warm_up: f64,
    /// Time of the next observation, which is the end of the warm-up or a sample.
    next_observation: f64,
    /// Time of the next sample; `NEVER` if there is none.
    sample: Instant,
    is_warm: bool,
}

impl<'a, S: Server> World<'a, S> {
    pub(crate) fn new(scenario: &'a Scenario, server: S) -> Self {
        let warm_up = scenario.warm_up.seconds();
        let count = |class: &crate::scenario::Class| Count {
            in_progress: Occupancy::new(warm_up),
            elastic: class.config.service == Service::Elastic,
            peak: class.config.peak_rate.map(aqm_net::Rate::bps),
            flows: 0,
            offered: 0,
            completed: 0,
            seconds: 0.0,
            carried_in_warm_up: 0.0,
        };
        let sample = if scenario.record.every.is_zero() { Instant::NEVER } else { Instant::START };
        let mut world = Self {
            scenario,
            server,
            sources: Sources::new(scenario),
            flows: Vec::new(),
            free: Vec::new(),
            classes: scenario.classes.iter().map(count).collect(),
            elastic: Occupancy::new(warm_up),
            all: Occupancy::new(warm_up),
            saturated: Occupancy::new(warm_up),
            arrivals: 0,
            departures: 0,
            rows: Vec::new(),
            samples: Vec::new(),
            warm_up,
            next_observation: 0.0,
            sample,
            is_warm: false,
        };
        world.schedule_observation();
        world
    }

    /// Executes the run until it ends or `watch` stops it.
    pub(crate) fn run(mut self, watch: &Watch) -> Result<RunRecord, Stopped> {
        let end = self.scenario.duration.seconds();
        let mut steps = 0;
        loop {
            let (departure, arrival) = (self.server.next(), self.sources.next());
            let next = departure.min(arrival).min(end);
            watch.check_at(steps, || Span::from_seconds(next).nanos())?;
            steps += 1;
            if self.next_observation <= next && self.next_observation < end {
                self.observe();
            } else if next == end {
                self.server.advance(end);
                watch.reach(self.scenario.duration.nanos());
                return Ok(self.record(end));
            } else if departure <= arrival {
                self.depart(departure);
            } else {
                self.arrive(arrival);
            }
        }
    }

    fn arrive(&mut self, now: f64) {
        self.server.advance(now);
        let arrival = self.sources.pop();
        let number = self.arrivals;
        self.arrivals += 1;
        let flow =
            Flow { number, start: now, bytes: arrival.bytes, class: arrival.class, session: arrival.session };
        let slot = if let Some(slot) = self.free.pop() {
            self.flows[slot as usize] = flow;
            slot
        } else {
            self.flows.push(flow);
            (self.flows.len() - 1) as u32
        };
        if self.is_warm {
            let count = &mut self.classes[flow.class as usize];
            count.flows += 1;
            count.offered += flow.bytes;
        }
        if self.scenario.record.flows {
            self.rows.push(FlowRow {
                flow: number,
                traffic: flow.class,
                start_s: now,
                size_bytes: flow.bytes,
                duration_s: None,
            });
        }
        self.server.join(Job { bytes: flow.bytes as f64, number, slot, class: flow.class });
        self.change(flow.class as usize, 1, now);
    }

    fn depart(&mut self, now: f64) {
        let slot = self.server.leave();
        let flow = self.flows[slot as usize];
        self.free.push(slot);
        self.departures += 1;
        let duration = now - flow.start;
        // Observations precede arrivals, so a flow that arrives exactly at the end of the warm-up is counted.
        if self.is_warm && flow.start >= self.warm_up {
            let count = &mut self.classes[flow.class as usize];
            count.completed += 1;
            count.seconds += duration;
        }
        if self.scenario.record.flows {
            self.rows[flow.number as usize].duration_s = Some(duration);
        }
        self.sources.flow_done(flow.session, now);
        self.change(flow.class as usize, -1, now);
    }

    /// Changes the number of flows of a class in progress by `by`, which is 1 or -1.
    fn change(&mut self, class: usize, by: isize, now: f64) {
        let update = |number: &mut Occupancy| number.set(number.now().wrapping_add_signed(by), now);
        update(&mut self.all);
        update(&mut self.classes[class].in_progress);
        if self.classes[class].elastic {
            update(&mut self.elastic);
        }
        self.saturated.set(usize::from(self.saturates()), now);
    }

    /// Returns whether the sum of the peak rates of the flows in progress is at least the capacity.
    fn saturates(&self) -> bool {
        let capacity = self.scenario.link.capacity.bps();
        let demand = self.classes.iter().fold(0_u64, |sum, class| {
            let flows = class.in_progress.now() as u64;
            sum.saturating_add(flows.saturating_mul(class.peak.unwrap_or(capacity)))
        });
        demand >= capacity
    }

    fn schedule_observation(&mut self) {
        let sample = if self.sample == Instant::NEVER { f64::INFINITY } else { self.sample.seconds() };
        self.next_observation = if self.is_warm { sample } else { sample.min(self.warm_up) };
    }

    /// Ends the warm-up, or takes a sample, or both.
    fn observe(&mut self) {
        let now = self.next_observation;
        self.server.advance(now);
        if !self.is_warm && now >= self.warm_up {
            self.is_warm = true;
            for (class, count) in self.classes.iter_mut().enumerate() {
                count.carried_in_warm_up = self.server.carried(class);
            }
        }
        if self.sample != Instant::NEVER && now >= self.sample.seconds() {
            for (class, count) in self.classes.iter().enumerate() {
                let flows = count.in_progress.now() as u64;
                self.samples.push(SampleRow { time_s: now, traffic: class as u32, flows });
            }
            self.sample += self.scenario.record.every;
        }
        self.schedule_observation();
    }

    fn record(mut self, end: f64) -> RunRecord {
        let measured = end - self.warm_up;
        let totals = [&mut self.elastic, &mut self.all, &mut self.saturated];
        for number in self.classes.iter_mut().map(|count| &mut count.in_progress).chain(totals) {
            number.set(number.now(), end);
        }
        let mut distribution = Vec::new();
        let classes = self.classes.iter().map(|count| &count.in_progress);
        for (traffic, number) in classes.chain([&self.elastic]).enumerate() {
            for (flows, &time_s) in number.seconds.iter().enumerate() {
                let (traffic, flows) = (traffic as u32, flows as u64);
                distribution.push(DistributionRow { traffic, flows, time_s, share: time_s / measured });
            }
        }
        let carried = |class: usize| self.server.carried(class) - self.classes[class].carried_in_warm_up;
        let class_row = |(class, count): (usize, &Count)| {
            let mean = count.in_progress.mean();
            ClassRow {
                traffic: class as u32,
                load: self.scenario.classes[class].load,
                flows: count.flows,
                completed: count.completed,
                offered_bytes: count.offered,
                carried_bytes: carried(class),
                mean_in_progress: mean,
                mean_duration_s: (count.completed > 0).then(|| count.seconds / count.completed as f64),
                mean_throughput_bps: (mean > 0.0).then(|| carried(class) * 8.0 / (mean * measured)),
            }
        };
        let carried_bytes: f64 = (0..self.classes.len()).map(carried).sum();
        let load = |streaming_only: bool| {
            let counted = |class: &&crate::scenario::Class| {
                !streaming_only || class.config.service == Service::Streaming
            };
            self.scenario.classes.iter().filter(counted).map(|class| class.load).sum()
        };
        let capacity = self.scenario.link.capacity;
        let link = LinkRow {
            capacity_bps: capacity.bps() as f64,
            load: load(false),
            streaming_load: load(true),
            carried_bytes,
            utilisation: carried_bytes / (capacity.bytes_per_second() * measured),
            busy: self.all.above_zero(),
            saturated: self.saturated.above_zero(),
            mean_in_progress: self.elastic.mean(),
        };
        RunRecord {
            classes: self.classes.iter().enumerate().map(class_row).collect(),
            link: vec![link],
            distribution,
            events: self.arrivals + self.departures,
            flows: self.rows,
            samples: self.samples,
        }
    }
}
