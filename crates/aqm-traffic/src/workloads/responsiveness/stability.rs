//! The decisions of the algorithm: responsiveness from samples, and whether a series of averages is stable.

use std::collections::VecDeque;

use aqm_net::{Instant, Span};

use crate::probe_record::{Probe, ProbeKind};

/// The durations of probes, in milliseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples {
    pub(super) tcp: Vec<f64>,
    pub(super) tls: Vec<f64>,
    pub(super) http: Vec<f64>,
    pub(super) loaded: Vec<f64>,
}

impl Samples {
    /// Returns the durations of the complete probes that began at `from` or later. The probes are in the order in which
    /// they began.
    pub(super) fn since(from: Instant, probes: &[Probe]) -> Self {
        let millis = |span: Span| span.seconds() * 1e3;
        let mut found = Self::default();
        for probe in probes.iter().rev().take_while(|probe| probe.start >= from) {
            let Some(response) = probe.response else { continue };
            match probe.kind {
                ProbeKind::Foreign => {
                    found.tcp.extend(probe.tcp.map(millis));
                    found.tls.extend(probe.tls.map(millis));
                    found.http.push(millis(response));
                }
                ProbeKind::Own => found.loaded.push(millis(response)),
                ProbeKind::Echo => {}
            }
        }
        found
    }

    /// Returns the responsiveness in round trips per minute (draft, section 5.3.1); `None` if there are no samples of a
    /// kind. `kept` is the share of the samples that the trimmed means keep.
    pub(super) fn rpm(&mut self, has_tls: bool, kept: f64) -> Option<f64> {
        let mut foreign = trimmed_mean(&mut self.tcp, kept)? + trimmed_mean(&mut self.http, kept)?;
        let mut parts = 2.0;
        if has_tls {
            foreign += trimmed_mean(&mut self.tls, kept)?;
            parts += 1.0;
        }
        let loaded = trimmed_mean(&mut self.loaded, kept)?;
        let rpm = 60_000.0 / (foreign / parts) + 60_000.0 / loaded;
        (foreign > 0.0 && loaded > 0.0).then_some(rpm / 2.0)
    }
}

/// Returns the mean of the smallest samples, which are `kept` of all samples, rounded up; `None` if there are no
/// samples.
fn trimmed_mean(samples: &mut [f64], kept: f64) -> Option<f64> {
    samples.sort_by(f64::total_cmp);
    // The subtraction prevents a rounding error of the product from keeping another sample.
    let count = libm::ceil(kept * samples.len() as f64 - 1e-9) as usize;
    let smallest = samples.get(..count).filter(|smallest| !smallest.is_empty())?;
    Some(smallest.iter().sum::<f64>() / count as f64)
}

/// The last averages of a quantity.
#[derive(Clone, Debug)]
pub(super) struct Averages {
    last: VecDeque<f64>,
    distance: usize,
}

impl Averages {
    /// Creates an empty series. `distance` is the number of averages that must agree.
    pub(super) fn new(distance: u32) -> Self {
        Self { last: VecDeque::new(), distance: distance as usize }
    }

    /// Adds the average of an interval. Returns whether the standard deviation of the last averages is less than
    /// `tolerance` times the new average.
    pub(super) fn is_stable_with(&mut self, average: f64, tolerance: f64) -> bool {
        self.last.push_back(average);
        if self.last.len() > self.distance {
            self.last.pop_front();
        }
        let count = self.last.len() as f64;
        let mean = self.last.iter().sum::<f64>() / count;
        let squares = self.last.iter().map(|one| (one - mean) * (one - mean)).sum::<f64>();
        self.last.len() == self.distance && libm::sqrt(squares / count) < tolerance * average
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(tcp: f64, tls: Option<f64>, http: f64, loaded: f64) -> Samples {
        let ten = |time| vec![time; 10];
        Samples { tcp: ten(tcp), tls: tls.map_or(Vec::new(), ten), http: ten(http), loaded: ten(loaded) }
    }

    #[test]
    fn responsiveness_is_the_mean_of_two_rates() {
        assert_eq!(samples(20.0, Some(20.0), 20.0, 100.0).rpm(true, 0.95), Some(1800.0));
        assert_eq!(samples(30.0, None, 50.0, 40.0).rpm(false, 0.95), Some(1500.0));
        assert_eq!(samples(30.0, None, 50.0, 40.0).rpm(true, 0.95), None, "there is no TLS handshake");
        assert_eq!(Samples::default().rpm(false, 0.95), None);
        assert_eq!(samples(0.0, None, 0.0, 0.0).rpm(false, 0.95), None);
    }

    #[test]
    fn the_trimmed_mean_drops_the_slowest_twentieth() {
        let count = |most: u32| (1..=most).rev().map(f64::from).collect::<Vec<_>>();
        assert_eq!(trimmed_mean(&mut count(20), 0.95), Some(10.0));
        assert_eq!(trimmed_mean(&mut count(40), 0.95), Some(19.5));
        assert_eq!((trimmed_mean(&mut count(1), 0.95), trimmed_mean(&mut [], 0.95)), (Some(1.0), None));
    }

    #[test]
    fn averages_are_stable_when_the_last_ones_agree() {
        let mut averages = Averages::new(4);
        let stable = [1.0, 2.0, 3.0, 4.0, 4.0, 4.0, 4.1].map(|one| averages.is_stable_with(one, 0.05));
        assert_eq!(stable, [false, false, false, false, false, false, true]);
        let mut nothing = Averages::new(2);
        assert_eq!([0.0, 0.0].map(|one| nothing.is_stable_with(one, 0.05)), [false, false]);
    }
}
