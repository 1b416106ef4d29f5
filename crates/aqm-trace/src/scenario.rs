//! The scenario of a replay. The parser performs all checks that do not require a file.
//!
//! The experiment follows J. Roberts with J. Augé, "Fair queueing and congestion control", 2005, and A. Kortebi, L.
//! Muscariello, S. Oueslati and J. Roberts, "Evaluating the number of active flows in a scheduler realizing fair
//! statistical bandwidth sharing", SIGMETRICS 2005: packets of a real trace pass through a scheduler, at the rate of
//! the original link and at lower rates. A trace cannot react to the queue, so losses and delays do not slow down the
//! senders.

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
    /// A trace that is replayed through a queue.
    ///
    /// In addition to these parameters, a scenario has the tables `source` and `queue`. The key `kind` of `source` is
    /// the name of a trace source, and the key `kind` of `queue` is the name of a queue discipline (by default, `drr`).
    /// At this level, the default `limit` of the queue is 100000p, so that hardly any packets are lost, because a trace
    /// does not slow down after losses.
    pub struct Settings {
        /// Rate of the link.
        pub rate: Rate = OC48, "Roberts & Augé talk: OC-48";
        /// Duration of the replayed part, which starts at the beginning of the trace. By default, the whole trace is
        /// replayed.
        pub duration: Option<Span> = None, "aqmlab's choice";
        /// Initial part of the trace that is not measured.
        pub warm_up: Span = Span::ZERO, "aqmlab's choice: the recorded link was already in operation";
        /// Seed of the random streams of the queue and the source.
        pub seed: u64 = 1, "aqmlab's choice";
        /// Time without packets after which a flow is considered finished.
        pub idle_timeout: Span = Span::from_millis(2000),
            "aqmlab's choice: longer than the interval between packets of 1500 B at 10 kb/s";
        /// Maximum number of flows in memory. If this number is exceeded, the flow that has been idle for the longest
        /// time is considered finished.
        pub max_flows: u32 = 4_000_000, "aqmlab's choice: the flows need about half a gigabyte";
        /// Interval at which the queue and the flows in progress are recorded; `0s` records neither.
        pub every: Span = Span::from_millis(100), "aqmlab's choice";
    }
}

/// The default kind of the queue.
const KIND: &str = "drr";
/// The default limit of the queue.
const LIMIT: &str = "100000p";

/// Value of the key `level` that selects the trace level.
pub(crate) const TRACE: &str = "trace";

/// Keys of a scenario, except `level`.
pub(crate) const KEYS: &[&str] =
    &["rate", "duration", "warm_up", "seed", "idle_timeout", "max_flows", "every", "source", "queue"];

/// The state of a flow that is not finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlowState {
    /// Number of the flow, which is unique within a replay; zero for a new flow.
    pub(crate) number: u32,
    /// Index of the counter that counts the flow's queued packets.
    pub(crate) slot: u32,
}

/// A checked trace scenario with all defaults filled in, and the objects that each replay clones.
#[derive(Clone)]
pub struct Scenario {
    pub(crate) settings: Settings,
    queue: Queue,
    pub(crate) discipline: Box<dyn QueueDiscipline>,
    /// An empty table with space for the maximum number of flows.
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
    /// Returns all errors, with their paths and the allowed values.
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
        table.check(!settings.idle_timeout.is_zero(), "idle_timeout", "must be greater than zero");
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

    /// Returns the complete scenario, including all defaults, as a JSON value; parsing this value yields the same
    /// scenario.
    pub fn to_value(&self) -> Value {
        let mut value = json!(self.settings);
        value[LEVEL] = TRACE.into();
        value["queue"] = self.queue.to_value();
        value["source"] = self.source.to_value();
        value
    }
}

/// Adds the default `kind` to the queue's table, and the default `limit` if this kind of queue has a limit.
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
