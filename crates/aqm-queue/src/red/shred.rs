//! SHRED: RED that is kind to small windows.
//!
//! Claypool, Kinicki & Hartling, "Active Queue Management for Web Traffic", IEEE International
//! Performance, Computing and Communications Conference, 2004, and the talk about it. Each packet
//! carries its sender's congestion window. A packet from a small window meets RED's line later,
//! one from a large window earlier; the slope never changes:
//! `min_mod = min_th + (max_th - min_th) (1 - r)` and `maxp_mod = max_p (max_th - min_mod) / (max_th -
//! min_th)`, where `r` is the packet's window over the average window.
//!
//! If all windows are equal this is RED, draw for draw.
//!
//! How it differs from its sources, and what it does where they are silent, stands in the documentation of
//! [`Config`], which the reference prints.

use aqm_net::{Backlog, ConfigErrors, ErrorCollector, Packet, Rate, choices, parameters};
use serde_json::{Value, json};

use crate::red::curve::Curve;
use crate::red::red::{self, Red};
use crate::red::window_average::WindowAverage;
use crate::{Build, Context, Describe, Gauge, QueueDiscipline, Report, TestCases};

parameters! {
    /// SHRED: RED that drops packets of small congestion windows less often, and of large ones more
    /// often.
    ///
    /// Packets must carry their sender's window.
    ///
    /// Where paper and talk are silent:
    ///
    /// - The gentle line starts at the `maxp_mod` of the packet, the only choice without a jump.
    /// - The line of a large window may begin below an empty queue: `floor` says what happens then.
    /// - A packet below its own line is not counted, and does not end the turn of RED above the threshold. The turn
    ///   ends below the smallest `min_mod` met so far, or with a queue too short to drop from. Otherwise every small
    ///   window would win the next large one a free pass.
    pub struct Config {
        /// The RED it is built on.
        pub red: red::Config = red::Config::default(), "SHRED talk, slide 17";
        /// Weight of the newest window in the average window (`w_c`): above 0, at most 1.
        pub window_weight: f64 = 0.002, "SHRED talk, slide 10";
        /// What happens to a line that would begin below an empty queue.
        pub floor: Floor = Floor::Zero, "ours";
    }
}

choices! {
    /// How a line that would begin below an empty queue is treated.
    pub enum Floor {
        /// Nothing: a large window is dropped even at a small average, as the formulas read.
        None = "none",
        /// The line begins at zero and keeps its slope: windows beyond that are treated alike.
        Zero = "zero",
        /// The line begins at zero and still ends at `r max_p`: it gets steeper.
        ZeroRatio = "zero-ratio",
    }
}

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let red = errors.take(self.red.running(rate).map_err(|errors| errors.within("red")));
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
        usable.then(|| moved(self.red.curve(), relative_window, self.floor).probability(average))
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

/// The running discipline.
#[derive(Clone)]
pub struct Shred {
    windows: WindowAverage,
    curve: Curve,
    floor: Floor,
    /// The smallest `min_mod` met so far.
    lowest: f64,
    red: Red,
}

impl QueueDiscipline for Shred {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        self.red.observe(cx.now);
        let relative_window = self.windows.compare(&packet);
        let curve = moved(self.curve, relative_window, self.floor);
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

/// The line a packet meets, given its window relative to the average (talk, slide 11).
fn moved(curve: Curve, relative_window: f64, floor: Floor) -> Curve {
    let Curve { min, max, max_p, .. } = curve;
    let start = min + (max - min) * (1.0 - relative_window);
    // The ratio is formed first so that an average window gets exactly RED's own curve.
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
    fn every_window_meets_the_same_slope() {
        for floor in [Floor::None, Floor::Zero] {
            for relative_window in [0.1, 0.25, 0.5, 1.0, 1.25, 2.0, 10.0] {
                let Curve { min, max, max_p, .. } = moved(red_curve(), relative_window, floor);
                assert!((max_p / (max - min) - 0.1 / 60.0).abs() < 1e-12, "{floor:?} {relative_window}");
            }
        }
    }

    #[test]
    fn an_average_window_meets_reds_own_curve_to_the_bit() {
        let odd = Curve { min: 7.0, max: 31.0, max_p: 0.0137, gentle: true, gentle_from: 0.0137 };
        for floor in [Floor::None, Floor::Zero, Floor::ZeroRatio] {
            assert_eq!(moved(odd, 1.0, floor), odd);
        }
    }

    #[test]
    fn half_the_average_window_meets_the_line_thirty_packets_later() {
        let half = moved(red_curve(), 0.5, Floor::Zero);
        for average in [0.0, 30.0, 59.0, 60.0, 70.0, 89.0] {
            let moved = half.probability(average);
            assert!((moved - red_curve().probability(average - 30.0)).abs() < 1e-12, "{average}");
        }
    }

    #[test]
    fn a_floor_decides_what_a_large_window_meets_at_an_empty_queue() {
        let p = |floor, average| moved(red_curve(), 2.0, floor).probability(average);
        assert!((p(Floor::None, 0.0) - 0.05).abs() < 1e-12);
        assert_eq!(p(Floor::Zero, 0.0), 0.0);
        assert!((p(Floor::Zero, 45.0) - 0.075).abs() < 1e-12);
        assert!((p(Floor::ZeroRatio, 45.0) - 0.1).abs() < 1e-12);
    }
}
