//! Simulated links compared with closed forms.
//!
//! Sources: Kleinrock, "Queueing Systems" II, 1976 (processor sharing; M/G/1); Schrage & Miller, "The Queue M/G/1 with
//! the Shortest Remaining Processing Time Discipline", 1966; Fayolle, Mitrani & Iasnogorodski, "Sharing a Processor
//! Among Many Job Classes", 1980 (weights); Lindberger, "Balancing Quality of Service, Pricing and Utilisation in
//! Multiservice Networks with Stream and Elastic Traffic", 1999 (peak rates: M/G/R processor sharing); Bonald &
//! Roberts, "Congestion at Flow Level and the Impact of User Behaviour", 2003 (sessions; elastic flows together with
//! streaming flows that arrive and depart much faster).
//!
//! A test passes if the mean of at least 20 independent replications is within three standard errors of the closed
//! form, and within a tolerance.

mod common;

use common::{
    assert_met, at_least, distributions, link, mean_and_error, pareto, power, real, replicate, run, shares,
    time_by_size, times,
};
use serde_json::{Value, json};

const REPLICATIONS: u64 = 20;
/// Rate of the link in bytes per second, and the mean size.
const CAPACITY: f64 = 1e6;
const SIZE: f64 = 1e5;

fn with_sizes(mut value: Value, sizes: &Value) -> Value {
    value["traffic"]["web"]["sizes"] = sizes.clone();
    value
}

fn with_rows(mut value: Value) -> Value {
    value["record"]["flows"] = true.into();
    value
}

/// Asserts the mean and the tail of the number in progress, and the throughput of flows, with processor sharing.
fn assert_geometric(what: &str, value: &Value, load: f64) {
    // The tail is tested while its probability is at least one tenth, which runs of this duration can measure.
    let far = (1..).take_while(|&least| power(load, least) >= 0.1).last().unwrap_or(1);
    let columns = replicate(value, REPLICATIONS, |run| {
        let throughput = common::maybe_real(run, "classes.mean_throughput_bps")[0].unwrap();
        let shares = shares(run, "elastic");
        let mean = real(run, "links.mean_in_progress")[0];
        [mean, throughput / 8e6, at_least(&shares, 1), at_least(&shares, 2), at_least(&shares, far)]
    });
    let theory = [load / (1.0 - load), 1.0 - load, load, power(load, 2), power(load, far)];
    for (column, name) in ["E N", "throughput", "P(N >= 1)", "P(N >= 2)", "tail"].iter().enumerate() {
        let values: Vec<f64> = columns.iter().map(|row| row[column]).collect();
        assert_met(&format!("{what}: {name}"), &values, theory[column], 0.02);
    }
}

#[test]
#[ignore = "takes long: make theory"]
fn the_number_in_progress_is_geometric_whatever_the_sizes() {
    for (load, seconds) in [(0.5, 60_000), (0.8, 40_000)] {
        for sizes in distributions() {
            // A heavier tail requires longer runs for a meaningful average.
            let seconds = if sizes["kind"] == "lomax" { 4 * seconds } else { seconds };
            let value = with_sizes(link("processor-sharing", load, seconds), &sizes);
            assert_geometric(&format!("{} at {load}", sizes["kind"]), &value, load);
        }
    }
}

#[test]
fn nine_flows_are_in_progress_at_nine_tenths_of_the_capacity() {
    assert_geometric("0.9", &link("processor-sharing", 0.9, 100_000), 0.9);
}

#[test]
fn sessions_of_correlated_flows_and_thoughts_change_nothing() {
    let mut value = with_sizes(link("processor-sharing", 0.7, 60_000), &distributions()[2]);
    for think_time in ["0s", "2s"] {
        value["traffic"]["web"]["flows"] = 4.0.into();
        value["traffic"]["web"]["same_size"] = 0.5.into();
        value["traffic"]["web"]["think_time"] = json!({ "kind": "exponential", "mean": think_time });
        assert_geometric(&format!("sessions that think {think_time}"), &value, 0.7);
    }
}

#[test]
fn the_time_of_a_flow_is_as_its_size_with_processor_sharing() {
    for sizes in [json!({ "kind": "exponential", "mean": "100kB" }), pareto("10MB")] {
        let value = with_rows(with_sizes(link("processor-sharing", 0.6, 12_000), &sizes));
        let found = replicate(&value, REPLICATIONS, times);
        for (from, to) in [(2e4, 5e4), (5e4, 1e5), (1e5, 2e5), (2e5, 4e5)] {
            let each: Vec<f64> = found.iter().map(|times| CAPACITY * time_by_size(times, from, to)).collect();
            assert_met(&format!("{} {from} to {to}", sizes["kind"]), &each, 1.0 / (1.0 - 0.6), 0.02);
        }
    }
}

#[test]
#[ignore = "takes long: make theory"]
fn elastic_flows_with_fast_background_get_the_remaining_capacity() {
    let mut value = link("processor-sharing", 0.1, 1300);
    value["traffic"]["background"] = json!({
        "load": 0.5,
        "service": "streaming",
        "peak_rate": "80kbps",
        "sizes": { "kind": "exponential", "mean": "400B" },
    });
    let found = replicate(&value, REPLICATIONS, |run| {
        (shares(run, "elastic"), shares(run, "background"), real(run, "links.utilisation")[0])
    });
    for (least, cap) in [(1, 0.05), (2, 0.1), (3, 0.1)] {
        let shares: Vec<f64> = found.iter().map(|one| at_least(&one.0, least)).collect();
        assert_met(&format!("P(N >= {least})"), &shares, power(0.1 / 0.5, least), cap);
    }
    let mean: Vec<f64> = found
        .iter()
        .map(|one| one.1.iter().enumerate().map(|(flows, share)| flows as f64 * share).sum())
        .collect();
    assert_met("background in progress", &mean, 50.0, 0.02);
    assert_met("utilisation", &found.iter().map(|one| one.2).collect::<Vec<f64>>(), 0.6, 0.02);
}

/// Returns the probability of waiting with `servers` servers and a load of `load` each (Erlang C).
fn erlang_c(servers: usize, load: f64) -> f64 {
    let offered = servers as f64 * load;
    let (mut term, mut below) = (1.0, 0.0);
    for k in 0..servers {
        below += term;
        term *= offered / (k + 1) as f64;
    }
    let waiting = term / (1.0 - load);
    waiting / (below + waiting)
}

#[test]
#[ignore = "takes long: make theory"]
fn flows_with_equal_peak_rates_take_as_long_as_erlang_c_says() {
    for (ratio, load, factor, seconds) in [(10, 0.8, 1.2046, 20_000), (50, 0.9, 1.0728, 15_000)] {
        let theory = 1.0 + erlang_c(ratio, load) / (ratio as f64 * (1.0 - load));
        assert!((theory - factor).abs() < 1e-4, "independently computed: {factor}, here: {theory}");
        for sizes in distributions() {
            let mut value = with_sizes(link("processor-sharing", load, seconds), &sizes);
            value["traffic"]["web"]["peak_rate"] = format!("{}bps", 8_000_000 / ratio).into();
            let factors = replicate(&value, REPLICATIONS, |run| {
                let throughput = common::maybe_real(run, "classes.mean_throughput_bps")[0].unwrap();
                8e6 / ratio as f64 / throughput
            });
            assert_met(&format!("{} R={ratio} at {load}", sizes["kind"]), &factors, theory, 0.03);
        }
    }
}

#[test]
fn flows_that_never_fill_the_link_are_poisson_in_number() {
    for sizes in distributions() {
        let mut value = with_sizes(link("processor-sharing", 0.5, 3000), &sizes);
        value["link"]["capacity"] = "50Mbps".into();
        value["traffic"]["web"]["peak_rate"] = "1Mbps".into();
        let found = replicate(&value, REPLICATIONS, |run| shares(run, "web"));
        let mean: Vec<f64> = found
            .iter()
            .map(|shares| shares.iter().enumerate().map(|(flows, share)| flows as f64 * share).sum())
            .collect();
        assert_met(&format!("{}: E N", sizes["kind"]), &mean, 25.0, 0.02);
        for number in [20, 25, 30] {
            let chance = (1..=number).fold(libm_exp(-25.0), |chance, k| chance * 25.0 / f64::from(k));
            let share: Vec<f64> = found.iter().map(|shares| shares[number as usize]).collect();
            assert_met(&format!("{}: P(N = {number})", sizes["kind"]), &share, chance, 0.05);
        }
    }
}

/// Returns e^x by its series, which is short enough for these values.
fn libm_exp(x: f64) -> f64 {
    1.0 / (1..200)
        .fold((1.0, 1.0), |(sum, term), k| {
            let term = term * -x / f64::from(k);
            (sum + term, term)
        })
        .0
}

/// Returns the mean duration of a flow of size `x` with shortest remaining first, for exponential sizes with mean 1 and
/// a capacity of 1.
fn shortest_time(x: f64, load: f64) -> f64 {
    let below = |x: f64| load * (1.0 - (1.0 + x) * libm_exp(-x));
    let squares = 2.0 - (x * x + 2.0 * x + 2.0) * libm_exp(-x);
    let waiting = load * (squares + x * x * libm_exp(-x)) / (2.0 * (1.0 - below(x)) * (1.0 - below(x)));
    let steps = 200;
    let step = x / f64::from(steps);
    let service: f64 = (0..steps).map(|k| step / (1.0 - below((f64::from(k) + 0.5) * step))).sum();
    waiting + service
}

/// Returns the mean of `shortest_time` over exponential sizes between two bounds, divided by their mean size.
fn shortest_by_size(load: f64, from: f64, to: f64) -> f64 {
    let steps = 200;
    let step = (to - from) / f64::from(steps);
    let points = (0..steps).map(|k| from + (f64::from(k) + 0.5) * step);
    let (time, size) = points.fold((0.0, 0.0), |sum, x| {
        let weight = libm_exp(-x);
        (sum.0 + weight * shortest_time(x, load), sum.1 + weight * x)
    });
    time / size
}

#[test]
fn shortest_remaining_first_takes_as_long_as_schrage_and_miller_say() {
    let value = with_rows(link("shortest-remaining", 0.8, 12_000));
    let found = replicate(&value, REPLICATIONS, times);
    for (from, to) in [(0.2, 0.5), (0.5, 1.0), (1.0, 2.0), (2.0, 4.0), (4.0, 8.0)] {
        let each: Vec<f64> =
            found.iter().map(|times| CAPACITY * time_by_size(times, from * SIZE, to * SIZE)).collect();
        assert_met(&format!("{from} to {to}"), &each, shortest_by_size(0.8, from, to), 0.03);
    }
}

#[test]
fn no_discipline_is_faster_than_shortest_remaining_first() {
    for sizes in distributions() {
        let mean = |discipline: &str| {
            let value = with_sizes(link(discipline, 0.8, 5000), &sizes);
            let means = replicate(&value, REPLICATIONS, |run| real(run, "links.mean_in_progress")[0]);
            mean_and_error(&means).0
        };
        let shortest = mean("shortest-remaining");
        for other in ["processor-sharing", "fifo"] {
            // With equal sizes, this discipline and first in, first out are equivalent.
            assert!(shortest <= mean(other) * (1.0 + 1e-9), "{sizes} {other}");
        }
    }
    // At a load of one half or less, this discipline is at least as fast as processor sharing for flows of any size.
    let by_size = |discipline: &str, from: f64, to: f64| {
        let value = with_rows(link(discipline, 0.5, 3000));
        let each = replicate(&value, REPLICATIONS, |run| time_by_size(&times(run), from, to));
        mean_and_error(&each).0
    };
    for (from, to) in [(0.0, SIZE), (SIZE, 2.0 * SIZE), (2.0 * SIZE, 4.0 * SIZE), (4.0 * SIZE, 9.0 * SIZE)] {
        let (shortest, sharing) =
            (by_size("shortest-remaining", from, to), by_size("processor-sharing", from, to));
        assert!(shortest <= sharing, "{from} to {to}: {shortest} {sharing}");
    }
}

#[test]
fn first_in_first_out_makes_all_sizes_wait_alike() {
    for (sizes, squares) in distributions().iter().zip([1.0, 2.0, 6.0]) {
        let value = with_rows(with_sizes(link("fifo", 0.7, 40_000), sizes));
        let theory = 0.7 * squares * 0.1 / (2.0 * (1.0 - 0.7));
        let found = replicate(&value, REPLICATIONS, times);
        for (from, to) in [(0.0, SIZE), (SIZE, 3.0 * SIZE)] {
            let waiting = found.iter().map(|times| {
                let inside = times.iter().filter(|(size, _)| (from..=to).contains(size));
                let waits: Vec<f64> = inside.map(|(size, time)| time - size / CAPACITY).collect();
                waits.iter().sum::<f64>() / waits.len() as f64
            });
            assert_met(
                &format!("{} {from} to {to}", sizes["kind"]),
                &waiting.collect::<Vec<_>>(),
                theory,
                0.03,
            );
            if sizes["kind"] == "constant" {
                break;
            }
        }
    }
}

#[test]
fn without_a_second_moment_fifo_waits_for_ever_and_sharing_does_not_care() {
    let mean = |discipline: &str, maximum: &str| {
        let value = with_sizes(link(discipline, 0.6, 20_000), &pareto(maximum));
        mean_and_error(&replicate(&value, REPLICATIONS, |run| real(run, "links.mean_in_progress")[0])).0
    };
    let maxima = ["1MB", "10MB", "100MB"];
    let fifo = maxima.map(|maximum| mean("fifo", maximum));
    let sharing = maxima.map(|maximum| mean("processor-sharing", maximum));
    // The second moment of sizes that are clipped at m grows as the square root of m.
    assert!(fifo[1] > 1.7 * fifo[0] && fifo[2] > 1.7 * fifo[1], "{fifo:?}");
    for found in sharing {
        assert!((found / 1.5 - 1.0).abs() < 0.04, "{sharing:?}");
    }
}

#[test]
fn weights_favour_as_fayolle_mitrani_and_iasnogorodski_say() {
    let mut value = link("weighted", 0.4, 30_000);
    value["traffic"]["heavy"] =
        json!({ "load": 0.4, "weight": 4.0, "sizes": { "kind": "exponential", "mean": "50kB" } });
    // `heavy` is first, because classes are in the order of their names.
    let (mu, load, weight) = ([20.0, 10.0], [0.4, 0.4], [4.0, 1.0]);
    let common: f64 = (0..2).map(|k| mu[k] * weight[k] * (1.0 - load[k])).sum();
    for (one, other) in [(0, 1), (1, 0)] {
        let moved = 1.0 + mu[one] * load[other] * (weight[other] - weight[one]) / common;
        let theory = moved / (mu[one] * (1.0 - load[0] - load[1]));
        let found = replicate(&value, REPLICATIONS, |run| {
            common::maybe_real(run, "classes.mean_duration_s")[one].unwrap()
        });
        assert_met(&format!("class {one}"), &found, theory, 0.03);
    }
}

#[test]
fn flows_accumulate_on_an_overloaded_link() {
    let value = link("processor-sharing", 1.25, 4000);
    let run = run(&value);
    assert!((real(&run, "links.utilisation")[0] - 1.0).abs() < 1e-9);
    // With exponential sizes, departures continue at the rate of the link, and the remaining fifth of 12.5 flows per
    // second accumulates.
    let mean = 2.5 * (4000.0 + 100.0) / 2.0;
    assert!((real(&run, "links.mean_in_progress")[0] / mean - 1.0).abs() < 0.15);
}
