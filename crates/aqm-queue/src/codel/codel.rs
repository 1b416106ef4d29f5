//! CoDel: controlled delay. Packets are dropped on departure if queueing delay stays above a target for an interval.
//!
//! K. Nichols, V. Jacobson, A. McGregor, J. Iyengar, "Controlled Delay Active Queue Management", RFC 8289, 2018; Linux
//! 6.1's `net/sched/sch_codel.c`. The control law is in `core.rs`. This module adds a FIFO with at most `limit` packets
//! or bytes.
//!
//! The documentation of [`Config`], which is printed in the reference, lists the differences from the sources.

use aqm_net::{Backlog, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, parameters};
use serde_json::{Value, json};

use crate::codel::core::{Codel, Control, Nanos, Profile, Settings, Ticks, Time};
use crate::tc::Qdisc;
use crate::{Build, Context, Describe, Fifo, Gauge, Label, QueueDiscipline, Reason, Report, TestCases};

parameters! {
    /// CoDel: drops packets on departure if the queueing delay has been above a target for a whole interval.
    ///
    /// The longer the queueing delay stays above the target, the more often packets are dropped.
    ///
    /// Differences from Linux and RFC 8289:
    ///
    /// - `mtu` is a parameter, because aqmlab's links have no MTU. The RFC uses the MTU of the interface; Linux uses
    ///   `psched_mtu`, which is the MTU plus the link-layer header. Packet sizes in aqmlab, and therefore also the
    ///   default of `mtu`, include the Ethernet header.
    /// - `ce_threshold_selector` and `ce_threshold_mask` are parameters of Linux's `fq-codel`; Linux's `codel` does not
    ///   have these parameters.
    /// - RFC 8289 does not define marking. With the profile `rfc`, marking follows Linux. If a packet that is already
    ///   marked is selected for a mark, it is counted as marked again, as in the kernel, but is not reported as marked
    ///   again.
    /// - `target` and `interval` are rounded down from nanoseconds to units of 1024 ns. `tc` first rounds them down to
    ///   whole microseconds.
    /// - In the kernel, a `first_above_time` of 0 means that no time is stored, so the kernel loses a stored time whose
    ///   32-bit value happens to be 0. In aqmlab, no value has this special meaning.
    pub struct Config {
        /// CoDel's parameters.
        #[serde(flatten)]
        pub codel: Settings = Settings::default();
        /// Maximum backlog in packets or bytes, excluding the packet in transmission.
        pub limit: Length = Length::Packets(1000), "Linux";
    }
}

impl Build for Config {
    fn build(&self, _rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        errors.check(
            self.limit.count() > 0,
            "limit",
            format_args!("must be at least 1p or 1B (got {})", self.limit),
        );
        self.codel.check(&mut errors);
        errors.finish(())?;
        Ok(match self.codel.profile {
            Profile::Linux => Box::new(CodelQueue::<Ticks>::new(self)),
            Profile::Rfc => Box::new(CodelQueue::<Nanos>::new(self)),
        })
    }
}

impl Describe for Config {
    fn tc_options(&self, _rate: Rate) -> Option<Value> {
        if self.limit.in_bytes() {
            return None;
        }
        let mut options = self.codel.tc_options("codel");
        options["limit"] = json!(self.limit.count());
        Some(options)
    }

    fn tc(&self, _rate: Rate) -> Result<Qdisc, ConfigErrors> {
        let problem = "cannot be expressed by tc: must be in packets, for example 1000p";
        let Settings { ce_threshold_selector: selector, ce_threshold_mask: mask, .. } = self.codel;
        let limited = Qdisc::new("codel").count("limit", self.limit.count());
        let codel = self.codel.add_tc(limited).rejected_unless(!self.limit.in_bytes(), "limit", problem);
        codel.fixed("ce_threshold_selector", selector, 0).fixed("ce_threshold_mask", mask, 0).finish()
    }
}

impl TestCases for Config {
    fn corners(&self) -> Vec<Value> {
        let quick = |change: Value| {
            let mut table = json!({"target": "1ms", "interval": "8ms", "limit": "20p", "mtu": "0B"});
            table.as_object_mut().into_iter().zip(change.as_object()).for_each(|(t, c)| t.extend(c.clone()));
            table
        };
        vec![
            quick(json!({})),
            quick(json!({"profile": "rfc", "limit": "9999B"})),
            quick(json!({"ecn": true, "mtu": "1514B"})),
            quick(json!({"profile": "rfc", "ecn": true, "ce_threshold": "500us"})),
            quick(json!({"ce_threshold": "0s", "ce_threshold_selector": 2, "ce_threshold_mask": 3})),
            json!({"profile": "rfc"}),
        ]
    }
}

/// A CoDel queue: the parameters, the control law's state and the packets. `T` is the clock of the profile.
#[derive(Clone)]
struct CodelQueue<T: Time> {
    codel: Codel<T>,
    control: Control<T>,
    fifo: Fifo<T>,
    /// Time of the latest dequeue.
    last_dequeue: T,
    drop_overlimit: u64,
}

impl<T: Time> CodelQueue<T> {
    fn new(config: &Config) -> Self {
        Self {
            codel: Codel::new(&config.codel),
            control: Control::new(),
            fifo: Fifo::new(config.limit),
            last_dequeue: T::default(),
            drop_overlimit: 0,
        }
    }
}

impl<T: Time> QueueDiscipline for CodelQueue<T> {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        if self.fifo.has_room_for(&packet) {
            self.fifo.push_with(packet, T::at(cx.now));
        } else {
            self.drop_overlimit += 1;
            cx.drop(packet, Reason::Overflow);
        }
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        self.last_dequeue = T::at(cx.now);
        self.codel.dequeue(&mut self.control, &mut self.fifo, cx)
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }

    fn on_label(&mut self, number: u16, label: &Label) {
        self.codel.on_label(number, label);
    }
}

impl<T: Time> Report for CodelQueue<T> {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        let Control { count, lastcount, dropping, .. } = self.control;
        show(Gauge::number("count", count.into()));
        show(Gauge::number("lastcount", lastcount.into()));
        show(Gauge::new("ldelay", self.control.ldelay().seconds(), "s"));
        show(Gauge::number("dropping", f64::from(u8::from(dropping))));
        show(Gauge::new("drop_next", self.control.drop_next(self.last_dequeue) as f64 * 1e-9, "s"));
    }

    fn tc_statistics(&self, now: Instant) -> Value {
        let Control { count, lastcount, dropping, .. } = self.control;
        let mut statistics = json!({
            "count": count,
            "lastcount": lastcount,
            "ldelay": self.control.ldelay().nanos() / 1000,
            "drop_next": self.control.drop_next(T::at(now)) / 1000,
            "maxpacket": self.codel.statistics.maxpacket,
            "ecn_mark": self.codel.statistics.ecn_mark,
            "drop_overlimit": self.drop_overlimit,
        });
        if dropping {
            statistics["dropping"] = json!(true);
        }
        if self.codel.statistics.ce_mark > 0 {
            statistics["ce_mark"] = json!(self.codel.statistics.ce_mark);
        }
        statistics
    }
}
