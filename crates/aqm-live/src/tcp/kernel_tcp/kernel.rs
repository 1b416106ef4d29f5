//! Properties of a kernel that affect TCP but cannot be set for a single namespace.

use std::fs;
use std::path::Path;

use aqm_net::Span;
use nix::time::{ClockId, clock_getres};
use serde::Serialize;

/// The properties of a Linux kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kernel {
    /// First two numbers of the kernel release.
    pub release: (u32, u32),
    /// Duration of a timer tick (`CONFIG_HZ`).
    pub tick: Span,
    /// Whether the maximum RTO can be set (`tcp_rto_max_ms`, since Linux 6.15).
    pub has_rto_max: bool,
    /// Whether CUBIC leaves slow start early (HyStart), which is a system-wide setting; `None` if CUBIC is not loaded.
    pub hystart: Option<bool>,
}

impl Kernel {
    /// Returns the properties of the running kernel.
    pub fn running() -> Self {
        let text = |file: &str| fs::read_to_string(file).unwrap_or_default();
        let release = text("/proc/sys/kernel/osrelease");
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse().ok());
        let release = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        // The resolution of this clock is one tick.
        let tick = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).map_or_else(
            |_| Span::from_millis(4),
            |tick| Span::from_nanos(u64::try_from(tick.tv_nsec()).unwrap_or_default()),
        );
        let hystart = text("/sys/module/tcp_cubic/parameters/hystart");
        Self {
            release,
            tick,
            has_rto_max: Path::new("/proc/sys/net/ipv4/tcp_rto_max_ms").exists(),
            hystart: hystart.trim().parse::<u32>().ok().map(|on| on != 0),
        }
    }

    /// Returns whether connections with SACK can run without RACK. Since Linux 6.17, connections with SACK always use
    /// RACK, regardless of `tcp_recovery`.
    pub fn has_sack_without_rack(&self) -> bool {
        self.release < (6, 17)
    }
}

/// Returns the available congestion controls; the result is empty if the kernel does not report them.
pub(crate) fn congestion_controls() -> Vec<String> {
    let found = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    found.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// Returns the reason why a congestion control cannot be used. `available` contains the names of the available
/// congestion controls.
pub(crate) fn without_control(name: &str, available: &[String]) -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let modules = fs::read_to_string(format!("/lib/modules/{}/modules.dep", release.trim()));
    if modules.is_ok_and(|modules| modules.contains(&format!("/tcp_{name}.ko"))) {
        return format!("the kernel module of `{name}` is not loaded: run `modprobe tcp_{name}` as root");
    }
    format!("the kernel of this machine does not support `{name}`; available: {}", available.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_has_reno_and_a_missing_control_is_reported_with_the_available_ones() {
        let available = congestion_controls();
        assert!(available.iter().any(|name| name == "reno"), "{available:?}");
        let names = ["reno".to_owned(), "cubic".to_owned()];
        assert_eq!(
            without_control("no-such", &names),
            "the kernel of this machine does not support `no-such`; available: reno, cubic"
        );
    }

    #[test]
    fn the_running_kernel_is_read() {
        let kernel = Kernel::running();
        assert!(kernel.release >= (4, 0), "{kernel:?}");
        assert!(kernel.tick >= Span::from_millis(1) && kernel.tick <= Span::from_millis(10), "{kernel:?}");
    }
}
