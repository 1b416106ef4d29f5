//! Assigns packets to flows, either by flow number or by a hash that selects a bucket.
//!
//! Buckets, and periodic changes of the hash (so that no two flows share a bucket permanently), were proposed by P. E.
//! McKenney, "Stochastic Fairness Queueing", INFOCOM 1990.
//!
//! aqmlab's choices: the hash is the finaliser of SplitMix64 (Steele, Lea, Flood 2014), applied to the flow number and
//! a salt that is drawn from the queue's own random stream, so that different seeds lead to different collisions. When
//! the salt changes, the queued packets move to their new buckets, flow by flow and in order, so that no packet
//! overtakes another packet of its flow.

use aqm_net::{ConfigError, ConfigErrors, ErrorCollector, Instant, Packet, Rng, Span};

use crate::start::first_instant;

/// Assigns packets to flows.
#[derive(Clone)]
pub(crate) struct Classifier {
    buckets: Option<u32>,
    perturb: Option<Span>,
    /// The salt of the hash; `None` until the first packet arrives.
    salt: Option<u64>,
    next_salt: Instant,
    /// The time when the `perturb` timer first expires, or the start of the run.
    phase: Instant,
}

impl Classifier {
    /// Creates a classifier that distinguishes flows, or buckets if `buckets` is set. A new salt is drawn every
    /// `perturb`.
    pub fn new(buckets: Option<u32>, perturb: Option<Span>) -> Result<Self, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let remedy = "must be at least 1; omit it for one queue per flow";
        errors.check(buckets != Some(0), "buckets", remedy);
        let has_effect = perturb.is_none() || buckets.is_some();
        if !has_effect {
            errors.add(ConfigError::without_effect("perturb", "without buckets"));
        }
        let is_positive = !has_effect || perturb.is_none_or(|perturb| !perturb.is_zero());
        errors.check(is_positive, "perturb", "must be more than 0s");
        errors.finish(Self { buckets, perturb, salt: None, next_salt: Instant::NEVER, phase: Instant::START })
    }

    /// If there is a `perturb` timer, draws its phase at random, as if the timer had already been running for a long
    /// time.
    pub fn draw_phase(&mut self, chance: &mut Rng) {
        if let Some(perturb) = self.perturb {
            self.phase = first_instant(perturb, chance);
        }
    }

    /// Draws a new salt if one is due. Returns `true` if queued packets must move to other buckets.
    pub fn renew_salt(&mut self, now: Instant, rng: &mut Rng) -> bool {
        if self.buckets.is_none() || (self.salt.is_some() && now < self.next_salt) {
            return false;
        }
        let moves = self.salt.is_some();
        self.salt = Some(rng.bits());
        if let Some(perturb) = self.perturb {
            let passed = Instant::START + now.since(self.phase);
            self.next_salt = if now < self.phase {
                self.phase
            } else {
                self.phase + passed.next_multiple(perturb).since(Instant::START)
            };
        }
        moves
    }

    /// Returns the key of the flow or bucket to which `packet` belongs.
    pub fn key(&self, packet: &Packet) -> u32 {
        match (self.buckets, self.salt) {
            (Some(buckets), Some(salt)) => {
                let hash = mix(u64::from(packet.flow).wrapping_add(salt));
                ((u128::from(hash) * u128::from(buckets)) >> 64) as u32
            }
            _ => packet.flow,
        }
    }
}

/// Computes the finaliser of SplitMix64.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use aqm_net::Streams;

    use super::*;

    fn key(classifier: &Classifier, flow: u32) -> u32 {
        classifier.key(&Packet { flow, ..Packet::default() })
    }

    #[test]
    fn without_buckets_every_flow_has_its_own_queue_and_nothing_is_drawn() {
        let (mut classifier, mut rng) =
            (Classifier::new(None, None).unwrap(), Streams::new(1).named("queue", 0));
        let untouched = rng.clone().bits();
        assert!(!classifier.renew_salt(Instant::START, &mut rng));
        assert_eq!((key(&classifier, 7), key(&classifier, u32::MAX), rng.bits()), (7, u32::MAX, untouched));
    }

    #[test]
    fn a_flow_among_a_hundred_shares_one_of_1024_buckets_with_the_expected_probability() {
        let (mut alone, runs) = (0, 4000);
        for seed in 0..runs {
            let mut classifier = Classifier::new(Some(1024), None).unwrap();
            classifier.renew_salt(Instant::START, &mut Streams::new(seed).named("queue", 0));
            let first = key(&classifier, 0);
            assert!(first < 1024);
            alone += u32::from((1..100).all(|flow| key(&classifier, flow) != first));
        }
        // According to RFC 8290, section 5.3, this probability is 1 - 0.9078.
        let p = libm::pow(1023.0 / 1024.0, 99.0);
        assert!((p - 0.9078).abs() < 1e-4);
        let error = (p * (1.0 - p) / runs as f64).sqrt();
        assert!(((f64::from(alone) / runs as f64 - p) / error).abs() < 3.3, "{alone} of {runs}");
    }

    #[test]
    fn the_salt_changes_every_perturb_and_separates_colliding_flows() {
        let mut rng = Streams::new(1).named("queue", 0);
        let mut classifier = Classifier::new(Some(16), Some(Span::from_millis(10))).unwrap();
        let at = |micros: u64| Instant::from_nanos(micros * 1000);
        assert!(!classifier.renew_salt(at(3000), &mut rng), "no packets are queued before the first salt");
        let shared = (1..100).find(|flow| key(&classifier, *flow) == key(&classifier, 0)).unwrap();
        assert!(!classifier.renew_salt(at(9999), &mut rng));
        assert!(classifier.renew_salt(at(10_000), &mut rng));
        assert!(!classifier.renew_salt(at(19_000), &mut rng));
        assert!(classifier.renew_salt(at(45_000), &mut rng), "a long pause draws one salt");
        assert!(!classifier.renew_salt(at(49_999), &mut rng));
        let apart = (5..25).filter(|turn| {
            classifier.renew_salt(at(turn * 10_000), &mut rng);
            key(&classifier, 0) != key(&classifier, shared)
        });
        assert!(apart.count() >= 14, "15 of 16 salts separate the flows");
    }
}
