//! The sections of a scenario that belong to the stage itself: what hosts do, what is recorded, and all as
//! documentation shows them.

use aqm_link::{channel, transmitter};
use aqm_net::registry::{Entry, Family};
use aqm_net::{Size, Span, parameters};

use crate::scenario::links::{Access, Bottleneck, Reverse};

parameters! {
    /// What every host does with packets.
    pub struct Host {
        /// A packet that arrives is processed after a time uniform on [0, `jitter`]; those of a flow
        /// keep their order. It breaks the phase effects of equal round-trip times (Floyd & Jacobson
        /// 1992). Left out: the time a full packet takes on the slowest managed link.
        pub jitter: Option<Span> = None, "Floyd & Jacobson 1992; ns-2's `overhead_`";
        /// How much of each packet on the wire is the header of the link, which every length in the scenario
        /// contains: `14B` for Ethernet. Only a live run, whose hosts exchange packets of IP, must know.
        pub link_header: Size = Size::from_bytes(0), "ours: lengths are those of IP; tc-stab(8), `overhead`";
    }
}

parameters! {
    /// What a run records of flows, transfers and pages, and what else beside links, which it always does.
    pub struct Record {
        /// Which columns of the table `flows` are kept; left out: all; `[]`: no rows.
        pub flow_columns: Option<Vec<String>> = None, "ours";
        /// Which columns of the table `transfers` are kept; left out: all; `[]`: no rows. A summary, a comparison and
        /// their quantiles need `traffic`, `start_s`, `duration_s` and `complete`.
        pub transfer_columns: Option<Vec<String>> = None, "ours";
        /// Which columns of the table `pages` are kept; left out: all; `[]`: no rows.
        pub page_columns: Option<Vec<String>> = None, "ours";
        /// A row for each packet dropped.
        pub drops: bool = true, "ours";
        /// How often managed queues and edges are sampled, for the tables `queue` and `gauges`; `0s` for never.
        pub queue_every: Span = Span::from_millis(100), "ours";
        /// A row after each acknowledgement and time-out of the flows of these workloads; in a live run a row of each
        /// of their connections every `queue_every`.
        pub senders: Vec<String> = Vec::new(), "ours";
        /// A row for each packet that joins, leaves or is dropped at these managed links.
        pub packets: Vec<String> = Vec::new(), "ours";
        /// A row for each packet that the flows of these workloads send, receive or lose, and for each
        /// acknowledgement that reaches a sender.
        pub histories: Vec<String> = Vec::new(), "ours";
        /// What Linux's `tc -s -j qdisc show` would print of the managed links at the end, as `qdiscs` in the manifest.
        pub tc_statistics: bool = false, "ours";
    }
}

/// The sections of a scenario, as documentation shows them.
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
