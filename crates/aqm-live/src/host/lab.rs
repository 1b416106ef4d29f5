//! A lab, which consists of hosts without access to other networks. Each host is a network namespace with a TUN device.
//!
//! Source: Linux, network_namespaces(7). The namespaces have no names and initially contain no processes. Only file
//! descriptors of this process refer to the namespaces, so the namespaces disappear when this process ends. The
//! machine's own network is neither read nor changed. `unshare` and `setns` affect only the calling thread, so each
//! task in a host runs in its own thread.

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

/// Resolver configuration that makes lookups of unknown names fail quickly, because a host cannot reach a DNS server.
const RESOLV_CONF: &str = "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n";

/// Explanation that is added to the error if a setting cannot be changed because the process runs in a container.
const READ_ONLY: &str = "/proc/sys is read-only: a container needs `--security-opt systempaths=unconfined` (Docker) \
                         or `--security-opt unmask=ALL` (Podman)";

/// The specification of a host.
#[derive(Clone, Debug)]
pub struct HostSpec {
    /// Name of the host. In all hosts of the lab, programs resolve this name to the host's first address.
    pub name: String,
    /// Second byte of the host's addresses; all addresses in 10.`prefix`.0.0/16 belong to the host.
    pub prefix: u8,
    /// The `prefix` of the host's peer.
    pub peer: u8,
    /// MTU of the host's device, in bytes.
    pub mtu: u16,
    /// TCP settings.
    pub tcp: KernelTcp,
}

/// Hosts that can resolve each other's names.
#[derive(Debug)]
pub struct Lab {
    hosts: Vec<Host>,
}

impl Lab {
    /// Creates the hosts.
    ///
    /// # Errors
    /// Returns an error if the system denies an operation.
    pub fn new(specs: &[HostSpec]) -> Result<Self, LiveError> {
        let mut hosts = String::from("127.0.0.1 localhost\n");
        for spec in specs {
            let _ = writeln!(hosts, "{} {}", netlink::first_address(spec.prefix), spec.name);
        }
        let files = EtcFiles { hosts, resolv_conf: RESOLV_CONF.to_owned() };
        let hosts = specs.iter().map(|spec| Host::new(spec, files.clone())).collect::<Result<_, _>>()?;
        Ok(Self { hosts })
    }

    /// Returns the hosts, in the order of their specifications.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }
}

/// A host: a network namespace with a TUN device. The namespace disappears when this value has been dropped and all
/// threads and programs in the namespace have ended.
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
        let thread_spec = spec.clone();
        let thread = std::thread::Builder::new().spawn(move || set_up(&thread_spec));
        let thread = thread.map_err(|error| LiveError::new("cannot start a thread for a host", error))?;
        let parts = thread.join().unwrap_or_else(|_| Err(LiveError::new(&spec.name, "its thread panicked")));
        let SetUp { namespace, tun, free_choice } = parts?;
        Ok(Self { spec: spec.clone(), namespace, tun, files, free_choice })
    }

    /// Returns the specification of the host.
    pub fn spec(&self) -> &HostSpec {
        &self.spec
    }

    /// Returns whether sockets in the host can select their own congestion control.
    pub(crate) fn has_free_choice(&self) -> bool {
        self.free_choice
    }

    /// Returns the address of the host with this `number`, counted from 0. Several emulated hosts may share the
    /// namespace; each of these hosts has its own number.
    pub fn address(&self, number: u16) -> Ipv4Addr {
        let [high, low] = number.wrapping_add(1).to_be_bytes();
        Ipv4Addr::new(10, self.spec.prefix, high, low)
    }

    /// Returns the TUN device. Reads and writes do not block, and each read or write transfers one IP packet.
    pub fn tun(&self) -> BorrowedFd<'_> {
        self.tun.as_fd()
    }

    /// Runs a task in a new thread in the host. The task's sockets and child processes belong to the host.
    ///
    /// # Errors
    /// Returns an error if the system cannot start a thread.
    pub fn run<T: Send + 'static>(
        &self,
        task: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, LiveError> {
        let what = format!("cannot start a thread in the host `{}`", self.spec.name);
        let failed = |error| LiveError::new(&what, error);
        let namespace = self.namespace.try_clone().map_err(failed)?;
        let (sender, entered) = mpsc::sync_channel(1);
        let inside = move || {
            let outcome = setns(&namespace, CloneFlags::CLONE_NEWNET);
            drop(namespace);
            let _ = sender.send(outcome);
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

    /// Runs a program in the host. The program sees only its own processes. If the program is still running when this
    /// process ends, the program and all of its child processes are killed.
    ///
    /// # Errors
    /// Returns an error if the program cannot be found or run.
    pub fn spawn(&self, command: Command, daemons: Daemons) -> Result<Child, LiveError> {
        program::spawn(self.namespace.as_fd(), &self.files, command, daemons)
    }

    /// Returns the counters of the TUN device.
    ///
    /// # Errors
    /// Returns an error if the kernel does not report the data.
    pub fn statistics(&self) -> Result<DeviceStatistics, LiveError> {
        self.query(netlink::statistics)
    }

    /// Returns the effective settings as reported by the kernel: all settings that this module applies, and properties
    /// of the kernel that cannot be set.
    ///
    /// # Errors
    /// Returns an error if the kernel does not report the data.
    pub fn in_force(&self) -> Result<Value, LiveError> {
        let (tcp, peer) = (self.spec.tcp.clone(), self.spec.peer);
        self.query(move || {
            Ok(json!({
                "kernel": Kernel::running(),
                "sysctls": tcp.sysctls_in_force()?,
                "route": netlink::route_in_force(peer)?,
                "device": netlink::device_in_force()?,
            }))
        })
    }

    /// Runs `query` in a new thread in the host and returns the result of `query`.
    pub(crate) fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce() -> Result<T, LiveError> + Send + 'static,
    ) -> Result<T, LiveError> {
        self.run(query)?
            .join()
            .unwrap_or_else(|_| Err(LiveError::new(&self.spec.name, "its thread panicked")))
    }
}

/// The parts of a host.
struct SetUp {
    namespace: OwnedFd,
    tun: OwnedFd,
    free_choice: bool,
}

/// Creates the namespace, the device and the routes in the calling thread. The thread stays in the namespace and must
/// not be used for anything else afterwards.
fn set_up(spec: &HostSpec) -> Result<SetUp, LiveError> {
    let what = format!("cannot create the host `{}`", spec.name);
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
    let expected_route = spec.tcp.settle_route()?;
    netlink::route(spec.prefix, spec.peer, &expected_route)?;
    let (route, device) = (netlink::route_in_force(spec.peer)?, netlink::device_in_force()?);
    if route != expected_route {
        return Err(LiveError::new(
            what,
            format_args!("the route must be {expected_route:?} (got {route:?})"),
        ));
    }
    let expected = Device::expected(spec.mtu);
    if device != expected {
        return Err(LiveError::new(what, format_args!("the device must be {expected:?} (got {device:?})")));
    }
    Ok(SetUp { namespace: namespace.into(), tun, free_choice: route.congctl.is_none() })
}

/// Disables IPv6 on devices that are created later, because otherwise router solicitations would enter the emulated
/// queues.
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
