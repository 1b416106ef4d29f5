//! Produces the output of Linux's `tc -s -j qdisc show` for a queue discipline: JSON with the names and units of
//! iproute2 6.1.
//!
//! The output contains an object for the discipline of a link, and an object for each inner discipline that the kernel
//! also shows separately, such as the queues of HTB's leaves. Each object contains the fields that all disciplines
//! have, and the fields that `tc` prints for this kind of discipline. A packet counts as sent when it has departed from
//! the queue.
//!
//! aqmlab's choices where the kernel has no equivalent:
//! - If the kernel does not have a discipline, the discipline is shown with the kind that aqmlab uses, and without
//!   options.
//! - Disciplines are numbered in the order in which they are printed, starting with `1:` for the root. Classes are
//!   numbered from 1 in the order of their names.
//! - Default queues that are not specified in the scenario, and the queues of flows, are not shown.

pub(crate) mod truesize;

use aqm_net::{Backlog, Instant, Rate};
use serde_json::{Value, json};

use crate::{ClassCounters, Config, Counters, QueueDiscipline};

/// An inner discipline that the kernel shows as a separate discipline.
pub struct InnerQdisc<'a> {
    /// The path of the discipline's parameters, such as `classes.web.queue`.
    pub path: &'a str,
    /// The number of the class to which the discipline belongs.
    pub class: u32,
    /// The inner discipline.
    pub queue: &'a dyn QueueDiscipline,
    /// The counters of the discipline's packets.
    pub counters: ClassCounters,
}

/// The discipline of a link, with its parameters and counters.
pub struct Root<'a> {
    /// The name of the link.
    pub device: &'a str,
    /// The parameters with which the discipline was built.
    pub config: &'a Config,
    /// The link rate for which the discipline was built.
    pub rate: Rate,
    /// The discipline of the link.
    pub queue: &'a dyn QueueDiscipline,
    /// The counters of the discipline's packets.
    pub counters: &'a Counters,
}

impl Root<'_> {
    /// Returns the objects of the discipline and of its inner disciplines, which describe the state at `now`.
    pub fn shown(&self, now: Instant) -> Vec<Value> {
        let Self { device, config, rate, queue, counters } = *self;
        let sent =
            Sent { packets: counters.departures, bytes: counters.departed_bytes, drops: counters.drops };
        let mut list = List { device, now, shown: Vec::new() };
        list.show((config, rate), queue, sent, None);
        list.shown
    }
}

/// The counters that `tc` prints for every discipline.
#[derive(Clone, Copy)]
struct Sent {
    packets: u64,
    bytes: u64,
    drops: u64,
}

/// The list of objects created so far.
struct List<'a> {
    device: &'a str,
    now: Instant,
    shown: Vec<Value>,
}

impl List<'_> {
    /// Adds the object of a discipline, followed by the objects of its inner disciplines. The discipline was built from
    /// a configuration for a link rate, and belongs to the class `parent` or is the root.
    fn show(
        &mut self,
        (config, rate): (&Config, Rate),
        queue: &dyn QueueDiscipline,
        sent: Sent,
        parent: Option<String>,
    ) {
        let handle = format!("{:x}:", self.shown.len() + 1);
        let mut options = config.tc_options(rate).unwrap_or_else(|| json!({"kind": config.kind()}));
        let kind = options.as_object_mut().and_then(|options| options.remove("kind"));
        let mut object = json!({"kind": kind, "handle": handle, "dev": self.device});
        match parent {
            Some(parent) => object["parent"] = json!(parent),
            // The kernel counts two references to the root discipline of a device.
            None => (object["root"], object["refcnt"]) = (json!(true), json!(2)),
        }
        let Backlog { packets, bytes } = queue.backlog();
        let counted = json!({
            "options": options, "bytes": sent.bytes, "packets": sent.packets, "drops": sent.drops, "overlimits": 0,
            "requeues": 0, "backlog": bytes, "qlen": packets,
        });
        extend(&mut object, counted);
        extend(&mut object, queue.tc_statistics(self.now));
        self.shown.push(object);
        let inner = config.inner(rate);
        queue.inner_qdiscs(self.now, &mut |qdisc| {
            let Some(configured) = inner.iter().find(|inner| inner.path == qdisc.path) else { return };
            let ClassCounters { departures, departed_bytes, drops, .. } = qdisc.counters;
            let sent = Sent { packets: departures, bytes: departed_bytes, drops };
            let class = format!("{handle}{:x}", qdisc.class);
            self.show((configured.config, configured.rate), qdisc.queue, sent, Some(class));
        });
    }
}

/// Merges the table `more` into the table `object`, including nested tables and lists of equal length.
fn extend(object: &mut Value, more: Value) {
    match (object, more) {
        (Value::Object(object), Value::Object(more)) => {
            more.into_iter()
                .for_each(|(name, value)| extend(object.entry(name).or_insert(Value::Null), value));
        }
        (Value::Array(object), Value::Array(more)) if object.len() == more.len() => {
            object.iter_mut().zip(more).for_each(|(object, more)| extend(object, more));
        }
        (_, Value::Null) => {}
        (object, more) => *object = more,
    }
}
