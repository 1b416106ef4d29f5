//! Which queue sends next: the L4S queue comes first, on condition that it does not starve the Classic one.

use aqm_net::{Instant, Span};

/// The two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// For L4S (`lq`, `l_queue`).
    L4s,
    /// For Classic traffic (`cq`).
    Classic,
}

/// The conditional priority.
#[derive(Clone, Debug)]
pub(super) enum Scheduler {
    /// Weighted round robin by a credit in bytes times percent, whose sign tells whose turn it is. It moves only
    /// while both queues wait for the line, and begins anew when neither does.
    Wrr {
        /// Above nought it is the Classic queue's turn.
        credit: f64,
        /// What it begins with.
        init: f64,
        /// The Classic queue's weight in percent; the rest is the L4S queue's.
        classic: f64,
    },
    /// Time-shifted FIFO: whose head came first, if the Classic one had come so much later.
    TimeShifted(Span),
}

impl Scheduler {
    /// Round robin where the Classic queue has `classic` percent, and a largest packet of `mtu` bytes.
    pub fn wrr(classic: f64, mtu: u64) -> Self {
        let init = mtu as f64 * (classic - (100.0 - classic));
        Self::Wrr { credit: init, init, classic }
    }

    /// The queue that sends next, where the packets at the heads came at these moments; `None` if both are empty.
    #[inline]
    pub fn pick(&mut self, l4s: Option<Instant>, classic: Option<Instant>) -> Option<Which> {
        let (l4s, classic) = match (l4s, classic) {
            (Some(l4s), Some(classic)) => (l4s, classic),
            (Some(_), None) => return Some(Which::L4s),
            (None, Some(_)) => return Some(Which::Classic),
            (None, None) => {
                if let Self::Wrr { credit, init, .. } = self {
                    *credit = *init;
                }
                return None;
            }
        };
        let is_l4s = match self {
            Self::Wrr { credit, .. } => *credit <= 0.0,
            Self::TimeShifted(shift) => l4s <= classic + *shift,
        };
        Some(if is_l4s { Which::L4s } else { Which::Classic })
    }

    /// A packet of `bytes` is sent from one queue, while the other waits.
    #[inline]
    pub fn sent(&mut self, from: Which, bytes: u16) {
        if let Self::Wrr { credit, classic, .. } = self {
            *credit += f64::from(bytes) * if from == Which::L4s { *classic } else { *classic - 100.0 };
        }
    }

    /// The credit, in bytes times percent; 0 where there is none.
    pub fn credit(&self) -> f64 {
        match *self {
            Self::Wrr { credit, .. } => credit,
            Self::TimeShifted(_) => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Option<Instant> = Some(Instant::START);

    /// Of so many packets of these sizes, all there at once, the bytes that each queue sends.
    fn shares(scheduler: &mut Scheduler, [l4s, classic]: [u16; 2], packets: u32) -> [f64; 2] {
        let mut sent = [0.0; 2];
        for _ in 0..packets {
            let from = scheduler.pick(HEAD, HEAD).unwrap();
            let (of, bytes) = if from == Which::L4s { (0, l4s) } else { (1, classic) };
            sent[of] += f64::from(bytes);
            scheduler.sent(from, bytes);
        }
        sent
    }

    #[test]
    fn two_busy_queues_share_the_line_by_weight_whatever_their_packets_sizes() {
        for (percent, sizes) in
            [(10.0, [1500, 1500]), (10.0, [100, 1500]), (6.25, [1500, 64]), (50.0, [900, 90])]
        {
            let mut wrr = Scheduler::wrr(percent, 1514);
            let [l4s, classic] = shares(&mut wrr, sizes, 200_000);
            assert!((classic / (l4s + classic) * 100.0 - percent).abs() < 0.05, "{percent} {sizes:?}");
        }
    }

    #[test]
    fn a_queue_that_has_rested_begins_with_nine_l4s_packets() {
        // The credit is 1514 * (10 - 90) percent; each full frame adds 10 * 1514: eight of them make it nought, which
        // is still the L4S queue's turn.
        let mut wrr = Scheduler::wrr(10.0, 1514);
        assert_eq!(wrr.credit(), -121_120.0);
        let turns: Vec<Which> = (0..11)
            .map(|_| {
                let from = wrr.pick(HEAD, HEAD).unwrap();
                wrr.sent(from, 1514);
                from
            })
            .collect();
        assert_eq!(turns.iter().position(|from| *from == Which::Classic), Some(9));
        assert_eq!(turns[10], Which::L4s);
        assert_eq!(wrr.pick(None, None), None);
        assert_eq!(wrr.credit(), -121_120.0);
    }

    #[test]
    fn a_shifted_fifo_sends_the_classic_packet_that_waited_so_much_longer() {
        let mut fifo = Scheduler::TimeShifted(Span::from_millis(50));
        let at = |millis: u64| Some(Instant::from_nanos(millis * 1_000_000));
        assert_eq!(fifo.pick(at(150), at(100)), Some(Which::L4s));
        assert_eq!(fifo.pick(at(151), at(100)), Some(Which::Classic));
        assert_eq!(
            (fifo.pick(None, at(100)), fifo.pick(at(1), None)),
            (Some(Which::Classic), Some(Which::L4s))
        );
    }
}
