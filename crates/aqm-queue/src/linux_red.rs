//! Linux's RED.
//!
//! A. Kuznetsov's `sch_red` in Linux 6.1 (`net/sched/sch_red.c`, `include/net/red.h`) and in Linux 2.4, which
//! the command `tc` sets up (`tc.rs`). The law is Floyd & Jacobson's of 1993, not gentle, in bytes, without
//! divisions: the average is an integer `2^Wlog` times too large, and instead of a draw for each packet one
//! draw tells where the next drop is, which makes the gaps uniform on 1 to `1/p_b`.
//!
//! How it differs from the paper:
//! - The first packet of an average within the thresholds passes, and draws.
//! - An arrival that ends an idle time adds no sample; the average falls by a table (`tc.rs`).
//! - A packet that meets a full queue does not start the count anew. One at `max_th` or above does, and the first
//!   one below it passes.
//! - `linux-2.4`: `max_p` is `(max_th - min_th) / 2^Plog`, the largest below the one asked for; there is no
//!   `harddrop`; ECT(1) cannot be marked (RFC 2481 has only one ECT); and a packet is admitted if at most `limit`
//!   wait before it, so up to one packet more.
//!
//! Ours, where the source is silent or cannot be followed:
//! - A refused packet that found the line idle leaves it idle: the kernel asks the queue again at once.
//! - A packet that the law marks but for which there is no room is dropped and leaves unmarked.
//! - The clock of Linux 2.4, microseconds or coarser as the kernel was built, has whole microseconds here, and
//!   products do not overflow.

use aqm_net::{Backlog, ConfigError, Ecn, Instant, Packet, Rate, Rng, Size};

use crate::automatic::wrong;
use crate::curve::Curve;
use crate::fifo::Admission;
use crate::red::{self, EcnRule, Preset, check_lengths};
use crate::spacing::{PacketScaling, Spacing};
use crate::tc::{self, Clock, IdleTable};
use crate::{Context, Fifo, Gauge, QueueDiscipline, Reason};

/// What the kernel is told, but for the table of idle times.
#[derive(Clone)]
pub(crate) struct Settings {
    min: u64,
    max: u64,
    weight_log: u32,
    /// What `p_b` rises by for each byte, times 2^32.
    slope: u64,
    ecn: EcnRule,
    marks_ect1: bool,
    mean_packet: Size,
    clock: Clock,
    fifo: Fifo,
}

impl red::Config {
    /// The parameters with a preset of Linux, checked.
    ///
    /// # Errors
    /// The first parameter that Linux does not have, or with which RED would not do what its name says.
    pub(crate) fn linux(&self) -> Result<Settings, ConfigError> {
        let is_old = self.preset == Preset::Linux24;
        self.check_what_linux_has(is_old)?;
        let Self { min_th, max_th, limit, .. } = *self;
        let (min, max) = (min_th.count(), max_th.count());
        let (max_p, mean_packet, _) = self.values();
        if !(1..=u64::from(u32::MAX)).contains(&mean_packet.bytes()) {
            return wrong("mean_packet", format!("must be from 1B to {}B", u32::MAX));
        }
        let weight_log = self.linux_weight_log(mean_packet)?;
        if max >> (31 - weight_log) > 0 {
            let most = 1_u32 << (31 - weight_log);
            let weight = 1_u32 << weight_log;
            let problem = format!("must be below {most}B with weight 1/{weight}, for it is kept in 32 bits");
            return wrong("max_th", problem);
        }
        if !(max_p > 0.0 && max_p <= 1.0) {
            return wrong("max_p", format!("must be above 0 and at most 1, not {max_p}"));
        }
        let probability_log = tc::probability_log(max_p, max - min)?;
        let slope = if is_old {
            1 << (32 - probability_log)
        } else if max_p < 1.0 {
            (libm::ldexp(max_p, 32) as u64 / (max - min)).max(1)
        } else {
            return wrong("max_p", "must be below 1, which tc cannot tell the kernel".to_owned());
        };
        Ok(Settings {
            min,
            max,
            weight_log,
            slope,
            ecn: self.ecn,
            marks_ect1: !is_old,
            mean_packet,
            clock: if is_old { Clock::Micros } else { Clock::Ticks },
            fifo: Fifo::new(limit).admitting(if is_old {
                Admission::UntilBeyond
            } else {
                Admission::WhatFits
            }),
        })
    }

    fn check_what_linux_has(&self, is_old: bool) -> Result<(), ConfigError> {
        let Self { min_th, max_th, limit, .. } = *self;
        for (place, length, example) in
            [("min_th", min_th, "30000B"), ("max_th", max_th, "90000B"), ("limit", limit, "225000B")]
        {
            if !length.in_bytes() {
                let problem = format!("must be in bytes in Linux, such as {example}, not {length}");
                return wrong(place, problem);
            }
        }
        if min_th.count() == 0 {
            return wrong("min_th", "must be at least 1B in Linux".to_owned());
        }
        check_lengths(min_th, max_th, limit)?;
        if limit.count() > u64::from(u32::MAX) {
            return wrong("limit", format!("must be at most {}B in Linux", u32::MAX));
        }
        let fixed = [
            ("gentle", self.gentle == Some(true), "false"),
            ("spacing", self.spacing != Spacing::NoWait, "\"no-wait\""),
            ("spare_first", !self.spare_first, "true"),
            ("packet_scaling", self.packet_scaling != PacketScaling::None, "\"none\""),
        ];
        for (place, differs, always) in fixed {
            if differs {
                return wrong(place, format!("is always {always} in Linux: leave it out"));
            }
        }
        if self.mark_p.is_some() {
            return wrong("mark_p", "does not exist in Linux: leave it out".to_owned());
        }
        match self.ecn {
            EcnRule::UnlessForced => {
                wrong("ecn", "must be \"off\", \"always\" or \"below-max-th\" in Linux".to_owned())
            }
            EcnRule::BelowMaxTh if is_old => {
                wrong("ecn", "must be \"off\" or \"always\" in Linux 2.4".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn linux_weight_log(&self, mean_packet: Size) -> Result<u32, ConfigError> {
        match (self.weight, self.burst) {
            (None, burst) => {
                tc::weight_log(burst, self.min_th.count(), self.max_th.count(), mean_packet.bytes())
            }
            (Some(weight), None) => {
                let found = (1..32).find(|&log| tc::power_of_half(log) == weight);
                let problem =
                    || format!("must be 1/2, 1/4, 1/8 and so on in Linux, such as 0.125, not {weight}");
                found.ok_or_else(|| ConfigError::at("weight", problem()))
            }
            (Some(_), Some(_)) => {
                wrong("burst", "has no effect if weight is given: leave one of them out".to_owned())
            }
        }
    }
}

impl Settings {
    /// The drop function.
    pub fn curve(&self) -> Curve {
        let max_p = libm::ldexp((self.slope * (self.max - self.min)) as f64, -32);
        Curve { min: self.min as f64, max: self.max as f64, max_p, gentle: false, gentle_from: max_p }
    }
}

/// The running discipline.
#[derive(Clone)]
pub struct LinuxRed {
    idle: IdleTable,
    idle_since: Option<Instant>,
    /// The average queue in bytes, times `2^weight_log` (`qavg`).
    average: u64,
    /// Packets since the last drop or the first packet within the thresholds; none outside (`qcount`).
    count: Option<u64>,
    /// What bytes above `min_th` times `count` must reach (`qR`).
    draw: u64,
    settings: Settings,
}

impl LinuxRed {
    /// Linux's RED on a line of this rate, tc's `bandwidth`.
    ///
    /// # Errors
    /// If tc cannot make a table of idle times.
    pub(crate) fn new(settings: Settings, rate: Rate) -> Result<Self, ConfigError> {
        Ok(Self {
            idle: IdleTable::new(settings.weight_log, settings.mean_packet, rate, settings.clock)?,
            idle_since: Some(Instant::START),
            average: 0,
            count: None,
            draw: 0,
            settings,
        })
    }

    fn observe(&mut self, idle_since: Option<Instant>, now: Instant) {
        self.average = match idle_since {
            Some(since) => self.idle.after(self.average, now.since(since).nanos() / 1000),
            None => {
                let queue = self.settings.fifo.backlog().bytes;
                self.average + queue - (self.average >> self.settings.weight_log)
            }
        };
    }

    fn decide(&mut self, rng: &mut Rng) -> Option<Reason> {
        let Settings { min, max, weight_log, slope, .. } = self.settings;
        if self.average < min << weight_log {
            self.count = None;
            return None;
        }
        if self.average >= max << weight_log {
            self.count = None;
            return Some(Reason::Forced);
        }
        let above = (self.average - (min << weight_log)) >> weight_log;
        let chosen = match self.count {
            Some(count) if above * (count + 1) < self.draw => {
                self.count = Some(count + 1);
                return None;
            }
            Some(_) => Some(Reason::Early),
            None => None,
        };
        self.count = Some(0);
        self.draw = (rng.bits() >> 32) / slope;
        chosen
    }

    /// Carries out what the law decided: whether `packet` has joined the queue.
    fn carry_out(&mut self, reason: Option<Reason>, mut packet: Packet, cx: &mut Context<'_>) -> bool {
        let marks = reason.filter(|reason| self.may_mark(packet.ecn, *reason));
        let refused = match reason {
            Some(reason) if marks.is_none() => Some(reason),
            _ => (!self.settings.fifo.has_room_for(&packet)).then_some(Reason::Overflow),
        };
        if let Some(reason) = refused {
            cx.drop(packet, reason);
            return false;
        }
        if let Some(reason) = marks {
            cx.mark(&mut packet, reason);
        }
        self.settings.fifo.push(packet);
        true
    }

    fn may_mark(&self, ecn: Ecn, reason: Reason) -> bool {
        let capable = ecn.can_be_marked() && (self.settings.marks_ect1 || ecn != Ecn::Ect1);
        capable
            && match self.settings.ecn {
                EcnRule::Off | EcnRule::UnlessForced => false,
                EcnRule::BelowMaxTh => reason == Reason::Early,
                EcnRule::Always => true,
            }
    }
}

impl QueueDiscipline for LinuxRed {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        let idle_since = self.idle_since.take();
        self.observe(idle_since, cx.now);
        let reason = self.decide(cx.rng);
        if !self.carry_out(reason, packet, cx) && idle_since.is_some() {
            self.idle_since = Some(cx.now);
        }
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        let packet = self.settings.fifo.pop();
        if packet.is_none() {
            self.idle_since.get_or_insert(cx.now);
        }
        packet
    }

    fn backlog(&self) -> Backlog {
        self.settings.fifo.backlog()
    }

    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        let average = self.average as f64 * tc::power_of_half(self.settings.weight_log);
        show(Gauge::new("average", average, "bytes"));
        show(Gauge::number("probability", self.settings.curve().probability(average)));
    }
}
