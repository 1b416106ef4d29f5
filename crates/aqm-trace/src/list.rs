//! A list of flows as a trace: CSV, one flow a line.
//!
//! Ours: the first line names the columns, in any order. `start_s` (seconds) and `bytes` there must be;
//! `rate` is a text with a unit or a number of bits per second, `packet_bytes` a number; left out or empty,
//! they are those of the scenario. Lines must be in the order of `start_s`. A list is written by hand or by
//! a program, so the first line that is wrong is refused.

use std::io::{BufRead, BufReader, Read};

use aqm_net::{Instant, Quantity, Rate, Size, Span};
use serde_json::json;

use crate::flows::{Flow, Flows, LEAST_PACKET, MOST_PACKET, Merge};
use crate::input::Input;
use crate::packets::{Arrival, Found, Packets};
use aqm_net::stage::Failure;

/// The columns there may be, in the order in which we write them.
pub(crate) const COLUMNS: [&str; 4] = ["start_s", "bytes", "rate", "packet_bytes"];

/// A later start than this is a slip of the pen: three centuries in seconds.
const MOST_START: f64 = 1e10;
/// More bytes than this are a slip of the pen.
const MOST_BYTES: u64 = 1_000_000_000_000_000;
/// No line is longer.
const LONGEST_LINE: u64 = 10_000;

/// The packets of the flows in a list.
pub(crate) struct List<'a> {
    input: Input<'a>,
    merge: Merge<Lines<'a>>,
}

impl<'a> List<'a> {
    /// Whether a file that begins so is a list.
    pub(crate) fn is_one(head: &[u8]) -> bool {
        let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
        std::str::from_utf8(line).is_ok_and(|line| {
            let names: Vec<&str> = names(line).collect();
            COLUMNS[..2].iter().all(|column| names.contains(column))
        })
    }

    pub(crate) fn open(mut input: Input<'a>, rate: Rate, packet: Size) -> Result<Self, Failure> {
        let mut lines = Lines {
            path: input.path().to_owned(),
            text: BufReader::new(input.take()),
            line: String::new(),
            number: 0,
            columns: [None; 4],
            rate,
            // The check of the parameter bounds it.
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

    fn close(self: Box<Self>) -> Result<Found, Failure> {
        let facts =
            json!({ "kind": "list of flows", "gzip": self.input.is_packed(), "flows": self.merge.begun() });
        Ok(Found { warnings: Vec::new(), contents: self.input.contents()?, facts })
    }
}

fn names(line: &str) -> impl Iterator<Item = &str> {
    line.trim_start_matches('\u{feff}').trim_end().split(',').map(str::trim)
}

struct Lines<'a> {
    path: String,
    text: BufReader<Box<dyn Read + 'a>>,
    line: String,
    /// Of the line that was read last.
    number: u64,
    /// Where each of `COLUMNS` stands.
    columns: [Option<usize>; 4],
    rate: Rate,
    packet: u16,
    last: Instant,
}

impl Lines<'_> {
    fn wrong(&self, problem: impl std::fmt::Display) -> Failure {
        Failure::File(format!("{}: line {}: {problem}", self.path, self.number))
    }

    fn read_names(&mut self) -> Result<(), Failure> {
        self.read_line()?;
        for (place, name) in names(&self.line).enumerate() {
            let Some(column) = COLUMNS.iter().position(|known| *known == name) else {
                let known = COLUMNS.join(", ");
                return Err(self.wrong(format!("unknown column `{name}`, expected some of {known}")));
            };
            if self.columns[column].replace(place).is_some() {
                return Err(self.wrong(format!("the column `{name}` stands twice")));
            }
        }
        Ok(())
    }

    /// Reads a line; false at the end.
    fn read_line(&mut self) -> Result<bool, Failure> {
        self.line.clear();
        self.number += 1;
        let mut line = self.text.by_ref().take(LONGEST_LINE);
        match line.read_line(&mut self.line) {
            Ok(0) => Ok(false),
            Ok(_) if self.line.len() as u64 == LONGEST_LINE => {
                Err(self.wrong(format!("is longer than {LONGEST_LINE} bytes")))
            }
            Ok(_) => Ok(true),
            Err(error) => Err(self.wrong(error)),
        }
    }

    /// What stands in the line under a column; nothing if the column is missing or empty there.
    fn cell(&self, column: usize) -> Option<&str> {
        let place = self.columns[column]?;
        self.line.trim_end().split(',').nth(place).map(str::trim).filter(|cell| !cell.is_empty())
    }

    fn flow(&self) -> Result<Flow, String> {
        let start = self.cell(0).ok_or("`start_s` is missing")?;
        let start = match start.parse::<f64>() {
            Ok(seconds) if (0.0..=MOST_START).contains(&seconds) => {
                Instant::START + Span::from_seconds(seconds)
            }
            _ => return Err(format!("`start_s` must be seconds, 0 or more, is `{start}`")),
        };
        if start < self.last {
            return Err("starts before the line above it: sort the list by `start_s`".to_owned());
        }
        let bytes = self.whole(1, 1, MOST_BYTES)?.ok_or("`bytes` is missing")?;
        let packet = self.whole(3, LEAST_PACKET, MOST_PACKET)?.unwrap_or_else(|| self.packet.into());
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

    fn whole(&self, column: usize, least: u64, most: u64) -> Result<Option<u64>, String> {
        let Some(text) = self.cell(column) else {
            return Ok(None);
        };
        match text.parse() {
            Ok(value) if (least..=most).contains(&value) => Ok(Some(value)),
            _ => {
                let name = COLUMNS[column];
                Err(format!("`{name}` must be a whole number between {least} and {most}, is `{text}`"))
            }
        }
    }
}

impl Flows for Lines<'_> {
    fn next(&mut self) -> Result<Option<Flow>, Failure> {
        while self.read_line()? {
            if !self.line.trim().is_empty() {
                let flow = self.flow().map_err(|problem| self.wrong(problem))?;
                self.last = flow.start;
                return Ok(Some(flow));
            }
        }
        Ok(None)
    }
}
