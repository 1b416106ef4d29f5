//! Packet files in the pcapng format. Each dropped or marked packet has a comment that describes the queue's decision.
//!
//! Source: M. Tuexen et al., "PCAP Next Generation (pcapng) Capture File Format", Internet-Draft of the IETF's working
//! group opsawg, 2024.
//!
//! aqmlab's choice: each capture point is an interface. The link type is `LINKTYPE_IPV4` (228), because all packets are
//! IPv4 packets and begin with the IPv4 header. `LINKTYPE_RAW` (101) would be less specific, and tcpdump 4.99 rejects
//! files with two interfaces of this type.

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

/// A capture point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name of the capture point, which is the name of a link or a host.
    pub name: String,
    /// Description of the capture point.
    pub about: String,
}

/// A queue, as it is named in comments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueName {
    /// Name of the queue's link.
    pub link: String,
    /// Unit of the queue's gauge `average`; empty if the gauge has no unit.
    pub unit: String,
}

/// The dropping or marking of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fate {
    /// Decision of the queue.
    pub verdict: Verdict,
    /// Reason for the drop or mark.
    pub reason: Reason,
    /// Index of the queue in the capture's list of queues.
    pub queue: u32,
    /// Value of the queue's gauge `average` at this time; `None` if the queue does not have this gauge.
    pub average: Option<f64>,
}

/// A decision of a queue to drop or mark a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packet was dropped.
    Dropped,
    /// The packet was marked to signal congestion.
    Marked,
}

impl Fate {
    /// Returns the comment, for example `dropped: early, queue bottleneck, average 31.2 packets`.
    pub fn comment(&self, queues: &[QueueName]) -> String {
        let verdict = match self.verdict {
            Verdict::Dropped => "dropped",
            Verdict::Marked => "marked",
        };
        let reason = self.reason.name();
        comment(verdict, Some(reason), queues.get(self.queue as usize), self.average)
    }
}

/// Returns the comment on a packet, which contains only those facts that are known.
pub(crate) fn comment(
    verdict: &str,
    reason: Option<&str>,
    queue: Option<&QueueName>,
    average: Option<f64>,
) -> String {
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

/// A packet in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Index of the interface.
    pub interface: u32,
    /// Time of the event, relative to the beginning of 1970.
    pub at: Duration,
    /// The captured bytes.
    pub bytes: &'a [u8],
    /// Length of the whole packet, which may be greater than the number of captured bytes.
    pub length: u32,
    /// Number of packets missing from the file between the previous packet and this packet.
    pub lost_before: u64,
    /// Comment on the packet, if any.
    pub comment: Option<&'a str>,
}

/// A packet file that is being written.
pub struct PacketFile<W: Write> {
    writer: PcapNgWriter<W>,
}

impl<W: Write> PacketFile<W> {
    /// Creates a packet file and writes its header. At most `snaplen` bytes of each packet are captured.
    ///
    /// # Errors
    /// Returns an error if the header of the file cannot be written, for example because the disk is full.
    pub fn new(out: W, interfaces: &[Interface], snaplen: u32) -> io::Result<Self> {
        let application = SectionHeaderOption::UserApplication(Cow::Borrowed(concat!(
            "aqmlab ",
            env!("CARGO_PKG_VERSION")
        )));
        let options = vec![application];
        let section =
            SectionHeaderBlock { endianness: Endianness::native(), options, ..SectionHeaderBlock::default() };
        let mut writer = PcapNgWriter::with_section_header(out, section).map_err(io_error)?;
        for Interface { name, about } in interfaces {
            /// Resolution of timestamps: the unit is 10 to the power of minus `NANOSECONDS` seconds.
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
        // The header is written immediately, so that a full disk is detected before the first packet.
        writer.get_mut().flush()?;
        Ok(Self { writer })
    }

    /// Writes a packet.
    ///
    /// # Errors
    /// Returns an error if the packet cannot be written.
    pub fn write(&mut self, record: &Record) -> io::Result<()> {
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

    /// Completes the file and returns the output.
    ///
    /// # Errors
    /// Returns an error if the last packets cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
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

/// Removes an incomplete file. Devices and pipes are not removed.
#[expect(clippy::disallowed_methods, reason = "packets are written to a file")]
pub fn remove_incomplete(path: &Path) {
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_file()) {
        // If the removal fails, the incomplete file remains.
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_contains_the_known_facts() {
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
