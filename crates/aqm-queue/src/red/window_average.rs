//! The average congestion window of arriving packets, and the ratio of a packet's window to the average.
//!
//! Claypool, Kinicki & Hartling, "Active Queue Management for Web Traffic", IEEE International Performance, Computing
//! and Communications Conference, 2004, and the talk about it, slide 10.
//!
//! aqmlab's choices where the paper and the talk are silent:
//! - The average window starts with the window of the first packet that carries one, and does not change while the link
//!   is idle.
//! - A packet without a window has the ratio 1 and does not change the average window.

use aqm_net::{ConfigError, Packet};

use crate::Gauge;

/// The exponentially weighted moving average of the windows that packets carry (`cwnd_avg`).
#[derive(Clone)]
pub(crate) struct WindowAverage {
    weight: f64,
    value: Option<f64>,
}

impl WindowAverage {
    /// Creates an average without samples. `weight` is the parameter `window_weight`.
    ///
    /// # Errors
    /// Returns an error unless the weight is above 0 and at most 1.
    pub fn new(weight: f64) -> Result<Self, ConfigError> {
        if weight > 0.0 && weight <= 1.0 {
            Ok(Self { weight, value: None })
        } else {
            let problem = format!("must be above 0 and at most 1 (got {weight})");
            Err(ConfigError::at("window_weight", problem))
        }
    }

    /// Adds the window of `packet` to the average, and returns the ratio of this window to the average.
    pub fn compare(&mut self, packet: &Packet) -> f64 {
        let Some(window) = packet.window().map(f64::from) else { return 1.0 };
        let average = self.value.get_or_insert(window);
        *average += self.weight * (window - *average);
        window / *average
    }

    /// Reports the average window, which is zero until a packet carries a window.
    pub fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        show(Gauge::new("window_average", self.value.unwrap_or(0.0), "segments"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_window_starts_with_the_first_and_follows_with_its_weight() {
        let mut windows = WindowAverage::new(0.5).unwrap();
        let mut compare = |cwnd| windows.compare(&Packet { cwnd, ..Packet::default() });
        assert_eq!(compare(4), 1.0);
        assert_eq!(compare(8), 8.0 / 6.0);
        assert_eq!(compare(0), 1.0);
        assert_eq!(compare(2), 0.5);
    }
}
