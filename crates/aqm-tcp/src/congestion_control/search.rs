//! SEARCH: slow start ends when less data is delivered than was sent one round trip earlier.
//!
//! J. Chung, M. Kachooei, F. Li, M. Claypool, "SEARCH -- a New Slow Start Algorithm for TCP and QUIC", Internet-Draft
//! draft-chung-ccwg-search-09, as implemented in Firefox (`neqo-transport/src/cc/search.rs` of 21 August 2026). Time is
//! divided into bins. A window of ten bins is 3.5 times as long as the first round-trip time. At the end of each bin,
//! the amount of data that was delivered in the last window is compared with the amount of data that was sent in a
//! window that ended one round-trip time earlier. While the path is not full, these amounts are equal. If the amount of
//! delivered data is smaller by 26 % or more, slow start ends and `ssthresh` is set to the current window.
//!
//! Differences from the draft, which are also found in Firefox: A window that lies between two bins is interpolated
//! backwards instead of forwards. An interval of more than ten bins without an acknowledgement restarts SEARCH, which
//! the draft permits as an option. There is no drain phase. In contrast to Firefox, shares are real numbers instead of
//! whole percentages.
//!
//! aqmlab's choice where the source does not specify the behaviour: if an acknowledgement provides no round-trip
//! sample, the last sample is used.

use aqm_net::{Instant, Span};

use super::AckSample;
use super::slow_start_exit::Decision;

/// Length of the window, as a multiple of the first round-trip time (`WINDOW_SIZE`).
const WINDOW_FACTOR: f64 = 3.5;
/// Number of bins in a window (`W`).
const WINDOW_BINS: usize = 10;
/// Number of additional bins, which limits the round-trip times at which SEARCH can be used (`EXTRA_BINS`).
const EXTRA_BINS: usize = 15;
/// Number of recorded bins. For a window that ended `EXTRA_BINS` bins ago, the interpolation requires the bin before
/// the first bin of the window.
const BINS: usize = WINDOW_BINS + EXTRA_BINS + 1;
/// Fraction of the sent data that must be missing before slow start ends (`THRESH`).
const THRESHOLD: f64 = 0.26;

/// State of SEARCH for one sender.
#[derive(Clone, Debug, Default)]
pub(super) struct Search {
    /// Number of bytes delivered since the connection was opened.
    delivered: u64,
    /// Most recent round-trip sample.
    rtt: Option<Span>,
    bins: Option<Box<Bins>>,
}

/// Numbers of bytes sent and delivered up to the end of each of the last bins.
#[derive(Clone, Debug)]
struct Bins {
    /// Length of a bin (`BIN_DURATION`).
    duration: Span,
    /// End of the current bin (`bin_end`).
    end: Instant,
    /// Number of the last complete bin (`curr_idx`). A bin is stored at the index that is its number modulo
    /// `BINS`.
    index: usize,
    sent: [u64; BINS],
    delivered: [u64; BINS],
}

impl Search {
    pub fn new() -> Self {
        Self::default()
    }

    /// Processes an acknowledgement in slow start.
    pub fn on_sample(&mut self, sample: &AckSample) -> Decision {
        self.delivered += sample.delivered;
        self.rtt = sample.newest.map(|sent| sample.now.since(sent)).or(self.rtt);
        let Some(rtt) = self.rtt else { return Decision::Continue };
        let Some(bins) = &mut self.bins else {
            self.bins = Some(Box::new(Bins::new(rtt, sample.now, sample.snd_nxt, self.delivered)));
            return Decision::Continue;
        };
        if sample.now <= bins.end {
            return Decision::Continue;
        }
        if !bins.advance(sample.now, sample.snd_nxt, self.delivered) {
            self.bins = None;
            return Decision::Continue;
        }
        match bins.missing_share(rtt) {
            Some(share) if share >= THRESHOLD => Decision::Exit,
            _ => Decision::Continue,
        }
    }
}

impl Bins {
    fn new(rtt: Span, now: Instant, sent: u64, delivered: u64) -> Self {
        let duration =
            Span::from_nanos(((WINDOW_FACTOR * rtt.nanos() as f64) as u64 / WINDOW_BINS as u64).max(1));
        Self { duration, end: now + duration, index: 0, sent: [sent; BINS], delivered: [delivered; BINS] }
    }

    /// Completes the bins that have ended by `now`. Returns `false` if more than a window has passed since the last
    /// complete bin.
    fn advance(&mut self, now: Instant, sent: u64, delivered: u64) -> bool {
        let passed = now.since(self.end).nanos() / self.duration.nanos() + 1;
        if passed > WINDOW_BINS as u64 {
            return false;
        }
        let last = self.index % BINS;
        for _ in 1..passed {
            self.index += 1;
            self.sent[self.index % BINS] = self.sent[last];
            self.delivered[self.index % BINS] = self.delivered[last];
        }
        self.index += 1;
        self.sent[self.index % BINS] = sent;
        self.delivered[self.index % BINS] = delivered;
        self.end += Span::from_nanos(passed * self.duration.nanos());
        true
    }

    /// Returns the fraction of the data sent one round-trip time `rtt` earlier that has not been delivered; `None` if
    /// too few bins are recorded, or if nothing was sent.
    fn missing_share(&self, rtt: Span) -> Option<f64> {
        let back = rtt.nanos() as f64 / self.duration.nanos() as f64;
        let whole = libm::floor(back);
        if whole >= EXTRA_BINS as f64 {
            return None;
        }
        let previous = self.index.checked_sub(whole as usize).filter(|&previous| previous > WINDOW_BINS)?;
        let within = |totals: &[u64; BINS], end: usize| {
            (totals[end % BINS] - totals[(end - WINDOW_BINS) % BINS]) as f64
        };
        let fraction = back - whole;
        let sent =
            within(&self.sent, previous - 1) * fraction + within(&self.sent, previous) * (1.0 - fraction);
        let delivered = within(&self.delivered, self.index);
        (sent > 0.0).then(|| ((sent - delivered) / sent).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_millis(100);
    const BIN: Span = Span::from_millis(35);

    /// SEARCH with a clock and the amounts of sent and delivered data. The first bin begins with the first
    /// acknowledgement.
    struct Bench {
        search: Search,
        now: Instant,
        sent: u64,
    }

    impl Bench {
        fn new() -> Self {
            let mut bench = Self { search: Search::new(), now: Instant::START + RTT, sent: 0 };
            assert_eq!(bench.ack(Span::ZERO, RTT, 1200, 1200), Decision::Continue);
            bench
        }

        /// Acknowledges `delivered` bytes at an interval of `gap` after the last acknowledgement. In this interval,
        /// `sent` bytes were sent.
        fn ack(&mut self, gap: Span, rtt: Span, sent: u64, delivered: u64) -> Decision {
            self.now += gap;
            self.sent += sent;
            self.search.on_sample(&AckSample {
                now: self.now,
                newest: Some(self.now.earlier_by(rtt)),
                ack_sent_at: None,
                srtt: Some(rtt),
                delivered,
                marked: 0,
                snd_una: 0,
                snd_nxt: self.sent,
                mss: 1200,
            })
        }

        /// Sends and acknowledges 1000 bytes in each of the next bins until bin `index` is complete.
        fn fill(&mut self, index: usize) {
            while self.bins().index < index {
                self.ack(BIN + Span::from_nanos(1), RTT, 1000, 1000);
            }
        }

        fn bins(&self) -> &Bins {
            self.search.bins.as_deref().unwrap()
        }
    }

    // The cases are those of Firefox's tests (`neqo-transport/src/cc/tests/search.rs`).

    #[test]
    fn the_first_round_trip_sets_the_bins() {
        let mut bench = Bench::new();
        let end = bench.now + BIN;
        assert_eq!((bench.bins().duration, bench.bins().end, bench.bins().index), (BIN, end, 0));
        assert_eq!((bench.bins().sent[0], bench.bins().delivered[0]), (1200, 1200));
        bench.ack(BIN, Span::from_millis(200), 1200, 1200);
        assert_eq!(
            (bench.bins().duration, bench.bins().index),
            (BIN, 0),
            "the bin ends after its last instant"
        );
        bench.ack(Span::from_nanos(1), RTT, 1200, 1200);
        assert_eq!((bench.bins().index, bench.bins().end), (1, end + BIN));
        assert_eq!((bench.bins().sent[1], bench.bins().delivered[1]), (3600, 3600));
    }

    #[test]
    fn skipped_bins_have_the_amounts_of_the_last_bin() {
        let mut bench = Bench::new();
        bench.ack(BIN + BIN + Span::from_nanos(1), RTT, 1200, 1200);
        assert_eq!(bench.bins().index, 2);
        assert_eq!((bench.bins().sent[1], bench.bins().delivered[1]), (1200, 1200));
        assert_eq!((bench.bins().sent[2], bench.bins().delivered[2]), (2400, 2400));
    }

    #[test]
    fn more_than_a_window_of_skipped_bins_restarts_with_a_new_round_trip() {
        let mut bench = Bench::new();
        bench.ack(Span::from_millis(350), RTT, 1200, 1200);
        assert_eq!(bench.bins().index, 10);
        bench.ack(Span::from_millis(385), RTT, 1200, 1200);
        assert!(bench.search.bins.is_none());
        bench.ack(Span::ZERO, Span::from_millis(200), 1200, 1200);
        assert_eq!((bench.bins().index, bench.bins().duration), (0, Span::from_millis(70)));
    }

    #[test]
    fn the_comparison_needs_a_window_before_the_last_round_trip() {
        // A round-trip time of 100 ms spans two whole bins of 35 ms, so that the 13th bin is the first bin for which
        // the comparison is possible.
        let mut bench = Bench::new();
        bench.fill(12);
        assert_eq!(bench.bins().missing_share(RTT), None);
        bench.fill(13);
        assert_eq!(bench.bins().missing_share(RTT), Some(0.0));
    }

    #[test]
    fn a_long_round_trip_prevents_the_comparison() {
        let mut bench = Bench::new();
        bench.fill(28);
        assert_eq!(bench.bins().missing_share(Span::from_millis(600)), None, "17 bins");
        bench.fill(29);
        assert_eq!(bench.bins().missing_share(Span::from_millis(525)), None, "15 bins");
        assert_eq!(bench.bins().missing_share(Span::from_millis(524)), Some(0.0), "14 bins");
    }

    #[test]
    fn without_sent_data_there_is_no_comparison() {
        let mut bench = Bench::new();
        while bench.bins().index < 13 {
            bench.ack(BIN + Span::from_nanos(1), RTT, 0, 0);
        }
        assert_eq!(bench.bins().missing_share(RTT), None);
    }

    #[test]
    fn a_window_between_two_bins_is_interpolated() {
        // The bins contain 1000, 2000, 4000, ... bytes: 2^k thousand bytes were sent in bin k.
        let mut bench = Bench::new();
        for bin in 0..20 {
            bench.ack(BIN + Span::from_nanos(1), RTT, 1000 << bin, 0);
        }
        let thousands = |end: u32| f64::from((1_u32 << end) - (1_u32 << (end - 10)));
        let sent = thousands(17) * (30.0 / 35.0) + thousands(18) * (5.0 / 35.0);
        bench.search.bins.as_mut().unwrap().delivered[20] += (1000.0 * sent / 2.0) as u64;
        let share = bench.bins().missing_share(RTT).unwrap();
        assert!((share - 0.5).abs() < 1e-6, "{share}");
    }

    #[test]
    fn slow_start_ends_when_the_delivery_no_longer_follows_the_sending() {
        let mut bench = Bench::new();
        let mut bytes = 12_000;
        for _ in 0..15 {
            assert_eq!(bench.ack(RTT, RTT, bytes, bytes), Decision::Continue, "steady delivery");
            bytes *= 2;
        }
        assert_eq!(bench.ack(RTT, RTT, bytes, bytes / 4), Decision::Continue, "not immediately");
        bytes += bytes / 4;
        assert_eq!(bench.ack(RTT, RTT, bytes, bytes / 4), Decision::Exit);
    }
}
