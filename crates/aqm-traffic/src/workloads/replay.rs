//! A recorded schedule of transfers. The sizes and times of the transfers are read from a file, so that different
//! programs can be run with the same traffic.
//!
//! Each line of the file describes one transfer by its start in seconds and its size in bytes, separated by a comma or
//! by blanks. A third column is ignored. In the schedules of the ns-2 runs, the third column contains a number of
//! packets. Lines with six columns describe a request and its response over a separate connection. The six columns are
//! the start, the size of the response, the size of the request, the server's delay before the response, the additional
//! one-way delay of each packet at the client, and the additional one-way delay of each packet at the server. All
//! delays are in seconds. Blank lines and text after a `#` are ignored. The first line may be a header with the names
//! of the columns. Lines may be in any order. The lines are sorted by time, and lines with equal times remain in their
//! original order. Transfers that start at or after the end of the run are skipped and counted. Times are rounded to a
//! nanosecond.

use aqm_net::{ConfigError, Instant, Rate, Span, data_lines, parameters};

use crate::parameters::Period;
use crate::wire::Wire;
use crate::{Build, BuildContext, Conversation, Exchange, TrafficContext, Transfer, Workload};

parameters! {
    /// A recorded schedule of transfers, read from a file.
    pub struct Config {
        /// Name of the file. Each line contains the start of a transfer in seconds and its size in bytes. A line that
        /// describes a request and its response also contains the size of the request in bytes and, in seconds, the
        /// server's delay before the response, the client's additional one-way delay, and the server's additional
        /// one-way delay.
        pub file: String = String::new(), "no default: required";
    }
}

impl Build for Config {
    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn Workload>, ConfigError> {
        let problem = "is missing: must be a file with a start in seconds and a size in bytes on each line";
        ConfigError::unless(!self.file.is_empty(), "file", problem)?;
        let not_read = || ConfigError::at("file", format!("`{}` could not be read", self.file));
        let content = context.file.ok_or_else(not_read)?;
        let mut schedule = parse(content).map_err(|problem| ConfigError::at("file", problem))?;
        let problem = "contains no transfers: expected a start in seconds and a size in bytes on each line";
        ConfigError::unless(!schedule.is_empty(), "file", problem)?;
        schedule.sort_by_key(|entry| entry.at);
        let period = Period::new(Span::ZERO, None, context.duration)?;
        let within = schedule.partition_point(|entry| entry.at < period.end);
        let skipped = schedule.len() - within;
        schedule.truncate(within);
        let wire = Wire::of(context.packetisation);
        let wire_bytes = schedule.iter().map(|entry| wire.bytes(entry.bytes)).fold(0, u64::saturating_add);
        Ok(Box::new(Replay { schedule, next: 0, skipped, wire_bytes, rate: context.rate, period }))
    }

    fn own_hosts(&self) -> bool {
        false
    }

    fn file(&self) -> Option<&str> {
        (!self.file.is_empty()).then_some(&self.file)
    }
}

/// The running workload.
#[derive(Clone)]
struct Replay {
    /// Transfers in the order of their start times.
    schedule: Vec<Entry>,
    /// Number of transfers that have been opened.
    next: usize,
    skipped: usize,
    wire_bytes: u64,
    rate: Rate,
    period: Period,
}

/// A transfer of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    at: Instant,
    bytes: u64,
    /// The request that precedes the transfer; `None` if there is no request.
    request: Option<Request>,
}

/// The request that precedes a transfer, and the additional delays of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    bytes: u64,
    think: Span,
    client_delay: Span,
    server_delay: Span,
}

impl Workload for Replay {
    fn start(&mut self, cx: &mut dyn TrafficContext) {
        self.sleep(cx);
    }

    fn on_wake(&mut self, cx: &mut dyn TrafficContext) {
        while let Some(&entry) = self.schedule.get(self.next).filter(|entry| entry.at <= cx.now()) {
            self.next += 1;
            entry.begin(cx);
        }
        self.sleep(cx);
    }

    fn facts(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("transfers", self.schedule.len() as f64);
        show("transfers_after_the_end", self.skipped as f64);
        show("realised_load", self.period.load(self.wire_bytes, self.rate));
    }
}

impl Replay {
    fn sleep(&self, cx: &mut dyn TrafficContext) {
        if let Some(entry) = self.schedule.get(self.next) {
            cx.wake_at(entry.at);
        }
    }
}

impl Entry {
    fn begin(self, cx: &mut dyn TrafficContext) {
        let bytes = self.bytes;
        match self.request {
            None => {
                cx.open(Transfer { bytes: Some(bytes), request: None, page: None, page_objects: 1, host: 0 });
            }
            Some(Request { bytes: request, think, client_delay, server_delay }) => {
                let first = Exchange { think, ..Exchange::immediate(request, bytes) };
                cx.converse(Conversation { client_delay, server_delay, ..Conversation::single(first) });
            }
        }
    }
}

/// Parses a schedule. The transfers remain in the order of the file.
fn parse(content: &str) -> Result<Vec<Entry>, String> {
    let mut schedule = Vec::new();
    let mut first = true;
    for (number, line) in data_lines(content) {
        let fields: Vec<&str> = if line.contains(',') {
            line.split(',').map(str::trim).collect()
        } else {
            line.split_whitespace().collect()
        };
        let header = first && is_header(&fields);
        first = false;
        if !header {
            schedule.push(transfer(&fields).map_err(|problem| format!("line {number}: {problem}"))?);
        }
    }
    Ok(schedule)
}

/// Returns whether the fields are the column names, in the expected order.
fn is_header(fields: &[&str]) -> bool {
    matches!(fields, [start, size, ..] if start.starts_with("start") && size.starts_with("size"))
}

/// Parses a line.
fn transfer(fields: &[&str]) -> Result<Entry, String> {
    let (start, size, request) = match *fields {
        [start, size] | [start, size, _] => (start, size, None),
        [start, size, request, think, client, server] => {
            (start, size, Some((request, [think, client, server])))
        }
        _ => {
            let columns = "2, 3 or 6; the first two are a start in seconds and a size in bytes";
            return Err(format!("has {} columns (expected {columns})", fields.len()));
        }
    };
    let at = Instant::START + time(start, "a start time")?;
    let request = match request {
        None => None,
        Some((request, [think, client, server])) => Some(Request {
            bytes: bytes(request)?,
            think: time(think, "a delay")?,
            client_delay: time(client, "a delay")?,
            server_delay: time(server, "a delay")?,
        }),
    };
    Ok(Entry { at, bytes: bytes(size)?, request })
}

fn time(text: &str, quantity: &str) -> Result<Span, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=3e9).contains(seconds));
    let problem = || format!("`{text}` is not {quantity} in seconds (expected a number from 0 to 3e9)");
    seconds.map(Span::from_seconds).ok_or_else(problem)
}

fn bytes(text: &str) -> Result<u64, String> {
    let bytes = text.parse::<u64>().ok().filter(|bytes| (1..=1_000_000_000_000_000).contains(bytes));
    bytes.ok_or_else(|| format!("`{text}` is not a size in bytes (expected an integer from 1 to 1e15)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, fact, run};

    fn build(content: &str) -> Result<Box<dyn Workload>, ConfigError> {
        let config = Config { file: "schedule.csv".to_owned() };
        config.build(&BuildContext { file: Some(content), ..context(1, 100) })
    }

    fn replay(content: &str) -> Vec<(u64, u64)> {
        let recording = run(&mut *build(content).unwrap());
        recording.opened.iter().map(|(at, transfer)| (at.nanos(), transfer.bytes.unwrap())).collect()
    }

    #[test]
    fn a_schedule_is_reproduced_to_the_nanosecond() {
        let expected = [(0, 12), (123_456_789, 2_000_000), (99_999_999_999, 1)];
        assert_eq!(replay("start_s,size_bytes\n0,12\n0.123456789,2000000\n99.999999999,1\n"), expected);
        let blanks = "\u{feff}# a schedule of the ns-2 runs\n0 12 1\r\n\n 0.123456789\t2000000 2142 # big\n99.999999999 1 1";
        assert_eq!(replay(blanks), expected);
    }

    #[test]
    fn six_columns_are_a_request_and_its_response() {
        let header = "start_s,size_bytes,request_bytes,think_s,client_delay_s,server_delay_s\n";
        let mut workload = build(&format!("{header}2,934,436,0.1,0.0005,0.040\n1,12\n")).unwrap();
        let recording = run(&mut *workload);
        assert_eq!(recording.opened.iter().map(|(at, _)| at.nanos()).collect::<Vec<_>>(), [1_000_000_000]);
        let millis = Span::from_millis;
        let expected = Conversation {
            client_delay: Span::from_nanos(500_000),
            server_delay: millis(40),
            ..Conversation::single(Exchange { think: millis(100), ..Exchange::immediate(436, 934) })
        };
        assert_eq!(recording.conversations, [(Instant::START + millis(2000), expected)]);
        assert_eq!(fact(&*workload, "transfers"), 2.0);
        assert_eq!(fact(&*workload, "realised_load"), 2.0 * 1014.0 / 125e6);
    }

    #[test]
    fn every_nanosecond_of_a_long_run_survives_the_text_form() {
        for nanos in (1..1_000_000_000_000_u64).step_by(10_000_019) {
            let text = format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
            assert_eq!(transfer(&[&text, "1"]).unwrap().at.nanos(), nanos);
        }
    }

    #[test]
    fn lines_are_sorted_by_time_and_otherwise_keep_their_order() {
        assert_eq!(
            replay("2,1\n1,2\n2,3\n1,4\n"),
            [(1_000_000_000, 2), (1_000_000_000, 4), (2_000_000_000, 1), (2_000_000_000, 3)]
        );
    }

    #[test]
    fn transfers_after_the_end_are_skipped_and_counted() {
        let mut workload = build("1,934\n100,1\n2e9,1\n").unwrap();
        assert_eq!(run(&mut *workload).opened.len(), 1);
        assert_eq!(fact(&*workload, "transfers"), 1.0);
        assert_eq!(fact(&*workload, "transfers_after_the_end"), 2.0);
        assert_eq!(fact(&*workload, "realised_load"), 1014.0 / 125e6);
    }

    #[test]
    fn an_invalid_line_is_reported_with_its_number() {
        let problem = |content: &str| {
            let error = build(content).err().unwrap_or_else(|| panic!("accepted {content:?}"));
            assert_eq!(error.path, "file");
            error.problem
        };
        assert_eq!(
            problem("start_s,size_bytes\n# first\n1,ten\n"),
            "line 3: `ten` is not a size in bytes (expected an integer from 1 to 1e15)"
        );
        assert_eq!(
            problem("-1 5"),
            "line 1: `-1` is not a start time in seconds (expected a number from 0 to 3e9)"
        );
        assert_eq!(
            problem("1 5 0 0 0 0"),
            "line 1: `0` is not a size in bytes (expected an integer from 1 to 1e15)"
        );
        assert_eq!(
            problem("1 5 9 0 x 0"),
            "line 1: `x` is not a delay in seconds (expected a number from 0 to 3e9)"
        );
        for content in
            ["NaN 5", "inf 5", "1 0", "1 1.5", "1 -3", "1 1e300", "1,,5", "x y", "1,2\nstart,size\n"]
        {
            assert!(problem(content).starts_with("line "), "{content}");
        }
        assert!(problem("size_bytes,start_s\n1,2").starts_with("line 1: `size_bytes` is not a start"));
        assert!(problem("1").contains("has 1 columns"));
        assert!(problem("1 2 3 4").contains("has 4 columns"));
        assert!(problem("# nothing\n").starts_with("contains no transfers"));
        assert!(problem("start,size\n").starts_with("contains no transfers"));
        let path = |config: Config| config.build(&context(1, 1)).err().unwrap().to_string();
        assert!(path(Config::default()).starts_with("file: is missing"));
        assert_eq!(path(Config { file: "a.csv".to_owned() }), "file: `a.csv` could not be read");
    }
}
