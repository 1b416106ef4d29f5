//! Writes a made-up trace: the packets as pcap, or the flows as CSV, packed with gzip or not, as the name
//! says.
//!
//! Ours: the capture is of raw IP, holds the headers of IPv4 and UDP (28 of a packet's bytes) and tells
//! nanoseconds. Flow n comes from an address and a port that tell n. Of a flow that outlasts the trace, the
//! list holds the bytes that it sends within.

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
use aqm_net::stage::Failure;
use aqm_net::watch::{Stopped, Unit, Watch};

/// The headers that are written of each packet.
const HEADERS: u16 = 28;
/// The address of flow zero, 10.0.0.0.
const FIRST_ADDRESS: u64 = 0x0a00_0000;
/// How many addresses flows come from.
const ADDRESSES: u64 = 1 << 24;
/// Where all flows go: an address and a port for examples.
const TO: ([u8; 4], u16) = ([192, 0, 2, 1], 9);

/// Writes the made-up trace of `scenario` to `path`, which ends in `.pcap` or `.csv`, and perhaps in `.gz`
/// behind that; returns what was written: `packets` (of a capture), `flows`.
///
/// # Errors
/// If the source is no made-up one, the name ends otherwise, the file cannot be written, or `watch`
/// stopped it.
pub fn write(scenario: &Scenario, path: &str, watch: &Watch) -> Result<Value, Failure> {
    let wrong = |problem: &str| Err(Failure::File(format!("{path}: {problem}")));
    let packed = path.strip_suffix(".gz");
    let plain = packed.unwrap_or(path);
    let is_capture = plain.ends_with(".pcap");
    if !is_capture && !plain.ends_with(".csv") {
        return wrong("must end in .pcap or .csv, or in .pcap.gz or .csv.gz");
    }
    let Source::generate(generator) = &scenario.source else {
        return wrong("only a made-up trace (`source.kind = \"generated\"`) can be written");
    };
    let fill = |out: &mut dyn Write| match is_capture {
        true => capture(scenario, out, watch),
        false => list(generator, scenario.settings.seed, out, watch),
    };
    let written = File::create(path).map_err(Trouble::Disk).and_then(|file| {
        let written = if packed.is_some() { pack(file, fill) } else { put(file, fill) };
        if written.is_err() {
            // Half a trace is worse than none; that it cannot be removed matters less than what went wrong.
            let _ = std::fs::remove_file(path);
        }
        written
    });
    written.or_else(|trouble| match trouble {
        Trouble::Trace(failure) => Err(failure),
        Trouble::Disk(error) => wrong(&format!("cannot be written: {error}")),
    })
}

/// What stopped the writing.
enum Trouble {
    Trace(Failure),
    Disk(io::Error),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Trace(failure)
    }
}

impl From<Stopped> for Trouble {
    fn from(stopped: Stopped) -> Self {
        Self::Trace(stopped.into())
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

fn put(file: File, fill: impl Fn(&mut dyn Write) -> Result<Value, Trouble>) -> Result<Value, Trouble> {
    let mut out = BufWriter::new(file);
    let written = fill(&mut out)?;
    out.flush()?;
    Ok(written)
}

fn pack(file: File, fill: impl Fn(&mut dyn Write) -> Result<Value, Trouble>) -> Result<Value, Trouble> {
    let mut out = GzEncoder::new(BufWriter::new(file), Compression::fast());
    let written = fill(&mut out)?;
    out.finish()?.flush()?;
    Ok(written)
}

fn capture(scenario: &Scenario, out: &mut dyn Write, watch: &Watch) -> Result<Value, Trouble> {
    // Magic number with nanoseconds, version 2.4, captured length, link type raw IP.
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

fn list(generator: &Generator, seed: u64, out: &mut dyn Write, watch: &Watch) -> Result<Value, Trouble> {
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
