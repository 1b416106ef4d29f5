//! Random streams, which are identified by their purpose and not by their order of creation.
//!
//! A stream depends only on the seed of the run, the name of its purpose and an index. Arrivals, sizes and start times
//! therefore do not change when only the queue is changed, so that runs with different queues can be compared in pairs.
//!
//! The generator is Xoshiro256++ (Blackman & Vigna 2019). The code specifies the generator explicitly, so that results
//! do not change if a library changes its default generator. The generator is seeded with the SplitMix64 sequence that
//! starts at a hash (FNV-1a) of the run's seed, the name and the index.

use rand_core::{Rng as _, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The random streams of a run.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    seed: u64,
}

impl Streams {
    /// Returns the streams of a run with this seed.
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Returns the stream for the purpose `name`; `index` distinguishes several streams of the same purpose.
    pub fn named(&self, name: &str, index: u64) -> Rng {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let bytes = self.seed.to_le_bytes().into_iter().chain(index.to_le_bytes()).chain(name.bytes());
        for byte in bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Rng(Xoshiro256PlusPlus::seed_from_u64(hash))
    }
}

/// A random stream.
#[derive(Clone, Debug)]
pub struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a uniformly distributed value on [0, 1), which is a multiple of 2^-53.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Returns a uniformly distributed value on (0, 1], which is a multiple of 2^-53 and can safely be passed to a
    /// logarithm or a negative power.
    pub fn uniform_positive(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Returns a uniformly distributed integer from {0, …, n-1}, without bias (Lemire 2019).
    ///
    /// # Panics
    /// Panics if `n` is zero.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "`n` must not be zero");
        let threshold = n.wrapping_neg() % n;
        loop {
            let product = u128::from(self.bits()) * u128::from(n);
            if product as u64 >= threshold {
                return (product >> 64) as u64;
            }
        }
    }

    /// Returns true with probability `p`. The result is never true if `p` is 0, and always true if `p` is 1.
    pub fn chance(&mut self, p: f64) -> bool {
        self.uniform() < p
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_depends_on_seed_name_and_index_only() {
        let first = |seed, name, index| Streams::new(seed).named(name, index).bits();
        assert_eq!(first(1, "web/sizes", 0), first(1, "web/sizes", 0));
        assert_ne!(first(1, "web/sizes", 0), first(2, "web/sizes", 0));
        assert_ne!(first(1, "web/sizes", 0), first(1, "web/sizes", 1));
        assert_ne!(first(1, "web/sizes", 0), first(1, "web/gaps", 0));
    }

    #[test]
    fn the_values_are_pinned() {
        // If these values change, the results change for all users, and the results version must be increased.
        let mut rng = Streams::new(1).named("pinned", 0);
        assert_eq!([rng.bits(), rng.bits(), rng.bits()], PINNED);
    }

    const PINNED: [u64; 3] =
        [14_364_169_901_483_876_244, 8_107_335_874_678_155_738, 1_617_448_202_499_786_566];

    #[test]
    fn uniform_values_stay_in_their_interval() {
        let mut rng = Streams::new(7).named("interval", 0);
        let mut sum = 0.0;
        for _ in 0..10_000 {
            let (u, v) = (rng.uniform(), rng.uniform_positive());
            assert!((0.0..1.0).contains(&u) && v > 0.0 && v <= 1.0);
            sum += u;
        }
        assert!((sum / 10_000.0 - 0.5).abs() < 0.015);
        assert!((0..1000).all(|_| rng.below(7) < 7));
        assert!(!rng.chance(0.0) && rng.chance(1.0));
    }
}
