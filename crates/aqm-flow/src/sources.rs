//! Generates the arrivals of flows: sessions arrive as a Poisson process, and each session is a sequence of flows.
//!
//! aqmlab's choice: the arrival times of sessions and the sizes of their first flows are drawn from random streams of
//! the traffic class. All later values are drawn from separate random streams, one for each session. Therefore, the
//! sessions, their arrival times and the sizes of their flows do not depend on the discipline, and the arrival times of
//! sessions do not depend on the flow sizes.

use std::collections::BinaryHeap;

use aqm_net::{Rng, Streams};
use aqm_traffic::distributions::{Distribution as _, Geometric, Sizes, Times};

use crate::scenario::{Class, Scenario};
use crate::server::Job;

/// Value of [`Arrival::session`] for a flow that is the last flow in its session.
const NO_SESSION: u32 = u32::MAX;

/// An arriving flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) class: u32,
    pub(crate) bytes: u64,
    /// Session of the flow, which is passed to [`Sources::flow_done`].
    pub(crate) session: u32,
}

/// The sources of the flows of all traffic classes.
pub(crate) struct Sources {
    classes: Vec<Source>,
    sessions: Vec<Session>,
    /// Unused indices of `sessions`.
    free: Vec<u32>,
    /// Sessions in their think time, sorted by the arrival time of their next flow.
    thinking: BinaryHeap<Job>,
    /// Number of think times that have started so far.
    think_times: u64,
    streams: Streams,
    next: f64,
    /// Traffic class of the next session that arrives.
    first: usize,
}

/// The source of the sessions of a traffic class.
struct Source {
    stream: String,
    gaps: Rng,
    sizes: Rng,
    numbers: Rng,
    gap: Times,
    think: Times,
    flow_sizes: Sizes,
    /// Distribution of the number of flows per session.
    flows: Geometric,
    same_size: f64,
    /// Arrival time of the next session.
    next: f64,
    sessions: u64,
}

/// A session with more than one flow.
struct Session {
    rng: Rng,
    class: u32,
    /// Number of remaining flows.
    remaining: u64,
    /// Size of the session's previous flow.
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
            sessions: 0,
        }
    }

    /// Draws the number of flows that follow the first flow of a session.
    fn further_flows(&mut self) -> u64 {
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
            think_times: 0,
            streams,
            next: f64::INFINITY,
            first: 0,
        };
        sources.update_next();
        sources
    }

    /// Returns the time at which the next flow arrives.
    pub(crate) fn next(&self) -> f64 {
        self.next
    }

    fn update_next(&mut self) {
        let earliest = self.classes.iter().enumerate().min_by(|(_, a), (_, b)| a.next.total_cmp(&b.next));
        let (first, source) = earliest.expect("a scenario has at least one traffic class");
        self.first = first;
        self.next = self.thinking.peek().map_or(source.next, |session| session.bytes.min(source.next));
    }

    /// Returns the flow that arrives at `next`. If a think time ends at the same time as a session begins, the flow
    /// that follows the think time is returned first.
    pub(crate) fn pop(&mut self) -> Arrival {
        let due = self.thinking.peek().is_some_and(|session| session.bytes <= self.next);
        let arrival = match if due { self.thinking.pop() } else { None } {
            Some(session) => self.next_flow(session.slot),
            None => self.begin_session(),
        };
        self.update_next();
        arrival
    }

    /// Begins a session.
    fn begin_session(&mut self) -> Arrival {
        let class = self.first as u32;
        let source = &mut self.classes[self.first];
        source.next += source.gap.sample(&mut source.gaps);
        let number = source.sessions;
        source.sessions += 1;
        let bytes = source.flow_sizes.sample(&mut source.sizes);
        let remaining = source.further_flows();
        if remaining == 0 {
            return Arrival { class, bytes, session: NO_SESSION };
        }
        let session = Session { rng: self.streams.named(&source.stream, number), class, remaining, bytes };
        let index = if let Some(index) = self.free.pop() {
            self.sessions[index as usize] = session;
            index
        } else {
            self.sessions.push(session);
            (self.sessions.len() - 1) as u32
        };
        Arrival { class, bytes, session: index }
    }

    /// Returns the next flow of a session.
    fn next_flow(&mut self, index: u32) -> Arrival {
        let session = &mut self.sessions[index as usize];
        let source = &self.classes[session.class as usize];
        session.remaining -= 1;
        if !session.rng.chance(source.same_size) {
            session.bytes = source.flow_sizes.sample(&mut session.rng);
        }
        let arrival = Arrival { class: session.class, bytes: session.bytes, session: index };
        if session.remaining == 0 {
            self.free.push(index);
            return Arrival { session: NO_SESSION, ..arrival };
        }
        arrival
    }

    /// Handles the end of a flow at `now`. If the session has further flows, a think time starts.
    pub(crate) fn flow_done(&mut self, session: u32, now: f64) {
        if session == NO_SESSION {
            return;
        }
        let Session { rng, class, .. } = &mut self.sessions[session as usize];
        let at = now + self.classes[*class as usize].think.sample(rng);
        self.think_times += 1;
        self.thinking.push(Job { bytes: at, number: self.think_times, slot: session, class: *class });
        self.next = self.next.min(at);
    }
}
