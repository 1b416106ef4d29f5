//! Every error in a scenario is found when the scenario is read, and is reported with its path and a remedy. Every
//! accepted scenario runs.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use aqm_net::level::Run;
use aqm_net::watch::Watch;
use aqm_net::{ConfigErrors, Rng, Streams};
use aqm_sim::Plan;
use serde_json::{Map, Value, json};

const GOOD: &str = r#"
duration = "10s"
warm_up = "1s"

[bottleneck]
rate = "10Mbps"
delay = "60ms"

[bottleneck.queue]
kind = "red"
min_th = "30p"
max_th = "90p"
weight = 0.0008
limit = "225p"

[tcp]
profile = "rfc"

[traffic.long]
kind = "ftp"
flows = 2

[traffic.web]
kind = "web"
load = 0.5
objects = { kind = "constant", value = 4 }

[traffic.datagrams]
kind = "udp"
rate = "100kbps"
"#;

const GRAPH: &str = r#"
duration = "5s"
links.one = { from = "a", to = "b", rate = "5Mbps", delay = "5ms", queue = { kind = "shred" }, both_ways = true }
links.two = { from = "b", to = "c", rate = "5Mbps", delay = "5ms", queue = { kind = "drop-tail" }, both_ways = true }
queues.short = { kind = "drop-tail", limit = "3000B" }
access = { rate = "1Gbps", delay = "100us" }
host.jitter = "1ms"
record = { senders = ["long"], packets = ["one"], histories = ["long"], queue_every = "1s" }
tcp = { profile = "ns-2.35", congestion_control = { kind = "reno", ssthresh_rounding = "exact" } }

[traffic.long]
kind = "ftp"
from = "a"
to = "c"
extra_delay = ["1ms", "20ms"]

[traffic.replayed]
kind = "replay"
from = "b"
to = "c"
file = "schedule.csv"
"#;

fn files() -> BTreeMap<String, String> {
    BTreeMap::from([("schedule.csv".to_owned(), "0.5,1000\n1.25,70000\n".to_owned())])
}

fn run(plan: &Plan) -> Run {
    plan.run(&Watch::default()).unwrap()
}

fn read(text: &str) -> Result<Plan, ConfigErrors> {
    Plan::of_toml(text, files())
}

/// Returns the good scenario with one part of its text replaced.
fn with(old: &str, new: &str) -> String {
    assert!(GOOD.contains(old), "`{old}` is not in the scenario");
    GOOD.replacen(old, new, 1)
}

#[track_caller]
fn refused(text: &str, path: &str, parts: &[&str]) {
    let errors = read(text).map(|_| ()).expect_err(text);
    let error = errors.first();
    assert_eq!(error.path, path, "{error}\n{text}");
    for part in parts {
        assert!(error.problem.contains(part), "`{error}` does not contain `{part}`\n{text}");
    }
}

#[test]
fn the_examples_of_this_file_are_valid() {
    for text in [GOOD, GRAPH] {
        assert!(read(text).is_ok(), "{:?}", read(text).map(|_| ()));
    }
}

#[test]
fn missing_values_are_reported_with_a_remedy() {
    refused("", "duration", &["is missing: set the duration of the run", "60s"]);
    refused("duration = \"1s\"", "bottleneck", &["is missing", "[bottleneck]", "[links.NAME]"]);
    refused(
        "duration = \"1s\"\n[bottleneck]\nrate = \"1Mbps\"",
        "bottleneck.queue",
        &["is missing", "drop-tail"],
    );
    refused(&with("kind = \"red\"", ""), "bottleneck.queue.kind", &["is missing", "`red`", "`shred`"]);
    refused(&with("kind = \"ftp\"", ""), "traffic.long.kind", &["is missing", "`web`"]);
    refused(&with("rate = \"100kbps\"", ""), "traffic.datagrams.rate", &["`rate` or `load`"]);
    let queue = "duration = \"1s\"\n[bottleneck.queue]\nkind = \"drop-tail\"";
    refused(queue, "traffic", &["is missing", "[traffic.NAME]"]);
}

#[test]
fn unknown_keys_are_reported_with_the_valid_ones() {
    let cases = [
        ("warm_up = \"1s\"", "warmup = \"1s\"", "", "`warmup`", "`warm_up`"),
        ("delay = \"60ms\"", "dealy = \"60ms\"", "bottleneck", "`dealy`", "`delay`"),
        ("min_th", "min_thresh", "bottleneck.queue", "`min_thresh`", "`min_th`"),
        ("profile = \"rfc\"", "cwnd.intial = 3", "tcp.cwnd", "`intial`", "`initial`"),
        ("flows = 2", "flow = 2", "traffic.long", "`flow`", "`flows`"),
        ("load = 0.5", "laod = 0.5", "traffic.web", "`laod`", "`load`"),
        ("[tcp]", "[acess]\n[tcp]", "", "`acess`", "`access`"),
    ];
    for (old, new, outer, unknown, known) in cases {
        let error = read(&with(old, new)).map(|_| ()).unwrap_err();
        assert!(error.first().path.starts_with(outer), "{error}");
        let said = error.to_string();
        assert!(said.contains("unknown key") && said.contains(unknown) && said.contains(known), "{said}");
    }
    refused(&with("kind = \"red\"", "kind = \"purple\""), "bottleneck.queue.kind", &["`purple`", "`red`"]);
    refused(&with("kind = \"web\"", "kind = \"Web\""), "traffic.web.kind", &["`Web`; did you mean `web`?"]);
    for (key, hint) in [("mss = \"1kB\"", "`connection.mss`"), ("min_rto = \"1s\"", "`rto.min`")] {
        let path = format!("tcp.{}", key.split(' ').next().unwrap());
        refused(&with("profile = \"rfc\"", key), &path, &[&format!("did you mean {hint}?")]);
    }
    refused(&with("\"rfc\"", "\"linux\""), "tcp.profile", &["`linux`", "`rfc`", "`ns-2.35`"]);
}

#[test]
fn every_quantity_needs_its_unit() {
    refused(&with("\"10s\"", "\"10\""), "duration", &["`10` has no unit"]);
    refused(&with("\"10s\"", "10"), "duration", &["10", "text with a unit", "ms"]);
    refused(&with("\"10s\"", "\"10 fortnights\""), "duration", &["unknown unit `fortnights`", "ms"]);
    refused(&with("\"10Mbps\"", "\"10Mb\""), "bottleneck.rate", &["unknown unit `Mb`", "Mbps"]);
    refused(&with("\"30p\"", "30"), "bottleneck.queue.min_th", &["30", "text with a unit"]);
    refused(&with("\"30p\"", "\"30 packets\""), "bottleneck.queue.min_th", &["`packets`", "p, B"]);
    refused(&with("\"60ms\"", "\"1e999ms\""), "bottleneck.delay", &["1e999ms"]);
    refused(&with("\"60ms\"", "\"-60ms\""), "bottleneck.delay", &["-60ms", "zero or more"]);
    refused(&with("\"60ms\"", "\"NaNms\""), "bottleneck.delay", &["NaNms"]);
    refused(&with("\"60ms\"", "\"\""), "bottleneck.delay", &["number with a unit"]);
}

#[test]
fn invalid_values_are_reported_with_what_is_allowed() {
    refused(&with("\"10s\"", "\"0s\""), "duration", &["greater than zero"]);
    refused(&with("\"1s\"", "\"10s\""), "warm_up", &["shorter than the duration", "10s"]);
    refused(&with("\"10Mbps\"", "\"0bps\""), "bottleneck.rate", &["0bps", "between"]);
    refused(&with("\"90p\"", "\"30p\""), "bottleneck.queue.max_th", &["exceed min_th", "30p"]);
    refused(&with("\"90p\"", "\"90kB\""), "bottleneck.queue.max_th", &["same unit as min_th"]);
    refused(&with("0.0008", "0.0"), "bottleneck.queue.weight", &["above 0", "got 0"]);
    refused(&with("0.0008", "-1.0"), "bottleneck.queue.weight", &["above 0", "-1"]);
    refused(&with("\"225p\"", "\"30p\""), "bottleneck.queue.limit", &["exceed min_th"]);
    refused(&with("flows = 2", "flows = 0"), "traffic.long.flows", &["between 1 and", "got 0"]);
    refused(&with("flows = 2", "flows = -2"), "traffic.long.flows", &["-2"]);
    refused(&with("load = 0.5", "load = -0.5"), "traffic.web.load", &["-0.5"]);
    refused(&with("load = 0.5", "load = 1e300"), "traffic.web.load", &["above 0 and at most"]);
    refused(&with("value = 4", "value = 0"), "traffic.web.objects", &["0"]);
    refused(
        &with("rate = \"100kbps\"", "rate = \"1Mbps\"\nload = 0.1"),
        "traffic.datagrams.load",
        &["not both"],
    );
    refused(&with("profile = \"rfc\"", "connection.mss = \"0B\""), "tcp.connection.mss", &["at least 1B"]);
    let segment = "connection = { mss = \"64kB\", header = \"2kB\" }";
    refused(&with("profile = \"rfc\"", segment), "tcp.connection.mss", &["65535B"]);
    refused(&with("profile = \"rfc\"", "rto.min = \"2min\""), "tcp.rto.max", &["below min"]);
    refused(&with("profile = \"rfc\"", "rto.srtt_gain = 2"), "tcp.rto.srtt_gain", &["0 to 1"]);
    refused(&with("[tcp]", "[host]\njitter = \"2s\"\n[tcp]"), "host.jitter", &["at most 1s"]);
    refused(&with("[tcp]", "[host]\nlink_header = \"1kB\"\n[tcp]"), "host.link_header", &["at most 256B"]);
    let ethernet = with("[tcp]", "[host]\nlink_header = \"14B\"\n[tcp]");
    refused(&ethernet, "tcp.connection.header", &["at least 54B", "14B"]);
    let sizes = "connection = { header = \"54B\", ack_size = \"54B\", syn_size = \"66B\" }";
    let ethernet = ethernet.replace("profile = \"rfc\"", sizes);
    let datagrams =
        "rate = \"100kbps\"\nsizes = { kind = \"uniform\", minimum = \"41B\", maximum = \"99B\" }";
    refused(
        &ethernet.replace("rate = \"100kbps\"", datagrams),
        "traffic.datagrams.sizes",
        &["at least 42B", "got 41B"],
    );
    refused(&with("[tcp]", "[record]\nsenders = [\"ftp\"]\n[tcp]"), "record.senders", &["`ftp`", "long"]);
    refused(&with("[tcp]", "[record]\nhistories = [\"ftp\"]\n[tcp]"), "record.histories", &["`ftp`", "long"]);
    refused(
        &with("[tcp]", "[record]\nflow_columns = [\"end\"]\n[tcp]"),
        "record.flow_columns",
        &["`end`", "`end_s`"],
    );
    refused(
        &with("[tcp]", "[record]\npackets = [\"line\"]\n[tcp]"),
        "record.packets",
        &["`line`", "bottleneck"],
    );
    refused(&with("flows = 2", "from = \"middle\""), "traffic.long.from", &["left", "right"]);
    refused(
        &with("flows = 2", "extra_delay = [\"2s\", \"1s\"]"),
        "traffic.long.extra_delay",
        &["ascending order", "2s"],
    );
    refused(
        &with("[tcp]", "[links.a]\nfrom=\"a\"\nto=\"b\"\nrate=\"1Mbps\"\ndelay=\"1s\"\n[tcp]"),
        "links",
        &["must not be combined with `bottleneck`"],
    );
    refused(&with("[traffic.web]", "[traffic.\"a b\"]"), "traffic.a b", &["letters, digits"]);
}

#[test]
fn a_graph_that_hangs_together_badly_is_refused() {
    let with = |old: &str, new: &str| {
        assert!(GRAPH.contains(old));
        GRAPH.replacen(old, new, 1)
    };
    refused(&with("to = \"b\"", "to = \"a\""), "links.one.to", &["differ from `from`"]);
    refused(
        &with("from = \"a\"\nto = \"c\"", "from = \"a\"\nto = \"x\""),
        "traffic.long.to",
        &["`x`", "a, b, c"],
    );
    refused(&with("from = \"a\"\nto = \"c\"", "from = \"a\""), "traffic.long.to", &["node"]);
    refused(&with("\"schedule.csv\"", "\"other.csv\""), "traffic.replayed.file", &["other.csv"]);
    let no_reverse_route = GRAPH.replace("both_ways = true", "both_ways = false");
    refused(&no_reverse_route, "traffic.long.from", &["no route from `c` to `a`", "both_ways"]);
    let errors = read(&with("5Mbps", "5Mbpx")).map(|_| ()).expect_err("no such unit");
    assert_eq!(
        errors.to_string().lines().count(),
        1,
        "nodes are checked only if links could be read: {errors}"
    );
}

#[test]
fn an_invalid_schedule_is_refused_with_its_line() {
    for (content, part) in [
        ("", "no transfers"),
        ("0.5,1000\nnow,5\n", "now"),
        ("0.5,-3\n", "-3"),
        ("0.5\n", "line 1: has 1 columns"),
        ("nan,5\n", "nan"),
        ("1e300,5\n", "1e300"),
        ("0.1,99999999999999999999\n", "99999999999999999999"),
    ] {
        let files = BTreeMap::from([("schedule.csv".to_owned(), content.to_owned())]);
        match Plan::of_toml(GRAPH, files) {
            Ok(_) => panic!("{content} is accepted"),
            Err(errors) => {
                let error = errors.first();
                assert_eq!(error.path, "traffic.replayed.file");
                assert!(error.problem.contains(part), "{error}");
            }
        }
    }
}

#[test]
fn scenarios_too_large_for_any_machine_are_refused_with_an_estimate() {
    refused(
        &with("\"10s\"", "\"1e9s\"").replace("10Mbps", "10Tbps"),
        "bottleneck.queue",
        &["packets", "hours"],
    );
    refused(&with("\"60ms\"", "\"100s\"").replace("10Mbps", "10Tbps"), "bottleneck.queue", &["GB of memory"]);
    refused(&with("flows = 2", "flows = 1000000000000"), "traffic.long.flows", &["1000000000000"]);
    refused(
        &with("flows = 2", "flows = 4000000000"),
        "traffic",
        &["got 4000000002", "GB of memory", "at most"],
    );
    refused(&with("[tcp]", "[record]\nqueue_every = \"1ns\"\n[tcp]"), "record.queue_every", &["rows"]);
    let year = with("\"10s\"", "\"525600min\"").replace("10Mbps", "10Tbps");
    refused(&year, "bottleneck.queue", &["at most 1e12"]);
    assert!(read(&with("\"10s\"", "\"1e30s\"")).is_err());
    assert!(read(&with("\"10s\"", "\"1e9s\"")).is_err(), "thirty years of Web traffic");
    let many = r#"kind = "ftp"
        flows = 1000000
        [traffic.b]
        kind = "ftp"
        flows = 1000000
        [traffic.c]
        kind = "ftp"
        flows = 1000000
        [traffic.d]
        kind = "ftp"
        flows = 1000000"#;
    refused(&with("kind = \"ftp\"\nflows = 2", many), "traffic", &["hosts", "GB of memory"]);
}

#[test]
fn invalid_toml_is_refused_with_its_line() {
    refused("duration = \"1s\"\nduration = \"2s\"", "line 2", &["duplicate key"]);
    refused("duration = \n", "line 1", &[]);
    refused("a = 1\nb = [", "line 2", &[]);
    refused("\u{0}", "line 1", &[]);
    refused(&with("load = 0.5", "load = nan"), "traffic.web.load", &["not a finite number"]);
    refused(&with("load = 0.5", "load = -inf"), "traffic.web.load", &["not a finite number"]);
    refused(&with("load = 0.5", "load = 1979-05-27"), "traffic.web.load", &["date"]);
    refused(&with("flows = 2", "flows = 99999999999999999999"), "line 21", &["99999999999999999999"]);
}

/// Returns the paths of all values in a value, as JSON pointers.
fn paths(value: &Value, here: &str, found: &mut Vec<String>) {
    if !here.is_empty() {
        found.push(here.to_owned());
    }
    match value {
        Value::Object(table) => table.iter().for_each(|(key, inner)| {
            paths(inner, &format!("{here}/{}", key.replace('~', "~0").replace('/', "~1")), found);
        }),
        Value::Array(list) => list.iter().enumerate().for_each(|(n, inner)| {
            paths(inner, &format!("{here}/{n}"), found);
        }),
        _ => {}
    }
}

/// Returns the good scenarios with every default written out, so that every parameter can be changed.
fn complete() -> Vec<Value> {
    let mut red = read(GOOD).unwrap().to_value();
    red["record"]["senders"] = json!(["long"]);
    let mut all = vec![red, read(GRAPH).unwrap().to_value()];
    let kinds = [
        json!({ "kind": "shred" }),
        json!({ "kind": "drop-tail" }),
        json!({ "kind": "drop-nth", "packets": [1, 5] }),
    ];
    for queue in kinds {
        let mut value = all[0].clone();
        value["bottleneck"]["queue"] = queue;
        all.push(Plan::of_value(value, files()).unwrap().to_value());
    }
    all
}

#[test]
fn a_value_of_the_wrong_type_is_refused_everywhere() {
    let mut tried = 0;
    for good in complete() {
        let mut all = Vec::new();
        paths(&good, "", &mut all);
        for path in all {
            let right = good.pointer(&path).unwrap();
            for wrong in [json!([[]]), json!({ "a": 1 }), json!(true), json!("?"), json!(-1), json!(1.5)] {
                let same = std::mem::discriminant(right) == std::mem::discriminant(&wrong);
                if same || right.is_null() || path.ends_with("/kind") && wrong.is_string() {
                    continue;
                }
                let mut value = good.clone();
                *value.pointer_mut(&path).unwrap() = wrong.clone();
                let error =
                    Plan::of_value(value, files()).map(|_| ()).expect_err(&format!("{wrong} at {path}"));
                let parent = path[1..].replace('/', ".");
                let named = error.to_string();
                let key = parent.rsplit('.').next().unwrap();
                let outer = parent.split('.').next().unwrap();
                assert!(named.contains(key) || named.starts_with(outer), "{wrong} at {path}: {named}");
                tried += 1;
            }
        }
    }
    assert!(tried > 1000, "{tried}");
}

const TEXTS: [&str; 28] = [
    "",
    "?",
    "0s",
    "1ns",
    "1e9s",
    "1e300s",
    "-5ms",
    "NaNs",
    "1_000ms",
    " 5 ms ",
    "0bps",
    "16bps",
    "1Gbps",
    "10Tbps",
    "0p",
    "1p",
    "1e18p",
    "18446744073709551615p",
    "1B",
    "64kB",
    "1e15B",
    "red",
    "web",
    "ns-2.35",
    "\u{0}",
    "é\u{202e}",
    "left",
    "bottleneck",
];

fn any_value(rng: &mut Rng) -> Value {
    match rng.below(9) {
        0 => Value::Null,
        1 => json!(rng.chance(0.5)),
        2 => json!([0, 1, 2, -1, i64::MIN, i64::MAX, 1_000_000][rng.below(7) as usize]),
        3 => json!(u64::MAX >> rng.below(64)),
        4 => json!([0.0, -0.0, 1.0, 0.5, 1e-300, 1e300, -1e-9, 5e-324, f64::MAX][rng.below(9) as usize]),
        5 | 6 => json!(TEXTS[rng.below(TEXTS.len() as u64) as usize]),
        7 => json!(
            (0..rng.below(9))
                .map(|_| char::from_u32(rng.below(0x3000) as u32).unwrap_or('?'))
                .collect::<String>()
        ),
        _ => match rng.below(3) {
            0 => json!([]),
            1 => json!({}),
            _ => json!([any_value(rng), any_value(rng)]),
        },
    }
}

/// Deletes, changes, swaps or adds a random value.
fn mangle(value: &mut Value, rng: &mut Rng) {
    let mut all = Vec::new();
    paths(value, "", &mut all);
    if all.is_empty() {
        return;
    }
    let any = |rng: &mut Rng| all[rng.below(all.len() as u64) as usize].clone();
    let path = any(rng);
    match rng.below(6) {
        0 => {
            let (parent, key) = path.rsplit_once('/').expect("a pointer begins with a slash");
            match value.pointer_mut(parent) {
                Some(Value::Object(table)) => drop(table.remove(key)),
                Some(Value::Array(list)) => drop(list.pop()),
                _ => {}
            }
        }
        1 => {
            let other = value.pointer(&any(rng)).cloned().unwrap_or(Value::Null);
            *value.pointer_mut(&path).expect("the path is valid") = other;
        }
        2 => {
            let key = if rng.chance(0.5) { "kind" } else { TEXTS[rng.below(TEXTS.len() as u64) as usize] };
            let new = any_value(rng);
            if let Some(Value::Object(table)) = value.pointer_mut(&path) {
                table.insert(key.to_owned(), new);
            }
        }
        _ => *value.pointer_mut(&path).expect("the path is valid") = any_value(rng),
    }
}

/// Whether a scenario is small enough to run in this test.
fn is_small(value: &Value) -> bool {
    let flows = |one: &Value| one["flows"].as_u64().unwrap_or(1) <= 1000;
    value["traffic"].as_object().is_some_and(|all| all.values().all(flows))
        && value.pointer("/record/queue_every").is_some_and(|every| every != "1ns")
}

#[test]
fn thousands_of_mangled_scenarios_are_read_or_refused_without_panics() {
    let good = complete();
    let mut rng = Streams::new(1).named("mangle", 0);
    let (mut accepted, mut ran) = (0, 0);
    for number in 0..6000 {
        let mut value = good[number % good.len()].clone();
        for _ in 0..=rng.below(3) {
            mangle(&mut value, &mut rng);
        }
        let text = value.to_string();
        let outcome = catch_unwind(AssertUnwindSafe(|| match Plan::of_value(value, files()) {
            Err(errors) => {
                assert!(errors.iter().all(|error| !error.problem.is_empty()));
                (false, false)
            }
            Ok(scenario) => {
                let full = scenario.to_value();
                let again = Plan::of_value(full.clone(), files()).expect("a written scenario can be read");
                let written = again.to_value();
                assert_eq!(full, written, "a written scenario has the same values");
                assert_eq!(again.digest(), scenario.digest());
                (true, ran < 150 && run_shortly(&full))
            }
        }));
        match outcome {
            Ok((read, run)) => (accepted, ran) = (accepted + u32::from(read), ran + u32::from(run)),
            Err(_) => panic!("a panic for {text}"),
        }
    }
    assert!(accepted > 300 && ran > 100, "{accepted} accepted, {ran} run");
}

/// Runs the beginning of a scenario, if the shortened scenario is valid.
fn run_shortly(full: &Value) -> bool {
    let mut short = full.clone();
    short["duration"] = "300ms".into();
    short["warm_up"] = "50ms".into();
    if !is_small(&short) {
        return false;
    }
    Plan::of_value(short, files()).is_ok_and(|scenario| {
        let found = run(&scenario);
        assert_eq!(found.tables.len(), 10);
        true
    })
}

#[test]
fn mangled_text_is_read_or_refused_without_panics() {
    let mut rng = Streams::new(2).named("mangle", 0);
    for number in 0..4000 {
        let mut text: Vec<char> = [GOOD, GRAPH][number % 2].chars().collect();
        for _ in 0..=rng.below(4) {
            let (at, to) = (rng.below(text.len() as u64) as usize, rng.below(text.len() as u64) as usize);
            match rng.below(4) {
                0 => text[at] = char::from_u32(rng.below(0x500) as u32).unwrap_or('?'),
                1 => text.truncate(at.max(1)),
                2 => text.swap(at, to),
                _ => {
                    let piece: Vec<char> = text[at.min(to)..at.max(to)].iter().copied().take(40).collect();
                    text.splice(at..at, piece);
                }
            }
        }
        let text: String = text.into_iter().collect();
        let outcome = catch_unwind(|| read(&text).map(|_| ()));
        match outcome {
            Ok(Err(error)) => assert!(!error.to_string().is_empty()),
            Ok(Ok(())) => {}
            Err(_) => panic!("a panic for {text}"),
        }
    }
}

#[test]
fn a_scenario_with_all_defaults_reads_back_unchanged() {
    for good in complete() {
        let again = Plan::of_value(good.clone(), files()).unwrap();
        assert_eq!(again.to_value(), good);
    }
    for text in [GOOD, GRAPH] {
        let scenario = read(text).unwrap();
        let again = Plan::of_value(scenario.to_value(), files()).unwrap();
        assert_eq!(again.digest(), scenario.digest(), "{text}");
        assert_eq!(run(&again).digest(), run(&scenario).digest(), "{text}");
    }
}

#[test]
fn only_a_table_is_a_scenario() {
    for value in [Value::Null, json!(3), json!("duration"), json!([{ "duration": "1s" }])] {
        let error = Plan::of_value(value, files()).map(|_| ()).unwrap_err();
        assert!(error.first().problem.contains("must be a table"), "{error}");
    }
    assert!(Plan::of_value(Value::Object(Map::new()), files()).is_err());
}
