//! Scenario sections of the packet level itself: hosts and records. Also the catalogue of all sections for the
//! documentation.

use aqm_link::{channel, transmitter};
use aqm_net::registry::{Entry, Family};
use aqm_net::{Size, Span, parameters};

use crate::scenario::links::{Access, Bottleneck, Reverse};

parameters! {
    /// Processing of packets by every host.
    pub struct Host {
        /// Maximum processing time. Each packet that arrives is processed after a time uniform on [0, `jitter`];
        /// packets of a flow stay in order. Jitter prevents phase effects between equal round-trip times (Floyd &
        /// Jacobson 1992). By default, the transmission time of a full packet on the slowest managed link.
        pub jitter: Option<Span> = None, "Floyd & Jacobson 1992; ns-2's `overhead_`";
        /// Bytes of the link header in each packet, for example `14B` for Ethernet. All lengths in the scenario include
        /// this header. Only live runs, in which hosts exchange IP packets, use this value.
        pub link_header: Size = Size::from_bytes(0), "aqmlab's choice: lengths without a link header are those of IP; tc-stab(8), `overhead`";
    }
}

parameters! {
    /// Rows that a run records about flows, transfers, pages and packets.
    ///
    /// Links are always recorded.
    pub struct Record {
        /// Columns of the table `flows` to keep. By default, all columns; with `[]`, no rows.
        pub flow_columns: Option<Vec<String>> = None, "aqmlab's choice";
        /// Columns of the table `transfers` to keep. By default, all columns; with `[]`, no rows. Summaries,
        /// comparisons and their quantiles need `traffic`, `start_s`, `duration_s` and `complete`.
        pub transfer_columns: Option<Vec<String>> = None, "aqmlab's choice";
        /// Columns of the table `pages` to keep. By default, all columns; with `[]`, no rows.
        pub page_columns: Option<Vec<String>> = None, "aqmlab's choice";
        /// Record a row for each dropped packet.
        pub drops: bool = true, "aqmlab's choice";
        /// Sampling interval of managed queues and edges, for the tables `queue` and `gauges`; `0s` disables sampling.
        pub queue_every: Span = Span::from_millis(100), "aqmlab's choice";
        /// Workloads whose senders are recorded, with a row after each acknowledgement and time-out. In a live run,
        /// with a row for each connection every `queue_every`.
        pub senders: Vec<String> = Vec::new(), "aqmlab's choice";
        /// Managed links whose packets are recorded, with a row for each packet that joins the queue, departs or is
        /// dropped.
        pub packets: Vec<String> = Vec::new(), "aqmlab's choice";
        /// Workloads whose packets are recorded, with a row for each packet that a flow sends, receives or loses, and
        /// for each acknowledgement that reaches a sender.
        pub histories: Vec<String> = Vec::new(), "aqmlab's choice";
        /// Record the output of Linux's `tc -s -j qdisc show` for the managed links at the end of the run, as `qdiscs`
        /// in the manifest.
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
