//! A list of flows that is used as a trace. A list is a CSV file with one flow on each line.
//!
//! aqmlab's choice: the first line contains the names of the columns, in any order. The columns `start_s` (in seconds)
//! and `bytes` are required. The column `rate` contains rates, either with a unit or as plain numbers in bits per
//! second, and the column `packet_bytes` contains numbers. If the column `rate` or `packet_bytes` is missing, or if a
//! cell in it is empty, the value from the scenario is used. Lines must be in ascending order of `start_s`. Unlike a
//! capture, a list is written by hand or by a program, so an invalid line is treated as an error.

use std::io::{BufRead, BufReader, Read};

use aqm_net::{Instant, Quantity, Rate, Size, Span};
use serde_json::json;

use crate::flows::{Flow, Flows, MAX_PACKET, MIN_PACKET, Merge};
use crate::input::Input;
use crate::packets::{Arrival, Packets, TraceSummary};
use aqm_net::level::Failure;

/// Names of all columns, in the order in which aqmlab writes the columns.
pub(crate) const COLUMNS: [&str; 4] = ["start_s", "bytes", "rate", "packet_bytes"];

/// Maximum start time in seconds, about three centuries. A later start time is treated as an error.
const MAX_START: f64 = 1e10;
/// Maximum size of a flow in bytes; a larger size is treated as an error.
const MAX_BYTES: u64 = 1_000_000_000_000_000;
/// Maximum length of a line in bytes.
const MAX_LINE: u64 = 10_000;

/// The packets of the flows in a list.
pub(crate) struct List<'a> {
    input: Input<'a>,
    merge: Merge<Lines<'a>>,
}

impl<'a> List<'a> {
    /// Returns whether a file that begins with the bytes `head` is a list of flows.
    pub(crate) fn matches(head: &[u8]) -> bool {
        let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
        std::str::from_utf8(line).is_ok_and(|line| {
            let names: Vec<&str> = names(line).collect();
            COLUMNS[..2].iter().all(|column| names.contains(column))
        })
    }

    pub(crate) fn open(mut input: Input<'a>, rate: Rate, packet: Size) -> Result<Self, Failure> {
        let mut lines = Lines {
            path: input.path().to_owned(),
            text: BufReader::new(input.reader()),
            line: String::new(),
            number: 0,
            columns: [None; 4],
            rate,
            // The check of the parameter ensures that the value fits into 16 bits.
            packet: packet.bytes() as u16,
            last: Instant::START,
        };
        lines.read_names()?;
        Ok(Self { input, merge: Merge::new(lines)? })
    }
}

impl Packets for List<'_> {
    fn next(&mut self) -> Result<Option<Arrival>, Failure> {
        self.merge.next()
    }

    fn close(self: Box<Self>) -> Result<TraceSummary, Failure> {
        let facts = json!({ "kind": "list of flows", "gzip": self.input.is_gzip(), "flows": self.merge.flow_count() });
        Ok(TraceSummary { warnings: Vec::new(), contents: self.input.contents()?, facts })
    }
}

fn names(line: &str) -> impl Iterator<Item = &str> {
    line.trim_start_matches('\u{feff}').trim_end().split(',').map(str::trim)
}

struct Lines<'a> {
    path: String,
    text: BufReader<Box<dyn Read + 'a>>,
    line: String,
    /// Number of the last line that was read.
    number: u64,
    /// Index of each of `COLUMNS` in the file.
    columns: [Option<usize>; 4],
    rate: Rate,
    packet: u16,
    last: Instant,
}

impl Lines<'_> {
    fn error(&self, problem: impl std::fmt::Display) -> Failure {
        Failure::File(format!("{}: line {}: {problem}", self.path, self.number))
    }

    fn read_names(&mut self) -> Result<(), Failure> {
        self.read_line()?;
        for (index, name) in names(&self.line).enumerate() {
            let Some(column) = COLUMNS.iter().position(|known| *known == name) else {
                let known = COLUMNS.join(", ");
                return Err(self.error(format!("unknown column `{name}`; available: {known}")));
            };
            if self.columns[column].replace(index).is_some() {
                return Err(self.error(format!("duplicate column `{name}`")));
            }
        }
        Ok(())
    }

    /// Reads a line. Returns false at the end of the file.
    fn read_line(&mut self) -> Result<bool, Failure> {
        self.line.clear();
        self.number += 1;
        let mut line = self.text.by_ref().take(MAX_LINE);
        match line.read_line(&mut self.line) {
            Ok(0) => Ok(false),
            Ok(_) if self.line.len() as u64 == MAX_LINE => {
                Err(self.error(format!("is longer than {MAX_LINE} bytes")))
            }
            Ok(_) => Ok(true),
            Err(error) => Err(self.error(error)),
        }
    }

    /// Returns the cell of the current line in a column; `None` if the column is missing or the cell is empty.
    fn cell(&self, column: usize) -> Option<&str> {
        let index = self.columns[column]?;
        self.line.trim_end().split(',').nth(index).map(str::trim).filter(|cell| !cell.is_empty())
    }

    fn flow(&self) -> Result<Flow, String> {
        let start = self.cell(0).ok_or("`start_s` is missing")?;
        let start = match start.parse::<f64>() {
            Ok(seconds) if (0.0..=MAX_START).contains(&seconds) => {
                Instant::START + Span::from_seconds(seconds)
            }
            _ => {
                return Err(format!(
                    "`start_s` must be a number of seconds from 0 to {MAX_START:e} (got `{start}`)"
                ));
            }
        };
        if start < self.last {
            return Err("starts before the previous line: sort the list by `start_s`".to_owned());
        }
        let bytes = self.integer(1, 1, MAX_BYTES)?.ok_or("`bytes` is missing")?;
        let packet = self.integer(3, MIN_PACKET, MAX_PACKET)?.unwrap_or_else(|| self.packet.into());
        let rate = match self.cell(2) {
            None => self.rate,
            Some(text) => {
                let plain = text.bytes().all(|byte| byte.is_ascii_digit());
                let text = if plain { format!("{text}bps") } else { text.to_owned() };
                Rate::parse(&text).map_err(|problem| format!("`rate`: {problem}"))?
            }
        };
        Ok(Flow { start, bytes, rate, packet: packet as u16 })
    }

    fn integer(&self, column: usize, least: u64, most: u64) -> Result<Option<u64>, String> {
        let Some(text) = self.cell(column) else {
            return Ok(None);
        };
        match text.parse() {
            Ok(value) if (least..=most).contains(&value) => Ok(Some(value)),
            _ => {
                let name = COLUMNS[column];
                Err(format!("`{name}` must be an integer between {least} and {most} (got `{text}`)"))
            }
        }
    }
}

impl Flows for Lines<'_> {
    fn next(&mut self) -> Result<Option<Flow>, Failure> {
        while self.read_line()? {
            if !self.line.trim().is_empty() {
                let flow = self.flow().map_err(|problem| self.error(problem))?;
                self.last = flow.start;
                return Ok(Some(flow));
            }
        }
        Ok(None)
    }
}
