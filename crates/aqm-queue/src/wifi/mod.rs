//! Wi-Fi: an access point that sends aggregates of packets to stations with different rates.
//!
//! T. Høiland-Jørgensen, M. Kazior, D. Täht, P. Hurtig, A. Brunstrom, "Ending the Anomaly: Achieving Low Latency and
//! Airtime Fairness in WiFi", USENIX ATC 2017 (arXiv:1703.00064), and the scheduler of the Linux driver ath9k that the
//! authors wrote (`ath_txq_schedule` and `ath_tx_form_aggr` in `drivers/net/wireless/ath/ath9k/xmit.c`, Linux 4.11).
//!
//! A transmission is an aggregate of packets for one station. It consists of:
//! - the time until the access point may send (`access`),
//! - the frame: the `preamble`, and the packets at the station's rate, each longer by `packet_overhead`,
//! - the time until the station has acknowledged the frame (`acknowledgement`).
//!
//! All packets of the aggregate arrive when the frame ends. An aggregate contains the packets that are queued for the
//! station when the transmission begins, up to the limits `packets`, `bytes` and `txop`. The access point never waits
//! for more packets.
//!
//! `scheduler` determines the queues and the order of the stations:
//! - `fifo` is Linux before this work: one queue for all stations, and below the queue a driver, which holds up to
//!   `driver_packets` packets, sorted by station. Stations with packets in the driver take turns of one aggregate.
//! - `round-robin`: a queue for each station. The stations take turns of one aggregate.
//! - `airtime`: a queue for each station. Each station has a deficit of airtime. The head of the list of new stations
//!   is served, or else the head of the list of old stations, as long as its deficit is positive. A station whose
//!   deficit is not positive gets a `quantum` and moves to the end of the old list. A station that has become empty
//!   leaves the new list for the old list, and leaves the old list. An idle station keeps its deficit.
//!
//! The documentation of [`Config`], which is part of the reference, lists the differences from the sources.

mod access_point;
mod aggregate;
mod stations;

use std::collections::BTreeMap;

use aqm_net::{ConfigError, ConfigErrors, ErrorCollector, Rate, Size, Span, choices, parameters};
use serde_json::{Value, json};

use crate::describe::{derived_inside, warnings_inside};
use crate::label_filter::Filters;
use crate::{Build, Derived, Describe, Inner, QueueDiscipline, TestCases, drop_tail};
use access_point::AccessPoint;
use aggregate::Timing;
use stations::Station as StationState;

parameters! {
    /// Wi-Fi: an access point sends aggregates of packets to stations with different rates.
    ///
    /// The discipline determines how long each transmission takes, so the rate of the link has no effect on
    /// transmissions. Set the rate of the link to the highest rate of a station, because the utilization and the load
    /// of the link refer to its rate.
    ///
    /// Limits of the model:
    ///
    /// - Only the access point sends. Stations that contend for the medium, collisions, lost frames and the choice of
    ///   rates are not modelled. Acknowledgements of TCP use the reverse link.
    /// - The time until the access point may send is constant: the mean of the random backoff.
    /// - The driver sends one aggregate at a time, whereas ath9k keeps two aggregates in the hardware.
    /// - A packet that does not fit into an aggregate has already left its queue, and is the first packet of the
    ///   station's next aggregate, as in ath9k.
    pub struct Config {
        /// Stations, each with a name. Default: a single station for all packets, whose rate is the link rate.
        pub stations: BTreeMap<String, Station> = BTreeMap::new(), "aqmlab's choice";
        /// Station for packets that match no station. Default: the only station. This parameter is required if there
        /// are several stations.
        pub default: Option<String> = None, "aqmlab's choice";
        /// Queues, and order in which stations are served.
        pub scheduler: Scheduler = Scheduler::Airtime, "Linux since 4.11, ath9k";
        /// For the scheduler `airtime`: airtime that a station may use per turn.
        pub quantum: Span = Span::from_nanos(300_000), "ath9k: ATH_AIRTIME_QUANTUM";
        /// For the scheduler `airtime`: time that a transmission costs its station.
        pub charge: Charge = Charge::Frame, "ath9k: ath_pkt_duration";
        /// For the scheduler `fifo`: maximum number of packets in the driver.
        pub driver_packets: u64 = 123, "ath9k: ATH_MAX_QDEPTH";
        /// Maximum number of packets in an aggregate.
        pub packets: u64 = 32, "ath9k: half of the block acknowledgement window, which has 64 frames";
        /// Maximum length of an aggregate, including `packet_overhead`.
        pub bytes: Size = Size::from_bytes(65_535), "IEEE 802.11n: maximum length of an A-MPDU";
        /// Maximum duration of a frame with several packets. A single packet may exceed this duration.
        pub txop: Span = Span::from_millis(4), "ath9k: ath_update_max_aggr_framelen";
        /// Time from the end of a transmission until the access point may send.
        pub access: Span = Span::from_nanos(101_500), "IEEE 802.11n: DIFS of 34us and mean backoff of 7.5 slots of 9us";
        /// Time before the first bit of data.
        pub preamble: Span = Span::from_nanos(40_000), "ath9k, ath_pkt_duration: two streams";
        /// Time from the end of the frame to the end of its acknowledgement.
        pub acknowledgement: Span = Span::from_nanos(48_000), "IEEE 802.11n: SIFS of 16us, and 32B at 24Mbps";
        /// Number of bytes by which each packet is longer in an aggregate.
        pub packet_overhead: Size = Size::from_bytes(42),
            "IEEE 802.11n: delimiter (4B), header (26B) and checksum (4B); LLC and SNAP (8B)";
        /// Queue discipline of each station or, for the scheduler `fifo`, of all stations. The discipline must not be
        /// a shaper. Default: `drop-tail` with default parameters.
        pub queue: Option<Box<crate::Config>> = None, "aqmlab's choice";
    }
}

parameters! {
    /// A station.
    pub struct Station {
        /// Rate at which data is sent to this station (PHY rate).
        pub rate: Option<Rate> = None, "no default: must be set";
        /// Queue discipline of this station, which must not be a shaper. Default: `queue` of the access point. With
        /// the scheduler `fifo`, stations have no queues of their own.
        pub queue: Option<Box<crate::Config>> = None, "aqmlab's choice";
        /// Filters that select the packets for this station. The value must be a filter or a list of filters. If it is
        /// a list, at least one of the filters must match.
        pub r#match: Filters = Filters::default(), "aqmlab's choice: unmatched packets go to `default`";
    }
}

choices! {
    /// The queues of an access point, and the order in which stations are served.
    pub enum Scheduler {
        /// One queue for all stations.
        Fifo = "fifo",
        /// A queue for each station; stations take turns of one aggregate.
        RoundRobin = "round-robin",
        /// A queue for each station; stations get equal airtime.
        Airtime = "airtime",
    }
}

choices! {
    /// The time that a transmission costs its station.
    pub enum Charge {
        /// The frame: the preamble and the data.
        Frame = "frame",
        /// The whole transmission: access, frame and acknowledgement.
        Transmission = "transmission",
    }
}

/// Returns the path to the parameters of this station's queue.
fn queue_path(station: &str) -> String {
    format!("stations.{station}.queue")
}

/// The name of the station if no stations are configured.
const SINGLE: &str = "all";

impl Config {
    /// Returns the stations in the order of their names. Without stations, returns a station for all packets.
    fn stations_or_single(&self, link: Rate) -> Vec<(&str, Rate, &Filters, Option<&Station>)> {
        const NONE: &Filters = &Filters::NONE;
        if self.stations.is_empty() {
            return vec![(SINGLE, link, NONE, None)];
        }
        let stations = self.stations.iter().filter_map(|(name, station)| {
            Some((name.as_str(), station.rate?, &station.r#match, Some(station)))
        });
        stations.collect()
    }

    /// Returns the parameters of the queue of `station`, and the path of these parameters.
    fn queue_of<'a>(
        &'a self,
        name: &str,
        station: Option<&'a Station>,
    ) -> Option<(String, &'a crate::Config)> {
        let own = station.and_then(|station| station.queue.as_deref());
        let own = own.map(|queue| (queue_path(name), queue));
        own.or_else(|| Some(("queue".to_owned(), self.queue.as_deref()?)))
    }

    fn build_queue(
        found: Option<(String, &crate::Config)>,
        rate: Rate,
    ) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let Some((path, queue)) = found else { return drop_tail::Config::default().build(rate) };
        let problem = format_args!("must be work-conserving, but `{}` delays packets", queue.kind());
        ConfigError::unless(!queue.holds_back(), format!("{path}.kind"), problem)?;
        queue.build(rate).map_err(|errors| errors.within(&path))
    }

    fn check(&self, errors: &mut ErrorCollector) {
        for (name, station) in &self.stations {
            let path = |key: &str| format!("stations.{name}.{key}");
            let problem = "is missing; set the rate of the station, for example \"144.4Mbps\"";
            errors.check(station.rate.is_some(), path("rate"), problem);
            let is_fifo = self.scheduler == Scheduler::Fifo;
            let problem = "has no effect with scheduler `fifo`, which has one queue for all stations: set `queue` of \
                           the access point";
            errors.check(!is_fifo || station.queue.is_none(), path("queue"), problem);
            let is_default = self.stations.len() == 1 || self.default.as_ref() == Some(name);
            let problem = "is missing: without a filter, the station gets no packets; add a filter such as \
                           { traffic = \"NAME\" }";
            errors.check(is_default || !station.r#match.is_empty(), path("match"), problem);
        }
        let names: Vec<&str> = self.stations.keys().map(String::as_str).collect();
        match &self.default {
            Some(default) => {
                let problem =
                    format_args!("no station is named `{default}`; available: {}", names.join(", "));
                errors.check(names.contains(&default.as_str()), "default", problem);
            }
            None => {
                let problem = format_args!(
                    "is missing: set the station for packets that match no station; available: {}",
                    names.join(", ")
                );
                errors.check(names.len() < 2, "default", problem);
            }
        }
        let is_airtime = self.scheduler == Scheduler::Airtime;
        errors.check_effect(is_airtime, self, &["quantum", "charge"], "unless scheduler is `airtime`");
        let is_fifo = self.scheduler == Scheduler::Fifo;
        errors.check_effect(is_fifo, self, &["driver_packets"], "unless scheduler is `fifo`");
        errors.check(!self.quantum.is_zero(), "quantum", "must be greater than 0s");
        errors.check(self.driver_packets > 0, "driver_packets", "must be at least 1 (got 0)");
        errors.check(self.packets > 0, "packets", "must be at least 1 (got 0)");
        errors.check(self.bytes.bytes() > 0, "bytes", "must be at least 1B (got 0B)");
        for (key, span) in [
            ("access", self.access),
            ("preamble", self.preamble),
            ("acknowledgement", self.acknowledgement),
            ("txop", self.txop),
            ("quantum", self.quantum),
        ] {
            let problem = format_args!("must be at most {LONGEST} (got {span})");
            errors.check(span <= LONGEST, key, problem);
        }
        let problem = format_args!("must be at most {MAX_OVERHEAD} (got {})", self.packet_overhead);
        errors.check(self.packet_overhead <= MAX_OVERHEAD, "packet_overhead", problem);
    }
}

/// The longest time that each part of a transmission may last; longer times are mistakes of units.
const LONGEST: Span = Span::from_millis(1000);
/// The largest overhead of a packet, which exceeds the headers of every version of IEEE 802.11.
const MAX_OVERHEAD: Size = Size::from_bytes(256);

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        self.check(&mut errors);
        errors.finish(())?;
        let mut errors = ErrorCollector::default();
        let is_fifo = self.scheduler == Scheduler::Fifo;
        let common = self.queue.as_deref().map(|queue| ("queue".to_owned(), queue));
        let shared = is_fifo.then(|| errors.take(Self::build_queue(common, rate)));
        let mut stations = Vec::new();
        let mut is_common_wrong = false;
        for (name, rate, filters, station) in self.stations_or_single(rate) {
            let has_own = station.is_some_and(|station| station.queue.is_some());
            // An error of the common queue is reported once, not once for each station.
            let own = (!is_fifo && (has_own || !is_common_wrong))
                .then(|| errors.take(Self::build_queue(self.queue_of(name, station), rate)));
            is_common_wrong |= own.as_ref().is_some_and(Option::is_none) && !has_own;
            let path = if self.stations.is_empty() { "queue".to_owned() } else { queue_path(name) };
            let (filters, quantum) = (filters.clone(), self.quantum);
            stations.push(StationState::new(name, path, rate, filters, own.flatten(), quantum));
        }
        errors.finish(())?;
        let default = self.default.as_ref().and_then(|name| self.stations.keys().position(|one| one == name));
        let timing = Timing::new(self);
        Ok(Box::new(AccessPoint::new(self, timing, shared.flatten(), stations, default.unwrap_or(0))))
    }
}

impl Describe for Config {
    fn inner(&self, link: Rate) -> Vec<Inner<'_>> {
        let of_common = |rate| Some(Inner { path: "queue".to_owned(), config: self.queue.as_deref()?, rate });
        if self.scheduler == Scheduler::Fifo || self.stations.is_empty() {
            return of_common(link).into_iter().collect();
        }
        let of_station = self.stations.iter().filter_map(|(name, station)| {
            let config = station.queue.as_deref().or(self.queue.as_deref())?;
            Some(Inner { path: queue_path(name), config, rate: station.rate? })
        });
        of_station.collect()
    }

    // The discipline is not a shaper. However, only a link can send at the times that the discipline determines, so
    // the discipline must not be inside a discipline that requires work-conserving queues.
    fn holds_back(&self) -> bool {
        true
    }

    fn outlet(&self, link: Rate) -> Rate {
        let fastest = self.stations.values().filter_map(|station| station.rate).max();
        fastest.unwrap_or(link)
    }

    fn traffic_names(&self) -> Vec<(String, &str)> {
        let mut workloads = Vec::new();
        for (name, station) in &self.stations {
            let path = format!("stations.{name}.match.traffic");
            workloads.extend(station.r#match.traffic().map(|traffic| (path.clone(), traffic)));
        }
        workloads
    }

    fn derived(&self, rate: Rate) -> Vec<Derived> {
        derived_inside(self, rate)
    }

    fn warnings(&self, link: Rate) -> Vec<ConfigError> {
        let mut warnings = Vec::new();
        for (name, rate, ..) in self.stations_or_single(link) {
            if rate > link {
                let problem = format!(
                    "exceeds the rate of the link, {link}, to which utilization and load refer: set the rate of the \
                     link to the highest rate of a station"
                );
                warnings.push(ConfigError::at(format!("stations.{name}.rate"), problem));
            }
        }
        warnings.extend(warnings_inside(self, link));
        warnings
    }
}

impl TestCases for Config {
    fn corners(&self) -> Vec<Value> {
        let station =
            |rate: &str, flow: u32| json!({"rate": rate, "match": {"traffic": [format!("flow {flow}")]}});
        let stations =
            json!({"a": station("7Mbps", 0), "b": station("300kbps", 1), "c": station("6Mbps", 2)});
        let small = json!({"kind": "drop-tail", "limit": "20p"});
        let with = |scheduler: &str, queue: Value, more: Value| {
            let mut table =
                json!({"stations": stations, "default": "c", "scheduler": scheduler, "queue": queue});
            table.as_object_mut().into_iter().zip(more.as_object()).for_each(|(table, more)| {
                table.extend(more.clone());
            });
            table
        };
        vec![
            with("fifo", small.clone(), json!({"driver_packets": 3, "packets": 2})),
            with(
                "round-robin",
                json!({"kind": "codel", "limit": "50p"}),
                json!({"bytes": "4kB", "default": "a"}),
            ),
            with("airtime", json!({"kind": "fq-codel", "limit": "60p"}), json!({})),
            with("airtime", small, json!({"charge": "transmission", "quantum": "1us", "txop": "0ms"})),
        ]
    }

    fn has_flow_queues(&self) -> bool {
        true
    }
}
