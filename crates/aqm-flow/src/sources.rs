//! Who comes when: Poisson arrivals of sessions, and what follows in each of them.
//!
//! Ours: the times and first sizes of sessions come from streams of their class, what follows from a stream
//! of each session's own, so that with any discipline the same flows come, the first ones at the same
//! moments, and other sizes leave all moments of sessions as they are.

use std::collections::BinaryHeap;

use aqm_net::{Rng, Streams};
use aqm_traffic::distributions::{Distribution as _, Geometric, Sizes, Times};

use crate::scenario::{Class, Scenario};
use crate::server::Job;

/// No session: its flow is the only one.
const ALONE: u32 = u32::MAX;

/// A flow that comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) class: u32,
    pub(crate) bytes: u64,
    /// The session it belongs to, for [`Sources::done`].
    pub(crate) session: u32,
}

/// All that comes.
pub(crate) struct Sources {
    classes: Vec<Source>,
    sessions: Vec<Session>,
    /// Places in `sessions` that may be used again.
    free: Vec<u32>,
    /// Sessions that think, by the moment their next flow comes.
    thinking: BinaryHeap<Job>,
    /// How often a session has thought.
    thoughts: u64,
    streams: Streams,
    next: f64,
    /// The class whose session comes next, unless a thought ends before.
    first: usize,
}

/// The sessions of a class.
struct Source {
    stream: String,
    gaps: Rng,
    sizes: Rng,
    numbers: Rng,
    gap: Times,
    think: Times,
    flow_sizes: Sizes,
    /// How many flows a session has.
    flows: Geometric,
    same_size: f64,
    /// When the next session comes.
    next: f64,
    begun: u64,
}

/// A session of more than one flow.
struct Session {
    rng: Rng,
    class: u32,
    /// Flows still to come.
    left: u64,
    /// The size of the last one.
    bytes: u64,
}

impl Source {
    fn new(class: &Class, streams: &Streams) -> Self {
        let stream = |purpose: &str| streams.named(&format!("{}/{purpose}", class.name), 0);
        let gap = class.gaps.clone();
        let mut gaps = stream("sessions");
        Self {
            stream: format!("{}/session", class.name),
            next: gap.sample(&mut gaps),
            gaps,
            sizes: stream("sizes"),
            numbers: stream("numbers"),
            gap,
            think: class.think_time.clone(),
            flow_sizes: class.sizes.clone(),
            flows: Geometric::new(class.config.flows),
            same_size: class.config.same_size,
            begun: 0,
        }
    }

    /// How many flows follow the first one of a session.
    fn following(&mut self) -> u64 {
        self.flows.sample(&mut self.numbers) as u64 - 1
    }
}

impl Sources {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let streams = Streams::new(scenario.seed);
        let mut sources = Self {
            classes: scenario.classes.iter().map(|class| Source::new(class, &streams)).collect(),
            sessions: Vec::new(),
            free: Vec::new(),
            thinking: BinaryHeap::new(),
            thoughts: 0,
            streams,
            next: f64::INFINITY,
            first: 0,
        };
        sources.settle();
        sources
    }

    /// When the next flow comes.
    pub(crate) fn next(&self) -> f64 {
        self.next
    }

    fn settle(&mut self) {
        let earliest = self.classes.iter().enumerate().min_by(|(_, a), (_, b)| a.next.total_cmp(&b.next));
        let (first, source) = earliest.expect("a scenario has traffic");
        self.first = first;
        self.next = self.thinking.peek().map_or(source.next, |thought| thought.bytes.min(source.next));
    }

    /// The flow that comes at `next`. A thought that ends goes before a session that begins.
    pub(crate) fn take(&mut self) -> Arrival {
        let due = self.thinking.peek().is_some_and(|thought| thought.bytes <= self.next);
        let arrival = match if due { self.thinking.pop() } else { None } {
            Some(thought) => self.follow(thought.slot),
            None => self.begin(),
        };
        self.settle();
        arrival
    }

    /// A session begins.
    fn begin(&mut self) -> Arrival {
        let class = self.first as u32;
        let source = &mut self.classes[self.first];
        source.next += source.gap.sample(&mut source.gaps);
        let number = source.begun;
        source.begun += 1;
        let bytes = source.flow_sizes.sample(&mut source.sizes);
        let left = source.following();
        if left == 0 {
            return Arrival { class, bytes, session: ALONE };
        }
        let session = Session { rng: self.streams.named(&source.stream, number), class, left, bytes };
        let place = if let Some(place) = self.free.pop() {
            self.sessions[place as usize] = session;
            place
        } else {
            self.sessions.push(session);
            (self.sessions.len() - 1) as u32
        };
        Arrival { class, bytes, session: place }
    }

    /// The next flow of a session.
    fn follow(&mut self, place: u32) -> Arrival {
        let session = &mut self.sessions[place as usize];
        let source = &self.classes[session.class as usize];
        session.left -= 1;
        if !session.rng.chance(source.same_size) {
            session.bytes = source.flow_sizes.sample(&mut session.rng);
        }
        let arrival = Arrival { class: session.class, bytes: session.bytes, session: place };
        if session.left == 0 {
            self.free.push(place);
            return Arrival { session: ALONE, ..arrival };
        }
        arrival
    }

    /// A flow of this session is done, at `now`: another will follow.
    pub(crate) fn done(&mut self, session: u32, now: f64) {
        if session == ALONE {
            return;
        }
        let Session { rng, class, .. } = &mut self.sessions[session as usize];
        let at = now + self.classes[*class as usize].think.sample(rng);
        self.thoughts += 1;
        self.thinking.push(Job { bytes: at, number: self.thoughts, slot: session, class: *class });
        self.next = self.next.min(at);
    }
}
