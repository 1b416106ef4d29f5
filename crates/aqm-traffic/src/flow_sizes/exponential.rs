//! Exponential sizes, with which processor sharing and first in, first out leave the same number of flows
//! in progress (L. Kleinrock, "Queueing Systems" II, 1976, section 4.4).

use aqm_net::{ConfigError, Rng, Size, parameters};

use super::{Build, Law, check_mean, whole};
use crate::distributions;

parameters! {
    /// Exponential sizes.
    pub struct Config {
        /// The mean size.
        pub mean: Size = Size::from_bytes(100_000), "ours: 100 packets of the size in Oueslati & Roberts' talk";
    }
}

impl Build for Config {
    fn build(&self) -> Result<Box<dyn Law>, ConfigError> {
        Ok(Box::new(Exponential(distributions::Exponential { mean: check_mean(self.mean)? })))
    }
}
#[derive(Clone)]
struct Exponential(distributions::Exponential);

impl Law for Exponential {
    fn draw(&self, rng: &mut Rng) -> u64 {
        whole(self.0.draw(rng))
    }

    fn mean(&self) -> f64 {
        self.0.mean
    }
}
