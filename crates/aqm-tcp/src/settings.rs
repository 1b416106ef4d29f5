//! Checked settings, ready for senders and receivers.
//!
//! Ours: the limits of what may be set. They keep every sum and product far from overflow.

use std::sync::Arc;

use aqm_net::{ConfigError, Span};

use crate::Endpoint;
use crate::profile::{Close, Config, DelayedAck, Handshake, LastSegment, Pipe, Recovery, Reduction};
use crate::rtt::{RtoArithmetic, Rules, TimerClock};

impl Config {
    /// Checks everything and makes it ready for senders and receivers.
    ///
    /// # Errors
    /// The first parameter that makes no sense, and why.
    pub fn build(&self) -> Result<CheckedConfig, ConfigError> {
        self.check_sizes()?;
        self.check_windows()?;
        self.check_times()?;
        self.check_recovery()?;
        self.control.check().map_err(|error| error.within("control"))?;
        Ok(CheckedConfig {
            rules: Rules {
                arithmetic: self.rto_arithmetic,
                tick: self.tick,
                tick_phase: self.tick_phase,
                srtt_gain: self.srtt_gain,
                rttvar_gain: self.rttvar_gain,
                initial: self.initial_rto,
                min: self.min_rto,
                min_applies: self.min_rto_applies,
                max: self.max_rto,
                clock: self.timer_clock,
            },
            mss: self.mss.bytes(),
            config: self.clone(),
        })
    }

    fn check_sizes(&self) -> Result<(), ConfigError> {
        check(self.mss.bytes() > 0, "mss", "must be at least 1B")?;
        let full = self.mss.bytes().saturating_add(self.header.bytes());
        check(full <= MAX_WIRE, "mss", "must be at most 65535B, header included")?;
        for (place, size) in [("syn_size", self.syn_size), ("ack_size", self.ack_size)] {
            check((1..=MAX_WIRE).contains(&size.bytes()), place, "must be 1B to 65535B")?;
        }
        Ok(())
    }

    fn check_windows(&self) -> Result<(), ConfigError> {
        let window = 1..=MAX_WINDOW;
        for (place, segments) in [
            ("initial_window", self.initial_window),
            ("initial_window_after_syn_loss", self.initial_window_after_syn_loss),
            ("receiver_window", self.receiver_window),
        ] {
            check(window.contains(&segments), place, "must be 1 to 1000000000 segments")?;
        }
        let first = self.window_at_first();
        let fits = (1..=self.receiver_window).contains(&first);
        check(fits, "first_receiver_window", "must be 1 segment up to `receiver_window`")?;
        for (place, segments) in [
            ("initial_ssthresh", self.initial_ssthresh),
            ("ssthresh_after_syn_loss", self.ssthresh_after_syn_loss),
        ] {
            let sensible = segments.is_none_or(|value| (1.0..=MAX_WINDOW as f64).contains(&value));
            check(sensible, place, "must be 1 to 1000000000 segments")?;
        }
        let counted = self.abc_limit.is_none_or(|limit| (1.0..=MAX_WINDOW as f64).contains(&limit));
        check(counted, "abc_limit", "must be at least 1 segment; left out, it does not limit")?;
        check((1..=1000).contains(&self.dupthresh), "dupthresh", "must be 1 to 1000")
    }

    fn check_recovery(&self) -> Result<(), ConfigError> {
        let tahoe =
            "must not be tahoe with this law: tahoe starts from one segment after every loss, as reno does";
        check(self.recovery != Recovery::Tahoe || self.control.kind() == "reno", "recovery", tahoe)?;
        let counted = self.recovery == Recovery::Sack && self.pipe == Pipe::Counted;
        let why = "must be at-once with a counted pipe, which does not know how much has arrived";
        check(!counted || self.reduction == Reduction::AtOnce, "reduction", why)?;
        let burst = self.recovery_burst.is_none_or(|segments| segments > 0);
        check(burst, "recovery_burst", "must be at least 1 segment")
    }

    fn check_times(&self) -> Result<(), ConfigError> {
        if self.rto_arithmetic == RtoArithmetic::Ticks {
            check(!self.tick.is_zero(), "tick", "must not be 0s: `rto_arithmetic` counts in ticks")?;
            let place = if self.srtt_gain == 0.125 { "rttvar_gain" } else { "srtt_gain" };
            let fixed = self.srtt_gain == 0.125 && self.rttvar_gain == 0.25;
            check(fixed, place, "must be left alone: `ticks` knows only 0.125 for SRTT and 0.25 for RTTVAR")?;
        }
        check(self.send_overhead <= Span::from_millis(1000), "send_overhead", "must be at most 1s")?;
        let wheel = self.timer_clock == TimerClock::Wheel;
        let problem = "must not be 0s: timers run out on ticks";
        check(!self.tick.is_zero() || !wheel, "tick", problem)?;
        let problem = "must not be 0s: the delay adapts in ticks";
        check(!self.tick.is_zero() || self.delayed_ack != DelayedAck::Adaptive, "tick", problem)?;
        let (round, problem) = if wheel { (64, "must be below 64 ticks") } else { (1, "must be below tick") };
        let early = self.tick_phase < self.tick.saturating_mul(round);
        check(early || self.tick_phase.is_zero(), "tick_phase", problem)?;
        for (place, gain) in [("srtt_gain", self.srtt_gain), ("rttvar_gain", self.rttvar_gain)] {
            check((0.0..=1.0).contains(&gain), place, "must be 0 to 1")?;
        }
        check(!self.initial_rto.is_zero(), "initial_rto", "must not be 0s")?;
        check(!self.min_rto.is_zero(), "min_rto", "must not be 0s")?;
        check(self.min_rto <= self.max_rto, "max_rto", "must not be below min_rto")?;
        check(self.initial_rto <= self.max_rto, "initial_rto", "must not exceed max_rto")?;
        let after_syn_loss = self.rto_after_syn_loss.unwrap_or(self.max_rto);
        check(after_syn_loss <= self.max_rto, "rto_after_syn_loss", "must not exceed max_rto")?;
        let delays = self.delayed_ack == DelayedAck::Off || !self.delayed_ack_timer.is_zero();
        check(delays, "delayed_ack_timer", "must not be 0s")
    }
}

const MAX_WIRE: u64 = 65_535;
const MAX_WINDOW: u64 = 1_000_000_000;

fn check(sensible: bool, place: &str, problem: &str) -> Result<(), ConfigError> {
    if sensible { Ok(()) } else { Err(ConfigError::at(place, problem)) }
}

/// Checked settings, shared by all ends that use them.
#[derive(Clone, Debug)]
pub struct CheckedConfig {
    pub(crate) config: Config,
    pub(crate) rules: Rules,
    pub(crate) mss: u64,
}

impl CheckedConfig {
    /// An end of a connection, not yet opened.
    pub fn endpoint(self: &Arc<Self>) -> Endpoint {
        Endpoint::new(Arc::clone(self))
    }

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
        let syn = match self.config.handshake {
            Handshake::ThreeWay | Handshake::TwoWay => self.config.syn_size.bytes(),
            Handshake::None => 0,
        };
        let fin = match self.config.close {
            // A FIN rides on the last segment; only a transfer without data sends it alone.
            Close::Fin if bytes == 0 => self.config.syn_size.bytes(),
            _ => 0,
        };
        syn + self.end(bytes) + self.segments(bytes) * self.config.header.bytes() + fin
    }

    /// Where the sequence numbers of a transfer of `bytes` bytes end.
    pub(crate) fn end(&self, bytes: u64) -> u64 {
        match self.config.last_segment {
            LastSegment::Exact => bytes,
            LastSegment::Padded => self.segments(bytes).saturating_mul(self.mss),
        }
    }
}
