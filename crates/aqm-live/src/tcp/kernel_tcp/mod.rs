//! The kernel's TCP, configured by a plan's `[tcp]`: sysctls of a host's network namespace, and attributes of its
//! route.
//!
//! Sources: Linux, `Documentation/networking/ip-sysctl.rst`; ip-route(8). The translation of parameters is in
//! `translation.rs`. The following settings do not depend on the plan. Connections share no metrics of a path
//! (`tcp_no_metrics_save`). Every write is sent, and every segment acknowledged, without aggregation
//! (`tcp_autocorking`, `tcp_comp_sack_nr`, `tcp_backlog_ack_defer`). Ports suffice for thousands of short connections.
//! A lost SYN is retransmitted after 1, 2, 4 s as before Linux 6.5 (`tcp_syn_linear_timeouts`).

pub(crate) mod kernel;
mod translation;

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;

use serde::Serialize;

use crate::LiveError;

pub use kernel::Kernel;

/// Sysctls under `/proc/sys/net` that do not depend on the plan. If an older kernel does not have a sysctl, it does not
/// have the feature either.
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

/// The TCP settings of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelTcp {
    /// Sysctls of the namespace, by their names under `/proc/sys/net`.
    sysctls: BTreeMap<&'static str, String>,
    /// Settings of the route to the peer.
    pub(crate) route: RouteSettings,
    /// Kernel name of the congestion control of connections.
    control: String,
    /// Whether programs may choose another congestion control.
    free_choice: bool,
}

/// The settings of a route that affect TCP (`RTA_METRICS` of rtnetlink(7)).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct RouteSettings {
    /// Announced segment size in bytes, including TCP options.
    pub advmss: u32,
    /// Initial congestion window, in segments.
    pub initcwnd: u32,
    /// Initial receiver's window, in segments.
    pub initrwnd: Option<u32>,
    /// Maximum receiver's window, in bytes.
    pub window: u32,
    /// Minimum RTO, in milliseconds.
    pub rto_min_ms: u32,
    /// Congestion control of all connections, overriding the choice of sockets; `None` if sockets choose. A namespace
    /// also accepts controls here that the machine does not permit for sockets.
    pub congctl: Option<String>,
    /// Whether connections request ECN.
    pub ecn: bool,
    /// Whether every segment is acknowledged at once.
    pub quickack: bool,
}

impl KernelTcp {
    /// Returns the kernel name of the congestion control of all connections, unless programs choose another one.
    pub fn congestion_control(&self) -> &str {
        &self.control
    }

    /// Returns the settings for a host of programs, whose own choice of a congestion control has an effect.
    #[must_use]
    pub(crate) fn with_free_choice(self) -> Self {
        Self { free_choice: true, ..self }
    }

    /// Returns the settings for a host that does not use TCP, without a congestion control.
    #[must_use]
    pub(crate) fn without_control(mut self) -> Self {
        self.route.congctl = None;
        self
    }

    /// Returns the settings of the route. If sockets may choose, the congestion control becomes the default of sockets
    /// in the namespace of the calling thread. If the machine does not permit this control to its users
    /// (`tcp_allowed_congestion_control`), the kernel refuses, and the route sets the control for all connections.
    pub(crate) fn settle_route(&self) -> Result<RouteSettings, LiveError> {
        let is_default = || Ok::<_, LiveError>(read(DEFAULT_CONTROL)?.as_deref() == Some(&self.control));
        if !self.free_choice {
            return Ok(self.route.clone());
        }
        let succeeded =
            is_default()? || fs::write(path(DEFAULT_CONTROL), &self.control).is_ok() && is_default()?;
        Ok(RouteSettings { congctl: (!succeeded).then(|| self.control.clone()), ..self.route.clone() })
    }

    /// Sets the sysctls in the namespace of the calling thread, and verifies that they are in force.
    pub(crate) fn set_sysctls(&self) -> Result<(), LiveError> {
        for (name, value) in &self.sysctls {
            let what = format!("cannot set the sysctl net/{name} to {value}");
            match fs::write(path(name), value) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound && !is_required(name) => continue,
                Err(error) => return Err(LiveError::new(what, error)),
            }
            let value_in_force = read(name)?.unwrap_or_default();
            if value_in_force != *value {
                return Err(LiveError::new(what, format_args!("the value is {value_in_force}")));
            }
        }
        Ok(())
    }

    /// Returns the values of the sysctls that were set in the namespace of the calling thread; null for sysctls that
    /// this kernel does not have.
    pub(crate) fn sysctls_in_force(&self) -> Result<BTreeMap<&'static str, Option<String>>, LiveError> {
        let default_control = self.free_choice.then_some(&DEFAULT_CONTROL);
        self.sysctls.keys().chain(default_control).map(|name| Ok((*name, read(name)?))).collect()
    }
}

/// Whether a plan requests this sysctl, so that the kernel must have it.
fn is_required(name: &str) -> bool {
    !ALWAYS.iter().any(|(always, _)| *always == name)
}

fn path(name: &str) -> String {
    format!("/proc/sys/net/{name}")
}

/// Returns the value of a sysctl, with its parts separated by single spaces; `None` if the kernel does not have it.
fn read(name: &str) -> Result<Option<String>, LiveError> {
    match fs::read_to_string(path(name)) {
        Ok(text) => Ok(Some(text.split_whitespace().collect::<Vec<_>>().join(" "))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LiveError::new(format_args!("cannot read the sysctl net/{name}"), error)),
    }
}

#[cfg(test)]
mod tests;
