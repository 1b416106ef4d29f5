//! Samples of the state of the kernel's TCP senders, read through socket diagnostics. The samples are recorded in the
//! table `senders` and compared with the windows in packets ([`crate::tcp::hints`]). Each host is sampled by a separate
//! thread, so that the router does not have to wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use aqm_net::{Instant, Span};
use aqm_sim::Plan;
use aqm_sim::emulation::Side;

use crate::host::lab::{Host, Lab};
use crate::load::HostIndex;
use crate::tcp::inet_diag::{SocketDiagnostics, TcpState};
use crate::tcp::windows::{Ends, Windows};
use crate::{Clock, LiveError};

/// Interval at which windows in packets are compared with the kernel's windows, if no table specifies a sampling
/// interval.
const COMPARISON_INTERVAL: Span = Span::from_millis(100);

/// Two windows are considered to agree if their difference is at most `TOLERANCE` segments or at most the fraction
/// `TOLERANCE_SHARE` of the window. Windows may differ because the kernel is queried after the packet was sent.
const TOLERANCE: u32 = 2;
const TOLERANCE_SHARE: f64 = 0.2;

/// The hosts to sample.
pub struct Senders<'a> {
    hosts: Vec<Sender<'a>>,
    every: Span,
    /// The windows in packets, if packets contain windows.
    reported: Option<Arc<Windows>>,
}

struct Sender<'a> {
    host: &'a Host,
    diagnostics: SocketDiagnostics,
    traffic: u32,
    /// Whether a table records the samples.
    recorded: bool,
}

/// The state of a sender at one time.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Time of the sample.
    pub at: Instant,
    /// Position of the workload.
    pub traffic: u32,
    /// State that the kernel reports.
    pub state: TcpState,
}

/// The results of the comparisons between windows in packets and the kernel's windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Number of comparisons.
    pub compared: u64,
    /// Number of comparisons in which the windows agreed.
    pub agreed: u64,
}

/// The samples of senders.
#[derive(Default)]
pub struct Samples {
    /// Samples for the table `senders`, in the order of hosts.
    pub samples: Vec<Sample>,
    /// The results of the comparisons between windows.
    pub agreement: Agreement,
}

/// The sampling threads.
pub struct Sampling {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Samples>>,
}

impl<'a> Senders<'a> {
    /// Selects the workloads of `plan` whose senders are recorded in a table or, if packets contain windows
    /// (`reported`), all workloads.
    ///
    /// # Errors
    /// Returns an error if a table needs the samples but the kernel does not support socket diagnostics.
    pub fn of(plan: &Plan, lab: &'a Lab, reported: Option<Arc<Windows>>) -> Result<Self, LiveError> {
        let mut hosts = Vec::new();
        let record_every = plan.sampled_every();
        for (traffic, planned) in (0..).zip(plan.workloads()) {
            let recorded = planned.sampled && !record_every.is_zero();
            if !recorded && reported.is_none() {
                continue;
            }
            let host = lab.at(HostIndex { traffic, side: Side::Sender });
            match host.query(SocketDiagnostics::open) {
                Ok(diagnostics) => hosts.push(Sender { host, diagnostics, traffic, recorded }),
                Err(error) if recorded => return Err(error),
                // Without socket diagnostics, windows are not compared, and the manifest contains zero comparisons.
                Err(_) => {}
            }
        }
        let every = if hosts.iter().any(|one| one.recorded) { record_every } else { COMPARISON_INTERVAL };
        Ok(Self { hosts, every, reported })
    }

    /// Starts threads that sample the senders. Time zero of the samples is the time at which `clock` was started.
    ///
    /// # Errors
    /// Returns an error if a thread cannot start.
    pub fn start(self, clock: Clock) -> Result<Sampling, LiveError> {
        let over = Arc::new(AtomicBool::new(false));
        let mut sampling = Sampling { over: Arc::clone(&over), threads: Vec::new() };
        for Sender { host, mut diagnostics, traffic, recorded } in self.hosts {
            let (reported, over, every) = (self.reported.clone(), Arc::clone(&over), self.every);
            sampling.threads.push(host.run(move || {
                let mut sampled = Samples::default();
                let mut next = Instant::START + every;
                while !over.load(Relaxed) {
                    let now = clock.now();
                    if now < next {
                        // The thread sleeps only briefly, because the run may end at any time.
                        sleep(Duration::from_nanos(next.since(now).nanos()).min(Duration::from_millis(50)));
                        continue;
                    }
                    // A failed query returns no samples.
                    let _ = diagnostics.dump(|state| {
                        if recorded {
                            sampled.samples.push(Sample { at: clock.now(), traffic, state: *state });
                        }
                        if let Some(reported) = &reported {
                            sampled.agreement.compare(reported, state);
                        }
                    });
                    next = (next + every).max(now);
                }
                sampled
            })?);
        }
        Ok(sampling)
    }
}

impl Sampling {
    /// Stops sampling and returns the samples.
    pub fn finish(mut self) -> Samples {
        self.over.store(true, Relaxed);
        let mut all = Samples::default();
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok(mut sampled) => {
                    all.samples.append(&mut sampled.samples);
                    all.agreement.compared += sampled.agreement.compared;
                    all.agreement.agreed += sampled.agreement.agreed;
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
    }
}

impl Agreement {
    /// Compares the last window that the packets of a connection reported with the window in `state`. The comparison is
    /// skipped if the connection does not use its full window, because the window may have grown since the last packet.
    fn compare(&mut self, reported: &Windows, state: &TcpState) {
        let window = reported.last(Ends { local: state.local, remote: state.remote });
        let cwnd = state.cwnd.min(u16::MAX.into());
        if window == 0 || state.in_flight + 1 < cwnd {
            return;
        }
        let difference = u32::from(window).abs_diff(cwnd);
        self.compared += 1;
        self.agreed +=
            u64::from(difference <= TOLERANCE || f64::from(difference) <= TOLERANCE_SHARE * f64::from(cwnd));
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};

    use super::*;

    #[test]
    fn a_window_is_compared_where_it_is_full() {
        let (reported, mut agreement) = (Windows::new(), Agreement::default());
        let end = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let mut compare = |cwnd, in_flight| {
            let (local, remote, none) = (end(1), end(2), Span::ZERO);
            let state = TcpState {
                local,
                remote,
                cwnd,
                in_flight,
                ssthresh: None,
                srtt: none,
                rto: none,
                retransmissions: 0,
                timeouts: None,
            };
            agreement.compare(&reported, &state);
            (agreement.compared, agreement.agreed)
        };
        assert_eq!(compare(10, 10), (0, 0), "no window was reported");
        reported.note(Ends { local: end(1), remote: end(2) }, 40);
        assert_eq!(compare(80, 40), (0, 0), "the window has grown since");
        assert_eq!(compare(45, 44), (1, 1));
        assert_eq!(compare(20, 20), (2, 1));
        assert_eq!(compare(42, 50), (3, 2));
    }
}
