//! A managed link of the oracle: its queue, and a line with an event for everything that it does.
//!
//! What it can do it reads from the scenario anew, and finds the rate, the delay and the outages of a moment by looking
//! through all that is written.

use aqm_link::channel::Config as ChannelConfig;
use aqm_link::transmitter::{Config as TransmitterConfig, outages::RandomOutages};
use aqm_net::{Instant, Pace, Packet, Parameter as _, Rng, Span};
use aqm_queue::{Acknowledgement, Context, Counters, Observer, QueueDiscipline, Reason};
use aqm_traffic::distributions::{Distribution, Exponential};
use serde_json::Value;

use crate::network::transit::{InTransit, LinkObserver};
use crate::scenario::links::{LinkSpec, Queue};
use crate::scenario::plan::Plan;

/// What happens at a line.
#[derive(Clone, Copy)]
pub(super) enum What {
    /// A transmission ends, unless the rate has changed since it was expected to.
    Ends { expected: u64 },
    /// The rate takes this step.
    Step(usize),
    /// An outage begins or ends.
    Outage,
    /// A random one does.
    RandomOutage,
    /// The opportunity of this number in its round.
    Opportunity(usize, u64),
    /// The line is free.
    Free,
    /// A burst is no longer waited for, or begins.
    Burst,
    /// The queue, which holds packets back, may be ready.
    Ready,
    /// A packet reaches the far end.
    Arrives(Packet),
}

impl What {
    /// The order of what happens at one instant.
    pub(super) fn order(self) -> u32 {
        match self {
            Self::Ends { .. } => 0,
            Self::Step(_) | Self::Outage | Self::RandomOutage => 1,
            Self::Opportunity(..) => 2,
            Self::Free | Self::Burst | Self::Ready | Self::Arrives(_) => 3,
        }
    }
}

/// What happens next, and when.
pub(super) type Agenda = Vec<(Instant, What)>;

/// The packet on the line.
struct OnLine {
    packet: Packet,
    lost: bool,
    /// Of the transmission, in bits by a thousand millions; at opportunities in bytes.
    left: u128,
    /// Whether that is all of it.
    whole: bool,
    /// As of when, and how fast it goes on.
    since: Instant,
    bps: u64,
}

#[derive(Clone, Copy)]
enum Burst {
    Rests,
    Waits { until: Instant },
    Sends { from: Instant, packets: u32, bytes: u64 },
}

pub(super) struct Managed {
    number: u32,
    pub(super) discipline: Box<dyn QueueDiscipline>,
    rng: Rng,
    pub(super) counters: Counters,
    waiting: u64,
    changed_at: Instant,
    pub(super) hosts: Vec<[u16; 2]>,
    bps: u64,
    steps: Vec<(u64, u64)>,
    line: TransmitterConfig,
    /// The milliseconds of a trace.
    trace: Vec<u64>,
    random_outages: Option<(RandomOutages, Rng, bool)>,
    on_line: Option<OnLine>,
    /// Transmissions whose end was expected so far.
    expected: u64,
    /// A transmission has ended, and the queue does not know yet whether another one follows.
    has_ended: bool,
    /// Until when the queue holds back what waits.
    held_until: Option<Instant>,
    burst: Burst,
    delay: Span,
    propagation: ChannelConfig,
    loss: Rng,
    in_bad_state: bool,
    reordering: Rng,
    last_arrival: Instant,
}

impl Managed {
    pub(super) fn new(plan: &Plan, number: usize, spec: &LinkSpec, queue: &Queue) -> Self {
        let Plan { scenario, topology, .. } = plan;
        let written = &scenario.to_value();
        let mut table = match spec.name.as_str() {
            "bottleneck" => written["bottleneck"].clone(),
            "bottleneck-back" => written["bottleneck"]["reverse"].clone(),
            name => written["links"][name].clone(),
        };
        let Value::Object(keys) = &mut table else { panic!("a link is a table") };
        let belongs = |key: &str| {
            let of_propagation = ["delay_steps", "delay_repeat", "loss", "reordering"];
            (
                of_propagation.contains(&key),
                !["rate", "delay", "queue", "from", "to", "reverse"].contains(&key),
            )
        };
        let mut propagation = keys.clone();
        propagation.retain(|key, _| belongs(key).0);
        keys.retain(|key, _| belongs(key).1 && !belongs(key).0);
        let line = TransmitterConfig::read(table).unwrap();
        let file = |name: &Option<String>| name.as_ref().map(|name| scenario.files[name].clone());
        let mut steps: Vec<(u64, u64)> = line
            .rate_steps
            .iter()
            .map(|step| (step.at.unwrap().nanos(), step.rate.unwrap().or_zero().bps()))
            .collect();
        for row in file(&line.rate_file).unwrap_or_default().lines() {
            let (time, rate) = row.split_once(',').unwrap();
            let nanos = Span::from_seconds(time.parse().unwrap()).nanos();
            steps.push((nanos, rate.parse().unwrap()));
        }
        let trace = file(&line.opportunities.as_ref().and_then(|one| one.file.clone()));
        let stream = |what: &str| scenario.chance().named(&format!("{what}/{}", spec.name), 0);
        Self {
            number: number as u32,
            discipline: queue.for_run(&spec.name, &scenario.chance()),
            rng: stream("queue"),
            counters: Counters::default(),
            waiting: 0,
            changed_at: Instant::START,
            hosts: topology.hosts_told_to(queue),
            bps: spec.rate.bps(),
            steps,
            trace: trace.unwrap_or_default().lines().map(|line| line.parse().unwrap()).collect(),
            random_outages: line.random_outages.clone().map(|config| (config, stream("outages"), false)),
            line,
            on_line: None,
            expected: 0,
            has_ended: false,
            held_until: None,
            burst: Burst::Rests,
            delay: spec.delay,
            propagation: ChannelConfig::read(Value::Object(propagation)).unwrap(),
            loss: stream("line-loss"),
            in_bad_state: false,
            reordering: stream("reordering"),
            last_arrival: Instant::START,
        }
    }

    /// What happens whatever is sent.
    pub(super) fn begin(&mut self, agenda: &mut Agenda) {
        let steps = self.steps.iter().enumerate();
        agenda.extend(steps.map(|(number, &(at, _))| (Instant::from_nanos(at), What::Step(number))));
        for outage in &self.line.outages {
            let moments = [outage.from, outage.until].into_iter().flatten();
            agenda.extend(moments.map(|at| (Instant::START + at, What::Outage)));
        }
        if let Some((config, rng, _)) = &mut self.random_outages {
            agenda.push((Instant::START + exponential(config.mean_up, rng), What::RandomOutage));
        }
        if let Some(&first) = self.trace.first() {
            agenda.push((Instant::START + Span::from_millis(first), What::Opportunity(0, 0)));
        }
    }

    /// A packet arrives.
    pub(super) fn put(&mut self, packet: Packet, now: Instant, transit: &mut InTransit, agenda: &mut Agenda) {
        let observer = transit.at_link(self.number, self.counters.arrivals, false);
        self.counters.arrivals += 1;
        self.counters.arrived_bytes += u64::from(packet.bytes);
        self.call(now, observer, |discipline, cx| discipline.enqueue(packet, cx));
        self.held_until = None;
        self.attempt(now, transit, agenda);
    }

    /// Something happens.
    pub(super) fn on(&mut self, what: What, now: Instant, transit: &mut InTransit, agenda: &mut Agenda) {
        match what {
            What::Ends { expected } if expected != self.expected => {}
            What::Ends { .. } => {
                self.leaves(now, agenda);
                agenda.push((now, What::Free));
            }
            What::Step(number) => {
                if let Some(repeat) = self.line.rate_repeat {
                    agenda.push((now + repeat, What::Step(number)));
                }
                self.changes(now, transit, agenda);
            }
            What::Outage => self.changes(now, transit, agenda),
            What::RandomOutage => {
                let (config, rng, down) = self.random_outages.as_mut().unwrap();
                *down = !*down;
                let mean = if *down { config.mean_down } else { config.mean_up };
                agenda.push((now + exponential(mean, rng), What::RandomOutage));
                self.changes(now, transit, agenda);
            }
            What::Opportunity(number, round) => {
                self.takes_opportunity(now, transit, agenda);
                let (number, round) =
                    if number + 1 == self.trace.len() { (0, round + 1) } else { (number + 1, round) };
                let millis = round * self.trace[self.trace.len() - 1] + self.trace[number];
                agenda.push((Instant::START + Span::from_millis(millis), What::Opportunity(number, round)));
            }
            What::Free | What::Burst => self.attempt(now, transit, agenda),
            What::Ready if self.held_until == Some(now) => {
                self.held_until = None;
                self.attempt(now, transit, agenda);
            }
            What::Ready | What::Arrives(_) => {}
        }
    }

    fn is_down(&self, now: Instant) -> bool {
        let given = self.line.outages.iter().any(|outage| {
            let from = Instant::START + outage.from.unwrap();
            from <= now && outage.until.is_none_or(|until| now < Instant::START + until)
        });
        given || self.random_outages.as_ref().is_some_and(|&(_, _, down)| down)
    }

    fn bps_at(&self, now: Instant) -> u64 {
        if self.is_down(now) {
            return 0;
        }
        let repeat = self.line.rate_repeat.map(Span::nanos);
        last_step(&self.steps, repeat, now).unwrap_or(self.bps)
    }

    /// The rate may be another one.
    fn changes(&mut self, now: Instant, transit: &mut InTransit, agenda: &mut Agenda) {
        let bps = self.bps_at(now);
        if self.trace.is_empty()
            && let Some(on_line) = &mut self.on_line
        {
            let sent = u128::from(on_line.bps) * u128::from(now.since(on_line.since).nanos());
            on_line.whole &= sent == 0;
            on_line.left -= sent;
            (on_line.since, on_line.bps) = (now, bps);
            self.expect_end(agenda);
        }
        self.attempt(now, transit, agenda);
    }

    fn expect_end(&mut self, agenda: &mut Agenda) {
        self.expected += 1;
        let Some(on_line) = &self.on_line else { return };
        if on_line.bps == 0 {
            return;
        }
        let bps = u128::from(on_line.bps);
        let takes = if on_line.whole {
            pace(on_line.bps).time_for(on_line.packet.bytes.into())
        } else {
            Span::from_nanos(((on_line.left + bps / 2) / bps) as u64)
        };
        agenda.push((on_line.since + takes, What::Ends { expected: self.expected }));
    }

    /// The line takes a packet, if it may.
    fn attempt(&mut self, now: Instant, transit: &mut InTransit, agenda: &mut Agenda) {
        if self.on_line.is_some() || self.held_until.is_some() || !self.trace.is_empty() {
            return;
        }
        if self.waiting == 0 {
            if std::mem::take(&mut self.has_ended) {
                self.take(now, transit, agenda);
            }
            return;
        }
        if let Some(rule) = self.line.aggregation.clone() {
            let waiting_bytes = self.discipline.backlog().bytes;
            let enough = self.waiting >= u64::from(rule.packets)
                || rule.bytes.is_some_and(|bytes| waiting_bytes >= bytes.bytes());
            if let Burst::Rests = self.burst {
                let until = now + rule.max_wait;
                self.burst = Burst::Waits { until };
                agenda.push((until, What::Burst));
            }
            if let Burst::Waits { until } = self.burst
                && (enough || until <= now)
            {
                let bytes = rule.bytes.map_or(u64::MAX, |bytes| bytes.bytes());
                self.burst = Burst::Sends { from: now + rule.gap, packets: rule.packets, bytes };
                agenda.push((now + rule.gap, What::Burst));
            }
            match self.burst {
                Burst::Sends { from, .. } if from <= now => {}
                _ => return,
            }
        }
        let bps = self.bps_at(now);
        if bps == 0 {
            return;
        }
        let Some((packet, lost)) = self.take(now, transit, agenda) else { return };
        if let Burst::Sends { from, packets, bytes } = self.burst {
            let (packets, bytes) = (packets - 1, bytes.saturating_sub(packet.bytes.into()));
            let over = packets == 0 || bytes == 0;
            self.burst = if over { Burst::Rests } else { Burst::Sends { from, packets, bytes } };
        }
        let left = u128::from(packet.bytes) * 8_000_000_000;
        self.on_line = Some(OnLine { packet, lost, left, whole: true, since: now, bps });
        self.expect_end(agenda);
    }

    fn takes_opportunity(&mut self, now: Instant, transit: &mut InTransit, agenda: &mut Agenda) {
        let rule = self.line.opportunities.clone().unwrap();
        if self.is_down(now) {
            return;
        }
        let mut bytes = u128::from(rule.bytes.bytes());
        while bytes > 0 {
            if self.on_line.is_none() {
                if self.waiting == 0 || self.held_until.is_some_and(|until| now < until) {
                    break;
                }
                self.held_until = None;
                let Some((packet, lost)) = self.take(now, transit, agenda) else { break };
                let left = u128::from(packet.bytes) + u128::from(rule.overhead.bytes());
                self.on_line = Some(OnLine { packet, lost, left, whole: true, since: now, bps: 0 });
            }
            let on_line = self.on_line.as_mut().unwrap();
            let sent = bytes.min(on_line.left);
            (bytes, on_line.left) = (bytes - sent, on_line.left - sent);
            if on_line.left == 0 {
                self.leaves(now, agenda);
            }
        }
        if self.on_line.is_none() && self.waiting == 0 && std::mem::take(&mut self.has_ended) {
            self.take(now, transit, agenda);
        }
    }

    /// Asks the queue for a packet; whether the line will lose it.
    fn take(&mut self, now: Instant, transit: &mut InTransit, agenda: &mut Agenda) -> Option<(Packet, bool)> {
        self.has_ended = false;
        let observer = transit.at_link(self.number, self.counters.arrivals, false);
        let Some(packet) = self.call(now, observer, |discipline, cx| discipline.dequeue(cx)) else {
            self.burst = Burst::Rests;
            let ready = self.discipline.next_ready().filter(|_| self.waiting > 0);
            self.held_until = ready.map(|at| at.max(now + Span::from_nanos(1)));
            agenda.extend(self.held_until.map(|at| (at, What::Ready)));
            return None;
        };
        self.counters.departures += 1;
        self.counters.departed_bytes += u64::from(packet.bytes);
        let lost = self.loses();
        if lost {
            let mut observer = transit.at_link(self.number, self.counters.arrivals, false);
            self.counters.drops += 1;
            self.counters.drops_by_reason[Reason::LineLoss as usize] += 1;
            self.counters.dropped_bytes += u64::from(packet.bytes);
            observer.dropped(&packet, Reason::LineLoss, now);
        }
        Some((packet, lost))
    }

    fn loses(&mut self) -> bool {
        let Some(config) = &self.propagation.loss else { return false };
        let (Some(p), Some(r)) = (config.p, config.r) else {
            return self.loss.uniform() < config.probability.unwrap();
        };
        let lost =
            self.loss.uniform() < if self.in_bad_state { config.loss_in_bad } else { config.loss_in_good };
        let changes = self.loss.uniform() < if self.in_bad_state { r } else { p };
        self.in_bad_state = self.in_bad_state != changes;
        lost
    }

    /// The transmission on the line has ended.
    fn leaves(&mut self, now: Instant, agenda: &mut Agenda) {
        let Some(OnLine { packet, lost, .. }) = self.on_line.take() else { panic!("something was sent") };
        self.has_ended = true;
        if lost {
            return;
        }
        let steps = self.propagation.delay_steps.iter();
        let steps: Vec<(u64, u64)> =
            steps.map(|step| (step.at.unwrap().nanos(), step.delay.unwrap().nanos())).collect();
        let delay = last_step(&steps, self.propagation.delay_repeat.map(Span::nanos), now);
        let mut arrival = now + delay.map_or(self.delay, Span::from_nanos);
        match &self.propagation.reordering {
            Some(config) if self.reordering.uniform() < config.probability.unwrap() => {
                let jitter = self.reordering.below(config.jitter.nanos() + 1);
                arrival = arrival + config.delay + Span::from_nanos(jitter);
            }
            _ => {
                arrival = arrival.max(self.last_arrival);
                self.last_arrival = arrival;
            }
        }
        agenda.push((arrival, What::Arrives(packet)));
    }

    /// Brings the integral of the queue up to date.
    pub(super) fn count_until(&mut self, now: Instant) {
        let since = now.since(self.changed_at).nanos();
        self.counters.packet_nanos += u128::from(self.waiting) * u128::from(since);
        self.changed_at = now;
    }

    fn call<R>(
        &mut self,
        now: Instant,
        observer: LinkObserver<'_>,
        act: impl FnOnce(&mut dyn QueueDiscipline, &mut Context<'_>) -> R,
    ) -> R {
        self.count_until(now);
        let mut tally = Tally { counters: &mut self.counters, observer };
        let mut cx = Context { now, rng: &mut self.rng, observer: &mut tally };
        let result = act(self.discipline.as_mut(), &mut cx);
        self.waiting = self.discipline.backlog().packets;
        result
    }
}

/// The value of the step that came last before or at `now`, of steps that come again after every period.
fn last_step(steps: &[(u64, u64)], repeat: Option<u64>, now: Instant) -> Option<u64> {
    let now = now.nanos();
    let begun = steps.iter().filter(|&&(at, _)| at <= now);
    let last = |&(at, value): &(u64, u64)| {
        let rounds = repeat.map_or(0, |period| (now - at) / period);
        (at + rounds * repeat.unwrap_or(0), value)
    };
    begun.map(last).max_by_key(|&(at, _)| at).map(|(_, value)| value)
}

fn pace(bps: u64) -> Pace {
    aqm_net::Rate::from_bps(bps).pace()
}

fn exponential(mean: Span, rng: &mut Rng) -> Span {
    let drawn = Exponential { mean: mean.nanos() as f64 }.sample(rng);
    Span::from_nanos(((drawn + 0.5) as u64).max(1))
}

struct Tally<'a> {
    counters: &'a mut Counters,
    observer: LinkObserver<'a>,
}

impl Observer for Tally<'_> {
    fn dropped(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.counters.drops += 1;
        self.counters.drops_by_reason[why as usize] += 1;
        self.counters.dropped_bytes += u64::from(packet.bytes);
        self.observer.dropped(packet, why, now);
    }
    fn marked(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.counters.marks += 1;
        self.observer.marked(packet, why, now);
    }
    fn acknowledgement(&self, packet: &Packet) -> Option<Acknowledgement> {
        self.observer.acknowledgement(packet)
    }
}
