//! Starts processes that have no network and a read-only file system.
//!
//! Landlock and seccomp restrict the calling thread and all processes that the thread starts. Therefore, a thread of its
//! own restricts itself, starts the process and ends, and the other threads of the program keep their privileges.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::process::{Child, Command};
use std::thread;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, Scope,
};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use crate::StartError;

/// The first version of Landlock that controls all changes of the contents and names of files: Linux 6.2. Earlier versions
/// do not control the truncation of files.
const REQUIRED: ABI = ABI::V3;

/// The version that also controls control operations on devices: Linux 6.10.
const WITH_DEVICES: ABI = ABI::V5;

/// The version that also controls signals: Linux 6.12.
const WITH_SIGNALS: ABI = ABI::V6;

/// System calls that are always refused.
const REFUSED: &[libc::c_long] = &[
    // Sockets. `connect` could connect a socket of a pair to another Unix socket, and io_uring can create sockets.
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_io_uring_setup,
    // Metadata of files, which Landlock does not control. Other architectures than x86-64 have only the newer calls.
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
    FCHMODAT2,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
];

// The numbers of new system calls are the same on all architectures (scripts/syscall.tbl). The crate libc does not have
// these numbers on all architectures.
const FCHMODAT2: libc::c_long = 452;
const SETXATTRAT: libc::c_long = 463;
const REMOVEXATTRAT: libc::c_long = 466;
const FILE_SETATTR: libc::c_long = 469;

/// The bit that selects the x32 variant of a system call of x86-64 (asm/unistd.h). The numbers of all refused system calls
/// are the same in both variants.
#[cfg(target_arch = "x86_64")]
const VARIANTS: &[libc::c_long] = &[0, 0x4000_0000];
#[cfg(not(target_arch = "x86_64"))]
const VARIANTS: &[libc::c_long] = &[0];

/// The bits of a socket's type without flags (linux/net.h).
const SOCK_TYPE_MASK: u64 = 0xf;

/// Starts the process of a command.
pub(crate) fn spawn(command: &mut Command) -> Result<Child, StartError> {
    let start = || {
        restrict().map_err(|error| {
            StartError::Isolation(format!("Landlock (Linux 6.2 or newer) and seccomp are required ({error})"))
        })?;
        command.spawn().map_err(StartError::Program)
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, start).map_err(StartError::Program)?;
        let panicked = |_| StartError::Program(io::Error::other("the thread that starts the guest panicked"));
        thread.join().map_err(panicked)?
    })
}

/// Restricts the calling thread.
fn restrict() -> Result<(), Box<dyn Error>> {
    let filter = filter()?;
    let null = PathBeneath::new(
        PathFd::new("/dev/null")?,
        AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev,
    );
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_write(REQUIRED))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_write(WITH_DEVICES))?
        .scope(Scope::from_all(WITH_SIGNALS))?
        .create()?
        .add_rule(null)?
        .restrict_self()?;
    seccompiler::apply_filter(&filter)?;
    Ok(())
}

/// Returns the filter of system calls.
fn filter() -> Result<BpfProgram, BackendError> {
    let mut rules = BTreeMap::new();
    for variant in VARIANTS {
        for call in REFUSED {
            rules.insert(variant | call, Vec::new());
        }
        rules.insert(variant | libc::SYS_socketpair, socket_pairs()?);
    }
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, std::env::consts::ARCH.try_into()?)?.try_into()
}

/// Returns the conditions under which `socketpair` is refused. A Unix socket for datagrams could send to any address.
fn socket_pairs() -> Result<Vec<SeccompRule>, BackendError> {
    let rule = |argument, operator, value: libc::c_int| {
        SeccompRule::new(vec![SeccompCondition::new(
            argument,
            SeccompCmpArgLen::Dword,
            operator,
            value as u64,
        )?])
    };
    Ok(vec![
        rule(0, SeccompCmpOp::Ne, libc::AF_UNIX)?,
        rule(1, SeccompCmpOp::MaskedEq(SOCK_TYPE_MASK), libc::SOCK_DGRAM)?,
        rule(1, SeccompCmpOp::MaskedEq(SOCK_TYPE_MASK), libc::SOCK_RAW)?,
    ])
}
