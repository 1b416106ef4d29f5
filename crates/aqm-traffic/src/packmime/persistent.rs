//! Persistent connections of PackMime-HTTP: pages, their objects, and the gaps between them.
//!
//! J. Cao et al., "Stochastic Models for Generating Synthetic HTTP Source Traffic", INFOCOM 2004,
//! and ns-2's PackMimeHTTP: of the connections 9 % persist, and are never pipelined. Gaps and later responses
//! are 2 to the power of a normal value whose mean and variance are random effects of the connection.
//!
//! Ours, where the two differ: ns-2 draws the effects of the gaps once for a whole workload; so does
//! `gap_effects = "workload"`.

use aqm_net::{Rng, Span};

use super::{GapEffects, nanos};
use crate::distributions::{Distribution as _, Exponential, Gamma, Normal};

/// The share of connections that persist.
const PERSISTENT: f64 = 0.09;
/// The share of those that have one page only, and how many more the others have on average, before
/// rounding up.
const ONE_PAGE: f64 = 0.82;
const MORE_PAGES: Exponential = Exponential { mean: 0.417 };
/// The share of pages of one object, where there are more pages, and how many more objects the other pages
/// have.
const ONE_OBJECT: f64 = 0.69;
const MORE_OBJECTS: Exponential = Exponential { mean: 1.578 };

/// Two to the power of a normal value whose mean and variance are random.
struct RandomEffects {
    /// The mean and the variance of the exponent's own mean.
    mean: f64,
    variance: f64,
    /// The shape of the factor of the exponent's variance, whose mean is 1, and what it multiplies.
    shape: f64,
    spread: f64,
}

/// Seconds from a response to the next request of the same page.
const OBJECT_GAPS: RandomEffects = RandomEffects { mean: -4.15, variance: 3.12, shape: 2.35, spread: 1.57 };
/// Seconds from a page to the next one.
const PAGE_GAPS: RandomEffects = RandomEffects { mean: 3.22, variance: 0.73, shape: 1.85, spread: 1.21 };
/// Bytes of the responses after the first one.
const LATER_RESPONSES: RandomEffects =
    RandomEffects { mean: 10.62, variance: 0.94, shape: 3.22, spread: 2.43 };

impl RandomEffects {
    /// The distribution of the exponent, once its random effects are drawn.
    fn sample(&self, rng: &mut Rng) -> Normal {
        let mean = Normal { mean: self.mean, deviation: self.variance.sqrt() }.sample(rng);
        let factor = Gamma { shape: self.shape, mean: 1.0 }.sample(rng);
        Normal { mean, deviation: (factor * self.spread).sqrt() }
    }
}

/// What persistent connections are drawn from.
#[derive(Clone)]
pub(super) struct Persistent {
    shape: Rng,
    gaps: Rng,
    /// The effects of the gaps between objects and between pages, if all connections have the same.
    shared: Option<[Normal; 2]>,
}

impl Persistent {
    pub(super) fn new(gap_effects: GapEffects, [shape, mut gaps]: [Rng; 2]) -> Self {
        let shared = (gap_effects == GapEffects::Workload).then(|| effects(&mut gaps));
        Self { shape, gaps, shared }
    }

    /// The pauses before the exchanges after the first one; none if the connection does not persist.
    pub(super) fn pauses(&mut self) -> Option<Vec<Span>> {
        let rng = &mut self.shape;
        if !rng.chance(PERSISTENT) {
            return None;
        }
        let pages = several(ONE_PAGE, MORE_PAGES, rng);
        let [object_gaps, page_gaps] = self.shared.unwrap_or_else(|| effects(&mut self.gaps));
        let mut pauses = Vec::new();
        for page in 0..pages {
            let one_object = if pages > 1 { ONE_OBJECT } else { 0.0 };
            for object in 0..several(one_object, MORE_OBJECTS, rng) {
                match (page, object) {
                    (0, 0) => {}
                    (_, 0) => pauses.push(pause(page_gaps, &mut self.gaps)),
                    _ => pauses.push(pause(object_gaps, &mut self.gaps)),
                }
            }
        }
        Some(pauses)
    }

    /// The effects of the sizes of the later responses of a connection.
    pub(super) fn size_effects(&mut self) -> Normal {
        LATER_RESPONSES.sample(&mut self.shape)
    }

    /// The size of a later response of a connection, in bytes, given the effects of that connection.
    pub(super) fn size(&mut self, effects: Normal) -> f64 {
        libm::exp2(effects.sample(&mut self.shape))
    }
}

/// The effects of the gaps between objects and between pages.
fn effects(rng: &mut Rng) -> [Normal; 2] {
    [OBJECT_GAPS.sample(rng), PAGE_GAPS.sample(rng)]
}

/// One, with this chance; or else 1 and an exponential value, rounded up, which is at least 2.
fn several(one: f64, more: Exponential, rng: &mut Rng) -> u64 {
    if rng.chance(one) {
        return 1;
    }
    (libm::ceil(1.0 + more.sample(rng)) as u64).max(2)
}

/// A gap, no longer than a run can last.
fn pause(effects: Normal, rng: &mut Rng) -> Span {
    nanos((libm::exp2(effects.sample(rng)) * 1e9).min(1e18))
}
