//! Marks from a threshold on: the step that DCTCP and L4S are built for, behind any queue.
//!
//! Linux 6.1's `codel`, `fq_codel` and `fq` (`ce_threshold`): a packet that leaves is marked if it has waited for
//! longer than the threshold, is ECN-capable, and `ce_threshold_selector` chooses it. Linux 6.17's `dualpi2`
//! (`step_thresh`) does so too, or marks what leaves more than so many packets behind.
//!
//! DCTCP (M. Alizadeh et al., SIGCOMM 2010; RFC 8257) marks a packet that *arrives* at more than so many. Here as in Linux
//! the packet that leaves is marked, so its mark tells of the queue as it is and not as it was when the packet came.
//!
//! How it differs from its sources, and what it does where they are silent, stands in the documentation of
//! [`Config`], which the reference prints.

use aqm_net::{ConfigError, Ecn, Instant, Packet, Rate, Span, Threshold, choices};
use serde_json::{Value, json};

use crate::wrappers::wrapper::{Inside, Wrapper, wrapper};
use crate::{Context, Reason};

wrapper! {
    /// A marking threshold behind a queue: the packets that waited too long, or leave too much behind, are marked.
    ///
    /// With the queue left out this is the step marking of DCTCP and of L4S.
    ///
    /// Differences from the thresholds of Linux:
    ///
    /// - What a packet may leave behind is counted in bytes, too.
    /// - The queue drops and marks as ever. A packet that it has marked stays as it is.
    pub struct Config {
        /// The time that a packet may wait, or what it may leave behind, in packets or bytes, before it is marked.
        pub threshold: Threshold = Threshold::Time(Span::from_millis(1)), "Linux 6.17, dualpi2: `step_thresh`";
        /// Which packets are marked.
        pub ecn: Selector = Selector::Any, "Linux: `ce_threshold_selector` 0/0";
    }
}

choices! {
    /// The packets that a threshold marks.
    pub enum Selector {
        /// All that are ECN-capable.
        Any = "any",
        /// Those with ECT(1): those of L4S (`ce_threshold_selector` 1/3).
        Ect1 = "ect-1",
        /// Those with ECT(0) (`ce_threshold_selector` 2/3).
        Ect0 = "ect-0",
    }
}

impl Selector {
    /// Whether a packet with these bits is one of them; those that carry the mark already may be.
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

    fn own_corners() -> Vec<Value> {
        ["0s", "3p", "2999B"].map(|threshold| json!({"threshold": threshold})).into()
    }
}

/// The running wrapper.
#[derive(Clone)]
struct CeThreshold {
    threshold: Threshold,
    selector: Selector,
    /// Packets that leave with a mark because of the threshold, or had it before.
    ce_mark: u64,
}

impl Wrapper for CeThreshold {
    /// When it came.
    type Note = Instant;

    fn on_arrival(&mut self, packet: Packet, inside: &mut Inside<Instant>, cx: &mut Context<'_>) {
        inside.enqueue(packet, cx.now, cx);
    }

    #[inline]
    fn on_departure(
        &mut self,
        packet: &mut Packet,
        came: Instant,
        inside: &Inside<Instant>,
        cx: &mut Context<'_>,
    ) {
        let is_beyond = match self.threshold {
            Threshold::Time(time) => cx.now.since(came) > time,
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

    /// The packets marked of three sorts that came at 0 and leave at this time, each with a label of its sort.
    fn marked(table: Value, leaves: u64) -> Vec<u16> {
        let mut driver = Driver::new(table, 1);
        for (label, ecn) in [(0, Ecn::NotEct), (1, Ecn::Ect1), (2, Ecn::Ect0), (3, Ecn::Ce)] {
            driver.offer(Packet { label, ecn, ..packet(1000) });
        }
        driver.now = Instant::from_nanos(leaves);
        while driver.take().is_some() {}
        let is_mark = |fate: &Fate| fate.is_mark && fate.why == Reason::CeThreshold;
        assert!(driver.fates.told.iter().all(is_mark));
        driver.fates.marked_packets().map(|packet| packet.label).collect()
    }

    #[test]
    fn a_capable_packet_is_marked_once_it_has_waited_for_longer() {
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
    fn a_packet_is_marked_if_it_leaves_more_behind() {
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
    fn what_the_kernel_counts_includes_those_that_came_with_a_mark() {
        let mut driver = Driver::new(json!({"kind": "ce-threshold", "threshold": "0p"}), 1);
        for ecn in [Ecn::Ce, Ecn::Ect0, Ecn::NotEct, Ecn::Ect0] {
            driver.offer(Packet { ecn, ..packet(1000) });
        }
        while driver.take().is_some() {}
        assert_eq!(driver.queue.tc_statistics(driver.now), json!({"ce_mark": 2}));
    }
}
