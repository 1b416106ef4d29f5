//! Samples of the state variables of queue disciplines and edges, which are the rows of the table `gauges`.
//!
//! A gauge is recorded with the name and the unit that the discipline or edge reports. This module contains no list of
//! gauges.

use aqm_net::Instant;
use aqm_queue::edge::Edge;
use aqm_queue::{Gauge, QueueDiscipline};

use crate::results::tables::GaugeRow;

/// The samples of a run, and the names and units that occur in the samples.
#[derive(Default)]
pub(crate) struct Gauges {
    pub(crate) rows: Vec<GaugeRow>,
    pub(crate) names: Words,
    pub(crate) units: Words,
}

/// A list of words. The number of a word is its position in the order of first use.
#[derive(Default)]
pub(crate) struct Words(Vec<&'static str>);

impl Words {
    /// Returns the number of a word. A linear search is fast, because the list contains only a few words.
    fn number(&mut self, word: &'static str) -> u32 {
        let number = self.0.iter().position(|&known| known == word).unwrap_or_else(|| {
            self.0.push(word);
            self.0.len() - 1
        });
        number as u32
    }

    /// Returns the words in the order of their numbers.
    pub(crate) fn list(&self) -> Vec<String> {
        self.0.iter().map(|&word| word.to_owned()).collect()
    }
}

/// The queue or edge to which a gauge belongs.
#[derive(Clone, Copy)]
enum GaugeSource {
    Link(u32),
    Node(u32),
}

impl Gauges {
    /// Samples the gauges of a link's queue.
    pub(crate) fn sample_queue(&mut self, link: u32, queue: &dyn QueueDiscipline, now: Instant) {
        queue.gauges(&mut |gauge| self.push(GaugeSource::Link(link), gauge, now));
    }

    /// Samples the gauges of the edge at the node with the number `node`. Before sampling, performs the updates of the
    /// edge that are due at or before `now`.
    pub(crate) fn sample_edge(&mut self, node: u32, edge: &mut dyn Edge, now: Instant) {
        edge.catch_up(now);
        edge.gauges(&mut |gauge| self.push(GaugeSource::Node(node), gauge, now));
    }

    fn push(&mut self, source: GaugeSource, gauge: Gauge, now: Instant) {
        let (link, node) = match source {
            GaugeSource::Link(link) => (Some(link), None),
            GaugeSource::Node(node) => (None, Some(node)),
        };
        let name = self.names.number(gauge.name);
        let unit = gauge.unit.map(|unit| self.units.number(unit));
        self.rows.push(GaugeRow { time_s: now.seconds(), link, node, name, value: gauge.value, unit });
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::table::{Column, Row};
    use aqm_net::{Backlog, Packet};
    use aqm_queue::{Context, Report};

    use super::*;

    /// A discipline with gauges that no other discipline has.
    #[derive(Clone)]
    struct NewDiscipline;

    impl QueueDiscipline for NewDiscipline {
        fn enqueue(&mut self, _: Packet, _: &mut Context<'_>) {}
        fn dequeue(&mut self, _: &mut Context<'_>) -> Option<Packet> {
            None
        }
        fn backlog(&self) -> Backlog {
            Backlog::default()
        }
    }

    impl Report for NewDiscipline {
        fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
            show(Gauge::new("sojourn_time", 0.25, "s"));
            show(Gauge::number("gain", 3.0));
        }
    }

    #[derive(Clone)]
    struct NewEdge(f64);

    impl Edge for NewEdge {
        fn classify(&mut self, _: &Packet, _: Instant) -> u8 {
            0
        }
        fn catch_up(&mut self, now: Instant) {
            self.0 = now.seconds();
        }
        fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
            show(Gauge::new("age", self.0, "s"));
        }
    }

    #[test]
    fn new_gauges_are_recorded_with_their_names_and_units() {
        let (mut gauges, now) = (Gauges::default(), Instant::from_nanos(2_000_000_000));
        gauges.sample_queue(4, &NewDiscipline, now);
        gauges.sample_edge(1, &mut NewEdge(0.0), now);
        gauges.sample_queue(4, &NewDiscipline, now);
        let (names, units) = (gauges.names.list(), gauges.units.list());
        assert_eq!(
            (&names, &units),
            (&vec!["sojourn_time".into(), "gain".into(), "age".into()], &vec!["s".into()])
        );
        let table = GaugeRow::table(gauges.rows, |column| match column {
            "name" => names.clone(),
            "unit" => units.clone(),
            _ => Vec::new(),
        });
        let column = |wanted: &str| &table.columns.iter().find(|(name, _)| *name == wanted).unwrap().1;
        let Column::Word { codes, .. } = column("name") else { panic!("names are words") };
        assert_eq!(codes, &[0, 1, 2, 0, 1]);
        let Column::MaybeWord { codes, .. } = column("unit") else { panic!("units are words") };
        assert_eq!(codes, &[Some(0), None, Some(0), Some(0), None]);
        let Column::MaybeWord { codes, .. } = column("link") else { panic!("links are words") };
        assert_eq!(codes, &[Some(4), Some(4), None, Some(4), Some(4)]);
        assert_eq!(
            column("value"),
            &Column::Real(vec![0.25, 3.0, 2.0, 0.25, 3.0]),
            "an edge catches up first"
        );
    }
}
