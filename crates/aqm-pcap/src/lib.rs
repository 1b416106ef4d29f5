//! Packet files in the pcapng format, for Wireshark and tshark. This crate writes the packets of simulated runs, and
//! contains the file writer that is used by live runs.

mod error;
#[cfg(test)]
mod fuzz;
mod packet_file;
mod simulated;

pub use error::PcapError;
pub use packet_file::{Fate, Interface, PacketFile, QueueName, Record, Verdict, remove_incomplete};
pub use simulated::{write_simulated, write_simulated_to};
