//! RIO: RED with one queue and one drop function per class of packets. RIO includes WRED.
//!
//! Clark & Fang, "Explicit Allocation of Best-Effort Packet Delivery Service", IEEE/ACM Transactions on Networking
//! 6(4), 1998: packets are *in* or *out* of a profile. The drop probability of an *in* packet depends on the average
//! number of queued *in* packets. The drop probability of an *out* packet depends on the average of the whole queue.
//! Each of the two drop functions has its own three parameters. The configurations with more than two classes and the
//! couplings are from ns-2's DiffServ module: RIO-C, RIO-D and WRED.
//!
//! Class 0 is the preferred class. A packet carries its class number plus one. A packet without a class, or with a
//! class beyond the end of the list, belongs to the last class.
//!
//! This queue behaves identically to RED, including the sequence of random numbers, if there is one class, or if all
//! packets belong to the last class and the average of the last class counts all packets. The defaults are those of
//! ns-2's RIO, whose drop function is steeper than that of ns-2's RED because `gentle` is off.
//!
//! The documentation of [`Config`], which is printed in the reference, lists the differences from the sources and
//! aqmlab's choices where the sources are silent.

use aqm_net::{
    Backlog, ConfigError, ConfigErrors, ErrorCollector, Length, Packet, Rate, Size, choices, parameters,
};
use serde_json::{Value, json};

use crate::red::core::{ArrivalState, RedCore, Rules};
use crate::red::curve::Curve;
use crate::red::red;
use crate::red::spacing::Spacing;
use crate::{Build, Context, Describe, Fifo, Gauge, QueueDiscipline, Report, TestCases};

parameters! {
    /// RIO: RED with one drop function per class of packets in one queue, so that some classes are dropped later than
    /// others.
    ///
    /// Packets must carry their class.
    ///
    /// aqmlab's choices where the sources are silent:
    ///
    /// - An average gets a sample at each arrival of a packet whose class it counts, even if the packet is dropped.
    /// - Each class counts the packets since its own last drop, and has its own state above `min_th`.
    /// - As in ns-2's RIO, packets of a class are not dropped early while at most one packet of the class is queued
    ///   (with thresholds in bytes: while no packet of the class is queued), regardless of the backlog of other
    ///   classes. `spare_short_queue` can switch this rule off.
    /// - All averages decay while the link is idle. `idle` determines whether the average of a class also decays while
    ///   only other classes keep the link busy.
    /// - The limit applies to the whole queue. A packet that finds the queue full is dropped regardless of its class.
    pub struct Config {
        /// Packets that are counted in the average of a class.
        pub coupling: Coupling = Coupling::Coupled, "Clark & Fang 1998";
        /// Drop functions of 1 to 8 classes, with the preferred class first.
        pub classes: Vec<Class> = Class::ns2_defaults(), "ns-2's RIO";
        /// Arrivals at which the average of the last class gets a sample. This parameter has an effect only if
        /// `coupling` is `coupled`.
        pub total_average: TotalAverage = TotalAverage::EveryArrival, "Clark & Fang 1998";
        /// Times at which the average of a class decays.
        pub idle: Idle = Idle::Link, "aqmlab's choice, as in RED";
        /// Weight of the newest sample in each average (`w_q`): above 0, at most 1.
        pub weight: f64 = 0.002, "ns-2's RIO";
        /// Maximum backlog of all classes together in packets or bytes, excluding the packet in transmission.
        pub limit: Length = Length::Packets(50), "ns-2";
        /// Rules for the drops and marks of each class.
        #[serde(flatten)]
        pub rules: Rules = ns2_rules();
        /// Whether packets of a class are never dropped early while at most one packet of the class is queued (with
        /// thresholds in bytes: while no packet of the class is queued), regardless of the average of the class.
        pub spare_short_queue: bool = true, "ns-2's RIO; ns-2's dsRED: no";
    }
}

parameters! {
    /// Drop function of one class.
    pub struct Class {
        /// Average below which no packet of the class is dropped early (`min_th`). All classes must use the same unit,
        /// packets or bytes.
        pub min_th: Length = Length::Packets(5), "ns-2's RIO, out packets";
        /// Average at which the drop probability reaches `max_p` (`max_th`).
        pub max_th: Length = Length::Packets(15), "ns-2's RIO, out packets";
        /// Drop probability `p_b` just below `max_th` (`max_p`).
        pub max_p: f64 = 0.1, "ns-2's RIO, out packets";
    }
}

/// The rules of ns-2's RIO.
fn ns2_rules() -> Rules {
    let (mean_packet, spacing) = (Size::from_bytes(500), Spacing::Wait);
    Rules { mean_packet, gentle: false, spacing, ..Rules::default() }
}

impl Class {
    fn ns2_defaults() -> Vec<Self> {
        let in_class = Self { min_th: Length::Packets(15), max_th: Length::Packets(30), max_p: 0.02 };
        vec![in_class, Self::default()]
    }
}

choices! {
    /// The packets that are counted in the average of a class.
    pub enum Coupling {
        /// Packets of the class and of all preferred classes. The average of the last class is the average of the whole
        /// queue (RIO, RIO-C).
        Coupled = "coupled",
        /// Only packets of the class (RIO-D).
        Decoupled = "decoupled",
        /// All packets, with one average for all classes (WRED).
        Total = "total",
    }
}

choices! {
    /// The arrivals at which the average of the whole queue gets a sample.
    pub enum TotalAverage {
        /// Arrivals of all classes.
        EveryArrival = "every-arrival",
        /// Arrivals of all classes except the last, although the average applies to the last class. The average lags
        /// behind if packets of the other classes are rare, and ignores idle times that end with an arrival of the last
        /// class (ns-2's `rio.cc`, reported in 2001).
        InArrivals = "in-arrivals",
    }
}

choices! {
    /// The times at which an average decays.
    pub enum Idle {
        /// The average decays while the link is idle.
        Link = "line",
        /// The average decays while none of the packets that it counts is queued or in transmission, as if the link
        /// carried only these packets.
        Class = "class",
    }
}

/// Maximum number of classes.
const MAX_CLASSES: usize = 8;

impl Config {
    /// Checks all parameters.
    ///
    /// # Errors
    /// Returns an error for every parameter that is out of range, contradicts another parameter or has no effect.
    pub(crate) fn check(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let Self { classes, coupling, .. } = self;
        let problem = format_args!("must contain 1 to {MAX_CLASSES} tables (got {})", classes.len());
        errors.check((1..=MAX_CLASSES).contains(&classes.len()), "classes", problem);
        for (k, class) in classes.iter().enumerate() {
            let path = format!("classes.{k}");
            let of_class = |error: ConfigError| match error.path.as_str() {
                "min_th" | "max_th" | "max_p" => error.within(&path),
                _ => error,
            };
            errors.take(self.red(class).check().map_err(|errors| errors.map(of_class)));
            let unit = classes[0].min_th;
            let problem = format_args!("must have the same unit as in the first class ({unit})");
            let same_unit = class.min_th.in_bytes() == unit.in_bytes();
            errors.check(same_unit, format!("{path}.min_th"), problem);
        }
        errors.check_effect(*coupling != Coupling::Total, self, &["idle"], "with coupling = \"total\"");
        if self.total_average == TotalAverage::InArrivals {
            let couples = *coupling == Coupling::Coupled;
            errors.check_effect(couples, self, &["total_average"], "unless coupling is \"coupled\"");
            let remedy =
                "needs at least two classes, because the average of a single class would never change";
            errors.check(!couples || classes.len() > 1, "total_average", remedy);
        }
        errors.finish(())
    }

    /// Returns the RED parameters of the given class.
    fn red(&self, class: &Class) -> red::Config {
        let Class { min_th, max_th, max_p } = *class;
        red::Config {
            min_th,
            max_th,
            max_p,
            weight: self.weight,
            limit: self.limit,
            rules: self.rules.clone(),
        }
    }
}

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        self.check()?;
        let state = |class| {
            let red = self.red(class);
            let mut core = red.core(rate);
            if !self.spare_short_queue {
                core.min_packets = 0;
            }
            ClassState { core, curve: red.curve(), queue: Backlog::default() }
        };
        Ok(Box::new(Rio {
            coupling: self.coupling,
            total_average: self.total_average,
            idle: self.idle,
            classes: self.classes.iter().map(state).collect(),
            fifo: Fifo::new(self.limit),
        }))
    }
}

impl Describe for Config {
    fn drop_curve(&self, average: f64, _relative_window: f64, class: u8) -> Option<f64> {
        self.check().ok()?;
        let class = &self.classes[class_index(class, self.classes.len())];
        Some(self.red(class).curve().probability(average))
    }

    fn needs_classes(&self) -> bool {
        true
    }
}

impl TestCases for Config {
    /// The last class has the parameters of a small RED queue, and follows two preferred classes.
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

/// A RIO queue: the classes with their averages, and the packets.
#[derive(Clone)]
pub struct Rio {
    coupling: Coupling,
    total_average: TotalAverage,
    idle: Idle,
    classes: Vec<ClassState>,
    fifo: Fifo,
}

/// The state of a class.
#[derive(Clone)]
struct ClassState {
    core: RedCore,
    curve: Curve,
    /// Backlog of all packets that the average counts.
    queue: Backlog,
}

impl QueueDiscipline for Rio {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        let own = class_index(packet.class, self.classes.len());
        self.observe(own, cx);
        let ClassState { core, curve, queue } = &mut self.classes[own];
        let state = ArrivalState { curve: *curve, lowest: curve.min, packets: queue.packets };
        if core.admit(packet, state, &mut self.fifo, cx) {
            for (k, state) in self.classes.iter_mut().enumerate() {
                let counts = self.coupling.counts(k, own);
                if counts {
                    state.queue.packets += 1;
                    state.queue.bytes += u64::from(packet.bytes);
                }
                if counts || self.idle == Idle::Link {
                    state.core.average.busy();
                }
            }
        }
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        // The transmission of the previous packet has ended, so a class without queued packets does not have a packet
        // in transmission either.
        let link_is_idle = self.fifo.backlog().packets == 0;
        for state in &mut self.classes {
            if link_is_idle || (self.idle == Idle::Class && state.queue.packets == 0) {
                state.core.average.idle_from(cx.now);
            }
        }
        let packet = self.fifo.pop()?;
        let own = class_index(packet.class, self.classes.len());
        for (k, state) in self.classes.iter_mut().enumerate() {
            if self.coupling.counts(k, own) {
                state.queue.packets -= 1;
                state.queue.bytes -= u64::from(packet.bytes);
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
        // The gauges of the last class are also available under RED's names.
        if let Some(ClassState { core, .. }) = self.classes.last() {
            show(Gauge::length("average", core.average.value, core.unit));
            show(Gauge::number("probability", core.probability()));
        }
        for (ClassState { core, queue, .. }, names) in self.classes.iter().zip(GAUGES) {
            show(Gauge::length(names[0], core.average.value, core.unit));
            show(Gauge::number(names[1], core.probability()));
            show(Gauge::new(names[2], queue.packets as f64, "packets"));
        }
    }
}

/// The gauges of each class: the class's average, its latest `p_b`, and the number of queued packets that the average
/// counts.
const GAUGES: [[&str; 3]; MAX_CLASSES] = [
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
    /// Updates the averages at an arrival of class `own`.
    fn observe(&mut self, own: usize, cx: &Context<'_>) {
        let last = self.classes.len() - 1;
        for (k, ClassState { core, queue, .. }) in self.classes.iter_mut().enumerate() {
            let is_ignored = self.total_average == TotalAverage::InArrivals && k == last && own == last;
            if is_ignored {
                continue;
            }
            if self.coupling.counts(k, own) {
                core.observe(*queue, cx.now);
            } else if self.idle == Idle::Link {
                core.average.decay(cx.now);
            }
        }
    }
}

impl Coupling {
    /// Returns whether the average of class `k` counts packets of class `own`.
    fn counts(self, k: usize, own: usize) -> bool {
        match self {
            Self::Coupled => own <= k,
            Self::Decoupled => own == k,
            Self::Total => true,
        }
    }
}

/// Returns the index of a packet's `class` in a list of `classes` classes.
fn class_index(class: u8, classes: usize) -> usize {
    match usize::from(class) {
        0 => classes - 1,
        number => number.min(classes) - 1,
    }
}
