//! The arguments of `tc` for DualPI2 (iproute2 of June 2026, `tc/q_dualpi2.c`).

use aqm_net::{ConfigErrors, Length, Rate, Span};

use super::config::in_256ths;
use super::signal::Native;
use super::{Conditional, Config, EcnMask, Marking, Profile};
use crate::tc::Qdisc;

impl Config {
    /// Returns DualPI2 as `tc` creates it.
    ///
    /// # Errors
    /// Returns an error for each parameter that the kernel does not have.
    pub(super) fn as_tc(&self, rate: Rate) -> Result<Qdisc, ConfigErrors> {
        let options = self.kernel_options(rate);
        let number = |name: &str| options[name].as_u64().unwrap_or_default();
        let micros = |name: &str| Span::from_nanos(number(name).saturating_mul(1000));
        // `tc` truncates a gain to a multiple of 1/256 Hz. The gains that `tc` shows are smaller, because the kernel
        // rounds them down, too.
        let gain = |gain: f64| in_256ths(gain) / 256.0;
        let words = |name: &str, word: &str| options[name] == word;
        let dualpi2 = Qdisc::new("dualpi2")
            .count("limit", number("limit"))
            .count("memlimit", number("memory-limit"))
            .time("target", micros("target"))
            .time("tupdate", micros("tupdate"))
            .with("alpha", gain(self.alpha()))
            .with("beta", gain(self.beta()))
            .with("coupling_factor", number("coupling"));
        let dualpi2 = match self.native() {
            Native::StepInPackets(packets) => dualpi2.with("step_thresh", format_args!("{packets}p")),
            _ => dualpi2.time("step_thresh", micros("step-thresh-us")),
        };
        let dualpi2 = dualpi2
            .count("min_qlen_step", number("min-qlen-step"))
            .either(words("drop-overload", "drop"), "drop_on_overload", "overflow")
            .either(words("drop-early", "drop-enqueue"), "drop_enqueue", "drop_dequeue")
            .with("classic_protection", format_args!("{}%", number("c-protection")))
            .either(self.ecn_mask == EcnMask::AnyEct, "any_ect", "l4s_ect")
            .word("split_gso")
            .limit_if(true, "kind", || "dualpi2 needs Linux 6.17 and iproute2 6.17 or later".into());
        self.without_rest(dualpi2).finish()
    }

    /// Rejects each parameter value that the kernel does not have.
    fn without_rest(&self, dualpi2: Qdisc) -> Qdisc {
        let problem = |needed: &str| format!("cannot be expressed by tc: {needed}");
        let least = Some(2 * self.mtu.bytes());
        dualpi2
            .rejected_unless(self.profile == Profile::Linux, "profile", problem("must be \"linux\""))
            .rejected_unless(
                !self.limit.is_some_and(Length::in_bytes),
                "limit",
                problem("must be in packets"),
            )
            .rejected_unless(self.marking() == Marking::Random, "marking", problem("must be \"random\""))
            .rejected_unless(self.scheduler == Conditional::Wrr, "scheduler", problem("must be \"wrr\""))
            .rejected_unless(
                self.min_backlog.is_none_or(|bytes| Some(bytes.bytes()) == least),
                "min_backlog",
                problem("must be twice mtu, the kernel's value"),
            )
            .rejected_unless(self.th_len.is_none(), "th_len", problem("use min_qlen_step"))
            .rejected_unless(
                !matches!(self.native(), Native::Ramp { .. }),
                if self.min_th.is_some() || self.range.is_none() { "min_th" } else { "range" },
                problem("the kernel has a step instead of a ramp, so set step_thresh"),
            )
    }
}
