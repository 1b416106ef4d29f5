//! The packets of a simulated run, reconstructed from its tables.
//!
//! aqmlab's choice: a link in `record.packets` is an interface, where a packet appears when its transmission begins or
//! its queue drops it. Each end of the workloads in `record.histories` is an interface, too. The tables contain no
//! headers, so headers are synthesised from the known values: addresses `10.x.y.z` by workload and end, one port for
//! each flow, no payload. Sequence numbers are those of the run, after a SYN with number 0. The tables do not contain
//! the sequence number of a bare acknowledgement that reaches the sender; it gets the number after the preceding data.
//! SACK blocks are only written there.

mod tables;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
#[expect(clippy::disallowed_types, reason = "packets are written to a file")]
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use aqm_net::Span;
use aqm_net::table::Table;
use etherparse::{IpNumber, Ipv4Header, TcpHeader, TcpOptionElement, UdpHeader, ip_number};

use self::tables::{CapturePoint, DropReasons, Event, Names, Row, rows};
use crate::packet_file::comment;
use crate::{Interface, PacketFile, PcapError, Record, remove_incomplete};

/// The port of receivers. No service uses it, so readers do not dissect the payload.
const DISCARD: u16 = 9;
/// The port of the sender of the first flow. Following flows have the following ports, and then the next address.
const FIRST_PORT: u16 = 1024;
/// Number of flows with ports at one address.
const PORTS: u64 = 64_000;
const TTL: u8 = 64;
/// Maximum length of the headers.
const SNAPLEN: u32 = 120;
const IP_HEADER: usize = 20;

/// Writes the packets of a run to a file at `path`, like [`write_simulated`].
///
/// # Errors
/// Those of [`write_simulated`], or the file cannot be created. No file remains.
#[expect(clippy::disallowed_types, reason = "packets are written to a file")]
pub fn write_simulated_to(
    path: &Path,
    tables: &[Table],
    interfaces_shown: &[String],
) -> Result<u64, PcapError> {
    let unwritten = |error| PcapError::File { path: path.to_owned(), error };
    let file = File::create(path).map_err(unwritten)?;
    write(tables, interfaces_shown, BufWriter::new(file), unwritten).inspect_err(|_| remove_incomplete(path))
}

/// Writes the packets of a run to `out`; returns their number. `tables` are the tables of the run. `interfaces_shown`
/// are names of interfaces: links, or ends such as `web sender`. Readers take a packet that appears at two interfaces
/// for two packets. Without names, the links in `record.packets` are shown or, if there are none, the senders with
/// histories.
///
/// # Errors
/// The run recorded no packets, or none at these interfaces, or the packets cannot be written.
pub fn write_simulated<W: Write>(
    tables: &[Table],
    interfaces_shown: &[String],
    out: W,
) -> Result<u64, PcapError> {
    write(tables, interfaces_shown, out, PcapError::Output)
}

/// Like [`write_simulated`]; `unwritten` converts a write error.
fn write<W: Write>(
    tables: &[Table],
    interfaces_shown: &[String],
    out: W,
    unwritten: impl Fn(io::Error) -> PcapError,
) -> Result<u64, PcapError> {
    let rows = rows(tables)?;
    let names = Names::of(tables)?;
    // Links first, in order, and then ends by workload.
    let points: BTreeSet<CapturePoint> =
        rows.iter().filter(|row| row.shows_packets()).map(|row| row.point).collect();
    if points.is_empty() {
        return Err(PcapError::NothingRecorded);
    }
    let everywhere: Vec<(CapturePoint, Interface)> =
        points.into_iter().map(|point| (point, names.interface(point))).collect();
    for name in interfaces_shown {
        if !everywhere.iter().any(|(_, interface)| interface.name == *name) {
            let available = everywhere.into_iter().map(|(_, interface)| interface.name).collect();
            return Err(PcapError::NotRecordedAt { name: name.clone(), available });
        }
    }
    let any_link = everywhere.iter().any(|(point, _)| matches!(point, CapturePoint::Link(_)));
    let is_shown = |point: &CapturePoint, interface: &Interface| match point {
        _ if !interfaces_shown.is_empty() => interfaces_shown.contains(&interface.name),
        CapturePoint::Link(_) => true,
        CapturePoint::End(_, sender) => !any_link && *sender,
    };
    let (points, interfaces): (Vec<CapturePoint>, Vec<Interface>) =
        everywhere.into_iter().filter(|(point, interface)| is_shown(point, interface)).unzip();
    let mut out = PacketFile::new(out, &interfaces, SNAPLEN).map_err(&unwritten)?;
    let mut drops = DropReasons::of(tables)?;
    let mut synthesis = Synthesis::default();
    let mut written = 0;
    let mut rows = rows.into_iter().peekable();
    while let Some(row) = rows.next() {
        // The contents of an acknowledgement are in the rows after the row of its packet.
        let mut blocks = Vec::new();
        while let Some(next) = rows.next_if(|next| row.continues_with(next)) {
            if next.event == Event::Sack {
                blocks.push((next.sequence as u32, (next.sequence + next.payload) as u32));
            }
        }
        let Some(packet) = synthesis.packet(&row, &blocks) else { continue };
        let Ok(interface) = points.binary_search(&row.point) else { continue };
        let fate = match (row.event, row.point) {
            (Event::Drop, CapturePoint::Link(link)) => {
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

/// The packets of a run, built in order.
#[derive(Default)]
struct Synthesis {
    /// Delivered data, by flow and direction.
    delivered: BTreeMap<(u64, bool), InOrder>,
}

/// A packet without its payload.
struct SyntheticPacket {
    bytes: Vec<u8>,
    /// Length including the payload.
    length: u32,
}

impl Synthesis {
    /// Returns the packet of a row, if the packet appears there; `blocks` are its SACK blocks.
    fn packet(&mut self, row: &Row, blocks: &[(u32, u32)]) -> Option<SyntheticPacket> {
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

    fn segment(&self, row: &Row, blocks: &[(u32, u32)]) -> SyntheticPacket {
        let is_set = |bit: u64| row.flags & bit != 0;
        let sequence = match row.event {
            // The row contains the acknowledged number. The packet's own number follows the preceding data.
            Event::Acknowledge => self.delivered.get(&(row.flow, row.backward)).map_or(0, |data| data.end),
            _ => row.sequence,
        };
        // The first byte has number 1, because the SYN has number 0.
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
        let capacity =
            (row.size.saturating_sub(row.payload) as usize).saturating_sub(IP_HEADER + header.header_len());
        let mut options = Vec::new();
        if let Some((first, rest)) = blocks.split_first() {
            let block = |&(from, to): &(u32, u32)| (on_wire(from.into()), on_wire(to.into()));
            let block_at = |at: usize| rest.get(at).map(block);
            let sack = TcpOptionElement::SelectiveAcknowledgement(
                block(first),
                [block_at(0), block_at(1), block_at(2)],
            );
            options.extend([TcpOptionElement::Noop, TcpOptionElement::Noop, sack]);
        }
        // Blocks that do not fit the packet's size are left out. Other options are unknown, and are replaced by
        // padding.
        let fits = header.set_options(&options).is_ok() && header.options.len() <= capacity;
        let mut filled = if fits { header.options.as_slice().to_vec() } else { Vec::new() };
        filled.resize((capacity & !3).clamp(filled.len(), 40), NO_OPERATION);
        // A multiple of four up to 40 bytes fits.
        let _ = header.set_options_raw(&filled);
        let (bytes, length) = framed(row, ip_number::TCP, header.header_len() as u64 + row.payload, |out| {
            // Writing to a vector cannot fail.
            let _ = header.write(out);
        });
        SyntheticPacket { bytes, length }
    }
}

const NO_OPERATION: u8 = 1;

/// The flags of the TCP header (RFC 9293, section 3.1).
const FIN: u64 = 1;
const SYN: u64 = 2;
const PSH: u64 = 8;
const ECE: u64 = 64;
const CWR: u64 = 128;

fn datagram(row: &Row) -> SyntheticPacket {
    let length = row.size.saturating_sub(IP_HEADER as u64).clamp(8, u64::from(u16::MAX));
    let [source_port, destination_port] = ports(row);
    let header = UdpHeader { source_port, destination_port, length: length as u16, checksum: 0 };
    let (bytes, length) = framed(row, ip_number::UDP, length, |out| {
        // Writing to a vector cannot fail.
        let _ = header.write(out);
    });
    SyntheticPacket { bytes, length }
}

/// Returns a packet with `following` bytes after its IP header, of which `write` writes the first, and its length.
fn framed(row: &Row, protocol: IpNumber, following: u64, write: impl FnOnce(&mut Vec<u8>)) -> (Vec<u8>, u32) {
    let [source, destination] = addresses(row);
    let length = (IP_HEADER as u64 + following).min(u16::MAX.into()) as u16;
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
    // Writing to a vector cannot fail.
    let _ = ip.write(&mut bytes);
    write(&mut bytes);
    (bytes, length.into())
}

/// Returns the source and the destination address: workload w has 10.(1+2w) for senders and the next number for
/// receivers.
fn addresses(row: &Row) -> [[u8; 4]; 2] {
    let [high, low] = ((row.flow / PORTS) as u16).wrapping_add(1).to_be_bytes();
    let of = |end: u32| [10, (1 + 2 * row.traffic + end) as u8, high, low];
    if row.backward { [of(1), of(0)] } else { [of(0), of(1)] }
}

/// Returns the source and the destination port.
fn ports(row: &Row) -> [u16; 2] {
    let own = FIRST_PORT + (row.flow % PORTS) as u16;
    if row.backward { [DISCARD, own] } else { [own, DISCARD] }
}

/// Payload that arrives in any order.
#[derive(Default)]
struct InOrder {
    /// End of the data that have arrived without a gap.
    end: u64,
    /// Ranges after a gap: their beginnings and ends.
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
