//! Capture of the packets of a live run, which a separate thread writes to a file.
//!
//! aqmlab's choice: the router passes packets to the writer through two ring buffers of fixed size. One ring buffer
//! contains the bytes of packets, and the other contains notes about packets. Therefore, the router never has to wait
//! for a disk or a lock. If a ring buffer is full, the packet is omitted. The note on the next packet that fits
//! contains the number of packets omitted since the previous note.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, SystemTime};

use aqm_net::Instant;
use aqm_pcap::{Fate, Interface, PacketFile, QueueName, Record, remove_incomplete};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::LiveError;

/// Options of a capture.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// Maximum number of bytes captured per packet.
    pub snaplen: u32,
    /// Size of the ring buffer for bytes.
    pub buffer: usize,
    /// Wall-clock time of the start of the run.
    pub start: SystemTime,
}

impl Default for CaptureOptions {
    /// Returns options for a run that starts now: whole packets are captured, and the ring buffer is large enough for
    /// several seconds of traffic at 100 Mbit/s.
    fn default() -> Self {
        Self { snaplen: 65_535, buffer: 64 << 20, start: SystemTime::now() }
    }
}

/// The outcome of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Path of the file.
    pub path: PathBuf,
    /// Number of packets in the file.
    pub written: u64,
    /// Number of packets that are missing from the file because the ring buffers were full.
    pub lost: u64,
}

/// A running capture, to which the router adds packets.
pub struct Capture {
    notes: Producer<Note>,
    bytes: Producer<u8>,
    snaplen: usize,
    /// Number of packets omitted since the last captured packet.
    lost_since: u64,
    lost: u64,
    path: PathBuf,
    writer: JoinHandle<io::Result<u64>>,
}

/// The note on a packet whose bytes are in the ring buffer for bytes.
#[derive(Clone, Copy, Default)]
struct Note {
    at: Instant,
    interface: u32,
    /// Number of captured bytes.
    kept: u32,
    length: u32,
    lost_before: u64,
    fate: Option<Fate>,
}

/// Size of the ring buffer for bytes, divided by the number of slots in the ring buffer for notes. If the average
/// packet is shorter than this value, the ring buffer for notes is the first to fill up.
const BYTES_PER_NOTE: usize = 256;
/// Time for which the writer pauses when the ring buffers are empty.
const REST: Duration = Duration::from_millis(2);
/// Size of the writer's output buffer, in bytes.
const CHUNK: usize = 1 << 18;

impl Capture {
    /// Creates a file at `path` for packets that are captured on `interfaces` and that `queues` may drop or mark. The
    /// calling thread must not yet be a real-time thread, because the writer's thread inherits the priority of the
    /// calling thread.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created or written, for example because the disk is full, or if the
    /// thread cannot start. No file remains after an error.
    pub fn start(
        path: &Path,
        interfaces: &[Interface],
        queues: &[QueueName],
        options: &CaptureOptions,
    ) -> Result<Self, LiveError> {
        let failed = |error: io::Error| LiveError::of_file(path, &error);
        let unwritten = |error| {
            remove_incomplete(path);
            failed(error)
        };
        let file = File::create(path).map_err(failed)?;
        let out = PacketFile::new(BufWriter::with_capacity(CHUNK, file), interfaces, options.snaplen);
        let out = out.map_err(unwritten)?;
        let (mut notes, mut notes_in) = RingBuffer::new((options.buffer / BYTES_PER_NOTE).max(1));
        let (mut bytes, mut bytes_in) = RingBuffer::new(options.buffer);
        touch(&mut notes, &mut notes_in, Note::default());
        touch(&mut bytes, &mut bytes_in, 0);
        let since_1970 = options.start.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let writer =
            Writer { out, notes: notes_in, bytes: bytes_in, queues: queues.to_vec(), start: since_1970 };
        let thread = std::thread::Builder::new().name("aqm-pcap".to_owned());
        let writer = thread.spawn(move || writer.run()).map_err(unwritten)?;
        let snaplen = options.snaplen as usize;
        Ok(Self { notes, bytes, snaplen, lost_since: 0, lost: 0, path: path.to_owned(), writer })
    }

    /// Captures a packet on the interface with the index `interface` at the time `at`. `fate` is set if a queue dropped
    /// or marked the packet. This function never blocks.
    pub fn note(&mut self, interface: u32, at: Instant, packet: &[u8], fate: Option<Fate>) {
        let kept = packet.get(..self.snaplen).unwrap_or(packet);
        if self.notes.is_full() || self.bytes.push_entire_slice(kept).is_err() {
            self.lost_since += 1;
            return;
        }
        let note = Note {
            at,
            interface,
            kept: kept.len() as u32,
            length: packet.len() as u32,
            lost_before: std::mem::take(&mut self.lost_since),
            fate,
        };
        self.lost += note.lost_before;
        // The push cannot fail, because only this thread adds notes, and the free space has already been checked.
        let _ = self.notes.push(note);
    }

    /// Returns the number of packets omitted so far.
    pub fn lost(&self) -> u64 {
        self.lost + self.lost_since
    }

    /// Writes the remaining packets and completes the file.
    ///
    /// # Errors
    /// Returns an error if the file could not be written, for example because the disk is full. No file remains after
    /// an error.
    pub fn finish(self) -> Result<Captured, LiveError> {
        let (lost, path) = (self.lost(), self.path);
        // The writer terminates when the ring buffers are empty and the producers have been dropped.
        drop((self.notes, self.bytes));
        let written = match self.writer.join() {
            Ok(result) => result.map_err(|error| {
                remove_incomplete(&path);
                LiveError::of_file(&path, &error)
            })?,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        Ok(Captured { path, written, lost })
    }
}

/// Writes to every element of the ring buffer once, so that no page faults delay the router later.
fn touch<T: Copy>(into: &mut Producer<T>, out: &mut Consumer<T>, value: T) {
    while into.push(value).is_ok() {}
    if let Ok(all) = out.read_chunk(out.slots()) {
        all.commit_all();
    }
}

/// The state of the writer's thread.
struct Writer {
    out: PacketFile<BufWriter<File>>,
    notes: Consumer<Note>,
    bytes: Consumer<u8>,
    queues: Vec<QueueName>,
    /// Start time of the run, as the time since the beginning of 1970.
    start: Duration,
}

impl Writer {
    fn run(mut self) -> io::Result<u64> {
        let (mut buffer, mut written) = (Vec::new(), 0);
        loop {
            // This check must be made before the ring buffer is read. Otherwise, the last notes could be missed.
            let is_last = self.notes.is_abandoned();
            while let Ok(note) = self.notes.pop() {
                self.write(note, &mut buffer)?;
                written += 1;
            }
            if is_last {
                self.out.finish()?;
                return Ok(written);
            }
            sleep(REST);
        }
    }

    fn write(&mut self, note: Note, buffer: &mut Vec<u8>) -> io::Result<()> {
        buffer.resize(note.kept as usize, 0);
        // The bytes of a packet are added before the note on the packet, so the bytes are already available.
        self.bytes.pop_entire_slice(buffer).map_err(io::Error::other)?;
        let comment = note.fate.map(|fate| fate.comment(&self.queues));
        self.out.write(&Record {
            interface: note.interface,
            at: self.start + Duration::from_nanos(note.at.nanos()),
            bytes: buffer,
            length: note.length,
            lost_before: note.lost_before,
            comment: comment.as_deref(),
        })
    }
}

#[cfg(test)]
mod tests {
    use aqm_pcap::Verdict;
    use aqm_queue::Reason;
    use aqm_testing::pcapng::{Block, read, tcpdump, temporary, tshark};
    use etherparse::PacketBuilder;

    use super::*;

    fn interfaces() -> [Interface; 2] {
        let interface = |name: &str| Interface { name: name.to_owned(), about: "a test".to_owned() };
        [interface("bottleneck"), interface("web sender")]
    }

    fn queues() -> [QueueName; 1] {
        [QueueName { link: "bottleneck".to_owned(), unit: "packets".to_owned() }]
    }

    fn datagram(number: u16) -> Vec<u8> {
        let mut packet = Vec::new();
        let builder = PacketBuilder::ipv4([10, 1, 0, 1], [10, 2, 0, 1], 64).udp(number, 53);
        builder.write(&mut packet, &[5; 500]).unwrap();
        packet
    }

    const EARLY: Fate =
        Fate { verdict: Verdict::Dropped, reason: Reason::Early, queue: 0, average: Some(31.2) };

    #[test]
    fn every_packet_is_written_with_its_time_and_its_fate() {
        let path = temporary("live");
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let options = CaptureOptions { snaplen: 100, start, ..CaptureOptions::default() };
        let mut capture = Capture::start(&path, &interfaces(), &queues(), &options).unwrap();
        for number in 0..5000_u16 {
            let at = Instant::from_nanos(u64::from(number) * 1_000_001);
            let fate = (number % 100 == 99).then_some(EARLY);
            capture.note(u32::from(number % 2), at, &datagram(number), fate);
        }
        let captured = capture.finish().unwrap();
        assert_eq!(captured, Captured { path: path.to_path_buf(), written: 5000, lost: 0 });
        let (names, packets) = read(&path);
        assert_eq!(names, ["bottleneck", "web sender"]);
        for (number, block) in packets.iter().enumerate() {
            let expected = Block {
                interface: number as u32 % 2,
                nanos: 1_700_000_000_000_000_000 + number as u64 * 1_000_001,
                bytes: datagram(number as u16)[..100].to_vec(),
                length: 528,
                lost_before: 0,
                comment: (number % 100 == 99)
                    .then(|| "dropped: early, queue bottleneck, average 31.2 packets".to_owned()),
            };
            assert_eq!(*block, expected);
        }
        assert_eq!(packets.len(), 5000);
        if let Some(lines) = tcpdump(&path) {
            assert_eq!(lines.len(), 5000, "tcpdump must read the packets of both interfaces");
            assert!(lines[99].contains("IP 10.1.0.1.99 > 10.2.0.1.53: "), "{}", lines[99]);
        }
        let fields = ["frame.time_epoch", "frame.interface_name", "udp.srcport", "frame.comment"];
        if let Some(lines) = tshark(&path, "frame.comment", &fields) {
            assert_eq!(lines.len(), 50);
            assert_eq!(
                lines[0],
                "1700000000.099000099\tweb sender\t99\tdropped: early, queue bottleneck, average 31.2 packets"
            );
        }
    }

    #[test]
    fn a_full_ring_never_blocks_and_lost_packets_are_counted() {
        let path = temporary("overflow");
        // This buffer is only large enough for a few packets.
        let options = CaptureOptions { buffer: 3000, ..CaptureOptions::default() };
        let mut capture = Capture::start(&path, &interfaces(), &queues(), &options).unwrap();
        let packet = datagram(7);
        for number in 0..20_000 {
            capture.note(0, Instant::from_nanos(number), &packet, None);
        }
        assert!(capture.lost() > 0);
        let mut noted = 20_000;
        // This loop runs until the writer has emptied the ring buffer.
        while capture.lost_since > 0 {
            capture.note(0, Instant::from_nanos(noted), &packet, None);
            noted += 1;
            sleep(REST);
        }
        let captured = capture.finish().unwrap();
        assert_eq!(captured.written + captured.lost, noted);
        let (_, packets) = read(&path);
        assert_eq!(packets.len() as u64, captured.written);
        assert_eq!(packets.iter().map(|block| block.lost_before).sum::<u64>(), captured.lost);
        assert!(packets.last().unwrap().lost_before > 0);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named_in_the_error() {
        let missing = Path::new("/nowhere/at/all.pcapng");
        let options = CaptureOptions::default();
        let error = Capture::start(missing, &interfaces(), &queues(), &options).err().unwrap();
        assert!(error.what.starts_with("cannot write /nowhere/at/all.pcapng: "), "{error}");
        assert_eq!(error.file.unwrap().path, missing);
        // Writes to this device always fail with "disk full", which is detected before the run. The device must not be
        // removed afterwards.
        let full = Path::new("/dev/full");
        let error = Capture::start(full, &interfaces(), &queues(), &options).err().unwrap();
        assert!(error.what.contains("No space left"), "{error}");
        assert!(full.exists());
    }

    #[test]
    fn a_failed_capture_leaves_no_file() {
        let path = temporary("unwritable");
        let mut capture =
            Capture::start(&path, &interfaces(), &queues(), &CaptureOptions::default()).unwrap();
        // The note refers to bytes that are not in the ring buffer, so the writer fails.
        capture.notes.push(Note { kept: 100, ..Note::default() }).unwrap();
        let error = capture.finish().unwrap_err();
        assert!(error.what.starts_with("cannot write ") && !path.exists(), "{error}");
    }

    #[test]
    #[ignore = "a measurement"]
    fn how_long_it_takes() {
        let path = temporary("speed");
        for payload in [12, 1472] {
            let mut packet = Vec::new();
            let builder = PacketBuilder::ipv4([10, 1, 0, 1], [10, 2, 0, 1], 64).udp(1, 53);
            builder.write(&mut packet, &vec![5; payload]).unwrap();
            let options = CaptureOptions::default();
            let mut capture = Capture::start(&path, &interfaces(), &queues(), &options).unwrap();
            let rounds = 20_000;
            let spent = crate::router::ip::tests::processor_time(|| {
                for number in 0..rounds {
                    capture.note(0, Instant::from_nanos(number), &packet, None);
                }
            });
            eprintln!("{} bytes: {:?}", packet.len(), spent / rounds as u32);
            let start = std::time::Instant::now();
            let captured = capture.finish().unwrap();
            eprintln!("{captured:?}, rest {:?}", start.elapsed());
        }
    }
}
