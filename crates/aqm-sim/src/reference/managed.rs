//! A managed link of the reference engine. The link has a queue and a transmitter, and the transmitter uses a separate
//! event for each action.
//!
//! The link parses its configuration from the scenario a second time, independently of the fast engine. To determine
//! the rate, the delay and the outages at a given time, the link searches all entries of the scenario.

use aqm_link::channel::Config as ChannelConfig;
use aqm_link::transmitter::{Config as TransmitterConfig, outages::RandomOutages};
use aqm_net::{Instant, Pace, Packet, Parameter as _, Rng, Span};
use aqm_queue::{Acknowledgement, Context, Counters, Evidence, Observer, QueueDiscipline, Reason};
use aqm_traffic::distributions::{Distribution, Exponential};
use serde_json::Value;

use crate::network::transit::{InTransit, LinkObserver};
use crate::scenario::links::{LinkSpec, Queue};
use crate::scenario::plan::Plan;

/// An event of a transmitter or its queue.
#[derive(Clone, Copy)]
pub(super) enum TransmitterEvent {
    /// The end of a transmission. The event is ignored if the rate has changed since the time of the end was predicted.
    End { prediction: u64 },
    /// A rate step.
    Step(usize),
    /// The start or the end of an outage.
    Outage,
    /// The start or the end of a random outage.
    RandomOutage,
    /// A delivery opportunity. The first number is the index of the opportunity within the trace.
    Opportunity(usize, u64),
    /// The end of the frame of an aggregate, at which its packets have been sent.
    Sent,
    /// The end of a transmission whose duration the queue determines.
    Over,
    /// The transmitter becomes free.
    Free,
    /// The start of a burst, or the end of the time for which the transmitter waits for a burst.
    Burst,
    /// A queue that holds packets back may be ready to release a packet.
    Ready,
    /// The arrival of a packet at the far end.
    Arrival(Packet),
}

impl TransmitterEvent {
    /// Returns the rank of the event among the events at the same instant.
    pub(super) fn order(self) -> u32 {
        match self {
            Self::End { .. } | Self::Sent | Self::Over => 0,
            Self::Step(_) | Self::Outage | Self::RandomOutage => 1,
            Self::Opportunity(..) => 2,
            Self::Free | Self::Burst | Self::Ready | Self::Arrival(_) => 3,
        }
    }
}

/// A list of future events with their times.
pub(super) type Agenda = Vec<(Instant, TransmitterEvent)>;

/// The packet in transmission.
struct Transmission {
    packet: Packet,
    lost: bool,
    /// Amount that remains to be sent, in units of 1e-9 bits, or in bytes if the link has delivery opportunities.
    left: u128,
    /// Whether no part of the packet has been sent yet.
    unsent: bool,
    /// Time of the last update.
    since: Instant,
    bps: u64,
}

#[derive(Clone, Copy)]
enum Burst {
    Resting,
    Waiting { until: Instant },
    Sending { from: Instant, packets: u32, bytes: u64 },
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
    transmitter: TransmitterConfig,
    /// The times of the delivery opportunities in a trace, in milliseconds.
    trace: Vec<u64>,
    random_outages: Option<(RandomOutages, Rng, bool)>,
    transmission: Option<Transmission>,
    /// The packets of the aggregate in transmission that have not been sent yet; `None` if no aggregate is in
    /// transmission.
    pub(super) aggregate: Option<Vec<(Packet, bool)>>,
    /// Number of times that the end of a transmission has been predicted so far.
    predictions: u64,
    /// Whether a transmission has ended since the last call to `dequeue`. After each transmission, the transmitter
    /// calls `dequeue` once, even if no packet is queued.
    has_ended: bool,
    /// Time until which the queue holds packets back, if any.
    held_until: Option<Instant>,
    burst: Burst,
    delay: Span,
    channel: ChannelConfig,
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
            let of_channel = ["delay_steps", "delay_repeat", "loss", "reordering"];
            (of_channel.contains(&key), !["rate", "delay", "queue", "from", "to", "reverse"].contains(&key))
        };
        let mut channel = keys.clone();
        channel.retain(|key, _| belongs(key).0);
        keys.retain(|key, _| belongs(key).1 && !belongs(key).0);
        let transmitter = TransmitterConfig::read(table).unwrap();
        let file = |name: &Option<String>| name.as_ref().map(|name| scenario.files[name].clone());
        let mut steps: Vec<(u64, u64)> = transmitter
            .rate_steps
            .iter()
            .map(|step| (step.at.unwrap().nanos(), step.rate.unwrap().or_zero().bps()))
            .collect();
        for row in file(&transmitter.rate_file).unwrap_or_default().lines() {
            let (time, rate) = row.split_once(',').unwrap();
            let nanos = Span::from_seconds(time.parse().unwrap()).nanos();
            steps.push((nanos, rate.parse().unwrap()));
        }
        let trace = file(&transmitter.opportunities.as_ref().and_then(|one| one.file.clone()));
        let stream = |name: &str| scenario.chance().named(&format!("{name}/{}", spec.name), 0);
        Self {
            number: number as u32,
            discipline: queue.for_run(&spec.name, &scenario.chance()),
            rng: stream("queue"),
            counters: Counters::default(),
            waiting: 0,
            changed_at: Instant::START,
            hosts: topology.hosts_for_queue(queue),
            bps: spec.rate.bps(),
            steps,
            trace: trace.unwrap_or_default().lines().map(|line| line.parse().unwrap()).collect(),
            random_outages: transmitter
                .random_outages
                .clone()
                .map(|config| (config, stream("outages"), false)),
            transmitter,
            transmission: None,
            aggregate: None,
            predictions: 0,
            has_ended: false,
            held_until: None,
            burst: Burst::Resting,
            delay: spec.delay,
            channel: ChannelConfig::read(Value::Object(channel)).unwrap(),
            loss: stream("line-loss"),
            in_bad_state: false,
            reordering: stream("reordering"),
            last_arrival: Instant::START,
        }
    }

    /// Schedules the events that do not depend on arriving packets.
    pub(super) fn begin(&mut self, agenda: &mut Agenda) {
        let steps = self.steps.iter().enumerate();
        agenda.extend(
            steps.map(|(number, &(at, _))| (Instant::from_nanos(at), TransmitterEvent::Step(number))),
        );
        for outage in &self.transmitter.outages {
            let moments = [outage.from, outage.until].into_iter().flatten();
            agenda.extend(moments.map(|at| (Instant::START + at, TransmitterEvent::Outage)));
        }
        if let Some((config, rng, _)) = &mut self.random_outages {
            agenda.push((Instant::START + exponential(config.mean_up, rng), TransmitterEvent::RandomOutage));
        }
        if let Some(&first) = self.trace.first() {
            agenda.push((Instant::START + Span::from_millis(first), TransmitterEvent::Opportunity(0, 0)));
        }
    }

    /// Handles the arrival of a packet.
    pub(super) fn put(&mut self, packet: Packet, now: Instant, transit: &mut InTransit, agenda: &mut Agenda) {
        let observer = transit.at_link(self.number, self.counters.arrivals, false);
        self.counters.arrivals += 1;
        self.counters.arrived_bytes += u64::from(packet.bytes);
        self.call(now, observer, |discipline, cx| discipline.enqueue(packet, cx));
        self.held_until = None;
        self.attempt(now, transit, agenda);
    }

    /// Handles an event.
    pub(super) fn handle(
        &mut self,
        event: TransmitterEvent,
        now: Instant,
        transit: &mut InTransit,
        agenda: &mut Agenda,
    ) {
        match event {
            TransmitterEvent::End { prediction } if prediction != self.predictions => {}
            TransmitterEvent::End { .. } => {
                self.end_transmission(now, agenda);
                agenda.push((now, TransmitterEvent::Free));
            }
            TransmitterEvent::Sent => self.deliver_aggregate(now, agenda),
            TransmitterEvent::Over => {
                self.aggregate = None;
                self.has_ended = true;
                agenda.push((now, TransmitterEvent::Free));
            }
            TransmitterEvent::Step(number) => {
                if let Some(repeat) = self.transmitter.rate_repeat {
                    agenda.push((now + repeat, TransmitterEvent::Step(number)));
                }
                self.update_rate(now, transit, agenda);
            }
            TransmitterEvent::Outage => self.update_rate(now, transit, agenda),
            TransmitterEvent::RandomOutage => {
                let (config, rng, down) = self.random_outages.as_mut().unwrap();
                *down = !*down;
                let mean = if *down { config.mean_down } else { config.mean_up };
                agenda.push((now + exponential(mean, rng), TransmitterEvent::RandomOutage));
                self.update_rate(now, transit, agenda);
            }
            TransmitterEvent::Opportunity(number, round) => {
                self.use_opportunity(now, transit, agenda);
                let (number, round) =
                    if number + 1 == self.trace.len() { (0, round + 1) } else { (number + 1, round) };
                let millis = round * self.trace[self.trace.len() - 1] + self.trace[number];
                agenda.push((
                    Instant::START + Span::from_millis(millis),
                    TransmitterEvent::Opportunity(number, round),
                ));
            }
            TransmitterEvent::Free | TransmitterEvent::Burst => self.attempt(now, transit, agenda),
            TransmitterEvent::Ready if self.held_until == Some(now) => {
                self.held_until = None;
                self.attempt(now, transit, agenda);
            }
            TransmitterEvent::Ready | TransmitterEvent::Arrival(_) => {}
        }
    }

    fn is_down(&self, now: Instant) -> bool {
        let given = self.transmitter.outages.iter().any(|outage| {
            let from = Instant::START + outage.from.unwrap();
            from <= now && outage.until.is_none_or(|until| now < Instant::START + until)
        });
        given || self.random_outages.as_ref().is_some_and(|&(_, _, down)| down)
    }

    fn bps_at(&self, now: Instant) -> u64 {
        if self.is_down(now) {
            return 0;
        }
        let repeat = self.transmitter.rate_repeat.map(Span::nanos);
        last_step(&self.steps, repeat, now).unwrap_or(self.bps)
    }

    /// Updates the transmission in progress if the rate has changed.
    fn update_rate(&mut self, now: Instant, transit: &mut InTransit, agenda: &mut Agenda) {
        let bps = self.bps_at(now);
        if self.trace.is_empty()
            && let Some(transmission) = &mut self.transmission
        {
            let sent = u128::from(transmission.bps) * u128::from(now.since(transmission.since).nanos());
            transmission.unsent &= sent == 0;
            transmission.left -= sent;
            (transmission.since, transmission.bps) = (now, bps);
            self.predict_end(agenda);
        }
        self.attempt(now, transit, agenda);
    }

    fn predict_end(&mut self, agenda: &mut Agenda) {
        self.predictions += 1;
        let Some(transmission) = &self.transmission else { return };
        if transmission.bps == 0 {
            return;
        }
        let bps = u128::from(transmission.bps);
        let takes = if transmission.unsent {
            pace(transmission.bps).time_for(transmission.packet.bytes.into())
        } else {
            Span::from_nanos(((transmission.left + bps / 2) / bps) as u64)
        };
        agenda.push((transmission.since + takes, TransmitterEvent::End { prediction: self.predictions }));
    }

    /// Sends the next packet, if the transmitter is allowed to send.
    fn attempt(&mut self, now: Instant, transit: &mut InTransit, agenda: &mut Agenda) {
        let is_busy = self.transmission.is_some() || self.aggregate.is_some();
        if is_busy || self.held_until.is_some() || !self.trace.is_empty() {
            return;
        }
        if self.waiting == 0 {
            if std::mem::take(&mut self.has_ended) {
                self.take(now, transit, agenda);
            }
            return;
        }
        if let Some(rule) = self.transmitter.aggregation.clone() {
            let waiting_bytes = self.discipline.backlog().bytes;
            let enough = self.waiting >= u64::from(rule.packets)
                || rule.bytes.is_some_and(|bytes| waiting_bytes >= bytes.bytes());
            if let Burst::Resting = self.burst {
                let until = now + rule.max_wait;
                self.burst = Burst::Waiting { until };
                agenda.push((until, TransmitterEvent::Burst));
            }
            if let Burst::Waiting { until } = self.burst
                && (enough || until <= now)
            {
                let bytes = rule.bytes.map_or(u64::MAX, |bytes| bytes.bytes());
                self.burst = Burst::Sending { from: now + rule.gap, packets: rule.packets, bytes };
                agenda.push((now + rule.gap, TransmitterEvent::Burst));
            }
            match self.burst {
                Burst::Sending { from, .. } if from <= now => {}
                _ => return,
            }
        }
        let bps = self.bps_at(now);
        if bps == 0 {
            return;
        }
        let Some((packet, lost)) = self.take(now, transit, agenda) else { return };
        if self.discipline.transmission().is_some() {
            return self.begin_aggregate((packet, lost), now, transit, agenda);
        }
        if let Burst::Sending { from, packets, bytes } = self.burst {
            let (packets, bytes) = (packets - 1, bytes.saturating_sub(packet.bytes.into()));
            let over = packets == 0 || bytes == 0;
            self.burst = if over { Burst::Resting } else { Burst::Sending { from, packets, bytes } };
        }
        let left = u128::from(packet.bytes) * 8_000_000_000;
        self.transmission = Some(Transmission { packet, lost, left, unsent: true, since: now, bps });
        self.predict_end(agenda);
    }

    fn use_opportunity(&mut self, now: Instant, transit: &mut InTransit, agenda: &mut Agenda) {
        let rule = self.transmitter.opportunities.clone().unwrap();
        if self.is_down(now) {
            return;
        }
        let mut bytes = u128::from(rule.bytes.bytes());
        while bytes > 0 {
            if self.transmission.is_none() {
                if self.waiting == 0 || self.held_until.is_some_and(|until| now < until) {
                    break;
                }
                self.held_until = None;
                let Some((packet, lost)) = self.take(now, transit, agenda) else { break };
                let left = u128::from(packet.bytes) + u128::from(rule.overhead.bytes());
                self.transmission =
                    Some(Transmission { packet, lost, left, unsent: true, since: now, bps: 0 });
            }
            let transmission = self.transmission.as_mut().unwrap();
            let sent = bytes.min(transmission.left);
            (bytes, transmission.left) = (bytes - sent, transmission.left - sent);
            if transmission.left == 0 {
                self.end_transmission(now, agenda);
            }
        }
        if self.transmission.is_none() && self.waiting == 0 && std::mem::take(&mut self.has_ended) {
            self.take(now, transit, agenda);
        }
    }

    /// Takes a packet from the queue, and also returns whether the channel will lose this packet.
    pub(super) fn take(
        &mut self,
        now: Instant,
        transit: &mut InTransit,
        agenda: &mut Agenda,
    ) -> Option<(Packet, bool)> {
        self.has_ended = false;
        let observer = transit.at_link(self.number, self.counters.arrivals, false);
        let Some(packet) = self.call(now, observer, |discipline, cx| discipline.dequeue(cx)) else {
            self.burst = Burst::Resting;
            let ready = self.discipline.next_ready().filter(|_| self.waiting > 0);
            self.held_until = ready.map(|at| at.max(now + Span::from_nanos(1)));
            agenda.extend(self.held_until.map(|at| (at, TransmitterEvent::Ready)));
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
        let Some(config) = &self.channel.loss else { return false };
        let (Some(p), Some(r)) = (config.p, config.r) else {
            return self.loss.uniform() < config.probability.unwrap();
        };
        let lost =
            self.loss.uniform() < if self.in_bad_state { config.loss_in_bad } else { config.loss_in_good };
        let changes = self.loss.uniform() < if self.in_bad_state { r } else { p };
        self.in_bad_state = self.in_bad_state != changes;
        lost
    }

    /// Handles the end of a transmission.
    fn end_transmission(&mut self, now: Instant, agenda: &mut Agenda) {
        let Some(Transmission { packet, lost, .. }) = self.transmission.take() else {
            panic!("no packet is in transmission")
        };
        self.has_ended = true;
        if !lost {
            self.propagate(packet, now, agenda);
        }
    }

    /// Sends a packet over the channel.
    pub(super) fn propagate(&mut self, packet: Packet, now: Instant, agenda: &mut Agenda) {
        let steps = self.channel.delay_steps.iter();
        let steps: Vec<(u64, u64)> =
            steps.map(|step| (step.at.unwrap().nanos(), step.delay.unwrap().nanos())).collect();
        let delay = last_step(&steps, self.channel.delay_repeat.map(Span::nanos), now);
        let mut arrival = now + delay.map_or(self.delay, Span::from_nanos);
        match &self.channel.reordering {
            Some(config) if self.reordering.uniform() < config.probability.unwrap() => {
                let jitter = self.reordering.below(config.jitter.nanos() + 1);
                arrival = arrival + config.delay + Span::from_nanos(jitter);
            }
            _ => {
                arrival = arrival.max(self.last_arrival);
                self.last_arrival = arrival;
            }
        }
        agenda.push((arrival, TransmitterEvent::Arrival(packet)));
    }

    /// Updates the integral of the queue length.
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
        let mut counting = CountingObserver { counters: &mut self.counters, observer };
        let mut cx = Context { now, rng: &mut self.rng, observer: &mut counting };
        let result = act(self.discipline.as_mut(), &mut cx);
        self.waiting = self.discipline.backlog().packets;
        result
    }
}

/// Returns the value of the last step at or before `now`. The steps may be repeated periodically.
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

struct CountingObserver<'a> {
    counters: &'a mut Counters,
    observer: LinkObserver<'a>,
}

impl Observer for CountingObserver<'_> {
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
    fn evidence(&mut self, evidence: &Evidence) {
        self.observer.evidence(evidence);
    }
    fn acknowledgement(&self, packet: &Packet) -> Option<Acknowledgement> {
        self.observer.acknowledgement(packet)
    }
}
