//! The scheduler of the two queues, which gives priority to the L4S queue without starving the Classic queue.

use aqm_net::{Instant, Span};

/// The two queues of DualPI2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueClass {
    /// The L4S queue (`lq`, `l_queue`).
    L4s,
    /// The queue for Classic traffic (`cq`).
    Classic,
}

/// The scheduler that gives the L4S queue conditional priority.
#[derive(Clone, Debug)]
pub(super) enum Scheduler {
    /// Weighted round robin. The sign of a credit, which is counted in bytes times percent, selects the queue. The
    /// credit changes only while both queues are backlogged, and is reset when both queues are empty.
    Wrr {
        /// The credit. The Classic queue is served if the credit is positive.
        credit: f64,
        /// The initial credit.
        init: f64,
        /// The Classic queue's weight in percent; the remainder is the L4S queue's weight.
        classic: f64,
    },
    /// Time-shifted FIFO: of the two head packets, the packet with the earlier arrival time is sent, after this time
    /// shift has been added to the arrival time of the Classic packet.
    TimeShifted(Span),
}

impl Scheduler {
    /// Creates a round robin that gives `classic` percent of the link to the Classic queue. The largest packet is `mtu`
    /// bytes long.
    pub fn wrr(classic: f64, mtu: u64) -> Self {
        let init = mtu as f64 * (classic - (100.0 - classic));
        Self::Wrr { credit: init, init, classic }
    }

    /// Returns the queue that sends next, given the arrival times of the two head packets. Returns `None` if both
    /// queues are empty.
    #[inline]
    pub fn pick(&mut self, l4s: Option<Instant>, classic: Option<Instant>) -> Option<QueueClass> {
        let (l4s, classic) = match (l4s, classic) {
            (Some(l4s), Some(classic)) => (l4s, classic),
            (Some(_), None) => return Some(QueueClass::L4s),
            (None, Some(_)) => return Some(QueueClass::Classic),
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
        Some(if is_l4s { QueueClass::L4s } else { QueueClass::Classic })
    }

    /// Updates the credit after one queue sent a packet of `bytes` while the other queue was backlogged.
    #[inline]
    pub fn sent(&mut self, from: QueueClass, bytes: u16) {
        if let Self::Wrr { credit, classic, .. } = self {
            *credit += f64::from(bytes) * if from == QueueClass::L4s { *classic } else { *classic - 100.0 };
        }
    }

    /// Returns the credit, in bytes times percent, or 0 for the time-shifted FIFO.
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

    /// Returns the number of bytes that each queue sends if both queues are always backlogged with packets of these
    /// sizes and the total number of sent packets is `packets`.
    fn shares(scheduler: &mut Scheduler, [l4s, classic]: [u16; 2], packets: u32) -> [f64; 2] {
        let mut sent = [0.0; 2];
        for _ in 0..packets {
            let from = scheduler.pick(HEAD, HEAD).unwrap();
            let (of, bytes) = if from == QueueClass::L4s { (0, l4s) } else { (1, classic) };
            sent[of] += f64::from(bytes);
            scheduler.sent(from, bytes);
        }
        sent
    }

    #[test]
    fn two_backlogged_queues_share_the_link_by_weight_for_any_packet_sizes() {
        for (percent, sizes) in
            [(10.0, [1500, 1500]), (10.0, [100, 1500]), (6.25, [1500, 64]), (50.0, [900, 90])]
        {
            let mut wrr = Scheduler::wrr(percent, 1514);
            let [l4s, classic] = shares(&mut wrr, sizes, 200_000);
            assert!((classic / (l4s + classic) * 100.0 - percent).abs() < 0.05, "{percent} {sizes:?}");
        }
    }

    #[test]
    fn a_queue_that_was_idle_starts_with_nine_l4s_packets() {
        // The initial credit is 1514 * (10 - 90) percent. Each full packet of the L4S queue adds 10 * 1514 to the
        // credit. After eight packets, the credit is 0, and the L4S queue is still served.
        let mut wrr = Scheduler::wrr(10.0, 1514);
        assert_eq!(wrr.credit(), -121_120.0);
        let turns: Vec<QueueClass> = (0..11)
            .map(|_| {
                let from = wrr.pick(HEAD, HEAD).unwrap();
                wrr.sent(from, 1514);
                from
            })
            .collect();
        assert_eq!(turns.iter().position(|from| *from == QueueClass::Classic), Some(9));
        assert_eq!(turns[10], QueueClass::L4s);
        assert_eq!(wrr.pick(None, None), None);
        assert_eq!(wrr.credit(), -121_120.0);
    }

    #[test]
    fn a_shifted_fifo_sends_the_classic_packet_that_waited_longer_by_the_shift() {
        let mut fifo = Scheduler::TimeShifted(Span::from_millis(50));
        let at = |millis: u64| Some(Instant::from_nanos(millis * 1_000_000));
        assert_eq!(fifo.pick(at(150), at(100)), Some(QueueClass::L4s));
        assert_eq!(fifo.pick(at(151), at(100)), Some(QueueClass::Classic));
        assert_eq!(
            (fifo.pick(None, at(100)), fifo.pick(at(1), None)),
            (Some(QueueClass::Classic), Some(QueueClass::L4s))
        );
    }
}
