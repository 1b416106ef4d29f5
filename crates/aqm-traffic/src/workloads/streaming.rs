//! Streaming: flows of datagrams that arrive at random times. Each flow sends its data at a peak rate, regardless of
//! losses and delays, in the same way as flows with `service = "streaming"` at flow level.
//!
//! Source: the background traffic of J. Roberts' talk with J. Augé, "Fair queueing and congestion control", 2005:
//! "Poisson flows" with a peak rate of 1 Mb/s. Together, the flows are the input of a fluid queue that is modulated by
//! an M/G/∞ process.
//!
//! aqmlab's choices, where the source is silent: sizes are in bytes on the wire; the gaps between datagrams are equal;
//! the first datagram is sent when the flow arrives; the last datagram contains only the remaining data. If the
//! datagrams of several flows are due at the same time, the oldest flow sends first.

use std::collections::BTreeMap;

use aqm_net::{ConfigError, Ecn, Instant, Rate, Rng, Size, Span, parameters};

use crate::datagram_ecn::DatagramEcn;
use crate::distributions::{self, Amount, Sizes, Times, exponential};
use crate::even_gaps::{EvenGaps, RoundingError};
use crate::parameters::{MAX_BYTES, Period, check_datagrams, check_link_header, check_load, check_transfers};
use crate::{Build, BuildContext, TrafficContext, Workload};

parameters! {
    /// Streaming: flows of datagrams that arrive at random times and send at a peak rate until all of their data have
    /// been sent.
    pub struct Config {
        /// Total offered load of all flows, as a fraction of the bottleneck's rate.
        pub load: f64 = 0.5, "Roberts & Augé talk: half of the link";
        /// Peak rate at which each flow sends, including headers.
        pub rate: Rate = Rate::from_bps(1_000_000), "Roberts & Augé talk";
        /// Amount of data per flow, including headers.
        pub sizes: distributions::Config =
            distributions::Config::exponential(exponential::Config::of(Amount::bytes(100_000))),
            "aqmlab's choice: the talk does not specify the sizes";
        /// Gaps between the starts of successive flows. The mean gap is determined by the load.
        pub gaps: distributions::Config = distributions::Config::exponential(exponential::Config::default()),
            "Roberts & Augé talk: Poisson flows";
        /// Size of a datagram on the wire, including headers. The last datagram of a flow may be shorter.
        pub packet: Size = Size::from_bytes(1000), "as `udp`";
        /// Start of the gap that precedes the first flow.
        pub start: Span = Span::ZERO, "aqmlab's choice";
        /// Time after which no flow begins; by default, the end of the run.
        pub stop: Option<Span> = None, "aqmlab's choice";
        /// ECN bits of the datagrams.
        #[serde(flatten)]
        pub ecn: DatagramEcn = DatagramEcn::default();
    }
}

impl Build for Config {
    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn Workload>, ConfigError> {
        check_load(self.load)?;
        if !(1..=MAX_BYTES).contains(&self.packet.bytes()) {
            let problem = format!("must be between 1B and {MAX_BYTES}B (got {})", self.packet);
            return Err(ConfigError::at("packet", problem));
        }
        check_link_header(self.packet.bytes(), "packet", context)?;
        let sizes = self.sizes.sizes(None).map_err(|error| error.within("sizes"))?;
        let period = Period::new(self.start, self.stop, context.duration)?;
        let bytes_per_second = self.load * context.rate.bytes_per_second();
        let flows_per_second = bytes_per_second / sizes.mean();
        let expected = flows_per_second * period.seconds();
        check_transfers(expected, "load", "reduce `load`, or use larger flows")?;
        // Each flow has at least one datagram.
        let datagrams = expected + bytes_per_second * period.seconds() / self.packet.bytes() as f64;
        check_datagrams(datagrams, "load")?;
        let gaps = self.gaps.times_with_mean(1e9 / flows_per_second).map_err(|error| error.within("gaps"))?;
        let stream = |purpose| context.streams.named(&format!("{}/{purpose}", context.name), 0);
        Ok(Box::new(Streaming {
            pace: EvenGaps::new(self.packet.bytes(), self.rate.bps()),
            packet: self.packet.bytes(),
            ecn: self.ecn.bits()?,
            load: self.load,
            gaps,
            arrivals: stream("arrivals"),
            sizes,
            sizes_rng: stream("sizes"),
            next: period.start,
            begun: 0,
            sending: BTreeMap::new(),
            period,
            rate: context.rate,
            offered_bytes: 0,
        }))
    }

    fn sends_datagrams(&self) -> bool {
        true
    }

    fn own_hosts(&self) -> bool {
        false
    }
}

/// The running workload.
#[derive(Clone)]
struct Streaming {
    /// Gaps between consecutive datagrams of a flow.
    pace: EvenGaps,
    packet: u64,
    ecn: Ecn,
    load: f64,
    /// Time from the start of a flow to the start of the next flow.
    gaps: Times,
    arrivals: Rng,
    sizes: Sizes,
    sizes_rng: Rng,
    /// Arrival time of the next flow.
    next: Instant,
    /// Number of flows that have arrived.
    begun: u32,
    /// Flows in progress, sorted by the time of their next datagram and then by their number.
    sending: BTreeMap<(Instant, u32), Flow>,
    period: Period,
    rate: Rate,
    offered_bytes: u64,
}

/// A flow in progress.
#[derive(Clone)]
struct Flow {
    /// Remaining bytes.
    left: u64,
    /// Accumulated rounding error.
    error: RoundingError,
}

impl Workload for Streaming {
    fn start(&mut self, cx: &mut dyn TrafficContext) {
        self.wait();
        self.sleep(cx);
    }

    fn on_wake(&mut self, cx: &mut dyn TrafficContext) {
        let now = cx.now();
        while self.next <= now && self.next < self.period.end {
            let left = self.sizes.sample(&mut self.sizes_rng);
            self.offered_bytes += left;
            self.sending.insert((self.next, self.begun), Flow { left, error: self.pace.initial_error() });
            self.begun += 1;
            self.wait();
        }
        while let Some(entry) = self.sending.first_entry() {
            let (at, number) = *entry.key();
            if at > now {
                break;
            }
            let mut flow = entry.remove();
            let bytes = flow.left.min(self.packet);
            cx.datagram(number, bytes as u16, self.ecn);
            flow.left -= bytes;
            if flow.left > 0 {
                let next = at + self.pace.next(&mut flow.error);
                self.sending.insert((next, number), flow);
            }
        }
        self.sleep(cx);
    }

    /// Passes facts about the workload to `show`. The realised load counts the flows that have arrived and is therefore
    /// complete only at the end of the run.
    fn facts(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("nominal_load", self.load);
        show("flows", f64::from(self.begun));
        show("mean_size_bytes", self.sizes.mean());
        show("realised_load", self.period.load(self.offered_bytes, self.rate));
    }
}

impl Streaming {
    /// Draws the arrival time of the next flow.
    fn wait(&mut self) {
        self.next += self.gaps.sample_span(&mut self.arrivals);
    }

    fn sleep(&self, cx: &mut dyn TrafficContext) {
        let datagram = self.sending.keys().next().map(|&(at, _)| at);
        let flow = (self.next < self.period.end).then_some(self.next);
        if let Some(at) = datagram.into_iter().chain(flow).min() {
            cx.wake_at(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{RecordingContext, context, distance, fact, gaps, run, seconds};
    use serde_json::{Value, json};

    fn recording(config: &Config, seed: u64) -> RecordingContext {
        run(&mut *config.build(&context(seed, 1000)).unwrap())
    }

    /// Returns the times and sizes of the datagrams of each flow.
    fn flows(recording: &RecordingContext) -> Vec<Vec<(Instant, u16)>> {
        let mut flows = Vec::new();
        for &(at, number, bytes, _) in &recording.sent {
            if flows.len() == number as usize {
                flows.push(Vec::new());
            }
            flows[number as usize].push((at, bytes));
        }
        flows
    }

    fn distribution(table: Value) -> distributions::Config {
        distributions::Config::read(table).unwrap()
    }

    fn constant(size: &str) -> distributions::Config {
        distribution(json!({ "kind": "constant", "value": size }))
    }

    #[test]
    fn flows_come_as_a_poisson_process_with_exponential_sizes() {
        // At 5 Mb/s and 100 kB per flow, 6.25 flows arrive per second.
        let recording = recording(&Config::default(), 1);
        let flows = flows(&recording);
        let starts = seconds(flows.iter().map(|flow| flow[0].0));
        assert!((starts.len() as f64 - 6250.0).abs() < 3.0 * 79.0, "{}", starts.len());
        assert!(distance(gaps(&starts), |x| 1.0 - libm::exp(-6.25 * x)) < 1.63);
        let bytes = flows.iter().map(|flow| flow.iter().map(|sent| f64::from(sent.1)).sum()).collect();
        assert!(distance(bytes, |x: f64| 1.0 - libm::exp(-x / 100_000.0)) < 1.63);
    }

    #[test]
    fn a_flow_sends_at_its_peak_rate_until_it_has_sent_all() {
        let config = Config { sizes: constant("2500B"), ..Config::default() };
        for flow in flows(&recording(&config, 2)) {
            let sent: Vec<(u64, u16)> =
                flow.iter().map(|&(at, bytes)| (at.since(flow[0].0).nanos(), bytes)).collect();
            assert_eq!(sent, [(0, 1000), (8_000_000, 1000), (16_000_000, 500)]);
        }
    }

    #[test]
    fn the_load_is_the_one_given_whatever_the_sizes() {
        let exponential = Config::default().sizes;
        for sizes in [constant("100kB"), exponential] {
            let config = Config { sizes, ..Config::default() };
            let mut workload = config.build(&context(3, 1000)).unwrap();
            let sent: f64 = run(&mut *workload).sent.iter().map(|sent| f64::from(sent.2)).sum();
            let realised = fact(&*workload, "realised_load");
            assert!((realised / 0.5 - 1.0).abs() < 0.06, "{config:?}: {realised}");
            assert!((sent / 1.25e9 / realised - 1.0).abs() < 1e-9);
            assert_eq!(fact(&*workload, "nominal_load"), 0.5);
        }
    }

    #[test]
    fn arrivals_do_not_depend_on_sizes_and_rate() {
        let starts = |config: &Config| -> Vec<Instant> {
            flows(&recording(config, 4)).iter().map(|flow| flow[0].0).collect()
        };
        let slow = Config { sizes: constant("100kB"), rate: Rate::from_bps(300_000), ..Config::default() };
        assert_eq!(starts(&Config::default()), starts(&slow));
    }

    #[test]
    fn no_flow_begins_outside_of_start_and_stop() {
        let (start, stop) = (Span::from_millis(4000), Some(Span::from_millis(9000)));
        let recording = recording(
            &Config {
                start,
                stop,
                ecn: DatagramEcn { ecn: true, ..DatagramEcn::default() },
                ..Config::default()
            },
            5,
        );
        let starts = seconds(flows(&recording).iter().map(|flow| flow[0].0));
        assert!(starts.len() > 10 && starts.iter().all(|at| (4.0..9.0).contains(at)), "{starts:?}");
        assert!(recording.sent.iter().all(|sent| sent.3 == Ecn::Ect0));
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        let error = |config: Config| config.build(&context(1, 100)).err().unwrap().path;
        assert_eq!(error(Config { load: 0.0, ..Config::default() }), "load");
        assert_eq!(error(Config { sizes: constant("0B"), ..Config::default() }), "sizes.value");
        assert_eq!(error(Config { sizes: constant("4p"), ..Config::default() }), "sizes.value");
        let gaps = distribution(json!({ "kind": "exponential", "mean": "1s" }));
        assert_eq!(error(Config { gaps, ..Config::default() }), "gaps.mean");
        for bytes in [0, 65_536] {
            assert_eq!(error(Config { packet: Size::from_bytes(bytes), ..Config::default() }), "packet");
        }
        assert_eq!(error(Config { stop: Some(Span::ZERO), ..Config::default() }), "stop");
        assert_eq!(error(Config { sizes: constant("1B"), ..Config::default() }), "load");
    }
}
