//! Tests of the model's statistics, which are computed by integration if a closed form exists and by sampling
//! otherwise.

use super::*;
use crate::testing::{context, distance, fact, gaps, run, seconds};
use aqm_net::Streams;
use serde_json::json;

fn rng(index: u64) -> Rng {
    Streams::new(11).named("packmime", index)
}

/// Returns the mean of a distribution that is given by its inverse survival function. The mean is computed with the
/// midpoint rule, over the binary logarithm of the probability.
fn mean(exceeded_with: impl Fn(f64) -> f64) -> f64 {
    let step = 1e-3;
    (0..60_000)
        .map(|k| libm::exp2(-step * (f64::from(k) + 0.5)))
        .map(|p| exceeded_with(p) * p * std::f64::consts::LN_2 * step)
        .sum()
}

fn close(actual: f64, expected: f64, tolerance: f64) {
    assert!((actual / expected - 1.0).abs() < tolerance, "actual {actual}, expected {expected}");
}

/// Checks the mean, the median, and the 10th, 90th and 99th percentiles. Most of the expected values are known to only
/// two digits.
fn check(exceeded_with: impl Fn(f64) -> f64, [average, median, p10, p90, p99]: [f64; 5]) {
    close(mean(&exceeded_with), average, 0.01);
    for (p, expected) in [(0.5, median), (0.9, p10), (0.1, p90), (0.01, p99)] {
        close(exceeded_with(p), expected, 0.025);
    }
}

/// Sorts a sample and returns its quantiles.
fn quantiles<const N: usize>(mut sample: Vec<f64>, at: [f64; N]) -> [f64; N] {
    sample.sort_by(f64::total_cmp);
    at.map(|q| sample[(q * sample.len() as f64) as usize])
}

fn clip(bytes: f64) -> f64 {
    bytes.min(Config::default().maximum.bytes() as f64)
}

#[test]
fn sizes_have_the_statistics_of_the_model() {
    let short = |p: f64| SHORT_RESPONSES.at(1.0 - p);
    check(short, [153.0, 141.0, 75.0, 249.0, 272.0]);
    assert!((short(0.0) - 272.2).abs() < 0.1);
    check(|p| clip(download(p)), [10_968.0, 2258.0, 386.0, 20_300.0, 93_000.0]);
    close(mean(download), 11_900.0, 0.01);
    check(|p| clip(request(p)), [580.0, 424.0, 280.0, 869.0, 3070.0]);
    let tail = |p: f64, exceeded_with: fn(f64) -> f64| libm::log2(exceeded_with(p / 2.0) / exceeded_with(p));
    assert!((1.0 / tail(1e-6, download) - 1.2314).abs() < 1e-3);
    assert!((1.0 / tail(1e-6, request) - 1.4847).abs() < 1e-3);
}

#[test]
fn round_trip_times_have_the_statistics_of_the_model() {
    check(client_time, [26.8, 1.47, 0.64, 36.0, 600.0]);
    close(client_time(1e-3), 1510.0, 0.01);
    check(server_time, [81.0, 57.9, 2.3, 114.0, 669.0]);
    let mut rng = rng(0);
    let mut both = || client_time(rng.uniform_positive()) + server_time(rng.uniform_positive());
    let times: Vec<f64> = (0..400_000).map(|_| both()).collect();
    close(times.iter().sum::<f64>() / times.len() as f64, 108.0, 0.02);
    let actual = quantiles(times, [0.5, 0.1, 0.9, 0.99, 0.999]);
    for (actual, expected) in actual.into_iter().zip([67.0, 4.9, 186.0, 1060.0, 3170.0]) {
        close(actual, expected, 0.04);
    }
}

#[test]
fn a_server_takes_a_few_milliseconds_and_at_most_a_tenth_of_a_second() {
    let mut rng = rng(1);
    let delays: Vec<f64> = (0..200_000).map(|_| server_delay(&mut rng).seconds()).collect();
    let n = delays.len() as f64;
    close(delays.iter().sum::<f64>() / n, 0.022, 0.02);
    close(delays.iter().filter(|&&delay| delay == 0.1).count() as f64 / n, 0.11, 0.03);
    let [median, p90, most] = quantiles(delays, [0.5, 0.9, 0.999_999]);
    close(median, 0.0059, 0.02);
    assert_eq!((p90, most), (0.1, 0.1));
}

#[test]
fn responses_come_in_runs_of_short_ones_and_downloads() {
    let mut responses = Responses::new(RateModel::new(100.0).runs, [rng(2), rng(3)]);
    let mut states = Vec::new();
    let sizes: Vec<f64> = (0..1_000_000)
        .map(|_| {
            let size = clip(responses.sample());
            states.push(responses.state);
            size
        })
        .collect();
    assert_eq!(states[0], DOWNLOAD);
    let n = sizes.len() as f64;
    close(states.iter().sum::<usize>() as f64 / n, 0.725, 0.005);
    // The standard deviation of this mean is 150 B.
    close(sizes.iter().sum::<f64>() / n, 7990.0, 0.05);
    let actual = quantiles(sizes, [0.5, 0.1, 0.9, 0.99]);
    for (actual, expected) in actual.into_iter().zip([894.0, 129.0, 14_900.0, 72_000.0]) {
        close(actual, expected, 0.02);
    }
    // The length of a run is drawn from the model and rounded up. Therefore, P(more than k) is the same as before
    // rounding.
    let runs: Vec<&[usize]> = states.chunk_by(|a, b| a == b).collect();
    for (state, run) in RateModel::new(100.0).runs.into_iter().enumerate() {
        let lengths: Vec<usize> = runs.iter().filter(|run| run[0] == state).map(|run| run.len()).collect();
        for k in [1, 2, 5] {
            let beyond = libm::exp(-libm::exp(run.shape * libm::log(f64::from(k) / run.scale)));
            let actual = lengths.iter().filter(|&&length| length > k as usize).count() as f64;
            let n = lengths.len() as f64;
            let error = (beyond * (1.0 - beyond) / n).sqrt();
            assert!((actual / n - beyond).abs() < 3.3 * error, "{state} {k}: {} {beyond}", actual / n);
        }
    }
}

#[test]
fn shares_and_shapes_follow_the_rate() {
    for (rate, share, shape) in
        [(10.0, 0.7657, 0.7572), (40.0, 0.853, 0.8423), (100.0, 0.8945, 0.884), (150.0, 0.9093, 0.8992)]
    {
        let model = RateModel::new(rate);
        assert!((model.arrivals - share).abs() < 1e-4 && (model.gap.shape - shape).abs() < 1e-4);
        close(mean(|p| model.gap.exceeded_with(p)), 1.0 / rate, 1e-3);
    }
}

#[test]
fn the_gaps_between_connections_are_weibull() {
    let mut workload = Config::default().build(&context(1, 300)).unwrap();
    let opened = run(&mut *workload).conversations;
    assert_eq!(fact(&*workload, "connections"), opened.len() as f64);
    close(opened.len() as f64, 30_000.0, 0.05);
    let gaps = gaps(&seconds(opened.iter().map(|(at, _)| *at)));
    let Weibull { shape, scale } = RateModel::new(100.0).gap;
    // Long memory slightly increases the distance between a sample and its distribution. At this rate, 89 % of the
    // variance is white noise.
    let far = distance(gaps, |x| 1.0 - libm::exp(-libm::exp(shape * libm::log(x.max(1e-12) / scale))));
    assert!(far < 2.5, "{far}");
}

#[test]
fn parts_of_the_model_can_be_replaced_and_leave_the_others() {
    let constant =
        |value| Some(distributions::Config::read(json!({ "kind": "constant", "value": value })).unwrap());
    let model = Config { http: Http::OneOne, ..Config::default() };
    let replaced = Config {
        request_sizes: constant("300B"),
        response_sizes: constant("2kB"),
        server_delay: constant("5ms"),
        ..model.clone()
    };
    let opened = |config: &Config| run(&mut *config.build(&context(1, 60)).unwrap()).conversations;
    let (model, replaced) = (opened(&model), opened(&replaced));
    assert!(replaced.len() > 5000 && replaced.iter().any(|(_, it)| !it.rest.is_empty()));
    for ((_, one), (_, other)) in model.iter().zip(&replaced) {
        for it in std::iter::once(&other.first).chain(&other.rest) {
            assert_eq!((it.request, it.response, it.think), (300, 2000, Span::from_millis(5)));
        }
        assert_eq!((one.client_delay, one.server_delay), (other.client_delay, other.server_delay));
    }
    let moments = |opened: &[(Instant, Conversation)]| opened.iter().map(|(at, _)| *at).collect::<Vec<_>>();
    assert_eq!(moments(&model), moments(&replaced));
}

#[test]
fn with_http_1_0_a_connection_has_one_exchange() {
    let mut workload = Config::default().build(&context(1, 60)).unwrap();
    let opened = run(&mut *workload).conversations;
    assert!(opened.len() > 5000 && opened.iter().all(|(_, it)| it.rest.is_empty()));
    assert!(opened.iter().all(|(_, it)| it.first.pause.is_zero() && it.first.request >= 50));
    let bytes: u64 = opened.iter().map(|(_, it)| it.first.response).sum();
    let expected = bytes as f64 / opened.len() as f64;
    close(fact(&*workload, "mean_response_bytes"), expected, 1e-12);
}

#[test]
fn with_http_1_1_some_connections_persist_and_the_first_exchanges_stay() {
    let of = |http, gap_effects| {
        let config = Config { http, gap_effects, connections_per_second: 500.0, ..Config::default() };
        run(&mut *config.build(&context(1, 200)).unwrap()).conversations
    };
    let (one, persistent) =
        (of(Http::OneZero, GapEffects::Connection), of(Http::OneOne, GapEffects::Connection));
    assert_eq!(one.len(), persistent.len());
    let same = |a: &Exchange, b: &Exchange| (a.request, a.response) == (b.request, b.response);
    assert!(one.iter().zip(&persistent).all(|(a, b)| a.0 == b.0 && same(&a.1.first, &b.1.first)));
    let lasting: Vec<&Conversation> =
        persistent.iter().map(|(_, it)| it).filter(|it| !it.rest.is_empty()).collect();
    // Each persistent connection has at least two exchanges.
    close(lasting.len() as f64 / persistent.len() as f64, 0.09, 0.05);
    let counts: Vec<f64> = lasting.iter().map(|it| 1.0 + it.rest.len() as f64).collect();
    close(counts.iter().sum::<f64>() / counts.len() as f64, 3.19, 0.02);
    assert_eq!(quantiles(counts, [0.5, 0.99]), [3.0, 9.0]);
    for it in lasting {
        assert!(it.rest.iter().all(|next| next.request == it.first.request));
        if it.first.response <= LARGE_RESPONSE {
            assert!(it.rest.iter().all(|next| next.response == it.first.response));
        }
    }
    // The gaps within a connection are similar. If the random effects are shared, the gaps of different connections are
    // similar as well.
    let medians = |opened: &[(Instant, Conversation)]| {
        let pauses = opened.iter().flat_map(|(_, it)| &it.rest).map(|next| next.pause.seconds());
        quantiles(pauses.collect(), [0.01, 0.5, 0.99])
    };
    let (own, shared) = (medians(&persistent), medians(&of(Http::OneOne, GapEffects::Workload)));
    assert!(own[2] / own[0] > shared[2] / shared[0], "{own:?} {shared:?}");
}

#[test]
fn one_object_gaps_and_page_gaps_have_the_medians_of_the_model() {
    let mut persistent = Persistent::new(GapEffects::Connection, [rng(4), rng(5)]);
    let pauses: Vec<Vec<Span>> = (0..400_000).filter_map(|_| persistent.pauses()).collect();
    // The expected medians are 2 to the power of -4.15 and 2 to the power of 3.22. Nearly all gaps of one second or
    // less are gaps between objects.
    let short = pauses.iter().flatten().map(|pause| pause.seconds()).filter(|&pause| pause < 1.0).collect();
    let long = pauses.iter().flatten().map(|pause| pause.seconds()).filter(|&pause| pause >= 1.0).collect();
    let ([short], [long]) = (quantiles(short, [0.5]), quantiles(long, [0.5]));
    assert!((0.03..0.08).contains(&short) && (3.0..12.0).contains(&long), "{short} {long}");
}

#[test]
fn the_mode_and_the_cut_are_kept_and_the_same_seed_gives_the_same() {
    let of = |config: &Config, seed| run(&mut *config.build(&context(seed, 60)).unwrap()).conversations;
    let config = Config::default();
    assert_eq!(of(&config, 1), of(&config, 1));
    assert_ne!(of(&config, 1)[..10], of(&config, 2)[..10]);
    let low = Config { maximum: Size::from_bytes(1000), ..config.clone() };
    let (all, clipped) = (of(&config, 1), of(&low, 1));
    assert!(
        all.iter()
            .zip(&clipped)
            .all(|(all, clipped)| clipped.1.first.response == all.1.first.response.min(1000))
    );
    let part = Config { start: Span::from_millis(20_000), stop: Some(Span::from_millis(30_000)), ..config };
    let moments = of(&part, 1);
    assert!(moments.len() > 700 && moments.iter().all(|(at, _)| (20.0..30.0).contains(&at.seconds())));
}

/// Checks the 10,000th connection with seed 1, which is several blocks of fractional noise after the start. If this
/// value changes, results change, too; in this case, the results version must be increased.
#[test]
fn the_values_are_pinned() {
    let opened = run(&mut *Config::default().build(&context(1, 110)).unwrap()).conversations;
    let (at, it) = &opened[9_999];
    let delays = [it.client_delay, it.server_delay, it.first.think].map(Span::nanos);
    assert_eq!((at.nanos(), it.first.request, it.first.response, delays), PINNED);
}

const PINNED: (u64, u64, u64, [u64; 3]) = (98_859_005_895, 424, 1346, [304_755, 2_696_349, 3_054_644]);

#[test]
fn invalid_parameters_are_rejected() {
    let path = |config: Config| config.build(&context(1, 100)).err().unwrap().path;
    for connections_per_second in [0.0, -1.0, 1e6, f64::NAN] {
        assert_eq!(path(Config { connections_per_second, ..Config::default() }), "connections_per_second");
    }
    assert_eq!(path(Config { maximum: Size::from_bytes(0), ..Config::default() }), "maximum");
    assert_eq!(path(Config { stop: Some(Span::ZERO), ..Config::default() }), "stop");
    let long = Config { connections_per_second: 100_000.0, ..Config::default() };
    assert_eq!(long.build(&context(1, 1_000_000)).err().unwrap().path, "connections_per_second");
}
