//! Packets in a file that Wireshark and tshark read: pcapng, with the fate of each packet that a queue dropped or
//! marked in a comment beside it.
//!
//! M. Tuexen et al., "PCAP Next Generation (pcapng) Capture File Format", Internet-Draft of the IETF's working group
//! opsawg, 2024.
//!
//! Ours: an interface for each place where packets are seen. Its link type is `LINKTYPE_IPV4`, 228: packets begin with
//! their header of IPv4, and all are of IPv4. `LINKTYPE_RAW`, 101, would say less, and tcpdump 4.99 refuses a file with
//! two interfaces of that type.

mod live;
mod simulated;
#[cfg(test)]
pub(crate) mod testing;

use std::borrow::Cow;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use aqm_queue::Reason;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness, PcapError};

pub use live::{Capture, CaptureOptions, Captured};
pub use simulated::{write_simulated, write_simulated_to};

/// Where packets are seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name: that of a link, or of a host.
    pub name: String,
    /// A sentence about it.
    pub about: String,
}

/// A queue, as comments tell of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueName {
    /// The name of its link.
    pub link: String,
    /// The unit of its gauge `average`; empty if there is none.
    pub unit: String,
}

/// What a queue did to a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fate {
    /// What it did.
    pub verdict: Verdict,
    /// Why.
    pub reason: Reason,
    /// Its position among the queues that the capture was told of.
    pub queue: u32,
    /// Its gauge `average` then, if it has one.
    pub average: Option<f64>,
}

/// What a queue may do to a packet besides sending it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packet is gone.
    Dropped,
    /// The packet tells its receiver of congestion.
    Marked,
}

impl Fate {
    /// The comment, such as `dropped: early, queue bottleneck, average 31.2 packets`.
    fn comment(&self, queues: &[QueueName]) -> String {
        let verdict = match self.verdict {
            Verdict::Dropped => "dropped",
            Verdict::Marked => "marked",
        };
        let reason = Reason::NAMES[self.reason.code() as usize];
        comment(verdict, Some(reason), queues.get(self.queue as usize), self.average)
    }
}

fn comment(verdict: &str, reason: Option<&str>, queue: Option<&QueueName>, average: Option<f64>) -> String {
    let mut text = verdict.to_owned();
    let mut mark = ": ";
    let mut add = |words: fmt::Arguments| {
        text.push_str(std::mem::replace(&mut mark, ", "));
        text.push_str(&words.to_string());
    };
    if let Some(reason) = reason {
        add(format_args!("{reason}"));
    }
    if let Some(queue) = queue {
        add(format_args!("queue {}", queue.link));
    }
    if let Some(average) = average {
        match queue.map(|queue| queue.unit.as_str()) {
            None | Some("") => add(format_args!("average {average:.1}")),
            Some(unit) => add(format_args!("average {average:.1} {unit}")),
        }
    }
    text
}

/// A packet as it stands in the file.
struct Record<'a> {
    /// The position of its interface.
    interface: u32,
    /// Since 1970.
    at: Duration,
    /// What of it is kept.
    bytes: &'a [u8],
    /// Its length, of which the end may be left out.
    length: u32,
    /// How many packets before it are missing from the file.
    lost_before: u64,
    comment: Option<&'a str>,
}

/// A file of packets that is being written.
struct PacketFile<W: Write> {
    writer: PcapNgWriter<W>,
}

impl<W: Write> PacketFile<W> {
    /// Begins a file of packets of which up to `snaplen` bytes are kept.
    fn new(out: W, interfaces: &[Interface], snaplen: u32) -> io::Result<Self> {
        let application = SectionHeaderOption::UserApplication(Cow::Borrowed(concat!(
            "aqmlab ",
            env!("CARGO_PKG_VERSION")
        )));
        let options = vec![application];
        let section =
            SectionHeaderBlock { endianness: Endianness::native(), options, ..SectionHeaderBlock::default() };
        let mut writer = PcapNgWriter::with_section_header(out, section).map_err(io_error)?;
        for Interface { name, about } in interfaces {
            /// Units of time are 10 to the power of minus this many seconds.
            const NANOSECONDS: u8 = 9;
            let options = vec![
                InterfaceDescriptionOption::IfName(name.into()),
                InterfaceDescriptionOption::IfDescription(about.into()),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ];
            let linktype = DataLink::IPV4;
            writer
                .write_pcapng_block(InterfaceDescriptionBlock { linktype, snaplen, options })
                .map_err(io_error)?;
        }
        // A full disk is found before the first packet.
        writer.get_mut().flush()?;
        Ok(Self { writer })
    }

    fn write(&mut self, record: &Record) -> io::Result<()> {
        let mut options = Vec::new();
        if record.lost_before > 0 {
            options.push(EnhancedPacketOption::DropCount(record.lost_before));
        }
        if let Some(comment) = record.comment {
            options.push(EnhancedPacketOption::Comment(comment.into()));
        }
        let block = EnhancedPacketBlock {
            interface_id: record.interface,
            timestamp: record.at,
            original_len: record.length,
            data: record.bytes.into(),
            options,
        };
        self.writer.write_pcapng_block(block).map_err(io_error)?;
        Ok(())
    }

    /// Nothing follows.
    fn finish(mut self) -> io::Result<W> {
        self.writer.get_mut().flush()?;
        Ok(self.writer.into_inner())
    }
}

fn io_error(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}

/// Removes a capture that could not be written to its end; a device or a pipe stays.
fn remove(path: &Path) {
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_file()) {
        // What cannot be removed stays.
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_tells_what_is_known() {
        let queues = [
            QueueName { link: "bottleneck".into(), unit: "packets".into() },
            QueueName { link: "b".into(), unit: String::new() },
        ];
        let fate =
            |verdict, reason, queue, average| Fate { verdict, reason, queue, average }.comment(&queues);
        assert_eq!(
            fate(Verdict::Dropped, Reason::Early, 0, Some(31.24)),
            "dropped: early, queue bottleneck, average 31.2 packets"
        );
        assert_eq!(
            fate(Verdict::Marked, Reason::Forced, 1, Some(0.0)),
            "marked: forced, queue b, average 0.0"
        );
        assert_eq!(fate(Verdict::Dropped, Reason::Overflow, 1, None), "dropped: overflow, queue b");
        assert_eq!(fate(Verdict::Dropped, Reason::Overflow, 7, None), "dropped: overflow");
        assert_eq!(comment("dropped", None, None, None), "dropped");
    }
}
