//! Programs that run inside a host, and what happens between `fork` and `exec`.
//!
//! Linux, pid_namespaces(7), mount_namespaces(7), prctl(2). Each program has a process namespace of its own, whose
//! first process is a copy of ours that does nothing but wait. When it goes, the kernel kills all that is left in
//! the namespace, daemons included; and it goes with the thread that made it, so at the latest with our process.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, RawFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{self, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{ForkResult, Pid, close, fork, getegid, geteuid, mkdir, write};

use crate::LiveError;

/// What a shell says of a program that a signal has ended: this and the number of the signal.
const SIGNALLED: i32 = 128;

/// The exit status that sysexits.h has for what the system refuses.
const EX_OSERR: i32 = 71;

/// What becomes of the processes that a program leaves behind when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemons {
    /// They end with it.
    End,
    /// They stay, and the program counts as running until the last of them ends: for servers that put
    /// themselves into the background.
    Stay,
}

/// A program inside a host. Dropping it kills it and all that it has started.
#[derive(Debug)]
pub struct Child {
    /// Its standard input, if that is a pipe.
    pub stdin: Option<ChildStdin>,
    /// Its standard output, if that is a pipe.
    pub stdout: Option<ChildStdout>,
    /// Its standard error, if that is a pipe.
    pub stderr: Option<ChildStderr>,
    process: Arc<Mutex<Option<Pid>>>,
    ended: Receiver<i32>,
    status: Option<i32>,
    keeper: Option<JoinHandle<()>>,
}

impl Child {
    /// Waits until it ends. Its exit status, or 128 and the number of the signal that ended it.
    pub fn wait(&mut self) -> i32 {
        let status = self.status.unwrap_or_else(|| self.ended.recv().unwrap_or(SIGNALLED));
        self.status = Some(status);
        status
    }

    /// Waits at most `timeout` until it ends. Its exit status as [`wait`](Self::wait) tells it, if it has ended.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Option<i32> {
        if self.status.is_none() {
            self.status = match self.ended.recv_timeout(timeout) {
                Ok(status) => Some(status),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(SIGNALLED),
            };
        }
        self.status
    }

    /// Kills it and all that it has started; does nothing if it has ended.
    pub fn kill(&self) {
        if let Some(first) = *lock(&self.process) {
            // It has not been waited for, so the number is still its own.
            let _ = kill(first, Signal::SIGKILL);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

/// The files that programs in a host find in `/etc`.
#[derive(Clone, Debug)]
pub(crate) struct EtcFiles {
    pub hosts: String,
    pub resolv_conf: String,
}

/// Starts `command` in the network `namespace`, with namespaces of its own for processes and mounts.
pub(crate) fn spawn(
    namespace: BorrowedFd<'_>,
    files: &EtcFiles,
    command: Command,
    daemons: Daemons,
) -> Result<Child, LiveError> {
    let what = format!("cannot run `{}`", command.get_program().display());
    let failed = |error: io::Error| LiveError::new(&what, error);
    let namespace = namespace.try_clone_to_owned().map_err(failed)?;
    let files = files.clone();
    let process = Arc::new(Mutex::new(None));
    let (tell, started) = mpsc::channel();
    let (end, ended) = mpsc::channel();
    let kept = Arc::clone(&process);
    let keep = move || {
        let alone = "it cannot have processes and mounts of its own";
        let entered = enter(namespace.as_fd(), &files)
            .map_err(|error| io::Error::other(format!("{alone}: {}", error.desc())));
        let mut child = match entered.and_then(|()| start(command, daemons)) {
            Ok(child) => child,
            Err(error) => return drop(tell.send(Err(error))),
        };
        *lock(&kept) = Some(pid_of(&child));
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        if tell.send(Ok(pipes)).is_ok() {
            wait_and_tell(child, &kept, &end);
        }
    };
    // The first process dies with the thread that made it: this one, so it stays until then.
    let keeper = std::thread::Builder::new().name("program".to_owned()).spawn(keep).map_err(failed)?;
    let (stdin, stdout, stderr) =
        started.recv().unwrap_or_else(|_| Err(io::Error::other("its thread ended"))).map_err(failed)?;
    Ok(Child { stdin, stdout, stderr, process, ended, status: None, keeper: Some(keeper) })
}

fn pid_of(child: &process::Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

fn lock(process: &Mutex<Option<Pid>>) -> MutexGuard<'_, Option<Pid>> {
    process.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for the first process of a program and tells its exit status. It is reaped under the lock, so that
/// nobody kills another that has got its number.
fn wait_and_tell(mut child: process::Child, process: &Mutex<Option<Pid>>, end: &Sender<i32>) {
    let ended = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    while waitid(Id::Pid(pid_of(&child)), ended) == Err(Errno::EINTR) {}
    let mut first = lock(process);
    let status = child.wait().map_or(SIGNALLED, exit_status);
    *first = None;
    let _ = end.send(status);
}

/// The exit status as a shell tells it.
fn exit_status(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| SIGNALLED + status.signal().unwrap_or_default())
}

/// Moves the calling thread into the network namespace and a mount namespace of its own with the given files,
/// and its children into a process namespace.
fn enter(network: BorrowedFd<'_>, files: &EtcFiles) -> nix::Result<()> {
    setns(network, CloneFlags::CLONE_NEWNET)?;
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID)?;
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    // A file system in memory must stand somewhere until its files are bound: here, as nothing looks at /proc now.
    mount(Some("etc"), "/proc", Some("tmpfs"), MsFlags::empty(), Some("mode=0755"))?;
    let bound = bind(files);
    // Refused where parts of /sys are hidden (containers); then programs see the devices of the machine there.
    let _ = show_devices();
    umount2("/proc", MntFlags::MNT_DETACH)?;
    bound
}

/// Binds the files over those in `/etc`. One that is missing there is not made, as that would be in the file
/// system of the machine.
fn bind(files: &EtcFiles) -> nix::Result<()> {
    let none: Option<&str> = None;
    for (name, text) in [("hosts", &files.hosts), ("resolv.conf", &files.resolv_conf)] {
        let (from, to) = (format!("/proc/{name}"), format!("/etc/{name}"));
        fs::write(&from, text).map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or_default()))?;
        match mount(Some(from.as_str()), to.as_str(), none, MsFlags::MS_BIND, none) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Shows the devices of the network namespace in `/sys/class/net`, and those of the machine no longer. The rest of
/// `/sys` stays.
fn show_devices() -> nix::Result<()> {
    let none: Option<&str> = None;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC | MsFlags::MS_RDONLY;
    mkdir("/proc/sysfs", Mode::S_IRWXU)?;
    mount(Some("sysfs"), "/proc/sysfs", Some("sysfs"), flags, none)?;
    // What is in the class are links to the devices.
    for directory in ["devices/virtual/net", "class/net"] {
        let (from, to) = (format!("/proc/sysfs/{directory}"), format!("/sys/{directory}"));
        mount(Some(from.as_str()), to.as_str(), none, MsFlags::MS_BIND, none)?;
    }
    Ok(())
}

/// Starts the program, and the first process of its namespace above it.
fn start(mut command: Command, daemons: Daemons) -> io::Result<process::Child> {
    let (reader, writer) = io::pipe()?;
    let writing = writer.as_raw_fd();
    let between = move || {
        die_with_parent(reader.as_fd(), writing)?;
        let none: Option<&str> = None;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        // Refused where parts of /proc are hidden (containers); then programs see the processes outside.
        let _ = mount(Some("proc"), "/proc", Some("proc"), flags, none);
        // SAFETY: the child of the fork calls nothing but `exec`, its parent what `wait_for_all` lists.
        match unsafe { fork() }? {
            ForkResult::Child => Ok(()),
            ForkResult::Parent { child } => wait_for_all(child, daemons),
        }
    };
    // SAFETY: `between` only makes system calls, and neither allocates nor takes a lock that another thread of
    // the forked process could have held.
    unsafe { command.pre_exec(between) };
    let child = command.spawn();
    drop(writer);
    child
}

/// Has the kernel kill this process when the thread that made it ends. `reader` and `writing` are the ends of a
/// pipe, whose other copies the parent holds: if they are gone, it has died already.
fn die_with_parent(reader: BorrowedFd<'_>, writing: RawFd) -> nix::Result<()> {
    set_pdeathsig(Signal::SIGKILL)?;
    close(writing)?;
    let mut ends = [PollFd::new(reader, PollFlags::POLLIN)];
    if poll(&mut ends, PollTimeout::ZERO)? > 0 { Err(Errno::ESRCH) } else { Ok(()) }
}

/// The first process of a namespace: waits for `program` and for what has lost its parent, and ends with the exit
/// status of the program.
fn wait_for_all(program: Pid, daemons: Daemons) -> ! {
    // SAFETY: system calls only. The copies of our files are closed, or devices, pipes and the files of the
    // program would live as long as this process; nothing here uses them.
    unsafe {
        if libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, 0) != 0 {
            libc::_exit(EX_OSERR);
        }
        let mut own_status = SIGNALLED;
        loop {
            let mut status = 0;
            let ended = libc::waitpid(-1, &raw mut status, 0);
            if ended == program.as_raw() {
                own_status = exit_status(ExitStatus::from_raw(status));
                if daemons == Daemons::End {
                    libc::_exit(own_status);
                }
            } else if ended < 0 && Errno::last() == Errno::ECHILD {
                libc::_exit(own_status);
            }
        }
    }
}

/// Runs `command` in a user namespace of its own in which the present user is root, waits for it and tells its
/// exit status as a shell does. It dies with the calling thread.
pub(crate) fn run_as_own_root(mut command: Command) -> io::Result<i32> {
    let uid_map = format!("0 {} 1\n", geteuid());
    let gid_map = format!("0 {} 1\n", getegid());
    let (reader, writer) = io::pipe()?;
    let writing = writer.as_raw_fd();
    let between = move || {
        unshare(CloneFlags::CLONE_NEWUSER)?;
        write_file(c"/proc/self/setgroups", "deny")?;
        write_file(c"/proc/self/uid_map", &uid_map)?;
        write_file(c"/proc/self/gid_map", &gid_map)?;
        // After `unshare`, which takes the wish back.
        die_with_parent(reader.as_fd(), writing)?;
        Ok(())
    };
    // SAFETY: `between` only makes system calls; its texts were made before.
    unsafe { command.pre_exec(between) };
    let child = command.spawn();
    drop(writer);
    Ok(exit_status(child?.wait()?))
}

fn write_file(path: &CStr, text: &str) -> nix::Result<()> {
    let file = open(path, OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    write(&file, text.as_bytes()).map(drop)
}
