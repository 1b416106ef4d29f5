//! Hyperexponential sizes: each is exponential with one of two means, drawn anew for each flow.
//!
//! P. Morse, "Queues, Inventories and Maintenance", 1958; balanced means, so that the many small flows and
//! the few large ones carry half of the bytes each: H. C. Tijms, "Stochastic Models", 1994, appendix B.

use aqm_net::{ConfigError, Rng, Size, parameters};

use super::{Build, Law, check_mean, whole};
use crate::distributions::Exponential;

parameters! {
    /// Exponential sizes with one of two means; both kinds carry half of the bytes.
    pub struct Config {
        /// The mean of all sizes.
        pub mean: Size = Size::from_bytes(100_000), "ours: 100 packets of the size in Oueslati & Roberts' talk";
        /// Their variance over the square of the mean; 1 is the exponential law.
        pub variation: f64 = 10.0, "ours";
    }
}

impl Build for Config {
    fn build(&self) -> Result<Box<dyn Law>, ConfigError> {
        let mean = check_mean(self.mean)?;
        if !(1.0..=1000.0).contains(&self.variation) {
            let problem = format!("must be between 1 and 1000, is {}", self.variation);
            return Err(ConfigError::at("variation", problem));
        }
        let small = 0.5 * (1.0 + ((self.variation - 1.0) / (self.variation + 1.0)).sqrt());
        let half_over = |share: f64| Exponential { mean: mean / (2.0 * share) };
        Ok(Box::new(Hyperexponential { small, means: [half_over(small), half_over(1.0 - small)], mean }))
    }
}
#[derive(Clone)]
struct Hyperexponential {
    /// The chance of the smaller mean.
    small: f64,
    means: [Exponential; 2],
    mean: f64,
}

impl Law for Hyperexponential {
    fn draw(&self, rng: &mut Rng) -> u64 {
        let which = usize::from(!rng.chance(self.small));
        whole(self.means[which].draw(rng))
    }

    fn mean(&self) -> f64 {
        self.mean
    }
}
