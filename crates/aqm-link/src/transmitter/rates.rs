//! A transmitter whose rate changes in steps.
//!
//! If the rate changes during the transmission of a packet, the rest of the packet is sent at the new rate. A packet
//! departs when the integral of the rate since the start of the packet's transmission equals the packet's length. The
//! integral is computed exactly, and the departure time is rounded to the nearest nanosecond, as for a constant rate.
//! While the rate is zero, the transmitter takes no packet.

use aqm_net::parameters;
use aqm_net::{
    ConfigErrors, ErrorCollector, Instant, Pace, Quantity, Rate, RateOrZero, Span, Steps, data_lines,
};

use super::outages::Outages;

parameters! {
    /// A change of the link's rate.
    pub struct RateStep {
        /// Time of the change.
        pub at: Option<Span> = None, "no default: required";
        /// New rate; at `0bps`, the link sends nothing.
        pub rate: Option<RateOrZero> = None, "no default: required";
    }
}

/// Checks the rate steps of a scenario and returns them as pairs of a time and a rate.
pub(super) fn read(steps: &[RateStep]) -> Result<Vec<(Span, Rate)>, ConfigErrors> {
    let mut errors = ErrorCollector::default();
    let mut read: Vec<(Span, Rate)> = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        errors.check(step.at.is_some(), format!("{index}.at"), "is missing: set a time, for example \"10s\"");
        let problem = "is missing: set a rate, for example \"5Mbps\" or \"0bps\"";
        errors.check(step.rate.is_some(), format!("{index}.rate"), problem);
        let (Some(at), Some(rate)) = (step.at, step.rate) else { continue };
        if let Some(&(before, _)) = read.last() {
            let problem = format_args!("must be later than the previous step at {before} (got {at})");
            errors.check(before < at, format!("{index}.at"), problem);
        }
        read.push((at, rate.or_zero()));
    }
    errors.finish(read)
}

/// Parses a file of rate steps. Each line contains a time and a rate.
pub(super) fn parse(content: &str) -> Result<Vec<(Span, Rate)>, String> {
    let mut steps: Vec<(Span, Rate)> = Vec::new();
    let (mut unit, mut first) = ("bps", true);
    for (number, line) in data_lines(content) {
        let fields: Vec<&str> = if line.contains(',') {
            line.split(',').map(str::trim).collect()
        } else {
            line.split_whitespace().collect()
        };
        let named = header(&fields).filter(|_| first);
        first = false;
        if let Some(named) = named {
            unit = named;
            continue;
        }
        let step = step(&fields, unit).and_then(|step| match steps.last() {
            Some(&(before, _)) if step.0 <= before => Err(format!(
                "must be later than the time on the previous line, {before} (got `{}`)",
                fields[0]
            )),
            _ => Ok(step),
        });
        steps.push(step.map_err(|problem| format!("line {number}: {problem}"))?);
    }
    if steps.is_empty() {
        return Err(
            "contains no rate steps: each line must contain a time in seconds and a rate in bits per second"
                .into(),
        );
    }
    Ok(steps)
}

/// Returns the unit of the rate column if `fields` contains column names.
fn header(fields: &[&str]) -> Option<&'static str> {
    let [time, rate] = fields else { return None };
    let units = ["bps", "kbps", "Mbps", "Gbps"].into_iter();
    let mut named = units.filter(|unit| rate.eq_ignore_ascii_case(&format!("rate_{unit}")));
    named.next().filter(|_| *time == "time_s")
}

/// Parses one line. A time without a unit is in seconds, and a rate without a unit is in `unit`.
fn step(fields: &[&str], unit: &str) -> Result<(Span, Rate), String> {
    let [at, rate] = fields else {
        return Err(format!("must have 2 columns, a time and a rate (got {})", fields.len()));
    };
    let with_unit = |text: &str, unit: &str| match text.parse::<f64>() {
        Ok(_) => format!("{text}{unit}"),
        Err(_) => text.to_owned(),
    };
    Ok((Span::parse(&with_unit(at, "s"))?, RateOrZero::parse(&with_unit(rate, unit))?.or_zero()))
}

/// A rate and, if the rate is not zero, the transmission time of a byte.
#[derive(Clone, Copy, Debug)]
struct Speed {
    rate: Rate,
    pace: Option<Pace>,
}

impl Speed {
    fn of(rate: Rate) -> Self {
        Self { rate, pace: (rate != Rate::default()).then(|| rate.pace()) }
    }

    const NONE: Self = Self { rate: Rate::from_bps(0), pace: None };
}

/// The rates of a transmitter.
#[derive(Clone, Debug)]
pub(super) struct Rates(Steps<Speed>);

/// Transmission time of one bit at 1 bit/s, in nanoseconds.
const NANOS: u128 = 1_000_000_000;

impl Rates {
    pub(super) fn new(rate: Rate, steps: Vec<(Span, Rate)>, repeat: Option<Span>) -> Self {
        // If all steps have the same rate, repeating the steps would not change the rate.
        let repeat = repeat.filter(|_| steps.iter().any(|step| step.1 != steps[0].1));
        let steps: Vec<_> = steps.into_iter().map(|(at, rate)| (at, Speed::of(rate))).collect();
        Self(Steps::new(Speed::of(rate), steps, repeat))
    }

    /// Returns the rate at `now`, which may be any time in the run.
    pub(super) fn rate_at(&self, now: Instant) -> Rate {
        self.0.value_at(now).rate
    }

    /// Returns the steps in chronological order. The iterator is infinite if the steps repeat.
    pub(super) fn steps(&self) -> impl Iterator<Item = (Instant, Rate)> {
        self.0.steps().map(|(at, speed)| (at, speed.rate))
    }

    pub(super) fn peak(&self) -> Rate {
        self.0.values().map(|speed| speed.rate).max().unwrap_or_default()
    }

    /// Returns the speed at `now`, and a time until which the speed is certain not to change.
    #[inline]
    fn at(&mut self, now: Instant, outages: &mut Outages) -> (Speed, Instant) {
        let (speed, until) = self.0.at(now);
        if speed.pace.is_none() {
            return (speed, until);
        }
        match outages.at(now) {
            (true, up) => (Speed::NONE, up),
            (false, down) => (speed, until.min(down)),
        }
    }

    /// Returns the earliest time, at or after `now`, at which the rate is not zero.
    pub(super) fn ready(&mut self, mut now: Instant, outages: &mut Outages) -> Instant {
        loop {
            let (speed, until) = self.at(now, outages);
            if speed.pace.is_some() || until == Instant::NEVER {
                return if speed.pace.is_some() { now } else { Instant::NEVER };
            }
            now = until;
        }
    }

    pub(super) fn transmit(&mut self, start: Instant, bytes: u64, outages: &mut Outages) -> Instant {
        let (speed, until) = self.at(start, outages);
        if let Some(pace) = speed.pace {
            let end = start + pace.time_for(bytes);
            if end <= until {
                return end;
            }
        }
        // The unit is 1e-9 bits, so that all quantities are whole numbers at any rate.
        let mut left = 8 * u128::from(bytes) * NANOS;
        let (mut now, mut speed, mut until) = (start, speed, until);
        loop {
            let bps = u128::from(speed.rate.bps());
            let takes = (left + bps / 2).checked_div(bps).and_then(|nanos| u64::try_from(nanos).ok());
            if let Some(takes) = takes.filter(|&nanos| now + Span::from_nanos(nanos) <= until) {
                return now + Span::from_nanos(takes);
            }
            if until == Instant::NEVER {
                return Instant::NEVER;
            }
            left = left.saturating_sub(bps * u128::from(until.since(now).nanos()));
            now = until;
            (speed, until) = self.at(now, outages);
        }
    }

    /// Returns the number of bits that can be sent between two times.
    pub(super) fn bits(&mut self, outages: &mut Outages, [from, to]: [Instant; 2]) -> f64 {
        let (mut now, mut sum) = (from, 0.0);
        while now < to {
            let (speed, until) = self.at(now, outages);
            sum += speed.rate.bps() as f64 * until.min(to).since(now).seconds();
            now = until;
        }
        sum
    }
}
