//! Persistent connections of PackMime-HTTP: the pages, their objects, and the gaps between objects and between pages.
//!
//! Sources: J. Cao et al., "Stochastic Models for Generating Synthetic HTTP Source Traffic", INFOCOM 2004, and ns-2's
//! PackMimeHTTP. In these models, 9 % of the connections are persistent, and requests are not pipelined. Each gap and
//! each later response size is 2 to the power of a normally distributed value, whose mean and variance are random
//! effects of the connection.
//!
//! aqmlab's choice, where the two sources differ: the random effects for gaps are drawn for each connection. ns-2 draws
//! these effects only once for the whole workload, as aqmlab does with `gap_effects = "workload"`.

use aqm_net::{Rng, Span};

use super::{GapEffects, nanos};
use crate::distributions::{Distribution as _, Exponential, Gamma, Normal};

/// Fraction of connections that are persistent.
const PERSISTENT: f64 = 0.09;
/// Fraction of persistent connections that carry one page and, for all other persistent connections, the mean number of
/// additional pages before rounding up.
const ONE_PAGE: f64 = 0.82;
const MORE_PAGES: Exponential = Exponential { mean: 0.417 };
/// Fraction of pages that consist of one object, on connections with several pages, and, for all other pages, the mean
/// number of additional objects before rounding up.
const ONE_OBJECT: f64 = 0.69;
const MORE_OBJECTS: Exponential = Exponential { mean: 1.578 };

/// 2 to the power of a normally distributed value whose mean and variance are random.
struct RandomEffects {
    /// Mean and variance of the exponent's mean, which is itself random.
    mean: f64,
    variance: f64,
    /// Shape of a random factor with mean 1, and the multiplier of this factor. The exponent's variance is the product
    /// of the factor and the multiplier.
    shape: f64,
    spread: f64,
}

/// Time from a response to the next request for the same page, in seconds.
const OBJECT_GAPS: RandomEffects = RandomEffects { mean: -4.15, variance: 3.12, shape: 2.35, spread: 1.57 };
/// Time from one page to the next, in seconds.
const PAGE_GAPS: RandomEffects = RandomEffects { mean: 3.22, variance: 0.73, shape: 1.85, spread: 1.21 };
/// Sizes of the responses that follow the first response, in bytes.
const LATER_RESPONSES: RandomEffects =
    RandomEffects { mean: 10.62, variance: 0.94, shape: 3.22, spread: 2.43 };

impl RandomEffects {
    /// Draws the random effects and returns the resulting distribution of the exponent.
    fn sample(&self, rng: &mut Rng) -> Normal {
        let mean = Normal { mean: self.mean, deviation: self.variance.sqrt() }.sample(rng);
        let factor = Gamma { shape: self.shape, mean: 1.0 }.sample(rng);
        Normal { mean, deviation: (factor * self.spread).sqrt() }
    }
}

/// The random state of persistent connections.
#[derive(Clone)]
pub(super) struct Persistent {
    shape: Rng,
    gaps: Rng,
    /// Random effects for the gaps between objects and for the gaps between pages, if all connections share these
    /// effects.
    shared: Option<[Normal; 2]>,
}

impl Persistent {
    pub(super) fn new(gap_effects: GapEffects, [shape, mut gaps]: [Rng; 2]) -> Self {
        let shared = (gap_effects == GapEffects::Workload).then(|| effects(&mut gaps));
        Self { shape, gaps, shared }
    }

    /// Returns the pauses before all exchanges except the first; `None` if the connection is not persistent.
    pub(super) fn pauses(&mut self) -> Option<Vec<Span>> {
        let rng = &mut self.shape;
        if !rng.chance(PERSISTENT) {
            return None;
        }
        let pages = count_from(ONE_PAGE, MORE_PAGES, rng);
        let [object_gaps, page_gaps] = self.shared.unwrap_or_else(|| effects(&mut self.gaps));
        let mut pauses = Vec::new();
        for page in 0..pages {
            let one_object = if pages > 1 { ONE_OBJECT } else { 0.0 };
            for object in 0..count_from(one_object, MORE_OBJECTS, rng) {
                match (page, object) {
                    (0, 0) => {}
                    (_, 0) => pauses.push(pause(page_gaps, &mut self.gaps)),
                    _ => pauses.push(pause(object_gaps, &mut self.gaps)),
                }
            }
        }
        Some(pauses)
    }

    /// Draws the random effects that determine the sizes of a connection's later responses.
    pub(super) fn size_effects(&mut self) -> Normal {
        LATER_RESPONSES.sample(&mut self.shape)
    }

    /// Draws the size, in bytes, of a later response on a connection that has the random effects `effects`.
    pub(super) fn size(&mut self, effects: Normal) -> f64 {
        libm::exp2(effects.sample(&mut self.shape))
    }
}

/// Draws the random effects for the gaps between objects and for the gaps between pages.
fn effects(rng: &mut Rng) -> [Normal; 2] {
    [OBJECT_GAPS.sample(rng), PAGE_GAPS.sample(rng)]
}

/// Returns 1 with probability `one`. Otherwise, returns 1 plus an exponential value that is rounded up, so that the
/// result is at least 2.
fn count_from(one: f64, more: Exponential, rng: &mut Rng) -> u64 {
    if rng.chance(one) {
        return 1;
    }
    (libm::ceil(1.0 + more.sample(rng)) as u64).max(2)
}

/// Draws a gap, limited to the maximum duration of a run.
fn pause(effects: Normal, rng: &mut Rng) -> Span {
    nanos((libm::exp2(effects.sample(rng)) * 1e9).min(1e18))
}
