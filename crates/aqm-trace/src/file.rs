//! A file as a source: a capture or a list of flows, packed with gzip or not. What it is, its first bytes
//! say.

use aqm_net::digest::Digest;
use aqm_net::{ConfigError, Rate, Size, parameters};

use crate::capture::Capture;
use crate::generate::check_packet;
use crate::input::{self, Input};
use crate::list::List;
use crate::packets::{Build, Packets};
use aqm_net::stage::Failure;
use aqm_net::watch::Watch;

parameters! {
    /// The packets of a file: a capture (pcap or pcapng), or a list of flows (CSV with the columns
    /// `start_s` and `bytes`, and perhaps `rate` and `packet_bytes`), packed with gzip or not.
    pub struct Config {
        /// Where it lies.
        pub path: String = String::new(), "no default: must be given";
        /// The rate of a flow in a list that tells none.
        pub rate: Rate = Rate::from_bps(10_000_000), "aqmlab's choice: the fastest of the Roberts & Augé talk";
        /// Bytes of a packet of a flow in a list that tells none.
        pub packet: Size = Size::from_bytes(1000), "Roberts & Augé talk, packets of the simulations";
    }
}

impl Build for Config {
    fn check(&self) -> Result<(), ConfigError> {
        if self.path.is_empty() {
            return Err(ConfigError::at("path", "must be given: a capture, or a list of flows"));
        }
        check_packet(self.packet)
    }

    fn open<'a>(&self, _seed: u64, watch: &'a Watch) -> Result<Box<dyn Packets + 'a>, Failure> {
        let input = Input::open(&self.path, watch)?;
        if Capture::is_one(input.head()) {
            Ok(Box::new(Capture::open(input)?))
        } else if List::is_one(input.head()) {
            Ok(Box::new(List::open(input, self.rate, self.packet)?))
        } else {
            let problem = match input.trouble() {
                Some(trouble) => format!("cannot be unpacked: {trouble}"),
                None if input.head().is_empty() => "is empty".to_owned(),
                _ => "is neither a capture (pcap or pcapng) nor a list of flows (CSV whose first line names \
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
