//! Counts the flows in progress. A flow is in progress from its first packet until its last packet. If the time between
//! two packets exceeds a time-out, the packets belong to different flows.
//!
//! aqmlab's choice: the last packet of a flow is identified only after the time-out, so the count is exact but lags by
//! the time-out. A flow that began before the trace is counted only from its first packet in the trace. Therefore, one
//! time-out at the start of a trace and one time-out at the end of the trace are excluded.

use std::collections::VecDeque;

use aqm_net::{Instant, Occupancy, Span};

use crate::sample::Samples;
use crate::tables::ProgressRow;

/// The count of the flows in progress.
pub(crate) struct InProgress {
    idle: Span,
    begin: Instant,
    now: usize,
    /// Start times of the flows that started less than a time-out ago.
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

    /// Returns the horizon at `now`: a flow has ended if its last packet was earlier than the horizon.
    pub(crate) fn horizon(&self, now: Instant) -> Instant {
        now.earlier_by(self.idle)
    }

    /// Records the first packet of a flow.
    pub(crate) fn start(&mut self, at: Instant) {
        self.starts.push_back(at);
    }

    /// Records that the last packet of a flow was at `at`. The times of consecutive calls must not decrease.
    pub(crate) fn end(&mut self, at: Instant) {
        self.advance(at);
        self.change(self.now - 1, at);
    }

    /// Advances the count to `horizon`. The ends of all flows before this time must have been recorded.
    pub(crate) fn advance(&mut self, horizon: Instant) {
        while let Some(start) = self.starts.front().copied().filter(|start| *start <= horizon) {
            self.starts.pop_front();
            self.change(self.now + 1, start);
        }
    }

    fn change(&mut self, to: usize, at: Instant) {
        self.sample_until(at);
        self.number.set(to, at.seconds());
        self.now = to;
    }

    /// Takes the samples that are due at or before `until`. Samples precede events that have the same time.
    fn sample_until(&mut self, until: Instant) {
        while self.samples.next() <= until {
            let at = self.samples.next();
            // Samples in the excluded parts of the trace are skipped.
            if at >= self.begin {
                self.samples.push(ProgressRow { time_s: at.seconds(), flows: self.now as u64 });
            } else {
                self.samples.skip();
            }
        }
    }

    /// Completes the count at the end of the trace. Returns the count and its samples; the count is `None` if the trace
    /// is too short.
    pub(crate) fn finish(mut self, end: Instant) -> (Option<Occupancy>, Vec<ProgressRow>) {
        let horizon = self.horizon(end);
        self.advance(horizon);
        if horizon <= self.begin {
            return (None, Vec::new());
        }
        self.change(self.now, horizon);
        (Some(self.number), self.samples.into_rows())
    }
}
