//! Transmitters: the sending side of a link, with a constant or a varying rate.
//!
//! A [`Port`](crate::Port) calls a transmitter with a varying rate for two times, in the order of time: the next time
//! at which it may take a packet (`ready`), and the end of a transmission that begins now (`transmit`). Both depend
//! only on the time and on the queued packets, so a port can be served late and still yields exact times. While the
//! transmitter sends nothing, it takes no packet. A packet in transmission stays in transmission and continues with the
//! transmitter.
//!
//! Each concept has its own file: rates that change ([`rates`]), Mahimahi's opportunities ([`opportunities`]),
//! [`outages`], which can be combined with rates and opportunities, and transmission in bursts ([`aggregation`]).

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
    /// The transmitter of a managed link, if its rate is not constant.
    ///
    /// These keys are written next to `queue` in `[bottleneck]`, `[bottleneck.reverse]` or `[links.NAME]`. If they
    /// determine the rate from the start of the run, `rate` may be left out, and defaults to the mean rate.
    pub struct Config {
        /// Changes of the rate, in order of time. Until the first step, the link sends at its `rate`. A packet in
        /// transmission continues at the new rate. At `0bps` the link sends nothing.
        pub rate_steps: Vec<RateStep> = Vec::new(), "aqmlab's choice";
        /// CSV file of rate steps: on each line a time in seconds and a rate in bits per second, or a time and a rate
        /// with units.
        pub rate_file: Option<String> = None, "aqmlab's choice";
        /// Period after which the rate steps repeat.
        pub rate_repeat: Option<Span> = None, "aqmlab's choice";
        /// Mahimahi's delivery opportunities, used instead of a rate.
        pub opportunities: Option<Opportunities> = None, "Mahimahi's mm-link, link_queue.cc";
        /// Intervals in which the link is down. It then takes no packet from the queue, and a packet in transmission
        /// waits.
        pub outages: Vec<Outage> = Vec::new(), "aqmlab's choice";
        /// Random intervals in which the link is down.
        pub random_outages: Option<RandomOutages> = None, "aqmlab's choice";
        /// Transmission in bursts: the link waits until enough packets are queued for a burst.
        pub aggregation: Option<Aggregation> = None, "aqmlab's choice; similar to the A-MPDU of IEEE 802.11n";
    }
}

impl Config {
    /// Whether the rate is constant.
    pub fn is_constant(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the names of the files to read.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        let trace = self.opportunities.as_ref().and_then(|opportunities| opportunities.file.as_deref());
        self.rate_file.as_deref().into_iter().chain(trace)
    }

    /// Reads the rates or opportunities; `contents` returns the contents of a file by its name.
    ///
    /// # Errors
    /// Every invalid field, and what is allowed.
    pub fn schedule<'a>(&self, contents: impl Fn(&str) -> Option<&'a str>) -> Result<Schedule, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let file = |path: &str, name: &str| {
            let problem = || ConfigError::at(path, format!("the file `{name}` was not read"));
            contents(name).ok_or_else(problem)
        };
        let has_rates = !self.rate_steps.is_empty() || self.rate_file.is_some();
        let problem = "write either `rate_steps` or `rate_file`, not both";
        errors.check(self.rate_steps.is_empty() || self.rate_file.is_none(), "rate_file", problem);
        let problem = "is the period of rate steps: write `rate_steps` or `rate_file`, too";
        errors.check(has_rates || self.rate_repeat.is_none(), "rate_repeat", problem);
        let problem = "cannot be combined with rates: leave out `rate_steps` and `rate_file`";
        errors.check(self.opportunities.is_none() || !has_rates, "opportunities", problem);
        let problem = "cannot be combined with `opportunities`: leave out one of them";
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
            let problem = format_args!("must be later than the last step at {last} (got {repeat})");
            errors.check(last < repeat, "rate_repeat", problem);
            // An event that can happen a thousand million times would prevent the run from ending.
            let least = Span::from_nanos(1000 * steps.len() as u64);
            let problem = format_args!("must be at least {least}, 1us for each step (got {repeat})");
            errors.check(repeat >= least, "rate_repeat", problem);
        }
        errors.finish_some(steps.map(|steps| Schedule::Rates { steps, repeat: self.rate_repeat }))
    }

    /// Returns the service of a transmitter with this base `rate`.
    ///
    /// # Errors
    /// Every invalid field of outages and bursts.
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
            let problem = "never allows the link to send: write at least one rate other than `0bps`";
            let key = if self.rate_file.is_some() { "rate_file" } else { "rate_steps" };
            errors.check(rates.peak() != Rate::default(), key, problem);
        }
        let service = outages.zip(bursts).map(|(outages, bursts)| Service {
            sending,
            outages: Outages::new(outages),
            random: self.random_outages.clone(),
            bursts,
        });
        errors.finish_some(service)
    }
}

/// The times at which a transmitter may send.
#[derive(Clone, Debug)]
pub enum Schedule {
    /// Rates: the steps and the period after which the steps repeat.
    Rates {
        /// The steps.
        steps: Vec<(Span, Rate)>,
        /// The period.
        repeat: Option<Span>,
    },
    /// Delivery opportunities.
    Opportunities(Trace),
}

impl Schedule {
    /// Returns the mean rate over a period or, without a period, over the run. Zero if the mean is below the lowest
    /// valid rate; `None` if the schedule does not contain the initial rate.
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

/// The service of a transmitter with a varying rate. Each run builds a [`Transmitter`] from it.
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
    /// Returns the transmitter; `rng` is the random stream of its outages.
    pub fn transmitter(&self, rng: Rng) -> Transmitter {
        Transmitter::Varying(Box::new(self.running(rng)))
    }

    /// Returns the number of bits that the transmitter can send between two times if packets are always queued and
    /// bursts are ignored; `rng` is the random stream that [`transmitter`](Self::transmitter) got.
    pub fn bits(&self, rng: Rng, between: [Instant; 2]) -> f64 {
        let Varying { sending, mut outages, .. } = self.running(rng);
        match sending {
            Sending::Rates(mut rates) => rates.bits(&mut outages, between),
            Sending::Opportunities(trace) => trace.bits(&mut outages, between),
        }
    }

    /// Returns the highest rate, or the mean rate of opportunities.
    pub fn peak(&self) -> Rate {
        match &self.sending {
            Sending::Rates(rates) => rates.peak(),
            Sending::Opportunities(trace) => Rate::from_bps(trace.mean_bps() as u64).max(Rate::LEAST),
        }
    }

    /// Returns the rate steps in order of time. The iterator is endless if the steps repeat.
    pub fn rate_steps(&self) -> impl Iterator<Item = (Instant, Rate)> {
        let rates = match &self.sending {
            Sending::Rates(rates) => Some(rates),
            Sending::Opportunities(_) => None,
        };
        rates.into_iter().flat_map(Rates::steps)
    }

    /// Whether a transmission may end at the instant at which it begins.
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

/// The sending side of a link.
#[derive(Clone, Debug)]
pub enum Transmitter {
    /// A constant rate.
    Constant(Pace),
    /// Anything else.
    Varying(Box<Varying>),
}

impl Transmitter {
    /// Returns a transmitter with a constant rate.
    pub fn constant(rate: Rate) -> Self {
        Self::Constant(rate.pace())
    }
}

/// A transmitter whose rate is not constant.
#[derive(Clone, Debug)]
pub struct Varying {
    sending: Sending,
    outages: Outages,
    /// The bursts, if the transmitter sends in bursts.
    bursts: Option<Bursts>,
}

/// The queued packets and their bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Varying {
    /// Returns the earliest time from `now` on at which the transmitter may take a packet if no more packets arrive. It
    /// is called when no transmission is in progress and packets are queued. Each `now` is the last result or a later
    /// time, or an earlier time if the transmitter [waits for more packets](Self::waits_for_more).
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

    /// Returns the end of a transmission that begins at `start`, or `NEVER` if the remaining rates do not suffice.
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

    /// Returns the rate at `now`, or `None` if the transmitter has no rate.
    pub(crate) fn rate_at(&self, now: Instant) -> Option<Rate> {
        match &self.sending {
            Sending::Rates(_) if self.outages.is_down_at(now) => Some(Rate::default()),
            Sending::Rates(rates) => Some(rates.rate_at(now)),
            Sending::Opportunities(_) => None,
        }
    }

    /// Handles a transmitter that was ready at `now` but got no packet from the queue.
    #[cold]
    pub(crate) fn rest(&mut self, now: Instant) {
        if let Some(bursts) = &mut self.bursts {
            bursts.rest();
        }
        if let Sending::Opportunities(trace) = &mut self.sending {
            trace.pass(now);
        }
    }

    /// Handles the arrival of a packet at `now` while the transmitter has nothing to send. Opportunities that precede
    /// the arrival, according to the tie rule, are lost.
    pub(crate) fn begin(&mut self, now: Instant, ties: Ties) {
        if let (Sending::Opportunities(trace), Ties::DepartureFirst) = (&mut self.sending, ties) {
            trace.pass(now);
        }
    }

    /// Whether the transmitter waits for more packets, so that it must be called again when a packet arrives.
    pub(crate) fn waits_for_more(&self) -> bool {
        self.bursts.as_ref().is_some_and(Bursts::waits_for_more)
    }
}

#[cfg(test)]
mod tests;
