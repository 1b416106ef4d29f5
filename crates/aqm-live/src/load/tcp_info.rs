//! The kernel state of a connection: `TCP_INFO`, and the congestion control that the connection uses.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use aqm_net::Span;
use aqm_sim::emulation::EndCounts;
use socket2::SockRef;

/// The kernel state of one end of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Number of retransmitted segments.
    pub retransmitted: u32,
    /// Number of expirations of the retransmission timer; `None` on kernels before Linux 6.7.
    pub timeouts: Option<u16>,
    /// Congestion window, in segments.
    pub cwnd: u32,
    /// Smoothed round-trip time.
    pub srtt: Span,
    /// Name of the congestion control that the connection uses.
    pub congestion_control: String,
}

/// Number of 32-bit words that are requested from the kernel's `struct tcp_info` (`linux/tcp.h`). A kernel whose
/// structure is shorter returns fewer words.
const WORDS: usize = 64;

/// Positions of fields in the structure, in words.
const RTT_US: usize = 17;
const CWND: usize = 20;
const TOTAL_RETRANSMITTED: usize = 25;
/// Position of the word whose first half in memory contains the number of timeouts. The other half contains the number
/// of recoveries.
const TOTAL_RTO: usize = 60;

impl TcpInfo {
    /// Returns the current state of the connection to which `socket` belongs.
    ///
    /// # Errors
    /// Returns an error if the kernel does not report the state.
    pub(super) fn of(socket: &impl AsFd) -> io::Result<Self> {
        let mut words = [0_u32; WORDS];
        let mut length = size_of_val(&words) as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to `words`, which outlives the call, and any bit pattern is
        // a valid integer.
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

    /// Returns the counts that the result tables contain as columns.
    pub fn counts(&self) -> EndCounts {
        // Linux does not report the number of fast retransmits of a single connection.
        EndCounts { timeouts: self.timeouts.map(u64::from), fast_retransmits: None }
    }
}
