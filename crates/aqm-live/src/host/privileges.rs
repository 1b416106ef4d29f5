//! Determines whether this process has the privileges for live runs, and creates a user namespace in which an
//! unprivileged user has more privileges.
//!
//! Sources: Linux, capabilities(7), user_namespaces(7). A process in its own user namespace has root privileges over
//! the network namespaces that it creates. These privileges are sufficient for a live run. Real-time priority and BPF
//! require privileges in the initial user namespace.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use serde::Serialize;

use crate::LiveError;
use crate::host::realtime::{Grant, request_fifo};
use crate::host::{program, tun};

/// Environment variable that is set if this command has been restarted in a user namespace.
const MARK: &str = "AQMLAB_IN_USER_NAMESPACE";

/// Capability numbers from capability.h.
const CAP_NET_ADMIN: u32 = 12;
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_BPF: u32 = 39;

/// The features that a live run can use on this machine. For each unavailable feature, the value states the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Privileges {
    /// Namespaces for the hosts; a live run requires this feature.
    pub namespaces: Grant,
    /// TUN devices for the links of the hosts; a live run requires this feature.
    pub tun: Grant,
    /// Real-time priority. Without real-time priority, runs on a busy machine are often invalid.
    pub realtime: Grant,
    /// BPF, which writes the sender's window into each packet, as SHRED requires. Without BPF, the router polls the
    /// windows.
    pub bpf: Grant,
}

impl Privileges {
    /// Tests which features are available. The test does not change the machine permanently.
    pub fn here() -> Self {
        // The test runs in its own thread, so that its namespace and device disappear when the thread ends.
        let test = std::thread::spawn(|| {
            let fifo = request_fifo(1);
            let Err(error) = unshare(CloneFlags::CLONE_NEWNET) else {
                return (
                    Grant::Yes,
                    tun::open().map_or_else(|error| Grant::No(error.what), |_| Grant::Yes),
                    fifo,
                );
            };
            let why = format!("no network namespaces: {}; {}", error.desc(), namespaces_refused());
            (Grant::No(why), Grant::No("a TUN device needs a network namespace".to_owned()), fifo)
        });
        let unknown = || Grant::No("the test failed".to_owned());
        let (namespaces, tun, realtime) = test.join().unwrap_or_else(|_| (unknown(), unknown(), unknown()));
        Self { namespaces, tun, realtime, bpf: bpf() }
    }

    /// Returns whether a live run is possible, even if optional features are not available.
    pub fn are_enough(&self) -> bool {
        self.namespaces.is_granted() && self.tun.is_granted()
    }
}

fn bpf() -> Grant {
    let may = may(CAP_NET_ADMIN) && (may(CAP_BPF) || may(CAP_SYS_ADMIN));
    match (may, in_first_user_namespace()) {
        (true, true) => Grant::Yes,
        (false, true) => Grant::No("BPF needs the capabilities CAP_BPF and CAP_NET_ADMIN".to_owned()),
        (_, false) => Grant::No(
            "BPF needs the capability CAP_BPF on the machine itself, not in a user namespace: run as root"
                .to_owned(),
        ),
    }
}

/// Returns the reasons why the system may have denied namespaces, according to the system's settings.
fn namespaces_refused() -> String {
    let setting = |name: &str| fs::read_to_string(format!("/proc/sys/{name}")).unwrap_or_default();
    let value = |name: &str| setting(name).trim().to_owned();
    let mut reasons = vec!["run as root, or with the capability CAP_SYS_ADMIN"];
    if value("user/max_user_namespaces") == "0" {
        reasons.push("user namespaces are disabled (sysctl user.max_user_namespaces=0)");
    }
    if value("kernel/unprivileged_userns_clone") == "0" {
        reasons.push("only root may create user namespaces (sysctl kernel.unprivileged_userns_clone=0)");
    }
    if value("kernel/apparmor_restrict_unprivileged_userns") == "1" {
        reasons.push(
            "AppArmor restricts user namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=1)",
        );
    }
    reasons.join("; ")
}

/// Returns whether the process may lock an unlimited amount of memory.
pub(crate) fn may_lock_memory() -> bool {
    may(CAP_IPC_LOCK) && in_first_user_namespace()
}

/// Returns whether this process has the capability.
fn may(capability: u32) -> bool {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let fields: BTreeMap<&str, &str> = status.lines().filter_map(|line| line.split_once(":\t")).collect();
    let effective = fields.get("CapEff").and_then(|bits| u64::from_str_radix(bits, 16).ok());
    effective.is_some_and(|bits| bits >> capability & 1 == 1)
}

/// Returns whether this process is in the initial user namespace.
fn in_first_user_namespace() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Returns whether this process should be restarted in a user namespace, because it would have more privileges there.
pub fn needs_user_namespace() -> bool {
    !(may(CAP_SYS_ADMIN) && may(CAP_NET_ADMIN)) && std::env::var_os(MARK).is_none()
}

/// Runs `command` (the program and arguments of this process) in a new user namespace and waits until the command ends.
/// Returns the exit status of the command, or 128 plus the number of the signal that terminated the command. If this
/// process dies, the command is killed.
///
/// # Errors
/// Returns an error if the system denies a user namespace, or if the program cannot be run.
pub fn run_in_user_namespace(command: &[OsString]) -> Result<i32, LiveError> {
    let what = "cannot run in a user namespace";
    let (program, arguments) =
        command.split_first().ok_or_else(|| LiveError::new(what, "the command is empty"))?;
    let mut again = Command::new(program);
    again.args(arguments).env(MARK, "1");
    program::run_as_own_root(again)
        .map_err(|error| LiveError::new(what, format_args!("{error}; {}", namespaces_refused())))
}
