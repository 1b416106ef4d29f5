//! Weibull sizes: a tail between the exponential law's and Pareto's.

use aqm_net::{ConfigError, Rng, Size, parameters};

use super::{Build, Law, check_mean, whole};
use crate::distributions;

parameters! {
    /// Sizes after the Weibull law.
    pub struct Config {
        /// The mean size.
        pub mean: Size = Size::from_bytes(100_000), "ours: 100 packets of the size in Oueslati & Roberts' talk";
        /// How heavy the tail is: the smaller, the heavier; 1 is the exponential law.
        pub shape: f64 = 0.5, "ours";
    }
}

impl Build for Config {
    fn build(&self) -> Result<Box<dyn Law>, ConfigError> {
        let mean = check_mean(self.mean)?;
        if !(0.2..=10.0).contains(&self.shape) {
            return Err(ConfigError::at("shape", format!("must be between 0.2 and 10, is {}", self.shape)));
        }
        let scale = mean / libm::tgamma(1.0 + 1.0 / self.shape);
        Ok(Box::new(Weibull { law: distributions::Weibull { shape: self.shape, scale }, mean }))
    }
}
#[derive(Clone)]
struct Weibull {
    law: distributions::Weibull,
    mean: f64,
}

impl Law for Weibull {
    fn draw(&self, rng: &mut Rng) -> u64 {
        whole(self.law.draw(rng))
    }

    fn mean(&self) -> f64 {
        self.mean
    }
}
