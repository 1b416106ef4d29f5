//! The schemas of the tables of a run. Workloads that record tables of their own have separate files.

use aqm_net::table;
use aqm_net::table::{Row, TableDoc};

use crate::results::call_tables::{CallRow, FrameRow};
use crate::results::guest_tables::ReportRow;
use crate::results::page_tables::{PageLoadRow, PageObjectRow};
use crate::results::probe_tables::{ProbeIntervalRow, ProbeRow};

table! {
    /// A flow: a TCP connection, a stream of datagrams, or the datagrams from the server to the client of two guests.
    ///
    /// Counts exclude the warm-up.
    FlowRow as "flows" {
        /// Number of the flow; flows are numbered in the order in which they are opened.
        flow: Whole(u64),
        /// Workload of the flow.
        traffic: Word(u32),
        /// Time at which the flow was opened.
        start_s: Real(f64),
        /// Time at which the connection was closed, or was aborted after too many time-outs; missing if the connection
        /// was still open at the end of the run.
        end_s: MaybeReal(Option<f64>),
        /// Payload bytes to send; missing if the flow is endless.
        size_bytes: MaybeWhole(Option<u64>),
        /// Number of distinct payload bytes received in order after the warm-up; for datagrams, and for guests that do
        /// not report received bytes, number of bytes received.
        delivered_bytes: Whole(u64),
        /// `delivered_bytes` divided by the time after the warm-up, in bits per second.
        goodput_bps: Real(f64),
        /// Number of packets sent in the direction in which the data travels, including connection set-up and
        /// retransmissions.
        packets_sent: Whole(u64),
        /// Number of packets, out of `packets_sent`, that queues dropped.
        packets_dropped: Whole(u64),
        /// Number of packets, out of `packets_sent`, that queues marked.
        packets_marked: Whole(u64),
        /// Number of retransmitted data segments.
        retransmitted: Whole(u64),
        /// Number of expirations of the retransmission timer; missing if the kernel of a live run does not report the
        /// number.
        timeouts: MaybeWhole(Option<u64>),
        /// Number of fast retransmits, that is, number of losses detected without a time-out; missing in a live run,
        /// because the kernel does not report the number.
        fast_retransmits: MaybeWhole(Option<u64>),
        /// Number of datagrams received after the warm-up; missing for connections.
        datagrams_received: MaybeWhole(Option<u64>),
        /// Mean one-way delay of the datagrams received after the warm-up; missing for connections.
        mean_delay_s: MaybeReal(Option<f64>),
    }
}

table! {
    /// A transfer of a given size over its own connection, or a request and its response on a connection with several
    /// requests.
    ///
    /// Counts cover the whole transfer, including the warm-up.
    TransferRow as "transfers" {
        /// Number of the transfer's flow.
        flow: Whole(u64),
        /// Workload of the transfer.
        traffic: Word(u32),
        /// Number of the page to which the transfer belongs, counted separately for each workload; missing if the
        /// transfer belongs to no page.
        page: MaybeWhole(Option<u64>),
        /// Time at which the first SYN was sent or, if the connection was already established, time at which the
        /// request was sent. If the client has an additional delay, the time is measured by the client's clock.
        start_s: Real(f64),
        /// Payload bytes.
        size_bytes: Whole(u64),
        /// Number of data segments into which the payload is divided; for guests, of datagrams with 1200 bytes.
        segments: Whole(u64),
        /// Time from the first SYN until the connection is established at the end that opened the connection; missing
        /// if the connection was not established, or was already established before the transfer.
        handshake_s: MaybeReal(Option<f64>),
        /// Time from the start to the arrival of the first payload byte; missing if no payload byte arrived.
        first_byte_s: MaybeReal(Option<f64>),
        /// Time from the start until all payload bytes have arrived in order; missing if the transfer is incomplete. If
        /// a client requests the transfer, the duration is the response time, including connection set-up.
        duration_s: MaybeReal(Option<f64>),
        /// Time from the start until the acknowledgement of the last payload byte arrives at the sender. A program at
        /// the sender would measure this time as elapsed time. The value is missing if the acknowledgement did not
        /// arrive, and for connections with several exchanges (`packmime`, `replay` of conversations).
        acknowledged_s: MaybeReal(Option<f64>),
        /// Number of packets sent in the direction in which the data travels, including connection set-up and
        /// retransmissions.
        packets_sent: Whole(u64),
        /// Number of packets, out of `packets_sent`, that queues dropped.
        packets_dropped: Whole(u64),
        /// Number of packets, out of `packets_sent`, that queues marked.
        packets_marked: Whole(u64),
        /// Number of packets, out of `packets_sent`, that had been assigned to the class of long flows when they
        /// arrived; zero if the scenario has no edge.
        packets_long: Whole(u64),
        /// Number of retransmitted data segments; 0 for guests, which do not report the number.
        retransmitted: Whole(u64),
        /// Number of expirations of the retransmission timer; missing if the kernel of a live run does not report the
        /// number.
        timeouts: MaybeWhole(Option<u64>),
        /// Number of fast retransmits, that is, number of losses detected without a time-out; missing in a live run,
        /// because the kernel does not report the number.
        fast_retransmits: MaybeWhole(Option<u64>),
        /// Whether the whole payload arrived.
        complete: Truth(bool),
    }
}

table! {
    /// A page: a group of objects that a client fetches together.
    PageRow as "pages" {
        /// Workload of the page.
        traffic: Word(u32),
        /// Number of the page within its workload.
        page: Whole(u64),
        /// Time at which the first SYN of the page was sent.
        start_s: Real(f64),
        /// Number of objects.
        objects: Whole(u64),
        /// Total payload bytes of all objects.
        size_bytes: Whole(u64),
        /// Time from the first SYN to the arrival of the last byte of the last object; missing if the page is
        /// incomplete.
        duration_s: MaybeReal(Option<f64>),
        /// Whether all objects arrived.
        complete: Truth(bool),
    }
}

table! {
    /// A packet dropped at a link.
    ///
    /// The table has rows only if `record.drops` is true.
    DropRow as "drops" {
        /// Time of the drop.
        time_s: Real(f64),
        /// Link of the queue that dropped the packet.
        link: Word(u32),
        /// Number of the packet's flow.
        flow: Whole(u64),
        /// Reason for the drop, for example `overflow`, `early` or `forced`.
        reason: Word(u32),
        /// Length of the packet, in bytes.
        size_bytes: Whole(u64),
        /// Sender's window as reported in the packet, in segments; missing if the packet does not contain a window.
        window: MaybeWhole(Option<u64>),
        /// Number of packets that arrived at the queue before this packet, since the start of the run.
        arrival: Whole(u64),
        /// Value of the discipline's variable `average` on which the drop depended, or which the discipline had
        /// computed when the queue was full; missing if the discipline has no average.
        average: MaybeReal(Option<f64>),
        /// Probability with which the discipline dropped the packet. For RED and its variants, this value is `p_a`,
        /// after drops are spaced; for Linux's RED, which multiplies the probability by `count`, `p_b`. The value is
        /// missing if the drop did not depend on a probability, for example because the queue was full.
        probability: MaybeReal(Option<f64>),
        /// For RED and its variants, number of packets since the last drop, including this packet; for CoDel and
        /// COBALT, number of drops since the dropping state began, as the control law counts them. The value is missing
        /// if the drop did not depend on a count.
        count: MaybeWhole(Option<u64>),
        /// Uniform random number that was below `probability` (for Linux's RED, at most `probability` times `count`);
        /// missing if the drop did not depend on one random number.
        draw: MaybeReal(Option<f64>),
    }
}

table! {
    /// Length and counters of a queue, sampled every `record.queue_every`.
    QueueRow as "queue" {
        /// Time of the sample.
        time_s: Real(f64),
        /// Link of the queue.
        link: Word(u32),
        /// Number of queued packets, excluding the packet being transmitted.
        length_packets: Whole(u64),
        /// Number of queued bytes, excluding the packet being transmitted.
        length_bytes: Whole(u64),
        /// Number of packets that have arrived since the start of the run, including dropped packets.
        arrivals: Whole(u64),
        /// Number of packets that have been dropped since the start of the run.
        drops: Whole(u64),
        /// Number of packets that have been marked since the start of the run.
        marks: Whole(u64),
    }
}

table! {
    /// A state variable of a queue discipline or an edge, sampled every `record.queue_every`. Examples are the average
    /// queue length and the drop probability of RED and its variants, the number of backlogged flows in fair queueing,
    /// and the number of flows in an edge's table.
    GaugeRow as "gauges" {
        /// Time of the sample.
        time_s: Real(f64),
        /// Link of the queue; missing for an edge.
        link: MaybeWord(Option<u32>),
        /// Node of the edge; missing for a queue.
        node: MaybeWord(Option<u32>),
        /// Name of the variable, for example `average`, `probability` (before drops are spaced), `max_p`,
        /// `active_flows` or `threshold`.
        name: Word(u32),
        /// Value in the unit of the column `unit`.
        value: Real(f64),
        /// Unit of the value, for example `packets` or `bytes`; missing if the value has no unit, for example for a
        /// probability.
        unit: MaybeWord(Option<u32>),
    }
}

table! {
    /// State of a TCP sender after each acknowledgement and time-out.
    ///
    /// In a live run, the table contains the state that the kernel reports each time the queues are sampled.
    ///
    /// The table has rows only for the workloads listed in `record.senders`.
    SenderRow as "senders" {
        /// Time of the sample.
        time_s: Real(f64),
        /// Number of the flow.
        flow: Whole(u64),
        /// Workload of the flow.
        traffic: Word(u32),
        /// Congestion window, in segments.
        cwnd_segments: Real(f64),
        /// Slow-start threshold, in segments; before the first loss, the value is the receiver's window.
        ssthresh_segments: Real(f64),
        /// Smoothed round-trip time; missing before the first sample.
        srtt_s: MaybeReal(Option<f64>),
        /// Retransmission timeout.
        rto_s: Real(f64),
        /// Number of consecutive duplicate acknowledgements; missing in a live run, because the kernel does not report
        /// the number.
        dupacks: MaybeWhole(Option<u64>),
        /// State of the congestion control, such as `SLOW_START` or `PROBE_BW_UP`; missing in a live run.
        state: MaybeWord(Option<u32>),
        /// Pacing rate, in bits per second; missing if the sender does not pace, and before the first round-trip
        /// sample.
        pacing_rate_bps: MaybeReal(Option<f64>),
        /// Estimate of the available bandwidth, in bits per second; missing unless the congestion control has a model
        /// of the path.
        bandwidth_bps: MaybeReal(Option<f64>),
        /// Estimate of the round-trip time without queueing delay; missing unless the congestion control has a model of
        /// the path.
        min_rtt_s: MaybeReal(Option<f64>),
        /// Average fraction of data that was marked (`alpha`); missing unless the congestion control is `dctcp` or
        /// `prague`, or is `bbr3` and responds to this fraction.
        marked_share: MaybeReal(Option<f64>),
    }
}

table! {
    /// An event of a packet at a managed link listed in `record.packets` or, for workloads listed in
    /// `record.histories`, at an end of the flow or at the queue that dropped the packet.
    ///
    /// Rows are in chronological order. If a host of a conversation has an additional delay, the times in this table
    /// exceed the times on the host's clock by this delay.
    PacketRow as "packets" {
        /// Time of the event.
        time_s: Real(f64),
        /// Link of the event; missing for an event at an end of a flow.
        link: MaybeWord(Option<u32>),
        /// Kind of the event. Events at a link are `start` (start of the transmission), `deliver` (arrival at the far
        /// end), `enqueue` (the packet joins the queue) and `drop`. Events at an end of a flow are `send` and `receive`
        /// for packets with payload, SYN or FIN; `retransmit` instead of `send` for retransmitted payload;
        /// `acknowledge` when an acknowledgement reaches the sender of the data; and `sack` for each SACK block of this
        /// acknowledgement.
        event: Word(u32),
        /// Number of the flow.
        flow: Whole(u64),
        /// Whether the packet travels from the receiver of the data to the sender, as acknowledgements and requests do.
        backward: Truth(bool),
        /// Sequence number of the packet's first payload byte, or the number of the datagram or QUIC packet. For `acknowledge`, the
        /// next byte that the receiver expects; for `sack`, the first byte of the SACK block.
        sequence_bytes: Whole(u64),
        /// Number of payload bytes in the packet; for `sack`, number of bytes in the SACK block; for `acknowledge`, 0.
        payload_bytes: Whole(u64),
        /// Length of the packet, in bytes.
        size_bytes: Whole(u64),
        /// Acknowledgement number, which is the next byte that the packet's sender expects; missing if the packet
        /// contains no acknowledgement.
        ack_bytes: MaybeWhole(Option<u64>),
        /// Sum of the values of the TCP flags that are set: FIN 1, SYN 2, PSH 8, ACK 16, ECE 64, CWR 128; missing for
        /// datagrams and QUIC packets.
        flags: MaybeWhole(Option<u64>),
        /// ECN codepoint of the packet at the time of the event: `not-ect`, `ect-1`, `ect-0` or `ce`.
        ecn: Word(u32),
        /// Number of queued packets after the event; missing for `deliver`, for events at the ends of flows, and for
        /// events at links that are not listed in `record.packets`.
        length_packets: MaybeWhole(Option<u64>),
        /// Value of the discipline's variable `average` after the event; missing if `length_packets` is missing or the
        /// discipline has no variable `average`.
        average: MaybeReal(Option<f64>),
    }
}

table! {
    /// Counters of a managed link from the end of the warm-up to the end of the run.
    LinkRow as "links" {
        /// Name of the link.
        link: Word(u32),
        /// Rate of the link. If the rate varies, mean rate at which the link could have sent after the warm-up.
        rate_bps: Real(f64),
        /// Number of packets that arrived, including dropped packets.
        arrivals: Whole(u64),
        /// Number of bytes that arrived.
        arrived_bytes: Whole(u64),
        /// Number of packets that the link sent.
        departures: Whole(u64),
        /// Number of bytes that the link sent.
        departed_bytes: Whole(u64),
        /// Number of packets that the queue dropped, or that were lost on the link after their transmission.
        drops: Whole(u64),
        /// Number of packets that the queue marked.
        marks: Whole(u64),
        /// Fraction of the time after the warm-up during which the link was sending. If the rate varies, the number of
        /// sent bytes divided by the number of bytes that the link could have sent.
        utilisation: Real(f64),
        /// Number of drops divided by the number of arrivals.
        drop_fraction: Real(f64),
        /// Number of marks divided by the number of arrivals.
        mark_fraction: Real(f64),
        /// Time average of the number of queued packets.
        mean_queue_packets: Real(f64),
        /// Mean queueing delay of a sent packet, by Little's law.
        mean_queue_delay_s: Real(f64),
        /// Fraction of arrivals that coincided exactly with another arrival or with a departure.
        tied_fraction: Real(f64),
    }
}

table! {
    /// Counters of a service class of a queue with classes (`htb`), from the end of the warm-up to the end of the run.
    ClassRow as "classes" {
        /// Link of the queue.
        link: Word(u32),
        /// Name of the class.
        class: Word(u32),
        /// Number of packets that arrived, including dropped packets.
        arrivals: Whole(u64),
        /// Number of packets that departed.
        departures: Whole(u64),
        /// Number of bytes that departed.
        departed_bytes: Whole(u64),
        /// Number of bytes, out of `departed_bytes`, that the class sent with bandwidth borrowed from another class.
        borrowed_bytes: Whole(u64),
        /// Number of packets that were dropped.
        drops: Whole(u64),
        /// Number of drops divided by the number of arrivals.
        drop_fraction: Real(f64),
        /// Mean rate at which the class sent.
        throughput_bps: Real(f64),
        /// Time average of the number of queued packets.
        mean_queue_packets: Real(f64),
        /// Mean queueing delay of a sent packet, by Little's law.
        mean_queue_delay_s: Real(f64),
    }
}

table! {
    /// Data that the client of a program sent, which travels in the reverse direction of a flow in the table `flows`.
    ///
    /// Only live runs with workloads of the kind `program` have this table. Counts exclude the warm-up.
    FromClientRow as "from_client" {
        /// Number of the flow.
        flow: Whole(u64),
        /// Workload of the flow.
        traffic: Word(u32),
        /// Number of distinct payload bytes received in order after the warm-up; for datagrams, number of bytes
        /// received.
        delivered_bytes: Whole(u64),
        /// `delivered_bytes` divided by the time after the warm-up, in bits per second.
        goodput_bps: Real(f64),
        /// Number of packets that the client sent, including acknowledgements.
        packets_sent: Whole(u64),
        /// Number of packets, out of `packets_sent`, that queues dropped.
        packets_dropped: Whole(u64),
        /// Number of packets, out of `packets_sent`, that queues marked.
        packets_marked: Whole(u64),
        /// Number of retransmitted data segments.
        retransmitted: Whole(u64),
        /// Number of datagrams received after the warm-up; missing for connections.
        datagrams_received: MaybeWhole(Option<u64>),
        /// Mean one-way delay of the datagrams received after the warm-up; missing for connections.
        mean_delay_s: MaybeReal(Option<f64>),
    }
}

/// Returns the descriptions of all tables.
pub fn catalog() -> Vec<TableDoc> {
    vec![
        FlowRow::DOC,
        TransferRow::DOC,
        PageRow::DOC,
        DropRow::DOC,
        QueueRow::DOC,
        GaugeRow::DOC,
        SenderRow::DOC,
        PacketRow::DOC,
        LinkRow::DOC,
        ClassRow::DOC,
        CallRow::DOC,
        FrameRow::DOC,
        ProbeRow::DOC,
        ProbeIntervalRow::DOC,
        PageLoadRow::DOC,
        PageObjectRow::DOC,
        ReportRow::DOC,
        // Only some runs have this table, so its name has a prefix, like the names of the tables of other levels.
        TableDoc { name: "live.from_client", ..FromClientRow::DOC },
    ]
}
