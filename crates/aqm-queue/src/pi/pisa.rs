//! PISA: PI with lower drop probabilities for small congestion windows.
//!
//! M. Kim, "Proportional Integrator with Short-lived flows Adjustment", master's thesis, Worcester Polytechnic
//! Institute, 2004: each packet carries its sender's congestion window, as in SHRED. A router with PI drops packets of
//! senders with small windows less often than packets of senders with large windows.
//!
//! Only the abstract of the thesis is available, so the formula is aqmlab's choice: PI's probability is multiplied by
//! the ratio of the packet's window to the average window (`p r`, where `r` is defined as in SHRED) and limited to 1.
//! Because the average counts every packet once, the mean drop probability of all packets equals PI's probability. The
//! average window is computed in `window_average.rs`.
//!
//! If all windows are equal, a PISA queue behaves identically to a PI queue, including the sequence of random numbers.

use aqm_net::{Backlog, ConfigErrors, ErrorCollector, Packet, Rate, Rng, parameters};
use serde_json::{Value, json};

use crate::pi::pi::{self, Pi};
use crate::red::window_average::WindowAverage;
use crate::{Build, Context, Describe, Gauge, QueueDiscipline, Report, TestCases};

parameters! {
    /// PISA: PI that drops packets of senders with small congestion windows less often, and packets of senders with
    /// large windows more often.
    ///
    /// Packets must carry their sender's window.
    pub struct Config {
        /// Parameters of the PI controller.
        pub pi: pi::Config = pi::Config::default(), "Hollot et al. 2001";
        /// Weight of the newest window in the average window (`w_c`): above 0, at most 1.
        pub window_weight: f64 = 0.002, "SHRED talk, slide 10";
    }
}

impl Build for Config {
    fn build(&self, _rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let pi = errors.take(self.pi.discipline().map_err(|errors| errors.within("pi")));
        let windows = errors.take(WindowAverage::new(self.window_weight));
        let (pi, windows) = errors.finish_some(pi.zip(windows))?;
        Ok(Box::new(Pisa { windows, pi }))
    }
}

impl Describe for Config {
    fn needs_windows(&self) -> bool {
        true
    }
}

impl TestCases for Config {
    fn corners(&self) -> Vec<Value> {
        pi::corners().into_iter().map(|pi| json!({"pi": pi, "window_weight": 0.1})).collect()
    }
}

/// A PISA queue: the PI queue on which it is based, and the average window.
#[derive(Clone)]
pub struct Pisa {
    windows: WindowAverage,
    pi: Pi,
}

impl QueueDiscipline for Pisa {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        let relative_window = self.windows.compare(&packet);
        self.pi.admit(packet, relative_window, cx);
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        self.pi.dequeue(cx)
    }

    fn backlog(&self) -> Backlog {
        self.pi.backlog()
    }

    fn on_start(&mut self, chance: &mut Rng) {
        self.pi.on_start(chance);
    }
}

impl Report for Pisa {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        self.pi.gauges(show);
        self.windows.gauges(show);
    }
}
