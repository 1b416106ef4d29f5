//! Reads the packets from the tables of a run: the rows of packets, and the names and drop reasons to which these rows
//! refer.

use std::collections::BTreeMap;

use aqm_net::table::{Column, Table};
use etherparse::IpEcn;

use crate::{Interface, PcapError, QueueName};

/// A capture point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CapturePoint {
    /// The link with this number.
    Link(u32),
    /// One end of the flows of the workload with this number: the sender if the second value is true, otherwise the
    /// receiver.
    End(u32, bool),
}

/// A packet event, as stated in the column `event`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Start,
    Deliver,
    Drop,
    Send,
    Receive,
    Acknowledge,
    Sack,
}

impl Event {
    /// Returns the event for a word in the column `event`. Returns `None` for `enqueue`, because a packet is written
    /// only when its transmission begins.
    fn of(word: &str) -> Option<Self> {
        Some(match word {
            "start" => Self::Start,
            "deliver" => Self::Deliver,
            "drop" => Self::Drop,
            "send" | "retransmit" => Self::Send,
            "receive" => Self::Receive,
            "acknowledge" => Self::Acknowledge,
            "sack" => Self::Sack,
            _ => return None,
        })
    }
}

/// A row of the table `packets`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) time: f64,
    pub(super) point: CapturePoint,
    pub(super) event: Event,
    pub(super) flow: u64,
    pub(super) traffic: u32,
    pub(super) datagram: bool,
    pub(super) backward: bool,
    pub(super) sequence: u64,
    pub(super) payload: u64,
    pub(super) size: u64,
    pub(super) ack: Option<u64>,
    /// Flags of the TCP header; zero for datagrams.
    pub(super) flags: u64,
    pub(super) ecn: IpEcn,
    pub(super) average: Option<f64>,
}

impl Row {
    /// Returns whether the row proves that packets were recorded at the row's capture point. For a link, a drop or a
    /// delivery is not sufficient, because drops may be the only events that were recorded for the link.
    pub(super) fn shows_packets(&self) -> bool {
        !matches!((self.event, self.point), (Event::Drop | Event::Deliver, CapturePoint::Link(_)))
    }

    /// Returns whether the row `next` describes the acknowledgement that the packet of this row contains.
    pub(super) fn continues_with(&self, next: &Row) -> bool {
        let is_same_packet = matches!(self.event, Event::Receive | Event::Acknowledge)
            && (self.time, self.flow, self.point) == (next.time, next.flow, next.point);
        let is_contents = match next.event {
            Event::Acknowledge => self.event == Event::Receive,
            event => event == Event::Sack,
        };
        is_same_packet && is_contents && self.backward
    }
}

/// The names to which the tables refer by number.
pub(super) struct Names {
    traffic: Vec<String>,
    pub(super) queues: Vec<QueueName>,
}

impl Names {
    pub(super) fn of(tables: &[Table]) -> Result<Self, PcapError> {
        let (_, traffic) = words(table(tables, "flows")?, "traffic")?;
        let (_, links) = words(table(tables, "packets")?, "link")?;
        let mut queues: Vec<QueueName> =
            links.iter().map(|link| QueueName { link: link.clone(), unit: String::new() }).collect();
        let gauges = table(tables, "gauges")?;
        let ((link, _), (name, names), (unit, units)) =
            (words(gauges, "link")?, words(gauges, "name")?, words(gauges, "unit")?);
        for ((link, name), unit) in link.iter().zip(&name).zip(&unit) {
            let is_average =
                name.and_then(|name| names.get(name as usize)).is_some_and(|name| name == "average");
            let queue = link.and_then(|link| queues.get_mut(link as usize)).filter(|_| is_average);
            let unit = unit.and_then(|unit| units.get(unit as usize));
            if let Some((queue, unit)) = queue.zip(unit) {
                queue.unit.clone_from(unit);
            }
        }
        Ok(Self { traffic: traffic.to_vec(), queues })
    }

    pub(super) fn interface(&self, point: CapturePoint) -> Interface {
        let (name, about) = match point {
            CapturePoint::Link(link) => {
                let name = self.queues.get(link as usize).map(|queue| queue.link.clone()).unwrap_or_default();
                (
                    name,
                    "simulated link: packets at the start of their transmission, and packets dropped by its queue",
                )
            }
            CapturePoint::End(traffic, sender) => {
                let end = if sender { "sender" } else { "receiver" };
                let traffic = self.traffic.get(traffic as usize).map(String::as_str).unwrap_or_default();
                (format!("{traffic} {end}"), "simulated hosts: packets sent and received")
            }
        };
        Interface { name, about: about.to_owned() }
    }
}

/// The rows of the table `drops`, in order.
pub(super) struct DropReasons<'a> {
    times: &'a [f64],
    links: Vec<Option<u32>>,
    flows: &'a [u64],
    reasons: Vec<Option<u32>>,
    words: &'a [String],
    /// Index of the row at which the next search starts.
    next: usize,
}

impl<'a> DropReasons<'a> {
    pub(super) fn of(tables: &'a [Table]) -> Result<Self, PcapError> {
        let table = table(tables, "drops")?;
        let (links, _) = words(table, "link")?;
        let (reasons, words) = words(table, "reason")?;
        Ok(Self {
            times: real(table, "time_s")?,
            links,
            flows: whole(table, "flow")?,
            reasons,
            words,
            next: 0,
        })
    }

    /// Returns the reason why a link dropped a packet, or `None` if drops were not recorded. The function must be
    /// called in the order of the rows.
    pub(super) fn reason(&mut self, row: &Row, link: u32) -> Option<&'a str> {
        self.next += self.times.get(self.next..)?.partition_point(|&time| time < row.time);
        let same_time = self.times.get(self.next..)?.iter().take_while(|&&time| time == row.time).count();
        let at = (self.next..self.next + same_time)
            .find(|&at| (self.links[at], self.flows[at]) == (Some(link), row.flow))?;
        self.words.get(self.reasons[at]? as usize).map(String::as_str)
    }
}

/// Returns the rows of the table `packets`, in order.
pub(super) fn rows(tables: &[Table]) -> Result<Vec<Row>, PcapError> {
    let flows = table(tables, "flows")?;
    let (traffic, _) = words(flows, "traffic")?;
    let Column::MaybeWhole(datagrams) = column(flows, "datagrams_received")? else {
        return Err(unexpected("datagrams_received"));
    };
    let kinds =
        traffic.into_iter().zip(datagrams.iter()).map(|(traffic, one)| (traffic.unwrap_or(0), one.is_some()));
    let kinds: BTreeMap<u64, (u32, bool)> = whole(flows, "flow")?.iter().copied().zip(kinds).collect();
    let packets = table(tables, "packets")?;
    if kinds.is_empty() && !whole(packets, "flow")?.is_empty() {
        return Err(unexpected("flows"));
    }
    let (link, _) = words(packets, "link")?;
    let (event, events) = words(packets, "event")?;
    let events: Vec<Option<Event>> = events.iter().map(|word| Event::of(word)).collect();
    let (times, flows) = (real(packets, "time_s")?, whole(packets, "flow")?);
    let (sequence, payload, size) =
        (whole(packets, "sequence_bytes")?, whole(packets, "payload_bytes")?, whole(packets, "size_bytes")?);
    let (Column::Truth(backward), Column::MaybeReal(average)) =
        (column(packets, "backward")?, column(packets, "average")?)
    else {
        return Err(unexpected("backward"));
    };
    let (Column::MaybeWhole(ack), Column::MaybeWhole(flags)) =
        (column(packets, "ack_bytes")?, column(packets, "flags")?)
    else {
        return Err(unexpected("flags"));
    };
    let (ecn, _) = words(packets, "ecn")?;
    let row = |at: usize| {
        let event = events.get(event[at]? as usize).copied().flatten()?;
        let &(traffic, datagram) = kinds.get(&flows[at])?;
        // A packet that travels forward is sent at the sender, and a packet that travels backward arrives at the
        // sender.
        let at_sender = backward[at] != (event == Event::Send);
        let point = link[at].map_or(CapturePoint::End(traffic, at_sender), CapturePoint::Link);
        Some(Row {
            time: times[at],
            point,
            event,
            flow: flows[at],
            traffic,
            datagram,
            backward: backward[at],
            sequence: sequence[at],
            payload: payload[at],
            size: size[at],
            ack: ack.get(at),
            flags: flags.get(at).unwrap_or(0),
            // The codes of the words in the column `ecn` are equal to the values of the ECN bits.
            ecn: ecn[at].and_then(|code| IpEcn::try_new(code as u8).ok()).unwrap_or_default(),
            average: average.get(at),
        })
    };
    Ok((0..times.len()).filter_map(row).collect())
}

fn unexpected(name: &str) -> PcapError {
    PcapError::Table(name.to_owned())
}

pub(super) fn table<'a>(tables: &'a [Table], name: &str) -> Result<&'a Table, PcapError> {
    tables.iter().find(|table| table.name == name).ok_or_else(|| unexpected(name))
}

fn column<'a>(table: &'a Table, name: &str) -> Result<&'a Column, PcapError> {
    let found = table.columns.iter().find(|(column, _)| *column == name);
    found.map(|(_, column)| column).ok_or_else(|| unexpected(name))
}

pub(super) fn whole<'a>(table: &'a Table, name: &str) -> Result<&'a [u64], PcapError> {
    match column(table, name)? {
        Column::Whole(values) => Ok(values),
        _ => Err(unexpected(name)),
    }
}

fn real<'a>(table: &'a Table, name: &str) -> Result<&'a [f64], PcapError> {
    match column(table, name)? {
        Column::Real(values) => Ok(values),
        _ => Err(unexpected(name)),
    }
}

/// Returns the codes in a column of words, and the words to which the codes refer.
pub(super) fn words<'a>(table: &'a Table, name: &str) -> Result<(Vec<Option<u32>>, &'a [String]), PcapError> {
    match column(table, name)? {
        Column::Word { codes, words } => Ok((codes.iter().copied().map(Some).collect(), words)),
        Column::MaybeWord { codes, words } => Ok((codes.clone(), words)),
        _ => Err(unexpected(name)),
    }
}
