//! Calls: both endpoints of a call send voice datagrams to each other at equal intervals, regardless of losses and
//! delays.
//!
//! Sources: H. Schulzrinne, S. Casner, RFC 3551, 2003 (frames of 20 ms); ITU-T G.711, G.729, GSM 06.60. A G.711
//! datagram consists of 160 B of payload and 40 B of headers (IPv4 20, UDP 8, RTP 12), so the rate is 80 kb/s in each
//! direction.
//!
//! The two directions of a call are two flows. The backward flow is sent by the end that receives the workload's
//! forward data. The quality of a call is computed from the delay of each packet (`record.histories`).
//!
//! aqmlab's choices, where the sources are silent: both endpoints send voice all the time (no silence suppression). In
//! each direction, the first datagram is sent at a random time within one gap after the call starts, and the k-th
//! datagram after the first is sent k gaps later. Therefore, the two directions of a call are not synchronised, and
//! neither are different calls.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use aqm_net::{ConfigError, Ecn, Instant, Size, Span, choices, parameters};

use crate::datagram_ecn::DatagramEcn;
use crate::description::Application;
use crate::distributions::{Distribution as _, Uniform};
use crate::parameters::{MAX_BYTES, Period, check_datagrams, check_link_header, start_offset};
use crate::{Build, BuildContext, TrafficContext, Workload};

choices! {
    /// Voice codec.
    pub enum Codec {
        /// G.711 at 64 kb/s. The receiver does not conceal losses.
        G711 = "g711",
        /// G.711 with the loss concealment of appendix I of the G.711 standard.
        G711Plc = "g711-plc",
        /// G.729A: 8 kb/s.
        G729a = "g729a",
        /// GSM Enhanced Full Rate (EFR) at 12.2 kb/s, in frames of 31 B.
        GsmEfr = "gsm-efr",
    }
}

impl Codec {
    /// Returns the number of payload bytes that this duration of voice needs, rounded up.
    fn payload(self, voice: Span) -> u64 {
        let of_20_ms = match self {
            Self::G711 | Self::G711Plc => 160,
            Self::G729a => 20,
            Self::GsmEfr => 31,
        };
        voice.nanos().saturating_mul(of_20_ms).div_ceil(Span::from_millis(20).nanos())
    }
}

parameters! {
    /// Calls: both endpoints of a call send voice datagrams to each other.
    pub struct Config {
        /// Number of calls. Each call has its own hosts.
        pub calls: u32 = 1, "RFC 7928, section 9.1";
        /// Voice codec. The codec determines how large datagrams are and how losses affect the quality.
        pub codec: Codec = Codec::G711, "RFC 3551: PCMU, PCMA";
        /// Size of a datagram on the wire, including headers. The default is 40 B plus the payload that the codec
        /// produces during `every`. For 20 ms, the payload is 160 B with `g711`, 20 B with `g729a`, and 31 B with
        /// `gsm-efr`.
        pub packet: Option<Size> = None, "IPv4 20 B, UDP 8 B, RTP 12 B";
        /// Interval between two datagrams in the same direction, which is also the duration of the voice data in one
        /// datagram.
        pub every: Span = Span::from_millis(20), "RFC 3551, section 4.2";
        /// Earliest start of a call.
        pub start: Span = Span::ZERO, "aqmlab's choice";
        /// Length of the interval after `start` in which calls begin at random times.
        pub stagger: Span = Span::ZERO, "aqmlab's choice";
        /// Time at which all calls end; by default, the end of the run.
        pub stop: Option<Span> = None, "aqmlab's choice";
        /// ECN bits of the datagrams.
        #[serde(flatten)]
        pub ecn: DatagramEcn = DatagramEcn::default();
    }
}

/// Size of the IPv4, UDP and RTP headers, in bytes.
const HEADERS: u64 = 40;

/// Maximum number of calls. A larger number is assumed to be a typing error.
const MAX_CALLS: u32 = 100_000;

impl Build for Config {
    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn Workload>, ConfigError> {
        let problem = format_args!("must be between 1 and {MAX_CALLS} (got {})", self.calls);
        ConfigError::unless((1..=MAX_CALLS).contains(&self.calls), "calls", problem)?;
        ConfigError::unless(!self.every.is_zero(), "every", "must be greater than zero")?;
        let bytes = self.packet.map_or(HEADERS.saturating_add(self.codec.payload(self.every)), Size::bytes);
        let problem = format_args!("must be between 1B and {MAX_BYTES}B (got {bytes}B)");
        ConfigError::unless((1..=MAX_BYTES).contains(&bytes), "packet", problem)?;
        check_link_header(bytes, "packet", context)?;
        let period = Period::new(self.start, self.stop, context.duration)?;
        let each = period.seconds() / self.every.seconds();
        check_datagrams(2.0 * f64::from(self.calls) * each, "every")?;
        let phases = Uniform::below(self.every.nanos() as f64);
        let mut due = BinaryHeap::with_capacity(2 * self.calls as usize);
        for call in 0..self.calls {
            let begins = period.start + start_offset(self.stagger, call, context);
            let mut random = context.streams.named(&format!("{}/phase", context.name), u64::from(call));
            for back in [false, true] {
                let first = begins + Span::from_nanos(phases.sample(&mut random) as u64);
                due.push(Reverse((first, call, back)));
            }
        }
        Ok(Box::new(Calls {
            due,
            bytes: bytes as u16,
            every: self.every,
            ecn: self.ecn.bits()?,
            end: period.end,
            calls: self.calls,
            sent: 0,
        }))
    }

    fn sends_datagrams(&self) -> bool {
        true
    }

    fn own_hosts(&self) -> bool {
        true
    }

    fn hosts(&self) -> u64 {
        self.calls.into()
    }

    fn application(&self) -> Option<Application> {
        Some(Application::Call { codec: self.codec, frame_s: self.every.seconds() })
    }

    fn simulated_only(&self) -> Option<&'static str> {
        Some(
            "live runs support datagrams in only one direction: use two `udp` workloads, one for each direction",
        )
    }
}

/// The running workload.
#[derive(Clone)]
struct Calls {
    /// The next datagram in each direction, given by its time, its call, and whether the direction is backward. The
    /// earliest datagram is on top. The workload requests a wake-up only for the earliest datagram.
    due: BinaryHeap<Reverse<(Instant, u32, bool)>>,
    bytes: u16,
    every: Span,
    ecn: Ecn,
    end: Instant,
    calls: u32,
    sent: u64,
}

impl Workload for Calls {
    fn start(&mut self, cx: &mut dyn TrafficContext) {
        self.sleep(cx);
    }

    fn on_wake(&mut self, cx: &mut dyn TrafficContext) {
        while let Some(&Reverse((at, call, back))) = self.due.peek().filter(|due| due.0.0 <= cx.now()) {
            self.due.pop();
            if back {
                cx.datagram_back(call, self.bytes, self.ecn);
            } else {
                cx.datagram(call, self.bytes, self.ecn);
            }
            self.sent += 1;
            self.due.push(Reverse((at + self.every, call, back)));
        }
        self.sleep(cx);
    }

    /// Passes facts about the workload to `show`. The facts are complete only at the end of the run.
    fn facts(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("calls", f64::from(self.calls));
        show("datagrams", self.sent as f64);
        show("rate_bps", f64::from(self.bytes) * 8.0 / self.every.seconds());
    }
}

impl Calls {
    fn sleep(&mut self, cx: &mut dyn TrafficContext) {
        if let Some(&Reverse((at, ..))) = self.due.peek().filter(|due| due.0.0 < self.end) {
            cx.wake_at(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::testing::{context, distance, fact, run};

    /// Returns the times at which datagrams are sent in each direction of each call.
    fn talk(config: &Config) -> BTreeMap<(u32, bool), Vec<Instant>> {
        let mut workload = config.build(&context(1, 10)).unwrap();
        let recording = run(&mut *workload);
        let there = recording.sent.iter().map(|&(at, call, bytes, _)| (at, call, bytes, false));
        let back = recording.sent_back.iter().map(|&(at, call, bytes, _)| (at, call, bytes, true));
        let mut actual: BTreeMap<_, Vec<Instant>> = BTreeMap::new();
        for (at, call, bytes, is_back) in there.chain(back) {
            assert_eq!(u64::from(bytes), config.packet.map_or(200, Size::bytes));
            actual.entry((call, is_back)).or_default().push(at);
        }
        assert_eq!(fact(&*workload, "datagrams"), (recording.sent.len() + recording.sent_back.len()) as f64);
        actual
    }

    #[test]
    fn both_ends_send_200_bytes_every_20_ms_from_the_start_to_the_end() {
        let (start, stop) = (Span::from_millis(2000), Some(Span::from_millis(7000)));
        let actual = talk(&Config { calls: 3, start, stop, ..Config::default() });
        assert_eq!(actual.len(), 6);
        for moments in actual.values() {
            assert_eq!(moments.len(), 250);
            assert!(moments.windows(2).all(|two| two[1].since(two[0]) == Span::from_millis(20)));
            assert!((2.0..2.02).contains(&moments[0].seconds()));
        }
        let mut firsts: Vec<Instant> = actual.values().map(|moments| moments[0]).collect();
        firsts.sort_unstable();
        firsts.dedup();
        assert_eq!(firsts.len(), 6, "no two directions are in step");
    }

    #[test]
    fn calls_begin_within_the_stagger_and_do_not_depend_on_their_number() {
        let stagger = Span::from_millis(5000);
        let many = talk(&Config { calls: 1000, stagger, ..Config::default() });
        let firsts = many.values().map(|moments| moments[0].seconds()).collect();
        assert!(distance(firsts, |at| at / 5.0) < 2.0, "both directions of a call begin almost together");
        let few = talk(&Config { calls: 2, stagger, ..Config::default() });
        assert!(few.iter().all(|(key, moments)| many[key] == *moments));
    }

    #[test]
    fn a_datagram_has_the_payload_of_its_codec_and_forty_bytes() {
        for (codec, kbps) in
            [(Codec::G711, 80.0), (Codec::G711Plc, 80.0), (Codec::G729a, 24.0), (Codec::GsmEfr, 28.4)]
        {
            let workload = Config { codec, ..Config::default() }.build(&context(1, 10)).unwrap();
            assert_eq!(fact(&*workload, "rate_bps"), kbps * 1e3);
        }
        talk(&Config { packet: Some(Size::from_bytes(500)), ..Config::default() });
        let often = Config { every: Span::from_millis(10), codec: Codec::GsmEfr, ..Config::default() };
        let workload = often.build(&context(1, 10)).unwrap();
        // 15.5 bytes of voice are rounded up to 16 bytes.
        assert_eq!(fact(&*workload, "rate_bps"), 56.0 * 8.0 / 0.01);
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        let path = |config: Config| config.build(&context(1, 100)).err().unwrap().path;
        assert_eq!(path(Config { calls: 0, ..Config::default() }), "calls");
        for bytes in [0, 65_536] {
            assert_eq!(path(Config { packet: Some(Size::from_bytes(bytes)), ..Config::default() }), "packet");
        }
        assert_eq!(path(Config { every: Span::ZERO, ..Config::default() }), "every");
        assert_eq!(path(Config { every: Span::from_nanos(1), ..Config::default() }), "every");
        assert_eq!(path(Config { stop: Some(Span::ZERO), ..Config::default() }), "stop");
        assert!(Config::default().simulated_only().is_some() && Config::default().sends_datagrams());
    }
}
