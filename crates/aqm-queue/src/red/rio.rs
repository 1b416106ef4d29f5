//! RIO: RED with an own line for each class of packets, in one queue; with it WRED.
//!
//! Clark & Fang, "Explicit Allocation of Best-Effort Packet Delivery Service", IEEE/ACM
//! Transactions on Networking 6(4), 1998: packets are *in* or *out* of a profile. An in packet is
//! judged by the average number of in packets waiting, an out packet by the average of the whole
//! queue, each by its own three parameters. More than two classes, and the couplings, are those of
//! ns-2's DiffServ module: RIO-C, RIO-D and WRED.
//!
//! Classes are numbered from 0, the one that is preferred; a packet carries its class number plus
//! one. A packet that nothing classified belongs to the last class, one beyond the list too.
//!
//! With one class, or if all packets are of the last class and it counts them all, this is RED, draw
//! for draw. Defaults are those of ns-2's RIO, which is steeper than its RED: not gentle.
//!
//! How it differs from its sources, and what it does where they are silent, stands in the documentation of
//! [`Config`], which the reference prints.

use aqm_net::{
    Backlog, ConfigError, ConfigErrors, ErrorCollector, Length, Packet, Rate, Size, choices, parameters,
};
use serde_json::{Value, json};

use crate::red::core::{ArrivalState, EcnRule, RedCore};
use crate::red::curve::Curve;
use crate::red::red;
use crate::red::spacing::{PacketScaling, Spacing};
use crate::{Build, Context, Describe, Fifo, Gauge, QueueDiscipline, Report, TestCases};

parameters! {
    /// RIO: RED with an own line for each class of packets in one queue, so that some are dropped
    /// later than others.
    ///
    /// Packets must carry their class.
    ///
    /// Where the sources are silent:
    ///
    /// - An average takes a sample at each arrival of a class that it counts, dropped or not.
    /// - A class counts the packets since its own last drop, and its turn above `min_th` ends by itself.
    /// - A class whose queue holds at most one packet (with thresholds in bytes: none) is not dropped early, whatever
    ///   else waits (RIO of ns-2), unless `spare_short_queue` is off.
    /// - Every average falls while the line idles. `idle` says whether that of a class falls while only other classes
    ///   keep the line busy.
    /// - The limit is on the whole queue. A packet that meets it is lost, whatever its class.
    pub struct Config {
        /// Which packets the average of a class counts.
        pub coupling: Coupling = Coupling::Coupled, "Clark & Fang 1998";
        /// The lines, that of the preferred class first; 1 to 8.
        pub classes: Vec<Class> = Class::of_ns2(), "ns-2's RIO";
        /// When the average of the last class takes a sample; matters only if `coupled`.
        pub total_average: TotalAverage = TotalAverage::EveryArrival, "Clark & Fang 1998";
        /// When the average of a class falls by itself.
        pub idle: Idle = Idle::Line, "ours: as RED's";
        /// Weight of the newest sample in each average (`w_q`): above 0, at most 1.
        pub weight: f64 = 0.002, "ns-2's RIO";
        /// The most that may wait, all classes together, in packets or bytes; the packet on the line
        /// is not counted.
        pub limit: Length = Length::Packets(50), "ns-2";
        /// Typical size of a packet: tells how fast an average falls while the line is idle, and is
        /// the size that `packet_scaling` compares with.
        pub mean_packet: Size = Size::from_bytes(500), "ns-2's RIO";
        /// Above `max_th`, whether the probability rises on to 1 at twice `max_th` (true), or every
        /// packet is dropped (false).
        pub gentle: bool = false, "ns-2's RIO";
        /// How the drops of a class are spaced, as in RED.
        pub spacing: Spacing = Spacing::Wait, "ns-2's RIO";
        /// Whether the first packet of a class after its average has crossed `min_th` always passes.
        pub spare_first: bool = true, "ns-2's RIO";
        /// Whether a class with at most one packet waiting, or none with thresholds in bytes, drops none early,
        /// whatever its average.
        pub spare_short_queue: bool = true, "ns-2's RIO; its dsRED does not";
        /// Whether big packets are dropped more often than small ones.
        pub packet_scaling: PacketScaling = PacketScaling::None, "ns-2's RIO in packet mode";
        /// What happens to an ECN-capable packet that is to be dropped early. Others are always dropped.
        pub ecn: EcnRule = EcnRule::Off, "ns-2's RIO";
        /// Mark only while `p_b` is at most this, and drop above it. Left out: no such bound.
        pub mark_p: Option<f64> = None, "ns-2's RIO has no such bound";
    }
}

parameters! {
    /// The line that packets of one class meet.
    pub struct Class {
        /// Average below which no packet of the class is dropped early (`min_th`). All classes have
        /// one unit, packets or bytes.
        pub min_th: Length = Length::Packets(5), "ns-2's RIO, out packets";
        /// Average at which the drop probability reaches `max_p` (`max_th`).
        pub max_th: Length = Length::Packets(15), "ns-2's RIO, out packets";
        /// Drop probability `p_b` as the average reaches `max_th` (`max_p`).
        pub max_p: f64 = 0.1, "ns-2's RIO, out packets";
    }
}

impl Class {
    fn of_ns2() -> Vec<Self> {
        let inside = Self { min_th: Length::Packets(15), max_th: Length::Packets(30), max_p: 0.02 };
        vec![inside, Self::default()]
    }
}

choices! {
    /// Which packets the average of a class counts.
    pub enum Coupling {
        /// Those of its class and of all before it; the last class's is the whole queue (RIO, RIO-C).
        Coupled = "coupled",
        /// Those of its class (RIO-D).
        Decoupled = "decoupled",
        /// All packets: one average for all classes (WRED).
        Total = "total",
    }
}

choices! {
    /// When the average of the whole queue takes a sample.
    pub enum TotalAverage {
        /// At every arrival.
        EveryArrival = "every-arrival",
        /// Not at arrivals of the last class, the very packets it judges: it lags where the other classes
        /// are rare, and forgets idle times that the last class ends (ns-2's `rio.cc`, reported in 2001).
        InArrivals = "in-arrivals",
    }
}

choices! {
    /// When an average falls by itself.
    pub enum Idle {
        /// While the line idles.
        Line = "line",
        /// While nothing that it counts waits or is sent, as if it had the line to itself.
        Class = "class",
    }
}

/// The most classes there may be.
const MOST: usize = 8;

impl Config {
    /// All checks on the parameters.
    ///
    /// # Errors
    /// Every parameter with which RIO would not do what its name says.
    pub(crate) fn check(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let Self { classes, coupling, .. } = self;
        let problem = format_args!("must be 1 to {MOST} tables, not {}", classes.len());
        errors.check((1..=MOST).contains(&classes.len()), "classes", problem);
        for (k, class) in classes.iter().enumerate() {
            let place = format!("classes.{k}");
            let of_class = |error: ConfigError| match error.place.as_str() {
                "min_th" | "max_th" | "max_p" => error.within(&place),
                _ => error,
            };
            errors.take(self.red(class).check().map_err(|found| found.map(of_class)));
            let unit = classes[0].min_th;
            let problem = format_args!("must be in the unit of the first class's, {unit}");
            let same_unit = class.min_th.in_bytes() == unit.in_bytes();
            errors.check(same_unit, format!("{place}.min_th"), problem);
        }
        errors.check_effect(*coupling != Coupling::Total, self, &["idle"], "with coupling = \"total\"");
        if self.total_average == TotalAverage::InArrivals {
            let couples = *coupling == Coupling::Coupled;
            errors.check_effect(couples, self, &["total_average"], "unless coupling is \"coupled\"");
            let remedy = "needs a class before the last, or the average never moves";
            errors.check(!couples || classes.len() > 1, "total_average", remedy);
        }
        errors.finish(())
    }

    /// What RED would be if all packets were of this class.
    fn red(&self, class: &Class) -> red::Config {
        let Class { min_th, max_th, max_p } = *class;
        let Self { weight, limit, mean_packet, gentle, spacing, .. } = *self;
        let Self { spare_first, packet_scaling, ecn, mark_p, .. } = *self;
        red::Config {
            min_th,
            max_th,
            max_p,
            weight,
            limit,
            mean_packet,
            gentle,
            spacing,
            spare_first,
            packet_scaling,
            ecn,
            mark_p,
        }
    }
}

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        self.check()?;
        let lane = |class| {
            let red = self.red(class);
            let mut core = red.core(rate);
            if !self.spare_short_queue {
                core.min_packets = 0;
            }
            Lane { core, curve: red.curve(), queue: Backlog::default() }
        };
        Ok(Box::new(Rio {
            coupling: self.coupling,
            total_average: self.total_average,
            idle: self.idle,
            lanes: self.classes.iter().map(lane).collect(),
            fifo: Fifo::new(self.limit),
        }))
    }
}

impl Describe for Config {
    fn drop_curve(&self, average: f64, _relative_window: f64, class: u8) -> Option<f64> {
        self.check().ok()?;
        let class = &self.classes[place(class, self.classes.len())];
        Some(self.red(class).curve().probability(average))
    }

    fn needs_classes(&self) -> bool {
        true
    }
}

impl TestCases for Config {
    /// The last class is a small RED, with two classes before it.
    fn corners(&self) -> Vec<Value> {
        let couplings = [
            json!({"coupling": "coupled"}),
            json!({"coupling": "coupled", "total_average": "in-arrivals"}),
            json!({"coupling": "coupled", "idle": "class"}),
            json!({"coupling": "decoupled"}),
            json!({"coupling": "decoupled", "idle": "class"}),
            json!({"coupling": "total"}),
        ];
        let mut corners = Vec::new();
        for mut rio in red::corners() {
            let class =
                |max_p: &Value| json!({"min_th": rio["min_th"], "max_th": rio["max_th"], "max_p": max_p});
            let classes = json!([class(&json!(0.1)), class(&json!(1.0)), class(&rio["max_p"])]);
            if let Some(table) = rio.as_object_mut() {
                table.retain(|name, _| !["min_th", "max_th", "max_p"].contains(&name.as_str()));
            }
            rio["classes"] = classes;
            for coupling in &couplings {
                let mut rio = rio.clone();
                for (name, value) in coupling.as_object().into_iter().flatten() {
                    rio[name] = value.clone();
                }
                corners.push(rio);
            }
        }
        corners
    }
}

/// The running discipline.
#[derive(Clone)]
pub struct Rio {
    coupling: Coupling,
    total_average: TotalAverage,
    idle: Idle,
    lanes: Vec<Lane>,
    fifo: Fifo,
}

/// What a class has of its own.
#[derive(Clone)]
struct Lane {
    core: RedCore,
    curve: Curve,
    /// What waits of all that the average counts.
    queue: Backlog,
}

impl QueueDiscipline for Rio {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        let own = place(packet.class, self.lanes.len());
        self.observe(own, cx);
        let Lane { core, curve, queue } = &mut self.lanes[own];
        let state = ArrivalState { curve: *curve, lowest: curve.min, packets: queue.packets };
        if core.admit(packet, state, &mut self.fifo, cx) {
            for (k, lane) in self.lanes.iter_mut().enumerate() {
                let counts = self.coupling.counts(k, own);
                if counts {
                    lane.queue.packets += 1;
                    lane.queue.bytes += u64::from(packet.bytes);
                }
                if counts || self.idle == Idle::Line {
                    lane.core.average.busy();
                }
            }
        }
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        // The line has just sent what it was given last: what does not wait now is not here at all.
        let line_idles = self.fifo.backlog().packets == 0;
        for lane in &mut self.lanes {
            if line_idles || (self.idle == Idle::Class && lane.queue.packets == 0) {
                lane.core.average.idle_from(cx.now);
            }
        }
        let packet = self.fifo.pop()?;
        let own = place(packet.class, self.lanes.len());
        for (k, lane) in self.lanes.iter_mut().enumerate() {
            if self.coupling.counts(k, own) {
                lane.queue.packets -= 1;
                lane.queue.bytes -= u64::from(packet.bytes);
            }
        }
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }
}

impl Report for Rio {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        // Those of the last class have RED's names.
        if let Some(Lane { core, .. }) = self.lanes.last() {
            show(Gauge::length("average", core.average.value, core.unit));
            show(Gauge::number("probability", core.probability()));
        }
        for (Lane { core, queue, .. }, names) in self.lanes.iter().zip(GAUGES) {
            show(Gauge::length(names[0], core.average.value, core.unit));
            show(Gauge::number(names[1], core.probability()));
            show(Gauge::new(names[2], queue.packets as f64, "packets"));
        }
    }
}

/// The gauges of each class: its average, its last `p_b`, and the packets waiting of those that its
/// average counts.
const GAUGES: [[&str; 3]; MOST] = [
    ["average_0", "probability_0", "packets_0"],
    ["average_1", "probability_1", "packets_1"],
    ["average_2", "probability_2", "packets_2"],
    ["average_3", "probability_3", "packets_3"],
    ["average_4", "probability_4", "packets_4"],
    ["average_5", "probability_5", "packets_5"],
    ["average_6", "probability_6", "packets_6"],
    ["average_7", "probability_7", "packets_7"],
];

impl Rio {
    /// Tells the averages of an arrival of class `own`.
    fn observe(&mut self, own: usize, cx: &Context<'_>) {
        let last = self.lanes.len() - 1;
        for (k, Lane { core, queue, .. }) in self.lanes.iter_mut().enumerate() {
            let is_ignored = self.total_average == TotalAverage::InArrivals && k == last && own == last;
            if is_ignored {
                continue;
            }
            if self.coupling.counts(k, own) {
                core.observe(*queue, cx.now);
            } else if self.idle == Idle::Line {
                core.average.forget(cx.now);
            }
        }
    }
}

impl Coupling {
    /// Whether the average of class `k` counts packets of class `own`.
    fn counts(self, k: usize, own: usize) -> bool {
        match self {
            Self::Coupled => own <= k,
            Self::Decoupled => own == k,
            Self::Total => true,
        }
    }
}

/// The place of a packet's `class` in a list of `classes`.
fn place(class: u8, classes: usize) -> usize {
    match usize::from(class) {
        0 => classes - 1,
        number => number.min(classes) - 1,
    }
}
