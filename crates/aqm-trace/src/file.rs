//! A file that is used as a source of packets. The file contains a capture or a list of flows and may be compressed
//! with gzip. The type of the file is detected from its first bytes.

use aqm_net::digest::Digest;
use aqm_net::{ConfigError, Rate, Size, parameters};

use crate::capture::Capture;
use crate::generate::check_packet;
use crate::input::{self, Input};
use crate::list::List;
use crate::packets::{Build, Packets};
use aqm_net::level::Failure;
use aqm_net::watch::Watch;

parameters! {
    /// The packets of a file: a capture (pcap or pcapng), or a list of flows (CSV with the columns `start_s` and
    /// `bytes`, and optionally `rate` and `packet_bytes`). The file may be compressed with gzip.
    pub struct Config {
        /// Path of the file.
        pub path: String = String::new(), "no default: required";
        /// Rate of each flow that has no rate in a list of flows.
        pub rate: Rate = Rate::from_bps(10_000_000),
            "aqmlab's choice: the rate of the fastest flows in the Roberts & Augé talk";
        /// Packet size, in bytes, of each flow that has no packet size in a list of flows.
        pub packet: Size = Size::from_bytes(1000), "Roberts & Augé talk, packets of the simulations";
    }
}

impl Build for Config {
    fn check(&self) -> Result<(), ConfigError> {
        if self.path.is_empty() {
            return Err(ConfigError::at(
                "path",
                "is missing: set the path of a capture or of a list of flows",
            ));
        }
        check_packet(self.packet)
    }

    fn open<'a>(&self, _seed: u64, watch: &'a Watch) -> Result<Box<dyn Packets + 'a>, Failure> {
        let input = Input::open(&self.path, watch)?;
        if Capture::matches(input.head()) {
            Ok(Box::new(Capture::open(input)?))
        } else if List::matches(input.head()) {
            Ok(Box::new(List::open(input, self.rate, self.packet)?))
        } else {
            let problem = match input.error() {
                Some(error) => format!("cannot be decompressed: {error}"),
                None if input.head().is_empty() => "is empty".to_owned(),
                _ => "is neither a capture (pcap or pcapng) nor a list of flows (CSV whose first line contains \
                      `start_s` and `bytes`)"
                    .to_owned(),
            };
            Err(Failure::File(format!("{}: {problem}", self.path)))
        }
    }

    fn contents(&self) -> Result<String, Failure> {
        input::contents(&self.path, Digest::default(), 0)
    }
}
