//! What empties a queue: a line that always sends at the same rate, or one that changes.
//!
//! A [`Port`](crate::Port) asks its line two things, each at moments in the order of time. When may it take a packet
//! ([`Transmitter::ready`])? And when does a transmission end that begins now ([`Transmitter::transmit`])? The answers follow from
//! the time and from what waits, so a port can be served late and is exact all the same. A line that sends nothing for
//! a while takes no packet; one that it is sending already stays on it, and goes on when the line does.
//!
//! Each concept is a file: rates that change ([`rates`]), Mahimahi's opportunities ([`opportunities`]), [`outages`],
//! which any of these may have, and transmissions in bursts ([`aggregation`]).

pub mod aggregation;
pub mod opportunities;
pub mod outages;
pub mod rates;

use aqm_net::{ConfigError, ConfigErrors, ErrorCollector, Instant, Pace, Rate, Rng, Span, parameters};

use crate::Ties;
use aggregation::{Aggregation, Bursts};
use opportunities::{Opportunities, Trace};
use outages::{Outage, Outages, RandomOutages};
use rates::{RateStep, Rates};

parameters! {
    /// How the line of a managed link sends, if not always at the same rate.
    ///
    /// These keys stand beside the `queue` in `[bottleneck]`, `[bottleneck.reverse]` or `[links.NAME]`. A line that says
    /// from the start when it sends needs no `rate` then; left out it is the mean.
    pub struct Config {
        /// Moments from which the line sends at another rate; until the first of them it sends at its `rate`. A packet
        /// that is being sent goes on at the new rate. At `0bps` the line sends nothing.
        pub rate_steps: Vec<RateStep> = Vec::new(), "ours";
        /// A CSV file of such steps: on each line a time in seconds and a rate in bits per second, or both with units.
        pub rate_file: Option<String> = None, "ours";
        /// The steps come again after each such period.
        pub rate_repeat: Option<Span> = None, "ours";
        /// The line sends at Mahimahi's delivery opportunities, not at a rate.
        pub opportunities: Option<Opportunities> = None, "Mahimahi's mm-link, link_queue.cc";
        /// When the line is down. It takes no packet then, and what is on it waits.
        pub outages: Vec<Outage> = Vec::new(), "ours";
        /// The line is down at random.
        pub random_outages: Option<RandomOutages> = None, "ours";
        /// The line sends in bursts, and waits for packets that make one.
        pub aggregation: Option<Aggregation> = None, "ours; the A-MPDU of IEEE 802.11n does the like";
    }
}

impl Config {
    /// Whether the line always sends at the same rate.
    pub fn is_constant(&self) -> bool {
        *self == Self::default()
    }

    /// The files whose contents are needed.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        let trace = self.opportunities.as_ref().and_then(|opportunities| opportunities.file.as_deref());
        self.rate_file.as_deref().into_iter().chain(trace)
    }

    /// Reads when the line may send; `contents` has files by name.
    ///
    /// # Errors
    /// Everything that is wrong with it, and what is allowed.
    pub fn schedule<'a>(&self, contents: impl Fn(&str) -> Option<&'a str>) -> Result<Schedule, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let file = |place: &str, name: &str| {
            let problem = || ConfigError::at(place, format!("`{name}` was not read"));
            contents(name).ok_or_else(problem)
        };
        let has_rates = !self.rate_steps.is_empty() || self.rate_file.is_some();
        let problem = "write either `rate_steps` or a `rate_file`";
        errors.check(self.rate_steps.is_empty() || self.rate_file.is_none(), "rate_file", problem);
        let problem = "says when steps come again: write `rate_steps` or a `rate_file`, too";
        errors.check(has_rates || self.rate_repeat.is_none(), "rate_repeat", problem);
        let problem = "say when the line sends: leave out the steps of its rate";
        errors.check(self.opportunities.is_none() || !has_rates, "opportunities", problem);
        let problem = "waits for packets, as opportunities wait for the line: write one of them";
        errors.check(self.opportunities.is_none() || self.aggregation.is_none(), "aggregation", problem);
        if let Some(opportunities) = &self.opportunities {
            let read =
                opportunities.read(|name| file("file", name)).map_err(|wrong| wrong.within("opportunities"));
            let trace = errors.take(read);
            return errors.finish_some(trace.map(Schedule::Opportunities));
        }
        let steps = match &self.rate_file {
            Some(name) => {
                let read =
                    file("", name).and_then(|text| rates::parse(text).map_err(|p| ConfigError::at("", p)));
                errors.take(read.map_err(|wrong| wrong.within("rate_file")))
            }
            None => errors.take(rates::read(&self.rate_steps).map_err(|wrong| wrong.within("rate_steps"))),
        };
        if let (Some(steps), Some(repeat)) = (&steps, self.rate_repeat) {
            let last = steps.last().map_or(Span::ZERO, |&(at, _)| at);
            let problem = format_args!("must be longer than the last step, {last}");
            errors.check(last < repeat, "rate_repeat", problem);
            // What may happen a thousand million times in a run would keep it from ending.
            let least = Span::from_nanos(1000 * steps.len() as u64);
            let problem = format_args!("must be at least {least}: 1us for each step");
            errors.check(repeat >= least, "rate_repeat", problem);
        }
        errors.finish_some(steps.map(|steps| Schedule::Rates { steps, repeat: self.rate_repeat }))
    }

    /// How the line sends, one of this `rate`.
    ///
    /// # Errors
    /// Everything that is wrong with outages and bursts.
    pub fn service(&self, rate: Rate, schedule: Schedule) -> Result<Service, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let outages = outages::read(&self.outages).map_err(|wrong| wrong.within("outages"));
        let outages = errors.take(outages);
        let random = self.random_outages.as_ref().map(RandomOutages::check).transpose();
        errors.take(random.map_err(|wrong| wrong.within("random_outages")));
        let bursts = self.aggregation.as_ref().map(Aggregation::bursts).transpose();
        let bursts = errors.take(bursts.map_err(|wrong| wrong.within("aggregation")));
        let sending = match schedule {
            Schedule::Rates { steps, repeat } => Sending::Rates(Rates::new(rate, steps, repeat)),
            Schedule::Opportunities(trace) => Sending::Opportunities(trace),
        };
        if let Sending::Rates(rates) = &sending {
            let problem = "the line never sends: write a rate that is not `0bps` at one step";
            let place = if self.rate_file.is_some() { "rate_file" } else { "rate_steps" };
            errors.check(rates.peak() != Rate::default(), place, problem);
        }
        let found = outages.zip(bursts).map(|(outages, bursts)| Service {
            sending,
            outages: Outages::new(outages),
            random: self.random_outages.clone(),
            bursts,
        });
        errors.finish_some(found)
    }
}

/// When a line may send, as it was read.
#[derive(Clone, Debug)]
pub enum Schedule {
    /// At rates: when which begins, and after which time all begin again.
    Rates {
        /// The steps.
        steps: Vec<(Span, Rate)>,
        /// The period.
        repeat: Option<Span>,
    },
    /// At opportunities.
    Opportunities(Trace),
}

impl Schedule {
    /// The mean rate of a line that says so itself, over a period or else over the run, or zero if it is less than may
    /// be written; nothing if it begins with a rate that is written elsewhere.
    pub fn mean_rate(&self, duration: Span) -> Option<Rate> {
        let bps = match self {
            Self::Rates { steps, repeat } => {
                steps.first().filter(|(at, _)| at.is_zero())?;
                let mut rates = Rates::new(Rate::default(), steps.clone(), *repeat);
                let until = Instant::START + repeat.unwrap_or(duration);
                rates.bits(&mut Outages::default(), [Instant::START, until]) / until.seconds()
            }
            Self::Opportunities(trace) => trace.mean_bps(),
        };
        let rate = Rate::from_bps((bps + 0.5) as u64);
        Some(if rate < Rate::LEAST { Rate::default() } else { rate })
    }
}

/// How a line sends that does not always send at the same rate; each run makes a [`Transmitter`] of it.
#[derive(Clone, Debug)]
pub struct Service {
    sending: Sending,
    outages: Outages,
    random: Option<RandomOutages>,
    bursts: Option<Bursts>,
}

#[derive(Clone, Debug)]
enum Sending {
    Rates(Rates),
    Opportunities(Trace),
}

impl Service {
    /// The line; `rng` is the stream of its outages.
    pub fn transmitter(&self, rng: Rng) -> Transmitter {
        Transmitter::Varying(Box::new(self.running(rng)))
    }

    /// How many bits the line could send between two moments, if something always waits and it waits for nothing;
    /// `rng` is what [`line`](Self::transmitter) was given.
    pub fn bits(&self, rng: Rng, between: [Instant; 2]) -> f64 {
        let Varying { sending, mut outages, .. } = self.running(rng);
        match sending {
            Sending::Rates(mut rates) => rates.bits(&mut outages, between),
            Sending::Opportunities(trace) => trace.bits(&mut outages, between),
        }
    }

    /// The highest rate it ever has; of opportunities the mean.
    pub fn peak(&self) -> Rate {
        match &self.sending {
            Sending::Rates(rates) => rates.peak(),
            Sending::Opportunities(trace) => Rate::from_bps(trace.mean_bps() as u64).max(Rate::LEAST),
        }
    }

    /// When its rate steps, and to what, in the order of time; without an end if the steps come again.
    pub fn rate_steps(&self) -> impl Iterator<Item = (Instant, Rate)> {
        let rates = match &self.sending {
            Sending::Rates(rates) => Some(rates),
            Sending::Opportunities(_) => None,
        };
        rates.into_iter().flat_map(Rates::steps)
    }

    /// Whether a packet may be at its end at the moment at which its transmission begins.
    pub fn takes_no_time(&self) -> bool {
        matches!(self.sending, Sending::Opportunities(_))
    }

    fn running(&self, rng: Rng) -> Varying {
        let outages = match &self.random {
            Some(random) => self.outages.clone().with_random(random, rng),
            None => self.outages.clone(),
        };
        Varying { sending: self.sending.clone(), outages, bursts: self.bursts.clone() }
    }
}

/// What empties a queue.
#[derive(Clone, Debug)]
pub enum Transmitter {
    /// A line that always sends at the same rate.
    Constant(Pace),
    /// Any other.
    Varying(Box<Varying>),
}

impl Transmitter {
    /// A line that always sends at this rate.
    pub fn constant(rate: Rate) -> Self {
        Self::Constant(rate.pace())
    }
}

/// A line that does not always send at the same rate.
#[derive(Clone, Debug)]
pub struct Varying {
    sending: Sending,
    outages: Outages,
    /// If it sends in bursts.
    bursts: Option<Bursts>,
}

/// What waits for a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Varying {
    /// The line has sent what it had, and something waits: the first moment from `now` on at which it may take a packet
    /// if nothing more arrives. Each `now` is the last answer or a later moment, or an earlier one if the line
    /// [waits for more](Self::waits_for_more).
    #[inline(never)]
    pub(crate) fn ready(&mut self, now: Instant, waiting: Waiting) -> Instant {
        if let Some(bursts) = &mut self.bursts {
            let begins = bursts.ready(now, waiting);
            if begins > now {
                return begins;
            }
        }
        match &mut self.sending {
            Sending::Rates(rates) => rates.ready(now, &mut self.outages),
            Sending::Opportunities(trace) => trace.ready(now, &mut self.outages),
        }
    }

    /// When a transmission ends that begins at `start`; `NEVER` if the line sends too little ever after.
    #[inline(never)]
    pub(crate) fn transmit(&mut self, start: Instant, bytes: u64) -> Instant {
        if let Some(bursts) = &mut self.bursts {
            bursts.sent(bytes);
        }
        match &mut self.sending {
            Sending::Rates(rates) => rates.transmit(start, bytes, &mut self.outages),
            Sending::Opportunities(trace) => trace.transmit(start, bytes, &mut self.outages),
        }
    }

    /// The rate at which it sends at `now`; nothing if it has none.
    pub(crate) fn rate_at(&self, now: Instant) -> Option<Rate> {
        match &self.sending {
            Sending::Rates(_) if self.outages.is_down_at(now) => Some(Rate::default()),
            Sending::Rates(rates) => Some(rates.rate_at(now)),
            Sending::Opportunities(_) => None,
        }
    }

    /// The line was ready at `now`, and the queue gave it nothing.
    #[cold]
    pub(crate) fn rest(&mut self, now: Instant) {
        if let Some(bursts) = &mut self.bursts {
            bursts.rest();
        }
        if let Sending::Opportunities(trace) = &mut self.sending {
            trace.pass(now);
        }
    }

    /// A packet arrives at `now`, and the line has nothing to send; what the line could do before it, by the rule of
    /// ties, it can no longer do.
    pub(crate) fn begin(&mut self, now: Instant, ties: Ties) {
        if let (Sending::Opportunities(trace), Ties::DepartureFirst) = (&mut self.sending, ties) {
            trace.pass(now);
        }
    }

    /// Whether it waits for more packets, and so must be asked again when one arrives.
    pub(crate) fn waits_for_more(&self) -> bool {
        self.bursts.as_ref().is_some_and(Bursts::waits_for_more)
    }
}

#[cfg(test)]
mod tests;
