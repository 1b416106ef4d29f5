//! A capture as a trace: pcap and pcapng, of any size, read to the end or to the damage.
//!
//! pcap: Harris & Richardson, draft-ietf-opsawg-pcap; pcapng: Tuexen et al., draft-ietf-opsawg-pcapng. The
//! blocks are cut and read by pcap-parser.
//!
//! Ours, where the sources are silent:
//! - A packet's length is the one it had, not the captured one, its link header included; longer than
//!   65535 B (as hosts record that leave the cutting to the adapter) counts as 65535 B.
//! - Clocks step back a little when packets of two interfaces are merged: up to a second such a packet
//!   comes when the one before did. A longer step back is damage, and reading ends there.
//! - A packet without a time (pcapng's simple packet block) is passed over. Old ones of pcapng (the obsolete
//!   packet block) are read as new ones.
//! - Time begins with the first packet.

use aqm_net::{Instant, Span};
use pcap_parser::pcapng::Block;
use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{LegacyPcapReader, PcapBlockOwned, PcapError, PcapNGReader};
use serde_json::json;

use crate::frame::{Flow, Link, OTHER};
use crate::input::Input;
use crate::packets::{Arrival, Found, Packets};
use aqm_net::stage::Failure;

/// How much of a capture is held at once, unless a block is longer.
const WINDOW: usize = 1 << 20;
/// No block is longer: libpcap cuts packets at 256 KiB.
const LONGEST_BLOCK: usize = 1 << 24;
/// No line carries longer frames: jumbo frames of 9216 B with the header of Ethernet and a tag. What is longer
/// was recorded in a host before its adapter cut it, or after the adapter had joined it.
const LONGEST_FRAME: u32 = 9_234;
/// pcapng's obsolete packet block, which pcap-parser leaves alone.
const OBSOLETE_PACKET: u32 = 2;
/// How far a clock may step back.
const STEP_BACK: Span = Span::from_millis(1000);
/// How far a capture may reach: past it, a time is a slip of the pen. Ten years.
const REACH_NANOS: i128 = 315_360_000 * NANOS;
const NANOS: i128 = 1_000_000_000;

const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// How pcap begins in either order of bytes: with microseconds, with nanoseconds, and a variant with longer
/// packet headers, of which only one order is known.
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
    form: Form,
    last: Option<Last>,
    /// Nothing more is read.
    ended: bool,
    counts: Counts,
    warnings: Vec<String>,
}

/// What the blocks so far have said of those to come.
#[derive(Default)]
struct Form {
    is_big_endian: bool,
    interfaces: Vec<Interface>,
    counts_nanoseconds: bool,
}

/// What a packet's interface says of it.
#[derive(Clone, Copy)]
struct Interface {
    link: Result<Link, u32>,
    /// Units of time in a second.
    units: u64,
    /// Seconds to be added.
    offset: i64,
}

/// The time of the first packet and of the last, in nanoseconds by the clock of the capture.
struct Last {
    first: i128,
    at: i128,
}

/// What is told at the end.
#[derive(Default)]
struct Counts {
    packets: u64,
    others: u64,
    stepped_back: u64,
    without_time: u64,
    cut_to_most: u64,
    too_long: u64,
    too_short: u64,
}

/// A packet as the capture tells it.
struct Told {
    nanos: i128,
    bytes: u32,
    flow: Flow,
    /// Not all of it was captured.
    is_cut: bool,
}

/// What a block was.
enum Seen {
    Packet(Told),
    Timeless,
    Nothing,
    /// It makes no sense, and neither may what follows.
    Damage(String),
    /// It makes sense, but not to us.
    Strange(u32),
}

/// Why the reader cannot go on.
enum Lack {
    /// They have not been read yet.
    Bytes,
    /// The block is longer than the window.
    Room,
    /// The file has ended.
    Rest,
    Sense,
}

impl<'a> Capture<'a> {
    /// Whether a file that begins so is a capture.
    pub(crate) fn is_one(head: &[u8]) -> bool {
        head.starts_with(&PCAPNG) || PCAP.iter().any(|magic| head.starts_with(magic))
    }

    pub(crate) fn open(mut input: Input<'a>) -> Result<Self, Failure> {
        let is_new = input.head().starts_with(&PCAPNG);
        let bytes = input.take();
        let reader = if is_new {
            boxed(PcapNGReader::new(WINDOW, bytes))
        } else {
            boxed(LegacyPcapReader::new(WINDOW, bytes))
        };
        let Some(reader) = reader else {
            return Err(Failure::File(format!("{}: is a capture cut off within its header", input.path())));
        };
        Ok(Self {
            input,
            reader,
            form: Form::default(),
            last: None,
            ended: false,
            counts: Counts::default(),
            warnings: Vec::new(),
        })
    }

    /// Nothing more is read, since the file is damaged here.
    fn end(&mut self, what: &str) {
        self.ended = true;
        self.warnings.push(format!(
            "{}: damaged at byte {}{}: {what}; the {} packets before it were read",
            self.input.path(),
            self.reader.consumed(),
            if self.input.is_packed() { " unpacked" } else { "" },
            self.counts.packets,
        ));
    }

    /// Does something about what the reader lacks, or ends.
    fn provide(&mut self, lack: Lack) {
        match lack {
            Lack::Bytes => self.refill(),
            Lack::Room => self.grow(),
            Lack::Rest => self.end("the file ends within a packet or block"),
            Lack::Sense => self.end("this is no packet or block of a capture"),
        }
    }

    /// Gets more bytes, or ends.
    fn refill(&mut self) {
        let before = self.reader.data().len();
        if self.reader.refill().is_err() {
            let trouble = self.input.trouble().unwrap_or_default();
            return self.end(&format!("cannot be read on: {trouble}"));
        }
        // A full window that is asked for more must grow.
        if self.reader.data().len() == before && !self.reader.reader_exhausted() {
            self.grow();
        }
    }

    fn grow(&mut self) {
        let held = self.reader.data().len();
        if held >= LONGEST_BLOCK {
            self.end(&format!("a block is longer than {LONGEST_BLOCK} bytes"));
        } else {
            self.reader.grow((held * 2).clamp(WINDOW * 2, LONGEST_BLOCK * 2));
            if self.reader.refill().is_err() {
                let trouble = self.input.trouble().unwrap_or_default();
                self.end(&format!("cannot be read on: {trouble}"));
            }
        }
    }

    /// The packet's moment, if it makes sense.
    fn moment(&mut self, nanos: i128) -> Result<Instant, String> {
        let last = self.last.get_or_insert(Last { first: nanos, at: nanos });
        if nanos < last.at {
            let back = last.at - nanos;
            if back > i128::from(STEP_BACK.nanos()) {
                return Err(format!(
                    "time steps back by {:.3} s (if the packets are only out of order, sort them by time)",
                    back as f64 / 1e9
                ));
            }
            self.counts.stepped_back += 1;
        } else if nanos - last.first > REACH_NANOS {
            return Err("the time of a packet is more than ten years after the first".to_owned());
        } else {
            last.at = nanos;
        }
        // Within the reach, so it fits.
        Ok(Instant::from_nanos((last.at - last.first) as u64))
    }
}

fn boxed<'a, R: PcapReaderIterator + 'a, E>(
    reader: Result<R, E>,
) -> Option<Box<dyn PcapReaderIterator + 'a>> {
    reader.ok().map(|reader| Box::new(reader) as Box<_>)
}

impl Packets for Capture<'_> {
    fn next(&mut self) -> Result<Option<Arrival>, Failure> {
        while !self.ended {
            let found = match self.reader.next() {
                Ok((size, block)) => Ok((size, self.form.look(block))),
                Err(PcapError::Eof) => break,
                Err(PcapError::Incomplete(_)) => Err(Lack::Bytes),
                Err(PcapError::BufferTooSmall) => Err(Lack::Room),
                Err(PcapError::UnexpectedEof) => Err(Lack::Rest),
                Err(_) => Err(Lack::Sense),
            };
            let (size, seen) = match found {
                Ok(found) => found,
                Err(lack) => {
                    self.provide(lack);
                    continue;
                }
            };
            let told = match seen {
                Seen::Packet(told) => Some(told),
                Seen::Timeless => {
                    self.counts.without_time += 1;
                    None
                }
                Seen::Nothing => None,
                Seen::Damage(what) => {
                    self.end(&what);
                    break;
                }
                Seen::Strange(number) => {
                    let path = self.input.path();
                    let problem = format!(
                        "{path}: frames of link type {number} are not understood; known are {}",
                        Link::KNOWN
                    );
                    return Err(Failure::File(problem));
                }
            };
            if let Some(Told { nanos, bytes, flow, is_cut }) = told {
                match self.moment(nanos) {
                    Err(what) => self.end(&what),
                    Ok(at) => {
                        self.reader.consume_noshift(size);
                        self.counts.packets += 1;
                        let (key, is_short) = match flow {
                            Flow::Of(key) => (key, false),
                            Flow::Hosts(key) => (key, is_cut),
                            Flow::Short => (OTHER, is_cut),
                            Flow::NotIp => (OTHER, false),
                        };
                        self.counts.others += u64::from(key == OTHER && !is_short);
                        self.counts.too_short += u64::from(is_short);
                        self.counts.too_long += u64::from(bytes > LONGEST_FRAME);
                        self.counts.cut_to_most += u64::from(bytes > u32::from(u16::MAX));
                        let bytes = bytes.clamp(1, u16::MAX.into()) as u16;
                        return Ok(Some(Arrival { at, bytes, key }));
                    }
                }
            } else {
                self.reader.consume_noshift(size);
            }
        }
        self.ended = true;
        if self.counts.packets == 0 && self.counts.without_time > 0 {
            let (path, count) = (self.input.path(), self.counts.without_time);
            let problem = format!("{path}: not one of its {count} packets has a time (simple packet blocks)");
            return Err(Failure::File(problem));
        }
        Ok(None)
    }

    fn close(mut self: Box<Self>) -> Result<Found, Failure> {
        let path = self.input.path();
        let Counts { packets, others, stepped_back, without_time, cut_to_most, too_long, too_short } =
            self.counts;
        for (count, what) in [
            (stepped_back, "come before the one ahead of them, by at most a second: taken as come together"),
            (without_time, "without a time: passed over"),
            (cut_to_most, "longer than 65535 bytes: taken as so long"),
            (
                too_long,
                "longer than 9234 bytes, which no line carries: recorded in a host that leaves cutting and \
                 joining to its adapter (`ethtool -K DEVICE tso off gso off gro off` before recording, or \
                 record on another host)",
            ),
            (
                too_short,
                "captured too short to tell their flow: those without addresses taken as one flow, those \
                 without ports as one for each two hosts (capture 128 bytes of each packet)",
            ),
        ] {
            if count > 0 {
                self.warnings.push(format!("{path}: packets {what}: {count}"));
            }
        }
        let contents = self.input.contents()?;
        let facts = json!({
            "kind": "capture", "gzip": self.input.is_packed(), "packets": packets, "packets_not_ip": others,
        });
        Ok(Found { warnings: self.warnings, contents, facts })
    }
}

impl Form {
    /// Learns from a block, or says what packet it holds.
    fn look(&mut self, block: PcapBlockOwned<'_>) -> Seen {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                self.counts_nanoseconds = header.is_nanosecond_precision();
                // The upper half tells of check sums at the end of frames.
                let number = header.network.0 as u32 & 0xffff;
                let units = if self.counts_nanoseconds { 1_000_000_000 } else { 1_000_000 };
                self.interfaces = vec![Interface { link: Link::of(number).ok_or(number), units, offset: 0 }];
                Seen::Nothing
            }
            PcapBlockOwned::Legacy(packet) => {
                let Some(interface) = self.interfaces.first() else {
                    return Seen::Damage("a packet comes before the header".to_owned());
                };
                let (seconds, units) = (u64::from(packet.ts_sec), u64::from(packet.ts_usec));
                interface.packet(seconds * interface.units + units, packet.origlen, packet.data)
            }
            PcapBlockOwned::NG(block) => self.look_at_new(block),
        }
    }

    fn look_at_new(&mut self, block: Block<'_>) -> Seen {
        match block {
            Block::SectionHeader(section) => {
                self.is_big_endian = section.big_endian();
                self.interfaces.clear();
                Seen::Nothing
            }
            Block::InterfaceDescription(one) => {
                let number = one.linktype.0 as u32 & 0xffff;
                let Some(units) = units(one.if_tsresol) else {
                    return Seen::Damage(format!(
                        "an interface tells time in units no one has: {}",
                        one.if_tsresol
                    ));
                };
                // The parser reads this in one order of bytes, whichever the section has.
                let offset = if self.is_big_endian { one.if_tsoffset.swap_bytes() } else { one.if_tsoffset };
                self.interfaces.push(Interface { link: Link::of(number).ok_or(number), units, offset });
                Seen::Nothing
            }
            Block::EnhancedPacket(packet) => {
                let time = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                let captured = packet.data.len().min(packet.caplen as usize);
                self.packet_of(packet.if_id, time, packet.orig_len(), &packet.data[..captured])
            }
            Block::Unknown(block) => {
                // The parser reads the type in one order of bytes, whichever the section has.
                let kind = if self.is_big_endian { block.block_type.swap_bytes() } else { block.block_type };
                if kind == OBSOLETE_PACKET { self.look_at_obsolete(block.data) } else { Seen::Nothing }
            }
            Block::SimplePacket(_) => Seen::Timeless,
            _ => Seen::Nothing,
        }
    }

    fn packet_of(&self, interface: u32, time: u64, bytes: u32, frame: &[u8]) -> Seen {
        match self.interfaces.get(interface as usize) {
            Some(one) => one.packet(time, bytes, frame),
            None => Seen::Damage(format!("a packet of interface {interface}, which there is not")),
        }
    }

    /// A block of the interface and a count of drops in one word, the time in two, the length captured, the
    /// length there was, and the frame.
    fn look_at_obsolete(&self, block: &[u8]) -> Seen {
        let word = |at: usize| {
            let four: [u8; 4] = block.get(at..at + 4)?.try_into().ok()?;
            Some(if self.is_big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) })
        };
        let (Some(first), Some(high), Some(low), Some(captured), Some(bytes)) =
            (word(0), word(4), word(8), word(12), word(16))
        else {
            return Seen::Damage("a packet block is shorter than its header".to_owned());
        };
        let interface = if self.is_big_endian { first >> 16 } else { first & 0xffff };
        let frame = &block[20..];
        let frame = &frame[..frame.len().min(captured as usize)];
        self.packet_of(interface, u64::from(high) << 32 | u64::from(low), bytes, frame)
    }
}

impl Interface {
    fn packet(self, time: u64, bytes: u32, frame: &[u8]) -> Seen {
        let nanos = i128::from(time) * NANOS / i128::from(self.units) + i128::from(self.offset) * NANOS;
        match self.link {
            Ok(link) => {
                let is_cut = (frame.len() as u64) < u64::from(bytes);
                Seen::Packet(Told { nanos, bytes, flow: link.flow(frame), is_cut })
            }
            Err(number) => Seen::Strange(number),
        }
    }
}

/// Units of time in a second, by pcapng's option: a power of ten, or of two if the first bit is set.
fn units(resolution: u8) -> Option<u64> {
    match resolution & 0x7f {
        power if resolution & 0x80 != 0 => 1_u64.checked_shl(power.into()),
        power => 10_u64.checked_pow(power.into()),
    }
}
