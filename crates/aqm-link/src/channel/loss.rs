//! Packet loss on a link, either independent or in bursts.
//!
//! Bursts follow the models of E. N. Gilbert, "Capacity of a Burst-Noise Channel", 1960, and E. O. Elliott, 1963. The
//! parameters are named after those of `tc-netem(8)`. The channel has two states, good and bad. A packet is lost with
//! the loss probability of the current state. After the packet, the state changes from good to bad with probability
//! `p`, and from bad to good with probability `r`. In the long run, a fraction `p / (p + r)` of the packets arrives
//! while the channel is in the bad state. On average, the channel stays in the bad state for 1 / `r` packets.

use aqm_net::{ConfigErrors, ErrorCollector, Rng, parameters};

parameters! {
    /// Packet loss on the link, either independent or in bursts (Gilbert-Elliott model).
    pub struct Loss {
        /// Probability that a packet is lost, independently of other packets. Set either `probability`, or `p` and `r`.
        pub probability: Option<f64> = None, "no default: either `probability`, or `p` and `r`, is required";
        /// Probability that the channel changes from the good to the bad state after a packet.
        pub p: Option<f64> = None, "no default: either `p` and `r`, or `probability`, is required";
        /// Probability that the channel changes from the bad to the good state after a packet.
        pub r: Option<f64> = None, "no default: either `r` and `p`, or `probability`, is required";
        /// Loss probability in the good state (netem's `1-k`).
        pub loss_in_good: f64 = 0.0, "tc-netem(8): default of `1-k`";
        /// Loss probability in the bad state (netem's `1-h`).
        pub loss_in_bad: f64 = 1.0, "tc-netem(8): default of `1-h`";
    }
}

impl Loss {
    pub(super) fn check(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let bursty = self.p.is_some() || self.r.is_some();
        let problem = "set either `probability`, or `p` and `r`";
        errors.check(self.probability.is_some() != bursty, "", problem);
        errors.check(self.p.is_some() == self.r.is_some(), "", "set both `p` and `r`, or neither");
        let probabilities = [
            ("probability", self.probability),
            ("p", self.p),
            ("r", self.r),
            ("loss_in_good", Some(self.loss_in_good)),
            ("loss_in_bad", Some(self.loss_in_bad)),
        ];
        for (name, probability) in probabilities {
            let is_valid = probability.is_none_or(|probability| (0.0..=1.0).contains(&probability));
            let problem = format!("must be between 0 and 1 (got {})", probability.unwrap_or_default());
            errors.check(is_valid, name, problem);
        }
        errors.finish(())
    }
}

/// The random loss process of a channel during a run.
pub(super) struct Losses {
    rng: Rng,
    kind: Kind,
}

enum Kind {
    Random { probability: f64 },
    Bursty { p: f64, r: f64, in_good: f64, in_bad: f64, bad: bool },
}

impl Losses {
    /// Returns the loss process of a channel that starts in the good state.
    pub(super) fn new(config: &Loss, rng: Rng) -> Self {
        let (in_good, in_bad) = (config.loss_in_good, config.loss_in_bad);
        let kind = match (config.p, config.r) {
            (Some(p), Some(r)) => Kind::Bursty { p, r, in_good, in_bad, bad: false },
            _ => Kind::Random { probability: config.probability.unwrap_or(0.0) },
        };
        Self { rng, kind }
    }

    /// Determines at random whether the next packet is lost.
    pub(super) fn loses(&mut self) -> bool {
        match &mut self.kind {
            Kind::Random { probability } => self.rng.chance(*probability),
            Kind::Bursty { p, r, in_good, in_bad, bad } => {
                let (loss, change) = if *bad { (*in_bad, *r) } else { (*in_good, *p) };
                let lost = self.rng.chance(loss);
                *bad ^= self.rng.chance(change);
                lost
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Streams;

    use super::*;

    fn losses(config: Loss) -> Losses {
        config.check().unwrap();
        Losses::new(&config, Streams::new(1).named("loss", 0))
    }

    #[test]
    fn random_loss_has_its_probability() {
        let mut losses = losses(Loss { probability: Some(0.02), ..Loss::default() });
        let lost = (0..200_000).filter(|_| losses.loses()).count();
        assert!((3800..4200).contains(&lost), "{lost}");
    }

    #[test]
    fn bursts_have_the_share_and_length_of_the_model() {
        let config =
            Loss { p: Some(0.01), r: Some(0.25), loss_in_bad: 0.8, loss_in_good: 0.001, ..Loss::default() };
        let mut losses = losses(config);
        let (mut lost, mut bad, mut begun) = (0, 0, 0);
        for _ in 0..400_000 {
            let Kind::Bursty { bad: before, .. } = losses.kind else { unreachable!() };
            lost += u32::from(losses.loses());
            bad += u32::from(before);
            let Kind::Bursty { bad: after, .. } = losses.kind else { unreachable!() };
            begun += u32::from(after && !before);
        }
        let share = 0.01 / 0.26;
        assert!((f64::from(bad) / 400_000.0 / share - 1.0).abs() < 0.05);
        assert!((f64::from(bad) / f64::from(begun) / 4.0 - 1.0).abs() < 0.05);
        let expected = share * 0.8 + (1.0 - share) * 0.001;
        assert!((f64::from(lost) / 400_000.0 / expected - 1.0).abs() < 0.05);
    }

    #[test]
    fn invalid_losses_are_refused() {
        let problems = |config: Loss| -> Vec<String> {
            let errors = config.check().err();
            errors.into_iter().flat_map(|errors| errors.into_iter().map(|error| error.to_string())).collect()
        };
        let one = |config| problems(config).join("; ");
        assert_eq!(one(Loss { probability: Some(0.1), ..Loss::default() }), "");
        assert_eq!(one(Loss::default()), "set either `probability`, or `p` and `r`");
        assert_eq!(one(Loss { p: Some(0.1), ..Loss::default() }), "set both `p` and `r`, or neither");
        let both = Loss { probability: Some(0.1), p: Some(0.1), r: Some(1.0), ..Loss::default() };
        assert_eq!(one(both), "set either `probability`, or `p` and `r`");
        let beyond = Loss { probability: Some(1.5), ..Loss::default() };
        assert_eq!(one(beyond), "probability: must be between 0 and 1 (got 1.5)");
    }
}
