//! The kernel's TCP senders, looked at from time to time by socket diagnostics: for the table `senders`, and beside
//! the windows that packets tell ([`crate::tcp::hints`]). Each host has a thread for it, which the router does not wait for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use aqm_net::{Instant, Span};
use aqm_sim::Plan;
use aqm_sim::emulation::Side;

use crate::host::lab::{Host, Lab};
use crate::load::Place;
use crate::tcp::inet_diag::{SocketDiagnostics, TcpState};
use crate::tcp::windows::{Ends, Windows};
use crate::{Clock, LiveError};

/// How often windows in packets are compared with the kernel's where no table says how often.
const EVERY: Span = Span::from_millis(100);

/// Windows that differ by so many segments, or by this share, agree: the kernel is asked after the packet was sent.
const NEAR: u32 = 2;
const NEAR_SHARE: f64 = 0.2;

/// Hosts that are to be looked at.
pub struct Senders<'a> {
    hosts: Vec<Sender<'a>>,
    every: Span,
    /// What packets tell.
    told: Option<Arc<Windows>>,
}

struct Sender<'a> {
    host: &'a Host,
    diagnostics: SocketDiagnostics,
    traffic: u32,
    /// Whether a table wants its states.
    kept: bool,
}

/// A sender at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When.
    pub at: Instant,
    /// The position of its workload.
    pub traffic: u32,
    /// What the kernel said.
    pub state: TcpState,
}

/// How often windows in packets were compared with the kernel's, and how often they agreed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// All comparisons.
    pub compared: u64,
    /// Those of the same window.
    pub agreed: u64,
}

/// What was seen of senders.
#[derive(Default)]
pub struct Sampled {
    /// Those that a table wants, host by host.
    pub samples: Vec<Sample>,
    /// What was compared.
    pub agreement: Agreement,
}

/// Whoever looks.
pub struct Sampling {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Sampled>>,
}

impl<'a> Senders<'a> {
    /// Those of the workloads of `plan` that its tables want; with windows `told` in packets those of all.
    ///
    /// # Errors
    /// If the kernel has no socket diagnostics and a table wants them.
    pub fn of(plan: &Plan, lab: &'a Lab, told: Option<Arc<Windows>>) -> Result<Self, LiveError> {
        let mut hosts = Vec::new();
        let record_every = plan.sampled_every();
        for (traffic, planned) in (0..).zip(plan.workloads()) {
            let kept = planned.sampled && !record_every.is_zero();
            if !kept && told.is_none() {
                continue;
            }
            let host = lab.at(Place { traffic, side: Side::Sender });
            match host.ask(SocketDiagnostics::open) {
                Ok(diagnostics) => hosts.push(Sender { host, diagnostics, traffic, kept }),
                Err(error) if kept => return Err(error),
                // There is nothing to compare with, which the record shows.
                Err(_) => {}
            }
        }
        let every = if hosts.iter().any(|one| one.kept) { record_every } else { EVERY };
        Ok(Self { hosts, every, told })
    }

    /// Looks at them from now on, which is when `clock` begins.
    ///
    /// # Errors
    /// If no thread can be had.
    pub fn start(self, clock: Clock) -> Result<Sampling, LiveError> {
        let over = Arc::new(AtomicBool::new(false));
        let mut sampling = Sampling { over: Arc::clone(&over), threads: Vec::new() };
        for Sender { host, mut diagnostics, traffic, kept } in self.hosts {
            let (told, over, every) = (self.told.clone(), Arc::clone(&over), self.every);
            sampling.threads.push(host.run(move || {
                let mut sampled = Sampled::default();
                let mut next = Instant::START + every;
                while !over.load(Relaxed) {
                    let now = clock.now();
                    if now < next {
                        // Never for long: a run may be over at any time.
                        sleep(Duration::from_nanos(next.since(now).nanos()).min(Duration::from_millis(50)));
                        continue;
                    }
                    // A dump that fails is one that says nothing.
                    let _ = diagnostics.dump(|state| {
                        if kept {
                            sampled.samples.push(Sample { at: clock.now(), traffic, state: *state });
                        }
                        if let Some(told) = &told {
                            sampled.agreement.compare(told, state);
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
    /// Looks no longer.
    pub fn finish(mut self) -> Sampled {
        self.over.store(true, Relaxed);
        let mut all = Sampled::default();
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
    /// Compares what packets told of a connection with its state. One that does not fill its window says nothing: its
    /// window may have grown since its last packet.
    fn compare(&mut self, told: &Windows, state: &TcpState) {
        let window = told.last(Ends { local: state.local, remote: state.remote });
        let cwnd = state.cwnd.min(u16::MAX.into());
        if window == 0 || state.in_flight + 1 < cwnd {
            return;
        }
        let apart = u32::from(window).abs_diff(cwnd);
        self.compared += 1;
        self.agreed += u64::from(apart <= NEAR || f64::from(apart) <= NEAR_SHARE * f64::from(cwnd));
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};

    use super::*;

    #[test]
    fn a_window_is_compared_where_it_is_full() {
        let (told, mut agreement) = (Windows::new(), Agreement::default());
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
            agreement.compare(&told, &state);
            (agreement.compared, agreement.agreed)
        };
        assert_eq!(compare(10, 10), (0, 0), "nothing was told");
        told.note(Ends { local: end(1), remote: end(2) }, 40);
        assert_eq!(compare(80, 40), (0, 0), "it grew since");
        assert_eq!(compare(45, 44), (1, 1));
        assert_eq!(compare(20, 20), (2, 1));
        assert_eq!(compare(42, 50), (3, 2));
    }
}
