use aqm_net::level::Files;
use aqm_net::table::{Column, Table};

use super::*;
use crate::Privileges;

fn column<'a>(run: &'a Run, table: &str, column: &str) -> &'a Column {
    let found: &Table = run.tables.iter().find(|one| one.name == table).unwrap();
    &found.columns.iter().find(|(name, _)| *name == column).unwrap().1
}

fn reals(run: &Run, table: &str, name: &str) -> Vec<f64> {
    match column(run, table, name) {
        Column::Real(values) => values.clone(),
        Column::MaybeReal(values) => values.iter().map(|value| value.unwrap_or(f64::NAN)).collect(),
        Column::Whole(values) => values.iter().map(|&value| value as f64).collect(),
        other => panic!("{other:?} has no numbers"),
    }
}

fn live(text: &str) -> Option<Run> {
    let privileges = Privileges::here();
    if !privileges.are_enough() {
        eprintln!("skipped, no live run is possible here: {privileges:?}");
        return None;
    }
    let plan = Plan::of_toml(text, Files::default()).unwrap_or_else(|errors| panic!("{errors}"));
    let run = run(&plan, &Options::default(), &Watch::default());
    Some(run.unwrap_or_else(|failure| panic!("{failure:?}")))
}

#[test]
fn workloads_that_can_only_be_simulated_are_refused_with_their_paths() {
    let plan = Plan::of_toml(
        r#"
        duration = "4s"
        bottleneck = { rate = "10Mbps", delay = "5ms", queue = { kind = "drop-tail", limit = "50p" } }
        [tcp]
        profile = "linux-6"
        [traffic.call]
        kind = "call"
        [traffic.film]
        kind = "video"
        [traffic.pages]
        kind = "web"
        request = "300B"
        connections = 6
        [traffic.plain]
        kind = "web"
        request = "300B"
        "#,
        Files::default(),
    );
    let errors = specs(&plan.unwrap(), &Options::default()).err().unwrap();
    let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
    assert_eq!(paths, ["traffic.call.kind", "traffic.film.kind", "traffic.pages.kind"], "{errors}");
}

#[test]
fn a_download_fills_the_link_and_transfers_are_complete() {
    let run = live(
        r#"
        duration = "4s"
        warm_up = "1s"
        [bottleneck]
        rate = "10Mbps"
        delay = "5ms"
        queue = { kind = "drop-tail", limit = "50p" }
        [tcp]
        profile = "linux-6"
        [traffic.ftp]
        kind = "ftp"
        flows = 2
        stagger = "0s"
        [traffic.web]
        kind = "web"
        load = 0.2
        request = "300B"
        "#,
    );
    let Some(run) = run else { return };
    let utilisation = reals(&run, "links", "utilisation")[0];
    // A packet is counted when its transmission begins, so an interval of 3 s may contain one more packet than the rate
    // allows.
    let most = 1.0 + 1500.0 * 8.0 / 10e6 / 3.0;
    assert!(utilisation <= most, "{utilisation} {:#}", run.manifest["live"]);
    let (sizes, times) = (reals(&run, "transfers", "size_bytes"), reals(&run, "transfers", "duration_s"));
    let complete = times.iter().filter(|time| time.is_finite()).count();
    assert!(complete <= sizes.len(), "{complete} of {}", sizes.len());
    // On a busy machine, the load may not fill the link, packets may be late, and no transfer may be complete.
    if run.manifest["live"]["valid"] == true {
        assert!(utilisation >= 0.9, "{utilisation} {:#}", run.manifest["live"]);
        assert!(sizes.len() >= 10 && complete * 10 >= sizes.len() * 8, "{complete} of {}", sizes.len());
    }
}

#[test]
fn a_watcher_can_stop_a_run_long_before_its_end() {
    let privileges = Privileges::here();
    if !privileges.are_enough() {
        return eprintln!("skipped, no live run is possible here: {privileges:?}");
    }
    let text = r#"
        duration = "600s"
        [tcp]
        profile = "linux-6"
        [bottleneck]
        queue = { kind = "drop-tail" }
        [traffic.ftp]
        kind = "ftp"
        flows = 4
        "#;
    let plan = Plan::of_toml(text, Files::default()).unwrap_or_else(|errors| panic!("{errors}"));
    let watch = Watch::default();
    let began = std::time::Instant::now();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            watch.stop();
        });
        let outcome = run(&plan, &Options::default(), &watch);
        assert!(matches!(outcome, Err(Failure::Stopped)), "{:?}", outcome.err());
    });
    assert!(began.elapsed() < Duration::from_secs(300));
}
