//! Transmitters: the sending side of a link, with a constant or a varying rate.
//!
//! A [`Port`](crate::Port) queries a transmitter with a varying rate for the next time at which the transmitter may
//! take a packet (`ready`), and for the end of a transmission that begins now (`transmit`). The port makes these calls
//! in chronological order. The results depend only on the time and on the queued packets, so the times are exact even
//! if the port is served late. While the rate is zero or the link is down, the transmitter takes no packet from the
//! queue, and a packet in transmission is interrupted and continues afterwards.
//!
//! Separate modules implement changing rates ([`rates`]), Mahimahi's delivery opportunities ([`opportunities`]),
//! [`outages`], transmission in bursts ([`aggregation`]), CellReplay's [`packet_trains`], and the [`framing`] of link
//! layers. Outages can be combined with changing rates and with delivery opportunities.

pub mod aggregation;
pub mod framing;
pub mod opportunities;
pub mod outages;
pub mod packet_trains;
pub mod rates;

use aqm_net::{ConfigError, ConfigErrors, ErrorCollector, Instant, Pace, Rate, Rng, Span, parameters};

use crate::Ties;
use aggregation::{Aggregation, Bursts};
use framing::Framing;
use opportunities::{Opportunities, Trace};
use outages::{Outage, Outages, RandomOutages};
use packet_trains::Cellular;
use rates::{RateStep, Rates};

parameters! {
    /// The transmitter of a managed link, if its rate is not constant.
    ///
    /// These keys belong to the same table as `queue`: `[bottleneck]`, `[bottleneck.reverse]` or `[links.NAME]`. If
    /// these keys determine the rate from the start of the run, `rate` may be omitted and defaults to the mean rate.
    pub struct Config {
        /// Rate changes, in chronological order. Until the first step, the link sends at its `rate`. If the rate
        /// changes during the transmission of a packet, the rest of the packet is sent at the new rate. At `0bps`, the
        /// link sends nothing.
        pub rate_steps: Vec<RateStep> = Vec::new(), "aqmlab's choice";
        /// CSV file of rate steps. Each line contains a time and a rate; without units, times are in seconds and rates
        /// are in bits per second.
        pub rate_file: Option<String> = None, "aqmlab's choice";
        /// Period after which the rate steps repeat.
        pub rate_repeat: Option<Span> = None, "aqmlab's choice";
        /// Mahimahi's delivery opportunities, used instead of a rate.
        pub opportunities: Option<Opportunities> = None, "Mahimahi's mm-link, link_queue.cc";
        /// Intervals in which the link is down. During an outage, the link takes no packet from the queue, and a packet
        /// in transmission is interrupted and continues after the outage.
        pub outages: Vec<Outage> = Vec::new(), "aqmlab's choice";
        /// Random intervals in which the link is down.
        pub random_outages: Option<RandomOutages> = None, "aqmlab's choice";
        /// Transmission in bursts: the link waits until enough packets are queued for a burst.
        pub aggregation: Option<Aggregation> = None, "aqmlab's choice; similar to the A-MPDU of IEEE 802.11n";
        /// Framing of the link layer, such as the cells of ATM.
        pub framing: Option<Framing> = None, "tc-stab, tc-cake";
    }
}

impl Config {
    /// Returns whether the rate is constant.
    pub fn is_constant(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the names of the files to read.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        let traces = self.opportunities.iter().flat_map(|traces| [&traces.file, &traces.light]);
        self.rate_file.as_deref().into_iter().chain(traces.filter_map(|file| file.as_deref()))
    }

    /// Reads the rates or opportunities. The function `contents` returns the contents of the file with a given name.
    ///
    /// # Errors
    /// Returns an error for each invalid field, with the allowed values.
    pub fn schedule<'a>(&self, contents: impl Fn(&str) -> Option<&'a str>) -> Result<Schedule, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let file = |path: &str, name: &str| {
            let problem = || ConfigError::at(path, format!("the file `{name}` was not read"));
            contents(name).ok_or_else(problem)
        };
        let has_rates = !self.rate_steps.is_empty() || self.rate_file.is_some();
        let problem = "set either `rate_steps` or `rate_file`, not both";
        errors.check(self.rate_steps.is_empty() || self.rate_file.is_none(), "rate_file", problem);
        let problem = "is the period of the rate steps and requires `rate_steps` or `rate_file`";
        errors.check(has_rates || self.rate_repeat.is_none(), "rate_repeat", problem);
        let problem = "cannot be combined with rates: remove `rate_steps` and `rate_file`";
        errors.check(self.opportunities.is_none() || !has_rates, "opportunities", problem);
        let problem = "cannot be combined with `opportunities`: remove one of the two";
        errors.check(self.opportunities.is_none() || self.aggregation.is_none(), "aggregation", problem);
        let problem = "cannot be combined with `opportunities`, whose bytes are those of the link: remove one of the \
                       two";
        errors.check(self.opportunities.is_none() || self.framing.is_none(), "framing", problem);
        if let Some(opportunities) = &self.opportunities {
            let has_outages = !self.outages.is_empty() || self.random_outages.is_some();
            let problem = "cannot be combined with outages: remove `light`, or the outages";
            errors.check(opportunities.light.is_none() || !has_outages, "opportunities.light", problem);
            let read = opportunities.read(file).map_err(|wrong| wrong.within("opportunities"));
            let schedule = errors.take(read);
            return errors.finish_some(schedule);
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
            // The limit prevents a run with a billion steps, which would practically never end.
            let least = Span::from_nanos(1000 * steps.len() as u64);
            let problem = format_args!("must be at least {least}, which is 1us for each step (got {repeat})");
            errors.check(repeat >= least, "rate_repeat", problem);
        }
        errors.finish_some(steps.map(|steps| Schedule::Rates { steps, repeat: self.rate_repeat }))
    }

    /// Returns the parameters of a transmitter with a varying rate. `rate` is the rate until the first rate step.
    ///
    /// # Errors
    /// Returns an error for each invalid field of the outages and bursts.
    pub fn service(&self, rate: Rate, schedule: Schedule) -> Result<Service, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let outages = outages::read(&self.outages).map_err(|wrong| wrong.within("outages"));
        let outages = errors.take(outages);
        let random = self.random_outages.as_ref().map(RandomOutages::check).transpose();
        errors.take(random.map_err(|wrong| wrong.within("random_outages")));
        let bursts = self.aggregation.as_ref().map(Aggregation::bursts).transpose();
        let bursts = errors.take(bursts.map_err(|wrong| wrong.within("aggregation")));
        let framing = self.framing.as_ref().map(Framing::check).transpose();
        errors.take(framing.map_err(|wrong| wrong.within("framing")));
        let sending = match schedule {
            Schedule::Rates { steps, repeat } => Sending::Rates(Rates::new(rate, steps, repeat)),
            Schedule::Opportunities(trace) => Sending::Opportunities(trace),
            Schedule::Cellular(cellular) => Sending::Cellular(cellular),
        };
        if let Sending::Rates(rates) = &sending {
            let problem = "never allows the link to send: at least one rate must be greater than `0bps`";
            let key = if self.rate_file.is_some() { "rate_file" } else { "rate_steps" };
            errors.check(rates.peak() != Rate::default(), key, problem);
        }
        let service = outages.zip(bursts).map(|(outages, bursts)| Service {
            sending,
            outages: Outages::new(outages),
            random: self.random_outages.clone(),
            bursts,
            framing: self.framing.clone(),
        });
        errors.finish_some(service)
    }
}

/// The times at which a transmitter may send.
#[derive(Clone, Debug)]
pub enum Schedule {
    /// Rate steps, and the period after which the steps repeat.
    Rates {
        /// The rate steps, in chronological order.
        steps: Vec<(Span, Rate)>,
        /// The period after which the steps repeat, if any.
        repeat: Option<Span>,
    },
    /// Delivery opportunities.
    Opportunities(Trace),
    /// Delivery opportunities of an idle link and of a busy link.
    Cellular(Box<Cellular>),
}

impl Schedule {
    /// Returns the mean rate over one period or, if the steps do not repeat, over the run. Returns zero if the mean is
    /// below the lowest valid rate, and `None` if the schedule does not specify the rate at the start of the run.
    pub fn mean_rate(&self, duration: Span) -> Option<Rate> {
        let bps = match self {
            Self::Rates { steps, repeat } => {
                steps.first().filter(|(at, _)| at.is_zero())?;
                let mut rates = Rates::new(Rate::default(), steps.clone(), *repeat);
                let until = Instant::START + repeat.unwrap_or(duration);
                rates.bits(&mut Outages::default(), [Instant::START, until]) / until.seconds()
            }
            Self::Opportunities(trace) => trace.mean_bps(),
            Self::Cellular(cellular) => cellular.mean_bps(),
        };
        let rate = Rate::from_bps((bps + 0.5) as u64);
        Some(if rate < Rate::LEAST { Rate::default() } else { rate })
    }
}

/// The parameters of a transmitter with a varying rate. Each run creates its [`Transmitter`] from a service.
#[derive(Clone, Debug)]
pub struct Service {
    sending: Sending,
    outages: Outages,
    random: Option<RandomOutages>,
    bursts: Option<Bursts>,
    framing: Option<Framing>,
}

#[derive(Clone, Debug)]
enum Sending {
    Rates(Rates),
    Opportunities(Trace),
    Cellular(Box<Cellular>),
}

impl Service {
    /// Returns the transmitter for a run. The transmitter's random outages are drawn from `rng`.
    pub fn transmitter(&self, rng: Rng) -> Transmitter {
        Transmitter::Varying(Box::new(self.running(rng)))
    }

    /// Returns the number of bits that the transmitter can send between two times if packets are always queued. The
    /// waiting times before bursts and the framing are ignored. `rng` must be the random stream that was passed to
    /// [`transmitter`](Self::transmitter).
    pub fn bits(&self, rng: Rng, between: [Instant; 2]) -> f64 {
        let Varying { sending, mut outages, .. } = self.running(rng);
        match sending {
            Sending::Rates(mut rates) => rates.bits(&mut outages, between),
            Sending::Opportunities(trace) => trace.bits(&mut outages, between),
            Sending::Cellular(cellular) => cellular.bits(&mut outages, between),
        }
    }

    /// Returns the highest rate of the rate steps, or the mean rate of the delivery opportunities.
    pub fn peak(&self) -> Rate {
        match &self.sending {
            Sending::Rates(rates) => rates.peak(),
            Sending::Opportunities(trace) => Rate::from_bps(trace.mean_bps() as u64).max(Rate::LEAST),
            Sending::Cellular(cellular) => Rate::from_bps(cellular.mean_bps() as u64).max(Rate::LEAST),
        }
    }

    /// Returns the rate steps in chronological order. The iterator is infinite if the steps repeat.
    pub fn rate_steps(&self) -> impl Iterator<Item = (Instant, Rate)> {
        let rates = match &self.sending {
            Sending::Rates(rates) => Some(rates),
            Sending::Opportunities(_) | Sending::Cellular(_) => None,
        };
        rates.into_iter().flat_map(Rates::steps)
    }

    /// Returns whether a transmission may begin and end at the same instant.
    pub fn takes_no_time(&self) -> bool {
        matches!(self.sending, Sending::Opportunities(_) | Sending::Cellular(_))
    }

    fn running(&self, rng: Rng) -> Varying {
        let outages = match &self.random {
            Some(random) => self.outages.clone().with_random(random, rng),
            None => self.outages.clone(),
        };
        let (bursts, framing) = (self.bursts.clone(), self.framing.clone());
        Varying { sending: self.sending.clone(), outages, bursts, framing }
    }
}

/// The sending side of a link.
#[derive(Clone, Debug)]
pub enum Transmitter {
    /// A transmitter with a constant rate.
    Constant(Pace),
    /// A transmitter with a varying rate, delivery opportunities, outages, bursts or framing.
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
    framing: Option<Framing>,
}

/// The number of queued packets and their total size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Varying {
    /// Returns a transmitter that sends whenever the queue has packets. The queue determines how long each
    /// transmission takes.
    pub(crate) fn timed_by_queue() -> Self {
        let rates = Rates::new(Rate::LEAST, Vec::new(), None);
        Self { sending: Sending::Rates(rates), outages: Outages::default(), bursts: None, framing: None }
    }

    /// Returns the earliest time, at or after `now`, at which the transmitter may take a packet if no more packets
    /// arrive. The function may be called only if no transmission is in progress and packets are queued. `now` must not
    /// be earlier than the previous result, unless the transmitter [waits for more packets](Self::waits_for_more).
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
            Sending::Cellular(cellular) => cellular.ready(now, &mut self.outages),
        }
    }

    /// Returns the time at which a transmission that begins at `start` ends, or `NEVER` if the remaining rates are too
    /// low to complete the transmission, and the time at which the next transmission may begin.
    #[inline(never)]
    pub(crate) fn transmit(&mut self, start: Instant, bytes: u64) -> [Instant; 2] {
        if let Some(bursts) = &mut self.bursts {
            bursts.sent(bytes);
        }
        let bytes = self.framing.as_ref().map_or(bytes, |framing| framing.on_line(bytes));
        let end = match &mut self.sending {
            Sending::Rates(rates) => rates.transmit(start, bytes, &mut self.outages),
            Sending::Opportunities(trace) => trace.transmit(start, bytes, &mut self.outages),
            Sending::Cellular(cellular) => return cellular.transmit(start, bytes, &mut self.outages),
        };
        [end; 2]
    }

    /// Returns the rate at `now`, or `None` if the transmitter sends at delivery opportunities instead of at a rate.
    pub(crate) fn rate_at(&self, now: Instant) -> Option<Rate> {
        match &self.sending {
            Sending::Rates(_) if self.outages.is_down_at(now) => Some(Rate::default()),
            Sending::Rates(rates) => Some(rates.rate_at(now)),
            Sending::Opportunities(_) | Sending::Cellular(_) => None,
        }
    }

    /// Updates the transmitter after the queue supplied no packet at `now`, although the transmitter was ready.
    #[cold]
    pub(crate) fn rest(&mut self, now: Instant) {
        if let Some(bursts) = &mut self.bursts {
            bursts.rest();
        }
        if let Sending::Opportunities(trace) = &mut self.sending {
            trace.pass(now);
        }
    }

    /// Handles the arrival of a packet at `now` while the transmitter is idle. Opportunities that precede the arrival
    /// according to the tie rule are lost.
    pub(crate) fn begin(&mut self, now: Instant, ties: Ties) {
        match &mut self.sending {
            Sending::Opportunities(trace) if ties == Ties::DepartureFirst => trace.pass(now),
            Sending::Cellular(cellular) => cellular.begin(now, ties),
            Sending::Rates(_) | Sending::Opportunities(_) => {}
        }
    }

    /// Returns whether the transmitter is waiting for more packets, in which case [`ready`](Self::ready) must be called
    /// again when a packet arrives.
    pub(crate) fn waits_for_more(&self) -> bool {
        self.bursts.as_ref().is_some_and(Bursts::waits_for_more)
    }
}

#[cfg(test)]
mod tests;
