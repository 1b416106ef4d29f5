//! What Linux's `tc -s -j qdisc show` prints of a discipline: JSON with the names and units of iproute2 6.1.
//!
//! An object for the discipline of a line, and one for each discipline inside that the kernel shows, too, such as
//! those of HTB's leaves. What all have in common stands beside what `tc` prints of their kind, in one object. What
//! left a queue counts as sent.
//!
//! Ours, where the kernel has no answer:
//! - A discipline that it does not have is shown with our name for its kind, and without options.
//! - Disciplines are numbered as they are found, the root `1:`, and classes in the order of their names, from 1.
//! - A queue that a scenario leaves out is not shown, nor are those of flows.

pub(crate) mod truesize;

use aqm_net::{Backlog, Instant, Rate};
use serde_json::{Value, json};

use crate::{ClassCounters, Config, Counters, QueueDiscipline};

/// A discipline inside another that the kernel shows as one of its own.
pub struct InnerQdisc<'a> {
    /// Where its parameters stand, such as `classes.web.queue`.
    pub place: &'a str,
    /// The number of the class that it belongs to.
    pub class: u32,
    /// The discipline.
    pub queue: &'a dyn QueueDiscipline,
    /// What went through it.
    pub counters: ClassCounters,
}

/// The discipline of a line, with its parameters and with what went through it.
pub struct Root<'a> {
    /// The name of the line.
    pub device: &'a str,
    /// The parameters that the discipline was built with.
    pub config: &'a Config,
    /// The rate that it was built for.
    pub rate: Rate,
    /// The discipline.
    pub queue: &'a dyn QueueDiscipline,
    /// What went through it.
    pub counters: &'a Counters,
}

impl Root<'_> {
    /// The objects of the discipline and of those inside, at `now`.
    pub fn shown(&self, now: Instant) -> Vec<Value> {
        let Self { device, config, rate, queue, counters } = *self;
        let sent =
            Sent { packets: counters.departures, bytes: counters.departed_bytes, drops: counters.drops };
        let mut list = List { device, now, shown: Vec::new() };
        list.show((config, rate), queue, sent, None);
        list.shown
    }
}

/// What every discipline counts.
#[derive(Clone, Copy)]
struct Sent {
    packets: u64,
    bytes: u64,
    drops: u64,
}

/// What is shown so far.
struct List<'a> {
    device: &'a str,
    now: Instant,
    shown: Vec<Value>,
}

impl List<'_> {
    /// Shows a discipline, which was built from a configuration for a rate and stands in the class `parent`, or at
    /// the root; and those inside.
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
        let mut one = json!({"kind": kind, "handle": handle, "dev": self.device});
        match parent {
            Some(parent) => one["parent"] = json!(parent),
            // A device has its root twice.
            None => (one["root"], one["refcnt"]) = (json!(true), json!(2)),
        }
        let Backlog { packets, bytes } = queue.backlog();
        let counted = json!({
            "options": options, "bytes": sent.bytes, "packets": sent.packets, "drops": sent.drops, "overlimits": 0,
            "requeues": 0, "backlog": bytes, "qlen": packets,
        });
        extend(&mut one, counted);
        extend(&mut one, queue.tc_statistics(self.now));
        self.shown.push(one);
        let inner = config.inner(rate);
        queue.inner_qdiscs(self.now, &mut |found| {
            let Some(named) = inner.iter().find(|inner| inner.place == found.place) else { return };
            let ClassCounters { departures, departed_bytes, drops, .. } = found.counters;
            let sent = Sent { packets: departures, bytes: departed_bytes, drops };
            let class = format!("{handle}{:x}", found.class);
            self.show((named.config, named.rate), found.queue, sent, Some(class));
        });
    }
}

/// Puts what `more` has, if it is a table, into the table `one`; tables and lists that both have, likewise.
fn extend(one: &mut Value, more: Value) {
    match (one, more) {
        (Value::Object(one), Value::Object(more)) => {
            more.into_iter().for_each(|(name, value)| extend(one.entry(name).or_insert(Value::Null), value));
        }
        (Value::Array(one), Value::Array(more)) if one.len() == more.len() => {
            one.iter_mut().zip(more).for_each(|(one, more)| extend(one, more));
        }
        (_, Value::Null) => {}
        (one, more) => *one = more,
    }
}
