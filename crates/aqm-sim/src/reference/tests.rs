use aqm_net::level::Files;
use aqm_net::table::{Column, Table};
use aqm_net::watch::Watch;
use aqm_net::{Rng, Streams};
use serde_json::{Map, Value, json};

use crate::scenario::plan::Plan;

use super::ReferenceNetwork;

fn plan(changes: Value) -> Plan {
    let mut value = json!({
        "duration": "20s", "warm_up": "5s", "seed": 3,
        "record": { "histories": ["ftp", "udp"] },
        "bottleneck": {
            "rate": "1Mbps", "delay": "20ms",
            "queue": {"kind": "red", "min_th": "5p", "max_th": "15p", "max_p": 0.1, "limit": "30p"},
        },
        "traffic": {
            "ftp": {"kind": "ftp", "flows": 4, "extra_delay": ["0ms", "30ms"]},
            "web": {"kind": "web", "load": 0.4, "objects": {"kind": "constant", "value": 3}},
            "udp": {"kind": "udp", "rate": "30kbps", "flows": 2, "gaps": {"kind": "exponential"}},
        },
    });
    for (key, change) in changes.as_object().unwrap() {
        value[key] = change.clone();
    }
    Plan::of_value(value, Files::new()).unwrap()
}

/// Returns the sum over all links of the fraction of arrivals that coincide with another event at the queue.
fn tied(tables: &[Table]) -> f64 {
    let links = tables.iter().find(|table| table.name == "links").unwrap();
    let (_, column) = links.columns.iter().find(|(name, _)| *name == "tied_fraction").unwrap();
    let Column::Real(values) = column else { panic!("a share is a real number") };
    values.iter().sum()
}

/// Runs a plan on both the fast engine and the reference engine.
fn run_both(plan: &Plan) -> [Vec<Table>; 2] {
    let reference = plan.run_on(ReferenceNetwork::new(plan), &Watch::default()).unwrap();
    let lazy = plan.run(&Watch::default()).unwrap();
    [lazy.tables, reference.tables]
}

/// Removes the column of tied arrivals and the table `packets`, because only the fast engine counts ties and records
/// packets.
fn comparable(mut tables: Vec<Table>) -> Vec<Table> {
    tables.retain(|table| table.name != "packets");
    for table in &mut tables {
        table.columns.retain(|(name, _)| *name != "tied_fraction");
    }
    tables
}

/// Returns the tables of both engines for a scenario without ties.
fn both(plan: &Plan) -> [Vec<Table>; 2] {
    let tables = run_both(plan);
    assert_eq!(tied(&tables[0]), 0.0, "the comparison needs a scenario without ties");
    tables.map(comparable)
}

fn assert_equal(lazy: &[Table], reference: &[Table], context: &str) {
    for (ours, theirs) in lazy.iter().zip(reference) {
        for ((name, ours_column), (_, theirs_column)) in ours.columns.iter().zip(&theirs.columns) {
            // The columns are long, so the message contains the name of the column instead of the values.
            assert!(ours_column == theirs_column, "{context}: {}.{name} differs", ours.name);
        }
    }
}

#[test]
fn both_engines_end_in_the_same_state() {
    let queues = [
        json!({"kind": "drop-tail", "limit": "12p"}),
        json!({"kind": "drop-tail", "limit": "20kB"}),
        json!({"kind": "red", "min_th": "5p", "max_th": "15p", "max_p": 0.1, "limit": "30p"}),
        json!({"kind": "shred", "red": {"min_th": "5p", "max_th": "15p", "limit": "30p"}}),
        json!({"kind": "rio-ps", "limit": "40p"}),
        json!({
            "kind": "htb", "default": "web",
            "classes": {
                "link": {"rate": "700kbps"},
                "ftp": {
                    "parent": "link", "rate": "300kbps", "ceil": "700kbps", "match": {"traffic": ["ftp"]},
                    "queue": {"kind": "drop-tail", "limit": "9p"},
                },
                "web": {"parent": "link", "rate": "350kbps", "ceil": "600kbps"},
                "udp": {"parent": "link", "rate": "50kbps", "match": {"protocol": "udp"}},
            },
        }),
        json!({
            "kind": "wifi", "scheduler": "fifo", "default": "far",
            "stations": {
                "near": {"rate": "1Mbps", "match": {"traffic": ["ftp", "udp"]}},
                "far": {"rate": "600kbps"},
            },
            "txop": "40ms", "queue": {"kind": "drop-tail", "limit": "9p"},
        }),
        json!({
            "kind": "wifi", "scheduler": "round-robin", "default": "far",
            "stations": {
                "near": {"rate": "1Mbps", "match": {"traffic": ["ftp", "udp"]}},
                "far": {"rate": "600kbps"},
            },
            "txop": "40ms", "queue": {"kind": "drop-tail", "limit": "9p"},
        }),
        json!({
            "kind": "wifi", "scheduler": "airtime", "default": "far",
            "stations": {
                "near": {"rate": "1Mbps", "match": {"traffic": ["ftp", "udp"]}},
                "far": {"rate": "600kbps"},
            },
            "txop": "40ms", "queue": {"kind": "drop-tail", "limit": "9p"},
        }),
    ];
    for queue in queues {
        let bottleneck = json!({"rate": "1Mbps", "delay": "20ms", "queue": queue});
        let [lazy, reference] = both(&plan(json!({"bottleneck": bottleneck.clone()})));
        // First links collect their arrivals only if no packet histories are recorded.
        let with_first_links =
            plan(json!({"bottleneck": bottleneck.clone(), "record": {"queue_every": "70ms"}}));
        let [first_links, in_order] = both(&with_first_links);
        assert_equal(&first_links, &in_order, &format!("first links, {}", bottleneck["queue"]));
        let rows = |tables: &[Table]| match &tables[1].columns[0].1 {
            Column::Whole(flows) => flows.len(),
            _ => 0,
        };
        assert!(rows(&lazy) > 30, "too few rows to compare");
        assert_equal(&lazy, &reference, &bottleneck["queue"].to_string());
    }
}

#[test]
fn both_engines_report_the_same_tc_statistics() {
    let queues = [
        json!({"kind": "linux-red", "limit": "30kB"}),
        json!({"kind": "policer", "rate": "900kbps", "queue": {"kind": "drop-tail", "limit": "9p"}}),
        json!({"kind": "htb", "classes": {"all": {"rate": "700kbps", "queue": {"kind": "drr", "limit": "9p"}}}}),
    ];
    for (queue, inside) in queues.into_iter().zip([0, 1, 1]) {
        let bottleneck = json!({"rate": "1Mbps", "delay": "20ms", "queue": queue});
        let plan = plan(json!({"bottleneck": bottleneck, "record": {"tc_statistics": true}}));
        let reference = plan.run_on(ReferenceNetwork::new(&plan), &Watch::default()).unwrap();
        let lazy = plan.run(&Watch::default()).unwrap();
        let shown = &lazy.manifest["qdiscs"];
        assert_eq!(shown, &reference.manifest["qdiscs"]);
        assert_eq!(shown.as_array().map(Vec::len), Some(1 + inside));
        assert_eq!((&shown[0]["dev"], &shown[0]["root"]), (&json!("bottleneck"), &json!(true)));
        assert!(shown[0]["packets"].as_u64() > Some(100) && shown[0]["drops"].as_u64() > Some(0), "{shown}");
    }
    let silent = plan(json!({})).run(&Watch::default()).unwrap();
    assert!(silent.manifest.get("qdiscs").is_none(), "only if the scenario requests it");
}

#[test]
fn both_engines_agree_on_a_graph_with_two_queues() {
    let red = json!({"kind": "red", "min_th": "5p", "max_th": "15p", "limit": "30p"});
    let link = |from: &str, to: &str, rate: &str| json!({"from": from, "to": to, "rate": rate, "delay": "7ms", "queue": red, "both_ways": true});
    let value = json!({
        "duration": "20s",
        "links": {"ab": link("a", "b", "1Mbps"), "bc": link("b", "c", "900kbps")},
        "traffic": {
            "through": {"kind": "ftp", "flows": 2, "from": "a", "to": "c", "extra_delay": ["0ms", "9ms"]},
            "across": {"kind": "ftp", "flows": 2, "from": "b", "to": "c", "extra_delay": ["0ms", "9ms"]},
        },
    });
    let plan = Plan::of_value(value, Files::new()).unwrap();
    let [lazy, reference] = both(&plan);
    assert_equal(&lazy, &reference, "graph");
}

#[test]
fn both_engines_agree_on_a_reverse_link() {
    let queue = json!({"kind": "red", "min_th": "5p", "max_th": "15p", "limit": "30p"});
    for reverse in [
        json!({"rate": "37kbps", "delay": "3ms"}),
        json!({"rate": "29kbps", "queue": {"kind": "drop-tail", "limit": "7p"}}),
    ] {
        let bottleneck = json!({"rate": "1Mbps", "delay": "20ms", "queue": queue, "reverse": reverse});
        let [lazy, reference] = both(&plan(json!({"bottleneck": bottleneck})));
        assert_equal(&lazy, &reference, &reverse.to_string());
    }
}

#[test]
fn first_links_agree_for_any_delay_and_access_links() {
    let queue = json!({"kind": "red", "min_th": "5p", "max_th": "15p", "limit": "30p"});
    let cases = [
        ("0s", "97Mbps", "1ms"),
        ("1us", "1200kbps", "0s"),
        ("20ms", "1171kbps", "40ms"),
        ("2s", "3Mbps", "1ms"),
    ];
    for (delay, access_rate, access_delay) in cases {
        let changes = json!({
            "record": {"queue_every": "1s"},
            "bottleneck": {"rate": "1Mbps", "delay": delay, "queue": queue},
            "access": {"rate": access_rate, "delay": access_delay},
            "host": {"jitter": "3ms"},
        });
        let [lazy, reference] = both(&plan(changes));
        assert_equal(&lazy, &reference, delay);
    }
}

#[test]
fn both_engines_agree_on_conversations_in_both_directions() {
    let queue = json!({"kind": "drop-tail", "limit": "20p"});
    let link = |from: &str, to: &str| json!({"from": from, "to": to, "rate": "1Mbps", "delay": "7ms", "queue": queue});
    let web = |from: &str, to: &str| json!({"kind": "packmime", "connections_per_second": 14, "http": "1.1", "from": from, "to": to});
    let value = json!({
        "duration": "60s",
        "warm_up": "5s",
        "links": {"ab": link("a", "b"), "ba": link("b", "a")},
        "traffic": {"there": web("a", "b"), "back": web("b", "a")},
    });
    let plan = Plan::of_value(value, Files::new()).unwrap();
    let [lazy, reference] = both(&plan);
    assert_equal(&lazy, &reference, "conversations");
}

#[test]
fn both_engines_agree_on_very_many_routes() {
    let value = |jitter: &str| {
        json!({
            "duration": "3s", "warm_up": "1s", "record": {"queue_every": "70ms"}, "host": {"jitter": jitter},
            "bottleneck": {
                "rate": "97Mbps", "delay": "20ms",
                "queue": {"kind": "red", "min_th": "300p", "max_th": "900p", "max_p": 0.1, "limit": "2000p"},
            },
            "access": {"rate": "29Mbps", "delay": "1ms"},
            "traffic": {"ftp": {"kind": "ftp", "flows": 1100, "stagger": "1s"}},
        })
    };
    for jitter in ["0s", "3ms"] {
        let plan = Plan::of_value(value(jitter), Files::new()).unwrap();
        assert!(plan.topology.has_many_routes());
        let [lazy, reference] = run_both(&plan).map(comparable);
        assert_equal(&lazy, &reference, jitter);
    }
}

/// Returns the keys of a link with random properties, and adds the files to which the keys refer.
fn random_link(rng: &mut Rng, files: &mut Files) -> Map<String, Value> {
    let mut link = Map::new();
    let micros = |rng: &mut Rng, most: u64| format!("{}us", 1 + rng.below(most));
    let step_times = |rng: &mut Rng, most_steps: u64, most: u64| -> Vec<u64> {
        let count = 1 + rng.below(most_steps);
        let mut times: Vec<u64> = (0..count).map(|_| rng.below(most) * u64::from(rng.chance(0.9))).collect();
        times.sort_unstable();
        times.dedup();
        times
    };
    match rng.below(4) {
        0 => {
            let (mut trace, mut time) = (Vec::new(), rng.below(3));
            for _ in 0..1 + rng.below(40) {
                trace.push(time.to_string());
                time += rng.below(2) * rng.below(30);
            }
            trace.push((time + 1 + rng.below(20)).to_string());
            let name = format!("trace-{}", files.len());
            link.insert(
                "opportunities".into(),
                json!({"file": name, "bytes": if rng.chance(0.5) { "1504B" } else { "700B" }}),
            );
            files.insert(name, trace.join("\n"));
        }
        1 => {
            let mut times = step_times(rng, 6, 3_000_000);
            times.push(3_000_000 + rng.below(1_000_000));
            let mut nought = false;
            let mut rate = |rng: &mut Rng| {
                // A link that can never send is rejected, so at least one rate must not be zero.
                nought = !nought && rng.chance(0.3);
                if nought { 0 } else { 100_000 + rng.below(3_000_000) }
            };
            if rng.chance(0.5) {
                let rows: Vec<String> =
                    times.iter().map(|at| format!("{},{}", *at as f64 / 1e6, rate(rng))).collect();
                let name = format!("rates-{}", files.len());
                link.insert("rate_file".into(), name.clone().into());
                files.insert(name, rows.join("\n"));
            } else {
                let steps: Vec<Value> = times
                    .iter()
                    .map(|at| json!({"at": format!("{at}us"), "rate": format!("{}bps", rate(rng))}))
                    .collect();
                link.insert("rate_steps".into(), json!(steps));
            }
            if rng.chance(0.7) {
                let period = times[times.len() - 1] + 1 + rng.below(500_000);
                link.insert("rate_repeat".into(), format!("{period}us").into());
            }
        }
        _ => {}
    }
    if rng.chance(0.3) {
        let outage = |rng: &mut Rng| {
            let from = rng.below(6_000_000);
            json!({"from": format!("{from}us"), "until": format!("{}us", from + 1 + rng.below(800_000))})
        };
        link.insert("outages".into(), (0..1 + rng.below(3)).map(|_| outage(rng)).collect());
    }
    if rng.chance(0.3) {
        link.insert(
            "random_outages".into(),
            json!({"mean_up": micros(rng, 900_000), "mean_down": micros(rng, 90_000)}),
        );
    }
    if !link.contains_key("opportunities") && rng.chance(0.4) {
        let mut bursts = json!({
            "packets": 1 + rng.below(12), "max_wait": micros(rng, 30_000), "gap": format!("{}us", rng.below(4000)),
        });
        if rng.chance(0.5) {
            bursts["bytes"] = format!("{}B", 100 + rng.below(6000)).into();
        }
        link.insert("aggregation".into(), bursts);
    }
    if rng.chance(0.4) {
        let times = step_times(rng, 5, 2_000_000);
        let delay = |rng: &mut Rng| micros(rng, 60_000);
        let steps: Vec<Value> =
            times.iter().map(|at| json!({"at": format!("{at}us"), "delay": delay(rng)})).collect();
        link.insert("delay_steps".into(), json!(steps));
        if rng.chance(0.5) {
            link.insert("delay_repeat".into(), format!("{}us", times[times.len() - 1] + 7).into());
        }
    }
    if rng.chance(0.4) {
        let loss = if rng.chance(0.5) {
            json!({"probability": 0.03})
        } else {
            json!({"p": 0.02, "r": 0.3, "loss_in_bad": 0.7, "loss_in_good": 0.001})
        };
        link.insert("loss".into(), loss);
    }
    if rng.chance(0.4) {
        let reordering =
            json!({"probability": 0.1, "delay": micros(rng, 20_000), "jitter": micros(rng, 9000)});
        link.insert("reordering".into(), reordering);
    }
    link
}

/// Returns a scenario with one or several links that have random properties, and the files to which the scenario
/// refers.
fn random_scenario(rng: &mut Rng, seed: u64) -> (Value, Files) {
    let queues = [
        json!({"kind": "drop-tail", "limit": "12p"}),
        json!({"kind": "red", "min_th": "5p", "max_th": "15p", "max_p": 0.1, "limit": "30p"}),
        json!({"kind": "pie"}),
        json!({"kind": "fq-codel"}),
        json!({"kind": "rio-ps", "limit": "40p"}),
        json!({"kind": "drr", "limit": "30p"}),
        json!({
            "kind": "htb", "default": "web",
            "classes": {
                "link": {"rate": "700kbps"},
                "ftp": {
                    "parent": "link", "rate": "300kbps", "ceil": "700kbps", "match": {"traffic": ["ftp"]},
                    "queue": {"kind": "codel"},
                },
                "web": {"parent": "link", "rate": "350kbps", "ceil": "600kbps"},
            },
        }),
    ];
    let mut files = Files::new();
    let mut link = |rng: &mut Rng| {
        let mut table = random_link(rng, &mut files);
        table.insert("rate".into(), format!("{}bps", 300_000 + rng.below(1_500_000)).into());
        let queue = &queues[rng.below(queues.len() as u64) as usize];
        // If a packet may depart at the instant of its arrival, the propagation delay must be positive.
        let none = !table.contains_key("opportunities") && rng.chance(0.1);
        let delay = if none { 0 } else { 1 + rng.below(40_000) };
        table.insert("delay".into(), format!("{delay}us").into());
        table.insert("queue".into(), queue.clone());
        Value::Object(table)
    };
    let mut traffic = json!({
        "ftp": {"kind": "ftp", "flows": 3, "extra_delay": ["0ms", "30ms"]},
        "web": {"kind": "web", "load": 0.3, "objects": {"kind": "constant", "value": 3}},
        "udp": {"kind": "udp", "rate": "30kbps", "flows": 2, "gaps": {"kind": "exponential"}},
    });
    let mut value =
        json!({"duration": "6s", "warm_up": "1s", "seed": seed, "record": {"queue_every": "70ms"}});
    if rng.chance(0.7) {
        value["bottleneck"] = link(rng);
        if rng.chance(0.5) {
            value["bottleneck"]["reverse"] = link(rng);
        }
    } else {
        // The scenario has two consecutive links and a reverse link.
        for (name, from, to) in [("ab", "a", "b"), ("bc", "b", "c"), ("ca", "c", "a")] {
            let mut link = link(rng);
            (link["from"], link["to"]) = (from.into(), to.into());
            value["links"][name] = link;
        }
        for workload in traffic.as_object_mut().unwrap().values_mut() {
            (workload["from"], workload["to"]) = ("a".into(), "c".into());
        }
    }
    value["traffic"] = traffic;
    if rng.chance(0.3) {
        value["record"]["histories"] = json!(["ftp", "udp"]);
    }
    if rng.chance(0.3) {
        let dumbbell = value.get("bottleneck").is_some();
        value["record"]["packets"] = json!([if dumbbell { "bottleneck" } else { "bc" }]);
    }
    (value, files)
}

/// Runs random scenarios. The number of scenarios is a twentieth of `AQM_FUZZ_CASES`, and the first seed is
/// `AQM_FUZZ_SEED`.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the number of scenarios and the first seed are set in the environment"
)]
fn both_engines_agree_on_random_links() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let rounds = number("AQM_FUZZ_CASES").map_or(300, |cases| cases / 20);
    let first = number("AQM_FUZZ_SEED").unwrap_or(0);
    let mut lost = 0;
    for seed in first..first + rounds {
        let (value, files) = random_scenario(&mut Streams::new(seed).named("lines", 0), seed);
        let plan =
            Plan::of_value(value.clone(), files.clone()).unwrap_or_else(|error| panic!("{error}: {value}"));
        let again = Plan::of_value(plan.to_value(), files).unwrap_or_else(|error| panic!("{error}: {value}"));
        assert_eq!(plan.digest(), again.digest(), "{value}");
        let [lazy, reference] = run_both(&plan).map(comparable);
        assert_equal(&lazy, &reference, &format!("AQM_FUZZ_SEED={seed}: {value}"));
        let drops = lazy.iter().find(|table| table.name == "drops").unwrap();
        let (_, reasons) = drops.columns.iter().find(|(name, _)| *name == "reason").unwrap();
        let Column::Word { codes, words } = reasons else { panic!("a reason is a word") };
        lost += codes.iter().filter(|&&code| words[code as usize] == "line-loss").count();
    }
    assert!(lost > 3 * rounds as usize, "{lost} packets were lost on links");
}
