//! What this process may do of what a live run needs, and how an ordinary user comes to more.
//!
//! Linux, capabilities(7), user_namespaces(7). In a user namespace of its own every process is root over the network
//! namespaces that it makes, which is all that a live run must have; real-time priority and BPF belong to the machine.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use serde::Serialize;

use crate::LiveError;
use crate::host::realtime::{Grant, ask_for_fifo};
use crate::host::{program, tun};

/// Says to the command that runs again in a user namespace that it does.
const MARK: &str = "AQMLAB_IN_USER_NAMESPACE";

/// Numbers of capabilities (capability.h).
const CAP_NET_ADMIN: u32 = 12;
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_BPF: u32 = 39;

/// What a live run can have here, and in plain words why not. Nothing else fails without those marked optional.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Privileges {
    /// Namespaces: the hosts. Nothing works without.
    pub namespaces: Grant,
    /// TUN devices: the lines of the hosts. Nothing works without.
    pub tun: Grant,
    /// Real-time priority. Without it a busy machine makes a run invalid.
    pub realtime: Grant,
    /// BPF: windows of senders in packets, for SHRED. Without it they are polled.
    pub bpf: Grant,
}

impl Privileges {
    /// Tries what can be tried without a trace.
    pub fn here() -> Self {
        // A thread of its own, with which its namespace and its device vanish.
        let tried = std::thread::spawn(|| {
            let fifo = ask_for_fifo(1);
            let Err(error) = unshare(CloneFlags::CLONE_NEWNET) else {
                return (
                    Grant::Yes,
                    tun::open().map_or_else(|error| Grant::No(error.what), |_| Grant::Yes),
                    fifo,
                );
            };
            let why = format!("no network namespaces: {}; {}", error.desc(), namespaces_refused());
            (Grant::No(why), Grant::No("there is no namespace to try one in".to_owned()), fifo)
        });
        let unknown = || Grant::No("it could not be tried".to_owned());
        let (namespaces, tun, realtime) = tried.join().unwrap_or_else(|_| (unknown(), unknown(), unknown()));
        Self { namespaces, tun, realtime, bpf: bpf() }
    }

    /// Whether a live run is possible, with or without what is optional.
    pub fn are_enough(&self) -> bool {
        self.namespaces.is_granted() && self.tun.is_granted()
    }
}

fn bpf() -> Grant {
    let may = may(CAP_NET_ADMIN) && (may(CAP_BPF) || may(CAP_SYS_ADMIN));
    match (may, in_first_user_namespace()) {
        (true, true) => Grant::Yes,
        (false, true) => Grant::No("it needs the capabilities CAP_BPF and CAP_NET_ADMIN".to_owned()),
        (_, false) => Grant::No(
            "it needs CAP_BPF of the machine itself, not of a user namespace: run as root".to_owned(),
        ),
    }
}

/// Why namespaces are refused, as far as the system tells.
fn namespaces_refused() -> String {
    let setting = |name: &str| fs::read_to_string(format!("/proc/sys/{name}")).unwrap_or_default();
    let first = |name: &str| setting(name).trim().to_owned();
    let mut reasons = vec!["run as root, or with the capability CAP_SYS_ADMIN"];
    if first("user/max_user_namespaces") == "0" {
        reasons.push("user namespaces are off (sysctl user.max_user_namespaces=0)");
    }
    if first("kernel/unprivileged_userns_clone") == "0" {
        reasons.push("they are for root only (sysctl kernel.unprivileged_userns_clone=0)");
    }
    if first("kernel/apparmor_restrict_unprivileged_userns") == "1" {
        reasons.push("AppArmor restricts them (sysctl kernel.apparmor_restrict_unprivileged_userns=1)");
    }
    reasons.join("; ")
}

/// Whether memory may be locked without limit.
pub(crate) fn may_lock_memory() -> bool {
    may(CAP_IPC_LOCK) && in_first_user_namespace()
}

/// Whether a capability is in effect.
fn may(capability: u32) -> bool {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let fields: BTreeMap<&str, &str> = status.lines().filter_map(|line| line.split_once(":\t")).collect();
    let effective = fields.get("CapEff").and_then(|bits| u64::from_str_radix(bits, 16).ok());
    effective.is_some_and(|bits| bits >> capability & 1 == 1)
}

/// Whether this process is in the user namespace that the machine began with.
fn in_first_user_namespace() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Whether this process lacks what a user namespace would give it, so that it should be run again in one.
pub fn needs_user_namespace() -> bool {
    !(may(CAP_SYS_ADMIN) && may(CAP_NET_ADMIN)) && std::env::var_os(MARK).is_none()
}

/// Runs `command` (a program and its arguments: those of this process) in a new user namespace, waits for it and tells
/// its exit status, or 128 and the number of the signal that ended it. If this process dies, so does it.
///
/// # Errors
/// If user namespaces are refused, or the program cannot be run.
pub fn run_in_user_namespace(command: &[OsString]) -> Result<i32, LiveError> {
    let what = "cannot run in a user namespace";
    let (program, arguments) = command.split_first().ok_or_else(|| LiveError::new(what, "no command"))?;
    let mut again = Command::new(program);
    again.args(arguments).env(MARK, "1");
    program::run_as_own_root(again)
        .map_err(|error| LiveError::new(what, format_args!("{error}; {}", namespaces_refused())))
}
