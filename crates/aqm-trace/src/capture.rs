//! A capture that is used as a trace. The supported formats are pcap and pcapng, and captures may have any size. A
//! capture is read until its end or until the first damaged block.
//!
//! Sources: pcap: Harris & Richardson, draft-ietf-opsawg-pcap; pcapng: Tuexen et al., draft-ietf-opsawg-pcapng. The
//! crate pcap-parser splits a file into blocks and parses the blocks.
//!
//! aqmlab's choices, where the sources are silent:
//! - The length of a packet is its original length, not its captured length, and includes the link header. Packets
//!   longer than 65535 B, which may be recorded by hosts that use segmentation offload, are treated as packets of 65535
//!   B.
//! - Timestamps may decrease slightly if a capture contains packets from two interfaces. A packet that is earlier than
//!   the previous packet by at most one second is assigned the time of the previous packet. A larger decrease is
//!   treated as damage and ends the trace.
//! - Packets without a timestamp (pcapng's simple packet block) are skipped. pcapng's obsolete packet block is read in
//!   the same way as the current packet block.
//! - Time zero is the time of the first packet.

use aqm_net::{Instant, Span};
use pcap_parser::pcapng::Block;
use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{LegacyPcapReader, PcapBlockOwned, PcapError, PcapNGReader};
use serde_json::json;

use crate::frame::{Flow, Link, OTHER};
use crate::input::Input;
use crate::packets::{Arrival, Packets, TraceSummary};
use aqm_net::level::Failure;

/// Initial size of the read buffer. The buffer grows if a block does not fit.
const BUFFER_BYTES: usize = 1 << 20;
/// Maximum length of a block. Valid blocks are shorter, because libpcap truncates packets at 256 KiB.
const MAX_BLOCK: usize = 1 << 24;
/// Maximum length of a frame on a link: a jumbo frame of 9216 B with an Ethernet header and a tag. A frame that is
/// longer must have been recorded in a host, either before the network adapter split the frame or after the adapter
/// merged several frames.
const MAX_FRAME: u32 = 9_234;
/// pcapng's obsolete packet block, which pcap-parser does not parse.
const OBSOLETE_PACKET: u32 = 2;
/// Maximum decrease between two timestamps that is not treated as damage.
const MAX_CLOCK_DECREASE: Span = Span::from_millis(1000);
/// Maximum duration of a capture, which is ten years. A later timestamp is treated as damage.
const MAX_DURATION_NANOS: i128 = 315_360_000 * NANOS;
const NANOS: i128 = 1_000_000_000;

const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// The magic numbers of pcap: in both byte orders, one for timestamps in microseconds and one for timestamps in
/// nanoseconds; and one for a variant with longer packet headers, which occurs in only one byte order.
const PCAP: [[u8; 4]; 5] = [
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0x4d, 0x3c, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x34, 0xcd, 0xb2, 0xa1],
];

/// A capture that is being read.
pub(crate) struct Capture<'a> {
    input: Input<'a>,
    reader: Box<dyn PcapReaderIterator + 'a>,
    format: FormatState,
    times: Option<TimeRange>,
    /// Whether reading has ended, either at the end of the file or because of an error.
    is_finished: bool,
    counts: Counts,
    warnings: Vec<String>,
}

/// State of the parser that results from earlier blocks and is needed for later blocks.
#[derive(Default)]
struct FormatState {
    is_big_endian: bool,
    interfaces: Vec<Interface>,
    counts_nanoseconds: bool,
}

/// The properties of an interface that apply to its packets.
#[derive(Clone, Copy)]
struct Interface {
    link: Result<Link, u32>,
    /// Number of time units per second.
    units: u64,
    /// Offset in seconds, added to each timestamp.
    offset: i64,
}

/// Timestamps of the first and the last packet, in nanoseconds, measured by the clock of the capture.
struct TimeRange {
    first: i128,
    at: i128,
}

/// Counters for the summary and the warnings.
#[derive(Default)]
struct Counts {
    packets: u64,
    not_ip: u64,
    clock_decreases: u64,
    without_time: u64,
    truncated: u64,
    too_long: u64,
    too_short: u64,
}

/// A packet of the capture.
struct CapturedPacket {
    nanos: i128,
    bytes: u32,
    flow: Flow,
    /// Whether only a part of the packet was captured.
    is_truncated: bool,
}

/// The content of a block.
enum BlockContent {
    Packet(CapturedPacket),
    WithoutTime,
    Nothing,
    /// The block is invalid, and later blocks may be invalid as well.
    Damage(String),
    /// The block is valid, but its link type is not supported.
    UnsupportedLink(u32),
}

/// The reason why the reader cannot continue.
enum ReadStop {
    /// More bytes must be read.
    NeedsBytes,
    /// The block is longer than the buffer.
    BufferFull,
    /// The file has ended.
    EndOfFile,
    Invalid,
}

impl<'a> Capture<'a> {
    /// Returns whether a file that begins with the bytes `head` is a capture.
    pub(crate) fn matches(head: &[u8]) -> bool {
        head.starts_with(&PCAPNG) || PCAP.iter().any(|magic| head.starts_with(magic))
    }

    pub(crate) fn open(mut input: Input<'a>) -> Result<Self, Failure> {
        let is_pcapng = input.head().starts_with(&PCAPNG);
        let bytes = input.reader();
        let reader = if is_pcapng {
            boxed(PcapNGReader::new(BUFFER_BYTES, bytes))
        } else {
            boxed(LegacyPcapReader::new(BUFFER_BYTES, bytes))
        };
        let Some(reader) = reader else {
            return Err(Failure::File(format!(
                "{}: is a capture that is truncated within its header",
                input.path()
            )));
        };
        Ok(Self {
            input,
            reader,
            format: FormatState::default(),
            times: None,
            is_finished: false,
            counts: Counts::default(),
            warnings: Vec::new(),
        })
    }

    /// Stops the reader because the file is damaged.
    fn end(&mut self, reason: &str) {
        self.is_finished = true;
        self.warnings.push(format!(
            "{}: damaged at byte {}{}: {reason}; only the {} packets before the damage were read",
            self.input.path(),
            self.reader.consumed(),
            if self.input.is_gzip() { " of the decompressed file" } else { "" },
            self.counts.packets,
        ));
    }

    /// Handles the reason why the reader cannot continue: reads more bytes or enlarges the buffer if possible, and
    /// otherwise stops the reader.
    fn resolve(&mut self, stop: ReadStop) {
        match stop {
            ReadStop::NeedsBytes => self.refill(),
            ReadStop::BufferFull => self.grow(),
            ReadStop::EndOfFile => self.end("the file ends within a packet or block"),
            ReadStop::Invalid => self.end("this is not a valid packet or block of a capture"),
        }
    }

    /// Reads more bytes, or stops the reader if reading fails.
    fn refill(&mut self) {
        let before = self.reader.data().len();
        if self.reader.refill().is_err() {
            let error = self.input.error().unwrap_or_default();
            return self.end(&format!("reading failed: {error}"));
        }
        // If no bytes were read although the file has not ended, the buffer is full and must grow.
        if self.reader.data().len() == before && !self.reader.reader_exhausted() {
            self.grow();
        }
    }

    fn grow(&mut self) {
        let length = self.reader.data().len();
        if length >= MAX_BLOCK {
            self.end(&format!("a block is longer than {MAX_BLOCK} bytes"));
        } else {
            self.reader.grow((length * 2).clamp(BUFFER_BYTES * 2, MAX_BLOCK * 2));
            if self.reader.refill().is_err() {
                let error = self.input.error().unwrap_or_default();
                self.end(&format!("reading failed: {error}"));
            }
        }
    }

    /// Returns the time of a packet, or an error if the timestamp is invalid.
    fn packet_time(&mut self, nanos: i128) -> Result<Instant, String> {
        let times = self.times.get_or_insert(TimeRange { first: nanos, at: nanos });
        if nanos < times.at {
            let back = times.at - nanos;
            if back > i128::from(MAX_CLOCK_DECREASE.nanos()) {
                return Err(format!(
                    "timestamps decrease by {:.3} s (if the packets are only out of order, sort them by time)",
                    back as f64 / 1e9
                ));
            }
            self.counts.clock_decreases += 1;
        } else if nanos - times.first > MAX_DURATION_NANOS {
            return Err("a timestamp is more than ten years after the first".to_owned());
        } else {
            times.at = nanos;
        }
        // The check above ensures that the difference fits into 64 bits.
        Ok(Instant::from_nanos((times.at - times.first) as u64))
    }
}

fn boxed<'a, R: PcapReaderIterator + 'a, E>(
    reader: Result<R, E>,
) -> Option<Box<dyn PcapReaderIterator + 'a>> {
    reader.ok().map(|reader| Box::new(reader) as Box<_>)
}

impl Packets for Capture<'_> {
    fn next(&mut self) -> Result<Option<Arrival>, Failure> {
        while !self.is_finished {
            let block = match self.reader.next() {
                Ok((size, block)) => Ok((size, self.format.read_block(block))),
                Err(PcapError::Eof) => break,
                Err(PcapError::Incomplete(_)) => Err(ReadStop::NeedsBytes),
                Err(PcapError::BufferTooSmall) => Err(ReadStop::BufferFull),
                Err(PcapError::UnexpectedEof) => Err(ReadStop::EndOfFile),
                Err(_) => Err(ReadStop::Invalid),
            };
            let (size, content) = match block {
                Ok(block) => block,
                Err(stop) => {
                    self.resolve(stop);
                    continue;
                }
            };
            let packet = match content {
                BlockContent::Packet(packet) => Some(packet),
                BlockContent::WithoutTime => {
                    self.counts.without_time += 1;
                    None
                }
                BlockContent::Nothing => None,
                BlockContent::Damage(reason) => {
                    self.end(&reason);
                    break;
                }
                BlockContent::UnsupportedLink(number) => {
                    let path = self.input.path();
                    let problem =
                        format!("{path}: link type {number} is not supported; supported: {}", Link::KNOWN);
                    return Err(Failure::File(problem));
                }
            };
            if let Some(CapturedPacket { nanos, bytes, flow, is_truncated }) = packet {
                match self.packet_time(nanos) {
                    Err(reason) => self.end(&reason),
                    Ok(at) => {
                        self.reader.consume_noshift(size);
                        self.counts.packets += 1;
                        let (key, is_short) = match flow {
                            Flow::Of(key) => (key, false),
                            Flow::Hosts(key) => (key, is_truncated),
                            Flow::Short => (OTHER, is_truncated),
                            Flow::NotIp => (OTHER, false),
                        };
                        self.counts.not_ip += u64::from(key == OTHER && !is_short);
                        self.counts.too_short += u64::from(is_short);
                        self.counts.too_long += u64::from(bytes > MAX_FRAME);
                        self.counts.truncated += u64::from(bytes > u32::from(u16::MAX));
                        let bytes = bytes.clamp(1, u16::MAX.into()) as u16;
                        return Ok(Some(Arrival { at, bytes, key }));
                    }
                }
            } else {
                self.reader.consume_noshift(size);
            }
        }
        self.is_finished = true;
        if self.counts.packets == 0 && self.counts.without_time > 0 {
            let (path, count) = (self.input.path(), self.counts.without_time);
            let problem =
                format!("{path}: none of its {count} packets has a timestamp (simple packet blocks)");
            return Err(Failure::File(problem));
        }
        Ok(None)
    }

    fn close(mut self: Box<Self>) -> Result<TraceSummary, Failure> {
        let path = self.input.path();
        let Counts { packets, not_ip, clock_decreases, without_time, truncated, too_long, too_short } =
            self.counts;
        for (count, description) in [
            (
                clock_decreases,
                "whose timestamp is up to a second before the previous timestamp, which is used instead",
            ),
            (without_time, "without a timestamp, which were skipped"),
            (truncated, "longer than 65535 bytes, which were counted as 65535 bytes"),
            (
                too_long,
                "longer than 9234 bytes, the maximum on a link: recorded in a host with segmentation \
                 offload (run `ethtool -K DEVICE tso off gso off gro off` before recording, or \
                 record on another host)",
            ),
            (
                too_short,
                "captured too short to identify their flow: those without addresses count as one flow, those \
                 without ports as one flow per pair of hosts (capture 128 bytes of each packet)",
            ),
        ] {
            if count > 0 {
                self.warnings.push(format!("{path}: packets {description}: {count}"));
            }
        }
        let contents = self.input.contents()?;
        let facts = json!({
            "kind": "capture", "gzip": self.input.is_gzip(), "packets": packets, "packets_not_ip": not_ip,
        });
        Ok(TraceSummary { warnings: self.warnings, contents, facts })
    }
}

impl FormatState {
    /// Processes a block. Returns the packet if the block contains a packet; otherwise, updates the state.
    fn read_block(&mut self, block: PcapBlockOwned<'_>) -> BlockContent {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                self.counts_nanoseconds = header.is_nanosecond_precision();
                // The upper half of the number contains flags that concern frame check sequences.
                let number = header.network.0 as u32 & 0xffff;
                let units = if self.counts_nanoseconds { 1_000_000_000 } else { 1_000_000 };
                self.interfaces = vec![Interface { link: Link::of(number).ok_or(number), units, offset: 0 }];
                BlockContent::Nothing
            }
            PcapBlockOwned::Legacy(packet) => {
                let Some(interface) = self.interfaces.first() else {
                    return BlockContent::Damage("a packet precedes the header".to_owned());
                };
                let (seconds, units) = (u64::from(packet.ts_sec), u64::from(packet.ts_usec));
                interface.packet(seconds * interface.units + units, packet.origlen, packet.data)
            }
            PcapBlockOwned::NG(block) => self.read_ng_block(block),
        }
    }

    fn read_ng_block(&mut self, block: Block<'_>) -> BlockContent {
        match block {
            Block::SectionHeader(section) => {
                self.is_big_endian = section.big_endian();
                self.interfaces.clear();
                BlockContent::Nothing
            }
            Block::InterfaceDescription(interface) => {
                let number = interface.linktype.0 as u32 & 0xffff;
                let Some(units) = units(interface.if_tsresol) else {
                    return BlockContent::Damage(format!(
                        "an interface has an invalid timestamp resolution: {}",
                        interface.if_tsresol
                    ));
                };
                // The parser reads this field in a fixed byte order, regardless of the section's byte order.
                let offset = if self.is_big_endian {
                    interface.if_tsoffset.swap_bytes()
                } else {
                    interface.if_tsoffset
                };
                self.interfaces.push(Interface { link: Link::of(number).ok_or(number), units, offset });
                BlockContent::Nothing
            }
            Block::EnhancedPacket(packet) => {
                let time = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                let captured = packet.data.len().min(packet.caplen as usize);
                self.packet_of(packet.if_id, time, packet.orig_len(), &packet.data[..captured])
            }
            Block::Unknown(block) => {
                // The parser reads the type in a fixed byte order, regardless of the section's byte order.
                let kind = if self.is_big_endian { block.block_type.swap_bytes() } else { block.block_type };
                if kind == OBSOLETE_PACKET {
                    self.read_obsolete_packet(block.data)
                } else {
                    BlockContent::Nothing
                }
            }
            Block::SimplePacket(_) => BlockContent::WithoutTime,
            _ => BlockContent::Nothing,
        }
    }

    fn packet_of(&self, interface: u32, time: u64, bytes: u32, frame: &[u8]) -> BlockContent {
        match self.interfaces.get(interface as usize) {
            Some(interface) => interface.packet(time, bytes, frame),
            None => BlockContent::Damage(format!("a packet of the unknown interface {interface}")),
        }
    }

    /// Parses an obsolete packet block. The block contains the following fields in this order: one word for the
    /// interface and a drop counter, two words for the timestamp, the captured length, the original length, and the
    /// frame.
    fn read_obsolete_packet(&self, block: &[u8]) -> BlockContent {
        let word = |at: usize| {
            let four: [u8; 4] = block.get(at..at + 4)?.try_into().ok()?;
            Some(if self.is_big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) })
        };
        let (Some(first), Some(high), Some(low), Some(captured), Some(bytes)) =
            (word(0), word(4), word(8), word(12), word(16))
        else {
            return BlockContent::Damage("a packet block is shorter than its header".to_owned());
        };
        let interface = if self.is_big_endian { first >> 16 } else { first & 0xffff };
        let frame = &block[20..];
        let frame = &frame[..frame.len().min(captured as usize)];
        self.packet_of(interface, u64::from(high) << 32 | u64::from(low), bytes, frame)
    }
}

impl Interface {
    fn packet(self, time: u64, bytes: u32, frame: &[u8]) -> BlockContent {
        let nanos = i128::from(time) * NANOS / i128::from(self.units) + i128::from(self.offset) * NANOS;
        match self.link {
            Ok(link) => {
                let is_truncated = (frame.len() as u64) < u64::from(bytes);
                BlockContent::Packet(CapturedPacket { nanos, bytes, flow: link.flow(frame), is_truncated })
            }
            Err(number) => BlockContent::UnsupportedLink(number),
        }
    }
}

/// Returns the number of time units per second, as specified by pcapng's option for the timestamp resolution. The
/// number is a power of two if the first bit is set, and otherwise a power of ten.
fn units(resolution: u8) -> Option<u64> {
    match resolution & 0x7f {
        power if resolution & 0x80 != 0 => 1_u64.checked_shl(power.into()),
        power => 10_u64.checked_pow(power.into()),
    }
}
