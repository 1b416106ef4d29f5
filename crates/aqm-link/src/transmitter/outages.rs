//! Times at which a line is down: given ones, and random ones.

use std::sync::Arc;

use aqm_net::{ConfigErrors, ErrorCollector, Instant, Rng, Span, parameters};

parameters! {
    /// A time at which a line is down.
    pub struct Outage {
        /// From when on.
        pub from: Option<Span> = None, "no default: it must be given";
        /// Until when; left out: for ever.
        pub until: Option<Span> = None, "ours";
    }
}

parameters! {
    /// Outages at random: the line is up for an exponential time, then down for one, and so on. It begins up.
    pub struct RandomOutages {
        /// How long it is up in the mean.
        pub mean_up: Span = Span::from_millis(30_000), "ours";
        /// How long it is down in the mean.
        pub mean_down: Span = Span::from_millis(500), "ours";
    }
}

impl RandomOutages {
    /// Whether they can happen.
    pub(super) fn check(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        for (name, mean) in [("mean_up", self.mean_up), ("mean_down", self.mean_down)] {
            // What may happen a thousand million times in a run would keep it from ending.
            let problem = "must be at least 1us";
            errors.check(mean >= Span::from_nanos(1000), name, problem);
        }
        errors.finish(())
    }
}

/// The outages of a scenario in the order of time; those that touch are one.
pub(super) fn read(outages: &[Outage]) -> Result<Vec<[Instant; 2]>, ConfigErrors> {
    let mut errors = ErrorCollector::default();
    let mut read: Vec<[Instant; 2]> = Vec::new();
    for (place, outage) in outages.iter().enumerate() {
        errors.check(
            outage.from.is_some(),
            format!("{place}.from"),
            "is missing: write when, such as \"10s\"",
        );
        let Some(from) = outage.from.map(|from| Instant::START + from) else { continue };
        let until = outage.until.map_or(Instant::NEVER, |until| Instant::START + until);
        errors.check(from < until, format!("{place}.until"), "must be later than `from`");
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

/// When a line is down, asked in the order of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Outages {
    /// Apart, in the order of time.
    given: Arc<[[Instant; 2]]>,
    /// The first of those that are not over.
    next: usize,
    random: Option<Random>,
}

/// Random outages: the present one, or the next.
#[derive(Clone, Debug)]
struct Random {
    rng: Rng,
    /// In nanoseconds.
    mean_up: f64,
    mean_down: f64,
    outage: [Instant; 2],
}

impl Outages {
    pub(super) fn new(given: Vec<[Instant; 2]>) -> Self {
        Self { given: given.into(), next: 0, random: None }
    }

    /// The same, and random ones from this stream.
    pub(super) fn with_random(mut self, config: &RandomOutages, rng: Rng) -> Self {
        let [mean_up, mean_down] = [config.mean_up, config.mean_down].map(|mean| mean.nanos() as f64);
        let mut random = Random { rng, mean_up, mean_down, outage: [Instant::START; 2] };
        random.go_on();
        self.random = Some(random);
        self
    }

    /// Whether the line is down at `now`, and until when surely. Each moment is at or after the last one.
    #[inline]
    pub(super) fn at(&mut self, now: Instant) -> (bool, Instant) {
        if self.given.is_empty() && self.random.is_none() {
            return (false, Instant::NEVER);
        }
        self.look(now)
    }

    fn look(&mut self, now: Instant) -> (bool, Instant) {
        while self.given.get(self.next).is_some_and(|&[_, until]| until <= now) {
            self.next += 1;
        }
        let given = self.given.get(self.next).map_or([Instant::NEVER; 2], |&outage| outage);
        let random = self.random.as_mut().map_or([Instant::NEVER; 2], |random| random.at(now));
        let down = given[0] <= now || random[0] <= now;
        // Of those that have begun the latest end counts, of the others the first beginning.
        let ends = [given, random].into_iter().filter(|outage| outage[0] <= now).map(|outage| outage[1]);
        (down, ends.max().unwrap_or_else(|| given[0].min(random[0])))
    }

    /// Whether it is down at a moment; of random outages only the last one that was asked about is known.
    pub(super) fn is_down_at(&self, now: Instant) -> bool {
        let covers = |[from, until]: &[Instant; 2]| *from <= now && now < *until;
        self.given.iter().any(covers) || self.random.as_ref().is_some_and(|random| covers(&random.outage))
    }
}

impl Random {
    /// The outage of `now`, or the next.
    fn at(&mut self, now: Instant) -> [Instant; 2] {
        while self.outage[1] <= now {
            self.go_on();
        }
        self.outage
    }

    fn go_on(&mut self) {
        let from = self.outage[1] + exponential(self.mean_up, &mut self.rng);
        self.outage = [from, from + exponential(self.mean_down, &mut self.rng)];
    }
}

/// An exponential time with this mean in nanoseconds, at least one.
fn exponential(mean: f64, rng: &mut Rng) -> Span {
    Span::from_nanos(((-libm::log(rng.uniform_positive()) * mean + 0.5) as u64).max(1))
}
