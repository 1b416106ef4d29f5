//! What no machine could run, with an estimate of what it would need.

use aqm_net::ConfigError;

use crate::scenario::Scenario;

/// Refuses what no machine could run, with an estimate of what it would need.
pub(crate) fn check(scenario: &Scenario) -> Result<(), ConfigError> {
    let seconds = scenario.duration.seconds();
    let managed = scenario.links.iter().filter(|link| link.queue.is_some());
    for link in managed {
        let per_second = link.rate.bytes_per_second() / 500.0;
        let packets = per_second * seconds;
        if packets > 1e12 {
            let hours = packets * 2e-7 / 3600.0;
            let problem = format!(
                "{seconds} s at {} may be {packets:.0e} packets, about {hours:.0} hours of computing; \
                 at most 1e12 packets are allowed: shorten `duration` or lower the rate",
                link.rate
            );
            return Err(ConfigError::at(link.place.clone(), problem));
        }
        let in_flight = per_second * link.delay.seconds();
        if in_flight > 1e8 {
            let problem = format!(
                "{in_flight:.0e} packets may be on this link at once, about {:.0} GB of memory; \
                 at most 1e8 are allowed: lower its rate or delay",
                in_flight * 72.0 / 1e9
            );
            return Err(ConfigError::at(link.place.clone(), problem));
        }
    }
    if scenario.links.len() > 10_000 {
        let problem = format!("{} links; at most 10000 are allowed", scenario.links.len());
        return Err(ConfigError::at("links", problem));
    }
    if scenario.traffic.len() > 10_000 {
        let problem = format!("{} workloads; at most 10000 are allowed", scenario.traffic.len());
        return Err(ConfigError::at("traffic", problem));
    }
    let hosts: u64 = scenario.traffic.iter().map(|one| one.config.hosts()).fold(0, u64::saturating_add);
    if hosts > 4_000_000 {
        let problem = format!(
            "{hosts} hosts would need about {:.0} GB of memory; at most 4000000 are allowed",
            hosts as f64 * 1e3 / 1e9
        );
        return Err(ConfigError::at("traffic", problem));
    }
    if !scenario.record.queue_every.is_zero() {
        let rows = seconds / scenario.record.queue_every.seconds() * scenario.links.len() as f64;
        if rows > 1e8 {
            let problem = format!("would make {rows:.0e} rows; at most 1e8 are allowed: sample less often");
            return Err(ConfigError::at("record.queue_every", problem));
        }
    }
    Ok(())
}
