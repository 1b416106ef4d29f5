//! The channel of a link, between the transmitter and the far end: propagation delay, which may change, loss and
//! reordering.
//!
//! All effects are decided when a packet leaves the queue, because the end of its transmission is known then. A packet
//! lost on the channel counts as a drop of the link with the reason `line-loss`, reported at the start of its
//! transmission. The transmission takes its full time nevertheless.

pub mod delay_steps;
pub mod loss;
pub mod reordering;

use aqm_net::{ConfigErrors, ErrorCollector, Instant, Span, Steps, Streams, parameters};

use delay_steps::DelayStep;
use loss::{Loss, Losses};
use reordering::{Reorderer, Reordering};

parameters! {
    /// The channel of a managed link, between its transmitter and its far end.
    ///
    /// These keys are written next to `queue` in `[bottleneck]`, `[bottleneck.reverse]` or `[links.NAME]`.
    pub struct Config {
        /// Changes of the propagation delay, in order of time. Until the first step, the propagation delay is `delay`.
        /// A packet gets the delay at the end of its transmission. If the delay decreases, packets wait for preceding
        /// packets, so that none is overtaken.
        pub delay_steps: Vec<DelayStep> = Vec::new(), "aqmlab's choice";
        /// Period after which the delay steps repeat.
        pub delay_repeat: Option<Span> = None, "aqmlab's choice";
        /// Packet loss.
        pub loss: Option<Loss> = None, "tc-netem(8), `loss`";
        /// Packets with an additional delay, so that other packets overtake them.
        pub reordering: Option<Reordering> = None, "tc-netem(8), `delay` with jitter; terms of RFC 4737";
    }
}

impl Config {
    /// Whether every packet has the same propagation delay.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the impairments, with a propagation delay of `delay` before the first step.
    ///
    /// # Errors
    /// Every invalid field, and what is allowed.
    pub fn impairments(&self, delay: Span) -> Result<Impairments, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let steps =
            errors.take(delay_steps::read(&self.delay_steps).map_err(|wrong| wrong.within("delay_steps")));
        let problem = "is the period of delay steps: write `delay_steps`, too";
        errors.check(self.delay_repeat.is_none() || !self.delay_steps.is_empty(), "delay_repeat", problem);
        if let (Some(steps), Some(repeat)) = (&steps, self.delay_repeat) {
            let last = steps.last().map_or(Span::ZERO, |&(at, _)| at);
            let problem = format_args!("must be later than the last step at {last} (got {repeat})");
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

    /// Whether packets may arrive in a different order than they were sent.
    pub fn reorders(&self) -> bool {
        self.reordering.is_some()
    }

    /// Returns the channel of a run; `chance` contains the random streams of the link named `link`.
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
    /// Returns a channel that delays every packet by `delay`.
    pub fn constant(delay: Span) -> Self {
        Self { delay, least_delay: delay, impaired: None }
    }

    /// Whether every packet has the same delay.
    pub fn is_constant(&self) -> bool {
        self.impaired.is_none()
    }

    /// Returns the constant delay, or the minimum delay of a channel with impairments.
    #[inline(always)]
    pub fn delay(&self) -> Span {
        self.delay
    }

    /// Returns the minimum delay.
    pub fn least_delay(&self) -> Span {
        self.least_delay
    }

    /// Returns the arrival of a packet whose transmission ends at `end`. Calls must be in the order of transmission.
    pub fn arrival(&mut self, end: Instant) -> Arrival {
        match &mut self.impaired {
            None => Arrival::At(end + self.delay),
            Some(impaired) => impaired.arrival(end),
        }
    }
}

struct Impaired {
    delays: Steps<Span>,
    /// The last arrival of a packet that overtakes no other packet.
    last: Instant,
    losses: Option<Losses>,
    reorderer: Option<Reorderer>,
}

/// No run lasts this long, and later times do not fit the clock of the simulator's event queue.
const NEVER: Instant = Instant::from_nanos(1 << 60);

impl Impaired {
    fn arrival(&mut self, end: Instant) -> Arrival {
        if self.losses.as_mut().is_some_and(Losses::loses) {
            return Arrival::Lost;
        }
        let (delay, _) = self.delays.at(end);
        let arrival = end + delay;
        let arrival = match self.reorderer.as_mut().and_then(Reorderer::additional_delay) {
            Some(additional) => arrival + additional,
            None => {
                self.last = self.last.max(arrival);
                self.last
            }
        };
        if arrival >= NEVER { Arrival::Never } else { Arrival::At(arrival) }
    }
}
