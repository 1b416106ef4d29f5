//! Loads of a page that was recorded in a browser. The objects of the page, their sizes, their dependencies and the
//! think times of the server and of the browser are read from a file; the network determines when the objects arrive.
//!
//! A client discovers an object when an event of each object on which the object depends has occurred and a recorded
//! delay has passed. Each host of the page has its own connections. With HTTP/1.1, a client opens up to `connections`
//! connections to each host, and an object waits until a connection is idle; with HTTP/2 and HTTP/3, one connection to
//! each host carries all objects. The more urgent object is requested and sent first.
//!
//! The dependencies and the recorded delays follow X. S. Wang, A. Balasubramanian, A. Krishnamurthy, D. Wetherall,
//! "Demystifying Page Load Performance with WProf", NSDI 2013, in which the load time of a page is the length of a path
//! of transfers and computations.
//!
//! aqmlab's choices: a load opens new connections, which stay open until the load ends. If a connection fails, the load
//! ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use aqm_net::{ConfigError, Instant, Rate, Rng, Span, parameters};

use self::fetching::{Connection, Load};
use self::file::Page;
use crate::distributions::{self, Amount, Times, exponential};
use crate::http::{Http, Persistence, TransportNeed};
use crate::page_record::{PageLoad, PageRecord};
use crate::parameters::{Period, check_transfers, start_offset};
use crate::schedule::Schedule;
use crate::wire::Wire;
use crate::{Build, BuildContext, TrafficContext, Workload};

mod fetching;
mod file;

parameters! {
    /// Loads of a recorded page, whose objects and dependencies are read from a file.
    pub struct Config {
        /// Name of the file, a CSV table with a line for each object. `aqmlab page` writes this file from a HAR file.
        pub file: String = String::new(), "no default: required";
        /// Number of users who load the page.
        pub users: u32 = 1, "aqmlab's choice";
        /// Number of loads of each user. By default, each user loads the page until the end of the run.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub loads: Option<u32> = None, "aqmlab's choice";
        /// Pauses of a user between the end of a load and the start of the next load.
        pub pause: distributions::Config =
            distributions::Config::exponential(exponential::Config::of(Amount::millis(5000))), "aqmlab's choice";
        /// Maximum number of connections to each host of the page (HTTP/1.1 only). By default, 6.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub connections: Option<u32> = None, "RFC 7928, section 7.2: 6";
        /// Version of HTTP (required), and the properties of its connections.
        #[serde(flatten)]
        pub http: Http = Http::default();
        /// Number of client hosts. Each host has its own access link, and users are assigned to hosts in turn.
        pub hosts: u32 = 1, "aqmlab's choice";
        /// Earliest start of the first load of each user.
        pub start: Span = Span::ZERO, "aqmlab's choice";
        /// Interval, after `start`, from which the start of each user's first load is drawn.
        pub stagger: Span = Span::ZERO, "aqmlab's choice";
        /// Time after which no load begins; by default, the end of the run.
        pub stop: Option<Span> = None, "aqmlab's choice";
    }
}

/// Maximum number of users. A larger number is assumed to be a typing error.
const MAX_USERS: u32 = 100_000;

/// Shortest time of a load. The time limits the number of transfers that a run may need.
const SHORTEST_LOAD_S: f64 = 0.001;

impl Build for Config {
    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn Workload>, ConfigError> {
        let problem = "is missing: must be the file of a recorded page, which `aqmlab page` writes";
        ConfigError::unless(!self.file.is_empty(), "file", problem)?;
        let not_read = || ConfigError::at("file", format!("`{}` could not be read", self.file));
        let content = context.file.ok_or_else(not_read)?;
        let page = Page::parse(content).map_err(|problem| ConfigError::at("file", problem))?;
        let problem = format_args!("must be between 1 and {MAX_USERS} (got {})", self.users);
        ConfigError::unless((1..=MAX_USERS).contains(&self.users), "users", problem)?;
        let problem =
            format_args!("must be between 1 and the number of users, {} (got {})", self.users, self.hosts);
        ConfigError::unless((1..=self.users).contains(&self.hosts), "hosts", problem)?;
        ConfigError::unless(self.loads != Some(0), "loads", "must be at least 1 (got 0)")?;
        ConfigError::unless(self.http.http.is_some(), "http", "is missing: must be 1.1, 2 or 3")?;
        let request = Some(aqm_net::Size::from_bytes(1));
        let persistence = self.http.persistence(self.connections, request)?;
        let persistence = persistence.ok_or_else(|| ConfigError::at("http", "must be 1.1, 2 or 3"))?;
        let pause = self.pause.times().map_err(|error| error.within("pause"))?;
        let period = Period::new(self.start, self.stop, context.duration)?;
        let most_loads = period.seconds() / (pause.mean() / 1e9 + SHORTEST_LOAD_S) + 1.0;
        let loads = self.loads.map_or(most_loads, |loads| most_loads.min(loads.into()));
        let expected = f64::from(self.users) * loads * page.objects.len() as f64;
        check_transfers(expected, "users", "reduce `users` or `loads`, or use longer pauses")?;
        let stream = |user| context.streams.named(&format!("{}/pause", context.name), user);
        let wire = Wire::of(context.packetisation);
        let sizes = page.objects.iter().map(|object| wire.bytes(object.exchange.response));
        Ok(Box::new(RecordedPage {
            page_wire_bytes: sizes.fold(0, u64::saturating_add),
            starts: (0..self.users)
                .map(|user| period.start + start_offset(self.stagger, user, context))
                .collect(),
            pauses: (0..self.users).map(|user| stream(user.into())).collect(),
            page: Arc::new(page),
            persistence,
            pause,
            loads_left: vec![self.loads; self.users as usize],
            schedule: Schedule::new(),
            loads: BTreeMap::new(),
            connections: BTreeMap::new(),
            next_connection: 0,
            rate: context.rate,
            period,
            record: PageRecord::default(),
            hosts: self.hosts,
        }))
    }

    fn own_hosts(&self) -> bool {
        self.hosts > 1
    }

    fn hosts(&self) -> u64 {
        self.hosts.into()
    }

    fn fetches_pages(&self) -> bool {
        true
    }

    fn records_pages(&self) -> bool {
        true
    }

    fn shares_connections(&self) -> bool {
        true
    }

    fn transport(&self) -> Option<TransportNeed> {
        self.http.transport()
    }

    fn simulated_only(&self) -> Option<&'static str> {
        Some("live runs do not support recorded pages: load the page with a browser in `aqmlab live shell`")
    }

    fn file(&self) -> Option<&str> {
        (!self.file.is_empty()).then_some(&self.file)
    }
}

/// The running workload.
#[derive(Clone)]
struct RecordedPage {
    page: Arc<Page>,
    /// Number of bytes that the responses of a page need on the wire.
    page_wire_bytes: u64,
    persistence: Persistence,
    /// Start of each user's first load.
    starts: Vec<Instant>,
    pause: Times,
    /// Random streams of the pauses, by user.
    pauses: Vec<Rng>,
    /// Number of loads that each user has not begun; `None` if the number is not limited.
    loads_left: Vec<Option<u32>>,
    /// Pending events.
    schedule: Schedule<Scheduled>,
    /// Loads in progress.
    loads: BTreeMap<u64, Load>,
    connections: BTreeMap<u32, Connection>,
    /// Number of the next connection.
    next_connection: u32,
    rate: Rate,
    period: Period,
    hosts: u32,
    record: PageRecord,
}

/// The kinds of scheduled events.
#[derive(Clone, Copy)]
enum Scheduled {
    /// The next load of a user begins.
    Load { user: u32 },
    /// The client of a load discovers an object.
    Discovery { load: u64, object: u32 },
}

impl Workload for RecordedPage {
    fn start(&mut self, cx: &mut dyn TrafficContext) {
        for (user, at) in (0..).zip(self.starts.clone()) {
            self.schedule_load(user, at);
        }
        self.schedule.request_wake(cx);
    }

    fn on_wake(&mut self, cx: &mut dyn TrafficContext) {
        let now = cx.now();
        while let Some((_, event)) = self.schedule.pop_due(now) {
            match event {
                Scheduled::Load { user } => self.begin_load(user, now),
                Scheduled::Discovery { load, object } => self.discover(load, object, cx),
            }
        }
        self.schedule.request_wake(cx);
    }

    fn on_first_byte(&mut self, number: u32, exchange: u32, cx: &mut dyn TrafficContext) {
        self.on_object_begun(number, exchange, cx);
        self.schedule.request_wake(cx);
    }

    fn on_stream_response(&mut self, number: u32, exchange: u32, cx: &mut dyn TrafficContext) {
        self.on_object_complete(number, exchange, cx);
        self.schedule.request_wake(cx);
    }

    fn on_connection_failed(&mut self, number: u32, cx: &mut dyn TrafficContext) {
        if let Some(connection) = self.connections.remove(&number) {
            self.end_load(connection.load, true, cx);
        }
        self.schedule.request_wake(cx);
    }

    /// Passes facts about the workload to `show`. The realised load covers the whole period and is therefore complete
    /// only at the end of the run.
    fn facts(&self, show: &mut dyn FnMut(&'static str, f64)) {
        let begun = self.record.loads.len() as u64;
        let complete = self.record.loads.iter().filter(|load| load.complete.is_some()).count();
        show("users", self.starts.len() as f64);
        show("objects_per_page", self.page.objects.len() as f64);
        show("page_bytes", self.page.bytes() as f64);
        show("pages", begun as f64);
        show("pages_complete", complete as f64);
        show("realised_load", self.period.load(begun.saturating_mul(self.page_wire_bytes), self.rate));
    }

    fn page_record(&self) -> Option<&PageRecord> {
        Some(&self.record)
    }
}

impl RecordedPage {
    /// Schedules the next load of a user, unless the user has finished or the period is over.
    fn schedule_load(&mut self, user: u32, at: Instant) {
        let left = &mut self.loads_left[user as usize];
        if at >= self.period.end || *left == Some(0) {
            return;
        }
        *left = left.map(|loads| loads - 1);
        self.schedule.add(at, Scheduled::Load { user });
    }

    /// Begins a load of a user. The client discovers the objects without parents after their delays.
    fn begin_load(&mut self, user: u32, now: Instant) {
        let number = self.record.loads.len() as u64;
        self.record.loads.push(PageLoad {
            page: number,
            user,
            start: now,
            render: None,
            load: None,
            complete: None,
            objects: 0,
            failed: false,
        });
        let page = Arc::clone(&self.page);
        self.loads.insert(number, Load::new(&page, user));
        for (object, one) in (0..).zip(&page.objects) {
            if one.parents.is_empty() {
                self.schedule.add(now + one.delay, Scheduled::Discovery { load: number, object });
            }
        }
    }

    /// Ends a load. The user pauses before the next load.
    fn end_load(&mut self, number: u64, failed: bool, cx: &mut dyn TrafficContext) {
        let Some(load) = self.loads.remove(&number) else { return };
        self.record.loads[number as usize].failed = failed;
        for connection in load.connections() {
            if self.connections.remove(&connection).is_some() {
                cx.finish(connection);
            }
        }
        let pause = self.pause.sample_span(&mut self.pauses[load.user as usize]);
        self.schedule_load(load.user, cx.now() + pause);
    }
}

#[cfg(test)]
mod tests;
