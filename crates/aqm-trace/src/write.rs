//! Writer of generated traces. The file name determines whether the packets are written in pcap format or the flows are
//! written as CSV, and whether the file is compressed with gzip.
//!
//! aqmlab's choices: the capture has the link type raw IP and timestamps in nanoseconds, and contains the first 28
//! bytes of each packet, which are the IPv4 and UDP headers. The source address and source port of a flow encode the
//! flow's number. For a flow that continues beyond the end of the trace, the list contains only the bytes that are sent
//! before the end.

#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "a trace may be larger than memory")]

use std::fs::File;
use std::io::{self, BufWriter, Write};

use etherparse::{IpNumber, Ipv4Header, UdpHeader};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::flows::Flows as _;
use crate::generate::Config as Generator;
use crate::list::COLUMNS;
use crate::packets::Arrival;
use crate::scenario::Scenario;
use crate::source::Config as Source;
use aqm_net::level::Failure;
use aqm_net::watch::{Stopped, Unit, Watch};

/// Number of bytes of each packet that are written to the file.
const HEADERS: u16 = 28;
/// Address of flow zero, 10.0.0.0.
const FIRST_ADDRESS: u64 = 0x0a00_0000;
/// Number of source addresses.
const ADDRESS_COUNT: u64 = 1 << 24;
/// Destination address and port of all flows. The address is reserved for documentation.
const DESTINATION: ([u8; 4], u16) = ([192, 0, 2, 1], 9);

/// Writes the generated trace of `scenario` to `path`, which must end in `.pcap` or `.csv`, optionally followed by
/// `.gz`. Returns the number of `flows` and, for a capture, the number of `packets` that were written.
///
/// # Errors
/// Returns an error if the source is not a generator, if the name has a different ending, if the file cannot be
/// written, or if `watch` stops the run.
pub fn write(scenario: &Scenario, path: &str, watch: &Watch) -> Result<Value, Failure> {
    let file_error = |problem: &str| Err(Failure::File(format!("{path}: {problem}")));
    let gzip = path.strip_suffix(".gz");
    let plain = gzip.unwrap_or(path);
    let is_capture = plain.ends_with(".pcap");
    if !is_capture && !plain.ends_with(".csv") {
        return file_error("must end in .pcap or .csv, or in .pcap.gz or .csv.gz");
    }
    let Source::generate(generator) = &scenario.source else {
        return file_error("only a generated trace (`source.kind = \"generated\"`) can be written");
    };
    let write_trace = |out: &mut dyn Write| match is_capture {
        true => capture(scenario, out, watch),
        false => list(generator, scenario.settings.seed, out, watch),
    };
    let result = File::create(path).map_err(WriteError::Disk).and_then(|file| {
        let result =
            if gzip.is_some() { write_gzip(file, write_trace) } else { write_plain(file, write_trace) };
        if result.is_err() {
            // The incomplete file is removed. If the removal fails, the original error is reported, because it is more
            // important.
            let _ = std::fs::remove_file(path);
        }
        result
    });
    result.or_else(|error| match error {
        WriteError::Trace(failure) => Err(failure),
        WriteError::Disk(error) => file_error(&format!("cannot be written: {error}")),
    })
}

/// The error that ended writing.
enum WriteError {
    Trace(Failure),
    Disk(io::Error),
}

impl From<Failure> for WriteError {
    fn from(failure: Failure) -> Self {
        Self::Trace(failure)
    }
}

impl From<Stopped> for WriteError {
    fn from(stopped: Stopped) -> Self {
        Self::Trace(stopped.into())
    }
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

fn write_plain(
    file: File,
    write_trace: impl Fn(&mut dyn Write) -> Result<Value, WriteError>,
) -> Result<Value, WriteError> {
    let mut out = BufWriter::new(file);
    let result = write_trace(&mut out)?;
    out.flush()?;
    Ok(result)
}

fn write_gzip(
    file: File,
    write_trace: impl Fn(&mut dyn Write) -> Result<Value, WriteError>,
) -> Result<Value, WriteError> {
    let mut out = GzEncoder::new(BufWriter::new(file), Compression::fast());
    let result = write_trace(&mut out)?;
    out.finish()?.flush()?;
    Ok(result)
}

fn capture(scenario: &Scenario, out: &mut dyn Write, watch: &Watch) -> Result<Value, WriteError> {
    // The header contains the magic number for nanoseconds, the version 2.4, the maximum captured length, and the link
    // type raw IP.
    let header = [0xa1b2_3c4d_u32, 2 | 4 << 16, 0, 0, HEADERS.into(), 101];
    header.into_iter().try_for_each(|word| out.write_all(&word.to_le_bytes()))?;
    let mut packets = scenario.source.open(scenario.settings.seed, watch)?;
    let mut count = 0_u64;
    while let Some(arrival) = packets.next()? {
        watch.check(count)?;
        count += 1;
        packet(&arrival, out)?;
    }
    Ok(json!({ "packets": count, "flows": packets.close()?.facts["flows"] }))
}

fn packet(arrival: &Arrival, out: &mut dyn Write) -> io::Result<()> {
    const SECOND: u64 = 1_000_000_000;
    let nanos = arrival.at.nanos();
    let words = [(nanos / SECOND) as u32, (nanos % SECOND) as u32, HEADERS.into(), arrival.bytes.into()];
    let number = arrival.key.rest;
    let address = (FIRST_ADDRESS + number % ADDRESS_COUNT) as u32;
    let port = (number / ADDRESS_COUNT) as u16;
    // Generated packets are longer than the headers.
    let length = arrival.bytes - HEADERS;
    let mut ip = Ipv4Header::new(length + 8, 64, IpNumber::UDP, address.to_be_bytes(), DESTINATION.0)
        .map_err(|error| io::Error::other(error.to_string()))?;
    ip.header_checksum = ip.calc_header_checksum();
    let udp =
        UdpHeader { source_port: port, destination_port: DESTINATION.1, length: length + 8, checksum: 0 };
    words.into_iter().try_for_each(|word| out.write_all(&word.to_le_bytes()))?;
    out.write_all(&ip.to_bytes())?;
    out.write_all(&udp.to_bytes())
}

fn list(generator: &Generator, seed: u64, out: &mut dyn Write, watch: &Watch) -> Result<Value, WriteError> {
    watch.expect(generator.duration.nanos(), Unit::Nanoseconds);
    let mut flows = generator.flows(seed).map_err(Failure::Config)?;
    writeln!(out, "{}", COLUMNS.join(","))?;
    let mut count = 0_u64;
    while let Some(flow) = flows.next()? {
        watch.check(count)?;
        count += 1;
        let flow = flows.truncate(flow);
        let nanos = flow.start.nanos();
        watch.reach(nanos);
        writeln!(
            out,
            "{}.{:09},{},{},{}",
            nanos / 1_000_000_000,
            nanos % 1_000_000_000,
            flow.bytes,
            flow.rate,
            flow.packet
        )?;
    }
    Ok(json!({ "flows": count }))
}
