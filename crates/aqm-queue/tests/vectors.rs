//! Numbers measured or published by others. The source is stated at the top of each file.

use aqm_link::{Port, Ties};
use aqm_net::{Instant, Length, Packet, Rate, Streams};
use aqm_queue::Config;
use aqm_queue::testing::invariants;
use aqm_queue::testing::{Counts, Driver, Fates, ect, packet};
use serde_json::{Value, json};

/// The rows of a table, read by column name.
struct Table {
    columns: Vec<&'static str>,
    rows: Vec<Vec<&'static str>>,
}

impl Table {
    fn read(text: &'static str) -> Self {
        let mut lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let columns = lines.next().unwrap().split(',').collect();
        Self { columns, rows: lines.map(|line| line.split(',').collect()).collect() }
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        assert!(!self.rows.is_empty());
        self.rows.iter().map(|cells| Row { columns: &self.columns, cells })
    }
}

struct Row<'a> {
    columns: &'a [&'static str],
    cells: &'a [&'static str],
}

impl Row<'_> {
    fn text(&self, column: &str) -> &'static str {
        self.cells[self.columns.iter().position(|name| *name == column).unwrap()]
    }

    fn number(&self, column: &str) -> f64 {
        self.text(column).parse().unwrap()
    }

    fn flag(&self, column: &str) -> bool {
        self.text(column).parse().unwrap()
    }
}

/// Mean and standard error.
fn estimate(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

#[test]
fn a_burst_has_the_same_fates_as_in_ns3() {
    for row in Table::read(include_str!("vectors/red_burst_ns3.csv")).rows() {
        let packets = |column| Length::Packets(row.number(column) as u64).to_string();
        let table = json!({
            "kind": "red", "min_th": packets("min_th"), "max_th": packets("max_th"), "limit": packets("limit"),
            "max_p": row.number("max_p"), "weight": row.number("weight"), "gentle": row.flag("gentle"),
            "spacing": row.text("spacing"), "ecn": row.text("ecn"), "mean_packet": "500B",
        });
        let like = if row.flag("ect") { ect(500) } else { packet(500) };
        let runs: Vec<Counts> = (0..800)
            .map(|seed| {
                let mut driver = Driver::new(table.clone(), seed);
                (0..row.number("arrivals") as u32).for_each(|_| {
                    driver.offer(like);
                });
                driver.fates.counts
            })
            .collect();
        let compare = |name: &str, theirs_se: f64, ours: fn(&Counts) -> u64| {
            agree(&row, name, theirs_se, runs.iter().map(|counts| ours(counts) as f64).collect());
        };
        compare("early", row.number("early_se"), |counts| counts.early);
        compare("forced", row.number("forced_se"), |counts| counts.forced);
        compare("overflow", 0.0, |counts| counts.overflow);
        compare("marks", row.number("marks_se"), |counts| counts.marks);
    }
}

/// Checks that the mean of `ours` agrees with the column `name`, within the standard errors of both.
fn agree(row: &Row<'_>, name: &str, theirs_se: f64, ours: Vec<f64>) {
    let ((mean, se), theirs) = (estimate(&ours), row.number(name));
    let bound = 4.0 * (se * se + theirs_se * theirs_se).sqrt();
    assert!((mean - theirs).abs() <= bound, "{}: {name} {mean} +- {se}, not {theirs}", row.text("id"));
}

#[test]
fn adaptive_red_has_the_same_fates_as_in_ns3() {
    for row in Table::read(include_str!("vectors/adaptive_red_burst_ns3.csv")).rows() {
        let mut red = json!({"limit": "300p", "mean_packet": "500B", "gentle": true, "spacing": "wait"});
        let given = |name: &&str| !row.text(name).is_empty();
        for name in ["weight", "max_p"].into_iter().filter(given) {
            red[name] = json!(row.number(name));
        }
        for name in ["min_th", "max_th"].into_iter().filter(given) {
            red[name] = json!(format!("{}p", row.text(name)));
        }
        let rate = Rate::from_bps(row.number("rate_bps") as u64);
        let mut table = match row.text("kind") {
            "self-configuring-red" => json!({"red": red}),
            _ => {
                red["round_trip"] = json!(row.text("round_trip"));
                red["bottom"] = json!((80_000.0 / row.number("rate_bps")).min(0.01));
                (red["adapts_on"], red["bounds"]) = (json!("arrivals"), json!("passed"));
                (red["gentle_line"], red["start"]) = (json!("stale"), json!("fresh"));
                red
            }
        };
        table["kind"] = json!(row.text("kind"));
        for name in ["bottom", "top"].into_iter().filter(given) {
            table[name] = json!(row.number(name));
        }
        let runs: Vec<Counts> = (0..800)
            .map(|seed| {
                let mut driver = Driver::at_rate(table.clone(), rate, seed);
                for k in 0..300 {
                    driver.now = Instant::from_nanos(k * row.number("gap_ms") as u64 * 1_000_000);
                    driver.offer(packet(500));
                }
                driver.fates.counts
            })
            .collect();
        let of = |ours: fn(&Counts) -> u64| runs.iter().map(|counts| ours(counts) as f64).collect();
        agree(&row, "early", row.number("early_se"), of(|counts| counts.early));
        agree(&row, "forced", row.number("forced_se"), of(|counts| counts.forced));
    }
}

#[test]
fn eight_of_nine_leave_in_order() {
    let table = json!({"kind": "red", "min_th": "2p", "max_th": "5p", "limit": "8p", "weight": 0.002});
    let mut driver = Driver::new(table, 1);
    (0..8).for_each(|_| assert!(!driver.offer(packet(500))));
    assert!((0..8).all(|id| driver.take().unwrap().id == id));
    assert_eq!(driver.take(), None);
}

/// A RED queue at a 1 Mb/s link.
fn port(table: Value, seed: u64, ties: Ties) -> Port {
    let rate = Rate::from_bps(1_000_000);
    let queue = invariants::watched(&Config::read(table).unwrap(), rate).unwrap();
    Port::new(queue, rate, Streams::new(seed).named("queue", 0), ties)
}

/// The send times of a constant-rate source of 1000-byte packets, from `from` to `until`.
fn constant(from: f64, until: f64, bps: f64) -> impl Iterator<Item = f64> {
    let mut time = from;
    std::iter::from_fn(move || {
        let now = time;
        time += 8000.0 / bps;
        (now < until - 1e-12).then_some(now)
    })
}

fn at(seconds: f64) -> Instant {
    Instant::from_nanos((seconds * 1e9 + 0.5) as u64)
}

#[test]
fn the_average_equals_that_of_ns2_digit_by_digit() {
    let reference = Table::read(include_str!("vectors/red_average_ns2.csv"));
    // The thresholds exceed any average of this run, as in the reference.
    let table = json!({
        "kind": "red", "min_th": "49p", "max_th": "3000p", "weight": 0.002, "limit": "50p", "mean_packet": "1000B",
    });
    let mut port = port(table, 1, Ties::DepartureFirst);
    let mut fates = Fates::default();
    let sent = constant(0.0, 4.003, 1.2347e6)
        .chain(constant(4.003, 8.0, 0.4931e6))
        .chain(constant(10.0, 13.003, 1.5171e6))
        .chain(constant(13.003, 16.0, 0.9113e6));
    let (mut arrivals, mut previous, mut compared) = (0, 0.0, 0);
    let mut rows = reference.rows();
    for time in sent {
        // A millisecond of propagation delay, and 8 us on a 1 Gb/s link.
        let now = at(time + 0.001_008);
        port.accept(Packet { id: arrivals, ..packet(1000) }, now, &mut fates, |_| {});
        arrivals += 1;
        let mut average = f64::NAN;
        port.discipline().gauges(&mut |gauge| {
            if gauge.name == "average" {
                average = gauge.value;
            }
        });
        if average != previous {
            let row = rows.next().unwrap();
            let (theirs, when) = (row.number("average"), row.number("time_s"));
            // Six significant digits are printed.
            assert!((now.seconds() - when).abs() <= 0.5e-5 * when.max(0.1), "{} {when}", now.seconds());
            let digit = libm::pow(10.0, libm::floor(libm::log10(theirs)) - 5.0);
            assert!((average - theirs).abs() <= 0.501 * digit, "{when} s: {average}, not {theirs}");
            compared += 1;
        }
        previous = average;
    }
    assert!(rows.next().is_none());
    assert_eq!((arrivals, compared, fates.counts.overflow, fates.list.len()), (1777, 1771, 213, 213));
}

/// The drop fraction and the time average of the queue under constant overload, from 20 s on.
fn overload(table: Value, bps: f64, seed: u64, ties: Ties) -> (f64, f64) {
    let (end, mut before) = (at(220.01), None);
    let mut port = port(table, seed, ties);
    let mut fates = Fates::default();
    for (id, time) in constant(0.0, 220.0, bps).enumerate() {
        let now = at(time + 0.001_008);
        if before.is_none() && time >= 20.0 {
            port.serve(now, &mut fates, |_| {});
            before = Some((now, port.counters(now)));
        }
        port.accept(Packet { id: id as u32, ..packet(1000) }, now, &mut fates, |_| {});
    }
    let (begin, before) = before.unwrap();
    port.serve(end, &mut fates, |_| {});
    let after = port.counters(end);
    let fraction = (after.drops - before.drops) as f64 / (after.arrivals - before.arrivals) as f64;
    (fraction, (after.packet_nanos - before.packet_nanos) as f64 / end.since(begin).nanos() as f64)
}

#[test]
fn constant_overload_has_the_drops_and_the_queue_of_ns2() {
    for row in Table::read(include_str!("vectors/red_overload_ns2.csv")).rows() {
        let table = json!({
            "kind": "red", "min_th": "5p", "max_th": "15p", "max_p": 0.1, "weight": 0.002, "limit": "50p",
            "mean_packet": "1000B", "gentle": row.flag("gentle"), "spacing": row.text("spacing"),
        });
        // At these rates, one arrival in six (or 21, or 51) coincides with a departure to the nanosecond. In ns-2,
        // rounding determines the order, so its queue length lies between those of our two tie rules.
        let measure = |ties| {
            let runs = (0..8).map(|seed| overload(table.clone(), row.number("overload") * 1e6, seed, ties));
            let (fractions, queues): (Vec<f64>, Vec<f64>) = runs.unzip();
            (estimate(&fractions).0, estimate(&queues))
        };
        let ((fraction, (high, high_se)), (_, (low, low_se))) =
            (measure(Ties::DepartureFirst), measure(Ties::ArrivalFirst));
        let (theirs, theirs_se) = (row.number("mean_queue"), row.number("queue_sd") / 3.0_f64.sqrt());
        let name = row.cells.join(",");
        let bound = |se: f64| 4.0 * (se * se + theirs_se * theirs_se).sqrt();
        assert!(theirs <= high + bound(high_se), "{name}: not below {high} +- {high_se}");
        assert!(theirs >= low - bound(low_se), "{name}: not above {low} +- {low_se}");
        assert!((high / low - 1.0).abs() < 0.02, "{name}: ties matter too much for a comparison");
        assert!((fraction / row.number("drop_fraction") - 1.0).abs() < 0.005, "{name}: {fraction}");
    }
}

#[test]
fn shred_shifts_reds_drop_function_by_its_formulas() {
    let shred = Config::read(json!({"kind": "shred", "floor": "none"})).unwrap();
    let red = Config::read(json!({"kind": "red"})).unwrap();
    for row in Table::read(include_str!("vectors/shred_curve.csv")).rows() {
        let r = row.number("r");
        let p = |average| shred.drop_curve(average, r, 0).unwrap();
        let averages =
            [("p0", 0.0), ("p30", 30.0), ("p45", 45.0), ("p60", 60.0), ("p75", 75.0), ("p89", 89.0)];
        for (column, average) in averages {
            let printed = row.number(column);
            // Three decimals are printed.
            assert!((p(average) - printed).abs() <= 0.51e-3, "r = {r}, average {average}: {}", p(average));
        }
        let (min_mod, maxp_mod) = (row.number("min_mod"), row.number("maxp_mod"));
        assert!(p(min_mod.max(0.0)) <= (0.1 / 60.0 * (-min_mod)).max(0.0) + 1e-12, "r = {r}");
        assert!((p(90.0) - maxp_mod).abs() < 1e-12, "r = {r}: the gentle line starts at maxp_mod");
        assert_eq!(p(180.0), 1.0);
        if r == 1.0 {
            assert_eq!(p(47.3), red.drop_curve(47.3, 5.0, 0).unwrap(), "RED ignores the window");
        }
    }
    assert_eq!(
        shred.drop_curve(89.9, 11.0, 0),
        Some(1.0),
        "beyond r = 1 / max_p the drop function is limited to 1"
    );
    assert_eq!(shred.drop_curve(50.0, f64::NAN, 0), None);
}
