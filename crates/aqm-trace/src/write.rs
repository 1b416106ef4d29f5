//! Writes a generated trace: the packets as pcap, or the flows as CSV, packed with gzip or not, as the name
//! says.
//!
//! Ours: the capture is of raw IP, holds the headers of IPv4 and UDP (28 of a packet's bytes) and tells
//! nanoseconds. Flow n comes from an address and a port that tell n. Of a flow that outlasts the trace, the
//! list holds the bytes that it sends within.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use etherparse::{IpNumber, Ipv4Header, UdpHeader};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::flows::Flows as _;
use crate::list::COLUMNS;
use crate::packets::{Arrival, Config as Source, Failure};
use crate::scenario::Scenario;
use crate::watch::Watch;

/// The headers that are written of each packet.
const HEADERS: u16 = 28;
/// The address of flow zero, 10.0.0.0.
const FIRST_ADDRESS: u64 = 0x0a00_0000;
/// How many addresses flows come from.
const ADDRESSES: u64 = 1 << 24;
/// Where all flows go: an address and a port for examples.
const TO: ([u8; 4], u16) = ([192, 0, 2, 1], 9);

/// Writes the generated trace of `scenario` to `path`, which ends in `.pcap` or `.csv`, and perhaps in `.gz`
/// behind that; returns what was written: `packets` (of a capture), `flows`.
///
/// # Errors
/// If the source is no generated one, the name ends otherwise, the file cannot be written, or `watch`
/// stopped it.
pub fn write(scenario: &Scenario, path: &str, watch: &Watch) -> Result<Value, Failure> {
    let trouble = |problem: String| Failure::Trace(format!("{path}: {problem}"));
    let plain = path.strip_suffix(".gz").unwrap_or(path);
    if !plain.ends_with(".pcap") && !plain.ends_with(".csv") {
        return Err(trouble("must end in .pcap or .csv, or in .pcap.gz or .csv.gz".to_owned()));
    }
    if !matches!(scenario.source, Source::generate(_)) {
        return Err(trouble("only a generated trace can be written".to_owned()));
    }
    let written = create(scenario, path, watch);
    if !matches!(written, Ok(Ok(_))) {
        // Half a trace is worse than none; that it cannot be removed matters less than what went wrong.
        let _ = std::fs::remove_file(path);
    }
    written?.map_err(|error| trouble(format!("cannot be written: {error}")))
}

/// What the generator may refuse is the outer error, what the disk may the inner one.
fn create(scenario: &Scenario, path: &str, watch: &Watch) -> Result<io::Result<Value>, Failure> {
    let file = match File::create(path) {
        Ok(file) => BufWriter::new(file),
        Err(error) => return Ok(Err(error)),
    };
    let plain = path.strip_suffix(".gz");
    let is_capture = plain.unwrap_or(path).ends_with(".pcap");
    if plain.is_none() {
        let mut out = file;
        let found = contents(scenario, &mut out, is_capture, watch)?;
        Ok(found.and_then(|found| out.flush().map(|()| found)))
    } else {
        let mut out = GzEncoder::new(file, Compression::fast());
        let found = contents(scenario, &mut out, is_capture, watch)?;
        Ok(found.and_then(|found| out.finish()?.flush().map(|()| found)))
    }
}

fn contents(
    scenario: &Scenario,
    out: &mut dyn Write,
    is_capture: bool,
    watch: &Watch,
) -> Result<io::Result<Value>, Failure> {
    if is_capture { capture(scenario, out, watch) } else { list(scenario, out, watch) }
}

/// Returns the error of writing as the inner one.
macro_rules! written {
    ($result:expr) => {
        if let Err(error) = $result {
            return Ok(Err(error));
        }
    };
}

fn capture(scenario: &Scenario, out: &mut dyn Write, watch: &Watch) -> Result<io::Result<Value>, Failure> {
    // Magic number with nanoseconds, version 2.4, captured length, link type raw IP.
    let header = [0xa1b2_3c4d_u32, 2 | 4 << 16, 0, 0, HEADERS.into(), 101];
    written!(header.into_iter().try_for_each(|word| out.write_all(&word.to_le_bytes())));
    let mut packets = scenario.source.open(scenario.settings.seed, watch)?;
    let mut count = 0_u64;
    while let Some(arrival) = packets.next()? {
        if count.is_multiple_of(4096) && watch.is_stopped() {
            return Err(Failure::Stopped);
        }
        count += 1;
        written!(packet(&arrival, out));
    }
    Ok(Ok(json!({ "packets": count, "flows": packets.close()?.facts["flows"] })))
}

fn packet(arrival: &Arrival, out: &mut dyn Write) -> io::Result<()> {
    const SECOND: u64 = 1_000_000_000;
    let nanos = arrival.at.nanos();
    let words = [(nanos / SECOND) as u32, (nanos % SECOND) as u32, HEADERS.into(), arrival.bytes.into()];
    let number = arrival.key.rest;
    let address = (FIRST_ADDRESS + number % ADDRESSES) as u32;
    let port = (number / ADDRESSES) as u16;
    // The generator's packets are longer than the headers.
    let length = arrival.bytes - HEADERS;
    let mut ip = Ipv4Header::new(length + 8, 64, IpNumber::UDP, address.to_be_bytes(), TO.0)
        .map_err(|error| io::Error::other(error.to_string()))?;
    ip.header_checksum = ip.calc_header_checksum();
    let udp = UdpHeader { source_port: port, destination_port: TO.1, length: length + 8, checksum: 0 };
    words.into_iter().try_for_each(|word| out.write_all(&word.to_le_bytes()))?;
    out.write_all(&ip.to_bytes())?;
    out.write_all(&udp.to_bytes())
}

fn list(scenario: &Scenario, out: &mut dyn Write, watch: &Watch) -> Result<io::Result<Value>, Failure> {
    let Source::generate(config) = &scenario.source else {
        return Err(Failure::Trace("only a generated trace can be written".to_owned()));
    };
    watch.expect(config.duration.nanos());
    let mut flows = config.flows(scenario.settings.seed).map_err(Failure::Config)?;
    written!(writeln!(out, "{}", COLUMNS.join(",")));
    let mut count = 0_u64;
    while let Some(flow) = flows.next()? {
        if count.is_multiple_of(4096) && watch.is_stopped() {
            return Err(Failure::Stopped);
        }
        count += 1;
        let flow = flows.cut(flow);
        let nanos = flow.start.nanos();
        watch.reach(nanos);
        written!(writeln!(
            out,
            "{}.{:09},{},{},{}",
            nanos / 1_000_000_000,
            nanos % 1_000_000_000,
            flow.bytes,
            flow.rate,
            flow.packet
        ));
    }
    Ok(Ok(json!({ "flows": count })))
}
