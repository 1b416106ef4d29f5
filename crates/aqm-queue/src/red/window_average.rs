//! The average window of the packets that pass, and how a packet's own compares with it.
//!
//! Claypool, Kinicki & Hartling, "Active Queue Management for Web Traffic", IEEE International
//! Performance, Computing and Communications Conference, 2004, and the talk about it, slide 10.
//!
//! Ours, where paper and talk are silent:
//! - The average window starts at the first window seen and does not move while the line idles.
//! - A packet without a window counts as average, and leaves the average window alone.

use aqm_net::{ConfigError, Packet};

use crate::Gauge;

/// The exponentially weighted average of the windows that packets tell (`cwnd_avg`).
#[derive(Clone)]
pub(crate) struct WindowAverage {
    weight: f64,
    value: Option<f64>,
}

impl WindowAverage {
    /// An average that has seen no window; `weight` is the parameter `window_weight`.
    ///
    /// # Errors
    /// If the weight is none.
    pub fn new(weight: f64) -> Result<Self, ConfigError> {
        if weight > 0.0 && weight <= 1.0 {
            Ok(Self { weight, value: None })
        } else {
            let problem = format!("must be above 0 and at most 1, not {weight}");
            Err(ConfigError::at("window_weight", problem))
        }
    }

    /// Takes the window of `packet` into the average, and returns their ratio.
    pub fn compare(&mut self, packet: &Packet) -> f64 {
        let Some(window) = packet.window().map(f64::from) else { return 1.0 };
        let average = self.value.get_or_insert(window);
        *average += self.weight * (window - *average);
        window / *average
    }

    /// Shows the average: zero until a packet tells its window.
    pub fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        show(Gauge::new("window_average", self.value.unwrap_or(0.0), "segments"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_window_starts_at_the_first_and_follows_by_its_weight() {
        let mut windows = WindowAverage::new(0.5).unwrap();
        let mut compare = |cwnd| windows.compare(&Packet { cwnd, ..Packet::default() });
        assert_eq!(compare(4), 1.0);
        assert_eq!(compare(8), 8.0 / 6.0);
        assert_eq!(compare(0), 1.0);
        assert_eq!(compare(2), 0.5);
    }
}
