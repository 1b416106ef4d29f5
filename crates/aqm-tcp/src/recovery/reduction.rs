//! How the window comes down in fast recovery, where it does not do so at once.
//!
//! M. Mathis, N. Dukkipati, Y. Cheng, "Proportional Rate Reduction for TCP", RFC 6937, 2013, section 3, and
//! its successor RFC 9937, 2025 (`safe-ack`; the first retransmission); rate halving as Linux 2.4 had it
//! (`tcp_cwnd_down`), after M. Mathis, J. Semke, J. Mahdavi, "The Rate-Halving Algorithm for TCP Congestion
//! Control", 1999.
//!
//! Ours, where the sources are silent: `RecoverFS` is all that is sent and not acknowledged once the
//! acknowledgement that shows the loss is taken in (`FlightSize` with limited transmit, not `pipe`), and what
//! that acknowledgement delivers counts. Rate halving counts acknowledgements that tell something new.

use crate::config::recovery::{PrrBound, Reduction};

/// The way down, once a loss was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descent {
    /// The window before, in bytes.
    pub from: u64,
    /// The window it comes down to (`ssthresh`), in bytes.
    pub to: u64,
    /// Bytes sent and not acknowledged (`RecoverFS`).
    pub flight: u64,
    pub mss: u64,
}

/// What an acknowledgement in fast recovery brought.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// Bytes that are now known to have arrived (`DeliveredData`).
    pub delivered: u64,
    /// Bytes in the network.
    pub pipe: u64,
    /// Whether it acknowledges more than the last and shows no further loss (`SafeACK`).
    pub safe: bool,
}

/// A window on its way down.
#[derive(Clone, Debug)]
pub(crate) enum Falling {
    AtOnce,
    Prr(Prr),
    RateHalving(RateHalving),
}

impl Falling {
    /// Begins; `entry` is the acknowledgement that showed the loss.
    pub fn new(reduction: Reduction, bound: PrrBound, descent: Descent, entry: Progress) -> Self {
        let mut falling = match reduction {
            Reduction::AtOnce => Self::AtOnce,
            Reduction::Prr => Self::Prr(Prr::new(bound, descent)),
            Reduction::RateHalving => Self::RateHalving(RateHalving::new(descent)),
        };
        falling.on_ack(entry);
        falling
    }

    /// An acknowledgement brought something new.
    pub fn on_ack(&mut self, progress: Progress) {
        match self {
            Self::AtOnce => {}
            Self::Prr(prr) => prr.on_ack(progress),
            Self::RateHalving(halving) => halving.on_ack(progress.pipe),
        }
    }

    /// Losses were found though nothing arrived: with PRR they do not make room for others.
    pub fn on_timer(&mut self, pipe: u64) {
        if let Self::Prr(prr) = self {
            prr.on_ack(Progress { delivered: 0, pipe, safe: false });
        }
    }

    /// `bytes` bytes were sent, for the first time or again.
    pub fn on_sent(&mut self, bytes: u64) {
        if let Self::Prr(prr) = self {
            prr.out += bytes;
        }
    }

    /// The window, in bytes; none if it is that of the congestion control.
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
    fn new(bound: PrrBound, descent: Descent) -> Self {
        let Descent { to, flight, mss, .. } = descent;
        Self { bound, ssthresh: to, recover_fs: flight.max(1), mss, delivered: 0, out: 0, window: 0 }
    }

    fn on_ack(&mut self, progress: Progress) {
        let Progress { delivered, pipe, safe } = progress;
        self.delivered += delivered;
        let owed = self.delivered.saturating_sub(self.out);
        let mut count = if pipe > self.ssthresh {
            let product = u128::from(self.delivered) * u128::from(self.ssthresh);
            let due = product.div_ceil(u128::from(self.recover_fs));
            u64::try_from(due).unwrap_or(u64::MAX).saturating_sub(self.out)
        } else {
            let limit = match self.bound {
                PrrBound::Crb => owed,
                PrrBound::Ssrb => owed.max(delivered) + self.mss,
                PrrBound::SafeAck => owed.max(delivered) + if safe { self.mss } else { 0 },
            };
            limit.min(self.ssthresh - pipe)
        };
        if self.out == 0 {
            // The first retransmission goes out whatever the proportion (RFC 9937, section 6).
            count = count.max(self.mss);
        }
        self.window = pipe.saturating_add(count);
    }
}

/// Rate halving.
#[derive(Clone, Debug)]
pub(crate) struct RateHalving {
    /// In segments.
    window: u64,
    floor: u64,
    mss: u64,
    /// Whether the next acknowledgement takes a segment off.
    second: bool,
}

impl RateHalving {
    fn new(descent: Descent) -> Self {
        let Descent { from, to, mss, .. } = descent;
        Self { window: from / mss, floor: to / mss, mss, second: false }
    }

    fn on_ack(&mut self, pipe: u64) {
        if self.second && self.window > self.floor {
            self.window -= 1;
        }
        self.second = !self.second;
        self.window = self.window.min(pipe.div_ceil(self.mss) + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prr(bound: PrrBound, descent: Descent, entry: u64, pipe: u64) -> Falling {
        Falling::new(Reduction::Prr, bound, descent, Progress { delivered: entry, pipe, safe: false })
    }

    const BOUNDS: [PrrBound; 3] = [PrrBound::Crb, PrrBound::Ssrb, PrrBound::SafeAck];

    #[test]
    fn prr_lets_the_first_retransmission_go() {
        let descent = Descent { from: 3000, to: 2500, flight: 3000, mss: 500 };
        for bound in BOUNDS {
            assert!(prr(bound, descent, 0, 3000).window().unwrap() >= 3500, "{bound:?}");
        }
    }

    #[test]
    fn the_proportional_part_does_not_open_the_window() {
        let descent = Descent { from: 3000, to: 2500, flight: 3000, mss: 500 };
        for bound in BOUNDS {
            let mut falling = prr(bound, descent, 500, 3000);
            falling.on_sent(1000);
            falling.on_ack(Progress { delivered: 500, pipe: 3000, safe: true });
            assert_eq!(falling.window(), Some(3000), "{bound:?}");
        }
    }

    #[test]
    fn the_bounds_do_not_close_a_window_below_the_threshold() {
        let descent = Descent { from: 1000, to: 2500, flight: 1000, mss: 500 };
        for (bound, expected) in [(PrrBound::Crb, 1000), (PrrBound::Ssrb, 2000), (PrrBound::SafeAck, 1500)] {
            let mut falling = prr(bound, descent, 500, 1000);
            falling.on_sent(1000);
            falling.on_ack(Progress { delivered: 500, pipe: 1000, safe: false });
            assert_eq!(falling.window(), Some(expected), "{bound:?}");
        }
    }

    #[test]
    fn a_safe_acknowledgement_makes_up_by_a_segment_more() {
        let descent = Descent { from: 9000, to: 5000, flight: 9000, mss: 500 };
        let mut windows = [true, false].map(|safe| {
            let mut falling = prr(PrrBound::SafeAck, descent, 500, 2000);
            falling.on_sent(500);
            falling.on_ack(Progress { delivered: 1000, pipe: 2000, safe });
            falling.window().unwrap()
        });
        windows[0] -= 500;
        assert_eq!(windows, [3000; 2]);
    }

    #[test]
    fn large_windows_do_not_overflow() {
        let descent = Descent { from: 200_000, to: 100_000, flight: 200_000, mss: 1000 };
        let mut falling = prr(PrrBound::Ssrb, descent, 1000, 200_000);
        falling.on_ack(Progress { delivered: 50_000, pipe: 200_000, safe: false });
        assert_eq!(falling.window(), Some(225_500));

        let huge = 1 << 62;
        let descent = Descent { from: huge, to: huge / 2, flight: huge, mss: 1000 };
        let falling = prr(PrrBound::Ssrb, descent, huge, huge);
        assert_eq!(falling.window(), Some(huge + huge / 2));
    }

    #[test]
    fn prr_sends_in_all_what_the_threshold_allows() {
        let descent = Descent { from: 20_000, to: 14_000, flight: 20_000, mss: 1000 };
        let (mut pipe, mut out) = (19_000, 0);
        let mut falling = prr(PrrBound::Crb, descent, 1000, pipe);
        for _ in 0..19 {
            while pipe < falling.window().unwrap() {
                falling.on_sent(1000);
                (pipe, out) = (pipe + 1000, out + 1000);
            }
            pipe -= 1000;
            falling.on_ack(Progress { delivered: 1000, pipe, safe: false });
        }
        assert_eq!((pipe, out), (13_000, 13_000), "the last acknowledgement lets one more go");
        assert_eq!(falling.window(), Some(14_000));
    }

    #[test]
    fn rate_halving_takes_a_segment_off_with_every_second_acknowledgement() {
        let descent = Descent { from: 10_000, to: 7000, flight: 10_000, mss: 1000 };
        let entry = Progress { delivered: 1000, pipe: 9500, safe: false };
        let mut falling = Falling::new(Reduction::RateHalving, PrrBound::Crb, descent, entry);
        let mut windows = vec![falling.window().unwrap()];
        for _ in 0..8 {
            falling.on_ack(Progress { delivered: 1000, pipe: 9500, safe: false });
            windows.push(falling.window().unwrap());
        }
        assert_eq!(windows, [10_000, 9000, 9000, 8000, 8000, 7000, 7000, 7000, 7000]);
        falling.on_ack(Progress { delivered: 1000, pipe: 3000, safe: false });
        assert_eq!(falling.window(), Some(4000), "never more than a segment above what is in flight");
    }

    #[test]
    fn at_once_the_window_is_that_of_the_congestion_control() {
        let descent = Descent { from: 10_000, to: 5000, flight: 10_000, mss: 1000 };
        let entry = Progress { delivered: 1000, pipe: 9000, safe: false };
        let falling = Falling::new(Reduction::AtOnce, PrrBound::Crb, descent, entry);
        assert_eq!(falling.window(), None);
    }
}
