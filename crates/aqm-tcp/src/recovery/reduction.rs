//! Reduces the congestion window gradually during fast recovery.
//!
//! M. Mathis, N. Dukkipati, Y. Cheng, "Proportional Rate Reduction for TCP", RFC 6937, 2013, section 3 (`prr`); M.
//! Mathis, N. Cardwell, Y. Cheng, N. Dukkipati, "Proportional Rate Reduction (PRR)", RFC 9937, 2025, section 6
//! (`rfc-9937`; the bound `safe-ack` and the first retransmission of `prr`); the rate halving of Linux 2.4
//! (`tcp_cwnd_down`), based on M. Mathis, J. Semke, J. Mahdavi, "The Rate-Halving Algorithm for TCP Congestion
//! Control", 1999.
//!
//! RFC 9937 differs from RFC 6937 as follows:
//!
//! - `RecoverFS` excludes data that was SACKed before recovery, because this data is not delivered during recovery.
//! - If little data is in flight, an acknowledgement permits the transmission of one segment in addition to the amount
//!   of data that the acknowledgement reports as delivered. This additional segment is permitted only if the
//!   acknowledgement advances `SND.UNA` and indicates no further loss (`SafeACK`).
//! - At the beginning of recovery, a segment is sent regardless of the algorithm only if the algorithm would permit no
//!   data at all.
//! - An acknowledgement that delivers no data leaves the window unchanged.
//! - The window is `ssthresh` at the end of recovery. In this file, the window is `ssthresh` in all cases, because the
//!   reduction ends when the recovery ends, and from then on the congestion control's window applies.
//!
//! aqmlab's choices where the sources are silent: with `prr`, `RecoverFS` is the amount of unacknowledged data after
//! the acknowledgement that indicates the loss has been processed (`FlightSize` including data sent by limited
//! transmit, rather than `pipe`). The data delivered by this acknowledgement is counted as delivered. Losses that a
//! timer detects do not permit the transmission of other data. Rate halving counts only acknowledgements that report
//! new data.

use crate::config::recovery::{PrrBound, Reduction};

/// Initial window, target window and parameters of a reduction after a loss.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReductionGoal {
    /// Window before the reduction, in bytes.
    pub from: u64,
    /// Window after the reduction (`ssthresh`), in bytes.
    pub to: u64,
    /// Number of unacknowledged bytes (`RecoverFS`).
    pub flight: u64,
    pub mss: u64,
}

/// Progress that an acknowledgement reports during fast recovery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// Number of bytes that are newly known to have arrived (`DeliveredData`).
    pub delivered: u64,
    /// Number of bytes in the network.
    pub pipe: u64,
    /// Whether the acknowledgement advances `SND.UNA` and indicates no further loss (`SafeACK`).
    pub safe: bool,
}

/// A window reduction that is in progress.
#[derive(Clone, Debug)]
pub(crate) enum WindowReduction {
    AtOnce,
    Prr(Prr),
    RateHalving(RateHalving),
}

impl WindowReduction {
    /// Begins a reduction. `entry` is the progress reported by the acknowledgement that indicated the loss.
    pub fn new(reduction: Reduction, bound: PrrBound, goal: ReductionGoal, entry: Progress) -> Self {
        let mut reduction = match reduction {
            Reduction::AtOnce => Self::AtOnce,
            Reduction::Prr => Self::Prr(Prr::new(bound, goal)),
            Reduction::Rfc9937 => Self::Prr(Prr { is_rfc_9937: true, ..Prr::new(PrrBound::SafeAck, goal) }),
            Reduction::RateHalving => Self::RateHalving(RateHalving::new(goal)),
        };
        reduction.on_ack(entry);
        reduction
    }

    /// Processes an acknowledgement that reports new data.
    #[inline]
    pub fn on_ack(&mut self, progress: Progress) {
        match self {
            Self::AtOnce => {}
            Self::Prr(prr) => prr.on_ack(progress),
            Self::RateHalving(halving) => halving.on_ack(progress.pipe),
        }
    }

    /// Processes losses that were detected without an acknowledgement. In PRR, these losses do not permit the
    /// transmission of other segments.
    pub fn on_timer(&mut self, pipe: u64) {
        if let Self::Prr(prr) = self {
            prr.update(Progress { delivered: 0, pipe, safe: false });
        }
    }

    /// Records the transmission of `bytes` bytes. Retransmissions must also be recorded.
    pub fn on_sent(&mut self, bytes: u64) {
        if let Self::Prr(prr) = self {
            prr.out += bytes;
        }
    }

    /// Returns the window in bytes; `None` if the congestion control's window applies.
    #[inline]
    pub fn window(&self) -> Option<u64> {
        match self {
            Self::AtOnce => None,
            Self::Prr(prr) => Some(prr.window),
            Self::RateHalving(halving) => Some(halving.window * halving.mss),
        }
    }
}

/// Proportional rate reduction.
#[derive(Clone, Debug)]
pub(crate) struct Prr {
    bound: PrrBound,
    is_rfc_9937: bool,
    ssthresh: u64,
    recover_fs: u64,
    mss: u64,
    /// `prr_delivered`
    delivered: u64,
    /// `prr_out`
    out: u64,
    window: u64,
}

impl Prr {
    fn new(bound: PrrBound, goal: ReductionGoal) -> Self {
        let ReductionGoal { to, flight, mss, .. } = goal;
        let recover_fs = flight.max(1);
        Self { bound, is_rfc_9937: false, ssthresh: to, recover_fs, mss, delivered: 0, out: 0, window: 0 }
    }

    fn on_ack(&mut self, progress: Progress) {
        // RFC 9937, section 6.2: an acknowledgement that delivers no data leaves the window unchanged. The first call
        // computes the initial window of the reduction.
        if !self.is_rfc_9937 || progress.delivered > 0 || self.window == 0 {
            self.update(progress);
        }
    }

    /// Computes the window after the amount of data in flight has changed.
    fn update(&mut self, progress: Progress) {
        let Progress { delivered, pipe, safe } = progress;
        self.delivered += delivered;
        let unsent = self.delivered.saturating_sub(self.out);
        let mut count = if pipe > self.ssthresh {
            let product = u128::from(self.delivered) * u128::from(self.ssthresh);
            let target = product.div_ceil(u128::from(self.recover_fs));
            u64::try_from(target).unwrap_or(u64::MAX).saturating_sub(self.out)
        } else {
            let limit = match self.bound {
                PrrBound::Crb => unsent,
                PrrBound::Ssrb => unsent.max(delivered) + self.mss,
                PrrBound::SafeAck => unsent.max(delivered) + if safe { self.mss } else { 0 },
            };
            limit.min(self.ssthresh - pipe)
        };
        // The first retransmission is sent regardless of the proportion (RFC 9937, section 6.2).
        if self.out == 0 && (!self.is_rfc_9937 || count == 0) {
            count = count.max(self.mss);
        }
        self.window = pipe.saturating_add(count);
    }
}

/// Rate halving.
#[derive(Clone, Debug)]
pub(crate) struct RateHalving {
    /// Window in segments.
    window: u64,
    floor: u64,
    mss: u64,
    /// Whether the next acknowledgement reduces the window by one segment.
    reduces_next: bool,
}

impl RateHalving {
    fn new(goal: ReductionGoal) -> Self {
        let ReductionGoal { from, to, mss, .. } = goal;
        Self { window: from / mss, floor: to / mss, mss, reduces_next: false }
    }

    fn on_ack(&mut self, pipe: u64) {
        if self.reduces_next && self.window > self.floor {
            self.window -= 1;
        }
        self.reduces_next = !self.reduces_next;
        self.window = self.window.min(pipe.div_ceil(self.mss) + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prr(bound: PrrBound, goal: ReductionGoal, entry: u64, pipe: u64) -> WindowReduction {
        WindowReduction::new(Reduction::Prr, bound, goal, Progress { delivered: entry, pipe, safe: false })
    }

    const BOUNDS: [PrrBound; 3] = [PrrBound::Crb, PrrBound::Ssrb, PrrBound::SafeAck];

    #[test]
    fn prr_always_permits_the_first_retransmission() {
        let goal = ReductionGoal { from: 3000, to: 2500, flight: 3000, mss: 500 };
        for bound in BOUNDS {
            assert!(prr(bound, goal, 0, 3000).window().unwrap() >= 3500, "{bound:?}");
        }
    }

    #[test]
    fn the_proportional_part_does_not_open_the_window() {
        let goal = ReductionGoal { from: 3000, to: 2500, flight: 3000, mss: 500 };
        for bound in BOUNDS {
            let mut reduction = prr(bound, goal, 500, 3000);
            reduction.on_sent(1000);
            reduction.on_ack(Progress { delivered: 500, pipe: 3000, safe: true });
            assert_eq!(reduction.window(), Some(3000), "{bound:?}");
        }
    }

    #[test]
    fn the_bounds_do_not_close_a_window_below_the_threshold() {
        let goal = ReductionGoal { from: 1000, to: 2500, flight: 1000, mss: 500 };
        for (bound, expected) in [(PrrBound::Crb, 1000), (PrrBound::Ssrb, 2000), (PrrBound::SafeAck, 1500)] {
            let mut reduction = prr(bound, goal, 500, 1000);
            reduction.on_sent(1000);
            reduction.on_ack(Progress { delivered: 500, pipe: 1000, safe: false });
            assert_eq!(reduction.window(), Some(expected), "{bound:?}");
        }
    }

    #[test]
    fn a_safe_acknowledgement_permits_one_more_segment() {
        let goal = ReductionGoal { from: 9000, to: 5000, flight: 9000, mss: 500 };
        let mut windows = [true, false].map(|safe| {
            let mut reduction = prr(PrrBound::SafeAck, goal, 500, 2000);
            reduction.on_sent(500);
            reduction.on_ack(Progress { delivered: 1000, pipe: 2000, safe });
            reduction.window().unwrap()
        });
        windows[0] -= 500;
        assert_eq!(windows, [3000; 2]);
    }

    #[test]
    fn rfc_9937_forces_a_segment_only_if_no_data_is_permitted() {
        let goal = ReductionGoal { from: 20_000, to: 7000, flight: 20_000, mss: 1000 };
        let begin = |delivered| {
            let entry = Progress { delivered, pipe: 17_000, safe: false };
            WindowReduction::new(Reduction::Rfc9937, PrrBound::Crb, goal, entry).window().unwrap()
        };
        assert_eq!(begin(1000), 17_350, "ceil(1000 x 7000 / 20000), and no whole segment");
        assert_eq!(begin(0), 18_000);
    }

    #[test]
    fn with_rfc_9937_an_acknowledgement_without_delivered_data_changes_nothing() {
        let goal = ReductionGoal { from: 20_000, to: 10_000, flight: 20_000, mss: 1000 };
        let entry = Progress { delivered: 1000, pipe: 17_000, safe: false };
        let mut reduction = WindowReduction::new(Reduction::Rfc9937, PrrBound::Crb, goal, entry);
        reduction.on_sent(1000);
        let before = reduction.window();
        reduction.on_ack(Progress { delivered: 0, pipe: 16_000, safe: true });
        assert_eq!(reduction.window(), before);
        reduction.on_timer(15_000);
        assert_eq!(reduction.window(), Some(15_000), "a timer permits no other data");
    }

    #[test]
    fn rfc_9937_uses_the_conservative_bound_unless_an_acknowledgement_is_safe() {
        // After heavy losses, only 3000 bytes remain in the network.
        let goal = ReductionGoal { from: 20_000, to: 10_000, flight: 20_000, mss: 1000 };
        let entry = Progress { delivered: 1000, pipe: 3000, safe: false };
        for (safe, window) in [(false, 4000), (true, 5000)] {
            let mut reduction = WindowReduction::new(Reduction::Rfc9937, PrrBound::Ssrb, goal, entry);
            reduction.on_sent(1000);
            reduction.on_ack(Progress { delivered: 1000, pipe: 3000, safe });
            assert_eq!(reduction.window(), Some(window), "safe: {safe}");
        }
    }

    #[test]
    fn large_windows_do_not_overflow() {
        let goal = ReductionGoal { from: 200_000, to: 100_000, flight: 200_000, mss: 1000 };
        let mut reduction = prr(PrrBound::Ssrb, goal, 1000, 200_000);
        reduction.on_ack(Progress { delivered: 50_000, pipe: 200_000, safe: false });
        assert_eq!(reduction.window(), Some(225_500));

        let huge = 1 << 62;
        let goal = ReductionGoal { from: huge, to: huge / 2, flight: huge, mss: 1000 };
        let reduction = prr(PrrBound::Ssrb, goal, huge, huge);
        assert_eq!(reduction.window(), Some(huge + huge / 2));
    }

    #[test]
    fn prr_sends_in_total_what_the_threshold_permits() {
        let goal = ReductionGoal { from: 20_000, to: 14_000, flight: 20_000, mss: 1000 };
        let (mut pipe, mut out) = (19_000, 0);
        let mut reduction = prr(PrrBound::Crb, goal, 1000, pipe);
        for _ in 0..19 {
            while pipe < reduction.window().unwrap() {
                reduction.on_sent(1000);
                (pipe, out) = (pipe + 1000, out + 1000);
            }
            pipe -= 1000;
            reduction.on_ack(Progress { delivered: 1000, pipe, safe: false });
        }
        assert_eq!((pipe, out), (13_000, 13_000), "the last acknowledgement permits one more segment");
        assert_eq!(reduction.window(), Some(14_000));
    }

    #[test]
    fn rate_halving_removes_a_segment_with_every_second_acknowledgement() {
        let goal = ReductionGoal { from: 10_000, to: 7000, flight: 10_000, mss: 1000 };
        let entry = Progress { delivered: 1000, pipe: 9500, safe: false };
        let mut reduction = WindowReduction::new(Reduction::RateHalving, PrrBound::Crb, goal, entry);
        let mut windows = vec![reduction.window().unwrap()];
        for _ in 0..8 {
            reduction.on_ack(Progress { delivered: 1000, pipe: 9500, safe: false });
            windows.push(reduction.window().unwrap());
        }
        assert_eq!(windows, [10_000, 9000, 9000, 8000, 8000, 7000, 7000, 7000, 7000]);
        reduction.on_ack(Progress { delivered: 1000, pipe: 3000, safe: false });
        assert_eq!(reduction.window(), Some(4000), "never more than a segment above what is in flight");
    }

    #[test]
    fn an_immediate_reduction_uses_the_window_of_the_congestion_control() {
        let goal = ReductionGoal { from: 10_000, to: 5000, flight: 10_000, mss: 1000 };
        let entry = Progress { delivered: 1000, pipe: 9000, safe: false };
        let reduction = WindowReduction::new(Reduction::AtOnce, PrrBound::Crb, goal, entry);
        assert_eq!(reduction.window(), None);
    }
}
