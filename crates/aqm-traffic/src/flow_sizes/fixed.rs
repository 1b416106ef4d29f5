//! All flows have one size: the law of least variance.

use aqm_net::{ConfigError, Rng, Size, parameters};

use super::{Build, Law, check_mean};

parameters! {
    /// One size for all.
    pub struct Config {
        /// The size.
        pub mean: Size = Size::from_bytes(100_000), "ours: 100 packets of the size in Oueslati & Roberts' talk";
    }
}

impl Build for Config {
    fn build(&self) -> Result<Box<dyn Law>, ConfigError> {
        check_mean(self.mean)?;
        Ok(Box::new(Fixed(self.mean.bytes())))
    }
}
#[derive(Clone)]
struct Fixed(u64);

impl Law for Fixed {
    fn draw(&self, _: &mut Rng) -> u64 {
        self.0
    }

    fn mean(&self) -> f64 {
        self.0 as f64
    }
}
