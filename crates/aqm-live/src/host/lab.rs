//! A lab: hosts that are network namespaces, each with a TUN device, and no way out.
//!
//! Linux, network_namespaces(7). A namespace has no name and no process: a file descriptor of ours keeps it, so it
//! vanishes with us, and nothing of the machine's own network is read or changed. `unshare` and `setns` move
//! single threads, so each piece of work in a host is a thread of its own.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::panic::resume_unwind;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};
use serde_json::{Value, json};

use crate::LiveError;
use crate::host::netlink::{self, Device, DeviceStatistics};
use crate::host::program::{self, Child, Daemons, EtcFiles};
use crate::host::tun;
use crate::tcp::kernel_tcp::{Kernel, KernelTcp};

/// Name resolution that fails at once: nothing outside can be reached.
const RESOLV_CONF: &str = "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n";

/// Why settings cannot be made in a container.
const READ_ONLY: &str = "/proc/sys is read-only: a container needs `--security-opt systempaths=unconfined` (Docker) \
                         or `--security-opt unmask=ALL` (Podman)";

/// What a host is to be.
#[derive(Clone, Debug)]
pub struct HostSpec {
    /// Its name, which programs in any host of the lab resolve to its first address.
    pub name: String,
    /// The second byte of its addresses: it has all of 10.`prefix`.0.0/16.
    pub prefix: u8,
    /// The prefix of the host that it talks with.
    pub peer: u8,
    /// The longest packet of its device, in bytes.
    pub mtu: u16,
    /// How its TCP is set.
    pub tcp: KernelTcp,
}

/// Hosts that know each other by name.
#[derive(Debug)]
pub struct Lab {
    hosts: Vec<Host>,
}

impl Lab {
    /// Makes the hosts.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn new(specs: &[HostSpec]) -> Result<Self, LiveError> {
        let mut hosts = String::from("127.0.0.1 localhost\n");
        for spec in specs {
            let _ = writeln!(hosts, "{} {}", netlink::first_address(spec.prefix), spec.name);
        }
        let files = EtcFiles { hosts, resolv_conf: RESOLV_CONF.to_owned() };
        let hosts = specs.iter().map(|spec| Host::new(spec, files.clone())).collect::<Result<_, _>>()?;
        Ok(Self { hosts })
    }

    /// The hosts, in the order of their specifications.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }
}

/// A host: a network namespace with a TUN device. It vanishes when it is dropped and the last thread and program in it
/// have ended.
#[derive(Debug)]
pub struct Host {
    spec: HostSpec,
    namespace: OwnedFd,
    tun: OwnedFd,
    files: EtcFiles,
    free_choice: bool,
}

impl Host {
    fn new(spec: &HostSpec, files: EtcFiles) -> Result<Self, LiveError> {
        let wanted = spec.clone();
        let maker = std::thread::Builder::new().spawn(move || set_up(&wanted));
        let maker = maker.map_err(|error| LiveError::new("cannot start a thread for a host", error))?;
        let made = maker.join().unwrap_or_else(|_| Err(LiveError::new(&spec.name, "its thread panicked")));
        let SetUp { namespace, tun, free_choice } = made?;
        Ok(Self { spec: spec.clone(), namespace, tun, files, free_choice })
    }

    /// What it was asked to be.
    pub fn spec(&self) -> &HostSpec {
        &self.spec
    }

    /// Whether the congestion control that a socket chooses counts.
    pub(crate) fn has_free_choice(&self) -> bool {
        self.free_choice
    }

    /// The address of the host number `number` of those that share this namespace, from 0.
    pub fn address(&self, number: u16) -> Ipv4Addr {
        let [high, low] = number.wrapping_add(1).to_be_bytes();
        Ipv4Addr::new(10, self.spec.prefix, high, low)
    }

    /// Its device: reading and writing do not wait, and each moves one IP packet.
    pub fn tun(&self) -> BorrowedFd<'_> {
        self.tun.as_fd()
    }

    /// Runs a task in a new thread that is in the host: its sockets, and all that it starts, are the host's.
    ///
    /// # Errors
    /// If the system has no thread to give.
    pub fn run<T: Send + 'static>(
        &self,
        task: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, LiveError> {
        let what = format!("cannot start a thread in the host `{}`", self.spec.name);
        let failed = |error| LiveError::new(&what, error);
        let namespace = self.namespace.try_clone().map_err(failed)?;
        let (tell, entered) = mpsc::sync_channel(1);
        let inside = move || {
            let outcome = setns(&namespace, CloneFlags::CLONE_NEWNET);
            drop(namespace);
            let _ = tell.send(outcome);
            if outcome.is_err() {
                resume_unwind(Box::new("not in the host"));
            }
            task()
        };
        let thread =
            std::thread::Builder::new().name(self.spec.name.clone()).spawn(inside).map_err(failed)?;
        entered.recv().unwrap_or(Err(Errno::ESRCH)).map_err(|error| failed(error.into()))?;
        Ok(thread)
    }

    /// Runs a program in the host. It sees no process but its own, and dies with this process at the latest, with
    /// all that it has started.
    ///
    /// # Errors
    /// If it cannot be found or run.
    pub fn spawn(&self, command: Command, daemons: Daemons) -> Result<Child, LiveError> {
        program::spawn(self.namespace.as_fd(), &self.files, command, daemons)
    }

    /// What the device has counted.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn statistics(&self) -> Result<DeviceStatistics, LiveError> {
        self.ask(netlink::statistics)
    }

    /// What is in force, as the kernel tells it now: everything that was set, and what about the kernel cannot be.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn in_force(&self) -> Result<Value, LiveError> {
        let (tcp, peer) = (self.spec.tcp.clone(), self.spec.peer);
        self.ask(move || {
            Ok(json!({
                "kernel": Kernel::running(),
                "sysctls": tcp.sysctls_in_force()?,
                "route": netlink::route_in_force(peer)?,
                "device": netlink::device_in_force()?,
            }))
        })
    }

    /// What a thread in the host finds out.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce() -> Result<T, LiveError> + Send + 'static,
    ) -> Result<T, LiveError> {
        self.run(question)?
            .join()
            .unwrap_or_else(|_| Err(LiveError::new(&self.spec.name, "its thread panicked")))
    }
}

/// What a host is made of.
struct SetUp {
    namespace: OwnedFd,
    tun: OwnedFd,
    free_choice: bool,
}

/// Makes the namespace, and everything in it, of the calling thread, which is good for nothing else from then on.
fn set_up(spec: &HostSpec) -> Result<SetUp, LiveError> {
    let what = format!("cannot make the host `{}`", spec.name);
    unshare(CloneFlags::CLONE_NEWNET).map_err(|error| {
        let why = "a network namespace needs the capability CAP_SYS_ADMIN, or a user namespace";
        LiveError::new(&what, format_args!("{}; {why}", error.desc()))
    })?;
    let namespace = File::open("/proc/thread-self/ns/net").map_err(|error| LiveError::new(&what, error))?;
    without_ipv6().map_err(|error| match error.kind() {
        ErrorKind::ReadOnlyFilesystem => LiveError::new(&what, READ_ONLY),
        _ => LiveError::new(&what, error),
    })?;
    let tun = tun::open()?;
    netlink::bring_up(spec.prefix, spec.mtu)?;
    spec.tcp.set_sysctls()?;
    let wanted_route = spec.tcp.settle_route()?;
    netlink::route(spec.prefix, spec.peer, &wanted_route)?;
    let (route, device) = (netlink::route_in_force(spec.peer)?, netlink::device_in_force()?);
    if route != wanted_route {
        return Err(LiveError::new(what, format_args!("the route is {route:?} and not {wanted_route:?}")));
    }
    let wanted = Device::wanted(spec.mtu);
    if device != wanted {
        return Err(LiveError::new(what, format_args!("the device is {device:?} and not {wanted:?}")));
    }
    Ok(SetUp { namespace: namespace.into(), tun, free_choice: route.congctl.is_none() })
}

/// Keeps IPv6 off devices to come: a router's solicitations would enter the queue.
fn without_ipv6() -> std::io::Result<()> {
    if !Path::new("/proc/sys/net/ipv6").exists() {
        return Ok(());
    }
    ["all", "default"]
        .iter()
        .try_for_each(|group| fs::write(format!("/proc/sys/net/ipv6/conf/{group}/disable_ipv6"), "1"))
}

#[cfg(test)]
mod tests;
