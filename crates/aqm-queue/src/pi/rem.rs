//! REM: computes a price that rises while the arrival rate exceeds the link rate or the backlog exceeds a target. The
//! marking probability is an exponential function of the price.
//!
//! S. Athuraliya, V. Li, S. Low, Q. Yin, "REM: Active Queue Management", IEEE Network 15(3), May 2001. In every
//! `interval`, a queue adjusts its price by the deviations from two targets, which are a backlog of `b*` and an arrival
//! rate equal to the link rate: `p = max(p + gamma (alpha (b - b*) + x - c), 0)`, where `b` is the backlog, `x` the
//! number of packets that arrived in the interval, and `c` the number of packets that the link can send in an interval.
//! Each arrival is marked (or dropped) with the probability `1 - phi^-p`. In equilibrium, both targets are reached
//! regardless of the price, so that the backlog does not depend on the number of flows. A packet that passes several
//! queues remains unmarked with the probability `phi^-(p_1 + p_2 + ...)`, so that the sum of the prices can be computed
//! from the share of marked packets.
//!
//! Because the backlog grows by the difference between arrivals and departures, the paper also presents a form that
//! does not use rates: `p = max(p + gamma (b - (1 - alpha) b_old - alpha b*), 0)` (`excess = "backlog"`). The results
//! of the two forms differ while the link is idle or packets are dropped.
//!
//! The documentation of [`Config`], which is printed in the reference, lists aqmlab's choices where the paper is
//! silent.

use aqm_net::{
    Backlog, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, Rng, Size, Span, choices,
    parameters,
};
use serde_json::{Value, json};

use crate::interval::MIN_INTERVAL;
use crate::pi::selection::Selection;
use crate::start::first_instant;
use crate::{Build, Context, Describe, Fifo, Gauge, QueueDiscipline, Report, TestCases};

parameters! {
    /// REM: computes a price from the backlog and the excess of arrivals; the marking probability is an exponential
    /// function of the price.
    ///
    /// Where the paper is silent, aqmlab follows `rem.cc` of ns-2:
    ///
    /// - The defaults are those of ns-2, where `alpha` is a constant in the code. All quantities are in packets. If
    ///   `target` is in bytes, bytes are converted to packets of `mean_packet`. With `scale_by_size`, the probability
    ///   is multiplied by the ratio of the packet size to `mean_packet`.
    /// - The controller uses the backlog at the time of the update. In the form without rates (`excess = "backlog"`),
    ///   `alpha` multiplies the backlog at the previous update, as in the paper's formula.
    /// - All arrivals are counted, including packets that are dropped. If `rate_weight` is below 1, the number of
    ///   arrivals is averaged over several intervals (`inw_`).
    /// - The initial price is 0. An update that is due at the same time as an arrival or a departure is processed
    ///   first.
    /// - A full queue drops a packet without drawing a random number. Packets are marked on arrival. ns-2 marks packets
    ///   on departure, and does not drop packets that cannot be marked.
    pub struct Config {
        /// Target backlog (`b*`). The unit of `target`, packets or bytes, is the unit of all measurements.
        pub target: Length = Length::Packets(20), "ns-2: `pbo_`";
        /// Increase of the price at an update, per packet by which arrivals or backlog exceed their targets.
        pub gamma: f64 = 0.001, "ns-2";
        /// Weight of a packet of backlog relative to a packet of excess arrivals.
        pub alpha: f64 = 0.1, "ns-2, a constant there";
        /// Base of the exponential marking function, which must be above 1.
        pub phi: f64 = 1.001, "ns-2";
        /// Time between updates of the price.
        pub interval: Span = Span::from_millis(2), "ns-2: `pupdtime_`";
        /// Measurement of the excess of arrivals over the link's capacity.
        pub excess: Excess = Excess::Arrivals, "Athuraliya et al. 2001";
        /// Weight of the latest interval in the average number of arrivals.
        pub rate_weight: f64 = 1.0, "ns-2: `inw_`";
        /// Maximum backlog in packets or bytes, excluding the packet in transmission.
        pub limit: Length = Length::Packets(50), "ns-2";
        /// Selection of arriving packets, and the state of the controller at the start of the run.
        #[serde(flatten)]
        pub selection: Selection = Selection { mean_packet: Size::from_bytes(1000), ..Selection::default() };
    }
}

choices! {
    /// The method of measuring the excess of arrivals.
    pub enum Excess {
        /// The excess is the number of arrivals minus the number of packets that the link could have sent.
        Arrivals = "arrivals",
        /// The excess is the growth of the backlog.
        Backlog = "backlog",
    }
}

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let Self { target, gamma, alpha, phi, interval, rate_weight, limit, ref selection, .. } = *self;
        for (name, gain) in [("gamma", gamma), ("alpha", alpha)] {
            errors.check(gain > 0.0 && gain.is_finite(), name, format_args!("must be above 0 (got {gain})"));
        }
        errors.check(phi > 1.0 && phi.is_finite(), "phi", format_args!("must be above 1 (got {phi})"));
        let problem = format_args!("must be at least {MIN_INTERVAL} (got {interval})");
        errors.check(interval >= MIN_INTERVAL, "interval", problem);
        let problem = format_args!("must be above 0 and at most 1 (got {rate_weight})");
        errors.check(rate_weight > 0.0 && rate_weight <= 1.0, "rate_weight", problem);
        let is_effective = limit.in_bytes() != target.in_bytes() || limit.count() > target.count();
        let remedy = "otherwise the queue is full before the backlog reaches target";
        if limit.count() == 0 {
            errors.check(false, "limit", format_args!("must be at least 1p or 1B (got {limit})"));
        } else {
            errors.check(is_effective, "limit", format_args!("must exceed target ({target}); {remedy}"));
        }
        selection.check(&mut errors);
        let from_arrivals = self.excess == Excess::Arrivals;
        errors.check_effect(from_arrivals, self, &["rate_weight"], "with excess = \"backlog\"");
        let counts_bytes = from_arrivals || target.in_bytes() || selection.scale_by_size;
        let condition = "with excess = \"backlog\", target in packets and without scale_by_size";
        errors.check_effect(counts_bytes, self, &["mean_packet"], condition);
        errors.finish(())?;
        Ok(Box::new(Rem { controller: Controller::new(self, rate), fifo: Fifo::new(limit) }))
    }
}

impl Describe for Config {}

impl TestCases for Config {
    fn corners(&self) -> Vec<Value> {
        let quick = json!({
            "limit": "24p", "target": "3p", "gamma": 0.1, "phi": 1.1, "interval": "1ms", "ecn": "always",
        });
        let with = |more: Value| {
            let mut table = quick.clone();
            let (table_, more) =
                (table.as_object_mut().expect("a table"), more.as_object().expect("a table"));
            table_.extend(more.clone());
            table
        };
        vec![
            quick.clone(),
            with(json!({"excess": "backlog", "interval": "10us", "ecn": "off"})),
            with(json!({"target": "3kB", "scale_by_size": true, "rate_weight": 0.1})),
            with(json!({"target": "0p", "limit": "5001B", "phi": 1000.0, "ecn": "off", "interval": "20ms"})),
        ]
    }
}

/// A REM queue: the parameters, the controller and the packets.
#[derive(Clone)]
struct Rem {
    controller: Controller,
    fifo: Fifo,
}

impl QueueDiscipline for Rem {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        let Self { controller, fifo } = self;
        controller.catch_up(fifo.backlog(), cx.now);
        controller.count(&packet);
        controller.config.selection.admit(packet, controller.probability, fifo, cx);
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        self.controller.catch_up(self.fifo.backlog(), cx.now);
        self.fifo.pop()
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }

    fn on_start(&mut self, chance: &mut Rng) {
        let Config { interval, ref selection, .. } = self.controller.config;
        if selection.start.is_settled() {
            self.controller.next_update = first_instant(interval, chance);
        }
    }
}

impl Report for Rem {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        show(Gauge::number("price", self.controller.price));
        show(Gauge::number("probability", self.controller.probability));
    }
}

/// The REM controller, without the queue.
#[derive(Clone)]
struct Controller {
    config: Config,
    /// Number of packets or bytes that counts as one packet.
    unit: f64,
    /// Packets that the link can send in an interval (`c`).
    capacity: f64,
    /// The natural logarithm of `phi`.
    log_phi: f64,
    /// Time of the next update.
    next_update: Instant,
    /// Arrivals since the last update, in packets or bytes.
    arrivals: u64,
    /// Average number of packets that arrive per interval (`x`).
    rate: f64,
    /// Backlog at the last update, in packets.
    old_backlog: f64,
    price: f64,
    probability: f64,
}

impl Controller {
    fn new(config: &Config, rate: Rate) -> Self {
        let Config { target, interval, phi, .. } = *config;
        let mean = config.selection.mean_packet.bytes() as f64;
        Self {
            config: config.clone(),
            unit: if target.in_bytes() { mean } else { 1.0 },
            capacity: rate.bytes_per_second() * interval.seconds() / mean,
            log_phi: libm::log(phi),
            next_update: Instant::START + interval,
            arrivals: 0,
            rate: 0.0,
            old_backlog: 0.0,
            price: 0.0,
            probability: 0.0,
        }
    }

    /// Counts an arriving packet.
    #[inline]
    fn count(&mut self, packet: &Packet) {
        self.arrivals += if self.config.target.in_bytes() { packet.bytes.into() } else { 1 };
    }

    /// Executes all updates that are due up to `now`. `backlog` must not have changed since the last call.
    #[inline]
    fn catch_up(&mut self, backlog: Backlog, now: Instant) {
        if now >= self.next_update {
            self.update_until(backlog, now);
        }
    }

    fn update_until(&mut self, backlog: Backlog, now: Instant) {
        let Config { target, gamma, alpha, interval, excess, rate_weight, .. } = self.config;
        let current = backlog.in_unit_of(target) as f64 / self.unit;
        let target = target.count() as f64 / self.unit;
        while self.next_update <= now {
            let before = (self.price, self.rate, self.old_backlog);
            self.rate += rate_weight * (self.arrivals as f64 / self.unit - self.rate);
            let (weighted, excess) = match excess {
                Excess::Arrivals => (current, self.rate - self.capacity),
                Excess::Backlog => (self.old_backlog, current - self.old_backlog),
            };
            self.price = (self.price + gamma * (alpha * (weighted - target) + excess)).max(0.0);
            self.old_backlog = current;
            self.next_update += interval;
            // The remaining updates are skipped, because they would not change the state.
            if (self.price, self.rate, self.old_backlog) == before
                && self.arrivals == 0
                && self.next_update <= now
            {
                let skipped = now.since(self.next_update).nanos() / interval.nanos();
                self.next_update += Span::from_nanos(interval.nanos() * (skipped + 1));
            }
            self.arrivals = 0;
        }
        self.probability = -libm::expm1(-self.price * self.log_phi);
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Parameter;

    use super::*;
    use crate::testing::{Driver, ect, packet};

    const LINK: Rate = Rate::from_bps(10_000_000);

    fn controller(table: Value) -> Controller {
        Controller::new(&Config::read(table).unwrap(), LINK)
    }

    /// Returns the price after an interval in which `arrivals` packets arrive and at whose end `packets` packets are
    /// queued.
    fn update(controller: &mut Controller, arrivals: u64, packets: u64) -> f64 {
        (0..arrivals).for_each(|_| controller.count(&packet(1000)));
        let time = controller.next_update;
        let queue = Backlog { packets, bytes: packets * 1000 };
        controller.catch_up(Backlog::default(), Instant::from_nanos(time.nanos() - 1));
        controller.catch_up(queue, time);
        controller.price
    }

    #[test]
    fn the_price_follows_the_papers_difference_equation_calculated_by_hand() {
        // In each interval of 2 ms, the link sends 2.5 packets of 1000 bytes.
        for unit in ["20p", "20kB"] {
            let mut rem = controller(json!({"target": unit, "gamma": 0.01, "limit": "999p"}));
            let near =
                |price: f64, expected: f64| assert!((price - expected).abs() < 1e-12, "{price} {expected}");
            near(update(&mut rem, 5, 30), 0.01 * (0.1 * 10.0 + 2.5));
            near(update(&mut rem, 2, 30), 0.01 * (3.5 + 1.0 - 0.5));
            near(update(&mut rem, 0, 10), 0.01 * (4.0 - 1.0 - 2.5));
            near(update(&mut rem, 0, 0), 0.0);
        }
        let mut averaging = controller(json!({"gamma": 0.01, "rate_weight": 0.25}));
        update(&mut averaging, 12, 20);
        assert!((averaging.price - 0.01 * (3.0 - 2.5)).abs() < 1e-12);
        update(&mut averaging, 12, 20);
        assert!((averaging.price - 0.01 * (0.5 + 5.25 - 2.5)).abs() < 1e-12);
    }

    #[test]
    fn the_form_without_rates_uses_the_growth_of_the_backlog() {
        let mut rem = controller(json!({"gamma": 0.01, "excess": "backlog"}));
        let mut expected: f64 = 0.0;
        let mut old = 0.0;
        for waiting in [25_u64, 40, 40, 31, 20, 20, 3, 0, 7] {
            let b = waiting as f64;
            expected = (expected + 0.01 * (b - 0.9 * old - 0.1 * 20.0)).max(0.0);
            old = b;
            assert!((update(&mut rem, 99, waiting) - expected).abs() < 1e-12, "{waiting}");
        }
    }

    #[test]
    fn without_overflow_and_idle_time_both_forms_differ_only_by_the_latest_backlog() {
        let (mut arrivals, mut backlog) = (
            controller(json!({"gamma": 0.003, "mean_packet": "1250B"})),
            controller(json!({"gamma": 0.003, "excess": "backlog", "mean_packet": "1250B"})),
        );
        // Two packets leave in each interval.
        let mut waiting = 20;
        for rem in [&mut arrivals, &mut backlog] {
            update(rem, 22, 20);
        }
        for offered in [2, 5, 0, 1, 4, 2, 2, 0, 7, 3] {
            waiting = waiting + offered - 2;
            let prices = [&mut arrivals, &mut backlog].map(|rem| update(rem, offered, waiting));
            assert!((prices[0] - prices[1] - 0.003 * 0.1 * waiting as f64).abs() < 1e-12, "{prices:?}");
        }
    }

    #[test]
    fn in_equilibrium_price_and_probability_are_constant() {
        let mut rem = controller(json!({"mean_packet": "1250B"}));
        update(&mut rem, 900, 20);
        let (price, probability) = (rem.price, rem.probability);
        assert!(price > 0.8 && probability > 0.0);
        (0..100).for_each(|_| {
            update(&mut rem, 2, 20);
        });
        assert_eq!((rem.price, rem.probability), (price, probability));
    }

    #[test]
    fn marks_are_exponential_in_the_price_and_two_queues_mark_by_the_sum_of_their_prices() {
        let probability = |price: f64| {
            let mut rem = controller(json!({"phi": 1.001, "target": "0p", "gamma": price / 2.5}));
            let result = update(&mut rem, 5, 0);
            assert!((result - price).abs() < 1e-9 * price);
            rem.probability
        };
        for price in [0.1, 1.0, 50.0, 693.5, 5000.0] {
            assert!((probability(price) - (1.0 - libm::pow(1.001, -price))).abs() < 1e-12, "{price}");
        }
        let (first, second, both) = (probability(120.0), probability(300.0), probability(420.0));
        assert!(((1.0 - first) * (1.0 - second) - (1.0 - both)).abs() < 1e-12);
    }

    #[test]
    fn the_share_of_marks_follows_from_the_price() {
        let table = json!({
            "kind": "rem", "limit": "2000000p", "target": "0p", "ecn": "always", "gamma": 0.01, "interval": "10s",
        });
        let mut rem = Driver::new(table, 5);
        (0..40_000).for_each(|_| {
            rem.offer(ect(1000));
        });
        rem.now = Instant::from_nanos(10_000_000_000);
        rem.take();
        // The arrivals exceed the capacity by 27,500 packets, and the backlog is 40,000 packets.
        let price = 0.01 * (40_000.0 - 12_500.0 + 0.1 * 40_000.0);
        assert!((rem.gauge("price") - price).abs() < 1e-6);
        let marks = (0..200_000).filter(|_| rem.offer(ect(1000))).count();
        let expected = 1.0 - libm::pow(1.001, -price);
        assert!((marks as f64 / 2e5 - expected).abs() < 0.004, "{marks} {expected}");
    }

    #[test]
    fn larger_packets_are_selected_more_often_with_scale_by_size() {
        let table = json!({
            "kind": "rem", "limit": "2000000p", "target": "0p", "ecn": "always", "gamma": 0.001, "interval": "10s",
            "scale_by_size": true,
        });
        let mut rem = Driver::new(table, 5);
        (0..100_000).for_each(|_| {
            rem.offer(ect(1000));
        });
        rem.now = Instant::from_nanos(10_000_000_000);
        rem.take();
        let p = rem.gauge("probability");
        for bytes in [200, 1500] {
            let marks = (0..100_000).filter(|_| rem.offer(ect(bytes))).count();
            assert!(
                (marks as f64 / 1e5 - p * f64::from(bytes) / 1000.0).abs() < 0.005,
                "{bytes}: {marks} {p}"
            );
        }
    }

    #[test]
    fn missed_updates_are_processed_one_by_one() {
        for table in [
            json!({"gamma": 0.05}),
            json!({"gamma": 0.05, "rate_weight": 0.03}),
            json!({"gamma": 0.05, "excess": "backlog"}),
        ] {
            let (mut often, mut seldom) = (controller(table.clone()), controller(table));
            for rem in [&mut often, &mut seldom] {
                update(rem, 80, 60);
            }
            for packets in [30, 25, 0, 0] {
                let queue = Backlog { packets, bytes: 0 };
                let from = often.next_update.nanos() - 1;
                for k in 1..=5000 {
                    often.catch_up(queue, Instant::from_nanos(from + k * 333_333));
                }
                seldom.catch_up(queue, Instant::from_nanos(from + 5000 * 333_333));
                assert_eq!(
                    (often.price, often.next_update, often.rate),
                    (seldom.price, seldom.next_update, seldom.rate)
                );
                assert_eq!(often.probability, seldom.probability);
            }
        }
    }

    #[test]
    fn in_equilibrium_both_targets_are_reached_and_the_price_matches_the_sources() {
        for excess in ["arrivals", "backlog"] {
            let table = json!({
                "kind": "rem", "excess": excess, "target": "300p", "limit": "2000p", "gamma": 0.1, "alpha": 0.0002,
                "ecn": "always",
            });
            let mut rem = Driver::new(table, 11);
            // The test simulates many sources, whose total rate rises by 0.4 packets per second with each packet and
            // falls by 1 % after a mark. In equilibrium at the link rate of 1250 packets per second, 3.2 % of the
            // packets are marked.
            let (mut rate, mut next, mut free_at) = (500.0, 0.0, 0.0);
            let (mut sent, mut waited, mut price) = (0.0, 0.0, 0.0);
            while next < 200.0 {
                while free_at <= next && rem.queue.backlog().packets > 0 {
                    rem.now = rem.now.max(Instant::from_nanos((free_at * 1e9) as u64));
                    rem.take();
                    free_at += 0.0008;
                }
                if rem.queue.backlog().packets == 0 {
                    free_at = f64::max(free_at, next);
                }
                rem.now = rem.now.max(Instant::from_nanos((next * 1e9) as u64));
                rate += 0.4;
                if rem.offer(ect(1000)) {
                    rate *= 0.99;
                }
                if next > 80.0 {
                    sent += 1.0;
                    waited += rem.queue.backlog().packets as f64;
                    price += rem.gauge("price");
                }
                next += 1.0 / rate;
            }
            let [waited, price] = [waited / sent, price / sent];
            assert!((sent / 120.0 / 1250.0 - 1.0).abs() < 0.002, "{excess}: {sent}");
            assert!((waited - 300.0).abs() < 5.0, "{excess}: {waited}");
            let expected = -libm::log(1.0 - 0.032) / libm::log(1.001);
            assert!((price / expected - 1.0).abs() < 0.03, "{excess}: {price} {expected}");
        }
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        for (table, path) in [
            (json!({"gamma": 0.0}), "gamma"),
            (json!({"alpha": -1.0}), "alpha"),
            (json!({"phi": 1.0}), "phi"),
            (json!({"interval": "1us"}), "interval"),
            (json!({"rate_weight": 0.0}), "rate_weight"),
            (json!({"limit": "0p"}), "limit"),
            (json!({"limit": "20p"}), "limit"),
            (json!({"mean_packet": "0B"}), "mean_packet"),
        ] {
            let errors = Config::read(table).unwrap().build(LINK).err().expect("the parameters are invalid");
            assert!(errors.iter().count() == 1 && errors.iter().all(|error| error.path == path), "{path}");
        }
    }
}
