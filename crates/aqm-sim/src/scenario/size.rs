//! Rejection of scenarios that are too large for any machine. The error messages contain an estimate of the resources
//! that a run would need.

use aqm_net::ErrorCollector;

use crate::scenario::Scenario;
use crate::scenario::links::managed;

/// Maximum number of packets that a run may send over a link.
const MAX_PACKETS: f64 = 1e12;
/// Maximum number of packets that may be on a link at the same time.
const MAX_IN_FLIGHT: f64 = 1e8;
const MAX_LINKS: usize = 10_000;
const MAX_WORKLOADS: usize = 10_000;
const MAX_HOSTS: u64 = 4_000_000;
/// Maximum number of rows of a sampled table.
const MAX_ROWS: f64 = 1e8;

/// Reports an error for each part of a scenario that is too large for any machine.
pub(crate) fn check(scenario: &Scenario, errors: &mut ErrorCollector) {
    let seconds = scenario.duration.seconds();
    for (_, link, _) in managed(&scenario.links) {
        let per_second = link.peak().bytes_per_second() / 500.0;
        let packets = per_second * seconds;
        let hours = packets * 2e-7 / 3600.0;
        let problem = format!(
            "a run of {seconds} s at {} may send {packets:.0e} packets and need about {hours:.0} hours of computing; \
             at most {MAX_PACKETS:.0e} packets are allowed: shorten `duration` or lower the rate",
            link.peak()
        );
        errors.check(packets <= MAX_PACKETS, link.queue_path.as_str(), problem);
        let in_flight = per_second * link.delay.seconds();
        let problem = format!(
            "{in_flight:.0e} packets may be on this link at the same time and need about {:.0} GB of memory; \
             at most {MAX_IN_FLIGHT:.0e} are allowed: lower the rate or the delay of the link",
            in_flight * 72.0 / 1e9
        );
        errors.check(in_flight <= MAX_IN_FLIGHT, link.queue_path.as_str(), problem);
    }
    let links = scenario.links.len();
    errors.check(
        links <= MAX_LINKS,
        "links",
        format_args!("must contain at most {MAX_LINKS} links (got {links})"),
    );
    let workloads = scenario.traffic.len();
    let problem = format!("must contain at most {MAX_WORKLOADS} workloads (got {workloads})");
    errors.check(workloads <= MAX_WORKLOADS, "traffic", problem);
    let hosts: u64 = scenario.traffic.iter().map(|one| one.config.hosts()).fold(0, u64::saturating_add);
    let problem = format!(
        "must have at most {MAX_HOSTS} hosts (got {hosts}, which need about {:.0} GB of memory)",
        hosts as f64 * 1e3 / 1e9
    );
    errors.check(hosts <= MAX_HOSTS, "traffic", problem);
    if !scenario.record.queue_every.is_zero() {
        let rows = seconds / scenario.record.queue_every.seconds() * links as f64;
        let problem = format!(
            "would record {rows:.0e} rows, but at most {MAX_ROWS:.0e} rows are allowed: sample less often"
        );
        errors.check(rows <= MAX_ROWS, "record.queue_every", problem);
    }
}
