//! Tests that compare the behaviour of Web users with the configured distributions: with a fast network, with a slow
//! network, and without a network.

use super::*;
use crate::testing::{context, distance, fact, run, run_conversing, run_served, seconds};

/// A user's page: the start and the transfer of each object.
type Page = Vec<(Instant, Transfer)>;

fn users(users: u32) -> Config {
    Config { users: Some(users), ..Config::default() }
}

fn closed(count: u32) -> Config {
    Config { think_from: ThinkFrom::PageEnd, ..users(count) }
}

/// Returns a distribution of sizes whose sample mean converges within a few thousand draws.
fn light() -> distributions::Config {
    sizes(1.2, Amount::Packets(4), Amount::Packets(50))
}

fn sizes(shape: f64, minimum: Amount, maximum: Amount) -> distributions::Config {
    let (minimum, maximum) = (Some(minimum), Some(maximum));
    distributions::Config::bounded_pareto(bounded_pareto::Config { shape, minimum, maximum })
}

fn objects(least: u32, most: u32) -> distributions::Config {
    distributions::Config::discrete_uniform(discrete_uniform::Config::of(least, most))
}

/// Returns the duration of a transfer in the network that the tests use: 0.2 s plus 1 ms per packet.
fn network(transfer: Transfer) -> Option<Span> {
    Some(Span::from_millis(200 + transfer.bytes? / 934))
}

fn pages(opened: &[(Instant, Transfer)]) -> Vec<Page> {
    let mut pages: BTreeMap<u64, Page> = BTreeMap::new();
    for &(at, transfer) in opened {
        pages.entry(transfer.page.unwrap()).or_default().push((at, transfer));
    }
    pages.into_values().collect()
}

fn open_pages(config: &Config, seconds: u64) -> Vec<Page> {
    pages(&run(&mut *config.build(&context(1, seconds)).unwrap()).opened)
}

#[test]
fn a_page_has_two_to_seven_objects_that_begin_after_exponential_gaps() {
    let pages = open_pages(&users(100), 1000);
    assert!(pages.len() > 10_000);
    let mut counts = [0_u64; 8];
    let mut gaps = Vec::new();
    for (number, page) in pages.iter().enumerate() {
        let page_objects = page.len() as u32;
        let of_the_page =
            |it: &Transfer| it.page == Some(number as u64) && it.page_objects == page_objects && it.host == 0;
        assert!(page.iter().all(|(_, it)| of_the_page(it)));
        counts[page.len()] += 1;
        gaps.extend(page.windows(2).map(|pair| pair[1].0.since(pair[0].0).seconds()));
    }
    assert_eq!(counts[..2], [0, 0]);
    let expected = pages.len() as f64 / 6.0;
    let squared: f64 = counts[2..].iter().map(|&n| (n as f64 - expected) * (n as f64 - expected)).sum();
    // The limit is the 99 % quantile of the chi-squared distribution with five degrees of freedom.
    assert!(squared / expected < 15.09, "{counts:?}");
    assert!(distance(gaps, |gap| 1.0 - libm::exp(-gap / 0.05)) < 1.63);
}

#[test]
fn sizes_are_bounded_pareto() {
    // The sizes are in bytes, so that their distribution is nearly continuous.
    let sizes = sizes(1.2, Amount::bytes(40_000), Amount::bytes(2_000_000_000));
    let opened = run(&mut *Config { sizes, ..users(50) }.build(&context(3, 1000)).unwrap()).opened;
    let samples: Vec<f64> = opened.iter().map(|(_, transfer)| transfer.bytes.unwrap() as f64).collect();
    assert!(samples.len() > 20_000);
    let power = |x: f64| libm::pow(40_000.0 / x, 1.2);
    assert!(distance(samples, |x| (1.0 - power(x)) / (1.0 - power(2e9))) < 1.63);
}

#[test]
fn in_the_open_loop_pages_of_a_user_are_exponential_gaps_apart_from_the_start_on() {
    let begin = |config: &Config| seconds(open_pages(config, 50_000).iter().map(|page| page[0].0));
    let mut moments = begin(&users(1));
    assert!(moments.len() > 4500);
    moments.insert(0, 0.0);
    assert!(distance(crate::testing::gaps(&moments), |gap| 1.0 - libm::exp(-gap / 9.5)) < 1.63);
    // From the start of the run, the pages of many users form a Poisson process, so that the start times of the pages
    // are uniformly distributed over the interval.
    let many = seconds(open_pages(&users(1000), 20).iter().map(|page| page[0].0));
    assert!(many.len() > 1900);
    assert!(distance(many, |at| at / 20.0) < 1.63);
}

#[test]
fn the_open_loop_does_not_depend_on_the_network() {
    let config = users(30);
    let build = || config.build(&context(4, 500)).unwrap();
    let without = run(&mut *build()).opened;
    assert!(without.len() > 5000);
    assert_eq!(without, run_served(&mut *build(), network).opened);
    assert_eq!(without, run_served(&mut *build(), |_| Some(Span::from_millis(60_000))).opened);
}

#[test]
fn in_the_closed_loop_a_user_thinks_from_the_end_of_the_last_object() {
    let opened = run_served(&mut *closed(1).build(&context(1, 50_000)).unwrap(), network).opened;
    let pages = pages(&opened);
    assert!(pages.len() > 4000);
    let end = |page: &Page| page.iter().map(|&(at, it)| at + network(it).unwrap()).max().unwrap();
    let thought = pages.windows(2).map(|pair| {
        assert!(
            pair[1][0].0 >= end(&pair[0]),
            "a page begins before the last object of the previous page ends"
        );
        pair[1][0].0.since(end(&pair[0])).seconds()
    });
    assert!(distance(thought.collect(), |time| 1.0 - libm::exp(-time / 9.5)) < 1.63);
}

#[test]
fn in_the_closed_loop_a_user_whose_object_neither_ends_nor_fails_waits_for_ever() {
    let lost = |it: Transfer| if it.page == Some(5) { None } else { network(it) };
    let opened = run_served(&mut *closed(1).build(&context(1, 1000)).unwrap(), lost).opened;
    assert_eq!(pages(&opened).len(), 6);
    assert_eq!(pages(&run(&mut *closed(7).build(&context(1, 1000)).unwrap()).opened).len(), 7);
}

#[test]
fn a_user_keeps_its_pages_whatever_the_network_and_the_number_of_users() {
    // There are as many hosts as users, so the host identifies the user.
    let of_first = |count: u32, time: fn(Transfer) -> Option<Span>| {
        let config = Config { hosts: count, ..closed(count) };
        let opened = run_served(&mut *config.build(&context(1, 2000)).unwrap(), time).opened;
        let pages = pages(&opened).into_iter().filter(|page| page[0].1.host == 0);
        pages
            .map(|page| -> Vec<_> { page.iter().map(|(at, it)| (at.since(page[0].0), it.bytes)).collect() })
            .collect::<Vec<_>>()
    };
    let slow = |it: Transfer| Some(Span::from_millis(3000 + it.bytes? / 934));
    let (alone, among, slow) = (of_first(1, network), of_first(9, network), of_first(9, slow));
    assert!(slow.len() > 50 && slow.len() < among.len());
    assert_eq!(alone, among);
    assert_eq!(among[..slow.len()], slow);
}

#[test]
fn users_are_assigned_to_hosts_in_turn() {
    let config = Config { hosts: 3, ..users(7) };
    assert_eq!((config.own_hosts(), config.hosts()), (true, 3));
    assert_eq!((users(7).own_hosts(), users(7).hosts()), (false, 1));
    let mut pages_of = [0_u32; 3];
    for page in open_pages(&config, 20_000) {
        pages_of[page[0].1.host as usize] += 1;
        assert!(page.iter().all(|(_, transfer)| transfer.host == page[0].1.host));
    }
    // Three users are on the first host, and two users are on each of the other hosts.
    let expected = [3.0, 2.0, 2.0].map(|users| users * 20_000.0 / 9.5);
    for (n, expected) in pages_of.into_iter().zip(expected) {
        assert!((f64::from(n) - expected).abs() < 3.0 * f64::sqrt(expected), "{pages_of:?}");
    }
}

#[test]
fn the_number_of_users_is_that_of_the_study() {
    /// A packetisation with 500 bytes per packet and no additional overhead.
    struct Packets500;
    impl crate::Packetisation for Packets500 {
        fn wire_bytes(&self, bytes: u64) -> u64 {
            bytes.div_ceil(500) * 500
        }
        fn payload(&self) -> u64 {
            500
        }
    }
    // 0.9 * 1.25 MB/s * 9.5 s / (4.5 * 21.768 * 500 B) is 218.2; with 3.5 additional gaps of 50 ms, the result is
    // 222.2.
    for (think_from, expected) in [(ThinkFrom::PageStart, 218.0), (ThinkFrom::PageEnd, 222.0)] {
        let config = Config { load: Some(0.9), think_from, ..Config::default() };
        let workload = config.build(&BuildContext { packetisation: &Packets500, ..context(1, 100) }).unwrap();
        assert_eq!(fact(&*workload, "users"), expected);
        let rounded = fact(&*workload, "nominal_load");
        assert!((rounded / 0.9 - 1.0).abs() < 0.5 / expected, "{rounded}");
    }
}

#[test]
fn in_the_long_run_the_offered_load_is_the_nominal_load() {
    // A closed loop offers its nominal load if transfers take no time.
    let at_once = |_: Transfer| Some(Span::ZERO);
    for think_from in [ThinkFrom::PageStart, ThinkFrom::PageEnd] {
        let config = Config { load: Some(0.8), think_from, sizes: light(), ..Config::default() };
        let mut workload = config.build(&context(2, 5000)).unwrap();
        let opened = run_served(&mut *workload, at_once).opened;
        let wire = Wire::of(&crate::testing::FullPackets);
        // The expected value is the variance of a compound Poisson sum, which is larger than the variance in the closed
        // loop.
        let of_page =
            |page: &Page| page.iter().map(|(_, it)| wire.bytes(it.bytes.unwrap()) as f64).sum::<f64>();
        let squares: f64 = pages(&opened).iter().map(of_page).map(|bytes| bytes * bytes).sum();
        let error = squares.sqrt() / (1_250_000.0 * 5000.0);
        let difference = fact(&*workload, "realised_load") - fact(&*workload, "nominal_load");
        assert!(difference.abs() < 3.0 * error && error < 0.01, "{difference} {error}");
    }
}

#[test]
fn a_slow_network_lowers_the_load_of_the_closed_loop_only() {
    let slow = |_: Transfer| Some(Span::from_millis(9500));
    let realised = |think_from| {
        let config = Config { load: Some(0.8), think_from, sizes: light(), ..Config::default() };
        let mut workload = config.build(&context(2, 5000)).unwrap();
        run_served(&mut *workload, slow);
        fact(&*workload, "realised_load")
    };
    assert!((realised(ThinkFrom::PageStart) - 0.8).abs() < 0.02);
    // The time from page to page is 19.175 s instead of 9.675 s.
    assert!((realised(ThinkFrom::PageEnd) - 0.8 * 9.675 / 19.175).abs() < 0.02);
}

#[test]
fn the_facts_count_opened_flows() {
    let mut workload = users(20).build(&context(1, 500)).unwrap();
    let opened = run(&mut *workload).opened;
    assert_eq!(fact(&*workload, "objects"), opened.len() as f64);
    assert_eq!(fact(&*workload, "pages"), pages(&opened).len() as f64);
    assert!((fact(&*workload, "mean_object_bytes") - 21.768 * 934.0).abs() < 1.0);
}

#[test]
fn pages_begin_between_start_and_stop_and_are_completed() {
    let (start, stop) = (Span::from_millis(20_000), Some(Span::from_millis(30_000)));
    let pages = open_pages(&Config { start, stop, ..users(500) }, 100);
    assert!(pages.len() > 400);
    assert!(pages.iter().all(|page| (20.0..30.0).contains(&page[0].0.seconds())));
    assert!(pages.iter().all(|page| page.len() == page[0].1.page_objects as usize));
}

#[test]
fn the_same_seed_gives_the_same_schedule_and_another_seed_another() {
    let opened = |seed| run(&mut *users(20).build(&context(seed, 100)).unwrap()).opened;
    assert_eq!(opened(1), opened(1));
    assert_ne!(opened(1)[..10], opened(2)[..10]);
}

#[test]
fn invalid_parameters_are_rejected() {
    let error = |config: Config| config.build(&context(1, 100)).err().unwrap();
    let path = |config: Config| error(config).path;
    assert_eq!(error(Config::default()).to_string(), "users: is missing: set either `users` or `load`");
    let both = Config { load: Some(0.5), ..users(5) };
    assert_eq!(error(both).to_string(), "load: set either `users` or `load`, not both");
    assert_eq!(path(users(0)), "users");
    assert_eq!(path(users(100_001)), "users");
    for load in [0.0, -1.0, 10.1, f64::NAN, 0.001] {
        assert_eq!(path(Config { load: Some(load), ..Config::default() }), "load", "{load}");
    }
    assert_eq!(path(Config { objects: objects(5, 4), ..users(5) }), "objects.maximum");
    for objects in [objects(0, 3), objects(2, 10_001)] {
        assert_eq!(path(Config { objects, ..users(5) }), "objects");
    }
    let exponential = |span| distributions::Config::exponential(exponential::Config::of(Amount::Time(span)));
    assert_eq!(path(Config { think_time: exponential(Span::ZERO), ..users(5) }), "think_time");
    assert_eq!(path(Config { think_time: exponential(Span::from_nanos(1)), ..users(5) }), "users");
    let sizes = sizes(0.0, Amount::Packets(4), Amount::Packets(5));
    assert_eq!(path(Config { sizes, ..users(5) }), "sizes.shape");
    assert_eq!(path(Config { request: Some(Size::from_bytes(0)), ..users(5) }), "request");
    assert_eq!(path(Config { hosts: 0, ..users(5) }), "hosts");
    assert_eq!(path(Config { hosts: 6, ..users(5) }), "hosts");
    assert_eq!(path(Config { stop: Some(Span::ZERO), ..users(5) }), "stop");
}

#[test]
fn over_connections_a_user_has_the_same_pages_and_thinks_from_the_end_of_the_last_object() {
    let request = Some(Size::from_bytes(300));
    let config = Config { object_gap: no_time(), request, connections: Some(2), ..closed(1) };
    let took = |bytes: u64| Span::from_millis(200 + bytes / 934);
    let end = Instant::START + Span::from_millis(50_000_000);
    let mut workload = config.build(&context(1, 50_000)).unwrap();
    let recording = run_conversing(&mut *workload, end, |_, exchange| took(exchange.response));
    let page_of: BTreeMap<u32, u64> =
        recording.conversations.iter().map(|(_, one)| (one.number.unwrap(), one.page.unwrap())).collect();
    let mut actual: BTreeMap<u64, Vec<(Instant, u64)>> = BTreeMap::new();
    for (at, one) in &recording.conversations {
        assert_eq!((one.first.request, one.host), (300, 0));
        actual.entry(one.page.unwrap()).or_default().push((*at, one.first.response));
    }
    for &(at, number, exchange) in &recording.requests {
        actual.entry(page_of[&number]).or_default().push((at, exchange.response));
    }
    let actual: Vec<_> = actual.into_values().collect();
    assert!(actual.len() > 3000);
    let without = Config { connections: None, ..config.clone() };
    let opened = run_served(&mut *without.build(&context(1, 50_000)).unwrap(), network).opened;
    for (page, alone) in actual.iter().zip(pages(&opened)).take(3000) {
        let alone: Vec<u64> = alone.iter().filter_map(|(_, it)| it.bytes).collect();
        assert_eq!(page.iter().map(|(_, bytes)| *bytes).collect::<Vec<_>>(), alone);
    }
    let end = |page: &[(Instant, u64)]| page.iter().map(|&(at, bytes)| at + took(bytes)).max().unwrap();
    let thought = actual.windows(2).map(|pair| pair[1][0].0.since(end(&pair[0])).seconds());
    assert!(distance(thought.collect(), |time| 1.0 - libm::exp(-time / 9.5)) < 1.63);
    assert_eq!(fact(&*workload, "pages"), actual.len() as f64);
}

/// Returns a distribution in which all times between objects are zero.
fn no_time() -> distributions::Config {
    distributions::Config::read(serde_json::json!({ "kind": "constant", "value": "0s" })).unwrap()
}

#[test]
fn objects_that_share_connections_have_no_gaps() {
    let request = Some(Size::from_bytes(300));
    let shared = Config { connections: Some(6), request, ..users(5) };
    let error = |config: &Config| config.build(&context(1, 100)).err().unwrap().path;
    assert_eq!(error(&shared), "object_gap");
    let shared = Config { object_gap: no_time(), ..shared };
    assert_eq!(error(&Config { request: None, ..shared.clone() }), "request");
    assert!(shared.build(&context(1, 100)).is_ok());
    assert!(shared.simulated_only().is_some() && users(5).simulated_only().is_none());
}
