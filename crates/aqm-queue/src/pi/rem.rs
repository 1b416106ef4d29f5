//! REM: a price that rises while more arrives than leaves or waits than wished, and marks that are exponential in it.
//!
//! S. Athuraliya, V. Li, S. Low, Q. Yin, "REM: Active Queue Management", IEEE Network 15(3), May 2001. Each `interval` a
//! queue moves its price by what it is off two targets, a backlog of `b*` and arrivals as fast as the line:
//! `p = max(p + gamma (alpha (b - b*) + x - c), 0)`, where `b` is the backlog, `x` what arrived in the interval and `c`
//! what the line could send in it. It marks (or drops) each arrival with `1 - phi^-p`. At rest both targets are met
//! whatever the price is, which so tells the number of flows apart from the queue; and of a path of queues a packet
//! stays unmarked with `phi^-(p_1 + p_2 + ...)`, so that the share of marks tells the sum of their prices.
//!
//! As the difference of arrivals and line is how much the backlog grows, the paper also has
//! `p = max(p + gamma (b - (1 - alpha) b_old - alpha b*), 0)` (`excess` = `"backlog"`), which needs no rates; while the
//! line idles or packets are dropped the two differ.
//!
//! How it differs from its sources, and what it does where they are silent, stands in the documentation of
//! [`Config`], which the reference prints.

use aqm_net::{
    Backlog, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, Rng, Size, Span, choices,
    parameters,
};
use serde_json::{Value, json};

use crate::pi::pi::EcnRule;
use crate::start::{Start, first_instant};
use crate::{Build, Context, Describe, Fifo, Gauge, QueueDiscipline, Reason, Report, TestCases};

parameters! {
    /// REM: a price follows backlog and excess of arrivals, and marks are exponential in it.
    ///
    /// Where the paper is silent, after `rem.cc` of ns-2:
    ///
    /// - Defaults are those of ns-2, where `alpha` is a constant in the code. All is counted in packets. With `target`
    ///   in bytes, bytes count as packets of `mean_packet`, and with `scale_by_size` the probability is multiplied by
    ///   the size of a packet over that, as in ns-2.
    /// - The backlog is that at the update. In the form without rates (`excess = "backlog"`) `alpha` weighs the one at
    ///   the update before, as written.
    /// - All arrivals count, whatever becomes of them; `rate_weight` below 1 averages them over intervals (`inw_`).
    /// - The price begins at 0. An instant of the controller that meets an arrival or a departure comes first.
    /// - A full queue refuses without asking chance. Packets are marked as they arrive; ns-2 marks as they leave, and
    ///   drops none that cannot be marked.
    pub struct Config {
        /// The backlog to hold (`b*`). Its unit, packets or bytes, is the unit that all is measured in.
        pub target: Length = Length::Packets(20), "ns-2: `pbo_`";
        /// What a packet that is too much adds to the price.
        pub gamma: f64 = 0.001, "ns-2";
        /// How much a packet of backlog counts beside one of arrivals.
        pub alpha: f64 = 0.1, "ns-2, a constant there";
        /// The base of the marking law; above 1.
        pub phi: f64 = 1.001, "ns-2";
        /// Time from update to update of the price.
        pub interval: Span = Span::from_millis(2), "ns-2: `pupdtime_`";
        /// How it is known how much more arrives than the line can send.
        pub excess: Excess = Excess::Arrivals, "Athuraliya et al. 2001";
        /// Weight of the latest interval in the average of arrivals.
        pub rate_weight: f64 = 1.0, "ns-2: `inw_`";
        /// The most that may wait, in packets or bytes; the packet on the line is not counted.
        pub limit: Length = Length::Packets(50), "ns-2";
        /// Typical size of a packet: what counts as one if `target` is in bytes, what size the line carries packets
        /// of, and what `scale_by_size` compares with.
        pub mean_packet: Size = Size::from_bytes(1000), "ns-2";
        /// Whether the probability is multiplied by the size of a packet over `mean_packet`.
        pub scale_by_size: bool = false, "ns-2: with `qib_`";
        /// What happens to an ECN-capable packet that chance chose. Others are always dropped.
        pub ecn: EcnRule = EcnRule::Off, "ns-2: `markpkts_`; the paper marks";
        /// Whether the controller has been running for long as a run begins (`settled`), or starts with the run.
        pub start: Start = Start::Settled, "ours";
    }
}

choices! {
    /// What the price takes for the excess of arrivals.
    pub enum Excess {
        /// Arrivals less what the line could have sent.
        Arrivals = "arrivals",
        /// The growth of the backlog.
        Backlog = "backlog",
    }
}

/// The shortest interval: whoever returns after a long time must catch up with every one.
const SHORTEST: Span = Span::from_nanos(10_000);

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let Self { target, gamma, alpha, phi, interval, rate_weight, limit, mean_packet, .. } = *self;
        for (place, gain) in [("gamma", gamma), ("alpha", alpha)] {
            errors.check(gain > 0.0 && gain.is_finite(), place, format_args!("must be above 0, not {gain}"));
        }
        errors.check(phi > 1.0 && phi.is_finite(), "phi", format_args!("must be above 1, not {phi}"));
        errors.check(interval >= SHORTEST, "interval", format_args!("must be at least {SHORTEST}"));
        let problem = format_args!("must be above 0 and at most 1, not {rate_weight}");
        errors.check(rate_weight > 0.0 && rate_weight <= 1.0, "rate_weight", problem);
        let is_met = limit.in_bytes() != target.in_bytes() || limit.count() > target.count();
        let remedy = "or the queue is full before it is where REM holds it";
        if limit.count() == 0 {
            errors.check(false, "limit", "must be at least 1p or 1B");
        } else {
            errors.check(is_met, "limit", format_args!("must exceed target, {target}, {remedy}"));
        }
        errors.check(mean_packet.bytes() > 0, "mean_packet", "must be at least 1B");
        let from_arrivals = self.excess == Excess::Arrivals;
        errors.check_effect(from_arrivals, self, &["rate_weight"], "with excess = \"backlog\"");
        let counts_bytes = from_arrivals || target.in_bytes() || self.scale_by_size;
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

/// The running discipline.
#[derive(Clone)]
struct Rem {
    controller: Controller,
    fifo: Fifo,
}

impl QueueDiscipline for Rem {
    fn enqueue(&mut self, mut packet: Packet, cx: &mut Context<'_>) {
        self.controller.catch_up(self.fifo.backlog(), cx.now);
        self.controller.count(&packet);
        if !self.fifo.has_room_for(&packet) {
            return cx.drop(packet, Reason::Overflow);
        }
        let Config { mean_packet, scale_by_size, ecn, .. } = self.controller.config;
        let size = if scale_by_size { f64::from(packet.bytes) / mean_packet.bytes() as f64 } else { 1.0 };
        let p = (self.controller.probability * size).min(1.0);
        if p > 0.0 && cx.rng.chance(p) {
            if ecn == EcnRule::Off || !packet.ecn.can_be_marked() {
                return cx.drop(packet, Reason::Early);
            }
            cx.mark(&mut packet, Reason::Early);
        }
        self.fifo.push(packet);
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        self.controller.catch_up(self.fifo.backlog(), cx.now);
        self.fifo.pop()
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }

    fn on_start(&mut self, chance: &mut Rng) {
        let Config { start, interval, .. } = self.controller.config;
        if start.is_settled() {
            self.controller.due = first_instant(interval, chance);
        }
    }
}

impl Report for Rem {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        show(Gauge::number("price", self.controller.price));
        show(Gauge::number("probability", self.controller.probability));
    }
}

/// The controller; it knows no queue.
#[derive(Clone)]
struct Controller {
    config: Config,
    /// One packet, in packets or bytes.
    unit: f64,
    /// `c`, in packets an interval.
    line: f64,
    /// The natural logarithm of `phi`.
    log_phi: f64,
    /// The next update.
    due: Instant,
    /// What arrived since the last one, in packets or bytes.
    arrived: u64,
    /// `x`, in packets an interval.
    rate: f64,
    /// The backlog at the last update, in packets.
    old: f64,
    price: f64,
    probability: f64,
}

impl Controller {
    fn new(config: &Config, rate: Rate) -> Self {
        let Config { target, mean_packet, interval, phi, .. } = *config;
        let mean = mean_packet.bytes() as f64;
        Self {
            config: config.clone(),
            unit: if target.in_bytes() { mean } else { 1.0 },
            line: rate.bytes_per_second() * interval.seconds() / mean,
            log_phi: libm::log(phi),
            due: Instant::START + interval,
            arrived: 0,
            rate: 0.0,
            old: 0.0,
            price: 0.0,
            probability: 0.0,
        }
    }

    /// A packet arrives.
    #[inline]
    fn count(&mut self, packet: &Packet) {
        self.arrived += if self.config.target.in_bytes() { packet.bytes.into() } else { 1 };
    }

    /// Makes the updates up to `now`, to which this `backlog` has stood unchanged.
    #[inline]
    fn catch_up(&mut self, backlog: Backlog, now: Instant) {
        if now >= self.due {
            self.update_until(backlog, now);
        }
    }

    fn update_until(&mut self, backlog: Backlog, now: Instant) {
        let Config { target, gamma, alpha, interval, excess, rate_weight, .. } = self.config;
        let waiting = backlog.in_unit_of(target) as f64 / self.unit;
        let target = target.count() as f64 / self.unit;
        while self.due <= now {
            let before = (self.price, self.rate, self.old);
            self.rate += rate_weight * (self.arrived as f64 / self.unit - self.rate);
            let (weighed, excess) = match excess {
                Excess::Arrivals => (waiting, self.rate - self.line),
                Excess::Backlog => (self.old, waiting - self.old),
            };
            self.price = (self.price + gamma * (alpha * (weighed - target) + excess)).max(0.0);
            self.old = waiting;
            self.due += interval;
            // Nothing moves any more.
            if (self.price, self.rate, self.old) == before && self.arrived == 0 && self.due <= now {
                let missed = now.since(self.due).nanos() / interval.nanos();
                self.due += Span::from_nanos(interval.nanos() * (missed + 1));
            }
            self.arrived = 0;
        }
        self.probability = -libm::expm1(-self.price * self.log_phi);
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Parameter;

    use super::*;
    use crate::testing::{Driver, ect, packet};

    const LINE: Rate = Rate::from_bps(10_000_000);

    fn controller(table: Value) -> Controller {
        Controller::new(&Config::read(table).unwrap(), LINE)
    }

    /// The price after an interval in which so many packets arrived and at whose end so many wait.
    fn update(controller: &mut Controller, arrived: u64, packets: u64) -> f64 {
        (0..arrived).for_each(|_| controller.count(&packet(1000)));
        let due = controller.due;
        let queue = Backlog { packets, bytes: packets * 1000 };
        controller.catch_up(Backlog::default(), Instant::from_nanos(due.nanos() - 1));
        controller.catch_up(queue, due);
        controller.price
    }

    #[test]
    fn the_price_is_the_papers_difference_equation_by_hand() {
        // The line sends 2.5 packets of 1000 bytes in 2 ms.
        for unit in ["20p", "20kB"] {
            let mut rem = controller(json!({"target": unit, "gamma": 0.01, "limit": "999p"}));
            let near =
                |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found} {expected}");
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
    fn the_form_without_rates_counts_the_growth_of_the_backlog() {
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
    fn where_nothing_overflows_or_idles_both_forms_differ_by_the_backlog_that_only_one_has_seen() {
        let (mut arrivals, mut backlog) = (
            controller(json!({"gamma": 0.003, "mean_packet": "1250B"})),
            controller(json!({"gamma": 0.003, "excess": "backlog", "mean_packet": "1250B"})),
        );
        // Two packets leave in each interval.
        let mut waiting = 20;
        for rem in [&mut arrivals, &mut backlog] {
            update(rem, 22, 20);
        }
        for came in [2, 5, 0, 1, 4, 2, 2, 0, 7, 3] {
            waiting = waiting + came - 2;
            let prices = [&mut arrivals, &mut backlog].map(|rem| update(rem, came, waiting));
            assert!((prices[0] - prices[1] - 0.003 * 0.1 * waiting as f64).abs() < 1e-12, "{prices:?}");
        }
    }

    #[test]
    fn at_rest_neither_price_nor_mark_moves_whatever_the_price_is() {
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
    fn marks_are_exponential_in_the_price_and_two_queues_mark_by_the_sum_of_theirs() {
        let law = |price: f64| {
            let mut rem = controller(json!({"phi": 1.001, "target": "0p", "gamma": price / 2.5}));
            let found = update(&mut rem, 5, 0);
            assert!((found - price).abs() < 1e-9 * price);
            rem.probability
        };
        for price in [0.1, 1.0, 50.0, 693.5, 5000.0] {
            assert!((law(price) - (1.0 - libm::pow(1.001, -price))).abs() < 1e-12, "{price}");
        }
        let (one, two, both) = (law(120.0), law(300.0), law(420.0));
        assert!(((1.0 - one) * (1.0 - two) - (1.0 - both)).abs() < 1e-12);
    }

    #[test]
    fn the_share_of_marks_is_what_the_price_says() {
        let table = json!({
            "kind": "rem", "limit": "2000000p", "target": "0p", "ecn": "always", "gamma": 0.01, "interval": "10s",
        });
        let mut rem = Driver::new(table, 5);
        (0..40_000).for_each(|_| {
            rem.offer(ect(1000));
        });
        rem.now = Instant::from_nanos(10_000_000_000);
        rem.take();
        // 27,500 too many, and 40,000 wait.
        let price = 0.01 * (40_000.0 - 12_500.0 + 0.1 * 40_000.0);
        assert!((rem.gauge("price") - price).abs() < 1e-6);
        let marks = (0..200_000).filter(|_| rem.offer(ect(1000))).count();
        let expected = 1.0 - libm::pow(1.001, -price);
        assert!((marks as f64 / 2e5 - expected).abs() < 0.004, "{marks} {expected}");
    }

    #[test]
    fn packets_of_more_bytes_are_chosen_more_often_if_so_wished() {
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
    fn missed_updates_are_made_up_for_one_by_one() {
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
                let from = often.due.nanos() - 1;
                for k in 1..=5000 {
                    often.catch_up(queue, Instant::from_nanos(from + k * 333_333));
                }
                seldom.catch_up(queue, Instant::from_nanos(from + 5000 * 333_333));
                assert_eq!((often.price, often.due, often.rate), (seldom.price, seldom.due, seldom.rate));
                assert_eq!(often.probability, seldom.probability);
            }
        }
    }

    #[test]
    fn at_rest_both_targets_are_met_and_the_price_is_what_the_sources_ask() {
        for excess in ["arrivals", "backlog"] {
            let table = json!({
                "kind": "rem", "excess": excess, "target": "300p", "limit": "2000p", "gamma": 0.1, "alpha": 0.0002,
                "ecn": "always",
            });
            let mut rem = Driver::new(table, 11);
            // Many sources, which together send 0.4 packets a second more after each packet, and a hundredth less
            // after a mark: at the line's 1250 packets a second, where 3.2 % are marked.
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
    fn what_cannot_work_is_refused() {
        for (table, place) in [
            (json!({"gamma": 0.0}), "gamma"),
            (json!({"alpha": -1.0}), "alpha"),
            (json!({"phi": 1.0}), "phi"),
            (json!({"interval": "1us"}), "interval"),
            (json!({"rate_weight": 0.0}), "rate_weight"),
            (json!({"limit": "0p"}), "limit"),
            (json!({"limit": "20p"}), "limit"),
            (json!({"mean_packet": "0B"}), "mean_packet"),
        ] {
            let errors = Config::read(table).unwrap().build(LINE).err().expect("it is wrong");
            assert!(errors.iter().count() == 1 && errors.iter().all(|error| error.place == place), "{place}");
        }
    }
}
