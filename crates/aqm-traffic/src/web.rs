//! Web pages: pages begin after exponential gaps, whatever became of the pages before (an open
//! loop), and the objects of a page are fetched at once, each over a connection of its own.
//!
//! Claypool, Kinicki & Hartling, "Active Queue Management for Web Traffic", 2004: sizes, objects
//! per page, and why the loop is open: slow responses must not lower the offered load.
//!
//! Ours, where the source is silent: the gaps are exponential, from start to start; the load
//! counts the bytes on the wire of first transmissions, headers and connection set-up included.

use aqm_net::{ConfigError, Instant, Rate, Rng, Size, Span, choices, parameters};

use crate::distributions::Exponential;
use crate::limits::{check_load, check_request, check_transfers, request_bytes};
use crate::period::Period;
use crate::sizes::{self, Law, Sizes};
use crate::wire::Wire;
use crate::{Build, BuildContext, TrafficContext, Transfer, Workload};

choices! {
    /// How many objects a page has.
    pub enum ObjectsLaw {
        /// Always `objects`.
        Fixed = "fixed",
        /// From 1 to `objects`, each number with the same chance.
        Uniform = "uniform",
    }
}

parameters! {
    /// Web pages that begin at random moments; all objects of a page are fetched at once.
    pub struct Config {
        /// The offered load as a share of the bottleneck's rate, in bytes on the wire of first
        /// transmissions.
        pub load: f64 = 0.5, "SHRED talk: FTP-mixed runs";
        /// Objects of a page: how many, or at most how many.
        pub objects: u32 = 1, "SHRED talk: canonical runs";
        /// Whether every page has that many.
        pub objects_law: ObjectsLaw = ObjectsLaw::Fixed, "SHRED talk: canonical runs";
        /// How big the objects are.
        pub sizes: sizes::Config = sizes::Config::default(), "SHRED talk, Web model";
        /// What the client sends over the connection to ask for an object, which then comes back on it;
        /// left out: the server opens the connection and sends unasked.
        pub request: Option<Size> = None, "SHRED talk: responses only";
        /// When the gap before the first page begins.
        pub start: Span = Span::ZERO, "ours";
        /// From when on no page begins; left out, the end of the run.
        pub stop: Option<Span> = None, "ours";
    }
}

/// More objects to a page than this are taken for a slip of the pen.
const MOST_OBJECTS: u32 = 10_000;

impl Build for Config {
    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn Workload>, ConfigError> {
        check_load(self.load)?;
        if !(1..=MOST_OBJECTS).contains(&self.objects) {
            let problem = format!("must be between 1 and {MOST_OBJECTS}, is {}", self.objects);
            return Err(ConfigError::at("objects", problem));
        }
        check_request(self.request)?;
        let sizes = self.sizes.build().map_err(|error| error.within("sizes"))?;
        let period = Period::new(self.start, self.stop, context.duration)?;
        let wire = Wire::of(context.cut);
        let mean_objects = match self.objects_law {
            ObjectsLaw::Fixed => f64::from(self.objects),
            ObjectsLaw::Uniform => (f64::from(self.objects) + 1.0) / 2.0,
        };
        let pages_per_second =
            self.load * context.rate.bytes_per_second() / (wire.mean(&sizes) * mean_objects);
        let expected = pages_per_second * mean_objects * period.seconds();
        check_transfers(expected, "load", "lower it, or let the objects be larger")?;
        let stream = |purpose| context.streams.named(&format!("{}/{purpose}", context.name), 0);
        Ok(Box::new(Web {
            config: self.clone(),
            pages_per_second,
            gap: Exponential { mean: 1e9 / pages_per_second },
            arrivals: stream("arrivals"),
            objects: stream("objects"),
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
}

/// The running workload.
#[derive(Clone)]
struct Web {
    config: Config,
    pages_per_second: f64,
    /// Nanoseconds between two pages.
    gap: Exponential,
    arrivals: Rng,
    objects: Rng,
    sizes: Sizes,
    sizes_rng: Rng,
    wire: Wire,
    rate: Rate,
    period: Period,
    /// When the next page begins.
    next: Instant,
    offered: Offered,
}

/// What was offered so far.
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
        let most = self.config.objects;
        let page_objects = match self.config.objects_law {
            ObjectsLaw::Fixed => most,
            ObjectsLaw::Uniform => self.objects.below(u64::from(most)) as u32 + 1,
        };
        let page = Some(self.offered.pages);
        let request = self.config.request.map(request_bytes);
        for _ in 0..page_objects {
            let bytes = self.sizes.draw(&mut self.sizes_rng);
            self.offered.wire_bytes += self.wire.bytes(bytes);
            cx.open(Transfer { bytes: Some(bytes), request, page, page_objects, host: 0 });
        }
        self.offered.objects += u64::from(page_objects);
        self.offered.pages += 1;
        self.sleep(cx);
    }

    /// The realised load is that of the whole period, so it is complete at the end of the run.
    fn facts(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("nominal_load", self.config.load);
        show("pages_per_second", self.pages_per_second);
        show("nominal_object_bytes", self.config.sizes.mean.bytes() as f64);
        show("mean_object_bytes", self.sizes.mean());
        show("mean_object_wire_bytes", self.wire.mean(&self.sizes));
        show("pages", self.offered.pages as f64);
        show("objects", self.offered.objects as f64);
        show("realised_load", self.period.load(self.offered.wire_bytes, self.rate));
    }
}

impl Web {
    fn sleep(&mut self, cx: &mut dyn TrafficContext) {
        self.next += Span::from_nanos((self.gap.draw(&mut self.arrivals) + 0.5) as u64);
        if self.next < self.period.end {
            cx.wake_at(self.next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, distance, fact, gaps, run, seconds};
    use aqm_net::Size;

    fn opened(config: &Config, seed: u64) -> Vec<(Instant, Transfer)> {
        run(&mut *config.build(&context(seed, 100)).unwrap()).opened
    }

    /// When each page begins.
    fn moments(config: &Config) -> Vec<Instant> {
        let mut moments: Vec<(Instant, Transfer)> = opened(config, 1);
        moments.dedup_by_key(|(_, transfer)| transfer.page);
        moments.into_iter().map(|(at, _)| at).collect()
    }

    #[test]
    fn the_page_rate_is_that_of_the_reference_runs() {
        // 113.76257 objects a second at full load, the minimum of 12 B left out of the mean.
        let sizes = sizes::Config { minimum: Size::from_bytes(1), ..sizes::Config::default() };
        let config = Config { load: 1.0, sizes, ..Config::default() };
        let workload = config.build(&context(1, 160)).unwrap();
        assert!((fact(&*workload, "pages_per_second") - 113.76257).abs() < 5e-5);
    }

    #[test]
    fn in_the_long_run_the_offered_load_is_the_nominal_load() {
        // Without a low maximum no run is long enough for a shape of 1.2.
        let sizes = sizes::Config {
            mean: Size::from_bytes(5000),
            maximum: Size::from_bytes(100_000),
            ..sizes::Config::default()
        };
        for (objects, objects_law) in [(1, ObjectsLaw::Fixed), (8, ObjectsLaw::Uniform)] {
            let config =
                Config { load: 0.8, objects, objects_law, sizes: sizes.clone(), ..Config::default() };
            let mut workload = config.build(&context(2, 5000)).unwrap();
            let opened = run(&mut *workload).opened;
            let wire = Wire::of(&crate::testing::FullPackets);
            // Of a compound Poisson sum the variance is the sum of the squares.
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
        // Eight times the load on eight times the objects: the same pages.
        let one = Config { load: 0.125, ..Config::default() };
        let eight = Config { load: 1.0, objects: 8, ..Config::default() };
        assert_eq!(moments(&one), moments(&eight));
        let sizes = |config| opened(config, 1).into_iter().map(|(_, transfer)| transfer.bytes);
        let uniform = Config { objects: 8, objects_law: ObjectsLaw::Uniform, ..one.clone() };
        let (one, uniform): (Vec<_>, Vec<_>) = (sizes(&one).collect(), sizes(&uniform).collect());
        let both = one.len().min(uniform.len());
        assert!(both > 1000);
        assert_eq!(one[..both], uniform[..both]);
    }

    #[test]
    fn a_page_has_one_to_n_objects_opened_at_once() {
        let config = Config { objects: 4, objects_law: ObjectsLaw::Uniform, ..Config::default() };
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
        // The 99 % point of chi squared with three degrees of freedom.
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
    fn what_is_wrong_is_named() {
        let error = |config: Config| config.build(&context(1, 100)).err().unwrap();
        for load in [0.0, -1.0, 10.1, f64::NAN, f64::INFINITY] {
            assert_eq!(error(Config { load, ..Config::default() }).place, "load");
        }
        for objects in [0, 10_001] {
            assert_eq!(error(Config { objects, ..Config::default() }).place, "objects");
        }
        let sizes = sizes::Config { shape: 0.0, ..sizes::Config::default() };
        assert_eq!(error(Config { sizes, ..Config::default() }).place, "sizes.shape");
        assert_eq!(error(Config { stop: Some(Span::ZERO), ..Config::default() }).place, "stop");
    }

    #[test]
    fn a_flood_of_transfers_is_refused_with_an_estimate() {
        let context = BuildContext { rate: Rate::from_bps(1_000_000_000_000), ..context(1, 100) };
        let problem = Config { load: 1.0, ..Config::default() }.build(&context).err().unwrap().problem;
        // A hundred thousand times the rate of the reference, for 100 s.
        assert!(problem.starts_with("makes about 113762"), "{problem}");
    }
}
