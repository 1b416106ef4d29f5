//! The arguments of `tc` for HTB (iproute2 6.1, `tc/q_htb.c`), and the filters that select the packets of its classes
//! (`tc/f_flower.c`).

use std::collections::{BTreeMap, BTreeSet};

use aqm_net::{ConfigErrors, ErrorCollector, Rate};

use super::{Class, Config, plan};
use crate::label_filter::Filter;
use crate::packet_label::Protocol;
use crate::tc::{self, Argument, Qdisc};

/// The maximum number of classes, so that the numbers of all inner disciplines fit into 16 bits.
const MAX_CLASSES: usize = 16_000;

/// Returns HTB with its classes, whose numbers are those of their names in ascending order, from 1.
///
/// # Errors
/// Returns an error if there are too many classes, or if Linux does not have the queue of a class.
pub(super) fn qdisc(config: &Config, rate: Rate) -> Result<Qdisc, ConfigErrors> {
    let single = [("all".to_owned(), Class { rate: Some(rate), ..Class::default() })].into();
    let classes = if config.classes.is_empty() { &single } else { &config.classes };
    let problem = format!("must be at most {MAX_CLASSES}, because tc numbers disciplines in 16 bits");
    let default = plan::default_class(config) + 1;
    let mut htb = Qdisc::new("htb")
        .with("default", format_args!("{default:#x}"))
        .count("r2q", config.r2q)
        .rejected_unless(classes.len() <= MAX_CLASSES, "classes", problem)
        .limit_if(config.hysteresis, "hysteresis", || {
            "set the parameter htb_hysteresis of the kernel module sch_htb".into()
        });
    let numbers: BTreeMap<&String, u32> = classes.keys().zip(1..).collect();
    let parents: BTreeSet<&String> = classes.values().filter_map(|class| class.parent.as_ref()).collect();
    let fifo = crate::Config::drop_tail(<_>::default());
    let mut errors = ErrorCollector::default();
    for (name, class) in classes {
        let path = format!("classes.{name}");
        let queue_path = plan::queue_of(name);
        let is_parent = parents.contains(name);
        // The kernel's own choice, a FIFO with the length of the device's queue, differs from aqmlab's default.
        let queue = class.queue.as_deref().or((!is_parent).then_some(&fifo));
        let queue = queue.map(|queue| tc::inner(queue, class.rate.unwrap_or(rate), &queue_path)).transpose();
        let class_rate = class.rate.unwrap_or(rate);
        let words = Qdisc::new("htb")
            .rate("rate", class_rate)
            .rate("ceil", class.ceil.unwrap_or(class_rate))
            .count("burst", class.burst.bytes())
            .count("cburst", class.cburst.bytes());
        let words = if is_parent { words } else { words.with("prio", class.priority) };
        let words = match class.quantum {
            Some(quantum) => words.count("quantum", quantum.bytes()),
            None => words,
        };
        let (filters, limits) = filters(class, &path);
        htb.limits.extend(words.limits.iter().map(|(at, problem)| (format!("{path}.{at}"), problem.clone())));
        htb.limits.extend(limits);
        let arguments = errors.take(words.finish().map_err(|errors| errors.within(&path)));
        let class = tc::Class {
            number: numbers[name],
            parent: class.parent.as_ref().and_then(|parent| numbers.get(parent)).copied().unwrap_or_default(),
            arguments: arguments.map(|words| words.arguments).unwrap_or_default(),
            queue: errors.take(queue).flatten(),
            filters,
        };
        htb = htb.class(class, &queue_path);
    }
    errors.finish(())?;
    htb.finish()
}

/// Returns the filters of a class, each as a protocol followed by the arguments, and what the filters cannot express.
fn filters(class: &Class, path: &str) -> (Vec<Vec<Argument>>, Vec<tc::Limit>) {
    let (mut filters, mut limits) = (Vec::new(), Vec::new());
    for filter in class.r#match.iter() {
        if !filter.traffic.is_empty() {
            let problem = "a packet does not carry the name of its workload, so write a filter yourself";
            limits.push((format!("{path}.match.traffic"), problem.to_owned()));
            continue;
        }
        if !filter.port.is_empty() {
            let problem = "the filter compares the destination port, also of acknowledgements";
            limits.push((format!("{path}.match.port"), problem.to_owned()));
        }
        filters.extend(flower(filter));
    }
    (filters, limits)
}

/// Returns a filter for each combination of an IP version, a protocol, a port and a code point.
fn flower(filter: &Filter) -> Vec<Vec<Argument>> {
    let argument = |words: &str| words.split(' ').map(str::to_owned).collect::<Argument>();
    let each = |values: &[u64]| -> Vec<Option<u64>> {
        if values.is_empty() { vec![None] } else { values.iter().copied().map(Some).collect() }
    };
    let protocols: &[Option<&str>] = match filter.protocol {
        Some(Protocol::Tcp) => &[Some("tcp")],
        Some(Protocol::Udp) => &[Some("udp")],
        None if filter.port.is_empty() => &[None],
        None => &[Some("tcp"), Some("udp")],
    };
    let mut all = Vec::new();
    for version in ["ip", "ipv6"] {
        for protocol in protocols {
            for port in each(&filter.port) {
                for dscp in each(&filter.dscp) {
                    let words = [
                        Some(format!("protocol {version}")),
                        Some("flower".to_owned()),
                        protocol.map(|protocol| format!("ip_proto {protocol}")),
                        port.map(|port| format!("dst_port {port}")),
                        // The code point is in the upper six bits of the field.
                        dscp.map(|dscp| format!("ip_tos {:#x}/0xfc", (dscp & 63) << 2)),
                    ];
                    all.push(words.into_iter().flatten().map(|words| argument(&words)).collect());
                }
            }
        }
    }
    all
}
