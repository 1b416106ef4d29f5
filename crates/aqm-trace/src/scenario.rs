//! The scenario of a replay, as read: every check that needs no file is made here.
//!
//! The question: S. Oueslati and J. Roberts, "Fair queueing and congestion control", 2005, and A. Kortebi,
//! L. Muscariello, S. Oueslati and J. Roberts, "Evaluating the number of active flows in a scheduler
//! realizing fair statistical bandwidth sharing", SIGMETRICS 2005: real packets go through a scheduler, at
//! the rate of their link and at lower rates. What is dropped or late here does not slow the senders down:
//! a trace cannot answer.

use aqm_net::{ConfigErrors, ErrorCollector, Parameters as _, Rate, Span, TableReader, parameters};
use aqm_queue::Config as Queue;
use aqm_queue::edge::Table;
use serde_json::{Value, json};

use crate::generate::OC48;
use crate::packets::{Config as Source, Key};
use crate::replay::FlowState;

parameters! {
    /// A trace replayed through a queue. Beside these parameters it takes `source`, a table whose `kind` is a
    /// trace source, and `queue`, a table whose `kind` is a queue discipline: left out, `drr`. A `limit` of
    /// the queue that is left out is 100000p here, so that hardly anything is lost: a trace does not slow
    /// down.
    pub struct Settings {
        /// How fast the line sends.
        pub rate: Rate = OC48, "Oueslati & Roberts talk: OC-48";
        /// Of the trace, replay the first part that is so long. Left out: all of it.
        pub duration: Option<Span> = None, "ours";
        /// The beginning of the trace that is not measured.
        pub warm_up: Span = Span::ZERO, "ours: a trace is of a link at work";
        /// The seed of the random streams of queue and source.
        pub seed: u64 = 1, "ours";
        /// A flow that sends nothing for so long is over.
        pub idle_timeout: Span = Span::from_millis(2000), "ours: above the gap between 1500 B at 10 kb/s";
        /// Remember at most so many flows; then the one silent for longest is over.
        pub max_flows: u32 = 4_000_000, "ours: about half a gigabyte";
        /// Look at the queue and at the flows in progress so often; `0s` for never.
        pub every: Span = Span::from_millis(100), "ours";
    }
}

/// The kind of a queue that is told none.
const KIND: &str = "drr";
/// The limit of a queue that is told none.
const LIMIT: &str = "100000p";

/// A checked scenario, defaults filled in.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub(crate) settings: Settings,
    pub(crate) queue: Queue,
    pub(crate) source: Source,
}

impl Scenario {
    /// Reads and checks a scenario given as a plain value.
    ///
    /// # Errors
    /// What is wrong, where, and what is allowed.
    pub fn from_value(value: Value) -> Result<Self, ConfigErrors> {
        let mut table = TableReader::new(value)?;
        let source = table.require("source", "write a table whose kind is `generated` or `file`");
        let queue = with_defaults(table.value("queue").unwrap_or_else(|| json!({})));
        let queue = table.note(Queue::read(queue).map_err(|errors| errors.within("queue")));
        let settings = Settings::take_from(&mut table);
        let read = || Some(Self { settings, queue: queue?, source: source? });
        let scenario: Self = table.finish(read())?;
        scenario.check()?;
        Ok(scenario)
    }

    fn check(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let Settings { idle_timeout, max_flows, rate, .. } = self.settings;
        errors.check(!idle_timeout.is_zero(), "idle_timeout", "must be more than 0s");
        errors.take(Table::<FlowState, Key>::new(max_flows));
        errors.take(self.source.check().map_err(|error| error.within("source")));
        errors.take(self.queue.build(rate).map_err(|error| error.within("queue")));
        errors.finish(())
    }

    /// The scenario in full, every default filled in; reading it gives the same scenario.
    pub fn to_value(&self) -> Value {
        let mut value = json!(self.settings);
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
