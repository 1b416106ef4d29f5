//! A generated trace with the published properties of a real trace. The source is the talk by J. Roberts with J. Augé,
//! "Fair queueing and congestion control", 2005, which describes a trace of an OC-48 link in the Abilene network. In
//! this trace, the utilisation of the link is 16 %, flow rates are between 10 kb/s and 10 Mb/s, and about 7000 flows
//! are in progress.
//!
//! aqmlab's choices, where the source is silent:
//! - Flows arrive as a Poisson process. By default, sizes follow a power law. Sizes are independent of rates.
//! - Flow rates follow a power law between their bounds. The exponent of the power law is determined by the utilisation
//!   u, the link rate C and the mean number N of flows in progress: by Little's law, N = u C E[1/rate]. With the
//!   published numbers, the distribution is nearly log-uniform.
//! - A flow sends packets of equal size at a constant rate.
//! - The trace is stationary from the start: at time zero, the number of flows in progress has a Poisson distribution.
//!   The sizes and rates of these flows are weighted by the durations of the flows (size-biased sizes), and the
//!   fraction of a flow that has already been sent is uniformly distributed.

use aqm_net::{ConfigError, Instant, Rate, Rng, Size, Span, Streams, parameters};
use aqm_traffic::distributions::power_law::{self, PowerLaw};
use aqm_traffic::distributions::{self, Amount, Distribution as _, Exponential, Sizes};
use serde_json::{Value, json};

use crate::flows::{Flow, Flows, MAX_PACKET, MIN_PACKET, Merge};
use crate::packets::{Arrival, Build, Packets, TraceSummary};
use aqm_net::level::Failure;
use aqm_net::watch::{Unit, Watch};

/// Rate of an OC-48 link.
pub(crate) const OC48: Rate = Rate::from_bps(2_488_320_000);

parameters! {
    /// A generated trace with the published properties of a real trace: flows with heavy-tailed sizes arrive as a
    /// Poisson process, and each flow is sent at its own constant rate.
    pub struct Config {
        /// Duration of the trace.
        pub duration: Span = Span::from_millis(60_000), "aqmlab's choice";
        /// Rate of the link on which the real trace was captured.
        pub line_rate: Rate = OC48, "Roberts & Augé talk: OC-48";
        /// Mean utilisation of the link on which the real trace was captured.
        pub utilisation: f64 = 0.16, "Roberts & Augé talk";
        /// Mean number of flows in progress.
        pub flows: f64 = 7000.0, "Roberts & Augé talk";
        /// Rate of the slowest flow.
        pub slowest: Rate = Rate::from_bps(10_000), "Roberts & Augé talk";
        /// Rate of the fastest flow.
        pub fastest: Rate = Rate::from_bps(10_000_000), "Roberts & Augé talk";
        /// Sizes of flows.
        pub sizes: distributions::Config = flow_sizes(), "aqmlab's choice";
        /// Size of a packet in bytes, except for the last packet of a flow.
        pub packet: Size = Size::from_bytes(1000), "Roberts & Augé talk, packets of the simulations";
    }
}

/// Returns the default distribution of flow sizes, which range from a few packets to very many packets and have a heavy
/// tail, like the sizes of Web files.
fn flow_sizes() -> distributions::Config {
    distributions::Config::power_law(power_law::Config {
        exponent: 1.2,
        minimum: Some(Amount::bytes(4_000)),
        maximum: Some(Amount::bytes(100_000_000)),
    })
}

/// Maximum number of packets; a run with more packets would take days.
const MAX_PACKETS: f64 = 1e11;
/// Maximum number of flows in progress, because each flow needs memory.
const MAX_FLOWS: f64 = 1e7;

impl Config {
    fn distributions(&self) -> Result<Distributions, ConfigError> {
        ConfigError::unless(!self.duration.is_zero(), "duration", "must be greater than zero")?;
        let is_share = self.utilisation > 0.0 && self.utilisation <= 1.0;
        let problem = format_args!("must be above 0 and at most 1 (got {})", self.utilisation);
        ConfigError::unless(is_share, "utilisation", problem)?;
        let problem = format_args!("must be below `fastest`, which is {}", self.fastest);
        ConfigError::unless(self.slowest < self.fastest, "slowest", problem)?;
        let sizes = self.sizes.sizes(None).map_err(|error| error.within("sizes"))?;
        let problem = format_args!("must have a mean of at least {MIN_PACKET}B");
        ConfigError::unless(sizes.mean() >= MIN_PACKET as f64, "sizes", problem)?;
        check_packet(self.packet)?;
        let offered = self.utilisation * self.line_rate.bps() as f64;
        let (least, most) = (self.slowest.bps() as f64, self.fastest.bps() as f64);
        let rates = PowerLaw { exponent: 0.0, least, most };
        let [least, most] = rates.mean_inverses().map(|inverse| inverse * offered);
        let ends = [least, most.min(MAX_FLOWS)];
        let problem = format_args!(
            "must be between {:.0} and {:.0} (got {}), because the offered rate is {} and flow rates are between {} and {}",
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
        let problem = format_args!("would cause {packets:.0e} packets; the maximum is {MAX_PACKETS:.0e}");
        ConfigError::unless(packets <= MAX_PACKETS, "duration", problem)?;
        Ok(Distributions { rates, per_second: offered / 8.0 / sizes.mean(), sizes })
    }

    /// Returns the flows in ascending order of start times. For flows that are in progress at time zero, the result
    /// contains only the part that has not yet been sent.
    pub(crate) fn flows(&self, seed: u64) -> Result<Generated, ConfigError> {
        let distributions = self.distributions()?;
        let streams = Streams::new(seed);
        let mut generated = Generated {
            distributions,
            packet: self.packet.bytes() as u16,
            end: Instant::START + self.duration,
            initial: Vec::new(),
            arrival: 0.0,
            gaps: streams.named("trace/gaps", 0),
            sizes: streams.named("trace/sizes", 0),
            rates: streams.named("trace/rates", 0),
        };
        generated.draw_initial_flows(self.flows, &mut streams.named("trace/present", 0));
        Ok(generated)
    }
}

/// Checks the parameter `packet`.
pub(crate) fn check_packet(packet: Size) -> Result<(), ConfigError> {
    if (MIN_PACKET..=MAX_PACKET).contains(&packet.bytes()) {
        return Ok(());
    }
    let problem = format!("must be between {MIN_PACKET}B and {MAX_PACKET}B (got {packet})");
    Err(ConfigError::at("packet", problem))
}

impl Build for Config {
    fn check(&self) -> Result<(), ConfigError> {
        self.distributions().map(|_| ())
    }

    fn open<'a>(&self, seed: u64, watch: &'a Watch) -> Result<Box<dyn Packets + 'a>, Failure> {
        let flows = self.flows(seed).map_err(Failure::Config)?;
        watch.expect(self.duration.nanos(), Unit::Nanoseconds);
        let facts = json!({
            "kind": "generated",
            "flows_per_second": flows.distributions.per_second,
            "mean_flow_bytes": flows.distributions.sizes.mean(),
            "rate_exponent": flows.distributions.rates.exponent,
        });
        Ok(Box::new(GeneratedPackets { merge: Merge::new(flows)?, watch, facts }))
    }
}

/// The distributions from which a trace is generated.
#[derive(Clone, Debug)]
struct Distributions {
    /// Rates in bits per second.
    rates: PowerLaw,
    /// Sizes in bytes.
    sizes: Sizes,
    /// Number of flows that arrive per second.
    per_second: f64,
}

/// Flows that are generated on demand.
pub(crate) struct Generated {
    distributions: Distributions,
    packet: u16,
    end: Instant,
    /// Flows in progress at time zero, in descending order of the times of their first remaining packets.
    initial: Vec<Flow>,
    /// Arrival time of the last flow, in seconds.
    arrival: f64,
    gaps: Rng,
    sizes: Rng,
    rates: Rng,
}

impl Generated {
    /// Draws the flows in progress at time zero. The number of these flows has a Poisson distribution with the mean
    /// `mean`.
    fn draw_initial_flows(&mut self, mean: f64, rng: &mut Rng) {
        let step = Exponential { mean: 1.0 };
        let rates = self.distributions.rates.weighted(-1.0);
        let mut sum = step.sample(rng);
        while sum < mean {
            sum += step.sample(rng);
            let bytes = self.distributions.sizes.sample_size_biased(rng).max(MIN_PACKET);
            let rate = whole(rates.sample(rng));
            let progress = rng.uniform() * bytes as f64;
            let packet = f64::from(self.packet);
            let next = libm::ceil(progress / packet) * packet;
            // A flow whose last packet has already been sent has nothing left to send.
            if next < bytes as f64 {
                let start = Instant::START + Span::from_seconds((next - progress) * 8.0 / rate as f64);
                let (bytes, rate) = (bytes - next as u64, Rate::from_bps(rate));
                self.initial.push(Flow { start, bytes, rate, packet: self.packet });
            }
        }
        self.initial.sort_by_key(|flow| std::cmp::Reverse(flow.start));
    }

    fn new_flow(&mut self, start: Instant) -> Flow {
        let bytes = self.distributions.sizes.sample(&mut self.sizes).max(MIN_PACKET);
        let rate = Rate::from_bps(whole(self.distributions.rates.sample(&mut self.rates)));
        Flow { start, bytes, rate, packet: self.packet }
    }

    fn gap(&mut self) -> f64 {
        Exponential { mean: 1.0 / self.distributions.per_second }.sample(&mut self.gaps)
    }
}

/// Rounds a positive number to an integer.
fn whole(value: f64) -> u64 {
    (value + 0.5) as u64
}

impl Generated {
    /// Returns the flow without the packets that would be sent after the end of the trace.
    pub(crate) fn truncate(&self, flow: Flow) -> Flow {
        let pace = flow.rate.pace();
        let packet = u64::from(flow.packet);
        let sends = |packets: u64| flow.start + pace.time_for(packets * packet) <= self.end;
        let seconds = self.end.since(flow.start).seconds();
        // The number of packets before the end of the trace, which may be inaccurate because of rounding.
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
        if self.initial.last().is_some_and(|flow| flow.start <= start) {
            return Ok(self.initial.pop().filter(|flow| flow.start <= self.end));
        }
        if start > self.end {
            return Ok(None);
        }
        self.arrival += self.gap();
        Ok(Some(self.new_flow(start)))
    }
}

/// The packets of all flows, up to the end of the trace.
struct GeneratedPackets<'a> {
    merge: Merge<Generated>,
    watch: &'a Watch,
    facts: Value,
}

impl Packets for GeneratedPackets<'_> {
    fn next(&mut self) -> Result<Option<Arrival>, Failure> {
        let arrival = self.merge.next()?.filter(|arrival| arrival.at <= self.merge.flows.end);
        if let Some(Arrival { at, .. }) = arrival {
            self.watch.reach(at.nanos());
        }
        Ok(arrival)
    }

    fn close(mut self: Box<Self>) -> Result<TraceSummary, Failure> {
        self.facts["flows"] = self.merge.flow_count().into();
        Ok(TraceSummary { facts: self.facts, ..TraceSummary::default() })
    }
}
