//! The packets of a simulated run, reconstructed from the tables of the run.
//!
//! aqmlab's choice: each link in `record.packets` is an interface. A packet appears at a link when its transmission
//! begins or when the link's queue drops the packet. Each end of the workloads in `record.histories` is also an
//! interface. The tables do not contain headers, so headers are synthesised from the known values. The workload and the
//! end determine the address `10.x.y.z`, each flow has one port, and packets have no payload. Sequence numbers are
//! taken from the run and follow a SYN with the sequence number 0. The tables do not contain the sequence numbers of
//! acknowledgements that reach the sender without payload; the sequence number that follows the preceding data is used
//! instead. SACK blocks are written only into these acknowledgements.

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

/// The port that all receivers use. Wireshark and tshark do not associate a service with this port, so they do not
/// dissect the payload.
const DISCARD: u16 = 9;
/// The port of the first flow's sender. Later flows use the following ports; when all ports of an address are used,
/// flows use the next address.
const FIRST_PORT: u16 = 1024;
/// Number of ports that flows can use per address.
const PORTS: u64 = 64_000;
const TTL: u8 = 64;
/// Maximum length of a packet's headers, in bytes.
const SNAPLEN: u32 = 120;
const IP_HEADER: usize = 20;

/// Writes the packets of a run to a file at `path` in the same way as [`write_simulated`].
///
/// # Errors
/// Returns an error if the file cannot be created or if [`write_simulated`] fails. No file remains after an error.
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

/// Writes the packets of a run to `out` and returns the number of packets. `tables` contains the tables of the run.
/// `interfaces_shown` contains the names of the interfaces whose packets are written; an interface is a link, or one
/// end of a workload, such as `web sender`. If `interfaces_shown` is empty, the interfaces are the links in
/// `record.packets` or, if `record.packets` is empty, the senders of the workloads in `record.histories`. If a packet
/// appears at two interfaces, Wireshark and tshark treat the packet as two packets.
///
/// # Errors
/// Returns an error if the run recorded no packets at all, or no packets at one of these interfaces, or if the packets
/// cannot be written.
pub fn write_simulated<W: Write>(
    tables: &[Table],
    interfaces_shown: &[String],
    out: W,
) -> Result<u64, PcapError> {
    write(tables, interfaces_shown, out, PcapError::Output)
}

/// Writes the packets in the same way as [`write_simulated`]. `unwritten` converts write errors.
fn write<W: Write>(
    tables: &[Table],
    interfaces_shown: &[String],
    out: W,
    unwritten: impl Fn(io::Error) -> PcapError,
) -> Result<u64, PcapError> {
    let rows = rows(tables)?;
    let names = Names::of(tables)?;
    // The links come first, in the order of their numbers; the ends follow, in the order of the workloads.
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
        // The rows that follow the row of a packet describe the acknowledgement that the packet carries.
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

/// The state needed to synthesise the packets of a run in order.
#[derive(Default)]
struct Synthesis {
    /// Data delivered so far, keyed by flow and direction.
    delivered: BTreeMap<(u64, bool), InOrder>,
}

/// A packet without its payload.
struct SyntheticPacket {
    bytes: Vec<u8>,
    /// Length of the packet, including the payload.
    length: u32,
}

impl Synthesis {
    /// Returns the packet that a row describes, or `None` if no packet is written for the row. `blocks` contains the
    /// SACK blocks of the packet.
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
            // The row contains only the acknowledgement number. The sequence number of the packet is the number that
            // follows the preceding data.
            Event::Acknowledge => self.delivered.get(&(row.flow, row.backward)).map_or(0, |data| data.end),
            _ => row.sequence,
        };
        // The sequence number of the first payload byte is 1, because the sequence number of the SYN is 0.
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
        // SACK blocks that do not fit into the packet are omitted. Other options are unknown and are replaced by
        // padding.
        let fits = header.set_options(&options).is_ok() && header.options.len() <= capacity;
        let mut filled = if fits { header.options.as_slice().to_vec() } else { Vec::new() };
        filled.resize((capacity & !3).clamp(filled.len(), 40), NO_OPERATION);
        // The options always fit, because their length is a multiple of four and at most 40 bytes.
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

/// Returns the headers of a packet and the length of the packet. `following` is the number of bytes after the IP
/// header; `write` writes the transport header, which is part of these bytes.
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

/// Returns the source and the destination address. The first two bytes of an address are 10 and 1 + 2w for the senders
/// of workload w, and 10 and 2 + 2w for its receivers.
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

/// The ranges of payload that have arrived; the order of arrival is arbitrary.
#[derive(Default)]
struct InOrder {
    /// End of the data that have arrived without a gap.
    end: u64,
    /// Ranges of data after a gap: the end of each range, keyed by the start of the range.
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
