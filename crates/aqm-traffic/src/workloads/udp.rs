//! Datagrams ("UDP"): flows that send at a fixed rate, with equal or random gaps, and do not react to congestion.
//!
//! With Poisson gaps and exponential sizes, a queue in front of a link is an M/M/1 system; with Poisson gaps and equal
//! sizes, it is an M/D/1 system; with equal gaps and equal sizes, it is a ΣD/D/1 system (L. Kleinrock, "Queueing
//! Systems", 1975).
//!
//! aqmlab's choices: in a flow with equal gaps, the k-th datagram after the first datagram is sent k gaps after the
//! first datagram, rounded to a nanosecond, so that rounding errors do not accumulate. With random gaps, the first
//! datagram is sent one gap after the start. Sizes are rounded to whole bytes and limited to the range from 1 to 65535.
//! If the datagrams of several flows are due at the same time, the flow with the lowest number sends first. `stagger`
//! delays the end of a flow by the same time as its start, so that the length of a burst does not change.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use aqm_net::{ConfigError, Ecn, Instant, Rate, Rng, Span, choices, parameters};

use crate::datagram_ecn::DatagramEcn;
use crate::description::Application;
use crate::distributions::{self, Amount, Distribution as _, Sizes, Times, Uniform, constant};
use crate::even_gaps::{EvenGaps, RoundingError};
use crate::parameters::{
    Hosts, MAX_BYTES, Period, check_datagrams, check_flows, check_link_header, check_load, start_offset,
};
use crate::{Build, BuildContext, TrafficContext, Workload};

choices! {
    /// Time at which a flow with constant gaps sends its first datagram.
    pub enum Phase {
        /// The first datagram is sent at a random time within one gap after the start.
        Random = "random",
        /// The first datagram is sent at the start.
        Zero = "zero",
    }
}

parameters! {
    /// Datagrams ("UDP"), sent at a rate that does not depend on the network.
    pub struct Config {
        /// Number of flows.
        pub flows: u32 = 1, "aqmlab's choice";
        /// Rate of each flow, including headers. Set either `rate` or `load`.
        pub rate: Option<Rate> = None, "no default: either `rate` or `load` is required";
        /// Total offered load of all flows, as a fraction of the bottleneck's rate. Set either `load` or `rate`.
        pub load: Option<f64> = None, "no default: either `rate` or `load` is required";
        /// Sizes of datagrams on the wire, including headers.
        pub sizes: distributions::Config =
            distributions::Config::constant(constant::Config::of(Amount::bytes(1000))),
            "aqmlab's choice: as in the ns-2 runs";
        /// Gaps between consecutive datagrams of a flow. The mean gap is determined by the rate. If the gaps are
        /// `exponential`, each flow is a Poisson process.
        pub gaps: distributions::Config = distributions::Config::constant(constant::Config::default()), "aqmlab's choice";
        /// Time at which a flow with constant gaps sends its first datagram.
        pub phase: Phase = Phase::Random, "aqmlab's choice: flows must not be synchronised";
        /// Earliest start of a flow.
        pub start: Span = Span::ZERO, "aqmlab's choice";
        /// Length of the interval after `start` in which flows begin at random times. The end of each flow is delayed
        /// by the same time as its start.
        pub stagger: Span = Span::ZERO, "aqmlab's choice";
        /// Time at which a flow that begins at `start` stops; by default, the flow sends for `lasts` or until the end
        /// of the run.
        pub stop: Option<Span> = None, "aqmlab's choice";
        /// Time for which each flow sends. Set either `lasts` or `stop`.
        pub lasts: Option<Span> = None, "aqmlab's choice";
        /// ECN bits of the datagrams.
        #[serde(flatten)]
        pub ecn: DatagramEcn = DatagramEcn::default();
        /// One-way delay after which a datagram is useless to the application, for measures; by default, the application
        /// has no such limit. In mobile networks, the delay budget of real-time games is 50 ms (3GPP TS 23.501, table
        /// 5.7.4-1, 5QI 3).
        #[serde(skip_serializing_if = "Option::is_none")]
        pub deadline: Option<Span> = None, "aqmlab's choice";
        /// Hosts of the flows.
        pub hosts: Hosts = Hosts::Own, "aqmlab's choice: as in the ns-2 runs";
    }
}

/// Maximum fraction of the bytes that may lie beyond the size of the largest datagram. The value is the fraction for
/// exponential sizes with a mean of 6500 B.
const MAX_BEYOND: f64 = 4.182e-5;

impl Build for Config {
    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn Workload>, ConfigError> {
        check_flows(self.flows)?;
        let has_time = self.deadline.is_none_or(|deadline| !deadline.is_zero());
        ConfigError::unless(has_time, "deadline", "must be greater than zero")?;
        let sizes = self.sizes.sizes(None).map_err(|error| error.within("sizes"))?;
        let (most, greatest) = (MAX_BYTES as f64, sizes.maximum().max(MAX_BYTES) as f64);
        let beyond = sizes.survival_between(most, greatest) / sizes.mean();
        if sizes.minimum() > MAX_BYTES || beyond > MAX_BEYOND {
            let problem = format!(
                "must be at most {MAX_BYTES}B, but {:.3} % of the bytes exceed this size: choose smaller sizes",
                100.0 * beyond
            );
            return Err(ConfigError::at("sizes", problem));
        }
        check_link_header(sizes.minimum(), "sizes", context)?;
        let even = self.even_gaps(sizes.mean(), context.rate)?;
        let random = self.gaps.times_with_mean(even.nanos()).map_err(|error| error.within("gaps"))?;
        let period = self.period(Span::ZERO, context.duration)?;
        let expected = f64::from(self.flows) * period.seconds() * 1e9 / even.nanos();
        check_datagrams(expected, if self.rate.is_some() { "rate" } else { "load" })?;
        let mut datagrams = Datagrams {
            gaps: if random.is_constant() { Gaps::Even(even) } else { Gaps::Random(random) },
            ecn: self.ecn.bits()?,
            flows: Vec::with_capacity(self.flows as usize),
            queue: BinaryHeap::with_capacity(self.flows as usize),
            period,
            rate: context.rate,
            nominal_load: f64::from(self.flows) * sizes.mean() * 1e9
                / (even.nanos() * context.rate.bytes_per_second()),
            sizes,
            sent: 0,
            sent_bytes: 0,
        };
        for flow in 0..self.flows {
            let period = self.period(start_offset(self.stagger, flow, context), context.duration)?;
            datagrams.add(flow, period, self.phase, context);
        }
        Ok(Box::new(datagrams))
    }

    fn sends_datagrams(&self) -> bool {
        true
    }

    fn application(&self) -> Option<Application> {
        self.deadline.map(|deadline| Application::Deadline { deadline_s: deadline.seconds() })
    }

    fn own_hosts(&self) -> bool {
        self.hosts == Hosts::Own
    }

    fn hosts(&self) -> u64 {
        self.hosts.count(self.flows)
    }
}

impl Config {
    /// Returns the period of a flow that begins `late` after `start`.
    fn period(&self, late: Span, duration: Span) -> Result<Period, ConfigError> {
        let stop = match (self.stop, self.lasts) {
            (stop, None) => stop,
            (Some(_), Some(_)) => {
                return Err(ConfigError::at("lasts", "set either `stop` or `lasts`, not both"));
            }
            (None, Some(lasts)) if lasts.is_zero() => {
                return Err(ConfigError::at("lasts", "must be greater than zero"));
            }
            (None, Some(lasts)) => Some(self.start + lasts),
        };
        Period::new(self.start + late, stop.map(|stop| stop + late), duration)
    }

    /// Returns the gaps between the datagrams of a flow with equal gaps and a mean datagram size of `bytes`.
    fn even_gaps(&self, bytes: f64, line: Rate) -> Result<EvenGaps, ConfigError> {
        match (self.rate, self.load) {
            (Some(rate), None) => Ok(EvenGaps::of_mean(bytes, rate.bps())),
            (None, Some(load)) => {
                check_load(load)?;
                let bps = (load * line.bps() as f64 + 0.5) as u64;
                Ok(EvenGaps::of_mean(bytes * f64::from(self.flows), bps.max(1)))
            }
            (None, None) => Err(ConfigError::at("rate", "is missing: set either `rate` or `load`")),
            (Some(_), Some(_)) => Err(ConfigError::at("load", "set either `rate` or `load`, not both")),
        }
    }
}

/// The running workload.
#[derive(Clone)]
struct Datagrams {
    gaps: Gaps,
    sizes: Sizes,
    ecn: Ecn,
    flows: Vec<Flow>,
    /// The next datagram of each flow, with the earliest datagram on top. The workload requests a wake-up only for the
    /// earliest datagram.
    queue: BinaryHeap<Reverse<Due>>,
    /// Period of a flow that begins at `start`.
    period: Period,
    rate: Rate,
    nominal_load: f64,
    sent: u64,
    sent_bytes: u64,
}

/// Gaps between consecutive datagrams of a flow.
#[derive(Clone)]
enum Gaps {
    /// Equal gaps.
    Even(EvenGaps),
    /// Gaps drawn from a distribution.
    Random(Times),
}

/// Time of a flow's next datagram, and number of the flow. The two values are packed into one number because the heap
/// often compares them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Due(u128);

impl Due {
    fn new(at: Instant, flow: u32) -> Self {
        Self(u128::from(at.nanos()) << 32 | u128::from(flow))
    }

    fn parts(self) -> (Instant, u32) {
        (Instant::from_nanos((self.0 >> 32) as u64), self.0 as u32)
    }
}

/// State of a flow.
#[derive(Clone)]
struct Flow {
    /// End of the flow's period.
    end: Instant,
    /// Accumulated rounding error.
    error: RoundingError,
    gaps: Rng,
    sizes: Rng,
}

impl Flow {
    /// Returns the time until the next datagram.
    fn wait(&mut self, gaps: &Gaps) -> Span {
        match gaps {
            Gaps::Even(even) => even.next(&mut self.error),
            Gaps::Random(times) => times.sample_span(&mut self.gaps),
        }
    }

    /// Returns the size of the next datagram.
    fn size(&mut self, sizes: &Sizes) -> u16 {
        sizes.sample(&mut self.sizes).min(MAX_BYTES) as u16
    }
}

impl Workload for Datagrams {
    fn start(&mut self, cx: &mut dyn TrafficContext) {
        self.sleep(cx);
    }

    fn on_wake(&mut self, cx: &mut dyn TrafficContext) {
        let now = cx.now();
        while let Some(mut top) = self.queue.peek_mut() {
            let (at, number) = top.0.parts();
            if at > now {
                break;
            }
            let flow = &mut self.flows[number as usize];
            let bytes = flow.size(&self.sizes);
            self.sent += 1;
            self.sent_bytes += u64::from(bytes);
            cx.datagram(number, bytes, self.ecn);
            let next = at + flow.wait(&self.gaps);
            if next < flow.end {
                *top = Reverse(Due::new(next, number));
            } else {
                PeekMut::pop(top);
            }
        }
        self.sleep(cx);
    }

    /// Passes facts about the workload to `show`. The realised load covers the whole period of a flow that begins at
    /// `start` and is therefore complete only at the end of the run.
    fn facts(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("nominal_load", self.nominal_load);
        show("datagrams", self.sent as f64);
        show("realised_load", self.period.load(self.sent_bytes, self.rate));
    }
}

impl Datagrams {
    /// Adds a flow and schedules its first datagram.
    fn add(&mut self, number: u32, period: Period, phase: Phase, context: &BuildContext<'_>) {
        let stream =
            |purpose| context.streams.named(&format!("{}/{purpose}", context.name), u64::from(number));
        let error = match &self.gaps {
            Gaps::Even(even) => even.initial_error(),
            Gaps::Random(_) => RoundingError::default(),
        };
        let mut flow = Flow { end: period.end, error, gaps: stream("gaps"), sizes: stream("sizes") };
        let wait = match (&self.gaps, phase) {
            (Gaps::Random(_), _) => flow.wait(&self.gaps),
            (Gaps::Even(_), Phase::Zero) => Span::ZERO,
            (Gaps::Even(even), Phase::Random) => {
                let wait = Uniform::below(even.nanos()).sample(&mut stream("phase"));
                Span::from_nanos(wait as u64)
            }
        };
        let first = period.start + wait;
        if first < period.end {
            self.queue.push(Reverse(Due::new(first, number)));
        }
        self.flows.push(flow);
    }

    fn sleep(&self, cx: &mut dyn TrafficContext) {
        if let Some(Reverse(next)) = self.queue.peek() {
            let (at, _) = next.parts();
            cx.wake_at(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distributions::exponential;
    use crate::testing::{RecordingContext, context, distance, fact, gaps, run, seconds};

    fn constant(bytes: u64) -> distributions::Config {
        distributions::Config::constant(constant::Config::of(Amount::bytes(bytes)))
    }

    fn exponential(bytes: u64) -> distributions::Config {
        distributions::Config::exponential(exponential::Config::of(Amount::bytes(bytes)))
    }

    fn poisson() -> distributions::Config {
        distributions::Config::exponential(exponential::Config::default())
    }

    fn rate(bps: u64) -> Config {
        Config { rate: Some(Rate::from_bps(bps)), ..Config::default() }
    }

    fn recording(config: &Config, seed: u64) -> RecordingContext {
        run(&mut *config.build(&context(seed, 100)).unwrap())
    }

    /// Returns the times at which flow number `flow` sends datagrams.
    fn moments(recording: &RecordingContext, flow: u32) -> Vec<Instant> {
        recording.sent.iter().filter(|sent| sent.1 == flow).map(|sent| sent.0).collect()
    }

    #[test]
    fn equal_gaps_never_drift() {
        let recording = recording(&Config { phase: Phase::Zero, ..rate(1_234_700) }, 1);
        let moments = moments(&recording, 0);
        assert_eq!(moments.len(), 15_434);
        let last = 15_433 * 8_000_000_000_000_u64 / 1_234_700;
        assert!(moments[15_433].nanos() - last <= 1);
    }

    #[test]
    fn the_phase_is_uniform_within_a_gap() {
        let config = Config { flows: 2000, start: Span::from_millis(2000), ..rate(8_000) };
        let recording = recording(&config, 1);
        let firsts = seconds((0..2000).map(|flow| moments(&recording, flow)[0]));
        assert!(firsts.iter().all(|at| (2.0..3.0).contains(at)));
        assert!(distance(firsts, |at| at - 2.0) < 1.63);
    }

    #[test]
    fn a_load_is_shared_among_the_flows() {
        let config = Config { flows: 3, load: Some(0.6), ..Config::default() };
        let mut workload = config.build(&context(1, 100)).unwrap();
        let recording = run(&mut *workload);
        assert!((0..3).all(|flow| moments(&recording, flow).len() == 25_000));
        assert!((fact(&*workload, "nominal_load") - 0.6).abs() < 1e-12);
        assert!((fact(&*workload, "realised_load") - 0.6).abs() < 1e-12);
        assert_eq!(fact(&*workload, "datagrams"), 75_000.0);
    }

    #[test]
    fn poisson_flows_have_exponential_gaps_alone_and_together() {
        // This is the background traffic of the ns-2 runs: 100 flows with datagrams of 1000 B at 0.25 Mb/s each.
        let recording = recording(&Config { flows: 100, gaps: poisson(), ..rate(250_000) }, 3);
        let exponential = |rate: f64| move |x: f64| 1.0 - libm::exp(-rate * x);
        for flow in [0, 57] {
            assert!(
                distance(gaps(&seconds(moments(&recording, flow).into_iter())), exponential(31.25)) < 1.63
            );
        }
        let all = gaps(&seconds(recording.sent.iter().map(|sent| sent.0)));
        assert!((all.len() as f64 - 312_500.0).abs() < 3.0 * 559.0, "{}", all.len());
        assert!(distance(all, exponential(3125.0)) < 1.63);
        // There is one wake-up per datagram, except that datagrams in the same nanosecond share a wake-up.
        assert!(recording.woken <= recording.sent.len() as u64);
    }

    #[test]
    fn the_first_poisson_datagram_comes_after_a_gap() {
        let config = Config { flows: 2000, gaps: poisson(), ..rate(8_000) };
        let recording = recording(&config, 4);
        let firsts = seconds((0..2000).map(|flow| moments(&recording, flow)[0]));
        assert!(distance(firsts, |x| 1.0 - libm::exp(-x)) < 1.63);
    }

    #[test]
    fn exponential_sizes_have_their_mean_and_distribution() {
        let config = Config { gaps: poisson(), sizes: exponential(1000), ..rate(8_000_000) };
        let sizes: Vec<f64> = recording(&config, 5).sent.iter().map(|sent| f64::from(sent.2)).collect();
        let n = sizes.len() as f64;
        let mean = sizes.iter().sum::<f64>() / n;
        assert!((mean - 1000.0).abs() < 3.0 * 1000.0 / n.sqrt(), "{mean}");
        assert!(sizes.iter().all(|&size| size >= 1.0));
        // Sizes are rounded by up to half a byte in either direction.
        let below = sizes.iter().filter(|&&size| size < 700.0).count() as f64 / n;
        let chance = 1.0 - libm::exp(-0.6995);
        assert!((below - chance).abs() < 3.0 * (chance * (1.0 - chance) / n).sqrt(), "{below}");
    }

    #[test]
    fn a_flow_does_not_depend_on_the_number_of_flows_nor_on_sizes() {
        let one = Config { gaps: poisson(), ..rate(250_000) };
        let many = Config { flows: 10, sizes: exponential(1000), ..one.clone() };
        assert_eq!(moments(&recording(&one, 1), 0), moments(&recording(&many, 1), 0));
        assert_ne!(moments(&recording(&one, 1), 0)[..5], moments(&recording(&one, 2), 0)[..5]);
    }

    #[test]
    fn at_equal_times_the_flow_with_the_lowest_number_sends_first() {
        let recording = recording(&Config { flows: 5, phase: Phase::Zero, ..rate(80_000) }, 1);
        for round in recording.sent.chunks(5) {
            let flows: Vec<u32> = round.iter().map(|sent| sent.1).collect();
            assert_eq!(flows, [0, 1, 2, 3, 4]);
        }
        assert_eq!(recording.woken, 1000);
    }

    #[test]
    fn a_flow_sends_between_start_and_stop() {
        let (start, stop) = (Span::from_millis(4000), Some(Span::from_millis(5000)));
        let recording = recording(
            &Config {
                start,
                stop,
                ecn: DatagramEcn { ecn: true, ..DatagramEcn::default() },
                phase: Phase::Zero,
                ..rate(80_000)
            },
            1,
        );
        assert_eq!(
            moments(&recording, 0).iter().map(|at| at.nanos() / 1_000_000).collect::<Vec<_>>(),
            [4000, 4100, 4200, 4300, 4400, 4500, 4600, 4700, 4800, 4900]
        );
        assert!(recording.sent.iter().all(|sent| sent.2 == 1000 && sent.3 == Ecn::Ect0));
    }

    #[test]
    fn a_burst_of_5_s_at_one_datagram_in_20_ms_is_250_datagrams_whenever_it_begins() {
        // 1000 B at 400 kb/s take 20 ms.
        for stagger in [Span::ZERO, Span::from_millis(40_000)] {
            let lasts = Some(Span::from_millis(5000));
            let config =
                Config { phase: Phase::Zero, start: Span::from_millis(3000), stagger, ..rate(400_000) };
            let bursts = [
                Config { lasts, ..config.clone() },
                Config { stop: Some(Span::from_millis(8000)), ..config.clone() },
                Config { lasts, phase: Phase::Random, ..config },
            ];
            for config in bursts {
                let moments = moments(&recording(&config, 7), 0);
                assert_eq!(moments.len(), 250);
                assert_eq!(moments[249].since(moments[0]), Span::from_millis(249 * 20));
                let begin = moments[0].since(Instant::START);
                assert!(begin >= config.start && begin < config.start + stagger + Span::from_millis(20));
                assert_eq!(begin > Span::from_millis(3020), !stagger.is_zero());
            }
        }
    }

    #[test]
    fn staggered_flows_begin_uniformly_and_end_with_the_run_at_the_latest() {
        let stagger = Span::from_millis(50_000);
        let config = Config { flows: 2000, stagger, phase: Phase::Zero, ..rate(8_000) };
        let lasting = Config { lasts: Some(Span::from_millis(60_000)), ..config.clone() };
        let recording = [config, lasting].map(|config| recording(&config, 2));
        let firsts =
            recording.each_ref().map(|recording| seconds((0..2000).map(|flow| moments(recording, flow)[0])));
        assert_eq!(firsts[0], firsts[1]);
        assert!(distance(firsts[0].clone(), |at| at / 50.0) < 1.63);
        assert!(recording.iter().all(|recording| recording.sent.iter().all(|sent| sent.0.seconds() < 100.0)));
        for (flow, first) in firsts[0].iter().enumerate() {
            let count = recording.each_ref().map(|recording| moments(recording, flow as u32).len());
            assert_eq!(count[0], (100.0 - first).ceil() as usize);
            assert_eq!(count[1], count[0].min(60));
        }
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        let error = |config: Config| config.build(&context(1, 100)).err().unwrap();
        assert_eq!(error(Config::default()).path, "rate");
        assert_eq!(error(Config { load: Some(0.5), ..rate(1000) }).path, "load");
        for load in [0.0, -1.0, 10.1, f64::NAN] {
            assert_eq!(error(Config { load: Some(load), ..Config::default() }).path, "load");
        }
        for (bytes, path) in [(0, "sizes.value"), (65_536, "sizes")] {
            assert_eq!(error(Config { sizes: constant(bytes), ..rate(1000) }).path, path);
        }
        assert_eq!(error(Config { sizes: exponential(6501), ..rate(1000) }).path, "sizes");
        assert!(Config { sizes: exponential(6500), ..rate(1000) }.build(&context(1, 100)).is_ok());
        assert_eq!(error(Config { flows: 0, ..rate(1000) }).path, "flows");
        assert_eq!(error(Config { stop: Some(Span::ZERO), ..rate(1000) }).path, "stop");
        assert_eq!(error(Config { lasts: Some(Span::ZERO), ..rate(1000) }).path, "lasts");
        let second = Some(Span::from_millis(1000));
        assert_eq!(error(Config { stop: second, lasts: second, ..rate(1000) }).path, "lasts");
    }

    #[test]
    fn too_many_datagrams_are_rejected_with_an_estimate() {
        let flood = Config { sizes: constant(1), ..rate(8_000_000_000) };
        let error = flood.build(&context(1, 100)).err().unwrap();
        assert_eq!(
            error.to_string(),
            "rate: would cause about 100000000000 datagrams in this run; the maximum is 10000000000"
        );
    }
}
