//! Invariants of every run: conservation of work, order of flows, and identical results for the same seed. Also the
//! rejection of bad input with its path.

mod common;

use aqm_flow::Scenario;
use aqm_net::table;
use common::{link, maybe_real, real, run, scenario, whole};
use proptest::prelude::*;
use serde_json::{Value, json};

const DISCIPLINES: [&str; 4] = ["processor-sharing", "weighted", "fifo", "shortest-remaining"];

/// A scenario without warm-up, with a row for each flow.
fn whole_run(discipline: &str, load: f64, seconds: u32) -> Value {
    let mut value = link(discipline, load, seconds);
    value["warm_up"] = "0s".into();
    value["record"]["flows"] = true.into();
    value
}

/// The digest of the tables of [`rich`]. It changes only together with `RESULTS_VERSION`.
const DIGEST_OF_A_RICH_SCENARIO: &str = "bd6b7c39c314cf7faf954f2b8d59daf34930e8d19ad91e63e9c5b39d060182bb";

fn rich(seed: u64) -> Value {
    json!({
        "duration": "200s",
        "warm_up": "10s",
        "seed": seed,
        "link": { "capacity": "8Mbps", "discipline": "weighted" },
        "record": { "every": "1s" },
        "traffic": {
            "calls": { "load": 0.2, "service": "streaming", "peak_rate": "80kbps" },
            "access": { "load": 0.3, "peak_rate": "1Mbps", "sizes": common::pareto("10MB") },
            "web": { "load": 0.4, "weight": 2.0, "flows": 5.0, "same_size": 0.3,
                     "sizes": { "kind": "weibull", "mean": "100kB" } },
        },
    })
}

#[test]
fn the_same_seed_gives_the_same_bits() {
    let digest = |seed| table::digest(&run(&rich(seed)).tables);
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
    assert_eq!(digest(1), DIGEST_OF_A_RICH_SCENARIO);
}

#[test]
fn the_manifest_runs_again_and_gives_the_same() {
    let first = run(&rich(3));
    let again = run(&first.manifest["scenario"]);
    assert_eq!(first.tables, again.tables);
    assert_eq!(first.manifest, again.manifest);
}

#[test]
fn flows_do_not_depend_on_the_discipline() {
    let flows = |discipline| {
        let run = run(&whole_run(discipline, 0.8, 500));
        (real(&run, "flows.start_s").to_vec(), whole(&run, "flows.size_bytes").to_vec())
    };
    let first = flows(DISCIPLINES[0]);
    assert!(DISCIPLINES[1..].iter().all(|other| flows(other) == first));
}

#[test]
fn other_sizes_leave_the_arrivals_of_sessions() {
    let starts = |sizes: Value| {
        let mut value = whole_run("processor-sharing", 0.8, 500);
        value["traffic"]["web"]["sizes"] = sizes;
        real(&run(&value), "flows.start_s").to_vec()
    };
    assert_eq!(starts(common::constant()), starts(common::distributions()[2].clone()));
}

#[test]
fn first_in_first_out_keeps_the_order() {
    let run = run(&whole_run("fifo", 0.9, 2000));
    let ends: Vec<f64> = real(&run, "flows.start_s")
        .iter()
        .zip(maybe_real(&run, "flows.duration_s"))
        .map(|(start, time)| time.map_or(f64::INFINITY, |time| start + time))
        .collect();
    assert!(ends.len() > 10_000 && ends.is_sorted());
}

#[test]
fn with_equal_sizes_sharing_keeps_the_order_too() {
    let mut value = whole_run("processor-sharing", 0.9, 2000);
    value["traffic"]["web"]["sizes"] = common::constant();
    let run = run(&value);
    let ends = real(&run, "flows.start_s").iter().zip(maybe_real(&run, "flows.duration_s"));
    let ends: Vec<f64> = ends.filter_map(|(start, time)| Some(start + time?)).collect();
    assert!(ends.len() > 10_000 && ends.windows(2).all(|pair| pair[0] <= pair[1] + 1e-9));
}

#[test]
fn samples_agree_with_the_flows() {
    let mut value = whole_run("processor-sharing", 0.9, 300);
    value["record"]["every"] = "700ms".into();
    let run = run(&value);
    let flows: Vec<(f64, f64)> = real(&run, "flows.start_s")
        .iter()
        .zip(maybe_real(&run, "flows.duration_s"))
        .map(|(start, time)| (*start, time.map_or(f64::INFINITY, |time| start + time)))
        .collect();
    let samples = real(&run, "in_progress.time_s").iter().zip(whole(&run, "in_progress.flows"));
    assert_eq!(real(&run, "in_progress.time_s").len(), 429);
    for (at, &seen) in samples {
        let there = flows.iter().filter(|(start, end)| start < at && end >= at).count() as u64;
        assert_eq!(seen, there, "at {at}");
    }
}

/// Returns the remaining work in bytes at a given time. It decreases at the rate of the link while it is positive.
fn work_left(starts: &[f64], sizes: &[u64], capacity: f64, at: f64) -> f64 {
    let mut left = 0.0_f64;
    let mut now = 0.0;
    for (&start, &size) in starts.iter().zip(sizes).take_while(|(start, _)| **start <= at) {
        left = (left - (start - now) * capacity).max(0.0) + size as f64;
        now = start;
    }
    (left - (at - now) * capacity).max(0.0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_link_sends_whenever_there_is_work_and_nothing_else(
        seed in any::<u32>(),
        load in 0.1_f64..1.5,
        which in 0_usize..4,
        sizes in 0_usize..4,
        weight in 0.1_f64..10.0,
    ) {
        let discipline = DISCIPLINES[which];
        let mut value = whole_run(discipline, load / 2.0, 120);
        value["seed"] = seed.into();
        value["traffic"]["web"]["sizes"] = common::distributions()[sizes].clone();
        value["traffic"]["other"] = json!({ "load": load / 2.0 });
        if discipline == "weighted" {
            value["traffic"]["other"]["weight"] = weight.into();
        }
        let run = run(&value);
        let (starts, sizes) = (real(&run, "flows.start_s"), whole(&run, "flows.size_bytes"));
        let offered: f64 = sizes.iter().map(|&size| size as f64).sum();
        let carried = real(&run, "links.carried_bytes")[0];
        let left = work_left(starts, sizes, 1e6, 120.0);
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-7 * offered.max(1.0);
        prop_assert!(near(carried, offered - left), "{carried} {offered} {left}");
        prop_assert!(near(carried, real(&run, "links.busy")[0] * 120.0 * 1e6));
        // Little's law on the sample path: the area under the number in progress is the sum of the durations.
        let times = starts.iter().zip(maybe_real(&run, "flows.duration_s"));
        let area: f64 = times.map(|(start, time)| time.unwrap_or(120.0 - start)).sum();
        prop_assert!((area - real(&run, "links.mean_in_progress")[0] * 120.0).abs() <= 1e-7 * area.max(1.0));
        // The duration of a complete flow is at least its transmission time on the whole link.
        for (time, &size) in maybe_real(&run, "flows.duration_s").iter().zip(sizes) {
            prop_assert!(time.is_none_or(|time| time >= size as f64 / 1e6 - 1e-9));
        }
    }

    #[test]
    fn only_the_ratio_of_weights_matters(seed in any::<u32>(), weight in 0.2_f64..5.0) {
        let heavy = json!({ "load": 0.4, "weight": weight, "sizes": common::constant() });
        let light = json!({ "load": 0.3, "peak_rate": "4Mbps" });
        let mut value = whole_run("weighted", 0.1, 60);
        value["seed"] = seed.into();
        value["traffic"] = json!({ "a": heavy, "b": light });
        let first = run(&value);
        prop_assert!(real(&first, "links.utilisation")[0] <= 1.0 + 1e-9);
        // A factor of two is exact in every sum and ratio.
        value["traffic"]["a"]["weight"] = (weight * 2.0).into();
        value["traffic"]["b"]["weight"] = 2.0.into();
        prop_assert_eq!(run(&value).tables, first.tables);
    }
}

#[test]
fn invalid_parameters_are_rejected() {
    let good = link("processor-sharing", 0.5, 200);
    for (pointer, bad, path, problem) in [
        ("/duration", json!("0s"), "duration", "greater than zero"),
        ("/warm_up", json!("200s"), "warm_up", "shorter than `duration`"),
        ("/traffic", json!({}), "traffic", "[traffic.NAME]"),
        ("/traffic", json!({ "elastic": { "load": 0.1 } }), "traffic.elastic", "all elastic flows"),
        ("/link/discipline", json!("lifo"), "link.discipline", "`processor-sharing`"),
        ("/link/capacity", json!("8"), "link.capacity", "has no unit"),
        ("/traffic/web/load", json!(0.0), "traffic.web.load", "above 0 and at most 10"),
        ("/traffic/web/load", Value::Null, "traffic.web.load", "set either `load` or `sessions_per_second`"),
        ("/traffic/web/sessions_per_second", json!(1.0), "traffic.web.load", "not both"),
        ("/traffic/web/flows", json!(0.5), "traffic.web.flows", "between 1 and 1000000"),
        ("/traffic/web/same_size", json!(1.5), "traffic.web.same_size", "between 0 and 1"),
        ("/traffic/web/weight", json!(2.0), "traffic.web.weight", "discipline is `weighted`"),
        (
            "/traffic/web/service",
            json!("streaming"),
            "traffic.web.peak_rate",
            "at most the capacity of 8Mbps",
        ),
        ("/traffic/web/sizes", json!({ "kind": "cauchy" }), "traffic.web.sizes.kind", "`hyperexponential`"),
        ("/traffic/web/sizes", json!({ "kind": "constant", "value": "0B" }), "traffic.web.sizes.value", "1B"),
        ("/traffic/web/lod", json!(1.0), "traffic.web.lod", "unknown key `lod`; did you mean `load`?"),
        ("/duration", json!("30000min"), "traffic.web", "record.flows = false"),
        ("/record/every", json!("1us"), "record.every", "lengthen the interval"),
        ("/sed", json!(1), "sed", "unknown key `sed`; did you mean `seed`?"),
    ] {
        let mut value = good.clone();
        if pointer == "/duration" {
            value["record"]["flows"] = true.into();
            value["link"]["capacity"] = "80Mbps".into();
        }
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        value.pointer_mut(parent).unwrap()[key] = bad;
        let errors = Scenario::from_value(value).expect_err(pointer);
        let error = errors.first();
        assert!(error.path == path && error.problem.contains(problem), "{pointer}: {error}");
    }
    for discipline in ["fifo", "shortest-remaining"] {
        let mut value = link(discipline, 0.5, 200);
        value["traffic"]["web"]["peak_rate"] = "1Mbps".into();
        assert_eq!(Scenario::from_value(value).unwrap_err().first().path, "traffic.web.peak_rate");
    }
}

#[test]
fn omitted_parameters_get_their_defaults() {
    let value = scenario(&json!({ "duration": "1s", "traffic": { "web": { "load": 0.5 } } })).to_value();
    assert_eq!(value["link"], json!({ "capacity": "50Mbps", "discipline": "processor-sharing" }));
    assert_eq!(value["traffic"]["web"]["sizes"], json!({ "kind": "exponential", "mean": "100kB" }));
    assert_eq!(scenario(&value).to_value(), value);
}
