//! Validation of parameters: the limits of each parameter, and the valid combinations of parameters.
//!
//! The limits are aqmlab's choice, and are narrow enough that no sum or product of valid values overflows.

use aqm_net::{ConfigErrors, ErrorCollector, Span};

use super::Config;
use super::connection::{Close, Connection, Handshake, LastSegment, Nagle};
use super::cwnd::Cwnd;
use super::ecn::{Codepoint, EcnMode, Feedback, MarkResponse, ResolvedEcn};
use super::pacing::PacingMode;
use super::receiver::{DelayedAck, Receiver};
use super::recovery::{RecoveryKind, Reduction, Undo};
use super::rto::{Rto, RtoArithmetic, TimerClock};
use super::sack::Pipe;
use crate::rtt::Estimator;

const MAX_WIRE: u64 = 65_535;
const MAX_WINDOW: u64 = 1_000_000_000;
const IN_SEGMENTS: &str = "must be from 1 to 1000000000 segments";

impl Config {
    /// Checks all parameters and prepares them for the endpoints of TCP connections.
    ///
    /// # Errors
    /// Returns one error, which contains the reason, for each invalid parameter.
    pub fn build(&self) -> Result<CheckedConfig, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        errors.take(self.connection.check().map_err(|e| e.within("connection")));
        errors.take(self.congestion_control.check().map_err(|e| e.within("congestion_control")));
        errors.take(self.cwnd.check().map_err(|e| e.within("cwnd")));
        errors.take(self.check_recovery().map_err(|e| e.within("recovery")));
        errors.take(self.rto.check().map_err(|e| e.within("rto")));
        errors.take(self.receiver.check().map_err(|e| e.within("receiver")));
        errors.take(self.pacing.check().map_err(|e| e.within("pacing")));
        self.check_model(&mut errors);
        self.check_quic(&mut errors);
        let adapts = self.receiver.delayed_ack == DelayedAck::Adaptive;
        errors.check(
            !adapts || !self.rto.tick.is_zero(),
            "rto.tick",
            "must not be 0s, because `receiver.delayed_ack = \"adaptive\"` adapts the delay in ticks",
        );
        errors.finish(())?;
        let unmeasured = Estimator::new(&self.rto);
        let mss = self.connection.mss.bytes();
        let has_timestamps =
            self.congestion_control.has_timestamps() || self.recovery.undo == Undo::DsackOrTimestamps;
        let is_paced = match self.pacing.mode {
            PacingMode::Auto => self.congestion_control.uses_rates(),
            PacingMode::On => true,
            PacingMode::Off => false,
        };
        let ecn = self.ecn.resolved(self.congestion_control.ecn());
        let is_quic = self.recovery.kind == RecoveryKind::Quic;
        Ok(CheckedConfig { mss, unmeasured, has_timestamps, is_paced, is_quic, ecn, config: self.clone() })
    }

    /// Returns warnings about valid combinations of parameters in which the value of one parameter does not have its
    /// usual effect. Each warning begins with the path of the parameter.
    pub fn warnings(&self) -> Vec<String> {
        let (kind, needs) = (self.congestion_control.kind(), self.congestion_control.ecn());
        let mut warnings = Vec::new();
        let is_on = self.ecn.mode == EcnMode::On;
        if needs.is_required && !is_on {
            warnings.push(format!(
                "congestion_control.kind: {kind} requires ECN; with `ecn.mode = \"off\"` the senders follow Reno's rules"
            ));
        }
        let feedback = self.ecn.resolved(needs).feedback;
        if needs.is_required && is_on && !feedback.satisfies(needs.feedback) {
            warnings.push(format!(
                "ecn.feedback: {kind} requires another value, which it has by default; with this value, the senders \
                 follow Reno's rules"
            ));
        }
        if self.ecn.codepoint == Some(Codepoint::Ect1) && !needs.is_scalable && is_on {
            warnings.push(format!(
                "ecn.codepoint: ect1 requires a scalable congestion control (RFC 9331), which {kind} is not; the \
                 senders use ect0"
            ));
        }
        warnings
    }

    /// Checks that the loss recovery measures the delivery rates that a model-based congestion control uses.
    fn check_model(&self, errors: &mut ErrorCollector) {
        let has_scoreboard = self.recovery.kind.has_sack()
            && (self.recovery.kind != RecoveryKind::Sack || self.sack.pipe == Pipe::Scoreboard);
        let problem = format!(
            "must be sack (with `sack.pipe = \"scoreboard\"`), rack or quic with the congestion control {}, which uses \
             delivery rates",
            self.congestion_control.kind()
        );
        errors.check(has_scoreboard || !self.congestion_control.uses_rates(), "recovery.kind", problem);
    }

    /// Checks that the other parameters suit QUIC, or that parameters of QUIC are used only with QUIC.
    fn check_quic(&self, errors: &mut ErrorCollector) {
        if self.recovery.kind != RecoveryKind::Quic {
            let is_default = self.receiver.ack_every == Receiver::default().ack_every;
            errors.check(
                is_default,
                "receiver.ack_every",
                "has an effect only with `recovery.kind = \"quic\"`",
            );
            return;
        }
        let mut check = |is_valid, path, rule: &str| {
            let problem =
                format!("must be {rule} with `recovery.kind = \"quic\"`; the profile `quic` sets this value");
            errors.check(is_valid, path, problem);
        };
        check(self.connection.close == Close::None, "connection.close", "none");
        check(self.connection.nagle == Nagle::Off, "connection.nagle", "off");
        check(self.connection.last_segment == LastSegment::Exact, "connection.last_segment", "exact");
        check(self.recovery.reduction == Reduction::AtOnce, "recovery.reduction", "at-once");
        check(self.recovery.undo == Undo::Off, "recovery.undo", "off");
        check(self.rto.arithmetic == RtoArithmetic::Exact, "rto.arithmetic", "exact");
        check(!self.rto.tick.is_zero(), "rto.tick", "the timer granularity, for example 1ms,");
        let delays = matches!(self.receiver.delayed_ack, DelayedAck::Off | DelayedAck::EverySecond);
        check(delays, "receiver.delayed_ack", "off or every-second");
        let is_accurate = self.ecn.mode == EcnMode::Off || self.ecn.feedback == Some(Feedback::Accurate);
        check(is_accurate, "ecn.feedback", "accurate");
        let problem = format!(
            "must not be {} with `recovery.kind = \"quic\"`, because QUIC packets contain no timestamps",
            self.congestion_control.kind()
        );
        errors.check(!self.congestion_control.has_timestamps(), "congestion_control.kind", problem);
        let problem = "must not be ns-2-full with `recovery.kind = \"quic\"`: with this value, a sender waits for the \
                       retransmission timer, which QUIC does not have";
        errors.check(self.ecn.response != MarkResponse::Ns2Full, "ecn.response", problem);
    }

    fn check_recovery(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let recovery = &self.recovery;
        errors.check((1..=1000).contains(&recovery.dupthresh), "dupthresh", "must be from 1 to 1000");
        let tahoe = recovery.kind == RecoveryKind::Tahoe;
        let problem = "must not be tahoe with this congestion control: tahoe requires \
                   `congestion_control.kind = \"reno\"`";
        errors.check(!tahoe || self.congestion_control.kind() == "reno", "kind", problem);
        let counted = recovery.kind == RecoveryKind::Sack && self.sack.pipe != Pipe::Scoreboard;
        let problem = "must be at-once unless `sack.pipe` is scoreboard, because a counted pipe does not record \
                   delivered bytes";
        errors.check(!counted || recovery.reduction == Reduction::AtOnce, "reduction", problem);
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
        errors.check(full <= MAX_WIRE, "mss", "must be at most 65535B, including the header");
        let syn_ack_size = self.syn_ack_size.unwrap_or(self.ack_size);
        let sizes =
            [("syn_size", self.syn_size), ("ack_size", self.ack_size), ("syn_ack_size", syn_ack_size)];
        for (field, size) in sizes {
            errors.check((1..=MAX_WIRE).contains(&size.bytes()), field, "must be from 1B to 65535B");
        }
        errors.check(self.send_overhead <= Span::from_millis(1000), "send_overhead", "must be at most 1s");
        errors.finish(())
    }
}

impl Cwnd {
    fn check(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        for (field, segments) in
            [("initial", self.initial), ("initial_after_syn_loss", self.initial_after_syn_loss)]
        {
            errors.check((1..=MAX_WINDOW).contains(&segments), field, IN_SEGMENTS);
        }
        for (field, segments) in [
            ("initial_ssthresh", self.initial_ssthresh),
            ("ssthresh_after_syn_loss", self.ssthresh_after_syn_loss),
        ] {
            let sensible = segments.is_none_or(|value| (1.0..=MAX_WINDOW as f64).contains(&value));
            errors.check(sensible, field, IN_SEGMENTS);
        }
        let counted = self.abc_limit.is_none_or(|limit| (1.0..=MAX_WINDOW as f64).contains(&limit));
        errors.check(counted, "abc_limit", "must be at least 1 segment, or `none` for no limit");
        errors.finish(())
    }
}

impl Receiver {
    fn check(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        errors.check((1..=MAX_WINDOW).contains(&self.window), "window", IN_SEGMENTS);
        let fits = self.first_window.is_none_or(|first| (1..=self.window).contains(&first));
        errors.check(fits, "first_window", "must be between 1 segment and `window`");
        let delays = self.delayed_ack == DelayedAck::Off || !self.delayed_ack_timer.is_zero();
        errors.check(delays, "delayed_ack_timer", "must not be 0s");
        let adapts = self.sack_delay.is_zero() || self.delayed_ack == DelayedAck::Adaptive;
        errors.check(adapts, "sack_delay", "must be 0s unless `delayed_ack` is adaptive");
        errors.check((1..=1000).contains(&self.ack_every), "ack_every", "must be from 1 to 1000 packets");
        errors.finish(())
    }
}

impl Rto {
    fn check(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        if self.arithmetic == RtoArithmetic::Ticks {
            errors.check(!self.tick.is_zero(), "tick", "must not be 0s with `arithmetic = \"ticks\"`");
            let problem =
                "must have its default with `arithmetic = \"ticks\"`: 0.125 for SRTT, 0.25 for RTTVAR";
            errors.check(self.srtt_gain == 0.125, "srtt_gain", problem);
            errors.check(self.rttvar_gain == 0.25, "rttvar_gain", problem);
        }
        let wheel = self.clock == TimerClock::Wheel;
        errors.check(!self.tick.is_zero() || !wheel, "tick", "must not be 0s with `clock = \"wheel\"`");
        let (round, problem) = if wheel { (64, "must be below 64 ticks") } else { (1, "must be below tick") };
        let early = self.tick_phase < self.tick.saturating_mul(round);
        errors.check(early || self.tick_phase.is_zero(), "tick_phase", problem);
        for (field, gain) in [("srtt_gain", self.srtt_gain), ("rttvar_gain", self.rttvar_gain)] {
            errors.check((0.0..=1.0).contains(&gain), field, "must be from 0 to 1");
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

/// Validated parameters, which are shared by all endpoints that use these parameters.
#[derive(Clone, Debug)]
pub struct CheckedConfig {
    pub(crate) config: Config,
    pub(crate) mss: u64,
    /// State of the round-trip estimator before the first sample.
    pub(crate) unmeasured: Estimator,
    /// Whether segments carry timestamps.
    pub(crate) has_timestamps: bool,
    /// Whether senders pace their segments.
    pub(crate) is_paced: bool,
    /// Whether the endpoints use QUIC's packet numbers.
    pub(crate) is_quic: bool,
    pub(crate) ecn: ResolvedEcn,
}

impl CheckedConfig {
    /// Returns the payload of a full segment, in bytes.
    pub fn payload(&self) -> u64 {
        self.mss
    }

    /// Returns whether the transport delivers the data of each stream independently of other streams, as QUIC does, and
    /// whether its handshake includes TLS.
    pub fn has_streams(&self) -> bool {
        self.is_quic
    }

    /// Returns the number of data segments that are needed for `bytes` bytes of data.
    pub fn segments(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.mss)
    }

    /// Returns the number of bytes that a sender puts on the wire to transfer `bytes` bytes of data without losses. SYN
    /// and FIN are included, and acknowledgements are excluded.
    pub fn wire_bytes(&self, bytes: u64) -> u64 {
        let Connection { handshake, close, header, syn_size, .. } = &self.config.connection;
        let syn = match handshake {
            Handshake::ThreeWay | Handshake::TwoWay => syn_size.bytes(),
            Handshake::None => 0,
        };
        let fin = match close {
            // The last data segment carries the FIN. Only a transfer without data sends a separate FIN.
            Close::Fin if bytes == 0 => syn_size.bytes(),
            _ => 0,
        };
        syn + self.end(bytes) + self.segments(bytes) * header.bytes() + fin
    }

    /// Returns the sequence number that follows the last byte of a transfer of `bytes` bytes.
    pub(crate) fn end(&self, bytes: u64) -> u64 {
        match self.config.connection.last_segment {
            LastSegment::Exact => bytes,
            LastSegment::Padded => self.segments(bytes).saturating_mul(self.mss),
        }
    }
}
