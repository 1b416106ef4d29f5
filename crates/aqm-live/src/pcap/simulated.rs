//! The packets of a simulated run, as its tables tell of them.
//!
//! Ours: a link in `record.packets` is an interface that sees a packet when its transmission begins, or when its queue
//! drops it; so is each end of the workloads in `record.histories`. The tables keep no headers, so these are made up
//! of what is known: addresses `10.x.y.z` by workload and end, a port for each flow, payload left out. Sequence
//! numbers are those of the run, behind a SYN of number 0; the tables do not have that of a bare acknowledgement that
//! reaches the sender, which stands behind what came before it. Blocks of SACK are told there, and nowhere else.

mod tables;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use aqm_net::Span;
use aqm_net::table::Table;
use etherparse::{IpNumber, Ipv4Header, TcpHeader, TcpOptionElement, UdpHeader, ip_number};

use self::tables::{DropReasons, Event, Names, Place, Row, rows};
use super::{Interface, PacketFile, Record, comment, remove};
use crate::LiveError;

/// The port where data go. Nobody listens there, so readers do not take the payload for anything.
const DISCARD: u16 = 9;
/// The port of the sender of the first flow; each flow has the next one, and then the next address.
const FIRST_PORT: u16 = 1024;
/// How many flows have ports at one address.
const PORTS: u64 = 64_000;
const TTL: u8 = 64;
/// No header is longer than these.
const SNAPLEN: u32 = 120;
const IP_HEADER: usize = 20;

/// Writes the packets of a run to a file at `path`, as [`write_simulated`] does.
///
/// # Errors
/// The same, or that the file cannot be made. No file is left.
pub fn write_simulated_to(path: &Path, tables: &[Table], seen_at: &[String]) -> Result<u64, LiveError> {
    let file = File::create(path).map_err(|error| LiveError::of_file(path, &error))?;
    let unwritten = |error| LiveError::of_file(path, &error);
    write(tables, seen_at, BufWriter::new(file), unwritten).inspect_err(|_| remove(path))
}

/// Writes the packets of a run to `out`; returns how many they are. `tables` are those that the run left, `seen_at`
/// the names of interfaces: of links, or of ends such as `web sender`. Readers take a packet that is seen at two of
/// them for one sent twice; if none is named, it is the links in `record.packets`, or else the senders with histories.
///
/// # Errors
/// If the run recorded no packets, or none there, or they cannot be written.
pub fn write_simulated<W: Write>(tables: &[Table], seen_at: &[String], out: W) -> Result<u64, LiveError> {
    write(tables, seen_at, out, |error| LiveError::new("cannot write the packets of the run", error))
}

/// The same; `unwritten` names what could not be written.
fn write<W: Write>(
    tables: &[Table],
    seen_at: &[String],
    out: W,
    unwritten: impl Fn(io::Error) -> LiveError,
) -> Result<u64, LiveError> {
    let failed = |reason: &str| Err(LiveError::new("cannot write the packets of the run", reason));
    let rows = rows(tables)?;
    let names = Names::of(tables)?;
    // Links first, in their order, then ends by workload.
    let places: BTreeSet<Place> =
        rows.iter().filter(|row| row.shows_packets()).map(|row| row.place).collect();
    if places.is_empty() {
        return failed(
            "it recorded none; name links in `record.packets`, or workloads in `record.histories`",
        );
    }
    let everywhere: Vec<(Place, Interface)> =
        places.into_iter().map(|place| (place, names.interface(place))).collect();
    for name in seen_at {
        if !everywhere.iter().any(|(_, interface)| interface.name == *name) {
            let known: Vec<&str> = everywhere.iter().map(|(_, interface)| interface.name.as_str()).collect();
            return failed(&format!("none were recorded at `{name}`; there is {}", known.join(", ")));
        }
    }
    let any_link = everywhere.iter().any(|(place, _)| matches!(place, Place::Link(_)));
    let is_chosen = |place: &Place, interface: &Interface| match place {
        _ if !seen_at.is_empty() => seen_at.contains(&interface.name),
        Place::Link(_) => true,
        Place::End(_, sender) => !any_link && *sender,
    };
    let (places, interfaces): (Vec<Place>, Vec<Interface>) =
        everywhere.into_iter().filter(|(place, interface)| is_chosen(place, interface)).unzip();
    let mut out = PacketFile::new(out, &interfaces, SNAPLEN).map_err(&unwritten)?;
    let mut drops = DropReasons::of(tables)?;
    let mut synthesis = Synthesis::default();
    let mut written = 0;
    let mut rows = rows.into_iter().peekable();
    while let Some(row) = rows.next() {
        // What an acknowledgement says stands in the rows behind the one of its packet.
        let mut blocks = Vec::new();
        while let Some(next) = rows.next_if(|next| row.is_told_by(next)) {
            if next.event == Event::Sack {
                blocks.push((next.sequence as u32, (next.sequence + next.payload) as u32));
            }
        }
        let Some(packet) = synthesis.packet(&row, &blocks) else { continue };
        let Ok(interface) = places.binary_search(&row.place) else { continue };
        let fate = match (row.event, row.place) {
            (Event::Drop, Place::Link(link)) => {
                let queue = names.queues.get(link as usize);
                Some(comment("dropped", drops.reason(&row, link), queue, row.average))
            }
            _ => None,
        };
        out.write(&Record {
            interface: interface as u32,
            at: Duration::from_nanos(Span::from_seconds(row.time).nanos()),
            bytes: &packet.bytes,
            length: packet.length,
            lost_before: 0,
            comment: fate.as_deref(),
        })
        .map_err(&unwritten)?;
        written += 1;
    }
    out.finish().map_err(unwritten)?;
    Ok(written)
}

/// The packets of a run, one after the other.
#[derive(Default)]
struct Synthesis {
    /// By flow and direction, what has been delivered.
    delivered: BTreeMap<(u64, bool), InOrder>,
}

/// A packet without its payload.
struct Made {
    bytes: Vec<u8>,
    /// With its payload.
    length: u32,
}

impl Synthesis {
    /// The packet that a row tells of, if it is seen there and then; with it, blocks of SACK.
    fn packet(&mut self, row: &Row, blocks: &[(u32, u32)]) -> Option<Made> {
        if matches!(row.event, Event::Deliver | Event::Receive) && !row.datagram {
            let delivered = self.delivered.entry((row.flow, row.backward)).or_default();
            delivered.add(row.sequence, row.sequence + row.payload);
        }
        match row.event {
            Event::Deliver | Event::Sack => None,
            _ if row.datagram => Some(datagram(row)),
            _ => Some(self.segment(row, blocks)),
        }
    }

    fn segment(&self, row: &Row, blocks: &[(u32, u32)]) -> Made {
        let is_set = |bit: u64| row.flags & bit != 0;
        let sequence = match row.event {
            // The row says what is acknowledged; its packet stands behind what came before it.
            Event::Acknowledge => self.delivered.get(&(row.flow, row.backward)).map_or(0, |data| data.end),
            _ => row.sequence,
        };
        // The first byte has number 1, for the SYN has 0.
        let on_wire = |number: u64| (number as u32).wrapping_add(1);
        let syn = is_set(SYN);
        let mut header = TcpHeader::new(0, 0, if syn { 0 } else { on_wire(sequence) }, u16::MAX);
        (header.syn, header.fin, header.psh) = (syn, is_set(FIN), is_set(PSH));
        (header.ece, header.cwr) = (is_set(ECE), is_set(CWR));
        if let Some(ack) = row.ack {
            header.ack = true;
            header.acknowledgment_number = on_wire(ack);
        }
        [header.source_port, header.destination_port] = ports(row);
        let room =
            (row.size.saturating_sub(row.payload) as usize).saturating_sub(IP_HEADER + header.header_len());
        let mut options = Vec::new();
        if let Some((first, rest)) = blocks.split_first() {
            let block = |&(from, to): &(u32, u32)| (on_wire(from.into()), on_wire(to.into()));
            let more = |at: usize| rest.get(at).map(block);
            let sack = TcpOptionElement::SelectiveAcknowledgement(block(first), [more(0), more(1), more(2)]);
            options.extend([TcpOptionElement::Noop, TcpOptionElement::Noop, sack]);
        }
        // Blocks that the size has no room for are left out; other options are not known, and do nothing.
        let fits = header.set_options(&options).is_ok() && header.options.len() <= room;
        let mut filled = if fits { header.options.as_slice().to_vec() } else { Vec::new() };
        filled.resize((room & !3).clamp(filled.len(), 40), NO_OPERATION);
        // What is a multiple of four, and 40 at most, fits.
        let _ = header.set_options_raw(&filled);
        let (bytes, length) = framed(row, ip_number::TCP, header.header_len() as u64 + row.payload, |out| {
            // Vectors take all there is.
            let _ = header.write(out);
        });
        Made { bytes, length }
    }
}

const NO_OPERATION: u8 = 1;

/// The flags of the header of TCP (RFC 9293, 3.1).
const FIN: u64 = 1;
const SYN: u64 = 2;
const PSH: u64 = 8;
const ECE: u64 = 64;
const CWR: u64 = 128;

fn datagram(row: &Row) -> Made {
    let length = row.size.saturating_sub(IP_HEADER as u64).clamp(8, u64::from(u16::MAX));
    let [source_port, destination_port] = ports(row);
    let header = UdpHeader { source_port, destination_port, length: length as u16, checksum: 0 };
    let (bytes, length) = framed(row, ip_number::UDP, length, |out| {
        // Vectors take all there is.
        let _ = header.write(out);
    });
    Made { bytes, length }
}

/// A packet with `behind` bytes behind its IP header, of which `write` writes the first; and its length.
fn framed(row: &Row, protocol: IpNumber, behind: u64, write: impl FnOnce(&mut Vec<u8>)) -> (Vec<u8>, u32) {
    let [source, destination] = addresses(row);
    let length = (IP_HEADER as u64 + behind).min(u16::MAX.into()) as u16;
    let mut ip = Ipv4Header {
        total_len: length,
        time_to_live: TTL,
        protocol,
        source,
        destination,
        ecn: row.ecn,
        ..Ipv4Header::default()
    };
    ip.dont_fragment = true;
    ip.header_checksum = ip.calc_header_checksum();
    let mut bytes = Vec::new();
    // Vectors take all there is.
    let _ = ip.write(&mut bytes);
    write(&mut bytes);
    (bytes, length.into())
}

/// Where a packet comes from and where it goes: workload w has 10.(1+2w) for senders and the next for receivers.
fn addresses(row: &Row) -> [[u8; 4]; 2] {
    let [high, low] = ((row.flow / PORTS) as u16).wrapping_add(1).to_be_bytes();
    let of = |end: u32| [10, (1 + 2 * row.traffic + end) as u8, high, low];
    if row.backward { [of(1), of(0)] } else { [of(0), of(1)] }
}

/// The ports of both, in the same order.
fn ports(row: &Row) -> [u16; 2] {
    let own = FIRST_PORT + (row.flow % PORTS) as u16;
    if row.backward { [DISCARD, own] } else { [own, DISCARD] }
}

/// Payload that arrives in any order.
#[derive(Default)]
struct InOrder {
    /// Behind what has arrived without a gap.
    end: u64,
    /// Ranges behind a gap: where they begin and end.
    beyond: BTreeMap<u64, u64>,
}

impl InOrder {
    fn add(&mut self, from: u64, to: u64) {
        let known = self.beyond.entry(from).or_insert(to);
        *known = to.max(*known);
        while let Some(first) = self.beyond.first_entry().filter(|first| *first.key() <= self.end) {
            self.end = self.end.max(first.remove());
        }
    }
}
