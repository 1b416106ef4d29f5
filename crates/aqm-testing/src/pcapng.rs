//! Readers of packet files in the pcapng format, which are independent of aqmlab's writer.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "packets are in files, which programs read"
)]

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;

use pcap_parser::pcapng::{Block as FileBlock, OptionCode};
use pcap_parser::traits::{PcapNGPacketBlock as _, PcapReaderIterator as _};
use pcap_parser::{Linktype, PcapBlockOwned, PcapError, PcapNGReader};

/// A scenario that contains every kind of packet. Two TCP flows, three TCP flows with ECN and short transfers, and a
/// datagram flow share a RED queue, which drops and marks packets. The scenario records the packets at the link
/// `bottleneck` and the packet histories of the workload `bulk`.
pub const SCENARIO: &str = r#"
duration = "12s"
seed = 3
[bottleneck]
rate = "1Mbps"
delay = "20ms"
queue = { kind = "red", min_th = "5p", max_th = "15p", max_p = 0.1, weight = 0.02, limit = "20p", ecn = "unless-forced" }
[record]
packets = ["bottleneck"]
histories = ["bulk"]
drops = true
queue_every = "100ms"
[tcp.recovery]
kind = "sack"
[traffic.bulk]
kind = "ftp"
flows = 2
stagger = "100ms"
[traffic.video]
kind = "udp"
rate = "200kbps"
sizes = { kind = "constant", value = "500B" }
[traffic.objects]
kind = "ftp"
tcp = { ecn = { mode = "on" } }
flows = 3
sizes = { kind = "constant", value = "40kB" }
"#;

/// A packet block of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// Index of the interface.
    pub interface: u32,
    /// Time since the beginning of 1970, in nanoseconds.
    pub nanos: u64,
    /// The captured bytes.
    pub bytes: Vec<u8>,
    /// Length of the packet.
    pub length: u32,
    /// Number of packets that are missing from the file between the previous packet and this packet.
    pub lost_before: u64,
    /// Comment on the packet, if any.
    pub comment: Option<String>,
}

/// A path for a temporary file. If the file still exists at the end of a test, it is removed.
pub struct TemporaryPath(PathBuf);

impl Deref for TemporaryPath {
    type Target = Path;
    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryPath {
    fn drop(&mut self) {
        // The file does not exist if the test expects an error.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Returns the path of a file that no other test uses.
pub fn temporary(name: &str) -> TemporaryPath {
    TemporaryPath(std::env::temp_dir().join(format!("aqm-{name}-{}.pcapng", std::process::id())))
}

/// Returns the names of the interfaces and the packets of a file.
///
/// # Panics
/// Panics if the file cannot be read, or is not a pcapng file that contains IPv4 packets with timestamps in
/// nanoseconds.
pub fn read(path: &Path) -> (Vec<String>, Vec<Block>) {
    let mut reader = PcapNGReader::new(1 << 20, std::fs::File::open(path).unwrap()).unwrap();
    let (mut names, mut packets) = (Vec::new(), Vec::new());
    loop {
        match reader.next() {
            Ok((offset, PcapBlockOwned::NG(block))) => {
                match block {
                    FileBlock::SectionHeader(_) => {}
                    FileBlock::InterfaceDescription(interface) => {
                        assert_eq!((interface.linktype, interface.if_tsresol), (Linktype::IPV4, 9));
                        let name = interface.options.iter().find(|option| option.code == OptionCode::IfName);
                        names.push(String::from_utf8(name.unwrap().as_bytes().unwrap().to_vec()).unwrap());
                    }
                    FileBlock::EnhancedPacket(packet) => {
                        let option = |code| packet.options.iter().find(|option| option.code == code);
                        let lost =
                            option(OptionCode(4)).map(|count| count.as_bytes().unwrap().try_into().unwrap());
                        let comment =
                            option(OptionCode::Comment).map(|text| text.as_bytes().unwrap().to_vec());
                        packets.push(Block {
                            interface: packet.if_id,
                            nanos: u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low),
                            bytes: packet.packet_data()[..packet.caplen as usize].to_vec(),
                            length: packet.origlen,
                            lost_before: lost.map_or(0, u64::from_ne_bytes),
                            comment: comment.map(|text| String::from_utf8(text).unwrap()),
                        });
                    }
                    other => panic!("{other:?}"),
                }
                reader.consume(offset);
            }
            Ok(_) => panic!("not a pcapng file"),
            Err(PcapError::Eof) => return (names, packets),
            Err(PcapError::Incomplete(_)) => reader.refill().unwrap(),
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// Returns tcpdump's output for a file, with one line for each packet; `None` if tcpdump is not installed.
///
/// # Panics
/// Panics if tcpdump rejects the file.
pub fn tcpdump(path: &Path) -> Option<Vec<String>> {
    let Ok(output) = Command::new("tcpdump").args(["-n", "-r"]).arg(path).output() else {
        eprintln!("skipped: tcpdump is not installed");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}

/// Returns tshark's output for the packets in a file that match `filter`. Each line of the output contains the `fields`
/// of one packet. Returns `None` if tshark is not installed.
///
/// # Panics
/// Panics if tshark rejects the file.
pub fn tshark(path: &Path, filter: &str, fields: &[&str]) -> Option<Vec<String>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-T", "fields", "-Y", filter, "-r"]).arg(path);
    for field in fields {
        command.args(["-e", field]);
    }
    let Ok(output) = command.output() else {
        eprintln!("skipped: tshark is not installed");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}
