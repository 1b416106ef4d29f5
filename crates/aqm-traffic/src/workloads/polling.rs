//! Polling: small transfers at random intervals, for example meter readings. Polling is the smallest workload.
//!
//! aqmlab's choice: this workload serves as an example of the code that every workload needs.

use aqm_net::{ConfigError, Instant, Rng, Size, parameters};

use crate::distributions::{self, Amount, Times, exponential};
use crate::parameters::check_transfers;
use crate::{Build, BuildContext, TrafficContext, Transfer, Workload};

parameters! {
    /// Polling: small transfers at random intervals.
    pub struct Config {
        /// Size of each transfer.
        pub size: Size = Size::from_bytes(1000), "aqmlab's choice";
        /// Gaps between the starts of transfers.
        pub gaps: distributions::Config = every_second(), "aqmlab's choice";
    }
}

fn every_second() -> distributions::Config {
    distributions::Config::exponential(exponential::Config::of(Amount::millis(1000)))
}

impl Build for Config {
    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn Workload>, ConfigError> {
        ConfigError::unless(self.size.bytes() > 0, "size", "must be at least 1B")?;
        let gaps = self.gaps.times().map_err(|error| error.within("gaps"))?;
        check_transfers(context.duration.nanos() as f64 / gaps.mean(), "gaps", "lengthen them")?;
        let rng = context.streams.named(&format!("{}/gaps", context.name), 0);
        let end = Instant::START + context.duration;
        Ok(Box::new(Polling { bytes: self.size.bytes(), gaps, rng, end }))
    }

    fn own_hosts(&self) -> bool {
        false
    }
}

/// The running workload.
#[derive(Clone)]
struct Polling {
    bytes: u64,
    gaps: Times,
    rng: Rng,
    end: Instant,
}

impl Workload for Polling {
    fn start(&mut self, cx: &mut dyn TrafficContext) {
        self.sleep(cx);
    }

    fn on_wake(&mut self, cx: &mut dyn TrafficContext) {
        cx.open(Transfer { bytes: Some(self.bytes), request: None, page: None, page_objects: 1, host: 0 });
        self.sleep(cx);
    }
}

impl Polling {
    fn sleep(&mut self, cx: &mut dyn TrafficContext) {
        let at = cx.now() + self.gaps.sample_span(&mut self.rng);
        if at < self.end {
            cx.wake_at(at);
        }
    }
}

mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{context, distance, gaps, run, seconds};

    mod registered {
        use crate::Build;
        use crate::workloads::polling;

        aqm_net::registry! {
            /// A registry that contains only the entry of this workload.
            pub enum Config: Build, "traffic" = "traffic" {
                "polling" => polling,
            }
        }
    }

    #[test]
    fn an_entry_of_the_registry_defines_a_kind() {
        let gaps = json!({"kind": "exponential", "mean": "500ms"});
        let config = registered::Config::read(json!({"kind": "polling", "gaps": gaps})).unwrap();
        let opened = run(&mut *config.build(&context(1, 1000)).unwrap()).opened;
        assert!(opened.iter().all(|(_, transfer)| transfer.bytes == Some(1000)));
        let starts = seconds(opened.iter().map(|(at, _)| *at));
        assert!(distance(self::gaps(&starts), |x| 1.0 - libm::exp(-2.0 * x)) < 1.63);
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        let never = distributions::Config::exponential(exponential::Config::of(Amount::millis(0)));
        for config in [
            Config { size: Size::from_bytes(0), ..Config::default() },
            Config { gaps: never, ..Config::default() },
        ] {
            assert!(config.build(&context(1, 100)).is_err());
        }
    }
}
