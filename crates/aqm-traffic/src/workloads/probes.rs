//! Probes: batches of equal transfers, which begin at the same time and are repeated at equal intervals. Probes show
//! how a queue's treatment of flows of one size changes over time.
//!
//! Source: the foreground traffic of L. Guo & I. Matta, "The War Between Mice and Elephants", 2001: ten flows of 10
//! packets every 25 s, and ten flows of 1000 packets every 125 s. Each batch is recorded as a page, so that the tables
//! distinguish the batches.
//!
//! aqmlab's choices, where the source is silent: the first batch begins at `start`, and flow number i uses the same
//! host in all batches.

use aqm_net::{ConfigError, Length, Rate, Size, Span, choices, parameters};

use crate::parameters::{Hosts, Period, check_flows, check_request, check_transfers, request_bytes, unit};
use crate::wire::Wire;
use crate::{Build, BuildContext, TrafficContext, Transfer, Workload};

choices! {
    /// What a flow does if its last transfer is not complete when a batch begins.
    pub enum Late {
        /// The flow opens an additional connection, so that the offered load does not depend on the network.
        OpensAnother = "opens-another",
        /// The flow skips this batch, so that its offered load depends on the network.
        SitsOut = "sits-out",
    }
}

parameters! {
    /// Probes: batches of equal transfers, which begin at the same time and are repeated at equal intervals.
    pub struct Config {
        /// Number of flows per batch.
        pub flows: u32 = 10, "Guo & Matta talk, foreground flows";
        /// Size of each transfer. If the size is in packets, it is a number of full-sized packets.
        pub size: Length = Length::Packets(10), "Guo & Matta talk, short foreground flows";
        /// Interval between the starts of two successive batches.
        pub every: Span = Span::from_millis(25_000), "Guo & Matta talk, short foreground flows";
        /// Size of the request that the client sends for each transfer. The response is sent over the same connection.
        /// Without a request, the server opens the connection and sends the data.
        pub request: Option<Size> = None, "aqmlab's choice";
        /// What a flow does if its last transfer is not complete when a batch begins.
        pub late: Late = Late::OpensAnother, "aqmlab's choice: an open loop";
        /// Start of the first batch.
        pub start: Span = Span::ZERO, "aqmlab's choice";
        /// Time after which no batch begins; by default, the end of the run.
        pub stop: Option<Span> = None, "aqmlab's choice";
        /// Hosts of the flows. With `own`, the flows of a batch share the network but not their hosts.
        pub hosts: Hosts = Hosts::Own, "aqmlab's choice";
    }
}

/// Maximum size of a probe. A larger size is assumed to be a typing error.
const MAX_BYTES: u64 = 1_000_000_000_000_000;

impl Build for Config {
    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn Workload>, ConfigError> {
        check_flows(self.flows)?;
        let (count, unit) = (self.size.count(), unit(self.size, context.packetisation));
        if !(1..=MAX_BYTES / unit).contains(&count) {
            let problem = format!("must be between 1 byte and 1e15 bytes (got {})", self.size);
            return Err(ConfigError::at("size", problem));
        }
        if self.every.is_zero() {
            return Err(ConfigError::at("every", "must be greater than zero"));
        }
        if self.late == Late::SitsOut && self.hosts == Hosts::Shared {
            return Err(ConfigError::at(
                "late",
                "`sits-out` requires a host for each flow: set `hosts = \"own\"`",
            ));
        }
        check_request(self.request)?;
        let period = Period::new(self.start, self.stop, context.duration)?;
        let expected = f64::from(self.flows) * period.seconds() / self.every.seconds();
        check_transfers(expected, "every", "increase `every`, or reduce `flows`")?;
        Ok(Box::new(Probes {
            bytes: count * unit,
            wire_bytes: Wire::of(context.packetisation).bytes(count * unit),
            rate: context.rate,
            busy: vec![false; self.flows as usize],
            config: self.clone(),
            period,
            batches: 0,
            transfers: 0,
        }))
    }

    fn own_hosts(&self) -> bool {
        self.hosts == Hosts::Own
    }

    fn hosts(&self) -> u64 {
        self.hosts.count(self.flows)
    }

    fn fetches_pages(&self) -> bool {
        true
    }
}

/// The running workload.
#[derive(Clone)]
struct Probes {
    config: Config,
    /// Payload of a transfer, in bytes.
    bytes: u64,
    /// Number of bytes on the wire that a transfer needs.
    wire_bytes: u64,
    rate: Rate,
    period: Period,
    /// Number of batches that have begun.
    batches: u64,
    /// Number of transfers that have begun.
    transfers: u64,
    /// For each flow, whether its last transfer is incomplete. The values are recorded only with `sits-out`.
    busy: Vec<bool>,
}

impl Workload for Probes {
    fn start(&mut self, cx: &mut dyn TrafficContext) {
        self.sleep(cx);
    }

    fn on_wake(&mut self, cx: &mut dyn TrafficContext) {
        let page_objects = self.busy.iter().filter(|busy| !**busy).count() as u32;
        for flow in 0..self.config.flows {
            if self.busy[flow as usize] {
                continue;
            }
            self.busy[flow as usize] = self.config.late == Late::SitsOut;
            self.transfers += 1;
            cx.open(Transfer {
                bytes: Some(self.bytes),
                request: self.config.request.map(request_bytes),
                page: Some(self.batches),
                page_objects,
                host: self.config.hosts.of(flow),
            });
        }
        self.batches += 1;
        self.sleep(cx);
    }

    fn on_done(&mut self, transfer: Transfer, _desk: &mut dyn TrafficContext) {
        if self.config.late == Late::SitsOut {
            self.busy[transfer.host as usize] = false;
        }
    }

    /// Passes facts about the workload to `show`. The realised load covers the whole period and is therefore complete
    /// only at the end of the run.
    fn facts(&self, show: &mut dyn FnMut(&'static str, f64)) {
        let batch = u64::from(self.config.flows) * self.wire_bytes;
        let per_second = batch as f64 / self.config.every.seconds();
        show("nominal_load", per_second / self.rate.bytes_per_second());
        show("transfer_bytes", self.bytes as f64);
        show("batches", self.batches as f64);
        show("transfers", self.transfers as f64);
        show("realised_load", self.period.load(self.transfers.saturating_mul(self.wire_bytes), self.rate));
    }
}

impl Probes {
    fn sleep(&self, cx: &mut dyn TrafficContext) {
        let next = self.period.start + self.config.every.saturating_mul(self.batches);
        if next < self.period.end {
            cx.wake_at(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, fact, run, run_served};
    use aqm_net::Instant;

    fn opened(config: &Config, seconds: u64) -> Vec<(Instant, Transfer)> {
        run(&mut *config.build(&context(1, seconds)).unwrap()).opened
    }

    #[test]
    fn every_batch_begins_at_its_exact_moment_as_a_page_of_its_own() {
        let (start, every) = (Span::from_nanos(1_000_000_001), Span::from_nanos(333_333_333));
        let config = Config { flows: 3, start, every, ..Config::default() };
        let opened = opened(&config, 100);
        let batches: Vec<_> = opened.chunk_by(|a, b| a.1.page == b.1.page).collect();
        // The last batch before 100 s begins at 1.000000001 s + 297 * 0.333333333 s.
        assert_eq!(batches.len(), 298);
        for (number, batch) in batches.iter().enumerate() {
            assert_eq!(batch.len(), 3);
            for (flow, (at, transfer)) in batch.iter().enumerate() {
                assert_eq!(at.nanos(), 1_000_000_001 + number as u64 * 333_333_333);
                let page = Some(number as u64);
                let host = flow as u32;
                let expected = Transfer { bytes: Some(9340), request: None, page, page_objects: 3, host };
                assert_eq!(*transfer, expected);
            }
        }
    }

    #[test]
    fn after_the_warm_up_of_the_talk_there_are_80_short_and_16_long_batches() {
        let after = |every, packets| {
            let size = Length::Packets(packets);
            let config = Config { every: Span::from_millis(every), size, ..Config::default() };
            let late = opened(&config, 4000).into_iter().filter(|(at, _)| at.seconds() >= 2000.0);
            (late.clone().count(), late.map(|(_, it)| it.bytes.unwrap()).max().unwrap())
        };
        assert_eq!(after(25_000, 10), (800, 9340));
        assert_eq!(after(125_000, 1000), (160, 934_000));
    }

    #[test]
    fn the_facts_contain_batches_and_load() {
        let size = Length::Bytes(5000);
        let stop = Some(Span::from_millis(50_000));
        let config = Config { size, stop, request: Some(Size::from_bytes(100)), ..Config::default() };
        let mut workload = config.build(&context(1, 100)).unwrap();
        let opened = run(&mut *workload).opened;
        assert!(opened.iter().all(|(_, it)| it.bytes == Some(5000) && it.request == Some(100)));
        // Batches begin at 0 s and 25 s. In each batch, 5000 B are sent ten times; 5000 B require six packets of 974 B
        // and a SYN. The interval between batches is 25 s.
        assert_eq!((fact(&*workload, "batches"), fact(&*workload, "transfers")), (2.0, 20.0));
        let load = 10.0 * (40.0 + 6.0 * 974.0) / (25.0 * 1_250_000.0);
        assert!((fact(&*workload, "nominal_load") - load).abs() < 1e-15);
        assert!((fact(&*workload, "realised_load") - load).abs() < 1e-15);
    }

    #[test]
    fn a_late_flow_skips_batches_with_sits_out() {
        let config = Config { flows: 2, late: Late::SitsOut, ..Config::default() };
        let mut workload = config.build(&context(1, 150)).unwrap();
        // The first flow takes longer than two intervals. The second flow always finishes in time.
        let time = |it: Transfer| Some(Span::from_millis(if it.host == 0 { 60_000 } else { 1000 }));
        let opened = run_served(&mut *workload, time).opened;
        let of = |host| opened.iter().filter(move |(_, it)| it.host == host);
        assert_eq!(of(0).map(|(at, _)| at.seconds()).collect::<Vec<_>>(), [0.0, 75.0]);
        assert_eq!(of(1).count(), 6);
        assert!(opened.iter().all(
            |(_, it)| it.page_objects == opened.iter().filter(|(_, o)| o.page == it.page).count() as u32
        ));
        assert_eq!(fact(&*workload, "transfers"), 8.0);
        let shared = Config { hosts: Hosts::Shared, late: Late::SitsOut, ..Config::default() };
        assert_eq!(shared.build(&context(1, 100)).err().unwrap().path, "late");
    }

    #[test]
    fn flows_have_hosts_of_their_own_or_share_one() {
        let shared = Config { hosts: Hosts::Shared, ..Config::default() };
        assert_eq!((shared.own_hosts(), shared.hosts()), (false, 1));
        assert!(opened(&shared, 100).iter().all(|(_, transfer)| transfer.host == 0));
        assert_eq!((Config::default().own_hosts(), Config::default().hosts()), (true, 10));
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        let path = |config: Config| config.build(&context(1, 100)).err().unwrap().path;
        assert_eq!(path(Config { flows: 0, ..Config::default() }), "flows");
        for size in [Length::Packets(0), Length::Bytes(0), Length::Packets(1_000_000_000_000_000)] {
            assert_eq!(path(Config { size, ..Config::default() }), "size");
        }
        assert_eq!(path(Config { every: Span::ZERO, ..Config::default() }), "every");
        assert_eq!(path(Config { every: Span::from_nanos(1), ..Config::default() }), "every");
        assert_eq!(path(Config { request: Some(Size::from_bytes(0)), ..Config::default() }), "request");
        assert_eq!(path(Config { stop: Some(Span::ZERO), ..Config::default() }), "stop");
    }
}
