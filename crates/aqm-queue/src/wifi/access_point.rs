//! The access point: its queues, and the scheduler that selects the station of the next transmission.

use std::collections::VecDeque;

use aqm_net::{Backlog, Instant, Packet, Rng};
use serde_json::{Map, Value, json};

use super::aggregate::{Contents, Timing};
use super::stations::{Ledger, Station};
use super::{Config, Scheduler};
use crate::fair::ring::Ring;
use crate::{
    Acknowledgement, ClassCounters, Context, Evidence, Gauge, Label, Observer, QueueDiscipline, Reason,
    Report, Transmission,
};

/// An access point.
#[derive(Clone)]
pub(super) struct AccessPoint {
    scheduler: Scheduler,
    quantum: i64,
    timing: Timing,
    /// The queue that all stations share, and the number of packets that may be in the driver.
    shared: Option<(Box<dyn QueueDiscipline>, u64)>,
    stations: Vec<Station>,
    default: u32,
    station_of_label: Vec<u32>,
    new: Ring,
    old: Ring,
    /// The packets of the current transmission that have not been passed to the link yet, and their station.
    aggregate: VecDeque<Packet>,
    station: usize,
    transmission: Transmission,
    in_driver: u64,
    backlog: Backlog,
    last_size: u64,
}

impl AccessPoint {
    pub fn new(
        config: &Config,
        timing: Timing,
        shared: Option<Box<dyn QueueDiscipline>>,
        stations: Vec<Station>,
        default: usize,
    ) -> Self {
        Self {
            scheduler: config.scheduler,
            quantum: config.quantum.nanos() as i64,
            timing,
            shared: shared.map(|queue| (queue, config.driver_packets)),
            stations,
            default: default as u32,
            station_of_label: Vec::new(),
            new: Ring::default(),
            old: Ring::default(),
            aggregate: VecDeque::new(),
            station: 0,
            transmission: Transmission::default(),
            in_driver: 0,
            backlog: Backlog::default(),
            last_size: 0,
        }
    }

    fn station_of(&self, packet: &Packet) -> usize {
        station_of(&self.station_of_label, self.default, packet)
    }

    /// Adds a station that has packets to the lists of the scheduler, unless the station is already in a list.
    fn activate(&mut self, station: usize) {
        let number = station as u32;
        if !self.stations[station].has_packets() || self.new.contains(number) || self.old.contains(number) {
            return;
        }
        if self.scheduler == Scheduler::Airtime {
            self.new.push_back(number, ());
        } else {
            self.old.push_back(number, ());
        }
    }

    /// Moves packets from the shared queue to the driver until the driver is full.
    fn fill_driver(&mut self, cx: &mut Context<'_>) {
        let Some((_, limit)) = self.shared else { return };
        while self.in_driver < limit {
            let Some(packet) = self.take_shared(cx) else { return };
            self.in_driver += 1;
            let station = self.station_of(&packet);
            self.stations[station].ready.push_back(packet);
            self.activate(station);
        }
    }

    /// Removes the next packet of the shared queue.
    fn take_shared(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        let (queue, _) = self.shared.as_mut()?;
        let mut observer = ByStation {
            ledgers: Ledgers::All(&mut self.stations),
            station_of_label: &self.station_of_label,
            default: self.default,
            backlog: &mut self.backlog,
            outer: cx.observer,
        };
        queue.dequeue(&mut Context { now: cx.now, rng: cx.rng, observer: &mut observer })
    }

    /// Builds the next aggregate. Returns false if no packet is queued.
    fn next_aggregate(&mut self, cx: &mut Context<'_>) -> bool {
        self.skip_turns();
        loop {
            let (is_new, Some(number)) = (self.new.len() > 0, self.new.front().or_else(|| self.old.front()))
            else {
                return false;
            };
            let station = number as usize;
            if self.scheduler == Scheduler::Airtime && self.stations[station].deficit <= 0 {
                self.stations[station].deficit += self.quantum;
                self.move_to_old(number);
            } else if self.build(station, cx) {
                if self.scheduler != Scheduler::Airtime {
                    self.move_to_old(number);
                }
                return true;
            } else if is_new && self.old.len() > 0 {
                self.move_to_old(number);
            } else {
                self.new.remove(number);
                self.old.remove(number);
            }
        }
    }

    fn move_to_old(&mut self, number: u32) {
        self.new.remove(number);
        self.old.remove(number);
        self.old.push_back(number, ());
    }

    /// Skips the turns in which all stations only get a quantum, because none of the deficits becomes positive. The
    /// result is the same as without this function, but a transmission that lasts thousands of quanta does not take
    /// thousands of steps.
    fn skip_turns(&mut self) {
        if self.scheduler != Scheduler::Airtime {
            return;
        }
        let is_listed = |number: usize| self.new.contains(number as u32) || self.old.contains(number as u32);
        let listed: Vec<usize> = (0..self.stations.len()).filter(|&number| is_listed(number)).collect();
        let turns = listed.iter().map(|&number| -self.stations[number].deficit / self.quantum).min();
        if let Some(turns) = turns.filter(|&turns| turns > 0) {
            // In the first of these turns, each new station moves to the end of the old list.
            while let Some(number) = self.new.front() {
                self.move_to_old(number);
            }
            listed.iter().for_each(|&number| self.stations[number].deficit += turns * self.quantum);
        }
    }

    /// Builds an aggregate for `station`. Returns false if no packet is queued for the station.
    fn build(&mut self, station: usize, cx: &mut Context<'_>) -> bool {
        let pace = self.stations[station].pace;
        let mut contents = Contents::default();
        while !self.timing.is_full(contents) {
            let Some(packet) = self.take(station, cx) else { break };
            match self.timing.with_packet(contents, packet.bytes, pace) {
                Some(longer) => {
                    contents = longer;
                    self.aggregate.push_back(packet);
                }
                None => {
                    self.stations[station].ready.push_front(packet);
                    break;
                }
            }
        }
        if self.aggregate.is_empty() {
            return false;
        }
        let (transmission, cost) = self.timing.transmission(contents, pace);
        let one = &mut self.stations[station];
        one.deficit -= cost.nanos() as i64;
        one.airtime = one.airtime + transmission.busy;
        one.aggregates += 1;
        self.last_size = self.aggregate.len() as u64;
        (self.station, self.transmission) = (station, transmission);
        if self.shared.is_some() {
            self.in_driver -= self.last_size;
            self.fill_driver(cx);
        }
        true
    }

    /// Removes the next packet of `station`.
    fn take(&mut self, station: usize, cx: &mut Context<'_>) -> Option<Packet> {
        let Station { ready, queue, ledger, .. } = &mut self.stations[station];
        ready.pop_front().or_else(|| {
            let mut observer = ByStation {
                ledgers: Ledgers::One(ledger),
                station_of_label: &self.station_of_label,
                default: self.default,
                backlog: &mut self.backlog,
                outer: cx.observer,
            };
            queue.as_mut()?.dequeue(&mut Context { now: cx.now, rng: cx.rng, observer: &mut observer })
        })
    }
}

impl QueueDiscipline for AccessPoint {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        let station = self.station_of(&packet);
        self.stations[station].ledger.arrive(cx.now);
        self.backlog.packets += 1;
        self.backlog.bytes += u64::from(packet.bytes);
        let (queue, ledgers) = match &mut self.shared {
            Some((queue, _)) => (queue, Ledgers::All(&mut self.stations)),
            None => {
                let Station { queue, ledger, .. } = &mut self.stations[station];
                let Some(queue) = queue else {
                    unreachable!("a station has a queue unless all stations share one")
                };
                (queue, Ledgers::One(ledger))
            }
        };
        let mut observer = ByStation {
            ledgers,
            station_of_label: &self.station_of_label,
            default: self.default,
            backlog: &mut self.backlog,
            outer: cx.observer,
        };
        queue.enqueue(packet, &mut Context { now: cx.now, rng: cx.rng, observer: &mut observer });
        self.fill_driver(cx);
        self.activate(station);
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        if self.aggregate.is_empty() && !self.next_aggregate(cx) {
            return None;
        }
        let packet = self.aggregate.pop_front()?;
        self.transmission.continues = !self.aggregate.is_empty();
        self.stations[self.station].ledger.depart(packet.bytes, cx.now);
        self.backlog.packets -= 1;
        self.backlog.bytes -= u64::from(packet.bytes);
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn transmission(&self) -> Option<Transmission> {
        Some(self.transmission)
    }

    fn on_start(&mut self, chance: &mut Rng) {
        let own = self.stations.iter_mut().filter_map(|station| station.queue.as_mut());
        own.chain(self.shared.as_mut().map(|(queue, _)| queue)).for_each(|queue| queue.on_start(chance));
    }

    fn on_label(&mut self, number: u16, label: &Label) {
        let index = usize::from(number);
        if self.station_of_label.len() <= index {
            self.station_of_label.resize(index + 1, self.default);
        }
        let matching = self.stations.iter().position(|station| station.filters.match_label(label));
        let station = matching.unwrap_or(self.default as usize);
        self.station_of_label[index] = station as u32;
        let own = self.stations[station].queue.as_mut();
        own.into_iter()
            .chain(self.shared.as_mut().map(|(queue, _)| queue))
            .for_each(|queue| queue.on_label(number, label));
    }
}

impl Report for AccessPoint {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        show(Gauge::new("aggregate", self.last_size as f64, "packets"));
    }

    fn tc_statistics(&self, _now: Instant) -> Value {
        let stations = self.stations.iter().map(|station| {
            let statistics =
                json!({"airtime_us": station.airtime.nanos() / 1000, "aggregates": station.aggregates});
            (station.name.clone(), statistics)
        });
        json!({"stations": Value::Object(stations.collect::<Map<_, _>>())})
    }

    fn inner(&self, show: &mut dyn FnMut(&str, &dyn QueueDiscipline)) {
        if let Some((queue, _)) = &self.shared {
            show("queue", queue.as_ref());
        }
        for station in &self.stations {
            if let Some(queue) = &station.queue {
                show(&station.queue_path, queue.as_ref());
            }
        }
    }

    fn classes(&self, now: Instant, show: &mut dyn FnMut(&str, ClassCounters)) {
        self.stations.iter().for_each(|station| show(&station.name, station.ledger.counters(now)));
    }
}

fn station_of(station_of_label: &[u32], default: u32, packet: &Packet) -> usize {
    station_of_label.get(usize::from(packet.label)).copied().unwrap_or(default) as usize
}

/// The ledgers that an observer may change.
enum Ledgers<'a> {
    All(&'a mut [Station]),
    One(&'a mut Ledger),
}

/// An observer that counts the drops of each station, and passes all reports on.
struct ByStation<'a> {
    ledgers: Ledgers<'a>,
    station_of_label: &'a [u32],
    default: u32,
    backlog: &'a mut Backlog,
    outer: &'a mut dyn Observer,
}

impl Observer for ByStation<'_> {
    fn dropped(&mut self, packet: &Packet, why: Reason, now: Instant) {
        match &mut self.ledgers {
            Ledgers::All(stations) => {
                stations[station_of(self.station_of_label, self.default, packet)].ledger.drop(now);
            }
            Ledgers::One(ledger) => ledger.drop(now),
        }
        self.backlog.packets -= 1;
        self.backlog.bytes -= u64::from(packet.bytes);
        self.outer.dropped(packet, why, now);
    }

    fn marked(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.outer.marked(packet, why, now);
    }

    fn evidence(&mut self, evidence: &Evidence) {
        self.outer.evidence(evidence);
    }

    fn acknowledgement(&self, packet: &Packet) -> Option<Acknowledgement> {
        self.outer.acknowledgement(packet)
    }
}
