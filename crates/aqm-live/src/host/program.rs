//! Programs that run inside a host, and the code that runs between `fork` and `exec`.
//!
//! Sources: Linux, pid_namespaces(7), mount_namespaces(7), prctl(2). Each program has its own process namespace. The
//! first process in this namespace is a copy of the current process, and does nothing but wait for other processes.
//! When the first process ends, the kernel kills all remaining processes in the namespace, including daemons. The
//! kernel kills the first process when the thread that created it ends, which is no later than the end of the current
//! process.

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

/// Base of the exit status of a program that was terminated by a signal. As in a shell, the exit status is this value
/// plus the signal number.
const SIGNALLED: i32 = 128;

/// The exit status EX_OSERR from sysexits.h, which is used if the system denies an operation.
const EX_OSERR: i32 = 71;

/// What happens to a program's remaining processes when the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemons {
    /// Remaining processes are killed.
    End,
    /// Remaining processes continue, and the program is considered to be running until the last remaining process ends.
    /// This variant is for servers that detach into the background.
    Stay,
}

/// A program inside a host. Dropping this value kills the program and all of its child processes.
#[derive(Debug)]
pub struct Child {
    /// The standard input, if it is a pipe.
    pub stdin: Option<ChildStdin>,
    /// The standard output, if it is a pipe.
    pub stdout: Option<ChildStdout>,
    /// The standard error, if it is a pipe.
    pub stderr: Option<ChildStderr>,
    process: Arc<Mutex<Option<Pid>>>,
    ended: Receiver<i32>,
    status: Option<i32>,
    keeper: Option<JoinHandle<()>>,
}

impl Child {
    /// Waits until the program ends. Returns the program's exit status, or 128 plus the number of the signal that
    /// terminated the program.
    pub fn wait(&mut self) -> i32 {
        let status = self.status.unwrap_or_else(|| self.ended.recv().unwrap_or(SIGNALLED));
        self.status = Some(status);
        status
    }

    /// Waits until the program ends or until `timeout` has elapsed. Returns the exit status as in [`wait`](Self::wait),
    /// or `None` if the program has not ended.
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

    /// Kills the program and all of its child processes. Does nothing if the program has ended.
    pub fn kill(&self) {
        if let Some(first) = *lock(&self.process) {
            // The process has not been reaped, so its PID cannot have been reused.
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

/// The files in `/etc` that programs in a host see in place of the machine's files.
#[derive(Clone, Debug)]
pub(crate) struct EtcFiles {
    pub hosts: String,
    pub resolv_conf: String,
}

/// Starts `command` in the network namespace `namespace`, with a process namespace and a mount namespace of its own.
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
    let (sender, started) = mpsc::channel();
    let (end, ended) = mpsc::channel();
    let thread_process = Arc::clone(&process);
    let keep = move || {
        let reason = "the system denied permission to create process and mount namespaces";
        let entered = enter(namespace.as_fd(), &files)
            .map_err(|error| io::Error::other(format!("{reason}: {}", error.desc())));
        let mut child = match entered.and_then(|()| start(command, daemons)) {
            Ok(child) => child,
            Err(error) => return drop(sender.send(Err(error))),
        };
        *lock(&thread_process) = Some(pid_of(&child));
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        if sender.send(Ok(pipes)).is_ok() {
            reap(child, &thread_process, &end);
        }
    };
    // The kernel kills the first process when the thread that created it ends, so this thread waits until the first
    // process ends.
    let keeper = std::thread::Builder::new().name("program".to_owned()).spawn(keep).map_err(failed)?;
    let (stdin, stdout, stderr) = started
        .recv()
        .unwrap_or_else(|_| Err(io::Error::other("the program's thread has ended")))
        .map_err(failed)?;
    Ok(Child { stdin, stdout, stderr, process, ended, status: None, keeper: Some(keeper) })
}

fn pid_of(child: &process::Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

fn lock(process: &Mutex<Option<Pid>>) -> MutexGuard<'_, Option<Pid>> {
    process.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until the first process of a program ends, and sends the exit status of this process. The lock is held while
/// the process is reaped. Otherwise, its PID could be reused, and an unrelated process could be killed.
fn reap(mut child: process::Child, process: &Mutex<Option<Pid>>, end: &Sender<i32>) {
    let ended = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    while waitid(Id::Pid(pid_of(&child)), ended) == Err(Errno::EINTR) {}
    let mut first = lock(process);
    let status = child.wait().map_or(SIGNALLED, exit_status);
    *first = None;
    let _ = end.send(status);
}

/// Returns the exit status in the form in which a shell reports an exit status.
fn exit_status(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| SIGNALLED + status.signal().unwrap_or_default())
}

/// Moves the calling thread into the network namespace and into a new mount namespace that contains `files`. Child
/// processes that the thread creates later are in a new process namespace.
fn enter(network: BorrowedFd<'_>, files: &EtcFiles) -> nix::Result<()> {
    setns(network, CloneFlags::CLONE_NEWNET)?;
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID)?;
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    // The tmpfs must be mounted somewhere until its files have been bind-mounted. /proc can serve as the mount point,
    // because nothing needs /proc at this stage.
    mount(Some("etc"), "/proc", Some("tmpfs"), MsFlags::empty(), Some("mode=0755"))?;
    let bound = bind(files);
    // The system denies this mount if parts of /sys are hidden, as in containers. In this case, programs see the
    // machine's devices.
    let _ = show_devices();
    umount2("/proc", MntFlags::MNT_DETACH)?;
    bound
}

/// Bind-mounts each file over the file of the same name in `/etc`. A file that does not exist in `/etc` is skipped,
/// because the mount point would have to be created in the machine's file system.
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

/// Makes `/sys/class/net` show the devices of the network namespace instead of the machine's devices. The rest of
/// `/sys` remains unchanged.
fn show_devices() -> nix::Result<()> {
    let none: Option<&str> = None;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC | MsFlags::MS_RDONLY;
    mkdir("/proc/sysfs", Mode::S_IRWXU)?;
    mount(Some("sysfs"), "/proc/sysfs", Some("sysfs"), flags, none)?;
    // The entries of `class/net` are symbolic links to the devices.
    for directory in ["devices/virtual/net", "class/net"] {
        let (from, to) = (format!("/proc/sysfs/{directory}"), format!("/sys/{directory}"));
        mount(Some(from.as_str()), to.as_str(), none, MsFlags::MS_BIND, none)?;
    }
    Ok(())
}

/// Starts the program. The parent of the program is the first process of the program's namespace.
fn start(mut command: Command, daemons: Daemons) -> io::Result<process::Child> {
    let (reader, writer) = io::pipe()?;
    let writing = writer.as_raw_fd();
    let between = move || {
        die_with_parent(reader.as_fd(), writing)?;
        let none: Option<&str> = None;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        // The system denies this mount if parts of /proc are hidden, as in containers. In this case, programs see
        // processes outside the namespace.
        let _ = mount(Some("proc"), "/proc", Some("proc"), flags, none);
        // SAFETY: the forked child only calls `exec`, and the parent only calls the functions in `wait_for_all`.
        match unsafe { fork() }? {
            ForkResult::Child => Ok(()),
            ForkResult::Parent { child } => wait_for_all(child, daemons),
        }
    };
    // SAFETY: `between` only makes system calls. `between` neither allocates memory nor takes a lock that another
    // thread of the original process could have held at the fork.
    unsafe { command.pre_exec(between) };
    let child = command.spawn();
    drop(writer);
    child
}

/// Requests that the kernel kill this process when the thread that created this process ends. `reader` and `writing`
/// are the two ends of a pipe, both of which are also open in the parent. If the pipe has no writer after `writing` has
/// been closed, the parent has already died.
fn die_with_parent(reader: BorrowedFd<'_>, writing: RawFd) -> nix::Result<()> {
    set_pdeathsig(Signal::SIGKILL)?;
    close(writing)?;
    let mut ends = [PollFd::new(reader, PollFlags::POLLIN)];
    if poll(&mut ends, PollTimeout::ZERO)? > 0 { Err(Errno::ESRCH) } else { Ok(()) }
}

/// Runs in the first process of a namespace: waits for `program` and for orphaned processes, and exits with the exit
/// status of `program`.
fn wait_for_all(program: Pid, daemons: Daemons) -> ! {
    // SAFETY: the block only makes system calls. The block closes all file descriptors of this process, which are
    // copies and are not used afterwards. If they were not closed, devices, pipes and the program's files would stay
    // open until the first process ends.
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

/// Runs `command` in a new user namespace in which the current user is root, and waits until the command ends. Returns
/// the exit status in the form in which a shell reports an exit status. The command is killed if the calling thread
/// ends.
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
        // This call must come after `unshare`, because `unshare` clears the parent-death signal.
        die_with_parent(reader.as_fd(), writing)?;
        Ok(())
    };
    // SAFETY: `between` only makes system calls; the strings that it uses were allocated before the fork.
    unsafe { command.pre_exec(between) };
    let child = command.spawn();
    drop(writer);
    Ok(exit_status(child?.wait()?))
}

fn write_file(path: &CStr, text: &str) -> nix::Result<()> {
    let file = open(path, OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    write(&file, text.as_bytes()).map(drop)
}
