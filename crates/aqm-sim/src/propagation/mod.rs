//! What happens to packets between a line and its far end: the propagation delay, which may change; loss; packets that
//! overtake others.
//!
//! All of it is decided as a packet leaves the queue, for the moment of its leaving the line is known then. Losses of
//! the line are drops of its link with the reason `line-loss`, told at the moment at which the transmission begins;
//! the transmission takes its time all the same.

pub(crate) mod delay_steps;
pub(crate) mod loss;
pub(crate) mod reordering;

use aqm_net::{ConfigErrors, ErrorCollector, Instant, Span, Steps, Streams, parameters};

use delay_steps::DelayStep;
use loss::{Loss, Losses};
use reordering::{Reorderer, Reordering};

parameters! {
    /// What happens to packets between the line of a managed link and its far end.
    ///
    /// These keys stand beside the `queue` in `[bottleneck]`, `[bottleneck.reverse]` or `[links.NAME]`.
    pub struct Config {
        /// Moments from which the propagation delay is another one; until the first of them it is `delay`. What counts
        /// is the delay as a packet leaves the line. Where it becomes shorter, packets wait for those before them: none
        /// overtakes another.
        pub delay_steps: Vec<DelayStep> = Vec::new(), "ours";
        /// The steps come again after each such period.
        pub delay_repeat: Option<Span> = None, "ours";
        /// The line loses packets.
        pub loss: Option<Loss> = None, "tc-netem(8), `loss`";
        /// Some packets take longer, so that others overtake them.
        pub reordering: Option<Reordering> = None, "tc-netem(8), `delay` with jitter; RFC 4737 has the words";
    }
}

impl Config {
    /// Whether every packet takes the same time to the far end.
    pub(crate) fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// The way from a line of this `delay` to its far end.
    pub(crate) fn propagation(&self, delay: Span) -> Result<Propagation, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let steps =
            errors.take(delay_steps::read(&self.delay_steps).map_err(|wrong| wrong.within("delay_steps")));
        let problem = "says when steps come again: write `delay_steps`, too";
        errors.check(self.delay_repeat.is_none() || !self.delay_steps.is_empty(), "delay_repeat", problem);
        if let (Some(steps), Some(repeat)) = (&steps, self.delay_repeat) {
            let last = steps.last().map_or(Span::ZERO, |&(at, _)| at);
            let problem = format_args!("must be longer than the last step, {last}");
            errors.check(last < repeat, "delay_repeat", problem);
        }
        if let Some(loss) = &self.loss {
            errors.take(loss.check().map_err(|wrong| wrong.within("loss")));
        }
        if let Some(reordering) = &self.reordering {
            errors.take(reordering.check().map_err(|wrong| wrong.within("reordering")));
        }
        errors.finish(()).map(|()| Propagation {
            delays: Steps::new(delay, steps.unwrap_or_default(), self.delay_repeat),
            loss: self.loss.clone(),
            reordering: self.reordering.clone(),
        })
    }
}

/// The way from a line to its far end, as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Propagation {
    delays: Steps<Span>,
    loss: Option<Loss>,
    reordering: Option<Reordering>,
}

impl Propagation {
    /// The least time that a packet takes.
    pub(crate) fn least_delay(&self) -> Span {
        self.delays.values().min().unwrap_or_default()
    }

    /// Whether packets come to the far end in another order than they leave the line.
    pub(crate) fn reorders(&self) -> bool {
        self.reordering.is_some()
    }

    /// The way in a run; `chance` has the streams of the link with this name.
    pub(crate) fn running(&self, chance: &Streams, link: &str) -> Way {
        let stream = |what: &str| chance.named(&format!("{what}/{link}"), 0);
        Way {
            delays: self.delays.clone(),
            last: Instant::START,
            losses: self.loss.as_ref().map(|loss| Losses::new(loss, stream("line-loss"))),
            reorderer: self.reordering.as_ref().map(|config| Reorderer::new(config, stream("reordering"))),
        }
    }
}

/// The way from a line to its far end, in a run.
pub(crate) struct Way {
    delays: Steps<Span>,
    /// When the last packet arrives of those that overtake nobody.
    last: Instant,
    losses: Option<Losses>,
    reorderer: Option<Reorderer>,
}

impl Way {
    /// When a packet arrives that leaves the line at `end`; nothing if it is lost. Packets are told in the order in
    /// which they leave.
    pub(crate) fn arrival(&mut self, end: Instant) -> Option<Instant> {
        if self.losses.as_mut().is_some_and(Losses::loses) {
            return None;
        }
        let (delay, _) = self.delays.at(end);
        let at = end + delay;
        match self.reorderer.as_mut().and_then(Reorderer::further_delay) {
            Some(further) => Some(at + further),
            None => {
                self.last = self.last.max(at);
                Some(self.last)
            }
        }
    }
}
