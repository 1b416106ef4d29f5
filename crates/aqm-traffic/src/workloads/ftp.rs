//! Bulk transfers ("FTP"): a fixed number of flows, each of which sends one file or an endless stream.
//!
//! Flows begin at random times within a short interval, so that their slow starts do not coincide.
//!
//! aqmlab's choices: the length of this interval, and the rule that the start and size of a flow do not depend on the
//! number of flows.

use std::sync::Arc;

use aqm_net::{ConfigError, Instant, Span, parameters};

use crate::distributions;
use crate::parameters::{Hosts, check_flows, start_offset};
use crate::{Build, BuildContext, TrafficContext, Transfer, Workload};

parameters! {
    /// Bulk transfers ("FTP"): a fixed number of flows, each of which sends one file or an endless stream.
    pub struct Config {
        /// Number of flows.
        pub flows: u32 = 1, "aqmlab's choice";
        /// Sizes of the files; by default, each flow sends until the end of the run.
        pub sizes: Option<distributions::Config> = None, "SHRED talk: FTP flows last for the whole run";
        /// Earliest start of a flow.
        pub start: Span = Span::ZERO, "aqmlab's choice";
        /// Length of the interval after `start` in which flows begin at random times.
        pub stagger: Span = Span::from_millis(5000), "aqmlab's choice: avoids simultaneous slow starts";
        /// Hosts of the flows.
        pub hosts: Hosts = Hosts::Own, "SHRED talk: each FTP flow has a source and a sink";
    }
}

impl Build for Config {
    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn Workload>, ConfigError> {
        check_flows(self.flows)?;
        let build = |config: &distributions::Config| config.sizes(Some(context.packetisation));
        let sizes = self.sizes.as_ref().map(build).transpose().map_err(|error| error.within("sizes"))?;
        let stream = format!("{}/sizes", context.name);
        let mut files: Arc<[File]> = (0..self.flows)
            .map(|flow| File {
                begin: Instant::START + self.start + start_offset(self.stagger, flow, context),
                flow,
                bytes: sizes
                    .as_ref()
                    .map(|sizes| sizes.sample(&mut context.streams.named(&stream, flow.into()))),
            })
            .filter(|file| file.begin < Instant::START + context.duration)
            .collect();
        Arc::make_mut(&mut files).sort_unstable();
        Ok(Box::new(Ftp { files, next: 0, hosts: self.hosts }))
    }

    fn own_hosts(&self) -> bool {
        self.hosts == Hosts::Own
    }

    fn hosts(&self) -> u64 {
        self.hosts.count(self.flows)
    }

    fn is_endless(&self) -> bool {
        self.sizes.is_none()
    }
}

/// The running workload.
#[derive(Clone)]
struct Ftp {
    /// Files in the order of their start times, shared by all runs of a plan.
    files: Arc<[File]>,
    /// Number of flows that have begun.
    next: usize,
    hosts: Hosts,
}

/// The file that a flow sends, and the time at which the flow begins. If several flows begin at the same time, the flow
/// with the lowest number begins first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct File {
    begin: Instant,
    flow: u32,
    /// Number of payload bytes; `None` if the flow sends endlessly.
    bytes: Option<u64>,
}

impl Workload for Ftp {
    fn start(&mut self, cx: &mut dyn TrafficContext) {
        self.sleep(cx);
    }

    fn on_wake(&mut self, cx: &mut dyn TrafficContext) {
        while let Some(&file) = self.files.get(self.next).filter(|file| file.begin <= cx.now()) {
            self.next += 1;
            cx.open(Transfer {
                bytes: file.bytes,
                request: None,
                page: None,
                page_objects: 1,
                host: self.hosts.of(file.flow),
            });
        }
        self.sleep(cx);
    }

    fn facts(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("flows", self.files.len() as f64);
        show("opened", self.next as f64);
    }
}

impl Ftp {
    fn sleep(&self, cx: &mut dyn TrafficContext) {
        if let Some(file) = self.files.get(self.next) {
            cx.wake_at(file.begin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distributions::{Amount, uniform};
    use crate::testing::{context, distance, fact, run, seconds};

    fn sizes(minimum: u64, maximum: u64) -> Option<distributions::Config> {
        let (minimum, maximum) = (Some(Amount::bytes(minimum)), Some(Amount::bytes(maximum)));
        Some(distributions::Config::uniform(uniform::Config { minimum, maximum }))
    }

    #[test]
    fn flows_begin_uniformly_in_their_interval() {
        let config = Config { flows: 2000, start: Span::from_millis(3000), ..Config::default() };
        let recording = run(&mut *config.build(&context(1, 100)).unwrap());
        assert_eq!(recording.opened.len(), 2000);
        let begin = seconds(recording.opened.iter().map(|(at, _)| *at));
        assert!(begin.iter().all(|at| (3.0..8.0).contains(at)));
        assert!(distance(begin, |at| (at - 3.0) / 5.0) < 1.63);
    }

    #[test]
    fn the_start_size_and_host_of_a_flow_do_not_depend_on_the_number_of_flows() {
        let begin = |flows| {
            let config = Config { flows, sizes: sizes(1000, 2000), ..Config::default() };
            run(&mut *config.build(&context(1, 100)).unwrap()).opened
        };
        let (few, many) = (begin(5), begin(50));
        assert!(few.iter().all(|one| many.contains(one)));
        assert!(
            few.iter()
                .all(|(_, transfer)| transfer.bytes.is_some_and(|bytes| (1000..=2000).contains(&bytes)))
        );
        let mut hosts: Vec<u32> = many.iter().map(|(_, transfer)| transfer.host).collect();
        hosts.sort_unstable();
        assert_eq!(hosts, (0..50).collect::<Vec<u32>>());
    }

    #[test]
    fn without_stagger_all_begin_at_once_and_on_one_host_if_shared() {
        let config = Config { flows: 3, stagger: Span::ZERO, hosts: Hosts::Shared, ..Config::default() };
        assert_eq!((config.own_hosts(), config.hosts()), (false, 1));
        let recording = run(&mut *config.build(&context(1, 100)).unwrap());
        assert_eq!(recording.woken, 1);
        assert!(
            recording
                .opened
                .iter()
                .all(|(at, it)| *at == Instant::START && it.host == 0 && it.bytes.is_none())
        );
    }

    #[test]
    fn nothing_begins_after_the_end() {
        let config = Config { flows: 100, ..Config::default() };
        let mut workload = config.build(&context(1, 1)).unwrap();
        let opened = run(&mut *workload).opened;
        assert!(!opened.is_empty() && opened.len() < 50, "{}", opened.len());
        assert!(opened.iter().all(|(at, _)| at.seconds() < 1.0));
        assert_eq!(fact(&*workload, "opened"), opened.len() as f64);
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        let path = |config: Config| config.build(&context(1, 1)).err().unwrap().path;
        assert_eq!(path(Config { flows: 0, ..Config::default() }), "flows");
        assert_eq!(path(Config { flows: 1_000_001, ..Config::default() }), "flows");
        assert_eq!(path(Config { sizes: sizes(0, 1), ..Config::default() }), "sizes.minimum");
    }
}
