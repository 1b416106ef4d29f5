//! How many flows are in progress: from its first packet to its last, where packets that are further apart
//! than a time-out are of two flows.
//!
//! Ours: whether a packet was a flow's last is known when the time-out has passed, so the count lags by it,
//! and is exact. A flow that was there before the trace is seen when its first packet comes, so the first
//! time-out of a trace is not counted; nor is its last.

use std::collections::VecDeque;

use aqm_net::{Instant, Occupancy, Span};

use crate::sample::Samples;
use crate::tables::ProgressRow;

/// The count.
pub(crate) struct InProgress {
    idle: Span,
    begin: Instant,
    now: usize,
    /// Flows that began within the time-out.
    starts: VecDeque<Instant>,
    number: Occupancy,
    samples: Samples<ProgressRow>,
}

impl InProgress {
    pub(crate) fn new(idle: Span, warm_up: Span, every: Span) -> Self {
        let begin = Instant::START + idle.max(warm_up);
        Self {
            idle,
            begin,
            now: 0,
            starts: VecDeque::new(),
            number: Occupancy::new(begin.seconds()),
            samples: Samples::new(every),
        }
    }

    /// Since when a flow must have been silent to be over at `now`.
    pub(crate) fn horizon(&self, now: Instant) -> Instant {
        now.earlier_by(self.idle)
    }

    /// A flow's first packet came.
    pub(crate) fn start(&mut self, at: Instant) {
        self.starts.push_back(at);
    }

    /// A flow's last packet came at `at`; flows are over in the order of these moments.
    pub(crate) fn end(&mut self, at: Instant) {
        self.reach(at);
        self.change(self.now - 1, at);
    }

    /// All flows that were over before `horizon` have been told.
    pub(crate) fn reach(&mut self, horizon: Instant) {
        while let Some(start) = self.starts.front().copied().filter(|start| *start <= horizon) {
            self.starts.pop_front();
            self.change(self.now + 1, start);
        }
    }

    fn change(&mut self, to: usize, at: Instant) {
        self.look(at);
        self.number.set(to, at.seconds());
        self.now = to;
    }

    /// Samples that are due before what happens at `until`.
    fn look(&mut self, until: Instant) {
        while self.samples.next() <= until {
            let at = self.samples.next();
            // What the edges of the trace hide is not shown.
            if at >= self.begin {
                self.samples.push(ProgressRow { time_s: at.seconds(), flows: self.now as u64 });
            } else {
                self.samples.skip();
            }
        }
    }

    /// The trace is over at `end`: the count, if there was anything to count, and its samples.
    pub(crate) fn finish(mut self, end: Instant) -> (Option<Occupancy>, Vec<ProgressRow>) {
        let horizon = self.horizon(end);
        self.reach(horizon);
        if horizon <= self.begin {
            return (None, Vec::new());
        }
        self.change(self.now, horizon);
        (Some(self.number), self.samples.into_rows())
    }
}
