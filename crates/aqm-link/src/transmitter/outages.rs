//! Outages of a link, at times set in the scenario or at random times.

use std::sync::Arc;

use aqm_net::{ConfigErrors, ErrorCollector, Instant, Rng, Span, parameters};

parameters! {
    /// An interval in which the link is down.
    pub struct Outage {
        /// Start of the outage.
        pub from: Option<Span> = None, "no default: required";
        /// End of the outage; by default, the outage does not end.
        pub until: Option<Span> = None, "aqmlab's choice";
    }
}

parameters! {
    /// Random outages: the link is up at the start of a run, and then alternates between being down and being up for
    /// exponentially distributed times.
    pub struct RandomOutages {
        /// Mean time for which the link stays up.
        pub mean_up: Span = Span::from_millis(30_000), "aqmlab's choice";
        /// Mean time for which the link stays down.
        pub mean_down: Span = Span::from_millis(500), "aqmlab's choice";
    }
}

impl RandomOutages {
    /// Checks the two mean times.
    pub(super) fn check(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        for (name, mean) in [("mean_up", self.mean_up), ("mean_down", self.mean_down)] {
            // The limit prevents a run with a billion outages, which would practically never end.
            let problem = format_args!("must be at least 1us (got {mean})");
            errors.check(mean >= Span::from_nanos(1000), name, problem);
        }
        errors.finish(())
    }
}

/// Checks the outages of a scenario and returns them in chronological order. Adjacent and overlapping outages are
/// merged.
pub(super) fn read(outages: &[Outage]) -> Result<Vec<[Instant; 2]>, ConfigErrors> {
    let mut errors = ErrorCollector::default();
    let mut read: Vec<[Instant; 2]> = Vec::new();
    for (index, outage) in outages.iter().enumerate() {
        errors.check(
            outage.from.is_some(),
            format!("{index}.from"),
            "is missing: set a time, for example \"10s\"",
        );
        let Some(from) = outage.from.map(|from| Instant::START + from) else { continue };
        let until = outage.until.map_or(Instant::NEVER, |until| Instant::START + until);
        errors.check(from < until, format!("{index}.until"), "must be later than `from`");
        read.push([from, until]);
    }
    read.sort_unstable();
    let mut apart: Vec<[Instant; 2]> = Vec::new();
    for [from, until] in read {
        match apart.last_mut() {
            Some(last) if from <= last[1] => last[1] = last[1].max(until),
            _ => apart.push([from, until]),
        }
    }
    errors.finish(apart)
}

/// The outages of a link, which must be queried in chronological order.
#[derive(Clone, Debug, Default)]
pub(super) struct Outages {
    /// The outages set in the scenario, which are disjoint and in chronological order.
    given: Arc<[[Instant; 2]]>,
    /// Index of the first outage that has not ended.
    next: usize,
    random: Option<Random>,
}

/// Random outages: the current outage or, if the link is up, the next outage.
#[derive(Clone, Debug)]
struct Random {
    rng: Rng,
    /// Mean time for which the link stays up, in nanoseconds.
    mean_up: f64,
    mean_down: f64,
    outage: [Instant; 2],
}

impl Outages {
    pub(super) fn new(given: Vec<[Instant; 2]>) -> Self {
        Self { given: given.into(), next: 0, random: None }
    }

    /// Adds random outages from the stream `rng`.
    pub(super) fn with_random(mut self, config: &RandomOutages, rng: Rng) -> Self {
        let [mean_up, mean_down] = [config.mean_up, config.mean_down].map(|mean| mean.nanos() as f64);
        let mut random = Random { rng, mean_up, mean_down, outage: [Instant::START; 2] };
        random.advance();
        self.random = Some(random);
        self
    }

    /// Returns whether the link is down at `now`, and a time until which the link is certain to stay in this state. The
    /// times of consecutive calls must not decrease.
    #[inline]
    pub(super) fn at(&mut self, now: Instant) -> (bool, Instant) {
        if self.given.is_empty() && self.random.is_none() {
            return (false, Instant::NEVER);
        }
        self.state_at(now)
    }

    fn state_at(&mut self, now: Instant) -> (bool, Instant) {
        while self.given.get(self.next).is_some_and(|&[_, until]| until <= now) {
            self.next += 1;
        }
        let given = self.given.get(self.next).map_or([Instant::NEVER; 2], |&outage| outage);
        let random = self.random.as_mut().map_or([Instant::NEVER; 2], |random| random.at(now));
        let down = given[0] <= now || random[0] <= now;
        // If the link is down, it stays down until the latest end of the outages that have begun. If the link is up, it
        // stays up until the earliest start of an outage.
        let ends = [given, random].into_iter().filter(|outage| outage[0] <= now).map(|outage| outage[1]);
        (down, ends.max().unwrap_or_else(|| given[0].min(random[0])))
    }

    /// Returns whether the link is down at `now`. Among the random outages, only the outage that the last call to
    /// [`at`](Self::at) returned is considered.
    pub(super) fn is_down_at(&self, now: Instant) -> bool {
        let covers = |[from, until]: &[Instant; 2]| *from <= now && now < *until;
        self.given.iter().any(covers) || self.random.as_ref().is_some_and(|random| covers(&random.outage))
    }
}

impl Random {
    /// Returns the outage at `now` or, if the link is up, the next outage.
    fn at(&mut self, now: Instant) -> [Instant; 2] {
        while self.outage[1] <= now {
            self.advance();
        }
        self.outage
    }

    fn advance(&mut self) {
        let from = self.outage[1] + exponential(self.mean_up, &mut self.rng);
        self.outage = [from, from + exponential(self.mean_down, &mut self.rng)];
    }
}

/// Draws an exponentially distributed time of at least 1 ns. `mean` is in nanoseconds.
fn exponential(mean: f64, rng: &mut Rng) -> Span {
    Span::from_nanos(((-libm::log(rng.uniform_positive()) * mean + 0.5) as u64).max(1))
}
