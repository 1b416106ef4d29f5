//! The scenario of a replay, as read: every check that needs no file is made here.
//!
//! The question: J. Roberts with J. Augé, "Fair queueing and congestion control", 2005, and A. Kortebi,
//! L. Muscariello, S. Oueslati and J. Roberts, "Evaluating the number of active flows in a scheduler
//! realizing fair statistical bandwidth sharing", SIGMETRICS 2005: real packets go through a scheduler, at
//! the rate of their link and at lower rates. What is dropped or late here does not slow the senders down:
//! a trace cannot answer.

use std::fmt;

use aqm_net::stage::LEVEL;
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
    /// Beside these parameters it takes `source`, a table whose `kind` is a trace source, and `queue`, a table whose
    /// `kind` is a queue discipline: left out, `drr`. A `limit` of the queue that is left out is 100000p here, so that
    /// hardly anything is lost: a trace does not slow down.
    pub struct Settings {
        /// How fast the line sends.
        pub rate: Rate = OC48, "Roberts & Augé talk: OC-48";
        /// Of the trace, replay the first part that is so long. Left out: all of it.
        pub duration: Option<Span> = None, "aqmlab's choice";
        /// The beginning of the trace that is not measured.
        pub warm_up: Span = Span::ZERO, "aqmlab's choice: a trace is of a link at work";
        /// The seed of the random streams of queue and source.
        pub seed: u64 = 1, "aqmlab's choice";
        /// A flow that sends nothing for so long is over.
        pub idle_timeout: Span = Span::from_millis(2000), "aqmlab's choice: above the gap between 1500 B at 10 kb/s";
        /// Remember at most so many flows; then the one silent for longest is over.
        pub max_flows: u32 = 4_000_000, "aqmlab's choice: about half a gigabyte";
        /// Look at the queue and at the flows in progress so often; `0s` for never.
        pub every: Span = Span::from_millis(100), "aqmlab's choice";
    }
}

/// The kind of a queue that is told none.
const KIND: &str = "drr";
/// The limit of a queue that is told none.
const LIMIT: &str = "100000p";

/// What a scenario's `level` is here.
pub(crate) const TRACE: &str = "trace";

/// The keys of a scenario, beside `level`.
pub(crate) const KEYS: &[&str] =
    &["rate", "duration", "warm_up", "seed", "idle_timeout", "max_flows", "every", "source", "queue"];

/// What is remembered of a flow that is not over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlowState {
    /// Its number, unique in a replay; zero for a flow that has just been met.
    pub(crate) number: u32,
    /// Where its packets that wait are counted.
    pub(crate) place: u32,
}

/// A scenario of a trace, checked, defaults filled in; and what is built of it, of which each replay takes a clone.
#[derive(Clone)]
pub struct Scenario {
    pub(crate) settings: Settings,
    queue: Queue,
    pub(crate) discipline: Box<dyn QueueDiscipline>,
    /// No flows yet, and room for as many as may be known.
    pub(crate) flows: Table<FlowState, Key>,
    pub(crate) source: Source,
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_value().fmt(f)
    }
}

impl Scenario {
    /// Reads and checks a scenario given as a plain value.
    ///
    /// # Errors
    /// Everything that is wrong, where, and what is allowed.
    pub fn from_value(value: Value) -> Result<Self, ConfigErrors> {
        let mut table = TableReader::new(value)?;
        let level = table.value(LEVEL);
        table.check(level.is_none_or(|level| level == TRACE), LEVEL, "must be `trace` here");
        let source: Option<Source> =
            table.require("source", "write a table whose kind is `generated` or `file`");
        if let Some(source) = &source {
            table.note(source.check().map_err(|error| error.within("source")));
        }
        let queue = with_defaults(table.value("queue").unwrap_or_else(|| json!({})));
        let settings = Settings::take_from(&mut table);
        table.check(!settings.idle_timeout.is_zero(), "idle_timeout", "must be more than 0s");
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

    /// The scenario in full, every default filled in; reading it gives the same scenario.
    pub fn to_value(&self) -> Value {
        let mut value = json!(self.settings);
        value[LEVEL] = TRACE.into();
        value["queue"] = self.queue.to_value();
        value["source"] = self.source.to_value();
        value
    }
}

/// The queue's table with a kind, and with a limit if its kind has one.
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
