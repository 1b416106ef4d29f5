//! Real-time priority for the thread of the router, and sleep that ends when it should.
//!
//! Linux, sched(7), mlockall(2), prctl(2). The kernel takes the processor from real-time threads that run without a
//! pause (`sched_rt_runtime_us`), for tens of milliseconds at a time: a thread that waits by spinning is late. So it
//! sleeps, and spins only for the last moment.

#![allow(unsafe_code)]

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, ppoll};
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::prctl::set_timerslack;
use nix::sys::time::TimeSpec;
use serde::Serialize;

/// How long before a moment a thread wakes up to spin, and the longest that it spins: about twice of what a wake-up
/// from sleep takes.
pub const SPIN: Duration = Duration::from_micros(60);

/// What the system has granted to a thread, or why it has not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "granted", content = "why", rename_all = "kebab-case")]
pub enum Grant {
    /// It is in force.
    Yes,
    /// It is not, for this reason.
    No(String),
}

impl Grant {
    /// Whether it is in force.
    pub fn is_granted(&self) -> bool {
        *self == Self::Yes
    }

    fn of(outcome: Result<(), Errno>, remedy: &str) -> Self {
        outcome.map_or_else(|error| Self::No(format!("{}; {remedy}", error.desc())), |()| Self::Yes)
    }
}

/// What a thread was granted that asked to be on time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Realtime {
    /// The scheduling policy SCHED_FIFO: no other program delays it.
    pub fifo: Grant,
    /// That the memory of the process stays in memory.
    pub locked_memory: Grant,
    /// That its timers are not delayed to run out together with others.
    pub timer_slack: Grant,
}

/// Makes the calling thread a real-time thread of this `priority` (1 to 99), as far as the system grants it. Threads
/// and programs that it starts are not.
pub fn realtime(priority: i32) -> Realtime {
    let lock = "it needs the capability CAP_IPC_LOCK, or no limit of locked memory (`ulimit -l`)";
    Realtime {
        fifo: ask_for_fifo(priority),
        locked_memory: Grant::of(lock_memory(), lock),
        timer_slack: Grant::of(set_timerslack(1), "PR_SET_TIMERSLACK is refused"),
    }
}

/// Gives the calling thread the scheduling policy SCHED_FIFO, if the system grants it.
pub(crate) fn ask_for_fifo(priority: i32) -> Grant {
    let remedy = "it needs the capability CAP_SYS_NICE, or a limit of real-time priority (`ulimit -r`)";
    Grant::of(fifo(priority), remedy)
}

fn fifo(priority: i32) -> Result<(), Errno> {
    let wanted = libc::sched_param { sched_priority: priority };
    // SAFETY: `wanted` outlives the call; 0 is the calling thread.
    let done = unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const wanted)
    };
    Errno::result(done).map(drop)
}

/// Locks what is in memory, and what comes into it. Under a limit that would make later allocations fail, so it asks
/// for the limit to be none first.
fn lock_memory() -> Result<(), Errno> {
    use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
    if getrlimit(Resource::RLIMIT_MEMLOCK)?.0 != RLIM_INFINITY && !crate::host::privileges::may_lock_memory()
    {
        setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY)?;
    }
    // Pages are locked as they are touched, so that a large address space costs nothing.
    let on_fault = MlockAllFlags::from_bits_retain(libc::MCL_ONFAULT);
    mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE | on_fault)
}

/// Waits until one of `files` is ready, or until the moment `until`: asleep until [`SPIN`] before it, then spinning.
/// The number of files that are ready; 0 if a signal came.
///
/// # Errors
/// What `ppoll` says beside the signal.
pub fn wait(files: &mut [PollFd<'_>], until: Option<Instant>) -> Result<usize, Errno> {
    let Some(until) = until else { return poll(files, None) };
    let asleep = until.saturating_duration_since(Instant::now()).saturating_sub(SPIN);
    let mut ready = poll(files, Some(asleep))?;
    // A sleep cut short, by a signal, ends the wait: the caller looks at the clock.
    while ready == 0 {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || left > SPIN {
            break;
        }
        std::hint::spin_loop();
        ready = poll(files, Some(Duration::ZERO))?;
    }
    Ok(ready)
}

fn poll(files: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<usize, Errno> {
    match ppoll(files, timeout.map(TimeSpec::from_duration), None) {
        Ok(ready) => Ok(usize::try_from(ready).unwrap_or_default()),
        Err(Errno::EINTR) => Ok(0),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    use nix::poll::PollFlags;

    use super::*;

    #[test]
    fn a_wait_ends_at_its_moment_and_not_before() {
        let (reader, _writer) = std::io::pipe().unwrap();
        for micros in [0, 20, 500, 3000] {
            let until = Instant::now() + Duration::from_micros(micros);
            let ready = wait(&mut [PollFd::new(reader.as_fd(), PollFlags::POLLIN)], Some(until)).unwrap();
            assert_eq!(ready, 0);
            assert!(Instant::now() >= until);
            assert!(until.elapsed() < Duration::from_secs(30), "{:?} late", until.elapsed());
        }
    }

    #[test]
    fn a_wait_ends_when_a_file_is_ready() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"x").unwrap();
        let mut files = [PollFd::new(reader.as_fd(), PollFlags::POLLIN)];
        let begun = Instant::now();
        assert_eq!(wait(&mut files, Some(begun + Duration::from_secs(60))), Ok(1));
        assert_eq!(wait(&mut files, None), Ok(1));
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn what_is_refused_is_told_with_its_reason_and_remedy() {
        let granted = std::thread::spawn(|| realtime(1000)).join().unwrap();
        assert!(!granted.fifo.is_granted());
        let Grant::No(why) = granted.fifo else { return };
        assert_eq!(why.split("; ").next(), Some("Invalid argument"));
        assert!(why.contains("CAP_SYS_NICE"), "{why}");
        assert!(granted.timer_slack.is_granted());
    }
}
