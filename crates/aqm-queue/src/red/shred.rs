//! SHRED: RED with lower drop probabilities for small congestion windows.
//!
//! Claypool, Kinicki & Hartling, "Active Queue Management for Web Traffic", IEEE International Performance, Computing
//! and Communications Conference, 2004, and the talk about it. Each packet carries its sender's congestion window. For
//! a packet whose sender has a small window, the drop function begins at a larger average; for a packet whose sender
//! has a large window, the drop function begins at a smaller average. The slope of the drop function does not change:
//! `min_mod = min_th + (max_th - min_th) (1 - r)` and `maxp_mod = max_p (max_th - min_mod) / (max_th - min_th)`, where
//! `r` is the ratio of the packet's window to the average window.
//!
//! If all windows are equal, this queue behaves identically to RED, including the sequence of random numbers.
//!
//! The documentation of [`Config`], which is printed in the reference, lists aqmlab's choices where the paper and the
//! talk are silent.

use aqm_net::{Backlog, ConfigErrors, ErrorCollector, Packet, Rate, choices, parameters};
use serde_json::{Value, json};

use crate::red::curve::Curve;
use crate::red::red::{self, Red};
use crate::red::window_average::WindowAverage;
use crate::{Build, Context, Describe, Gauge, QueueDiscipline, Report, TestCases};

parameters! {
    /// SHRED: RED that drops packets of senders with small congestion windows less often, and packets of senders with
    /// large windows more often.
    ///
    /// Packets must carry their sender's window.
    ///
    /// aqmlab's choices where the paper and the talk are silent:
    ///
    /// - The gentle part of the drop function starts at the packet's `maxp_mod`, because only this choice avoids a
    ///   jump.
    /// - The drop function for a large window may begin below an average of zero. `floor` determines how such a drop
    ///   function is treated.
    /// - A packet that finds the average below its own `min_mod` is not counted and does not end RED's episode above
    ///   the threshold. The episode ends when the average falls below the lowest `min_mod` of any packet so far, or
    ///   when the queue is too short for drops. Otherwise, after every packet of a sender with a small window,
    ///   `spare_first` would spare the next packet of a sender with a large window.
    pub struct Config {
        /// Parameters of the RED queue.
        pub red: red::Config = red::Config::default(), "SHRED talk, slide 17";
        /// Weight of the newest window in the average window (`w_c`), above 0 and at most 1.
        pub window_weight: f64 = 0.002, "SHRED talk, slide 10";
        /// Treatment of a drop function that would begin below an average of zero.
        pub floor: Floor = Floor::Zero, "aqmlab's choice";
    }
}

choices! {
    /// The treatment of a drop function that would begin below an average of zero.
    pub enum Floor {
        /// The formulas are used unchanged, so that packets of senders with large windows may be dropped even at a
        /// small average.
        None = "none",
        /// The drop function begins at zero and keeps its slope, so that all windows above a certain size are treated
        /// equally.
        Zero = "zero",
        /// The drop function begins at zero and still reaches `r max_p` at `max_th`, so that it is steeper.
        ZeroRatio = "zero-ratio",
    }
}

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let red = errors.take(self.red.discipline(rate).map_err(|errors| errors.within("red")));
        let windows = errors.take(WindowAverage::new(self.window_weight));
        let (red, windows) = errors.finish_some(red.zip(windows))?;
        let curve = self.red.curve();
        Ok(Box::new(Shred { windows, curve, floor: self.floor, lowest: curve.min, red }))
    }
}

impl Describe for Config {
    fn drop_curve(&self, average: f64, relative_window: f64, _class: u8) -> Option<f64> {
        self.red.check().ok()?;
        WindowAverage::new(self.window_weight).ok()?;
        let usable = relative_window >= 0.0 && relative_window.is_finite();
        usable.then(|| shifted_curve(self.red.curve(), relative_window, self.floor).probability(average))
    }

    fn needs_windows(&self) -> bool {
        true
    }
}

impl TestCases for Config {
    fn corners(&self) -> Vec<Value> {
        let floors = ["none", "zero", "zero-ratio"];
        let on = |red: Value| floors.map(|floor| json!({"red": red, "floor": floor, "window_weight": 0.1}));
        red::corners().into_iter().flat_map(on).collect()
    }
}

/// A SHRED queue: the RED queue on which it is based, and the average window.
#[derive(Clone)]
pub struct Shred {
    windows: WindowAverage,
    curve: Curve,
    floor: Floor,
    /// The lowest `min_mod` of any packet so far.
    lowest: f64,
    red: Red,
}

impl QueueDiscipline for Shred {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        self.red.observe(cx.now);
        let relative_window = self.windows.compare(&packet);
        let curve = shifted_curve(self.curve, relative_window, self.floor);
        self.lowest = self.lowest.min(curve.min);
        self.red.admit(packet, curve, self.lowest, cx);
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        self.red.dequeue(cx)
    }

    fn backlog(&self) -> Backlog {
        self.red.backlog()
    }
}

impl Report for Shred {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        self.red.gauges(show);
        self.windows.gauges(show);
    }
}

/// Returns the drop function for a packet. `relative_window` is the ratio of the packet's window to the average window
/// (talk, slide 11).
fn shifted_curve(curve: Curve, relative_window: f64, floor: Floor) -> Curve {
    let Curve { min, max, max_p, .. } = curve;
    let start = min + (max - min) * (1.0 - relative_window);
    // The ratio is computed first, so that a packet with the average window gets exactly the drop function of RED.
    let end = |start: f64| max_p * ((max - start) / (max - min));
    let (min, max_p) = match floor {
        Floor::None => (start, end(start)),
        Floor::Zero => (start.max(0.0), end(start.max(0.0))),
        Floor::ZeroRatio => (start.max(0.0), relative_window * max_p),
    };
    Curve { min, max_p, gentle_from: max_p, ..curve }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn red_curve() -> Curve {
        red::Config::default().curve()
    }

    #[test]
    fn every_window_has_the_same_slope() {
        for floor in [Floor::None, Floor::Zero] {
            for relative_window in [0.1, 0.25, 0.5, 1.0, 1.25, 2.0, 10.0] {
                let Curve { min, max, max_p, .. } = shifted_curve(red_curve(), relative_window, floor);
                assert!((max_p / (max - min) - 0.1 / 60.0).abs() < 1e-12, "{floor:?} {relative_window}");
            }
        }
    }

    #[test]
    fn an_average_window_gets_exactly_reds_own_curve() {
        let odd = Curve { min: 7.0, max: 31.0, max_p: 0.0137, gentle: true, gentle_from: 0.0137 };
        for floor in [Floor::None, Floor::Zero, Floor::ZeroRatio] {
            assert_eq!(shifted_curve(odd, 1.0, floor), odd);
        }
    }

    #[test]
    fn half_the_average_window_shifts_the_drop_function_by_thirty_packets() {
        let half = shifted_curve(red_curve(), 0.5, Floor::Zero);
        for average in [0.0, 30.0, 59.0, 60.0, 70.0, 89.0] {
            let shifted = half.probability(average);
            assert!((shifted - red_curve().probability(average - 30.0)).abs() < 1e-12, "{average}");
        }
    }

    #[test]
    fn the_floor_determines_the_drop_probability_of_a_large_window_at_an_empty_queue() {
        let p = |floor, average| shifted_curve(red_curve(), 2.0, floor).probability(average);
        assert!((p(Floor::None, 0.0) - 0.05).abs() < 1e-12);
        assert_eq!(p(Floor::Zero, 0.0), 0.0);
        assert!((p(Floor::Zero, 45.0) - 0.075).abs() < 1e-12);
        assert!((p(Floor::ZeroRatio, 45.0) - 0.1).abs() < 1e-12);
    }
}
