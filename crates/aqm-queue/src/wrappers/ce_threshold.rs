//! A marking threshold behind any queue: implements the step marking for which DCTCP and L4S were designed.
//!
//! In `codel`, `fq_codel` and `fq` of Linux 6.1 (`ce_threshold`), a departing packet is marked if it has waited longer
//! than the threshold, is ECN-capable, and is selected by `ce_threshold_selector`. `dualpi2` of Linux 6.17
//! (`step_thresh`) also has a time threshold; alternatively, the discipline marks a packet if more than a given number
//! of packets remain behind it.
//!
//! DCTCP (M. Alizadeh et al., SIGCOMM 2010; RFC 8257) marks a packet if the queue length exceeds a threshold when the
//! packet *arrives*. As in Linux, aqmlab marks departing packets instead, so that a mark reports the current state of
//! the queue, not the state of the queue when the packet arrived.
//!
//! The documentation of [`Config`], which is part of the reference, lists the differences from the sources and the
//! choices that aqmlab makes where the sources are silent.

use aqm_net::{ConfigError, ConfigErrors, Ecn, Instant, Packet, Rate, Span, Threshold, choices};
use serde_json::{Value, json};

use crate::tc::{self, Qdisc};
use crate::wrappers::wrapper::{Inside, Wrapper, wrapper};
use crate::{Context, Reason};

wrapper! {
    /// A marking threshold behind a queue: marks packets that have waited too long, or behind which too many packets or
    /// bytes remain.
    ///
    /// If `queue` is not set, the result is the step marking of DCTCP and L4S.
    ///
    /// Differences from the thresholds in Linux:
    ///
    /// - A threshold for the backlog behind a packet may also be in bytes.
    /// - The inner queue drops and marks packets independently of the threshold. A packet that the inner queue has
    ///   marked stays marked and is not marked again.
    pub struct Config {
        /// Threshold above which a departing packet is marked. The threshold applies to the time for which the packet
        /// has waited, or to the number of packets or bytes that remain behind the packet.
        pub threshold: Threshold = Threshold::Time(Span::from_millis(1)), "Linux 6.17, dualpi2: `step_thresh`";
        /// ECN-capable packets that may be marked.
        pub ecn: Selector = Selector::Any, "Linux: `ce_threshold_selector` 0/0";
    }
}

choices! {
    /// The packets to which a threshold applies.
    pub enum Selector {
        /// All ECN-capable packets.
        Any = "any",
        /// Packets with ECT(1), the code point of L4S (`ce_threshold_selector` 1/3).
        Ect1 = "ect-1",
        /// Packets with ECT(0) (`ce_threshold_selector` 2/3).
        Ect0 = "ect-0",
    }
}

impl Selector {
    /// Returns whether packets with these ECN bits are selected. Packets that are already marked may be selected, too.
    #[inline]
    pub(crate) fn selects(self, ecn: Ecn) -> bool {
        match self {
            Self::Any => ecn.can_be_marked(),
            Self::Ect1 => ecn == Ecn::Ect1,
            Self::Ect0 => ecn == Ecn::Ect0,
        }
    }
}

impl Config {
    fn wrapper(&self, _rate: Rate) -> Result<CeThreshold, ConfigError> {
        Ok(CeThreshold { threshold: self.threshold, selector: self.ecn, ce_mark: 0 })
    }

    fn as_tc(&self, _rate: Rate) -> Result<Qdisc, ConfigErrors> {
        Err(tc::rejected(
            "kind",
            "in Linux, ce_threshold is a parameter of other queues, so use `codel`, `fq-codel` or `fq`",
        ))
    }

    fn own_corners() -> Vec<Value> {
        ["0s", "3p", "2999B"].map(|threshold| json!({"threshold": threshold})).into()
    }
}

/// A marking threshold and its state.
#[derive(Clone)]
struct CeThreshold {
    threshold: Threshold,
    selector: Selector,
    /// Number of departed packets that exceeded the threshold and are marked, no matter whether the threshold or
    /// something else marked these packets.
    ce_mark: u64,
}

impl Wrapper for CeThreshold {
    /// The arrival time of the packet.
    type Note = Instant;

    fn on_arrival(&mut self, packet: Packet, inside: &mut Inside<Instant>, cx: &mut Context<'_>) {
        inside.enqueue(packet, cx.now, cx);
    }

    #[inline]
    fn on_departure(
        &mut self,
        packet: &mut Packet,
        arrival: Instant,
        inside: &Inside<Instant>,
        cx: &mut Context<'_>,
    ) {
        let is_beyond = match self.threshold {
            Threshold::Time(time) => cx.now.since(arrival) > time,
            Threshold::Length(length) => inside.backlog().in_unit_of(length) > length.count(),
        };
        if is_beyond && self.selector.selects(packet.ecn) {
            self.ce_mark += 1;
            cx.mark(packet, Reason::CeThreshold);
        }
    }

    fn tc_statistics(&self) -> Value {
        json!({"ce_mark": self.ce_mark})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Driver, Fate, ect, packet};

    /// Returns the labels of the marked packets. Packets of three kinds, each with its own label, arrive at time 0 and
    /// leave at time `departure`.
    fn marked(table: Value, departure: u64) -> Vec<u16> {
        let mut driver = Driver::new(table, 1);
        for (label, ecn) in [(0, Ecn::NotEct), (1, Ecn::Ect1), (2, Ecn::Ect0), (3, Ecn::Ce)] {
            driver.offer(Packet { label, ecn, ..packet(1000) });
        }
        driver.now = Instant::from_nanos(departure);
        while driver.take().is_some() {}
        let is_mark = |fate: &Fate| fate.is_mark && fate.why == Reason::CeThreshold;
        assert!(driver.fates.list.iter().all(is_mark));
        driver.fates.marked_packets().map(|packet| packet.label).collect()
    }

    #[test]
    fn an_ecn_capable_packet_is_marked_if_it_waited_longer() {
        let table = json!({"kind": "ce-threshold"});
        assert!(marked(table.clone(), 1_000_000).is_empty());
        assert_eq!(marked(table, 1_000_001), [1, 2]);
    }

    #[test]
    fn the_selector_chooses_by_the_code_point() {
        for (ecn, expected) in [("any", &[1, 2][..]), ("ect-1", &[1]), ("ect-0", &[2])] {
            assert_eq!(marked(json!({"kind": "ce-threshold", "ecn": ecn}), 2_000_000), expected, "{ecn}");
        }
    }

    #[test]
    fn a_packet_is_marked_if_it_leaves_a_larger_backlog_behind() {
        for (threshold, expected) in [("0s", 0), ("0p", 9), ("4p", 5), ("9p", 0), ("4000B", 5), ("3999B", 6)]
        {
            let mut driver = Driver::new(json!({"kind": "ce-threshold", "threshold": threshold}), 1);
            for _ in 0..10 {
                driver.offer(ect(1000));
            }
            while driver.take().is_some() {}
            let marked: Vec<u32> = driver.fates.marked_packets().map(|packet| packet.id).collect();
            assert_eq!(marked, Vec::from_iter(0..expected), "{threshold}");
        }
    }

    #[test]
    fn the_kernels_counter_includes_packets_that_arrived_with_a_mark() {
        let mut driver = Driver::new(json!({"kind": "ce-threshold", "threshold": "0p"}), 1);
        for ecn in [Ecn::Ce, Ecn::Ect0, Ecn::NotEct, Ecn::Ect0] {
            driver.offer(Packet { ecn, ..packet(1000) });
        }
        while driver.take().is_some() {}
        assert_eq!(driver.queue.tc_statistics(driver.now), json!({"ce_mark": 2}));
    }
}
