//! Real-time priority for the router's thread, and precise sleeping.
//!
//! Sources: Linux, sched(7), mlockall(2), prctl(2). The kernel suspends real-time threads that run without a pause for
//! tens of milliseconds (`sched_rt_runtime_us`), so a thread that spins all the time would be late. The router's thread
//! therefore sleeps, and spins only shortly before the end of its wait.

#![allow(unsafe_code)]

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, ppoll};
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::prctl::set_timerslack;
use nix::sys::time::TimeSpec;
use serde::Serialize;

/// Time before the end of a wait at which the thread wakes up, which is also the maximum time for which the thread
/// spins. The value is about twice the time that a wake-up takes.
pub const SPIN: Duration = Duration::from_micros(60);

/// A privilege that the system granted, or the reason why the system denied it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "granted", content = "why", rename_all = "kebab-case")]
pub enum Grant {
    /// The system granted the privilege.
    Yes,
    /// The system denied the privilege for this reason.
    No(String),
}

impl Grant {
    /// Returns whether the system granted the privilege.
    pub fn is_granted(&self) -> bool {
        *self == Self::Yes
    }

    fn of(outcome: Result<(), Errno>, remedy: &str) -> Self {
        outcome.map_or_else(|error| Self::No(format!("{}; {remedy}", error.desc())), |()| Self::Yes)
    }
}

/// The privileges of a real-time thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Realtime {
    /// The scheduling policy SCHED_FIFO, under which ordinary processes cannot delay the thread.
    pub fifo: Grant,
    /// Locked memory: the memory of the process is never swapped out.
    pub locked_memory: Grant,
    /// Minimum timer slack: the kernel does not delay timers in order to let several timers expire together.
    pub timer_slack: Grant,
}

/// Makes the calling thread a real-time thread with this `priority` (1 to 99), to the extent that the system grants the
/// privileges. Threads and programs that the calling thread starts are not real-time threads.
pub fn realtime(priority: i32) -> Realtime {
    let lock = "locked memory needs the capability CAP_IPC_LOCK, or no limit on locked memory (`ulimit -l`)";
    Realtime {
        fifo: request_fifo(priority),
        locked_memory: Grant::of(lock_memory(), lock),
        timer_slack: Grant::of(set_timerslack(1), "the system denied PR_SET_TIMERSLACK"),
    }
}

/// Sets the scheduling policy SCHED_FIFO for the calling thread, if the system permits this policy.
pub(crate) fn request_fifo(priority: i32) -> Grant {
    let remedy =
        "SCHED_FIFO needs the capability CAP_SYS_NICE, or a higher limit on real-time priority (`ulimit -r`)";
    Grant::of(fifo(priority), remedy)
}

fn fifo(priority: i32) -> Result<(), Errno> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: `parameters` outlives the call; the thread ID 0 refers to the calling thread.
    let done = unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameters)
    };
    Errno::result(done).map(drop)
}

/// Locks current and future memory pages. The limit on locked memory is removed first, because later allocations could
/// otherwise exceed the limit and fail.
fn lock_memory() -> Result<(), Errno> {
    use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
    if getrlimit(Resource::RLIMIT_MEMLOCK)?.0 != RLIM_INFINITY && !crate::host::privileges::may_lock_memory()
    {
        setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY)?;
    }
    // Pages are locked when they are first accessed, so a large address space does not use memory.
    let on_fault = MlockAllFlags::from_bits_retain(libc::MCL_ONFAULT);
    mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE | on_fault)
}

/// Waits until one of `files` is ready, or until the time `until`. Sleeps until [`SPIN`] before `until`, and then
/// spins. Returns the number of ready files, or 0 after a signal.
///
/// # Errors
/// Returns the errors of `ppoll`; an interruption by a signal is not an error.
pub fn wait(files: &mut [PollFd<'_>], until: Option<Instant>) -> Result<usize, Errno> {
    let Some(until) = until else { return poll(files, None) };
    let asleep = until.saturating_duration_since(Instant::now()).saturating_sub(SPIN);
    let mut ready = poll(files, Some(asleep))?;
    // If a signal interrupts the sleep, the wait ends, and the caller reads the clock again.
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

/// Waits until one of `files` is ready, or until the time `timeout` has elapsed. Does not spin, because a sleep in
/// virtual time ends exactly on time. Returns the number of ready files, or 0 after a signal.
///
/// # Errors
/// Returns the errors of `ppoll`; an interruption by a signal is not an error.
pub fn wait_in_virtual_time(files: &mut [PollFd<'_>], timeout: Duration) -> Result<usize, Errno> {
    poll(files, Some(timeout))
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
    fn a_wait_ends_on_time_and_not_before() {
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
    fn a_wait_in_virtual_time_lasts_as_long_or_ends_when_a_file_is_ready() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let begun = Instant::now();
        let mut files = [PollFd::new(reader.as_fd(), PollFlags::POLLIN)];
        assert_eq!(wait_in_virtual_time(&mut files, Duration::from_millis(3)), Ok(0));
        assert!(begun.elapsed() >= Duration::from_millis(3));
        writer.write_all(b"x").unwrap();
        assert_eq!(wait_in_virtual_time(&mut files, Duration::from_secs(60)), Ok(1));
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_refusal_is_reported_with_its_reason_and_remedy() {
        let granted = std::thread::spawn(|| realtime(1000)).join().unwrap();
        assert!(!granted.fifo.is_granted());
        let Grant::No(why) = granted.fifo else { return };
        assert_eq!(why.split("; ").next(), Some("Invalid argument"));
        assert!(why.contains("CAP_SYS_NICE"), "{why}");
        assert!(granted.timer_slack.is_granted());
    }
}
