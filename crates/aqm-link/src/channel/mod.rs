//! What happens to packets between a line and its far end: the propagation delay, which may change; loss; packets that
//! overtake others.
//!
//! All of it is decided as a packet leaves the queue, for the moment of its leaving the line is known then. Losses of
//! the line are drops of its link with the reason `line-loss`, told at the moment at which the transmission begins;
//! the transmission takes its time all the same.

pub mod delay_steps;
pub mod loss;
pub mod reordering;

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
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// The impairments, over a propagation delay of `delay`.
    ///
    /// # Errors
    /// Every field that is wrong, and what is allowed.
    pub fn impairments(&self, delay: Span) -> Result<Impairments, ConfigErrors> {
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
        errors.finish(()).map(|()| Impairments {
            delays: Steps::new(delay, steps.unwrap_or_default(), self.delay_repeat),
            loss: self.loss.clone(),
            reordering: self.reordering.clone(),
        })
    }
}

/// The impairments of a channel: a propagation delay that may change, loss, and reordering.
#[derive(Clone, Debug)]
pub struct Impairments {
    delays: Steps<Span>,
    loss: Option<Loss>,
    reordering: Option<Reordering>,
}

impl Impairments {
    /// The minimum propagation delay.
    pub fn least_delay(&self) -> Span {
        self.delays.values().min().unwrap_or_default()
    }

    /// Whether packets may arrive in another order than they were sent.
    pub fn reorders(&self) -> bool {
        self.reordering.is_some()
    }

    /// The channel of a run; `chance` has the random streams of the link with this name.
    pub fn channel(&self, chance: &Streams, link: &str) -> Channel {
        let stream = |name: &str| chance.named(&format!("{name}/{link}"), 0);
        let impaired = Impaired {
            delays: self.delays.clone(),
            last: Instant::START,
            losses: self.loss.as_ref().map(|loss| Losses::new(loss, stream("line-loss"))),
            reorderer: self.reordering.as_ref().map(|config| Reorderer::new(config, stream("reordering"))),
        };
        let least_delay = self.least_delay();
        Channel { delay: least_delay, least_delay, impaired: Some(Box::new(impaired)) }
    }
}

/// The channel from the transmitter of a link to the far end.
pub struct Channel {
    /// The propagation delay, if the channel has no impairments.
    delay: Span,
    least_delay: Span,
    impaired: Option<Box<Impaired>>,
}

/// What happens to a packet on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The packet arrives at the far end at this time.
    At(Instant),
    /// The transmission never ends, because the transmitter sends nothing any more.
    Never,
    /// The channel loses the packet.
    Lost,
}

impl Channel {
    /// A channel that delays every packet by `delay`.
    pub fn constant(delay: Span) -> Self {
        Self { delay, least_delay: delay, impaired: None }
    }

    /// Whether every packet arrives after the same delay.
    pub fn is_constant(&self) -> bool {
        self.impaired.is_none()
    }

    /// The constant delay; the minimum delay of a channel with impairments.
    #[inline(always)]
    pub fn delay(&self) -> Span {
        self.delay
    }

    /// The minimum delay.
    pub fn least_delay(&self) -> Span {
        self.least_delay
    }

    /// The arrival of a packet whose transmission ends at `end`. Calls are in the order of transmission.
    pub fn arrival(&mut self, end: Instant) -> Arrival {
        match &mut self.impaired {
            None => Arrival::At(end + self.delay),
            Some(impaired) => impaired.arrival(end),
        }
    }
}

struct Impaired {
    delays: Steps<Span>,
    /// The last arrival of a packet that overtakes no other.
    last: Instant,
    losses: Option<Losses>,
    reorderer: Option<Reorderer>,
}

/// No run lasts as long, and no event later than this fits the clock of the simulator's event queue.
const NEVER: Instant = Instant::from_nanos(1 << 60);

impl Impaired {
    fn arrival(&mut self, end: Instant) -> Arrival {
        if self.losses.as_mut().is_some_and(Losses::loses) {
            return Arrival::Lost;
        }
        let (delay, _) = self.delays.at(end);
        let arrival = end + delay;
        let arrival = match self.reorderer.as_mut().and_then(Reorderer::further_delay) {
            Some(further) => arrival + further,
            None => {
                self.last = self.last.max(arrival);
                self.last
            }
        };
        if arrival >= NEVER { Arrival::Never } else { Arrival::At(arrival) }
    }
}
