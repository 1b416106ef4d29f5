//! A constant rate, which shows what media without rate control would experience.

use aqm_net::{ConfigError, Instant, Rate, parameters};

use super::{Build, Media, PacketReport, Probe, RateControl, SentPacket};

parameters! {
    /// A constant rate: the sender ignores all feedback.
    pub struct Config {
        /// Rate of audio and video, including headers; at most the rate that the workload can use, which is the rate of
        /// the audio plus the highest rate of the video.
        pub rate: Rate = Rate::from_bps(1_000_000), "aqmlab's choice";
        /// Ratio between the rate at which the packets of a frame are sent and `rate`.
        pub pacing_factor: f64 = 2.5, "libwebrtc: `kDefaultPaceMultiplier`";
    }
}

impl Build for Config {
    fn build(&self, media: Media) -> Result<Box<dyn RateControl>, ConfigError> {
        ConfigError::unless(self.rate.bps() > 0, "rate", "must be greater than zero")?;
        check_pacing_factor(self.pacing_factor)?;
        let rate_bps = self.rate.bps().min(media.most.bps()) as f64;
        Ok(Box::new(Fixed { rate_bps, pacing_factor: self.pacing_factor }))
    }
}

/// Checks a pacing factor. With a factor below 1, the pacer's queue would grow without limit.
pub(super) fn check_pacing_factor(factor: f64) -> Result<(), ConfigError> {
    let problem = format_args!("must be between 1 and 100 (got {factor})");
    ConfigError::unless((1.0..=100.0).contains(&factor), "pacing_factor", problem)
}

/// A constant rate.
#[derive(Clone, Copy)]
struct Fixed {
    rate_bps: f64,
    pacing_factor: f64,
}

impl RateControl for Fixed {
    fn on_sent(&mut self, _: SentPacket) {}
    fn on_feedback(&mut self, _: &[PacketReport], _: Instant) {}
    fn on_timer(&mut self, _: Instant) {}
    fn target_rate(&self) -> f64 {
        self.rate_bps
    }
    fn pacing_rate(&self) -> f64 {
        self.rate_bps * self.pacing_factor
    }
    fn next_probe(&mut self) -> Option<Probe> {
        None
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Ecn;

    use super::*;

    fn media(bps: u64) -> Media {
        Media { most: Rate::from_bps(bps), ecn: Ecn::NotEct }
    }

    #[test]
    fn the_rate_ignores_losses_and_the_application_limits_the_rate() {
        let mut control = Config::default().build(media(700_000)).unwrap();
        let lost = PacketReport { number: 0, arrival: None, ecn: Ecn::NotEct };
        control.on_feedback(&[lost; 100], Instant::START);
        assert_eq!((control.target_rate(), control.pacing_rate()), (700e3, 1750e3));
        assert_eq!(control.next_probe(), None);
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        let path = |config: Config| config.build(media(1000)).err().unwrap().path;
        assert_eq!(path(Config { pacing_factor: 0.5, ..Config::default() }), "pacing_factor");
        assert_eq!(path(Config { rate: Rate::from_bps(0), ..Config::default() }), "rate");
    }
}
