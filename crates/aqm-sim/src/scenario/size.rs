//! What no machine could run, with an estimate of what it would need.

use aqm_net::ErrorCollector;

use crate::scenario::Scenario;
use crate::scenario::links::managed;

/// Packets that a run may send over a link.
const MOST_PACKETS: f64 = 1e12;
/// Packets that may be on a link at once.
const MOST_IN_FLIGHT: f64 = 1e8;
const MOST_LINKS: usize = 10_000;
const MOST_WORKLOADS: usize = 10_000;
const MOST_HOSTS: u64 = 4_000_000;
/// Rows of a sampled table.
const MOST_ROWS: f64 = 1e8;

/// Refuses what no machine could run, with an estimate of what it would need.
pub(crate) fn check(scenario: &Scenario, errors: &mut ErrorCollector) {
    let seconds = scenario.duration.seconds();
    for (_, link, _) in managed(&scenario.links) {
        let per_second = link.peak().bytes_per_second() / 500.0;
        let packets = per_second * seconds;
        let hours = packets * 2e-7 / 3600.0;
        let problem = format!(
            "{seconds} s at {} may be {packets:.0e} packets, about {hours:.0} hours of computing; \
             at most {MOST_PACKETS:.0e} packets are allowed: shorten `duration` or lower the rate",
            link.peak()
        );
        errors.check(packets <= MOST_PACKETS, link.place.as_str(), problem);
        let in_flight = per_second * link.delay.seconds();
        let problem = format!(
            "{in_flight:.0e} packets may be on this link at once, about {:.0} GB of memory; \
             at most {MOST_IN_FLIGHT:.0e} are allowed: lower its rate or delay",
            in_flight * 72.0 / 1e9
        );
        errors.check(in_flight <= MOST_IN_FLIGHT, link.place.as_str(), problem);
    }
    let links = scenario.links.len();
    errors.check(
        links <= MOST_LINKS,
        "links",
        format_args!("{links} links; at most {MOST_LINKS} are allowed"),
    );
    let workloads = scenario.traffic.len();
    let problem = format!("{workloads} workloads; at most {MOST_WORKLOADS} are allowed");
    errors.check(workloads <= MOST_WORKLOADS, "traffic", problem);
    let hosts: u64 = scenario.traffic.iter().map(|one| one.config.hosts()).fold(0, u64::saturating_add);
    let problem = format!(
        "{hosts} hosts would need about {:.0} GB of memory; at most {MOST_HOSTS} are allowed",
        hosts as f64 * 1e3 / 1e9
    );
    errors.check(hosts <= MOST_HOSTS, "traffic", problem);
    if !scenario.record.queue_every.is_zero() {
        let rows = seconds / scenario.record.queue_every.seconds() * links as f64;
        let problem =
            format!("would make {rows:.0e} rows; at most {MOST_ROWS:.0e} are allowed: sample less often");
        errors.check(rows <= MOST_ROWS, "record.queue_every", problem);
    }
}
