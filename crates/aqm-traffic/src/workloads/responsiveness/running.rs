//! The running test: its phases, its connections and its probes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use aqm_net::{Instant, Rng, Span};

use super::echoes::Echoes;
use super::stability::{Averages, Samples};
use super::{Config, Probing};
use crate::http::Priority;
use crate::probe_record::{Phase, Probe, ProbeKind, ProbeRecord, TestInterval};
use crate::{ArrivedDatagram, BuildContext, Conversation, Exchange, TrafficContext, Workload};

/// Estimated number of bytes of a foreign probe and of a self probe (draft, section 5.3).
const BYTES_OF_PROBES: [f64; 2] = [5000.0, 1000.0];
/// Size of the object that a load-generating connection transfers, in bytes. The draft requires an infinite size.
pub(super) const ENDLESS: u64 = 1_000_000_000_000_000;
/// The end of the client's TLS handshake and the server's response, which acknowledges the message and contains the
/// settings of HTTP/2. Sizes in bytes, with the headers of TLS records: Finished with SHA-384 after the compatibility
/// message (RFC 8446, sections 4.4.4 and D.4), and four settings with an update of the window (RFC 9113, section 6).
const FINISHED: u64 = 80;
const SETTINGS: u64 = 100;

/// An event of the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The next phase begins.
    Begin,
    /// An interval of the current phase ends.
    Interval,
    /// The next probe of the current phase is due.
    Probe,
    /// The next echo is due.
    Echo,
}

/// A load-generating connection.
#[derive(Clone, Default)]
struct Load {
    /// Number of bytes that had arrived at the end of the last interval.
    bytes: u64,
    /// Positions in the record of the self probes whose responses have not arrived, in order.
    probes: VecDeque<usize>,
}

/// A foreign probe in progress.
#[derive(Clone, Copy)]
struct Foreign {
    /// Position of the probe in the record.
    position: usize,
    /// Time at which the client could send the GET request; `None` before the end of the TLS handshake.
    requested: Option<Instant>,
    /// Whether the request waits for an acknowledgement.
    waits: bool,
}

/// The progress of a phase with load.
#[derive(Clone)]
struct Progress {
    /// Time at which the phase began.
    begun: Instant,
    /// Total number of bytes at the ends of the last intervals, beginning with the oldest.
    totals: VecDeque<u64>,
    /// Number of bytes of the connections that failed.
    lost: u64,
    /// Largest goodput of an interval, in bits per second.
    capacity: f64,
    /// Number of probe times so far.
    probes: u64,
    goodput: Averages,
    rpm: Averages,
    goodput_stable: bool,
}

impl Progress {
    fn new(moving_average: u32) -> Self {
        Self {
            begun: Instant::START,
            totals: VecDeque::from([0]),
            lost: 0,
            capacity: 0.0,
            probes: 0,
            goodput: Averages::new(moving_average),
            rpm: Averages::new(moving_average),
            goodput_stable: false,
        }
    }
}

/// The running workload.
#[derive(Clone)]
pub(super) struct Responsiveness {
    config: Config,
    streams: Option<Priority>,
    handshake: Option<Exchange>,
    rng: Rng,
    /// Events with the number of their phase. An event of an earlier phase has no effect.
    due: BinaryHeap<Reverse<(Instant, u32, Event)>>,
    /// The phases that follow.
    phases: VecDeque<Phase>,
    phase: Option<Phase>,
    /// Number of the current phase.
    turn: u32,
    loads: BTreeMap<u32, Load>,
    foreign: BTreeMap<u32, Foreign>,
    /// Number of the next conversation.
    next: u32,
    idle_left: u32,
    progress: Progress,
    failed: u32,
    echoes: Echoes,
    record: ProbeRecord,
}

impl Responsiveness {
    pub(super) fn new(
        config: Config,
        streams: Option<Priority>,
        handshake: Option<Exchange>,
        context: &BuildContext<'_>,
    ) -> Self {
        let idle = (config.idle_probes > 0).then_some(Phase::Idle);
        Self {
            streams,
            handshake,
            rng: context.streams.named(&format!("{}/self-probes", context.name), 0),
            due: BinaryHeap::new(),
            phases: idle.into_iter().chain(config.directions.phases().iter().copied()).collect(),
            phase: None,
            turn: 0,
            loads: BTreeMap::new(),
            foreign: BTreeMap::new(),
            next: 0,
            idle_left: config.idle_probes,
            progress: Progress::new(config.moving_average),
            failed: 0,
            echoes: Echoes::default(),
            record: ProbeRecord::default(),
            config,
        }
    }
}

impl Workload for Responsiveness {
    fn start(&mut self, cx: &mut dyn TrafficContext) {
        let start = Instant::START + self.config.start;
        self.wake(start, Event::Begin, cx);
        if !self.config.echo_every.is_zero() {
            self.wake(start, Event::Echo, cx);
        }
    }

    fn on_wake(&mut self, cx: &mut dyn TrafficContext) {
        while let Some(&Reverse((_, turn, event))) = self.due.peek().filter(|due| due.0.0 <= cx.now()) {
            self.due.pop();
            match event {
                Event::Begin => self.begin_next_phase(cx),
                Event::Interval if turn == self.turn => self.end_interval(cx),
                Event::Probe if turn == self.turn => self.probe(cx),
                Event::Echo => self.echo(cx),
                Event::Interval | Event::Probe => {}
            }
        }
    }

    fn on_response(&mut self, number: u32, cx: &mut dyn TrafficContext) {
        if let Some(foreign) = self.foreign.get(&number).copied() {
            return self.on_foreign(number, foreign, cx);
        }
        let Some(load) = self.loads.get_mut(&number) else { return };
        if let Some(probe) = load.probes.pop_front().and_then(|at| self.record.probes.get_mut(at)) {
            probe.response = Some(cx.now().since(probe.start));
            self.on_complete(ProbeKind::Own, cx);
        }
    }

    fn on_connection_failed(&mut self, number: u32, cx: &mut dyn TrafficContext) {
        if let Some(load) = self.loads.remove(&number) {
            self.failed += 1;
            self.progress.lost += load.bytes;
            if !load.probes.is_empty() {
                self.on_complete(ProbeKind::Own, cx);
            }
        } else if self.foreign.remove(&number).is_some() {
            self.on_complete(ProbeKind::Foreign, cx);
        }
    }

    fn on_datagram(&mut self, arrived: &ArrivedDatagram, cx: &mut dyn TrafficContext) {
        self.echoes.on_datagram(arrived, &mut self.record.probes, cx);
    }

    fn facts(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("probes", self.record.probes.len() as f64);
        show("intervals", self.record.intervals.len() as f64);
        show("failed_connections", self.failed.into());
    }

    fn probe_record(&self) -> Option<&ProbeRecord> {
        Some(&self.record)
    }
}

impl Responsiveness {
    fn wake(&mut self, at: Instant, event: Event, cx: &mut dyn TrafficContext) {
        self.due.push(Reverse((at, self.turn, event)));
        cx.wake_at(at);
    }

    /// Ends the current phase and begins the next phase, if any.
    fn begin_next_phase(&mut self, cx: &mut dyn TrafficContext) {
        let connections: Vec<u32> = self.loads.keys().chain(self.foreign.keys()).copied().collect();
        connections.into_iter().for_each(|number| cx.reset(number));
        self.loads.clear();
        self.foreign.clear();
        self.turn += 1;
        self.phase = self.phases.pop_front();
        self.progress = Progress { begun: cx.now(), ..Progress::new(self.config.moving_average) };
        match self.phase {
            None => {}
            Some(Phase::Idle) => self.probe_idle(cx),
            Some(direction) => {
                self.add_loads(self.config.initial_connections, direction, cx);
                if self.config.probing == Probing::Sequential {
                    self.probe_foreign(cx);
                }
                self.wake(cx.now() + self.config.interval, Event::Interval, cx);
            }
        }
    }

    /// Opens load-generating connections, up to the maximum number.
    fn add_loads(&mut self, count: u32, direction: Phase, cx: &mut dyn TrafficContext) {
        let room = self.config.max_connections.saturating_sub(self.loads.len() as u32);
        let [request, response] = [self.config.request.bytes(), self.config.response.bytes()];
        let first = match direction {
            Phase::Upload => Exchange::immediate(ENDLESS, response),
            _ => Exchange::immediate(request, ENDLESS),
        };
        for _ in 0..count.min(room) {
            let number = self.number();
            self.loads.insert(number, Load::default());
            cx.converse(Conversation {
                number: Some(number),
                streams: self.streams,
                request_frame: self.config.upload_frame.bytes(),
                send_buffer: self.config.send_buffer.bytes(),
                handshake: self.handshake,
                ..Conversation::single(first)
            });
        }
    }

    fn number(&mut self) -> u32 {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    /// Evaluates an interval (draft, section 5.4).
    fn end_interval(&mut self, cx: &mut dyn TrafficContext) {
        let Some(direction) = self.phase else { return };
        let (now, config) = (cx.now(), &self.config);
        for (&number, load) in &mut self.loads {
            if let Some(state) = cx.connection(number) {
                load.bytes =
                    if direction == Phase::Upload { state.received_by_server } else { state.received };
            }
        }
        let progress = &mut self.progress;
        let total = progress.lost + self.loads.values().map(|load| load.bytes).sum::<u64>();
        let last = progress.totals.back().copied().unwrap_or_default();
        let interval = config.interval.seconds();
        progress.capacity = progress.capacity.max(8.0 * total.saturating_sub(last) as f64 / interval);
        progress.totals.push_back(total);
        let distance = config.moving_average as usize;
        if progress.totals.len() > distance + 1 {
            progress.totals.pop_front();
        }
        let oldest = progress.totals.front().copied().unwrap_or_default();
        let goodput_bps = 8.0 * total.saturating_sub(oldest) as f64 / (distance as f64 * interval);
        let from = now.earlier_by(config.interval.saturating_mul(config.moving_average.into()));
        let rpm = Samples::since(from.max(progress.begun), &self.record.probes).rpm(config.tls, config.trim);
        let rpm_stable = if progress.goodput_stable {
            rpm.is_some_and(|rpm| progress.rpm.is_stable_with(rpm, config.tolerance))
        } else {
            progress.goodput_stable = progress.goodput.is_stable_with(goodput_bps, config.tolerance);
            false
        };
        self.record.intervals.push(TestInterval {
            end: now,
            phase: direction,
            connections: self.loads.len() as u32,
            goodput_bps,
            rpm,
            goodput_stable: progress.goodput_stable,
            rpm_stable,
        });
        if rpm_stable || now.since(progress.begun) >= config.limit {
            return self.begin_next_phase(cx);
        }
        let begins_probing =
            config.probing == Probing::Rate && progress.probes == 0 && progress.capacity > 0.0;
        self.add_loads(self.config.added_connections, direction, cx);
        self.wake(now + self.config.interval, Event::Interval, cx);
        if begins_probing {
            self.probe(cx);
        }
    }

    /// Sends the next probe of a phase with load, and schedules the probe after it.
    fn probe(&mut self, cx: &mut dyn TrafficContext) {
        let is_foreign = self.progress.probes.is_multiple_of(2);
        self.progress.probes += 1;
        if is_foreign {
            self.probe_foreign(cx);
        } else {
            self.probe_load(cx);
        }
        let mean = BYTES_OF_PROBES.iter().sum::<f64>() / 2.0;
        let allowed = self.config.probe_share * self.progress.capacity / (8.0 * mean);
        let gap = Span::from_seconds(1.0 / allowed.min(self.config.probes_per_second));
        self.wake(cx.now() + gap, Event::Probe, cx);
    }

    /// Sends the next probe of the idle phase, or ends the phase.
    fn probe_idle(&mut self, cx: &mut dyn TrafficContext) {
        if self.idle_left == 0 {
            return self.begin_next_phase(cx);
        }
        self.idle_left -= 1;
        self.probe_foreign(cx);
    }

    /// Sends the probe that follows a complete or failed probe, if the next probe waits for this end.
    fn on_complete(&mut self, kind: ProbeKind, cx: &mut dyn TrafficContext) {
        match (self.phase, self.config.probing, kind) {
            (None, ..) | (Some(Phase::Download | Phase::Upload), Probing::Rate, _) => {}
            (Some(Phase::Idle), ..) => self.probe_idle(cx),
            // If no connection transfers data yet, another new connection is opened.
            (_, Probing::Sequential, ProbeKind::Foreign) if self.probe_load(cx) => {}
            (_, Probing::Sequential, _) => self.probe_foreign(cx),
        }
    }

    /// Records a probe that begins now. Returns its position in the record.
    fn record(&mut self, kind: ProbeKind, response: Option<Span>, now: Instant) -> usize {
        let phase = self.phase.unwrap_or(Phase::Idle);
        self.record.probes.push(Probe { start: now, phase, kind, tcp: None, tls: None, response });
        self.record.probes.len() - 1
    }

    /// Opens the connection of a foreign probe. The TLS handshake is an exchange of its own, so that its end is known.
    fn probe_foreign(&mut self, cx: &mut dyn TrafficContext) {
        let (number, now) = (self.number(), cx.now());
        let position = self.record(ProbeKind::Foreign, None, now);
        self.foreign.insert(number, Foreign { position, requested: None, waits: false });
        let first = self.handshake.unwrap_or(self.get());
        cx.converse(Conversation { number: Some(number), ..Conversation::single(first) });
        if self.handshake.is_none() {
            cx.finish(number);
        }
    }

    /// Returns the exchange of a probe.
    fn get(&self) -> Exchange {
        Exchange::immediate(self.config.request.bytes(), self.config.response.bytes())
    }

    /// Handles a response on the connection of a foreign probe.
    fn on_foreign(&mut self, number: u32, foreign: Foreign, cx: &mut dyn TrafficContext) {
        let now = cx.now();
        let established = cx.connection(number).and_then(|state| state.established);
        let Some(probe) = self.record.probes.get_mut(foreign.position) else { return };
        if foreign.requested.is_none() {
            probe.tcp = established.map(|at| at.since(probe.start));
            if self.handshake.is_some() {
                probe.tls = established.map(|at| now.since(at));
                let foreign = Foreign { requested: Some(now), waits: self.config.nagle, ..foreign };
                self.foreign.insert(number, foreign);
                if foreign.waits {
                    return cx.request(number, Exchange::immediate(FINISHED, SETTINGS));
                }
                return self.send_get(number, cx);
            }
        }
        if foreign.waits {
            self.foreign.insert(number, Foreign { waits: false, ..foreign });
            return self.send_get(number, cx);
        }
        let requested = foreign.requested.or(established);
        probe.response = requested.map(|at| now.since(at));
        self.foreign.remove(&number);
        self.on_complete(ProbeKind::Foreign, cx);
    }

    /// Sends the GET request of a foreign probe, which is the last request on the connection.
    fn send_get(&self, number: u32, cx: &mut dyn TrafficContext) {
        cx.request(number, self.get());
        cx.finish(number);
    }

    /// Sends a self probe on a random load-generating connection, unless no connection transfers data yet. Returns
    /// whether a response is expected.
    fn probe_load(&mut self, cx: &mut dyn TrafficContext) -> bool {
        let handshake = self.handshake.map_or(0, |handshake| handshake.response);
        let is_active = |number: &&u32| {
            cx.connection(**number)
                .is_some_and(|state| state.established.is_some() && state.received >= handshake)
        };
        let active: Vec<u32> = self.loads.keys().filter(is_active).copied().collect();
        if active.is_empty() {
            return false;
        }
        let number = active[self.rng.below(active.len() as u64) as usize];
        if self.streams.is_some() {
            let position = self.record(ProbeKind::Own, None, cx.now());
            if let Some(load) = self.loads.get_mut(&number) {
                load.probes.push_back(position);
            }
            cx.request(number, self.get());
            return true;
        }
        let rtt = cx.connection(number).and_then(|state| match self.phase {
            Some(Phase::Upload) => state.client_rtt,
            _ => state.server_rtt,
        });
        if rtt.is_some() {
            self.record(ProbeKind::Own, rtt, cx.now());
        }
        false
    }

    /// Sends an echo, unless the test is over.
    fn echo(&mut self, cx: &mut dyn TrafficContext) {
        let Some(phase) = self.phase else { return };
        self.echoes.send(phase, &mut self.record.probes, cx);
        self.wake(cx.now() + self.config.echo_every, Event::Echo, cx);
    }
}
