//! PIMC: PI with a minimum congestion window, below which it drops nothing.
//!
//! M. Kim, "Proportional Integrator with Short-lived flows Adjustment", master's thesis, Worcester
//! Polytechnic Institute, 2004: packets tell their sender's congestion window, and a router under PI does
//! not drop a packet whose window is below a fixed threshold.
//!
//! How it differs from its sources, and what it does where they are silent, stands in the documentation of
//! [`Config`], which the reference prints.

use aqm_net::{Backlog, ConfigErrors, ErrorCollector, Packet, Rate, Rng, parameters};
use serde_json::{Value, json};

use crate::pi::pi::{self, Pi};
use crate::{Build, Context, Describe, Gauge, QueueDiscipline, Report, TestCases};

parameters! {
    /// PIMC: PI that spares packets of congestion windows below a threshold.
    ///
    /// Packets must carry their sender's window.
    ///
    /// Where the abstract of the thesis is silent:
    ///
    /// - The threshold is 4: a smaller window cannot bring three duplicate acknowledgements, so a loss would cost a
    ///   time-out.
    /// - A packet that is spared asks no chance and is not marked either. A full queue refuses it all the same.
    /// - A packet without a window meets PI.
    pub struct Config {
        /// The PI it is built on.
        pub pi: pi::Config = pi::Config::default(), "Hollot et al. 2001";
        /// Windows below this, in segments, are spared.
        pub min_cwnd: u32 = 4, "ours: what fast retransmit needs";
    }
}

impl Build for Config {
    fn build(&self, _rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let most = u32::from(u16::MAX);
        let mut errors = ErrorCollector::default();
        let problem = format_args!("must be 1 to {most} segments, not {}", self.min_cwnd);
        errors.check((1..=most).contains(&self.min_cwnd), "min_cwnd", problem);
        let pi = errors.take(self.pi.running().map_err(|errors| errors.within("pi")));
        let pi = errors.finish_some(pi)?;
        Ok(Box::new(Pimc { min_cwnd: self.min_cwnd, pi }))
    }
}

impl Describe for Config {
    fn needs_windows(&self) -> bool {
        true
    }
}

impl TestCases for Config {
    fn corners(&self) -> Vec<Value> {
        pi::corners().into_iter().map(|pi| json!({"pi": pi, "min_cwnd": 20})).collect()
    }
}

/// The running discipline.
#[derive(Clone)]
pub struct Pimc {
    min_cwnd: u32,
    pi: Pi,
}

impl QueueDiscipline for Pimc {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        let is_spared = packet.window().is_some_and(|window| u32::from(window) < self.min_cwnd);
        self.pi.admit(packet, if is_spared { 0.0 } else { 1.0 }, cx);
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

impl Report for Pimc {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        self.pi.gauges(show);
    }
}
