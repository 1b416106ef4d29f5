//! Construction of captures, and replays of them.

#![allow(dead_code)]
#![allow(clippy::disallowed_methods, reason = "a replay reads its trace from a file")]

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use aqm_net::level::{Failure, Plan as _, Run};
use aqm_net::watch::Watch;
use aqm_trace::Scenario;
use serde_json::{Value, json};

/// A packet of a capture: nanoseconds, bytes on the wire, and the port that identifies its flow.
pub type TestPacket = (u64, u32, u16);

/// A temporary file.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str, contents: &[u8]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("aqm-trace-{}-{number}-{name}", std::process::id()));
        std::fs::write(&path, contents).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The file may already have been removed.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Returns the first 28 bytes of an IPv4 packet with UDP.
pub fn frame(bytes: u32, port: u16) -> Vec<u8> {
    let mut frame = vec![0x45, 0];
    frame.extend((bytes as u16).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 53, 0, 8, 0, 0]);
    frame
}

fn words(to: &mut Vec<u8>, big: bool, words: &[u32]) {
    words.iter().for_each(|word| to.extend(if big { word.to_be_bytes() } else { word.to_le_bytes() }));
}

/// Returns the packets as pcap with link type raw IP and nanoseconds.
pub fn pcap(packets: &[TestPacket], big: bool) -> Vec<u8> {
    let mut file = Vec::new();
    words(&mut file, big, &[0xa1b2_3c4d]);
    file.extend(if big { [0, 2, 0, 4] } else { [2, 0, 4, 0] });
    words(&mut file, big, &[0, 0, 65535, 101]);
    for &(nanos, bytes, port) in packets {
        let frame = frame(bytes, port);
        let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        words(&mut file, big, &[seconds as u32, rest as u32, frame.len() as u32, bytes]);
        file.extend(frame);
    }
    file
}

/// Returns the packets as pcapng with link type Ethernet and nanoseconds.
pub fn pcapng(packets: &[TestPacket], big: bool) -> Vec<u8> {
    pcapng_of(packets, big, 6)
}

/// Returns the packets as pcapng in packet blocks of this type: 2, obsolete; 3, without timestamps; 6, present.
pub fn pcapng_of(packets: &[TestPacket], big: bool, block_type: u32) -> Vec<u8> {
    let mut file = Vec::new();
    let block = |file: &mut Vec<u8>, kind: u32, body: &[u8]| {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0);
        let length = body.len() as u32 + 12;
        words(file, big, &[kind, length]);
        file.extend(body);
        words(file, big, &[length]);
    };
    let mut section = Vec::new();
    words(&mut section, big, &[0x1a2b_3c4d]);
    section.extend(if big { [0, 1, 0, 0] } else { [1, 0, 0, 0] });
    section.extend([0xff; 8]);
    block(&mut file, 0x0a0d_0d0a, &section);
    let mut interface: Vec<u8> = if big { vec![0, 1, 0, 0] } else { vec![1, 0, 0, 0] };
    words(&mut interface, big, &[0]);
    // Option 9, the resolution: nanoseconds.
    interface.extend(if big { [0, 9, 0, 1] } else { [9, 0, 1, 0] });
    interface.extend([9, 0, 0, 0, 0, 0, 0, 0]);
    block(&mut file, 1, &interface);
    // Unknown blocks are skipped.
    block(&mut file, 0x0bad_cafe, &[1, 2, 3]);
    for &(nanos, bytes, port) in packets {
        let mut ethernet = vec![0; 12];
        ethernet.extend([0x08, 0]);
        ethernet.extend(frame(bytes, port));
        let mut body = Vec::new();
        match block_type {
            3 => words(&mut body, big, &[bytes]),
            _ => {
                words(&mut body, big, &[0, (nanos >> 32) as u32, nanos as u32, ethernet.len() as u32, bytes]);
            }
        }
        if block_type == 2 {
            // The interface is the first half of its word; the second half is a drop counter.
            body[..4].copy_from_slice(&[0, 0, 0xff, 0xff]);
        }
        body.extend(ethernet);
        block(&mut file, block_type, &body);
    }
    file
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// Returns the scenario of a file on a link of 10 Mb/s, with changes to its top-level values.
pub fn scenario(path: &str, changes: Value) -> Value {
    let mut value = json!({
        "rate": "10Mbps",
        "idle_timeout": "20ms",
        "every": "1ms",
        "source": { "kind": "file", "path": path },
    });
    for (name, changed) in changes.as_object().unwrap() {
        value[name] = changed.clone();
    }
    value
}

pub fn run(value: Value) -> Result<Run, Failure> {
    let scenario = Scenario::from_value(value).map_err(|errors| Failure::Config(errors.first().clone()))?;
    scenario.run(&Watch::default())
}

/// Replays a file with these contents.
pub fn replay(contents: &[u8], changes: Value) -> Result<Run, Failure> {
    let file = Scratch::new("trace", contents);
    run(scenario(file.path(), changes))
}

pub fn warnings(run: &Run) -> Vec<String> {
    serde_json::from_value(run.manifest["warnings"].clone()).unwrap()
}

/// Returns random packets of several flows, in ascending order of time.
pub fn packets(count: usize, flows: u64, seed: u64) -> Vec<TestPacket> {
    let mut rng = aqm_net::Streams::new(seed).named("test/packets", 0);
    let mut now = 1_000_000_000_000;
    let one = |_| {
        now += rng.below(2_000_000);
        (now, 40 + rng.below(1461) as u32, 1000 + rng.below(flows) as u16)
    };
    (0..count).map(one).collect()
}
