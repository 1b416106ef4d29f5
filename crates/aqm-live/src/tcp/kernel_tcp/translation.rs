//! Translates a `[tcp]` table to kernel settings, and checks for parameters that the kernel does not support.
//!
//! Sources: Linux, `tcp_output.c`, `tcp_input.c`, `tcp_minisocks.c`, `tcp_recovery.c`. `SETTABLE` lists the parameters
//! that can be set. All other parameters describe fixed behaviour of Linux and must have the same values as in the
//! profile `linux-6`.

use std::collections::BTreeMap;

use aqm_net::{ConfigError, ConfigErrors, ErrorCollector, Size, Span};
use aqm_tcp::config::connection::Connection;
use aqm_tcp::config::cwnd::IdleRestart;
use aqm_tcp::config::ecn::EcnMode;
use aqm_tcp::config::receiver::{DelayedAck, Receiver};
use aqm_tcp::config::recovery::{Frto, Recovery, RecoveryKind, Undo};
use aqm_tcp::config::sack::Dsack;
use aqm_tcp::{Config, INITIAL_BUFFER, packet_memory};
use serde_json::Value;

use super::{ALWAYS, Kernel, KernelTcp, RouteSettings};
use crate::router::buffers::MTU;

/// Length of the IPv4 and TCP headers in bytes, without options.
const HEADERS: u32 = 40;

/// Minimum segment size in Linux, in bytes (`tcp_min_snd_mss` plus the TCP options).
const MIN_MSS: u64 = 88;

/// Length in bytes of the timestamps option, which every segment contains (RFC 7323, appendix A).
const TIMESTAMPS: u32 = 12;

/// The parameters that correspond to a kernel setting or are determined by other parameters.
const SETTABLE: &[&str] = &[
    "congestion_control.hystart",
    "congestion_control.kind",
    "connection.ack_size",
    "connection.header",
    "connection.max_retries",
    "connection.max_syn_retries",
    "connection.mss",
    "connection.syn_size",
    "cwnd.idle_restart",
    "cwnd.initial",
    "cwnd.initial_after_syn_loss",
    "ecn.mode",
    "receiver.delayed_ack",
    "receiver.delayed_ack_timer",
    "receiver.first_window",
    "receiver.quick_acks",
    "receiver.window",
    "recovery.dupthresh",
    "recovery.frto",
    "recovery.kind",
    "recovery.undo",
    "rto.max",
    "rto.min",
    "rto.tick",
    "sack.dsack",
];

/// The parameters that apply only to simulations.
const SIMULATED: &[&str] = &["cwnd.hint", "receiver.sack_delay", "rto.tick_phase"];

/// The loss recovery parameters that do not affect connections with SACK.
const NO_EFFECT_WITH_SACK: &[&str] =
    &["recovery.exit_window", "recovery.inflation", "recovery.max_burst", "recovery.partial_ack_timer"];

impl KernelTcp {
    /// Returns the settings that make the kernel behave as `config` specifies. The packet lengths in `config` include
    /// `link_header` bytes.
    ///
    /// # Errors
    /// Returns an error for each parameter that the kernel does not support; the error states the supported values.
    pub fn of(config: &Config, kernel: &Kernel, link_header: Size) -> Result<Self, ConfigErrors> {
        let (nearest, refused) = Self::nearest(config, kernel, link_header, None);
        refused.finish(nearest)
    }

    /// Returns the settings that are nearest to `config`, and the differences between these settings and `config`. If
    /// `control` is set, it replaces the congestion control of `config`.
    pub fn nearest(
        config: &Config,
        kernel: &Kernel,
        link_header: Size,
        control: Option<&str>,
    ) -> (Self, ErrorCollector) {
        let refused = ErrorCollector::default();
        let mut translation = Translation { config, kernel, link_header, control, refused };
        let route = translation.route();
        let sysctls = translation.sysctls(&route);
        translation.hystart();
        translation.compare_the_rest();
        let control = translation.control().to_owned();
        (Self { sysctls, route, control, free_choice: false }, translation.refused)
    }
}

struct Translation<'a> {
    config: &'a Config,
    kernel: &'a Kernel,
    /// Length of the link header, which is included in the lengths of packets on the link.
    link_header: Size,
    /// The congestion control that replaces the congestion control of `config`.
    control: Option<&'a str>,
    refused: ErrorCollector,
}

impl Translation<'_> {
    fn route(&mut self) -> RouteSettings {
        let Config { cwnd, rto, receiver, ecn, .. } = self.config;
        let mss = self.mss();
        let (window, first_window) = self.windows(mss);
        self.check(
            cwnd.initial_after_syn_loss == cwnd.initial,
            "cwnd.initial_after_syn_loss",
            format_args!(
                "must be equal to cwnd.initial, {} (got {}), because Linux ignores the loss of one SYN",
                cwnd.initial, cwnd.initial_after_syn_loss
            ),
        );
        let rto_min_ms = rto.min.nanos() / 1_000_000;
        self.check(
            (1..=120_000).contains(&rto_min_ms) && Span::from_millis(rto_min_ms) == rto.min,
            "rto.min",
            format_args!("must be whole milliseconds from 1ms to 120s (got {})", rto.min),
        );
        RouteSettings {
            advmss: mss + if self.has_timestamps() { TIMESTAMPS } else { 0 },
            initcwnd: u32::try_from(cwnd.initial).unwrap_or(u32::MAX),
            initrwnd: first_window,
            window,
            rto_min_ms: u32::try_from(rto_min_ms.clamp(1, 120_000)).unwrap_or_default(),
            congctl: Some(self.control().to_owned()),
            ecn: ecn.mode == EcnMode::On,
            quickack: receiver.delayed_ack == DelayedAck::Off,
        }
    }

    fn sysctls(&mut self, route: &RouteSettings) -> BTreeMap<&'static str, String> {
        let mut sysctls: BTreeMap<_, _> =
            ALWAYS.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let buffer = self.receive_buffer(route.window);
        // If the maximum receive window is fixed, the receive window grows by two segments for each received segment,
        // and every segment is acknowledged immediately while the window grows (`tcp_grow_window`). An automatically
        // tuned receive window grows only when the sender needs a larger window.
        let is_tuned = self.config.receiver.first_window.is_none() && buffer > INITIAL_BUFFER;
        let first_buffer = if is_tuned { INITIAL_BUFFER } else { buffer };
        let Recovery { kind, dupthresh, frto, .. } = self.config.recovery;
        let rack = self.rack();
        let on = |flag: bool| u32::from(flag).to_string();
        let (syn_retries, retries) = self.retries();
        let restart = self.idle_restart();
        self.check(
            (1..=300).contains(&dupthresh),
            "recovery.dupthresh",
            format_args!("must be from 1 to 300 (got {dupthresh})"),
        );
        sysctls.extend([
            ("ipv4/tcp_rmem", format!("4096 {first_buffer} {buffer}")),
            ("ipv4/tcp_moderate_rcvbuf", on(is_tuned)),
            ("ipv4/tcp_timestamps", on(self.has_timestamps())),
            ("ipv4/tcp_window_scaling", on(self.window_scaling())),
            ("ipv4/tcp_sack", on(kind.has_sack())),
            ("ipv4/tcp_dsack", on(self.has_dsack())),
            ("ipv4/tcp_recovery", on(rack)),
            ("ipv4/tcp_early_retrans", if rack { "3" } else { "0" }.to_owned()),
            ("ipv4/tcp_frto", if frto == Frto::On { "2" } else { "0" }.to_owned()),
            ("ipv4/tcp_reordering", dupthresh.clamp(1, 300).to_string()),
            ("ipv4/tcp_slow_start_after_idle", on(restart)),
            ("ipv4/tcp_ecn", on(route.ecn)),
            ("ipv4/tcp_syn_retries", syn_retries.to_string()),
            ("ipv4/tcp_synack_retries", syn_retries.to_string()),
            ("ipv4/tcp_retries2", retries.to_string()),
            ("ipv4/tcp_orphan_retries", retries.to_string()),
        ]);
        let max = self.rto_max();
        if self.kernel.has_rto_max {
            sysctls.insert("ipv4/tcp_rto_max_ms", max.to_string());
        }
        sysctls
    }

    /// Returns the kernel name of the congestion control.
    fn control(&self) -> &str {
        self.control.unwrap_or(match self.config.congestion_control.kind() {
            "bbr1" => "bbr",
            kind => kind,
        })
    }

    /// Checks the parameter for HyStart, which cannot be set for a single host.
    fn hystart(&mut self) {
        if self.control.is_some() {
            return;
        }
        let configured = self.leaf("congestion_control.hystart");
        let in_force = if self.kernel.hystart == Some(false) { "off" } else { "linux" };
        self.check(
            configured.is_null() || configured == in_force,
            "congestion_control.hystart",
            format_args!(
                "must be {in_force} (got {}), as on this machine in /sys/module/tcp_cubic/parameters/hystart",
                word(&configured)
            ),
        );
    }

    fn has_timestamps(&self) -> bool {
        self.config.connection.header == self.on_the_wire(HEADERS + TIMESTAMPS)
    }

    /// Returns the length on the link of a packet that is `bytes` bytes long.
    fn on_the_wire(&self, bytes: u32) -> Size {
        Size::from_bytes(u64::from(bytes) + self.link_header.bytes())
    }

    /// Returns the length of a data packet's headers in bytes, without the link header.
    fn headers(&self) -> u32 {
        HEADERS + if self.has_timestamps() { TIMESTAMPS } else { 0 }
    }

    fn has_dsack(&self) -> bool {
        self.config.recovery.kind.has_sack() && self.config.sack.dsack == Dsack::On
    }

    /// Returns the payload length of a full-sized segment in bytes, and checks the lengths of headers.
    fn mss(&mut self) -> u32 {
        let Connection { mss, header, ack_size, .. } = self.config.connection;
        let (without, with) = (self.on_the_wire(HEADERS), self.on_the_wire(HEADERS + TIMESTAMPS));
        self.check(
            [without, with].contains(&header),
            "connection.header",
            format_args!("must be {without}, or {with} with timestamps (got {header})"),
        );
        self.check(
            ack_size == header,
            "connection.ack_size",
            format_args!("must be equal to connection.header, {header} (got {ack_size})"),
        );
        let most = MTU as u64 - u64::from(self.headers());
        self.check(
            (MIN_MSS..=most).contains(&mss.bytes()),
            "connection.mss",
            format_args!("must be from {MIN_MSS}B to {most}B, the MTU of {MTU}B without headers (got {mss})"),
        );
        u32::try_from(mss.bytes().clamp(MIN_MSS, most)).unwrap_or_default()
    }

    /// Returns the length of a SYN on the link. Of the options for maximum segment size, SACK, timestamps and window
    /// scaling, the SYN contains those that are configured.
    fn syn_size(&self, window_scaling: bool) -> Size {
        let sack_or_timestamps = match (self.has_timestamps(), self.config.recovery.kind.has_sack()) {
            (true, _) => TIMESTAMPS,
            (false, true) => 4,
            (false, false) => 0,
        };
        self.on_the_wire(HEADERS + 4 + sack_or_timestamps + if window_scaling { 4 } else { 0 })
    }

    /// Returns whether windows are scaled. In the configuration, window scaling is apparent only from the size of a
    /// SYN.
    fn window_scaling(&self) -> bool {
        self.config.connection.syn_size != self.syn_size(false)
    }

    /// Returns the receive window in bytes, and the initial receive window in segments.
    fn windows(&mut self, mss: u32) -> (u32, Option<u32>) {
        let Receiver { window, first_window, .. } = self.config.receiver;
        let (with, without) = (self.syn_size(true), self.syn_size(false));
        let size = self.config.connection.syn_size;
        self.check(
            [with, without].contains(&size),
            "connection.syn_size",
            format_args!("must be {with}, or {without} without window scaling (got {size})"),
        );
        let most = if self.window_scaling() { 65_535 << 14 } else { 65_535 };
        let bytes = window.saturating_mul(u64::from(mss));
        self.check(
            bytes <= most,
            "receiver.window",
            format_args!("must be at most {} segments (got {window})", most / u64::from(mss)),
        );
        let first = first_window.map(|segments| u32::try_from(segments).unwrap_or(u32::MAX));
        (u32::try_from(bytes.min(most)).unwrap_or_default(), first)
    }

    /// Returns the size of the receive buffer, in bytes, that a receive window of `window` bytes requires.
    ///
    /// The size of a buffer includes memory overhead, whereas the size of a window counts only data. Initially, the
    /// kernel assumes that half of the memory contains data. When the first segment longer than 536 bytes arrives, the
    /// kernel uses this segment to compute the fraction of the memory that contains data. Since Linux 6.11, the window
    /// derived from the buffer size then overrides the window that is set on the route.
    fn receive_buffer(&self, window: u32) -> u64 {
        let mss = self.config.connection.mss;
        let window = u64::from(window);
        let buffer = if self.kernel.release >= (6, 11) && mss.bytes() > 536 {
            let share = (mss.bytes() * 256 / packet_memory(mss.bytes() + u64::from(self.headers()))).max(1);
            // The sum includes one additional segment, which has just arrived when the window grows, and half a segment
            // to allow for rounding.
            (window + mss.bytes() + mss.bytes() / 2) * 256 / share
        } else {
            window * 8
        };
        buffer.clamp(4096, i32::MAX as u64)
    }

    /// Checks the parameters of loss recovery. Returns whether RACK-TLP is used to detect losses.
    fn rack(&mut self) -> bool {
        let kind = self.config.recovery.kind;
        let allowed = if self.kernel.has_sack_without_rack() {
            "must be rack, sack or newreno"
        } else {
            "must be rack, or newreno without SACK, because SACK has required RACK since Linux 6.17"
        };
        let known = match kind {
            RecoveryKind::Rack | RecoveryKind::NewReno => true,
            RecoveryKind::Sack => self.kernel.has_sack_without_rack(),
            RecoveryKind::Tahoe | RecoveryKind::Reno | RecoveryKind::Quic => false,
        };
        let kind_word = word(&self.leaf("recovery.kind"));
        self.check(known, "recovery.kind", format_args!("{allowed} (got {kind_word})"));
        let (undo, allowed) = match (self.has_timestamps(), self.has_dsack()) {
            (true, _) => (Undo::DsackOrTimestamps, "must be dsack-or-timestamps"),
            (false, true) => (Undo::Dsack, "must be dsack"),
            (false, false) => (self.config.recovery.undo, ""),
        };
        self.check(
            self.config.recovery.undo == undo,
            "recovery.undo",
            format_args!(
                "{allowed} (got {}), because Linux undoes a reduction that D-SACK or timestamps \
                 show to be spurious",
                word(&self.leaf("recovery.undo"))
            ),
        );
        kind == RecoveryKind::Rack
    }

    /// Returns the maximum number of retransmissions of a SYN and the maximum number of retransmissions of data.
    fn retries(&mut self) -> (u32, u32) {
        let Connection { max_syn_retries, max_retries, .. } = self.config.connection;
        let limited =
            |retries: Option<u32>, most| retries.is_some_and(|retries| (1..=most).contains(&retries));
        self.check(limited(max_syn_retries, 127), "connection.max_syn_retries", "must be from 1 to 127");
        self.check(limited(max_retries, 255), "connection.max_retries", "must be from 1 to 255");
        (max_syn_retries.unwrap_or(127).clamp(1, 127), max_retries.unwrap_or(255).clamp(1, 255))
    }

    fn idle_restart(&mut self) -> bool {
        let restart = self.config.cwnd.idle_restart;
        let known = matches!(restart, IdleRestart::Off | IdleRestart::InitialWindow);
        self.check(known, "cwnd.idle_restart", "must be initial-window or off");
        restart != IdleRestart::Off
    }

    /// Returns the maximum RTO in milliseconds, and checks the parameters of the kernel's clock.
    fn rto_max(&mut self) -> u64 {
        let (max, tick) = (self.config.rto.max, self.config.rto.tick);
        let ms = max.nanos() / 1_000_000;
        let least = if self.kernel.has_rto_max { 1000 } else { 120_000 };
        let settable = (least..=120_000).contains(&ms) && Span::from_millis(ms) == max;
        let allowed = if self.kernel.has_rto_max { "from 1s to 120s, in whole milliseconds" } else { "120s" };
        self.check(settable, "rto.max", format_args!("must be {allowed} (got {max})"));
        self.check(
            tick == self.kernel.tick,
            "rto.tick",
            format_args!("must be the kernel's tick, {} (got {tick})", self.kernel.tick),
        );
        self.acknowledgements();
        ms.clamp(least, 120_000)
    }

    fn acknowledgements(&mut self) {
        let Receiver { delayed_ack, delayed_ack_timer, quick_acks, .. } = self.config.receiver;
        if delayed_ack == DelayedAck::Off {
            return;
        }
        self.check(
            delayed_ack == DelayedAck::Adaptive,
            "receiver.delayed_ack",
            format_args!("must be adaptive or off (got {})", word(&self.leaf("receiver.delayed_ack"))),
        );
        let same = delayed_ack_timer == Span::from_millis(40);
        self.check(
            same,
            "receiver.delayed_ack_timer",
            format_args!("must be 40ms (got {delayed_ack_timer})"),
        );
        self.check(quick_acks == 16, "receiver.quick_acks", format_args!("must be 16 (got {quick_acks})"));
    }

    /// Checks that all parameters without a kernel setting agree with the fixed behaviour of Linux.
    fn compare_the_rest(&mut self) {
        let sack = self.config.recovery.kind.has_sack();
        let linux = linux_with(self.config.congestion_control.kind());
        for (path, value) in leaves(&self.config.to_value()) {
            let group = path.split('.').next().unwrap_or_default();
            let has_no_effect = SETTABLE.contains(&path.as_str())
                || SIMULATED.contains(&path.as_str())
                || (sack && NO_EFFECT_WITH_SACK.contains(&path.as_str()))
                || (!sack && group == "sack")
                || (self.control.is_some() && group == "congestion_control")
                || (self.config.ecn.mode == EcnMode::Off && group == "ecn");
            let expected = linux.get(&path);
            if !has_no_effect && expected != Some(&value) {
                let (expected, value) = (word(expected.unwrap_or(&Value::Null)), word(&value));
                let problem = format!("must be {expected} (got {value}), the fixed behaviour of Linux");
                self.refused.add(ConfigError::at(path, problem));
            }
        }
    }

    /// Returns the value of the parameter at `path`.
    fn leaf(&self, path: &str) -> Value {
        leaves(&self.config.to_value()).remove(path).unwrap_or_default()
    }

    fn check(&mut self, condition: bool, path: &str, problem: impl std::fmt::Display) {
        self.refused.check(condition, path, problem);
    }
}

/// Returns the parameters of the profile `linux-6` with this congestion control, by path.
fn linux_with(control: &str) -> BTreeMap<String, Value> {
    let table = serde_json::json!({ "profile": "linux-6", "congestion_control": { "kind": control } });
    aqm_tcp::read(table).map(|config| leaves(&config.to_value())).unwrap_or_default()
}

/// Returns the values of a table, keyed by path.
fn leaves(table: &Value) -> BTreeMap<String, Value> {
    let mut leaves = BTreeMap::new();
    let groups = table.as_object().into_iter().flatten();
    for (group, parameters) in groups {
        for (name, value) in parameters.as_object().into_iter().flatten() {
            leaves.insert(format!("{group}.{name}"), value.clone());
        }
    }
    leaves
}

/// Returns a value as text in the notation that scenarios use, without quotes.
fn word(value: &Value) -> String {
    match value {
        Value::Null => "omitted".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
