//! PackMime-HTTP: the Web traffic of many users as a stream of connections over one line, each with a
//! request, a response, and delays of its own.
//!
//! J. Cao, W. S. Cleveland, Y. Gao, K. Jeffay, F. D. Smith & M. Weigle, "Stochastic Models for Generating
//! Synthetic HTTP Source Traffic", INFOCOM 2004, and its form in ns-2 (its manual, chapter
//! "PackMime-HTTP"), whose fits to traces of Bell Labs these are. Gaps, request sizes and round-trip times
//! have long memory ([`fractional`]); response sizes come in runs. All distributions depend on the rate of
//! new connections, and nothing waits for the network: an open loop.
//!
//! The logits of the fits are to the base of 2, as those of ns-2 are; with natural ones its gaps and runs do
//! not come out.
//!
//! Ours, where the source is silent: the fits are thinned to sizes and times within 1.5 % of the full
//! tables; the gap before the first connection is drawn like the others; sizes above `maximum` become the
//! maximum. ns-2's boxes forget a connection with its first FIN, so that what comes later passes undelayed;
//! here the delay stays.

mod fourier;
mod fractional;
mod persistent;
mod tables;

use aqm_net::{ConfigError, Instant, Rate, Rng, Size, Span, choices, parameters};

use crate::distributions::{self, Distribution as _, Sizes, Times, Weibull};
use crate::parameters::{Period, check_transfers};
use crate::wire::Wire;
use crate::{Build, BuildContext, Conversation, Exchange, TrafficContext, Workload};
use fractional::{Memory, SumDifference};
use persistent::Persistent;
use tables::{CLIENT_TIMES, DOWNLOADS, LARGE_REQUESTS, SERVER_TIMES, SHORT_RESPONSES, SMALL_REQUESTS};

choices! {
    /// How many exchanges a connection has.
    pub enum Http {
        /// One request and one response.
        OneZero = "1.0",
        /// Some connections persist: pages of objects, one after another.
        OneOne = "1.1",
    }
}

choices! {
    /// What the random effects of the gaps on persistent connections belong to.
    pub enum GapEffects {
        /// Each connection draws its own, as the model means it.
        Connection = "connection",
        /// They are drawn once for the whole workload, as ns-2 does it.
        Workload = "workload",
    }
}

parameters! {
    /// Web traffic of many users after PackMime-HTTP: connections with requests, responses and delays.
    pub struct Config {
        /// New connections in a second; all distributions of the model depend on it.
        pub connections_per_second: f64 = 100.0, "ours";
        /// How many exchanges a connection has.
        pub http: Http = Http::OneZero, "ns-2, PackMimeHTTP: `http_1_1_` off";
        /// What the random effects of the gaps on persistent connections belong to.
        pub gap_effects: GapEffects = GapEffects::Connection, "Cao et al. 2004";
        /// How large requests are; left out, as the model says, with long memory.
        pub request_sizes: Option<distributions::Config> = None, "Cao et al. 2004";
        /// How large responses are; left out, as the model says, in runs of short ones and downloads.
        pub response_sizes: Option<distributions::Config> = None, "Cao et al. 2004";
        /// How long a server, which has the whole request, takes before it answers; left out, as the model
        /// says.
        pub server_delay: Option<distributions::Config> = None, "Cao et al. 2004";
        /// The greatest size of a request or a response; larger ones become it. By default where the
        /// table of downloads ends, beyond which their Pareto tail of index 1.23 goes on for ever.
        pub maximum: Size = Size::from_bytes(61_603_116), "ours: the last knot of the fit";
        /// When the gap before the first connection begins.
        pub start: Span = Span::ZERO, "ours";
        /// From when on no connection begins; left out, the end of the run.
        pub stop: Option<Span> = None, "ours";
    }
}

/// The range of rates in which the distributions keep their form.
const RATES: [f64; 2] = [0.1, 100_000.0];

/// The response from which on the later ones of a persistent connection are drawn anew.
const LARGE_RESPONSE: u64 = 275;

impl Build for Config {
    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn Workload>, ConfigError> {
        let (rate, [least, most]) = (self.connections_per_second, RATES);
        if !(least..=most).contains(&rate) {
            let problem = format!("must be between {least} and {most}, is {rate}");
            return Err(ConfigError::at("connections_per_second", problem));
        }
        if self.maximum.bytes() == 0 {
            return Err(ConfigError::at("maximum", "must be at least 1B"));
        }
        let period = Period::new(self.start, self.stop, context.duration)?;
        check_transfers(rate * period.seconds(), "connections_per_second", "lower it")?;
        let stream = |purpose| context.streams.named(&format!("{}/{purpose}", context.name), 0);
        let model = RateModel::new(rate);
        let sizes = |config: &Option<distributions::Config>, place: &str| {
            let build = |config: &distributions::Config| config.sizes(Some(context.packetisation));
            config.as_ref().map(build).transpose().map_err(|error| error.within(place))
        };
        let server_delay = self.server_delay.as_ref().map(distributions::Config::times).transpose();
        let gap_effects = self.gap_effects;
        let persists = || Persistent::new(gap_effects, [stream("persistent"), stream("gaps")]);
        Ok(Box::new(PackMime {
            arrivals: SumDifference::new(
                Memory { d: 0.33, lags: 1000 },
                model.arrivals,
                [stream("arrivals"), stream("arrivals/white")],
            ),
            gap: model.gap,
            requests: SumDifference::new(
                Memory { d: 0.31, lags: 5000 },
                model.requests,
                [stream("requests"), stream("requests/white")],
            ),
            client_times: SumDifference::new(
                Memory { d: 0.31, lags: 1000 },
                model.client_times,
                [stream("client-times"), stream("client-times/white")],
            ),
            server_times: SumDifference::new(
                Memory { d: 0.32, lags: 1000 },
                model.server_times,
                [stream("server-times"), stream("server-times/white")],
            ),
            responses: Responses::new(model.runs, [stream("runs"), stream("responses")]),
            request_sizes: sizes(&self.request_sizes, "request_sizes")?,
            request_rng: stream("request-sizes"),
            response_sizes: sizes(&self.response_sizes, "response_sizes")?,
            response_rng: stream("response-sizes"),
            server_delay: server_delay.map_err(|error| error.within("server_delay"))?,
            server_delay_rng: stream("server-delays"),
            persistent: (self.http == Http::OneOne).then(persists),
            maximum: self.maximum.bytes(),
            connections_per_second: rate,
            wire: Wire::of(context.packetisation),
            rate: context.rate,
            period,
            next: period.start,
            offered: Offered::default(),
        }))
    }

    fn own_hosts(&self) -> bool {
        false
    }

    fn connection_rate(&self) -> Option<&'static str> {
        Some("connections_per_second")
    }
}

/// What depends on the rate of new connections.
struct RateModel {
    /// The shares of white noise of the four sum-difference processes.
    arrivals: f64,
    requests: f64,
    client_times: f64,
    server_times: f64,
    /// The gaps between connections, in seconds.
    gap: Weibull,
    /// How many responses a run has, of short ones and of downloads.
    runs: [Weibull; 2],
}

impl RateModel {
    fn new(rate: f64) -> Self {
        let share = |constant: f64, slope: f64| logistic(constant + slope * libm::log2(rate));
        let shape = share(0.352, 0.388);
        Self {
            arrivals: share(0.333, 0.414),
            requests: share(0.123, 0.494),
            client_times: share(-0.445, 0.554),
            server_times: share(-0.053, 0.396),
            // So that the mean is that of the rate.
            gap: Weibull { shape, scale: 1.0 / (rate * libm::tgamma(1.0 + 1.0 / shape)) },
            runs: [
                Weibull { shape: share(0.718, 0.357), scale: 0.775 },
                Weibull { shape: share(1.293, 0.316), scale: 3.11 },
            ],
        }
    }
}

/// The inverse of the logit to the base of 2, which is that of the fits.
fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp2(-x))
}

/// The running workload.
#[derive(Clone)]
struct PackMime {
    connections_per_second: f64,
    arrivals: SumDifference,
    gap: Weibull,
    requests: SumDifference,
    client_times: SumDifference,
    server_times: SumDifference,
    responses: Responses,
    /// Instead of the model's.
    request_sizes: Option<Sizes>,
    request_rng: Rng,
    response_sizes: Option<Sizes>,
    response_rng: Rng,
    server_delay: Option<Times>,
    server_delay_rng: Rng,
    /// With HTTP/1.1 only.
    persistent: Option<Persistent>,
    maximum: u64,
    wire: Wire,
    rate: Rate,
    period: Period,
    /// When the next connection begins.
    next: Instant,
    offered: Offered,
}

/// What was offered so far.
#[derive(Clone, Default)]
struct Offered {
    connections: u64,
    exchanges: u64,
    request_bytes: u64,
    response_bytes: u64,
    wire_bytes: u64,
}

impl Workload for PackMime {
    fn start(&mut self, cx: &mut dyn TrafficContext) {
        self.sleep(cx);
    }

    fn on_wake(&mut self, cx: &mut dyn TrafficContext) {
        let conversation = self.conversation();
        self.offered.connections += 1;
        for exchange in std::iter::once(&conversation.first).chain(&conversation.rest) {
            self.offered.exchanges += 1;
            self.offered.request_bytes += exchange.request;
            self.offered.response_bytes += exchange.response;
            self.offered.wire_bytes += self.wire.bytes(exchange.response);
        }
        cx.converse(conversation);
        self.sleep(cx);
    }

    /// The realised values are those of the whole period, so they are complete at the end of the run.
    fn facts(&self, show: &mut dyn FnMut(&'static str, f64)) {
        let Offered { connections, exchanges, request_bytes, response_bytes, wire_bytes } = self.offered;
        let mean = |bytes: u64| if exchanges == 0 { 0.0 } else { bytes as f64 / exchanges as f64 };
        show("nominal_connections_per_second", self.connections_per_second);
        show("connections", connections as f64);
        show("exchanges", exchanges as f64);
        show("mean_request_bytes", mean(request_bytes));
        show("mean_response_bytes", mean(response_bytes));
        show("realised_load", self.period.load(wire_bytes, self.rate));
    }
}

impl PackMime {
    fn sleep(&mut self, cx: &mut dyn TrafficContext) {
        let gap = self.gap.exceeded_with(self.arrivals.exceeded());
        self.next += nanos(gap * 1e9);
        if self.next < self.period.end {
            cx.wake_at(self.next);
        }
    }

    fn conversation(&mut self) -> Conversation {
        let request = match &self.request_sizes {
            Some(sizes) => sizes.sample(&mut self.request_rng) as f64,
            None => request(self.requests.exceeded()),
        };
        let response = match &self.response_sizes {
            Some(sizes) => sizes.sample(&mut self.response_rng) as f64,
            None => self.responses.sample(),
        };
        let first = Exchange {
            pause: Span::ZERO,
            request: whole(request, self.maximum),
            think: self.server_delay(),
            response: whole(response, self.maximum),
        };
        Conversation {
            rest: self.following(first),
            client_delay: one_way(client_time(self.client_times.exceeded())),
            server_delay: one_way(server_time(self.server_times.exceeded())),
            ..Conversation::of(first)
        }
    }

    /// The exchanges that follow on the first one, if the connection persists.
    fn following(&mut self, first: Exchange) -> Vec<Exchange> {
        let Some(persistent) = &mut self.persistent else { return Vec::new() };
        let Some(pauses) = persistent.pauses() else { return Vec::new() };
        let effects = (first.response > LARGE_RESPONSE).then(|| persistent.size_effects());
        let mut exchanges = Vec::with_capacity(pauses.len());
        for pause in pauses {
            let response = match (&self.response_sizes, effects, &mut self.persistent) {
                (Some(sizes), ..) => whole(sizes.sample(&mut self.response_rng) as f64, self.maximum),
                (None, Some(effects), Some(persistent)) => whole(persistent.size(effects), self.maximum),
                _ => first.response,
            };
            let think = self.server_delay();
            exchanges.push(Exchange { pause, think, response, ..first });
        }
        exchanges
    }

    fn server_delay(&mut self) -> Span {
        match &self.server_delay {
            Some(times) => times.sample_span(&mut self.server_delay_rng),
            None => server_delay(&mut self.server_delay_rng),
        }
    }
}

/// A size in whole bytes.
fn whole(bytes: f64, maximum: u64) -> u64 {
    (bytes as u64).clamp(1, maximum)
}

/// A time in nanoseconds, rounded.
fn nanos(nanos: f64) -> Span {
    Span::from_nanos((nanos + 0.5) as u64)
}

/// The request, in bytes, that is exceeded with chance `p`.
fn request(p: f64) -> f64 {
    if p >= 0.5 {
        SMALL_REQUESTS.at((1.0 - p) / 0.5)
    } else {
        libm::exp2(LARGE_REQUESTS.at(libm::log2(p / 0.5)))
    }
}

/// The share of the round-trip time on the client's side, in milliseconds, that is exceeded with chance `p`.
fn client_time(p: f64) -> f64 {
    let root = CLIENT_TIMES.at(-libm::log10(p));
    let square = root * root;
    square * square * root
}

/// The same on the server's side.
fn server_time(p: f64) -> f64 {
    let root = SERVER_TIMES.at(-libm::log10(p));
    root * root * root
}

/// Half of a share of the round-trip time, given in milliseconds.
fn one_way(millis: f64) -> Span {
    nanos(millis * 0.5e6)
}

/// How long a server takes, at most 0.1 s.
fn server_delay(rng: &mut Rng) -> Span {
    let answers_per_second = Weibull { shape: 0.63, scale: 305.0 }.sample(rng).max(10.0);
    nanos(1e9 / answers_per_second)
}

/// Response sizes: runs of short ones (answers that what the client has is still good) and of downloads by
/// turns, first a run of downloads.
#[derive(Clone)]
struct Responses {
    runs: [Weibull; 2],
    state: usize,
    /// Responses left of the present run.
    left: f64,
    run_lengths: Rng,
    sizes: Rng,
}

const SHORT: usize = 0;
const DOWNLOAD: usize = 1;

impl Responses {
    fn new(runs: [Weibull; 2], [run_lengths, sizes]: [Rng; 2]) -> Self {
        // The run of no responses that is over is one of short ones.
        Self { runs, state: SHORT, left: 0.0, run_lengths, sizes }
    }

    /// The next response, in bytes.
    fn sample(&mut self) -> f64 {
        if self.left < 1.0 {
            self.state = SHORT + DOWNLOAD - self.state;
            self.left = libm::ceil(self.runs[self.state].sample(&mut self.run_lengths)).max(1.0);
        }
        self.left -= 1.0;
        match self.state {
            DOWNLOAD => download(self.sizes.uniform_positive()),
            _ => SHORT_RESPONSES.at(self.sizes.uniform()),
        }
    }
}

/// The download, in bytes, that is exceeded with chance `p`.
fn download(p: f64) -> f64 {
    libm::exp2(DOWNLOADS.at(libm::log2(p)))
}

#[cfg(test)]
mod tests;
