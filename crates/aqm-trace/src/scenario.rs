//! The scenario of a replay. All checks that need no file are made when it is parsed.
//!
//! The experiment is that of J. Roberts with J. Augé, "Fair queueing and congestion control", 2005, and of A. Kortebi,
//! L. Muscariello, S. Oueslati and J. Roberts, "Evaluating the number of active flows in a scheduler realizing fair
//! statistical bandwidth sharing", SIGMETRICS 2005: real packets pass through a scheduler, at the rate of their link
//! and at lower rates. A trace cannot react, so losses and delays do not slow down the senders.

use std::fmt;

use aqm_net::level::LEVEL;
use aqm_net::{ConfigErrors, Parameters as _, Rate, Span, TableReader, parameters};
use aqm_queue::edge::Table;
use aqm_queue::{Config as Queue, QueueDiscipline};
use serde_json::{Value, json};

use crate::generate::OC48;
use crate::packets::Key;
use crate::source::Config as Source;

parameters! {
    /// A trace replayed through a queue.
    ///
    /// In addition to these parameters, a scenario has `source`, a table whose `kind` is a trace source, and `queue`, a
    /// table whose `kind` is a queue discipline (by default, `drr`). The default `limit` of the queue is 100000p at
    /// this level, so that hardly any packets are lost, because a trace does not slow down.
    pub struct Settings {
        /// Rate of the link.
        pub rate: Rate = OC48, "Roberts & Augé talk: OC-48";
        /// Duration of the replayed part, from the beginning of the trace; by default, the whole trace.
        pub duration: Option<Span> = None, "aqmlab's choice";
        /// Initial part of the trace that is not measured.
        pub warm_up: Span = Span::ZERO, "aqmlab's choice: the link of a trace is in operation from the start";
        /// Seed of the random streams of the queue and the source.
        pub seed: u64 = 1, "aqmlab's choice";
        /// Time without packets after which a flow is over.
        pub idle_timeout: Span = Span::from_millis(2000), "aqmlab's choice: above the gap between 1500 B at 10 kb/s";
        /// Maximum number of flows in memory; beyond it, the flow with the longest silence is over.
        pub max_flows: u32 = 4_000_000, "aqmlab's choice: about half a gigabyte";
        /// Interval at which the queue and the flows in progress are recorded; `0s` for never.
        pub every: Span = Span::from_millis(100), "aqmlab's choice";
    }
}

/// The default kind of the queue.
const KIND: &str = "drr";
/// The default limit of the queue.
const LIMIT: &str = "100000p";

/// Value of a scenario's `level`.
pub(crate) const TRACE: &str = "trace";

/// Keys of a scenario, except `level`.
pub(crate) const KEYS: &[&str] =
    &["rate", "duration", "warm_up", "seed", "idle_timeout", "max_flows", "every", "source", "queue"];

/// The state of a flow that is not over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlowState {
    /// Number of the flow, unique in a replay; zero for a new flow.
    pub(crate) number: u32,
    /// Index of the counter of the flow's queued packets.
    pub(crate) slot: u32,
}

/// A trace scenario after all checks and with all defaults, and the objects that each replay clones.
#[derive(Clone)]
pub struct Scenario {
    pub(crate) settings: Settings,
    queue: Queue,
    pub(crate) discipline: Box<dyn QueueDiscipline>,
    /// An empty table with room for the maximum number of flows.
    pub(crate) flows: Table<FlowState, Key>,
    pub(crate) source: Source,
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_value().fmt(f)
    }
}

impl Scenario {
    /// Parses and checks a scenario given as a JSON value.
    ///
    /// # Errors
    /// All errors, with their paths and the allowed values.
    pub fn from_value(value: Value) -> Result<Self, ConfigErrors> {
        let mut table = TableReader::new(value)?;
        let level = table.value(LEVEL);
        table.check(level.is_none_or(|level| level == TRACE), LEVEL, "must be `trace`");
        let source: Option<Source> =
            table.require("source", "add a table whose `kind` is `generated` or `file`");
        if let Some(source) = &source {
            table.note(source.check().map_err(|error| error.within("source")));
        }
        let queue = with_defaults(table.value("queue").unwrap_or_else(|| json!({})));
        let settings = Settings::take_from(&mut table);
        table.check(!settings.idle_timeout.is_zero(), "idle_timeout", "must be longer than 0s");
        let flows = table.note(Table::new(settings.max_flows));
        let queue = table.note(Queue::read(queue).map_err(|errors| errors.within("queue")));
        let discipline = queue
            .as_ref()
            .and_then(|queue| table.note(queue.build(settings.rate).map_err(|error| error.within("queue"))));
        let read = || {
            let (queue, discipline) = (queue?, discipline?);
            Some(Self { settings, queue, discipline, flows: flows?, source: source? })
        };
        table.finish(read())
    }

    /// Returns the complete scenario, including all defaults; parsing it gives the same scenario.
    pub fn to_value(&self) -> Value {
        let mut value = json!(self.settings);
        value[LEVEL] = TRACE.into();
        value["queue"] = self.queue.to_value();
        value["source"] = self.source.to_value();
        value
    }
}

/// Adds the default kind to the queue's table, and the default limit if the kind has a limit.
fn with_defaults(queue: Value) -> Value {
    let Value::Object(mut table) = queue else {
        return queue;
    };
    let kind = table.entry("kind").or_insert_with(|| KIND.into()).clone();
    let every = Queue::catalog();
    let chosen = every.iter().find(|one| kind == one.name);
    if chosen.is_some_and(|one| one.parameters.iter().any(|field| field.name == "limit")) {
        table.entry("limit").or_insert_with(|| LIMIT.into());
    }
    Value::Object(table)
}
