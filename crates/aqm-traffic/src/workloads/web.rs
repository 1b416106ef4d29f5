//! Web pages. Pages begin after random gaps, independently of previous pages, so that the traffic is an open loop. A
//! client fetches the objects of a page either all at once, each over its own connection, or in turn over a few
//! persistent connections.
//!
//! Source: Claypool, Kinicki & Hartling, "Active Queue Management for Web Traffic", 2004. The paper specifies the sizes
//! and the number of objects per page, and gives the reason for the open loop: slow responses must not reduce the
//! offered load.
//!
//! aqmlab's choices, where the source is silent: gaps are exponential by default and are measured from the start of a
//! page to the start of the next page. The load counts the bytes that transfers need on the wire without
//! retransmissions, including headers and connection set-up.

use std::collections::VecDeque;

use aqm_net::{ConfigError, Instant, Rate, Rng, Size, Span, parameters};

use crate::distributions::{self, Amount, Counts, Sizes, Times, constant, exponential, lomax};
use crate::fetching::{self, Fetching};
use crate::http::{Http, TransportNeed};
use crate::parameters::{Period, check_load, check_request, check_transfers, request_bytes};
use crate::wire::Wire;
use crate::{Build, BuildContext, TrafficContext, Transfer, Workload};

parameters! {
    /// Web pages that begin at random times; all objects of a page are fetched at once.
    pub struct Config {
        /// Offered load as a fraction of the bottleneck's rate. The load counts the bytes that transfers need on the
        /// wire without retransmissions.
        pub load: f64 = 0.5, "SHRED talk: FTP-mixed runs";
        /// Number of objects per page.
        pub objects: distributions::Config = one_object(), "SHRED talk: canonical runs";
        /// Sizes of the objects.
        pub sizes: distributions::Config = web_sizes(), "SHRED talk, Web model";
        /// Gaps between the starts of successive pages. The mean gap is determined by the load.
        pub gaps: distributions::Config = distributions::Config::exponential(exponential::Config::default()),
            "aqmlab's choice: a Poisson process";
        /// Size of the request that the client sends for each object. The response is sent over the same connection.
        /// Without a request, the server opens the connection and sends the object.
        pub request: Option<Size> = None, "SHRED talk: responses only";
        /// Number of persistent connections over which a client fetches the objects of a page. Each connection fetches
        /// the next object when its previous object is complete (HTTP/1.1). By default, each object has its own
        /// connection, and all objects are fetched at once. The load is always computed as if each object had its own
        /// connection.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub connections: Option<u32> = None, "SHRED talk: HTTP/1.0; RFC 7928, section 7.2: 6";
        /// Version of HTTP, and the properties of its connections.
        #[serde(flatten)]
        pub http: Http = Http::default();
        /// Start of the gap that precedes the first page.
        pub start: Span = Span::ZERO, "aqmlab's choice";
        /// Time after which no page begins; by default, the end of the run.
        pub stop: Option<Span> = None, "aqmlab's choice";
    }
}

/// Returns the default number of objects per page, which is one.
fn one_object() -> distributions::Config {
    distributions::Config::constant(constant::Config::of(Amount::Number(1.0)))
}

/// Returns the default sizes of Web objects.
fn web_sizes() -> distributions::Config {
    distributions::Config::lomax(lomax::Config {
        mean: Some(Amount::bytes(10_000)),
        shape: 1.2,
        minimum: Some(Amount::bytes(12)),
        maximum: Some(Amount::bytes(2_000_000)),
        ..lomax::Config::default()
    })
}

/// Maximum number of objects per page. A larger number is assumed to be a typing error.
const MAX_OBJECTS: u64 = 10_000;

impl Build for Config {
    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn Workload>, ConfigError> {
        check_load(self.load)?;
        let objects = self.objects.counts(MAX_OBJECTS).map_err(|error| error.within("objects"))?;
        check_request(self.request)?;
        let persistence = self.http.persistence(self.connections, self.request)?;
        let sizes = self.sizes.sizes(Some(context.packetisation)).map_err(|error| error.within("sizes"))?;
        let period = Period::new(self.start, self.stop, context.duration)?;
        let wire = Wire::of(context.packetisation);
        let mean_objects = objects.mean();
        let pages_per_second =
            self.load * context.rate.bytes_per_second() / (wire.mean(&sizes) * mean_objects);
        let expected = pages_per_second * mean_objects * period.seconds();
        check_transfers(expected, "load", "reduce `load`, or use larger objects")?;
        let gaps = self.gaps.times_with_mean(1e9 / pages_per_second).map_err(|error| error.within("gaps"))?;
        let stream = |purpose| context.streams.named(&format!("{}/{purpose}", context.name), 0);
        Ok(Box::new(Web {
            fetching: Fetching::new(persistence, self.request),
            config: self.clone(),
            pages_per_second,
            gaps,
            arrivals: stream("arrivals"),
            objects,
            objects_rng: stream("objects"),
            sizes,
            sizes_rng: stream("sizes"),
            wire,
            rate: context.rate,
            period,
            next: period.start,
            offered: Offered::default(),
        }))
    }

    fn own_hosts(&self) -> bool {
        false
    }

    fn fetches_pages(&self) -> bool {
        true
    }

    fn shares_connections(&self) -> bool {
        self.connections.is_some() || self.http.http.is_some()
    }

    fn transport(&self) -> Option<TransportNeed> {
        self.http.transport()
    }

    fn simulated_only(&self) -> Option<&'static str> {
        fetching::SIMULATED_ONLY.filter(|_| self.shares_connections())
    }
}

/// The running workload.
#[derive(Clone)]
struct Web {
    config: Config,
    /// Pages whose objects share connections; `None` if each object has its own connection.
    fetching: Option<Fetching>,
    pages_per_second: f64,
    /// Time from the start of a page to the start of the next page.
    gaps: Times,
    arrivals: Rng,
    /// Number of objects per page.
    objects: Counts,
    objects_rng: Rng,
    sizes: Sizes,
    sizes_rng: Rng,
    wire: Wire,
    rate: Rate,
    period: Period,
    /// Start of the next page.
    next: Instant,
    offered: Offered,
}

/// Totals of the pages, objects and bytes that have been offered so far.
#[derive(Clone, Default)]
struct Offered {
    pages: u64,
    objects: u64,
    wire_bytes: u64,
}

impl Workload for Web {
    fn start(&mut self, cx: &mut dyn TrafficContext) {
        self.sleep(cx);
    }

    fn on_wake(&mut self, cx: &mut dyn TrafficContext) {
        let page_objects = self.objects.sample(&mut self.objects_rng) as u32;
        let sizes = (0..page_objects).map(|_| self.sizes.sample(&mut self.sizes_rng));
        let sizes: VecDeque<u64> = sizes.collect();
        self.offered.wire_bytes += sizes.iter().map(|&bytes| self.wire.bytes(bytes)).sum::<u64>();
        self.offered.objects += u64::from(page_objects);
        if let Some(fetching) = &mut self.fetching {
            fetching.begin(self.offered.pages, sizes, 0, cx);
        } else {
            let (page, request) = (Some(self.offered.pages), self.config.request.map(request_bytes));
            for bytes in sizes {
                cx.open(Transfer { bytes: Some(bytes), request, page, page_objects, host: 0 });
            }
        }
        self.offered.pages += 1;
        self.sleep(cx);
    }

    fn on_response(&mut self, number: u32, cx: &mut dyn TrafficContext) {
        if let Some(fetching) = &mut self.fetching {
            fetching.on_response(number, cx);
        }
    }

    fn on_connection_failed(&mut self, number: u32, cx: &mut dyn TrafficContext) {
        if let Some(fetching) = &mut self.fetching {
            fetching.on_connection_failed(number, cx);
        }
    }

    /// Passes facts about the workload to `show`. The realised load covers the whole period and is therefore complete
    /// only at the end of the run.
    fn facts(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("nominal_load", self.config.load);
        show("pages_per_second", self.pages_per_second);
        show("mean_object_bytes", self.sizes.mean());
        show("mean_object_wire_bytes", self.wire.mean(&self.sizes));
        show("pages", self.offered.pages as f64);
        show("objects", self.offered.objects as f64);
        show("realised_load", self.period.load(self.offered.wire_bytes, self.rate));
    }
}

impl Web {
    fn sleep(&mut self, cx: &mut dyn TrafficContext) {
        self.next += self.gaps.sample_span(&mut self.arrivals);
        if self.next < self.period.end {
            cx.wake_at(self.next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distributions::discrete_uniform;
    use crate::testing::{context, distance, fact, gaps, run, seconds};

    /// Returns a Lomax distribution of sizes that has the shape of the Web model.
    fn sizes(mean: u64, minimum: u64, maximum: u64) -> distributions::Config {
        let [mean, minimum, maximum] = [mean, minimum, maximum].map(|bytes| Some(Amount::bytes(bytes)));
        distributions::Config::lomax(lomax::Config { mean, minimum, maximum, ..lomax::Config::default() })
    }

    fn objects(number: u32) -> distributions::Config {
        distributions::Config::constant(constant::Config::of(Amount::Number(f64::from(number))))
    }

    fn up_to(most: u32) -> distributions::Config {
        distributions::Config::discrete_uniform(discrete_uniform::Config::of(1, most))
    }

    fn opened(config: &Config, seed: u64) -> Vec<(Instant, Transfer)> {
        run(&mut *config.build(&context(seed, 100)).unwrap()).opened
    }

    /// Returns the start time of each page.
    fn moments(config: &Config) -> Vec<Instant> {
        let mut moments: Vec<(Instant, Transfer)> = opened(config, 1);
        moments.dedup_by_key(|(_, transfer)| transfer.page);
        moments.into_iter().map(|(at, _)| at).collect()
    }

    #[test]
    fn the_page_rate_is_that_of_the_reference_runs() {
        // At full load, 113.76257 objects arrive per second. The minimum of 12 B has no effect on the mean.
        let config = Config { load: 1.0, sizes: sizes(10_000, 1, 2_000_000), ..Config::default() };
        let workload = config.build(&context(1, 160)).unwrap();
        assert!((fact(&*workload, "pages_per_second") - 113.76257).abs() < 5e-5);
    }

    #[test]
    fn in_the_long_run_the_offered_load_is_the_nominal_load() {
        // With a shape of 1.2 and a high maximum, the mean of a run would not converge.
        for objects in [objects(1), up_to(8)] {
            let config = Config { load: 0.8, objects, sizes: sizes(5000, 12, 100_000), ..Config::default() };
            let mut workload = config.build(&context(2, 5000)).unwrap();
            let opened = run(&mut *workload).opened;
            let wire = Wire::of(&crate::testing::FullPackets);
            // The sum of the squares is an estimate of the variance of a compound Poisson sum.
            let squares: f64 = opened
                .chunk_by(|a, b| a.1.page == b.1.page)
                .map(|page| page.iter().map(|(_, it)| wire.bytes(it.bytes.unwrap()) as f64).sum::<f64>())
                .map(|page| page * page)
                .sum();
            let error = squares.sqrt() / (1_250_000.0 * 5000.0);
            let difference = fact(&*workload, "realised_load") - 0.8;
            assert!(difference.abs() < 3.0 * error && error < 0.01, "{difference} {error}");
        }
    }

    #[test]
    fn the_gaps_between_pages_are_exponential() {
        let config = Config { load: 2.0, ..Config::default() };
        let rate = fact(&*config.build(&context(1, 100)).unwrap(), "pages_per_second");
        let gaps = gaps(&seconds(moments(&config).into_iter()));
        assert!(gaps.len() > 10_000);
        assert!(distance(gaps, |x| 1.0 - libm::exp(-rate * x)) < 1.63);
    }

    #[test]
    fn the_number_of_objects_moves_neither_pages_nor_sizes() {
        // If the load and the number of objects per page are both multiplied by eight, the pages begin at the same
        // times.
        let one = Config { load: 0.125, ..Config::default() };
        let eight = Config { load: 1.0, objects: objects(8), ..Config::default() };
        assert_eq!(moments(&one), moments(&eight));
        let sizes = |config| opened(config, 1).into_iter().map(|(_, transfer)| transfer.bytes);
        let uniform = Config { objects: up_to(8), ..one.clone() };
        let (one, uniform): (Vec<_>, Vec<_>) = (sizes(&one).collect(), sizes(&uniform).collect());
        let both = one.len().min(uniform.len());
        assert!(both > 1000);
        assert_eq!(one[..both], uniform[..both]);
    }

    #[test]
    fn a_page_has_one_to_n_objects_opened_at_once() {
        let config = Config { objects: up_to(4), ..Config::default() };
        let opened = opened(&config, 1);
        let mut pages = [0_u64; 4];
        for (number, page) in opened.chunk_by(|a, b| a.1.page == b.1.page).enumerate() {
            assert_eq!(page[0].1.page, Some(number as u64));
            assert!(page.iter().all(|(at, it)| *at == page[0].0 && it.page_objects as usize == page.len()));
            pages[page.len() - 1] += 1;
        }
        let expected = pages.iter().sum::<u64>() as f64 / 4.0;
        let squared: f64 =
            pages.iter().map(|&n| (n as f64 - expected) * (n as f64 - expected) / expected).sum();
        // The limit is the 99 % quantile of the chi-squared distribution with three degrees of freedom.
        assert!(squared < 11.34, "{pages:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_pages_and_another_seed_others() {
        let config = Config::default();
        assert_eq!(opened(&config, 1), opened(&config, 1));
        assert_ne!(opened(&config, 1)[..10], opened(&config, 2)[..10]);
    }

    #[test]
    fn pages_begin_between_start_and_stop() {
        let (start, stop) = (Span::from_millis(20_000), Some(Span::from_millis(30_000)));
        let moments = moments(&Config { start, stop, ..Config::default() });
        assert!(moments.len() > 400);
        assert!(moments.iter().all(|at| (20.0..30.0).contains(&at.seconds())));
        assert!(opened(&Config::default(), 1).iter().all(|(at, _)| at.seconds() < 100.0));
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        let error = |config: Config| config.build(&context(1, 100)).err().unwrap();
        for load in [0.0, -1.0, 10.1, f64::NAN, f64::INFINITY] {
            assert_eq!(error(Config { load, ..Config::default() }).path, "load");
        }
        for number in [0, 10_001] {
            assert_eq!(error(Config { objects: objects(number), ..Config::default() }).path, "objects");
        }
        let shapeless =
            lomax::Config { shape: 0.0, mean: Some(Amount::bytes(1)), ..lomax::Config::default() };
        let sizes = distributions::Config::lomax(shapeless);
        assert_eq!(error(Config { sizes, ..Config::default() }).path, "sizes.shape");
        let gaps = distributions::Config::exponential(exponential::Config::of(Amount::millis(10)));
        assert_eq!(error(Config { gaps, ..Config::default() }).path, "gaps.mean");
        assert_eq!(error(Config { stop: Some(Span::ZERO), ..Config::default() }).path, "stop");
    }

    #[test]
    fn too_many_transfers_are_rejected_with_an_estimate() {
        let context = BuildContext { rate: Rate::from_bps(1_000_000_000_000), ..context(1, 100) };
        let problem = Config { load: 1.0, ..Config::default() }.build(&context).err().unwrap().problem;
        // For 100 s, the rate is a hundred thousand times the rate of the reference runs.
        assert!(problem.starts_with("would cause about 113762"), "{problem}");
    }
}
