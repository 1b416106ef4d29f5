//! Sizes with a heavy tail: the Pareto law of the second kind that Web objects follow
//! (`sizes`), cut off at both ends. Its parameters and defaults are those of Web objects.

use aqm_net::{ConfigError, Rng};

use super::{Build, Law};
pub use crate::sizes::Config;
use crate::sizes::{self, Sizes};

impl Build for Config {
    fn build(&self) -> Result<Box<dyn Law>, ConfigError> {
        Ok(Box::new(Self::build(self)?))
    }
}

impl Law for Sizes {
    fn draw(&self, rng: &mut Rng) -> u64 {
        Self::draw(self, rng)
    }

    fn mean(&self) -> f64 {
        sizes::Law::mean(self)
    }
}
