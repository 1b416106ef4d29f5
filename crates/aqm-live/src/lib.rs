//! Live runs: real hosts send traffic through the queues of a plan in real time.
//!
//! Only this crate uses clocks, threads, devices and real packets. The network is an
//! [`Emulation`](aqm_sim::emulation::Emulation), with the same links, queues and edges as in a simulation.

mod error;
#[cfg(test)]
mod fuzz;
mod host;
mod load;
mod pcap;
mod router;
mod run;
mod tcp;
#[cfg(test)]
mod testing;

pub use error::{FileError, LiveError};
pub use host::lab::{Host, HostSpec, Lab};
pub use host::netlink::DeviceStatistics;
pub use host::privileges::{Privileges, needs_user_namespace, run_in_user_namespace};
pub use host::program::{Child, Daemons};
pub use host::realtime::{Grant, Realtime};
pub use router::clock::Clock;
pub use run::{Failure, Options, run};
pub use tcp::kernel_tcp::{Kernel, KernelTcp};
