//! The scenario sections for hosts and records, and the catalogue of all sections of the packet level for the
//! documentation.

use aqm_link::{channel, transmitter};
use aqm_net::registry::{Entry, Family};
use aqm_net::{Size, Span, parameters};

use crate::scenario::links::{Access, Bottleneck, Reverse};

parameters! {
    /// Processing of packets in every host.
    pub struct Host {
        /// Maximum processing time of an arriving packet. The processing time is uniformly distributed on [0,
        /// `jitter`], and the packets of a flow are not reordered. Jitter prevents phase effects between flows with
        /// equal round-trip times (Floyd & Jacobson 1992). The default is the transmission time of a full packet on the
        /// slowest managed link.
        pub jitter: Option<Span> = None, "Floyd & Jacobson 1992; ns-2's `overhead_`";
        /// Length of the link header of each packet, for example `14B` for Ethernet. All packet lengths in the scenario
        /// include this header. Only live runs use this value, because the hosts of a live run exchange IP packets
        /// without a link header.
        pub link_header: Size = Size::from_bytes(0),
            "aqmlab's choice: by default, lengths are IP lengths; similar to `overhead` in tc-stab(8)";
    }
}

parameters! {
    /// Rows that a run records about flows, transfers, pages and packets.
    ///
    /// The table `links` is always recorded.
    pub struct Record {
        /// Columns of the table `flows` that are recorded. By default, all columns are recorded; with `[]`, the table
        /// has no rows.
        pub flow_columns: Option<Vec<String>> = None, "aqmlab's choice";
        /// Columns of the table `transfers` that are recorded. By default, all columns are recorded; with `[]`, the
        /// table has no rows. Summaries and comparisons, including quantiles, require the columns `traffic`, `start_s`,
        /// `duration_s` and `complete`.
        pub transfer_columns: Option<Vec<String>> = None, "aqmlab's choice";
        /// Columns of the table `pages` that are recorded. By default, all columns are recorded; with `[]`, the table
        /// has no rows.
        pub page_columns: Option<Vec<String>> = None, "aqmlab's choice";
        /// Record a row for each dropped packet.
        pub drops: bool = true, "aqmlab's choice";
        /// Sampling interval of managed queues and edges, for the tables `queue` and `gauges`; `0s` disables sampling.
        pub queue_every: Span = Span::from_millis(100), "aqmlab's choice";
        /// Workloads whose senders are recorded in the table `senders`. In a simulation, a row is recorded after each
        /// acknowledgement and time-out. In a live run, a row is recorded for each connection every `queue_every`.
        pub senders: Vec<String> = Vec::new(), "aqmlab's choice";
        /// Managed links whose packets are recorded in the table `packets`, with a row for each event at which a packet
        /// joins the queue, departs or is dropped.
        pub packets: Vec<String> = Vec::new(), "aqmlab's choice";
        /// Workloads whose packets are recorded in the table `packets`, with a row for each packet that a flow sends,
        /// receives or loses, and a row for each acknowledgement that reaches a sender.
        pub histories: Vec<String> = Vec::new(), "aqmlab's choice";
        /// Record, as `qdiscs` in the manifest, the output that Linux's `tc -s -j qdisc show` would print for the
        /// managed links at the end of the run.
        pub tc_statistics: bool = false, "aqmlab's choice";
    }
}

/// Returns the descriptions of the scenario sections.
pub fn catalog() -> Vec<Entry> {
    let family = Family { name: "sections", title: "scenario section" };
    vec![
        Entry::of_parameters::<Bottleneck>("bottleneck", family),
        Entry::of_parameters::<Reverse>("bottleneck.reverse", family),
        Entry::of_parameters::<transmitter::Config>("transmitter", family),
        Entry::of_parameters::<channel::Config>("channel", family),
        Entry::of_parameters::<Access>("access", family),
        Entry::of_parameters::<Host>("host", family),
        Entry::of_parameters::<Record>("record", family),
    ]
}
