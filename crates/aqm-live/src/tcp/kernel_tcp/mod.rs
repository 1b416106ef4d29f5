//! The kernel's TCP, set as a plan's `[tcp]` wants it: sysctls of a host's network namespace and the attributes of its
//! route.
//!
//! Linux, `Documentation/networking/ip-sysctl.rst`; ip-route(8). What a parameter becomes is in `translation.rs`.
//! Always, whatever the plan says: connections share no memory of a path (`tcp_no_metrics_save`), every write is
//! sent and every segment acknowledged without waiting for company (`tcp_autocorking`, `tcp_comp_sack_nr`,
//! `tcp_backlog_ack_defer`), ports last for thousands of short connections, and a lost SYN is repeated after 1, 2,
//! 4 s as before Linux 6.5 (`tcp_syn_linear_timeouts`).

pub(crate) mod kernel;
mod translation;

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;

use serde::Serialize;

use crate::LiveError;

pub use kernel::Kernel;

/// What is set whatever the plan says, each under `/proc/sys/net`; what an older kernel has no name for, it does not
/// do either.
const ALWAYS: &[(&str, &str)] = &[
    ("core/somaxconn", "65535"),
    ("ipv4/ip_local_port_range", "1024 65535"),
    ("ipv4/tcp_autocorking", "0"),
    ("ipv4/tcp_backlog_ack_defer", "0"),
    ("ipv4/tcp_comp_sack_nr", "0"),
    ("ipv4/tcp_ecn_fallback", "0"),
    ("ipv4/tcp_fastopen", "0"),
    ("ipv4/tcp_limit_output_bytes", "1073741824"),
    ("ipv4/tcp_max_syn_backlog", "65536"),
    ("ipv4/tcp_max_tw_buckets", "262144"),
    ("ipv4/tcp_min_tso_segs", "1"),
    ("ipv4/tcp_mtu_probing", "0"),
    ("ipv4/tcp_no_metrics_save", "1"),
    ("ipv4/tcp_syn_linear_timeouts", "0"),
    ("ipv4/tcp_syncookies", "0"),
    ("ipv4/tcp_tw_reuse", "1"),
    ("ipv4/tcp_wmem", "4096 65536 67108864"),
];

/// The congestion control of sockets that choose none.
const DEFAULT_CONTROL: &str = "ipv4/tcp_congestion_control";

/// How the TCP of a host is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelTcp {
    /// Settings of the namespace, by their names under `/proc/sys/net`.
    sysctls: BTreeMap<&'static str, String>,
    /// Settings of the route to the peer.
    pub(crate) route: RouteSettings,
    /// The congestion control of connections, by its name in the kernel.
    control: String,
    /// Whether programs may choose another one.
    free_choice: bool,
}

/// The settings of a route that TCP heeds (`RTA_METRICS` of rtnetlink(7)).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct RouteSettings {
    /// The segment size that is announced, in bytes, options of TCP included.
    pub advmss: u32,
    /// First congestion window, in segments.
    pub initcwnd: u32,
    /// First receiver's window, in segments.
    pub initrwnd: Option<u32>,
    /// The largest receiver's window, in bytes.
    pub window: u32,
    /// The least RTO, in milliseconds.
    pub rto_min_ms: u32,
    /// The congestion control of all connections, whatever their sockets choose; nothing if those choose. A namespace
    /// accepts here also those that its machine does not allow for sockets.
    pub congctl: Option<String>,
    /// Whether connections ask for ECN.
    pub ecn: bool,
    /// Whether every segment is acknowledged at once.
    pub quickack: bool,
}

impl KernelTcp {
    /// The congestion control of every connection, by its name in the kernel; of programs, unless they choose another.
    pub fn congestion_control(&self) -> &str {
        &self.control
    }

    /// The same for a host of programs, whose own choice of a congestion control counts.
    #[must_use]
    pub(crate) fn with_free_choice(self) -> Self {
        Self { free_choice: true, ..self }
    }

    /// The same for a host that sends no TCP: its congestion control is not set.
    #[must_use]
    pub(crate) fn without_control(mut self) -> Self {
        self.route.congctl = None;
        self
    }

    /// The settings of the route. In the namespace of the calling thread the congestion control becomes that of sockets
    /// that choose none, if sockets may choose. The kernel refuses this of a control that the machine keeps from its
    /// users (`tcp_allowed_congestion_control`): then the route sets the control, for all.
    pub(crate) fn settle_route(&self) -> Result<RouteSettings, LiveError> {
        let is_default = || Ok::<_, LiveError>(read(DEFAULT_CONTROL)?.as_deref() == Some(&self.control));
        if !self.free_choice {
            return Ok(self.route.clone());
        }
        let chosen =
            is_default()? || fs::write(path(DEFAULT_CONTROL), &self.control).is_ok() && is_default()?;
        Ok(RouteSettings { congctl: (!chosen).then(|| self.control.clone()), ..self.route.clone() })
    }

    /// Sets the sysctls in the namespace of the calling thread, and makes sure that they are in force.
    pub(crate) fn set_sysctls(&self) -> Result<(), LiveError> {
        for (name, value) in &self.sysctls {
            let what = format!("cannot set the sysctl net/{name} to {value}");
            match fs::write(path(name), value) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound && !is_wanted(name) => continue,
                Err(error) => return Err(LiveError::new(what, error)),
            }
            let found = read(name)?.unwrap_or_default();
            if found != *value {
                return Err(LiveError::new(what, format_args!("it is {found}")));
            }
        }
        Ok(())
    }

    /// The sysctls that were set, as they are in the namespace of the calling thread; null for what this kernel does
    /// not have.
    pub(crate) fn sysctls_in_force(&self) -> Result<BTreeMap<&'static str, Option<String>>, LiveError> {
        let default_control = self.free_choice.then_some(&DEFAULT_CONTROL);
        self.sysctls.keys().chain(default_control).map(|name| Ok((*name, read(name)?))).collect()
    }
}

/// Whether a plan asks for this sysctl, so that it must be there.
fn is_wanted(name: &str) -> bool {
    !ALWAYS.iter().any(|(always, _)| *always == name)
}

fn path(name: &str) -> String {
    format!("/proc/sys/net/{name}")
}

/// The value of a sysctl, its parts separated by single blanks; nothing if the kernel does not have it.
fn read(name: &str) -> Result<Option<String>, LiveError> {
    match fs::read_to_string(path(name)) {
        Ok(text) => Ok(Some(text.split_whitespace().collect::<Vec<_>>().join(" "))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LiveError::new(format_args!("cannot read the sysctl net/{name}"), error)),
    }
}

#[cfg(test)]
mod tests;
