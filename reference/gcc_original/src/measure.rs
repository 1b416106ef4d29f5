//! What is measured of a media flow: rates in bins of one second, and the delay of each packet.

const SECOND: u64 = 1_000_000_000;

/// One second of a flow.
#[derive(Clone, Copy, Default)]
pub struct Second {
    /// Bytes of IP packets that entered the path in this second.
    pub sent: u64,
    /// RTP packets that entered the path in this second.
    packets: u64,
    /// RTP packets that entered the path in this second and were dropped.
    lost: u64,
    /// Bytes of IP packets that arrived in this second.
    pub received: u64,
    targets: Mean,
    estimates: Mean,
    delays: Mean,
}

#[derive(Clone, Copy, Default)]
struct Mean {
    sum: u64,
    count: u64,
}

impl Mean {
    fn add(&mut self, value: u64) {
        self.sum += value;
        self.count += 1;
    }

    fn merge(self, other: Self) -> Self {
        Self { sum: self.sum + other.sum, count: self.count + other.count }
    }

    fn value(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }
}

/// The values of a row: rates in bits per second, delays in milliseconds, loss as a share of the RTP packets.
pub struct Summary {
    pub target: Option<f64>,
    pub estimate: Option<f64>,
    pub sent: f64,
    pub received: f64,
    pub delay: Option<f64>,
    pub delay_95: Option<f64>,
    pub loss: Option<f64>,
}

#[derive(Default)]
pub struct Measured {
    seconds: Vec<Second>,
    /// Times of arrival and delays of the RTP packets that arrived.
    arrivals: Vec<(u64, u64)>,
}

/// Whether a packet is RTP and not RTCP (RFC 5761, section 4).
pub fn is_rtp(packet: &[u8]) -> bool {
    matches!(packet, [128..=191, kind, ..] if !(192..=223).contains(kind))
}

impl Measured {
    fn at(&mut self, now: u64) -> &mut Second {
        let index = (now / SECOND) as usize;
        if self.seconds.len() <= index {
            self.seconds.resize(index + 1, Second::default());
        }
        &mut self.seconds[index]
    }

    pub fn sample(&mut self, target: u64, estimate: u64, now: u64) {
        let second = self.at(now);
        second.targets.add(target);
        second.estimates.add(estimate);
    }

    pub fn sent(&mut self, bytes: u64, is_rtp: bool, now: u64) {
        let second = self.at(now);
        second.sent += bytes;
        second.packets += u64::from(is_rtp);
    }

    pub fn lost(&mut self, is_rtp: bool, sent: u64) {
        self.at(sent).lost += u64::from(is_rtp);
    }

    pub fn arrived(&mut self, bytes: u64, is_rtp: bool, sent: u64, now: u64) {
        let second = self.at(now);
        second.received += bytes;
        if is_rtp {
            second.delays.add(now - sent);
            self.arrivals.push((now, now - sent));
        }
    }

    /// Summarises the seconds from `from` to `until`.
    pub fn summary(&self, from: u64, until: u64) -> Summary {
        let range = from as usize..(until as usize).min(self.seconds.len());
        let mut all = Second::default();
        for second in self.seconds.get(range).unwrap_or_default() {
            all = Second {
                sent: all.sent + second.sent,
                packets: all.packets + second.packets,
                lost: all.lost + second.lost,
                received: all.received + second.received,
                targets: all.targets.merge(second.targets),
                estimates: all.estimates.merge(second.estimates),
                delays: all.delays.merge(second.delays),
            };
        }
        let inside = |&&(at, _): &&(u64, u64)| (from * SECOND..until * SECOND).contains(&at);
        let mut delays: Vec<u64> = self.arrivals.iter().filter(inside).map(|&(_, delay)| delay).collect();
        delays.sort_unstable();
        // The smallest delay that is not exceeded by 95 % of the packets.
        let delay_95 = delays.get((delays.len() * 95).div_ceil(100).saturating_sub(1));
        let rate = |bytes: u64| bytes as f64 * 8.0 / (until - from) as f64;
        Summary {
            target: all.targets.value(),
            estimate: all.estimates.value(),
            sent: rate(all.sent),
            received: rate(all.received),
            delay: all.delays.value().map(|nanos| nanos / 1e6),
            delay_95: delay_95.map(|&nanos| nanos as f64 / 1e6),
            loss: (all.packets > 0).then(|| all.lost as f64 / all.packets as f64),
        }
    }
}
