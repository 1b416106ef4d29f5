//! Tunes the receive window automatically, in order to find the segments that enlarge the window.
//!
//! Linux 6.1: `tcp_input.c` (`tcp_init_buffer_space`, `tcp_grow_window`, `tcp_rcv_rtt_measure_ts`,
//! `tcp_rcv_rtt_update`, `tcp_rcv_space_adjust`), with the defaults of `tcp_rmem[1]`, `tcp_adv_win_scale` and
//! `tcp_app_win`. A receiver that sees more data in a round trip than in any round trip before enlarges its buffer, so
//! that the window can become at least twice this amount. Each full segment then enlarges the window by two segments.
//! The round-trip time is measured with timestamps (RFC 7323).
//!
//! aqmlab's choices where the source is silent or depends on the device: the application reads data immediately, so only
//! the segment that has just arrived and data beyond a gap occupy the buffer; the memory of a segment is that of a
//! packet from a TUN device; a segment that is not full does not enlarge the window. The window of `[tcp.receiver]` limits the sender, and the tuned window does
//! not, because the tuned window is larger than the congestion window.

use aqm_net::Instant;

use crate::config::Config;
use crate::segment::Segment;

/// State of the automatic tuning. The names in parentheses are those of the kernel.
#[derive(Debug, Default)]
pub(super) struct WindowTuning {
    /// Smoothed round-trip time in units of 1/8 µs; 0 before the first sample (`rcv_rtt_est.rtt_us`).
    smoothed_rtt: u64,
    /// Timestamp whose echo was the last sample, in milliseconds (`rcv_rtt_last_tsecr`).
    last_echo: u64,
    /// Largest number of bytes in a round trip (`rcvq_space.space`); 0 before the first segment.
    round_bytes: u64,
    /// Sequence number at which the current round trip began (`rcvq_space.seq`).
    round_seq: u64,
    /// Time at which the current round trip began (`rcvq_space.time`).
    round_start: Instant,
    /// Size of the buffer, in bytes of memory (`sk_rcvbuf`).
    buffer: u64,
    /// Maximum window, in bytes (`window_clamp`).
    limit: u64,
    /// Current window, in bytes (`rcv_ssthresh`).
    window: u64,
}

/// The arrival of a segment with data.
pub(super) struct Arrival<'a> {
    pub segment: &'a Segment,
    /// Next expected sequence number after the arrival.
    pub expected: u64,
    /// Number of bytes beyond a gap after the arrival.
    pub stored: u64,
    pub now: Instant,
}

/// Default initial size of the receive buffer in Linux, in bytes of memory (`tcp_rmem[1]`). Half of the memory can contain
/// data (`tcp_adv_win_scale` 1).
pub const INITIAL_BUFFER: u64 = 131_072;

/// Segments of the first round trip (`TCP_INIT_CWND`).
const INITIAL_ROUND: u64 = 10;

/// Memory that the kernel expects for a segment in addition to its data: headers (`MAX_TCP_HEADER`, 320 bytes), `struct
/// sk_buff` (256 bytes) and `struct skb_shared_info` (320 bytes).
const MEMORY_OVERHEAD: u64 = 896;

/// Step in which the kernel increases the expected memory of a segment until half of the memory exceeds the data.
const MEMORY_STEP: u64 = 128;

/// Period of the clock of the kernel's timestamps (`TCP_TS_HZ`), in nanoseconds.
const TIMESTAMP_TICK: u64 = 1_000_000;

impl WindowTuning {
    /// Processes a segment with data. Returns whether the segment enlarges the window.
    pub fn on_segment(&mut self, arrival: &Arrival<'_>, config: &Config) -> bool {
        let &Arrival { segment, expected, stored, now } = arrival;
        let mss = config.connection.mss.bytes();
        if self.round_bytes == 0 {
            self.round_bytes = INITIAL_ROUND * mss;
            self.round_start = now;
            self.buffer = INITIAL_BUFFER;
            self.limit = (INITIAL_BUFFER / 2).saturating_sub(mss);
            self.window = self.limit;
        }
        let is_full = u64::from(segment.len) >= mss;
        let echo = segment.echo.nanos() / TIMESTAMP_TICK;
        if segment.echo != Instant::START && echo != self.last_echo {
            self.last_echo = echo;
            if is_full {
                self.sample((now.nanos() / TIMESTAMP_TICK).saturating_sub(echo).max(1));
            }
        }
        let occupied = (stored / mss + 1) * packet_memory(u64::from(segment.wire));
        let space = self.buffer.saturating_sub(occupied) / 2;
        let room = space.min(self.limit);
        let grows = is_full && self.window < room;
        if grows {
            self.window = (self.window + 2 * mss).min(room);
        }
        self.end_round(expected, now, mss, config);
        grows
    }

    /// Updates the round-trip time with a sample of `ticks` milliseconds.
    fn sample(&mut self, ticks: u64) {
        let sample = ticks * 1000;
        self.smoothed_rtt = if self.smoothed_rtt == 0 || 8 * sample < self.smoothed_rtt {
            8 * sample
        } else {
            self.smoothed_rtt - self.smoothed_rtt / 8 + sample
        };
    }

    /// Ends the round trip if it has lasted for the round-trip time.
    fn end_round(&mut self, expected: u64, now: Instant, mss: u64, config: &Config) {
        let micros = now.since(self.round_start).nanos() / 1000;
        if self.smoothed_rtt == 0 || micros < self.smoothed_rtt / 8 {
            return;
        }
        let bytes = expected.saturating_sub(self.round_seq);
        if bytes > self.round_bytes {
            let window = 2 * bytes + 16 * mss;
            let growth = window * (bytes - self.round_bytes) / self.round_bytes;
            let segments = (window + 2 * growth) / mss;
            let most = config.receiver.window.saturating_mul(2 * mss);
            let buffer = (segments * expected_memory(mss)).min(most);
            if buffer > self.buffer {
                self.buffer = buffer;
                self.limit = buffer / 2;
            }
            self.round_bytes = bytes;
        }
        self.round_seq = expected;
        self.round_start = now;
    }
}

/// Returns the memory that Linux allocates for a packet of `length` bytes that is written to a TUN device. `length` must be
/// more than 576 bytes. The sizes of the packet, the space before the packet (`NET_SKB_PAD`) and a `skb_shared_info` are
/// added and rounded up to a power of two; the size of a `sk_buff` is then added.
pub fn packet_memory(length: u64) -> u64 {
    ((length + 64).next_multiple_of(64) + 320).next_power_of_two() + 256
}

/// Returns the memory that the kernel expects for a full segment when the kernel sizes the buffer, in bytes.
fn expected_memory(mss: u64) -> u64 {
    let least = mss + MEMORY_OVERHEAD;
    least + (2 * mss).saturating_sub(least).div_ceil(MEMORY_STEP) * MEMORY_STEP
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MSS: u64 = 1448;

    /// A receiver of full segments that were sent 100 ms before they arrive.
    struct Bench {
        config: Config,
        tuning: WindowTuning,
        now: Instant,
        expected: u64,
    }

    impl Bench {
        fn new() -> Self {
            let config = crate::read(json!({ "connection": { "mss": "1448B" } })).unwrap();
            let now = Instant::from_nanos(1_000_000_000);
            Self { config, tuning: WindowTuning::default(), now, expected: 0 }
        }

        /// Receives a segment that echoes the timestamp `echo`, while `stored` bytes are beyond a gap. Returns whether
        /// the segment enlarges the window.
        fn receive(&mut self, echo: Instant, stored: u64) -> bool {
            let segment = Segment { seq: self.expected, len: 1448, wire: 1500, echo, ..Segment::default() };
            self.expected += MSS;
            let arrival = Arrival { segment: &segment, expected: self.expected, stored, now: self.now };
            self.tuning.on_segment(&arrival, &self.config)
        }

        /// Receives `segments` segments at the beginning of a round trip. Returns how many segments enlarge the window.
        fn round(&mut self, segments: u64) -> usize {
            let echo = self.now;
            self.now = Instant::from_nanos(self.now.nanos() + 100_000_000);
            (0..segments).filter(|_| self.receive(echo, 0)).count()
        }
    }

    #[test]
    fn memory_is_that_of_linux() {
        assert_eq!((packet_memory(1500), expected_memory(1448), expected_memory(536)), (2304, 2984, 1432));
    }

    /// A capture of Linux 6.1.192 contains the same windows: 64,088 bytes, 66,304 bytes (rounded up to the window scale)
    /// after the second segment of the second round trip, and then two segments more after each segment from the second
    /// segment of the third round trip.
    #[test]
    fn the_window_grows_as_in_linux() {
        let mut bench = Bench::new();
        assert_eq!((bench.round(10), bench.tuning.window), (0, 64_088));
        // A round trip ends with the first segment of the next round trip. 11 segments permit a buffer of 45 segments,
        // in which the segment that has just arrived occupies 2304 bytes.
        assert_eq!((bench.round(20), bench.tuning.window), (1, (45 * 2984 - 2304) / 2));
        // 20 segments permit a buffer of 166 segments.
        assert_eq!((bench.round(40), bench.tuning.window), (39, 65_988 + 39 * 2 * MSS));
        assert_eq!([bench.round(80), bench.round(80), bench.round(80), bench.round(80)], [80, 80, 50, 0]);
    }

    #[test]
    fn data_beyond_a_gap_leaves_no_room() {
        let mut bench = Bench::new();
        for segments in [10, 20, 40] {
            bench.round(segments);
        }
        let echo = bench.now;
        assert_eq!([bench.receive(echo, 10 * MSS), bench.receive(echo, 1000 * MSS)], [true, false]);
    }

    #[test]
    fn without_timestamps_the_window_does_not_grow() {
        let mut bench = Bench::new();
        for _ in 0..100 {
            bench.now = Instant::from_nanos(bench.now.nanos() + 10_000_000);
            assert!(!bench.receive(Instant::START, 0));
        }
    }
}
