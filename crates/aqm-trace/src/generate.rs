//! A made-up trace with the published properties of one: the OC-48 link of the Abilene network that the talk
//! of J. Roberts with J. Augé, "Fair queueing and congestion control", 2005, shows: 16 % utilisation,
//! flow rates between 10 kb/s and 10 Mb/s, about 7000 flows in progress.
//!
//! Ours, where the source is silent:
//! - Flows come as a Poisson process. Sizes follow a power law by default and do not depend on rates.
//! - Rates have a power law between their ends, with the exponent that makes the utilisation u of a line C
//!   and the flows in progress N agree: by Little's law N = u C E[1/rate]. With the published numbers it is
//!   nearly log-uniform.
//! - A flow sends evenly at its rate, packets of one size.
//! - The trace is stationary from the beginning: at time zero there are Poisson many flows in progress,
//!   with size and rate weighted by the time they last (size-biased sizes), at a uniform place of their way.

use aqm_net::{ConfigError, Instant, Rate, Rng, Size, Span, Streams, parameters};
use aqm_traffic::distributions::power_law::{self, PowerLaw};
use aqm_traffic::distributions::{self, Amount, Distribution as _, Exponential, Sizes};
use serde_json::{Value, json};

use crate::flows::{Flow, Flows, LEAST_PACKET, MOST_PACKET, Merge};
use crate::packets::{Arrival, Build, Found, Packets};
use aqm_net::stage::Failure;
use aqm_net::watch::{Unit, Watch};

/// The line rate of OC-48.
pub(crate) const OC48: Rate = Rate::from_bps(2_488_320_000);

parameters! {
    /// A made-up trace with published properties, no capture: Poisson arrivals of flows with heavy-tailed
    /// sizes, each sent evenly at a rate of its own.
    pub struct Config {
        /// How long the trace is.
        pub duration: Span = Span::from_millis(60_000), "aqmlab's choice";
        /// The rate of the line it is as if taken from.
        pub line_rate: Rate = OC48, "Roberts & Augé talk: OC-48";
        /// The share of that line that it fills on average.
        pub utilisation: f64 = 0.16, "Roberts & Augé talk";
        /// How many flows are in progress on average.
        pub flows: f64 = 7000.0, "Roberts & Augé talk";
        /// The rate of the slowest flow.
        pub slowest: Rate = Rate::from_bps(10_000), "Roberts & Augé talk";
        /// The rate of the fastest flow.
        pub fastest: Rate = Rate::from_bps(10_000_000), "Roberts & Augé talk";
        /// How large flows are.
        pub sizes: distributions::Config = flow_sizes(), "aqmlab's choice";
        /// Bytes of a packet, but for the last of a flow.
        pub packet: Size = Size::from_bytes(1000), "Roberts & Augé talk, packets of the simulations";
    }
}

/// A heavy tail, as that of Web files, between few packets and many.
fn flow_sizes() -> distributions::Config {
    distributions::Config::power_law(power_law::Config {
        exponent: 1.2,
        minimum: Some(Amount::bytes(4_000)),
        maximum: Some(Amount::bytes(100_000_000)),
    })
}

/// More packets than this take days.
const MOST_PACKETS: f64 = 1e11;
/// More flows in progress than this fill any memory.
const MOST_FLOWS: f64 = 1e7;

impl Config {
    fn checked(&self) -> Result<Checked, ConfigError> {
        ConfigError::unless(!self.duration.is_zero(), "duration", "must be more than 0s")?;
        let is_share = self.utilisation > 0.0 && self.utilisation <= 1.0;
        let problem = format_args!("must be above 0 and at most 1, is {}", self.utilisation);
        ConfigError::unless(is_share, "utilisation", problem)?;
        let problem = format_args!("must be below `fastest`, {}", self.fastest);
        ConfigError::unless(self.slowest < self.fastest, "slowest", problem)?;
        let sizes = self.sizes.sizes(None).map_err(|error| error.within("sizes"))?;
        let problem = format_args!("must be at least {LEAST_PACKET}B on average");
        ConfigError::unless(sizes.mean() >= LEAST_PACKET as f64, "sizes", problem)?;
        check_packet(self.packet)?;
        let offered = self.utilisation * self.line_rate.bps() as f64;
        let (least, most) = (self.slowest.bps() as f64, self.fastest.bps() as f64);
        let rates = PowerLaw { exponent: 0.0, least, most };
        let [least, most] = rates.mean_inverses().map(|inverse| inverse * offered);
        let ends = [least, most.min(MOST_FLOWS)];
        let problem = format_args!(
            "must be between {:.0} and {:.0}, is {}: {} at rates between {} and {} are so many flows",
            libm::ceil(ends[0]),
            libm::floor(ends[1]),
            self.flows,
            Rate::from_bps(offered as u64),
            self.slowest,
            self.fastest
        );
        ConfigError::unless(self.flows >= ends[0] && self.flows <= ends[1], "flows", problem)?;
        let rates = rates.with_mean_inverse(self.flows / offered);
        let packets = offered / 8.0 * self.duration.seconds() / self.packet.bytes() as f64;
        let problem = format_args!("makes {packets:.0e} packets; at most {MOST_PACKETS:.0e} are allowed");
        ConfigError::unless(packets <= MOST_PACKETS, "duration", problem)?;
        Ok(Checked { rates, per_second: offered / 8.0 / sizes.mean(), sizes })
    }

    /// The flows in the order of their start, those in progress at time zero with what is left of them.
    pub(crate) fn flows(&self, seed: u64) -> Result<Generated, ConfigError> {
        let checked = self.checked()?;
        let streams = Streams::new(seed);
        let mut generated = Generated {
            checked,
            packet: self.packet.bytes() as u16,
            end: Instant::START + self.duration,
            present: Vec::new(),
            arrival: 0.0,
            gaps: streams.named("trace/gaps", 0),
            sizes: streams.named("trace/sizes", 0),
            rates: streams.named("trace/rates", 0),
        };
        generated.settle(self.flows, &mut streams.named("trace/present", 0));
        Ok(generated)
    }
}

/// Checks a parameter `packet`.
pub(crate) fn check_packet(packet: Size) -> Result<(), ConfigError> {
    if (LEAST_PACKET..=MOST_PACKET).contains(&packet.bytes()) {
        return Ok(());
    }
    let problem = format!("must be between {LEAST_PACKET}B and {MOST_PACKET}B, is {packet}");
    Err(ConfigError::at("packet", problem))
}

impl Build for Config {
    fn check(&self) -> Result<(), ConfigError> {
        self.checked().map(|_| ())
    }

    fn open<'a>(&self, seed: u64, watch: &'a Watch) -> Result<Box<dyn Packets + 'a>, Failure> {
        let flows = self.flows(seed).map_err(Failure::Config)?;
        watch.expect(self.duration.nanos(), Unit::Nanoseconds);
        let facts = json!({
            "kind": "generated",
            "flows_per_second": flows.checked.per_second,
            "mean_flow_bytes": flows.checked.sizes.mean(),
            "rate_exponent": flows.checked.rates.exponent,
        });
        Ok(Box::new(Sent { merge: Merge::new(flows)?, watch, facts }))
    }
}

/// What a trace is drawn from.
#[derive(Clone, Debug)]
struct Checked {
    /// In bits per second.
    rates: PowerLaw,
    /// In bytes.
    sizes: Sizes,
    /// How many flows begin.
    per_second: f64,
}

/// Flows that are made up as they are asked for.
pub(crate) struct Generated {
    checked: Checked,
    packet: u16,
    end: Instant,
    /// Those in progress at time zero, the last to begin first.
    present: Vec<Flow>,
    /// When the last flow came, in seconds.
    arrival: f64,
    gaps: Rng,
    sizes: Rng,
    rates: Rng,
}

impl Generated {
    /// Draws the flows in progress at time zero, Poisson with this mean.
    fn settle(&mut self, mean: f64, rng: &mut Rng) {
        let step = Exponential { mean: 1.0 };
        let rates = self.checked.rates.weighted(-1.0);
        let mut sum = step.sample(rng);
        while sum < mean {
            sum += step.sample(rng);
            let bytes = self.checked.sizes.sample_size_biased(rng).max(LEAST_PACKET);
            let rate = whole(rates.sample(rng));
            let behind = rng.uniform() * bytes as f64;
            let packet = f64::from(self.packet);
            let next = libm::ceil(behind / packet) * packet;
            // In the gap after its last packet nothing is left of a flow.
            if next < bytes as f64 {
                let start = Instant::START + Span::from_seconds((next - behind) * 8.0 / rate as f64);
                let (bytes, rate) = (bytes - next as u64, Rate::from_bps(rate));
                self.present.push(Flow { start, bytes, rate, packet: self.packet });
            }
        }
        self.present.sort_by_key(|flow| std::cmp::Reverse(flow.start));
    }

    fn new_flow(&mut self, start: Instant) -> Flow {
        let bytes = self.checked.sizes.sample(&mut self.sizes).max(LEAST_PACKET);
        let rate = Rate::from_bps(whole(self.checked.rates.sample(&mut self.rates)));
        Flow { start, bytes, rate, packet: self.packet }
    }

    fn gap(&mut self) -> f64 {
        Exponential { mean: 1.0 / self.checked.per_second }.sample(&mut self.gaps)
    }
}

/// A positive number without its fraction.
fn whole(value: f64) -> u64 {
    (value + 0.5) as u64
}

impl Generated {
    /// What is left of a flow if it sends nothing after the end of the trace.
    pub(crate) fn truncate(&self, flow: Flow) -> Flow {
        let pace = flow.rate.pace();
        let packet = u64::from(flow.packet);
        let sends = |packets: u64| flow.start + pace.time_for(packets * packet) <= self.end;
        let seconds = self.end.since(flow.start).seconds();
        // The first that may come too late, give or take rounding.
        let mut packets = (seconds * flow.rate.bytes_per_second() / packet as f64) as u64;
        while sends(packets) {
            packets += 1;
        }
        while packets > 1 && !sends(packets - 1) {
            packets -= 1;
        }
        Flow { bytes: flow.bytes.min(packets * packet), ..flow }
    }
}

impl Flows for Generated {
    fn next(&mut self) -> Result<Option<Flow>, Failure> {
        if self.arrival == 0.0 {
            self.arrival = self.gap();
        }
        let start = Instant::START + Span::from_seconds(self.arrival);
        if self.present.last().is_some_and(|flow| flow.start <= start) {
            return Ok(self.present.pop().filter(|flow| flow.start <= self.end));
        }
        if start > self.end {
            return Ok(None);
        }
        self.arrival += self.gap();
        Ok(Some(self.new_flow(start)))
    }
}

/// The packets of the flows, up to the end of the trace.
struct Sent<'a> {
    merge: Merge<Generated>,
    watch: &'a Watch,
    facts: Value,
}

impl Packets for Sent<'_> {
    fn next(&mut self) -> Result<Option<Arrival>, Failure> {
        let arrival = self.merge.next()?.filter(|arrival| arrival.at <= self.merge.flows.end);
        if let Some(Arrival { at, .. }) = arrival {
            self.watch.reach(at.nanos());
        }
        Ok(arrival)
    }

    fn close(mut self: Box<Self>) -> Result<Found, Failure> {
        self.facts["flows"] = self.merge.begun().into();
        Ok(Found { facts: self.facts, ..Found::default() })
    }
}
