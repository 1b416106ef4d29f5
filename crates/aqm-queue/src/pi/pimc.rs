//! PIMC: PI with a minimum congestion window. Packets of senders whose window is smaller are not dropped.
//!
//! M. Kim, "Proportional Integrator with Short-lived flows Adjustment", master's thesis, Worcester Polytechnic
//! Institute, 2004: each packet carries its sender's congestion window, and a router with PI does not drop a packet
//! whose window is below a fixed threshold.
//!
//! The documentation of [`Config`], which is printed in the reference, lists aqmlab's choices where the source is
//! silent.

use aqm_net::{Backlog, ConfigErrors, ErrorCollector, Packet, Rate, Rng, parameters};
use serde_json::{Value, json};

use crate::pi::pi::{self, Pi};
use crate::{Build, Context, Describe, Gauge, QueueDiscipline, Report, TestCases};

parameters! {
    /// PIMC: PI that does not drop packets of senders whose congestion window is below a threshold.
    ///
    /// Packets must carry their sender's window.
    ///
    /// aqmlab's choices where the abstract of the thesis is silent:
    ///
    /// - The threshold is 4, because a smaller window cannot cause three duplicate acknowledgements, so that a loss
    ///   would cause a retransmission timeout.
    /// - For a packet whose window is below the threshold, no random number is drawn, and the packet is not marked. If
    ///   the queue is full, the packet is dropped nevertheless.
    /// - A packet without a window is dropped or marked as in PI.
    pub struct Config {
        /// Parameters of the PI controller.
        pub pi: pi::Config = pi::Config::default(), "Hollot et al. 2001";
        /// Threshold of the congestion window in segments; packets of senders with smaller windows are not dropped.
        pub min_cwnd: u32 = 4, "aqmlab's choice: the minimum for fast retransmit";
    }
}

impl Build for Config {
    fn build(&self, _rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let max = u32::from(u16::MAX);
        let mut errors = ErrorCollector::default();
        let problem = format_args!("must be from 1 to {max} segments (got {})", self.min_cwnd);
        errors.check((1..=max).contains(&self.min_cwnd), "min_cwnd", problem);
        let pi = errors.take(self.pi.discipline().map_err(|errors| errors.within("pi")));
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

/// A PIMC queue: the parameters and the PI queue on which it is based.
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
