//! What may be set: every parameter within its limits, and what may be combined.
//!
//! Ours: the limits. They keep every sum and product far from overflow.

use aqm_net::{ConfigErrors, ErrorCollector, Span};

use super::Config;
use super::connection::{Close, Connection, Handshake, LastSegment};
use super::cwnd::Cwnd;
use super::receiver::{DelayedAck, Receiver};
use super::recovery::{RecoveryKind, Reduction, Undo};
use super::rto::{Rto, RtoArithmetic, TimerClock};
use super::sack::Pipe;
use crate::rtt::Estimator;

const MAX_WIRE: u64 = 65_535;
const MAX_WINDOW: u64 = 1_000_000_000;
const IN_SEGMENTS: &str = "must be 1 to 1000000000 segments";

impl Config {
    /// Checks everything and makes it ready for both ends of a connection.
    ///
    /// # Errors
    /// Every parameter that makes no sense, and why.
    pub fn build(&self) -> Result<CheckedConfig, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        errors.take(self.connection.check().map_err(|e| e.within("connection")));
        errors.take(self.congestion_control.check().map_err(|e| e.within("congestion_control")));
        errors.take(self.cwnd.check().map_err(|e| e.within("cwnd")));
        errors.take(self.check_recovery().map_err(|e| e.within("recovery")));
        errors.take(self.rto.check().map_err(|e| e.within("rto")));
        errors.take(self.receiver.check().map_err(|e| e.within("receiver")));
        let adapts = self.receiver.delayed_ack == DelayedAck::Adaptive;
        errors.check(
            !adapts || !self.rto.tick.is_zero(),
            "rto.tick",
            "must not be 0s: the delay adapts in ticks",
        );
        errors.finish(())?;
        let unmeasured = Estimator::new(&self.rto);
        let mss = self.connection.mss.bytes();
        let has_timestamps =
            self.congestion_control.has_timestamps() || self.recovery.undo == Undo::DsackOrTimestamps;
        Ok(CheckedConfig { mss, unmeasured, has_timestamps, config: self.clone() })
    }

    fn check_recovery(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let recovery = &self.recovery;
        errors.check((1..=1000).contains(&recovery.dupthresh), "dupthresh", "must be 1 to 1000");
        let tahoe = recovery.kind == RecoveryKind::Tahoe;
        let why = "must not be tahoe with this congestion control: tahoe starts from one segment after every \
                   loss, as reno does";
        errors.check(!tahoe || self.congestion_control.kind() == "reno", "kind", why);
        let counted = recovery.kind == RecoveryKind::Sack && self.sack.pipe != Pipe::Scoreboard;
        let why = "must be at-once with a counted pipe, which does not know how much has arrived";
        errors.check(!counted || recovery.reduction == Reduction::AtOnce, "reduction", why);
        let burst = recovery.max_burst.is_none_or(|segments| segments > 0);
        errors.check(burst, "max_burst", "must be at least 1 segment");
        errors.finish(())
    }
}

impl Connection {
    fn check(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        errors.check(self.mss.bytes() > 0, "mss", "must be at least 1B");
        let full = self.mss.bytes().saturating_add(self.header.bytes());
        errors.check(full <= MAX_WIRE, "mss", "must be at most 65535B, header included");
        for (place, size) in [("syn_size", self.syn_size), ("ack_size", self.ack_size)] {
            errors.check((1..=MAX_WIRE).contains(&size.bytes()), place, "must be 1B to 65535B");
        }
        errors.check(self.send_overhead <= Span::from_millis(1000), "send_overhead", "must be at most 1s");
        errors.finish(())
    }
}

impl Cwnd {
    fn check(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        for (place, segments) in
            [("initial", self.initial), ("initial_after_syn_loss", self.initial_after_syn_loss)]
        {
            errors.check((1..=MAX_WINDOW).contains(&segments), place, IN_SEGMENTS);
        }
        for (place, segments) in [
            ("initial_ssthresh", self.initial_ssthresh),
            ("ssthresh_after_syn_loss", self.ssthresh_after_syn_loss),
        ] {
            let sensible = segments.is_none_or(|value| (1.0..=MAX_WINDOW as f64).contains(&value));
            errors.check(sensible, place, IN_SEGMENTS);
        }
        let counted = self.abc_limit.is_none_or(|limit| (1.0..=MAX_WINDOW as f64).contains(&limit));
        errors.check(counted, "abc_limit", "must be at least 1 segment; left out, it does not limit");
        errors.finish(())
    }
}

impl Receiver {
    fn check(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        errors.check((1..=MAX_WINDOW).contains(&self.window), "window", IN_SEGMENTS);
        let fits = self.first_window.is_none_or(|first| (1..=self.window).contains(&first));
        errors.check(fits, "first_window", "must be 1 segment up to `window`");
        let delays = self.delayed_ack == DelayedAck::Off || !self.delayed_ack_timer.is_zero();
        errors.check(delays, "delayed_ack_timer", "must not be 0s");
        let adapts = self.sack_delay.is_zero() || self.delayed_ack == DelayedAck::Adaptive;
        errors.check(adapts, "sack_delay", "must be 0s unless `delayed_ack` is adaptive");
        errors.finish(())
    }
}

impl Rto {
    fn check(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        if self.arithmetic == RtoArithmetic::Ticks {
            errors.check(!self.tick.is_zero(), "tick", "must not be 0s: `arithmetic` counts in ticks");
            let problem = "must be left alone: `ticks` knows only 0.125 for SRTT and 0.25 for RTTVAR";
            errors.check(self.srtt_gain == 0.125, "srtt_gain", problem);
            errors.check(self.rttvar_gain == 0.25, "rttvar_gain", problem);
        }
        let wheel = self.clock == TimerClock::Wheel;
        errors.check(!self.tick.is_zero() || !wheel, "tick", "must not be 0s: timers run out on ticks");
        let (round, problem) = if wheel { (64, "must be below 64 ticks") } else { (1, "must be below tick") };
        let early = self.tick_phase < self.tick.saturating_mul(round);
        errors.check(early || self.tick_phase.is_zero(), "tick_phase", problem);
        for (place, gain) in [("srtt_gain", self.srtt_gain), ("rttvar_gain", self.rttvar_gain)] {
            errors.check((0.0..=1.0).contains(&gain), place, "must be 0 to 1");
        }
        errors.check(!self.initial.is_zero(), "initial", "must not be 0s");
        errors.check(!self.min.is_zero(), "min", "must not be 0s");
        errors.check(self.min <= self.max, "max", "must not be below min");
        errors.check(self.initial <= self.max, "initial", "must not exceed max");
        let after_syn_loss = self.after_syn_loss.unwrap_or(self.max);
        errors.check(after_syn_loss <= self.max, "after_syn_loss", "must not exceed max");
        errors.finish(())
    }
}

/// Checked parameters, shared by all ends that use them.
#[derive(Clone, Debug)]
pub struct CheckedConfig {
    pub(crate) config: Config,
    pub(crate) mss: u64,
    /// What an end knows of the path before the first round trip.
    pub(crate) unmeasured: Estimator,
    /// Whether segments tell when they were sent.
    pub(crate) has_timestamps: bool,
}

impl CheckedConfig {
    /// Payload of a full segment, in bytes.
    pub fn payload(&self) -> u64 {
        self.mss
    }

    /// Data segments that `bytes` bytes take.
    pub fn segments(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.mss)
    }

    /// Bytes on the wire from sender to receiver for `bytes` bytes if nothing is lost: SYN and
    /// FIN included, acknowledgements not.
    pub fn wire_bytes(&self, bytes: u64) -> u64 {
        let Connection { handshake, close, header, syn_size, .. } = &self.config.connection;
        let syn = match handshake {
            Handshake::ThreeWay | Handshake::TwoWay => syn_size.bytes(),
            Handshake::None => 0,
        };
        let fin = match close {
            // A FIN rides on the last segment; only a transfer without data sends it alone.
            Close::Fin if bytes == 0 => syn_size.bytes(),
            _ => 0,
        };
        syn + self.end(bytes) + self.segments(bytes) * header.bytes() + fin
    }

    /// Where the sequence numbers of a transfer of `bytes` bytes end.
    pub(crate) fn end(&self, bytes: u64) -> u64 {
        match self.config.connection.last_segment {
            LastSegment::Exact => bytes,
            LastSegment::Padded => self.segments(bytes).saturating_mul(self.mss),
        }
    }
}
