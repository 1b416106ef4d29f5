//! The channel between the transmitter and the far end of a link. The channel has a propagation delay, which may change
//! during the run, and may lose and reorder packets.
//!
//! All effects of the channel on a packet are determined when the packet leaves the queue, because the time at which
//! the packet's transmission will end is known at that moment. A packet lost on the channel is counted as a drop by the
//! link. The reason for the drop is `line-loss`, and the drop is reported at the time when the packet's transmission
//! starts. The transmission of a lost packet takes as long as that of any other packet.

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
    /// These keys belong to the same table as `queue`: `[bottleneck]`, `[bottleneck.reverse]` or `[links.NAME]`.
    pub struct Config {
        /// Changes of the propagation delay, in chronological order. Until the first step, the propagation delay is
        /// `delay`. The delay of a packet is the propagation delay that applies when the packet's transmission ends. If
        /// the propagation delay decreases, later packets wait, so that no packet overtakes an earlier packet.
        pub delay_steps: Vec<DelayStep> = Vec::new(), "aqmlab's choice";
        /// Period after which the delay steps repeat.
        pub delay_repeat: Option<Span> = None, "aqmlab's choice";
        /// Packet loss.
        pub loss: Option<Loss> = None, "tc-netem(8), `loss`";
        /// Additional delay for some packets, so that other packets overtake them.
        pub reordering: Option<Reordering> = None, "tc-netem(8), `delay` with jitter; terms of RFC 4737";
    }
}

impl Config {
    /// Returns whether the channel has no impairments, in which case every packet has the same propagation delay.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the impairments of the channel. Before the first step, the propagation delay is `delay`.
    ///
    /// # Errors
    /// Returns an error for each invalid field, with the allowed values.
    pub fn impairments(&self, delay: Span) -> Result<Impairments, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let steps =
            errors.take(delay_steps::read(&self.delay_steps).map_err(|wrong| wrong.within("delay_steps")));
        let problem = "is the period of the delay steps and requires `delay_steps`";
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
    /// Returns the minimum propagation delay.
    pub fn least_delay(&self) -> Span {
        self.delays.values().min().unwrap_or_default()
    }

    /// Returns whether packets may arrive out of order.
    pub fn reorders(&self) -> bool {
        self.reordering.is_some()
    }

    /// Returns the channel for a run. The channel's random numbers are drawn from the streams that `chance` contains
    /// for the link named `link`.
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

/// The channel from a link's transmitter to the far end of the link.
pub struct Channel {
    /// The propagation delay, if the channel has no impairments.
    delay: Span,
    least_delay: Span,
    impaired: Option<Box<Impaired>>,
}

/// Outcome of the transmission of a packet over a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The packet arrives at the far end at this time.
    At(Instant),
    /// The transmission never ends, because the transmitter has permanently stopped sending.
    Never,
    /// The channel loses the packet.
    Lost,
}

impl Channel {
    /// Returns a channel that delays every packet by `delay`.
    pub fn constant(delay: Span) -> Self {
        Self { delay, least_delay: delay, impaired: None }
    }

    /// Returns whether the channel has no impairments, in which case every packet has the same delay.
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

    /// Returns the outcome for a packet whose transmission ends at `end`. This method must be called for packets in the
    /// order in which they are transmitted.
    pub fn arrival(&mut self, end: Instant) -> Arrival {
        match &mut self.impaired {
            None => Arrival::At(end + self.delay),
            Some(impaired) => impaired.arrival(end),
        }
    }
}

struct Impaired {
    delays: Steps<Span>,
    /// Latest arrival time so far among the packets that had no additional delay.
    last: Instant,
    losses: Option<Losses>,
    reorderer: Option<Reorderer>,
}

/// A time after the end of every run. The simulator's event queue cannot store later times.
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
