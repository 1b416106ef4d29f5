//! A queue discipline with the words of its `tc` command.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Write as _};

use aqm_net::{ConfigError, ConfigErrors, ErrorCollector, Rate, Span};
use serde::Serialize;

use super::words;

/// The words of an argument: a name, followed by its values (`["limit", "1000"]`, `["ecn"]`).
pub type Argument = Vec<String>;

/// Something that `tc` cannot express: the path of the parameter, and a sentence without a subject.
pub type Limit = (String, String);

/// A queue discipline as `tc` creates it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Qdisc {
    /// Kind in `tc`.
    pub kind: &'static str,
    /// Arguments of the size table (`stab`), which precede the kind.
    pub size_table: Vec<Argument>,
    /// Arguments, which follow the kind.
    pub arguments: Vec<Argument>,
    /// Arguments of further commands that change the discipline (the virtual queues of `gred`).
    pub changes: Vec<Vec<Argument>>,
    /// Classes.
    pub classes: Vec<Class>,
    /// Values that `tc` computes from the arguments, by the name with which `tc -d qdisc show` prints them.
    pub computed: BTreeMap<&'static str, u64>,
    /// What `tc` cannot express.
    pub limits: Vec<Limit>,
    #[serde(skip)]
    errors: Vec<ConfigError>,
}

/// A class of a queue discipline.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Class {
    /// Number of the class within the discipline, from 1.
    pub number: u32,
    /// Number of the parent class; 0 for a child of the discipline.
    pub parent: u32,
    /// Arguments. If empty, the discipline itself creates the class.
    pub arguments: Vec<Argument>,
    /// Queue discipline of the class. If `None`, the kernel chooses a FIFO.
    pub queue: Option<Qdisc>,
    /// Filters that select the packets of the class. The first argument of each filter is its protocol, and the second
    /// argument is its kind.
    pub filters: Vec<Vec<Argument>>,
}

impl Qdisc {
    /// Creates a discipline without arguments.
    pub(crate) fn new(kind: &'static str) -> Self {
        Self { kind, ..Self::default() }
    }

    /// Adds an argument with a value.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl Display) -> Self {
        self.arguments.push(vec![name.to_owned(), value.to_string()]);
        self
    }

    /// Adds a whole number, which must fit into the kernel's 32 bits. The parameter has the same name.
    #[must_use]
    pub(crate) fn count(self, name: &str, value: u64) -> Self {
        let problem = format!("cannot be expressed by tc: must be at most {} (got {value})", u32::MAX);
        self.rejected_unless(value <= u32::MAX.into(), name, problem).with(name, value)
    }

    /// Adds an argument without a value.
    #[must_use]
    pub(crate) fn word(mut self, word: &str) -> Self {
        self.arguments.push(vec![word.to_owned()]);
        self
    }

    /// Adds the first of two words if `is_on` is true, otherwise the second word.
    #[must_use]
    pub(crate) fn either(self, is_on: bool, on: &str, off: &str) -> Self {
        self.word(if is_on { on } else { off })
    }

    /// Adds a word if `is_on` is true.
    #[must_use]
    pub(crate) fn flag(self, is_on: bool, word: &str) -> Self {
        if is_on { self.word(word) } else { self }
    }

    /// Adds several words of one argument.
    #[must_use]
    pub(crate) fn list(mut self, words: impl IntoIterator<Item = String>) -> Self {
        self.arguments.push(words.into_iter().collect());
        self
    }

    /// Adds a time in microseconds, which must fit into 32 bits. The parameter has the same name.
    #[must_use]
    pub(crate) fn time(self, name: &str, span: Span) -> Self {
        let micros = span.nanos() / 1000;
        let problem = format!("cannot be expressed by tc: must be at most {}us (got {span})", u32::MAX);
        self.rejected_unless(micros <= u32::MAX.into(), name, problem)
            .limit_if(!span.nanos().is_multiple_of(1000), name, || {
                format!("tc counts whole microseconds, so {span} becomes {}", words::time(span))
            })
            .with(name, words::time(span))
    }

    /// Adds a time in nanoseconds.
    #[must_use]
    pub(crate) fn precise_time(self, name: &str, span: Span) -> Self {
        self.with(name, words::precise_time(span))
    }

    /// Adds a rate. The parameter has the same name.
    #[must_use]
    pub(crate) fn rate(self, name: &str, rate: Rate) -> Self {
        let rounded = words::rate(rate);
        self.limit_if(!rate.bps().is_multiple_of(8), name, || {
            format!("the kernel counts whole bytes per second, so {}bit becomes {rounded}", rate.bps())
        })
        .with(name, words::rate(rate))
    }

    /// Adds a rate in bytes per second that must fit into 32 bits. The parameter has the same name.
    #[must_use]
    pub(crate) fn short_rate(self, name: &str, rate: Rate) -> Self {
        let problem = format!("cannot be expressed by tc: must be at most 34359738360bit (got {rate})");
        self.rejected_unless(rate.bps() / 8 <= u32::MAX.into(), name, problem).rate(name, rate)
    }

    /// Adds a value that `tc` computes.
    #[must_use]
    pub(crate) fn computes(mut self, name: &'static str, value: u64) -> Self {
        self.computed.insert(name, value);
        self
    }

    /// Notes something that `tc` cannot express, if `holds` is true.
    #[must_use]
    pub(crate) fn limit_if(mut self, holds: bool, path: &str, problem: impl FnOnce() -> String) -> Self {
        if holds {
            self.limits.push((path.to_owned(), problem()));
        }
        self
    }

    /// Notes that `tc` cannot set a parameter, if its value is not the value that the kernel always uses.
    #[must_use]
    pub(crate) fn fixed<T: PartialEq + Display>(self, path: &str, value: T, kernels: T) -> Self {
        let differs = value != kernels;
        self.limit_if(differs, path, || format!("the kernel always uses {kernels}, not {value}"))
    }

    /// Adds an error, which [`Qdisc::finish`] returns, unless `holds` is true.
    #[must_use]
    pub(crate) fn rejected_unless(mut self, holds: bool, path: &str, problem: impl Into<String>) -> Self {
        if !holds {
            self.errors.push(ConfigError::at(path, problem));
        }
        self
    }

    /// Returns the discipline, unless a value cannot be expressed.
    pub(crate) fn finish(mut self) -> Result<Self, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        std::mem::take(&mut self.errors).into_iter().for_each(|error| errors.add(error));
        errors.finish(self)
    }

    /// Adds a command that changes the discipline, with the arguments of `change`, whose parameters have the path `path`.
    #[must_use]
    pub(crate) fn change(mut self, mut change: Self, path: &str) -> Self {
        self.absorb(&mut change, path);
        self.changes.push(change.arguments);
        self
    }

    /// Adds the errors and the limits of a discipline inside this discipline.
    fn absorb(&mut self, inner: &mut Self, path: &str) {
        let limits = std::mem::take(&mut inner.limits);
        self.limits.extend(limits.into_iter().map(|(at, problem)| (join(path, &at), problem)));
        self.errors.extend(std::mem::take(&mut inner.errors).into_iter().map(|error| error.within(path)));
    }

    /// Adds a class whose queue has the path `path`.
    #[must_use]
    pub(crate) fn class(mut self, mut class: Class, path: &str) -> Self {
        if let Some(queue) = &mut class.queue {
            self.absorb(queue, path);
        }
        self.classes.push(class);
        self
    }

    /// Makes this discipline the leaf of an `htb` with this `rate`. The bucket contains one full packet, as in `tc`'s
    /// default, so that the `htb` paces packets as a link does.
    pub(crate) fn under_htb(mut self, rate: Rate) -> Self {
        let size_table = std::mem::take(&mut self.size_table);
        let htb = Self { size_table, ..Self::new("htb") }.with("default", "0x1").with("r2q", 10);
        let word = words::rate(rate);
        let arguments = Self::default()
            .with("rate", &word)
            .with("ceil", &word)
            .with("burst", HTB_BURST)
            .with("cburst", HTB_BURST)
            .with("quantum", HTB_QUANTUM)
            .arguments;
        htb.class(Class { number: 1, arguments, queue: Some(self), ..Class::default() }, "")
    }

    /// Returns the commands that create the discipline and its inner disciplines. `parent` is `root` or
    /// `parent MAJOR:MINOR`. The discipline gets the number `handle`, and inner disciplines get the next numbers.
    pub fn commands(&self, device: &str, parent: &str, handle: u32) -> Vec<String> {
        let mut lines = Vec::new();
        self.add_commands(device, parent, &mut { handle }, &mut lines);
        lines
    }

    fn add_commands(&self, device: &str, parent: &str, next: &mut u32, lines: &mut Vec<String>) {
        let handle = format!("{:x}:", *next);
        *next += 1;
        let table = if self.size_table.is_empty() { "" } else { " stab" };
        let words = |arguments: &[Argument]| text(arguments);
        let position = format!("dev {device} {parent} handle {handle}");
        let (table_words, own) = (words(&self.size_table), words(&self.arguments));
        lines.push(format!("tc qdisc add {position}{table}{table_words} {}{own}", self.kind));
        for change in &self.changes {
            lines.push(format!("tc qdisc change {position} {}{}", self.kind, words(change)));
        }
        let mut filters = 0;
        for class in self.sorted_classes() {
            let id = format!("{handle}{:x}", class.number);
            if !class.arguments.is_empty() {
                let outer =
                    if class.parent == 0 { handle.clone() } else { format!("{handle}{:x}", class.parent) };
                let (kind, own) = (self.kind, words(&class.arguments));
                lines.push(format!("tc class add dev {device} parent {outer} classid {id} {kind}{own}"));
            }
            if let Some(queue) = &class.queue {
                queue.add_commands(device, &format!("parent {id}"), next, lines);
            }
        }
        for class in &self.classes {
            for filter in &class.filters {
                filters += 1;
                let [protocol, rest @ ..] = filter.as_slice() else { continue };
                let (protocol, rest) = (protocol.join(" "), words(rest));
                lines.push(format!(
                    "tc filter add dev {device} parent {handle} prio {filters} {protocol}{rest} classid {handle}{:x}",
                    class.number
                ));
            }
        }
    }

    /// Returns the classes, each class after its parent.
    fn sorted_classes(&self) -> Vec<&Class> {
        let mut sorted: Vec<&Class> = Vec::new();
        let mut parents = BTreeSet::from([0]);
        while !parents.is_empty() {
            let level: Vec<&Class> =
                self.classes.iter().filter(|class| parents.contains(&class.parent)).collect();
            parents = level.iter().map(|class| class.number).collect();
            sorted.extend(level);
        }
        sorted
    }
}

/// Size of a token bucket of `htb`: the default of `tc`, which is its default of `mtu` (1600 bytes).
const HTB_BURST: u32 = 1600;
/// Number of bytes per turn of the only class of an `htb`, which has no effect. Without this value, the kernel warns
/// about its default at low and high rates.
const HTB_QUANTUM: u32 = 1514;

/// Returns the words of arguments, each preceded by a blank.
fn text(arguments: &[Argument]) -> String {
    arguments.iter().flatten().fold(String::new(), |mut text, word| {
        let _ = write!(text, " {word}");
        text
    })
}

fn join(outer: &str, inner: &str) -> String {
    match (outer, inner) {
        ("", path) | (path, "") => path.to_owned(),
        (outer, inner) => format!("{outer}.{inner}"),
    }
}
