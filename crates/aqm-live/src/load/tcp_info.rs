//! What the kernel says of a connection: `TCP_INFO`, and the congestion control in force.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use aqm_net::Span;
use aqm_sim::emulation::EndCounts;
use socket2::SockRef;

/// What the kernel knows of a connection at one of its ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Segments sent again.
    pub retransmitted: u32,
    /// Retransmission timer expiries; missing before Linux 6.7.
    pub timeouts: Option<u16>,
    /// The congestion window, in segments.
    pub cwnd: u32,
    /// The smoothed round-trip time.
    pub srtt: Span,
    /// The congestion control in force.
    pub congestion_control: String,
}

/// Words of 32 bits of the kernel's `struct tcp_info` that are asked for (`linux/tcp.h`); a kernel that has fewer
/// gives fewer.
const WORDS: usize = 64;

/// Where they stand in it, counted in words.
const RTT_US: usize = 17;
const CWND: usize = 20;
const TOTAL_RETRANSMITTED: usize = 25;
/// The half that comes first in memory; the other one counts recoveries.
const TOTAL_RTO: usize = 60;

impl TcpInfo {
    /// What the kernel says of the connection of `socket` now.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub(super) fn of(socket: &impl AsFd) -> io::Result<Self> {
        let mut words = [0_u32; WORDS];
        let mut length = size_of_val(&words) as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to `words`, which live until then, and any bits are
        // numbers.
        let result = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                words.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        let name = SockRef::from(socket).tcp_congestion()?;
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        let known = length as usize / size_of::<u32>();
        let [first, second, ..] = words[TOTAL_RTO].to_ne_bytes();
        Ok(Self {
            retransmitted: words[TOTAL_RETRANSMITTED],
            timeouts: (known > TOTAL_RTO).then(|| u16::from_ne_bytes([first, second])),
            cwnd: words[CWND],
            srtt: Span::from_nanos(u64::from(words[RTT_US]) * 1000),
            congestion_control: String::from_utf8_lossy(name).into_owned(),
        })
    }

    /// What of it the tables of a run have.
    pub fn counts(&self) -> EndCounts {
        // How often Linux retransmitted fast it does not tell of a single connection.
        EndCounts { timeouts: self.timeouts.map(u64::from), fast_retransmits: None }
    }
}
