//! CoDel: controlled delay. Packets that waited too long, for too long a time, are dropped as they leave.
//!
//! K. Nichols, V. Jacobson, A. McGregor, J. Iyengar, "Controlled Delay Active Queue Management", RFC 8289, 2018;
//! Linux 6.1's `net/sched/sch_codel.c`. The control law is in `codel_core.rs`; here is a buffer, first in, first out,
//! of at most `limit`.
//!
//! How it differs from its sources, and what it does where they are silent, stands in the documentation of
//! [`Config`], which the reference prints.

use aqm_net::{
    Backlog, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, Size, Span, choices, parameters,
};
use serde_json::{Value, json};

use crate::codel::core::{Codel, Control, Nanos, Settings, Ticks, Time};
use crate::{Build, Context, Describe, Fifo, Gauge, Label, QueueDiscipline, Reason, Report, TestCases};

parameters! {
    /// CoDel: packets that waited for longer than a target, for a whole interval, are dropped as they leave, the more
    /// often the longer that lasts.
    ///
    /// Differences from Linux and RFC 8289:
    ///
    /// - The RFC speaks of the MTU of the interface, Linux of `psched_mtu`, the MTU and the header of the link. A line
    ///   has neither here, so `mtu` is a parameter. A packet counts with its header of Ethernet, and so does the
    ///   default.
    /// - `ce_threshold_selector` and `ce_threshold_mask` are those of `fq-codel`; in Linux `codel` has none.
    /// - RFC 8289 has no marks. They come when those of Linux come. A packet that carries a mark already counts as
    ///   marked, as in the kernel, but is not reported again.
    /// - `target` and `interval` are cut from nanoseconds to units of 1024 ns; `tc` cuts them to whole microseconds
    ///   first.
    /// - In the kernel a `first_above_time` of 0 means that none is noted, so it forgets one that happens to be 0 in its 32
    ///   bits. Here no time stands for that.
    pub struct Config {
        /// Whose CoDel this is.
        pub profile: Profile = Profile::Linux, "ours: the kernel of the recorded runs";
        /// The time in queue that may stand for good.
        pub target: Span = Span::from_millis(5), "RFC 8289, Linux";
        /// How long packets must have waited too long before one is dropped; about the longest round trip.
        pub interval: Span = Span::from_millis(100), "RFC 8289, Linux";
        /// The most that may wait, in packets or bytes; the packet on the line is not counted.
        pub limit: Length = Length::Packets(1000), "Linux";
        /// Whether packets that can be marked are marked instead of dropped.
        pub ecn: bool = false, "Linux: tc-codel";
        /// Packets that waited for longer are marked if they can be, with `ecn` or without. Left out: none are.
        pub ce_threshold: Option<Span> = None, "Linux";
        /// `ce_threshold` is for packets only whose DS field (DSCP and ECN) has these bits under `ce_threshold_mask`: 1
        /// with a mask of 3 for those with ECT(1).
        pub ce_threshold_selector: u32 = 0, "Linux: tc-fq_codel";
        /// The bits of the DS field that must be those of `ce_threshold_selector`; 0 for all packets.
        pub ce_threshold_mask: u32 = 0, "Linux: tc-fq_codel";
        /// Nothing is dropped that leaves no more than so many bytes behind: a full packet.
        pub mtu: Size = Size::from_bytes(1514), "Linux: psched_mtu, of Ethernet";
    }
}

choices! {
    /// Whose CoDel.
    pub enum Profile {
        /// Linux 6.1, to the bit of its arithmetic.
        Linux = "linux",
        /// RFC 8289.
        Rfc = "rfc",
    }
}

impl Config {
    fn settings(&self) -> Settings {
        let Self { target, interval, mtu, ecn, .. } = *self;
        let Self { ce_threshold, ce_threshold_selector, ce_threshold_mask, .. } = *self;
        Settings { target, interval, mtu, ecn, ce_threshold, ce_threshold_selector, ce_threshold_mask }
    }
}

impl Build for Config {
    fn build(&self, _rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        errors.check(self.limit.count() > 0, "limit", "must be at least 1p or 1B");
        self.settings().check(&mut errors);
        errors.finish(())?;
        Ok(match self.profile {
            Profile::Linux => Box::new(Running::<Ticks>::new(self)),
            Profile::Rfc => Box::new(Running::<Nanos>::new(self)),
        })
    }
}

impl Describe for Config {
    fn tc_options(&self, _rate: Rate) -> Option<Value> {
        if self.limit.in_bytes() {
            return None;
        }
        let mut options = self.settings().tc_options("codel");
        options["limit"] = json!(self.limit.count());
        Some(options)
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

/// The running discipline, with the clock of a profile.
#[derive(Clone)]
struct Running<T: Time> {
    codel: Codel<T>,
    control: Control<T>,
    fifo: Fifo<T>,
    /// When a packet was last asked for.
    asked: T,
    drop_overlimit: u64,
}

impl<T: Time> Running<T> {
    fn new(config: &Config) -> Self {
        Self {
            codel: Codel::new(&config.settings()),
            control: Control::new(),
            fifo: Fifo::new(config.limit),
            asked: T::default(),
            drop_overlimit: 0,
        }
    }
}

impl<T: Time> QueueDiscipline for Running<T> {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        if self.fifo.has_room_for(&packet) {
            self.fifo.push_with(packet, T::at(cx.now));
        } else {
            self.drop_overlimit += 1;
            cx.drop(packet, Reason::Overflow);
        }
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        self.asked = T::at(cx.now);
        self.codel.dequeue(&mut self.control, &mut self.fifo, cx)
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }

    fn on_label(&mut self, number: u16, label: &Label) {
        self.codel.on_label(number, label);
    }
}

impl<T: Time> Report for Running<T> {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        let Control { count, lastcount, dropping, .. } = self.control;
        show(Gauge::number("count", count.into()));
        show(Gauge::number("lastcount", lastcount.into()));
        show(Gauge::new("ldelay", self.control.ldelay().seconds(), "s"));
        show(Gauge::number("dropping", f64::from(u8::from(dropping))));
        show(Gauge::new("drop_next", self.control.drop_next(self.asked) as f64 * 1e-9, "s"));
    }

    fn tc_statistics(&self, now: Instant) -> Value {
        let Control { count, lastcount, dropping, .. } = self.control;
        let mut told = json!({
            "count": count,
            "lastcount": lastcount,
            "ldelay": self.control.ldelay().nanos() / 1000,
            "drop_next": self.control.drop_next(T::at(now)) / 1000,
            "maxpacket": self.codel.statistics.maxpacket,
            "ecn_mark": self.codel.statistics.ecn_mark,
            "drop_overlimit": self.drop_overlimit,
        });
        if dropping {
            told["dropping"] = json!(true);
        }
        if self.codel.statistics.ce_mark > 0 {
            told["ce_mark"] = json!(self.codel.statistics.ce_mark);
        }
        told
    }
}
