//! Configures the kernel's TCP according to the `[tcp]` table of a plan. The configuration consists of the sysctls of a
//! host's network namespace and the attributes of the host's route.
//!
//! Sources: Linux, `Documentation/networking/ip-sysctl.rst`; ip-route(8). `translation.rs` translates the parameters of
//! `[tcp]` to kernel settings. The following settings do not depend on the plan. A connection does not inherit path
//! metrics from earlier connections (`tcp_no_metrics_save`). The kernel aggregates neither writes nor acknowledgements
//! (`tcp_autocorking`, `tcp_comp_sack_nr`, `tcp_backlog_ack_defer`). The port range is large enough for thousands of
//! short connections. As before Linux 6.5, a lost SYN is retransmitted after 1, 2 and 4 s (`tcp_syn_linear_timeouts`).

pub(crate) mod kernel;
mod translation;

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;

use serde::Serialize;

use crate::LiveError;

pub use kernel::Kernel;

/// Sysctls under `/proc/sys/net` that do not depend on the plan. If an older kernel lacks one of these sysctls, it also
/// lacks the corresponding feature.
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

/// The sysctl that sets the default congestion control, which is used by sockets that do not select a congestion
/// control.
const DEFAULT_CONTROL: &str = "ipv4/tcp_congestion_control";

/// The TCP settings of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelTcp {
    /// Values of the namespace's sysctls, by their names under `/proc/sys/net`.
    sysctls: BTreeMap<&'static str, String>,
    /// Settings of the route to the peer.
    pub(crate) route: RouteSettings,
    /// Kernel name of the congestion control that connections use.
    control: String,
    /// Whether programs may select a different congestion control.
    free_choice: bool,
}

/// The settings of a route that affect TCP (`RTA_METRICS` of rtnetlink(7)).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct RouteSettings {
    /// Advertised maximum segment size in bytes, including TCP options.
    pub advmss: u32,
    /// Initial congestion window, in segments.
    pub initcwnd: u32,
    /// Initial receive window, in segments.
    pub initrwnd: Option<u32>,
    /// Maximum receive window, in bytes.
    pub window: u32,
    /// Minimum RTO, in milliseconds.
    pub rto_min_ms: u32,
    /// Congestion control of all connections, which overrides the congestion control that a socket selects; `None` if
    /// sockets may select a congestion control. A route can also set congestion controls that the machine does not
    /// permit sockets to select.
    pub congctl: Option<String>,
    /// Whether connections request ECN.
    pub ecn: bool,
    /// Whether every segment is acknowledged immediately.
    pub quickack: bool,
}

impl KernelTcp {
    /// Returns the kernel name of the congestion control that all connections use, except for connections of programs
    /// that select a different congestion control.
    pub fn congestion_control(&self) -> &str {
        &self.control
    }

    /// Returns these settings for a host on which programs run and may select a congestion control.
    #[must_use]
    pub(crate) fn with_free_choice(self) -> Self {
        Self { free_choice: true, ..self }
    }

    /// Returns these settings without a congestion control, for a host that does not use TCP.
    #[must_use]
    pub(crate) fn without_control(mut self) -> Self {
        self.route.congctl = None;
        self
    }

    /// Returns the settings of the route. If programs may select a congestion control, makes the plan's congestion
    /// control the default for sockets in the namespace of the calling thread. If the machine does not permit users to
    /// select this congestion control (`tcp_allowed_congestion_control`), the kernel rejects it as the default; in this
    /// case, the route sets the congestion control for all connections.
    pub(crate) fn settle_route(&self) -> Result<RouteSettings, LiveError> {
        let is_default = || Ok::<_, LiveError>(read(DEFAULT_CONTROL)?.as_deref() == Some(&self.control));
        if !self.free_choice {
            return Ok(self.route.clone());
        }
        let succeeded =
            is_default()? || fs::write(path(DEFAULT_CONTROL), &self.control).is_ok() && is_default()?;
        Ok(RouteSettings { congctl: (!succeeded).then(|| self.control.clone()), ..self.route.clone() })
    }

    /// Sets the sysctls in the namespace of the calling thread, and verifies their effective values.
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

    /// Returns the effective values of these sysctls in the namespace of the calling thread; `None` for a sysctl that
    /// the kernel does not have.
    pub(crate) fn sysctls_in_force(&self) -> Result<BTreeMap<&'static str, Option<String>>, LiveError> {
        let default_control = self.free_choice.then_some(&DEFAULT_CONTROL);
        self.sysctls.keys().chain(default_control).map(|name| Ok((*name, read(name)?))).collect()
    }
}

/// Returns whether a sysctl depends on the plan, in which case the kernel must have the sysctl.
fn is_required(name: &str) -> bool {
    !ALWAYS.iter().any(|(always, _)| *always == name)
}

fn path(name: &str) -> String {
    format!("/proc/sys/net/{name}")
}

/// Returns the value of a sysctl, whose parts are separated by single spaces; `None` if the kernel does not have the
/// sysctl.
fn read(name: &str) -> Result<Option<String>, LiveError> {
    match fs::read_to_string(path(name)) {
        Ok(text) => Ok(Some(text.split_whitespace().collect::<Vec<_>>().join(" "))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LiveError::new(format_args!("cannot read the sysctl net/{name}"), error)),
    }
}

#[cfg(test)]
mod tests;
