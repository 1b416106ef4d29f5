//! The schema of every table of a run.

use aqm_net::table;
use aqm_net::table::{Row, TableDoc};

table! {
    /// A flow: a TCP connection or a stream of datagrams.
    ///
    /// Counts begin after the warm-up.
    FlowRow as "flows" {
        /// Number of the flow, in order of opening.
        flow: Whole(u64),
        /// Workload of the flow.
        traffic: Word(u32),
        /// Time at which the flow was opened.
        start_s: Real(f64),
        /// Time at which the connection was closed, or aborted after too many time-outs; missing if neither happened.
        end_s: MaybeReal(Option<f64>),
        /// Payload bytes to send; missing if the flow is endless.
        size_bytes: MaybeWhole(Option<u64>),
        /// Unique payload bytes received in order after the warm-up (datagrams: bytes received).
        delivered_bytes: Whole(u64),
        /// `delivered_bytes` in bits per second of measured time.
        goodput_bps: Real(f64),
        /// Packets sent in the direction of the data, including connection set-up and retransmissions.
        packets_sent: Whole(u64),
        /// Packets of `packets_sent` that queues dropped.
        packets_dropped: Whole(u64),
        /// Packets of `packets_sent` that queues marked.
        packets_marked: Whole(u64),
        /// Data segments retransmitted.
        retransmitted: Whole(u64),
        /// Expirations of the retransmission timer; missing if the kernel of a live run does not report them.
        timeouts: MaybeWhole(Option<u64>),
        /// Fast retransmits, that is, losses detected without a time-out; missing in a live run, because the kernel
        /// does not report them.
        fast_retransmits: MaybeWhole(Option<u64>),
        /// Datagrams received after the warm-up; missing for connections.
        datagrams_received: MaybeWhole(Option<u64>),
        /// Mean one-way delay of the datagrams received after the warm-up; missing for connections.
        mean_delay_s: MaybeReal(Option<f64>),
    }
}

table! {
    /// A transfer of a given size over its own connection, or a request and its response if a connection carries
    /// several requests.
    ///
    /// Counts cover the whole transfer, including the warm-up.
    TransferRow as "transfers" {
        /// Number of the transfer's flow.
        flow: Whole(u64),
        /// Workload of the transfer.
        traffic: Word(u32),
        /// Page of the transfer, counted per workload; missing if there is none.
        page: MaybeWhole(Option<u64>),
        /// Time at which the first SYN was sent, or the request if the connection was already established. If the
        /// client has an additional delay, the time by the client's clock.
        start_s: Real(f64),
        /// Payload bytes.
        size_bytes: Whole(u64),
        /// Number of data segments of the payload.
        segments: Whole(u64),
        /// Time from the first SYN until the opener knows that the connection is established; missing if it never was,
        /// or if it was established before.
        handshake_s: MaybeReal(Option<f64>),
        /// Time from the start to the arrival of the first payload byte; missing if none arrived.
        first_byte_s: MaybeReal(Option<f64>),
        /// Time from the start until all payload bytes have arrived in order; missing if unfinished. If a client
        /// requests the transfer, this is the response time, including connection set-up.
        duration_s: MaybeReal(Option<f64>),
        /// Time from the start until the acknowledgement of the last payload byte arrives at the sender, which a
        /// measurement at the sender calls elapsed time. Missing if the acknowledgement did not arrive, and for
        /// connections with several exchanges (`packmime`, `replay` of conversations).
        acknowledged_s: MaybeReal(Option<f64>),
        /// Packets sent in the direction of the data, including connection set-up and retransmissions.
        packets_sent: Whole(u64),
        /// Packets of `packets_sent` that queues dropped.
        packets_dropped: Whole(u64),
        /// Packets of `packets_sent` that queues marked.
        packets_marked: Whole(u64),
        /// Packets of `packets_sent` that arrived in the class of long flows; zero without an edge.
        packets_long: Whole(u64),
        /// Data segments retransmitted.
        retransmitted: Whole(u64),
        /// Expirations of the retransmission timer; missing if the kernel of a live run does not report them.
        timeouts: MaybeWhole(Option<u64>),
        /// Fast retransmits, that is, losses detected without a time-out; missing in a live run, because the kernel
        /// does not report them.
        fast_retransmits: MaybeWhole(Option<u64>),
        /// Whether all payload arrived.
        complete: Truth(bool),
    }
}

table! {
    /// A page: objects that are fetched together.
    PageRow as "pages" {
        /// Workload of the page.
        traffic: Word(u32),
        /// Number of the page within its workload.
        page: Whole(u64),
        /// Time at which the first SYN of the page was sent.
        start_s: Real(f64),
        /// Number of objects.
        objects: Whole(u64),
        /// Payload bytes of all objects.
        size_bytes: Whole(u64),
        /// Time from the first SYN to the arrival of the last byte of the last object; missing if unfinished.
        duration_s: MaybeReal(Option<f64>),
        /// Whether all objects arrived.
        complete: Truth(bool),
    }
}

table! {
    /// A packet dropped at a link.
    ///
    /// Empty unless `record.drops` is set.
    DropRow as "drops" {
        /// Time of the drop.
        time_s: Real(f64),
        /// Link of the queue that dropped the packet.
        link: Word(u32),
        /// Number of the packet's flow.
        flow: Whole(u64),
        /// Reason of the drop, for example `overflow`, `early` or `forced`.
        reason: Word(u32),
        /// Bytes on the wire.
        size_bytes: Whole(u64),
        /// Sender's window reported in the packet, in segments; missing if the packet reports none.
        window: MaybeWhole(Option<u64>),
        /// Number of packets that had arrived at the queue before this packet since the start of the run.
        arrival: Whole(u64),
    }
}

table! {
    /// Length and counters of a queue, sampled every `record.queue_every`.
    QueueRow as "queue" {
        /// Time of the sample.
        time_s: Real(f64),
        /// Link of the queue.
        link: Word(u32),
        /// Queued packets, without the packet in transmission.
        length_packets: Whole(u64),
        /// Queued bytes, without the packet in transmission.
        length_bytes: Whole(u64),
        /// Packets that have arrived since the start of the run, including dropped packets.
        arrivals: Whole(u64),
        /// Packets that have been dropped since the start of the run.
        drops: Whole(u64),
        /// Packets that have been marked since the start of the run.
        marks: Whole(u64),
    }
}

table! {
    /// A state variable of a queue discipline or an edge, sampled every `record.queue_every`. Examples are the average
    /// queue length and the drop probability of RED and its relatives, the number of backlogged flows in fair queueing,
    /// and the number of flows in an edge's table.
    GaugeRow as "gauges" {
        /// Time of the sample.
        time_s: Real(f64),
        /// Link of the queue; missing for an edge.
        link: MaybeWord(Option<u32>),
        /// Node of the edge; missing for a queue.
        node: MaybeWord(Option<u32>),
        /// Name of the variable: `average`, `probability` (before the spacing of drops), `max_p`, `active_flows`,
        /// `threshold`.
        name: Word(u32),
        /// Value in the unit of the column `unit`.
        value: Real(f64),
        /// Unit, for example `packets` or `bytes`; missing for a number without a unit, for example a probability.
        unit: MaybeWord(Option<u32>),
    }
}

table! {
    /// State of a TCP sender after each acknowledgement and time-out.
    ///
    /// In a live run, the state that the kernel reports each time the queues are sampled.
    ///
    /// Empty unless the workload is listed in `record.senders`.
    SenderRow as "senders" {
        /// Time of the sample.
        time_s: Real(f64),
        /// Number of the flow.
        flow: Whole(u64),
        /// Workload of the flow.
        traffic: Word(u32),
        /// Congestion window, in segments.
        cwnd_segments: Real(f64),
        /// Slow-start threshold, in segments; the receiver's window before the first loss.
        ssthresh_segments: Real(f64),
        /// Smoothed round-trip time; missing before the first sample.
        srtt_s: MaybeReal(Option<f64>),
        /// Retransmission timeout.
        rto_s: Real(f64),
        /// Number of consecutive duplicate acknowledgements; missing in a live run, because the kernel does not report
        /// it.
        dupacks: MaybeWhole(Option<u64>),
        /// State of the congestion control, such as `SLOW_START` or `PROBE_BW_UP`; missing in a live run.
        state: MaybeWord(Option<u32>),
        /// Pacing rate, in bits per second; missing without pacing and before the first round-trip sample.
        pacing_rate_bps: MaybeReal(Option<f64>),
        /// Estimate of the available bandwidth, in bits per second; missing unless the congestion control has a model
        /// of the path.
        bandwidth_bps: MaybeReal(Option<f64>),
        /// Estimate of the round trip without queues; missing unless the congestion control has a model of the path.
        min_rtt_s: MaybeReal(Option<f64>),
        /// Share of marked data (`alpha`); missing unless the congestion control is `dctcp` or `prague`, or `bbr3` that
        /// responds to it.
        marked_share: MaybeReal(Option<f64>),
    }
}

table! {
    /// An event of a packet: at a managed link listed in `record.packets` or, for flows of the workloads in
    /// `record.histories`, at the ends of the flow and where the packet was dropped.
    ///
    /// Rows are in order of time. A host of a conversation with an additional delay sends and receives later here than
    /// by its own clock, by this delay.
    PacketRow as "packets" {
        /// Time of the event.
        time_s: Real(f64),
        /// Link; missing at the ends of a flow.
        link: MaybeWord(Option<u32>),
        /// Event. At a link: `start` (start of the transmission), `deliver` (arrival at the far end), `enqueue` (the
        /// packet joins the queue) or `drop`. At the ends: `send` and `receive` for packets with payload, SYN or FIN;
        /// `retransmit` instead of `send` for retransmitted payload; `acknowledge` when an acknowledgement reaches the
        /// sender of the data, and `sack` for each of its SACK blocks.
        event: Word(u32),
        /// Number of the flow.
        flow: Whole(u64),
        /// Whether the packet travels from the receiver of the data to the sender, like acknowledgements and requests.
        backward: Truth(bool),
        /// First payload byte of the packet, or the number of a datagram. For `acknowledge`, the next byte that the
        /// receiver expects; for `sack`, the first byte of the block.
        sequence_bytes: Whole(u64),
        /// Payload bytes of the packet, or bytes of the block for `sack`; 0 for `acknowledge`.
        payload_bytes: Whole(u64),
        /// Bytes on the wire.
        size_bytes: Whole(u64),
        /// Acknowledgement number: the next byte that the packet's sender expects; missing if the packet acknowledges
        /// nothing.
        ack_bytes: MaybeWhole(Option<u64>),
        /// TCP flags, added up as in the header: FIN 1, SYN 2, PSH 8, ACK 16, ECE 64, CWR 128; missing for datagrams.
        flags: MaybeWhole(Option<u64>),
        /// ECN codepoint of the packet at this time: `not-ect`, `ect-1`, `ect-0` or `ce`.
        ecn: Word(u32),
        /// Queued packets after the event; missing for `deliver`, at the ends of flows, and at links that are not
        /// listed in `record.packets`.
        length_packets: MaybeWhole(Option<u64>),
        /// Value of the discipline's variable `average` after the event; missing if `length_packets` is missing, and if
        /// the discipline has no such variable.
        average: MaybeReal(Option<f64>),
    }
}

table! {
    /// A managed link, measured from the end of the warm-up to the end of the run.
    LinkRow as "links" {
        /// Name of the link.
        link: Word(u32),
        /// Rate. If the rate varies, the mean of the rate at which the link could send in the measured time.
        rate_bps: Real(f64),
        /// Packets that arrived, including dropped packets.
        arrivals: Whole(u64),
        /// Bytes that arrived.
        arrived_bytes: Whole(u64),
        /// Packets sent.
        departures: Whole(u64),
        /// Bytes sent.
        departed_bytes: Whole(u64),
        /// Packets dropped by the queue or lost on the link after their transmission.
        drops: Whole(u64),
        /// Packets marked.
        marks: Whole(u64),
        /// Share of the measured time in which the link was sending. If the rate varies, the bytes sent relative to the
        /// bytes that could have been sent.
        utilisation: Real(f64),
        /// Drops per arrival.
        drop_fraction: Real(f64),
        /// Marks per arrival.
        mark_fraction: Real(f64),
        /// Time average of the number of queued packets.
        mean_queue_packets: Real(f64),
        /// Mean queueing delay of a sent packet, by Little's law.
        mean_queue_delay_s: Real(f64),
        /// Share of arrivals that coincided exactly with another arrival or with a departure.
        tied_fraction: Real(f64),
    }
}

table! {
    /// A service class of a queue with classes (`htb`), measured from the end of the warm-up to the end of the run.
    ClassRow as "classes" {
        /// Link of the queue.
        link: Word(u32),
        /// Name of the class.
        class: Word(u32),
        /// Packets that arrived, including dropped packets.
        arrivals: Whole(u64),
        /// Packets that departed.
        departures: Whole(u64),
        /// Bytes that departed.
        departed_bytes: Whole(u64),
        /// Bytes of `departed_bytes` that were borrowed from another class.
        borrowed_bytes: Whole(u64),
        /// Packets dropped.
        drops: Whole(u64),
        /// Drops per arrival.
        drop_fraction: Real(f64),
        /// Rate at which the class sent.
        throughput_bps: Real(f64),
        /// Time average of the number of queued packets.
        mean_queue_packets: Real(f64),
        /// Mean queueing delay of a sent packet, by Little's law.
        mean_queue_delay_s: Real(f64),
    }
}

table! {
    /// Data that the client of a program sent: the reverse direction of a flow whose forward direction is in `flows`.
    ///
    /// Only live runs with workloads of the kind `program` have this table. Counts begin after the warm-up.
    FromClientRow as "from_client" {
        /// Number of the flow.
        flow: Whole(u64),
        /// Workload of the flow.
        traffic: Word(u32),
        /// Unique payload bytes received in order after the warm-up (datagrams: bytes received).
        delivered_bytes: Whole(u64),
        /// `delivered_bytes` in bits per second of measured time.
        goodput_bps: Real(f64),
        /// Packets that the client sent, including acknowledgements.
        packets_sent: Whole(u64),
        /// Packets of `packets_sent` that queues dropped.
        packets_dropped: Whole(u64),
        /// Packets of `packets_sent` that queues marked.
        packets_marked: Whole(u64),
        /// Data segments retransmitted.
        retransmitted: Whole(u64),
        /// Datagrams received after the warm-up; missing for connections.
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
        // Not every run has this table, so its name has a prefix, like the tables of other levels.
        TableDoc { name: "live.from_client", ..FromClientRow::DOC },
    ]
}
