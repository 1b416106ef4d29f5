//! What a run leaves behind: the schema of every table.

use aqm_net::table;
use aqm_net::table::{Row, TableDoc};

table! {
    /// A flow: a connection, or a stream of datagrams.
    ///
    /// Counts are those after the warm-up.
    FlowRow as "flows" {
        /// Number of the flow, in the order of opening.
        flow: Whole(u64),
        /// The workload it belongs to.
        traffic: Word(u32),
        /// When it was opened.
        start_s: Real(f64),
        /// When its connection was closed, or given up after too many time-outs; missing if it was not.
        end_s: MaybeReal(Option<f64>),
        /// Payload bytes it was opened for; missing if it sends for ever.
        size_bytes: MaybeWhole(Option<u64>),
        /// Unique payload bytes that arrived in order after the warm-up (datagrams: bytes that arrived).
        delivered_bytes: Whole(u64),
        /// The same per second of the measured time.
        goodput_bps: Real(f64),
        /// Packets sent in the direction of the data, connection set-up and retransmissions included.
        packets_sent: Whole(u64),
        /// Of those, dropped by queues.
        packets_dropped: Whole(u64),
        /// Of those, marked by queues.
        packets_marked: Whole(u64),
        /// Data segments sent again.
        retransmitted: Whole(u64),
        /// Retransmission timer expiries; missing if the kernel of a live run does not tell.
        timeouts: MaybeWhole(Option<u64>),
        /// Losses found otherwise: fast retransmits; missing in a live run, whose kernel does not tell.
        fast_retransmits: MaybeWhole(Option<u64>),
        /// Datagrams that arrived after the warm-up; missing for connections.
        datagrams_received: MaybeWhole(Option<u64>),
        /// Mean time from the sending of a datagram to its arrival, of those that arrived after the warm-up;
        /// missing for connections.
        mean_delay_s: MaybeReal(Option<f64>),
    }
}

table! {
    /// A transfer of a given size over a connection of its own, or a request and its response where a
    /// connection carries several in turn.
    ///
    /// Counts are those of its whole life.
    TransferRow as "transfers" {
        /// Number of its flow.
        flow: Whole(u64),
        /// The workload it belongs to.
        traffic: Word(u32),
        /// The page it is a part of, within its workload; missing if none.
        page: MaybeWhole(Option<u64>),
        /// When its first SYN was sent, or its request on a connection that stood. Of a client behind a
        /// delay of its own: when the client sent it.
        start_s: Real(f64),
        /// Payload bytes.
        size_bytes: Whole(u64),
        /// Data segments the payload needs.
        segments: Whole(u64),
        /// From the first SYN to the sender's knowing that the connection stands; missing if it never did, or
        /// if it stood already.
        handshake_s: MaybeReal(Option<f64>),
        /// From the start to the arrival of the first payload byte; missing if none arrived.
        first_byte_s: MaybeReal(Option<f64>),
        /// From the start to the arrival of the last payload byte, in order; missing if unfinished. Where a
        /// client asks for it this is the response time, the opening of the connection included.
        duration_s: MaybeReal(Option<f64>),
        /// From the start to the arrival of the acknowledgement of the last payload byte at the sender, what
        /// a measurement at the sender calls the elapsed time; missing if it did not arrive, and where a
        /// connection carries several exchanges (`packmime`, `replay` of conversations).
        acknowledged_s: MaybeReal(Option<f64>),
        /// Packets sent in the direction of the data, connection set-up and retransmissions included.
        packets_sent: Whole(u64),
        /// Of those, dropped by queues.
        packets_dropped: Whole(u64),
        /// Of those, marked by queues.
        packets_marked: Whole(u64),
        /// Of those, arrived in the class of long flows; zero without an edge.
        packets_long: Whole(u64),
        /// Data segments sent again.
        retransmitted: Whole(u64),
        /// Retransmission timer expiries; missing if the kernel of a live run does not tell.
        timeouts: MaybeWhole(Option<u64>),
        /// Losses found otherwise: fast retransmits; missing in a live run, whose kernel does not tell.
        fast_retransmits: MaybeWhole(Option<u64>),
        /// Whether all payload arrived.
        complete: Truth(bool),
    }
}

table! {
    /// A page: objects fetched together.
    PageRow as "pages" {
        /// The workload it belongs to.
        traffic: Word(u32),
        /// Its number within the workload.
        page: Whole(u64),
        /// When its first SYN was sent.
        start_s: Real(f64),
        /// How many objects it has.
        objects: Whole(u64),
        /// Payload bytes of all its objects.
        size_bytes: Whole(u64),
        /// From the first SYN to the arrival of the last byte of the last object; missing if unfinished.
        duration_s: MaybeReal(Option<f64>),
        /// Whether all objects arrived.
        complete: Truth(bool),
    }
}

table! {
    /// A packet dropped by a queue.
    ///
    /// Filled if `record.drops` is on.
    DropRow as "drops" {
        /// When.
        time_s: Real(f64),
        /// By the queue of this link.
        link: Word(u32),
        /// Number of the packet's flow.
        flow: Whole(u64),
        /// Why: `overflow`, `early` or `forced`.
        reason: Word(u32),
        /// Bytes on the wire.
        size_bytes: Whole(u64),
        /// The sender's window that the packet told, in segments; missing if it told none.
        window: MaybeWhole(Option<u64>),
        /// How many packets had arrived at this queue before it since the run began.
        arrival: Whole(u64),
    }
}

table! {
    /// The length and the counters of a queue, sampled every `record.queue_every`.
    QueueRow as "queue" {
        /// When.
        time_s: Real(f64),
        /// The queue of this link.
        link: Word(u32),
        /// Packets waiting; the one on the line is not counted.
        length_packets: Whole(u64),
        /// Bytes waiting.
        length_bytes: Whole(u64),
        /// Packets that have arrived since the run began, the dropped ones included.
        arrivals: Whole(u64),
        /// Of those, dropped.
        drops: Whole(u64),
        /// Of those, marked.
        marks: Whole(u64),
    }
}

table! {
    /// A value that a queue discipline or an edge shows of its state, sampled every `record.queue_every`: the
    /// average queue and the drop probability of RED and its relatives, the flows with a packet waiting of fair
    /// queueing, the flows that an edge remembers.
    GaugeRow as "gauges" {
        /// When.
        time_s: Real(f64),
        /// The link of the queue; missing for an edge.
        link: MaybeWord(Option<u32>),
        /// The node of the edge; missing for a queue.
        node: MaybeWord(Option<u32>),
        /// What it is: `average`, `probability` (before drops are spaced), `max_p`, `active_flows`, `threshold`.
        name: Word(u32),
        /// How much it is, in the unit beside.
        value: Real(f64),
        /// Its unit, such as `packets` or `bytes`; missing for a number without one, such as a probability.
        unit: MaybeWord(Option<u32>),
    }
}

table! {
    /// The state of a TCP sender, after each acknowledgement and time-out; in a live run, each time that queues are
    /// sampled, as the kernel tells it.
    ///
    /// Filled for the workloads in `record.senders`.
    SenderRow as "senders" {
        /// When.
        time_s: Real(f64),
        /// Number of the flow.
        flow: Whole(u64),
        /// The workload it belongs to.
        traffic: Word(u32),
        /// Congestion window, in segments.
        cwnd_segments: Real(f64),
        /// Slow-start threshold, in segments; the receiver's window before the first loss.
        ssthresh_segments: Real(f64),
        /// Smoothed round-trip time; missing before the first sample.
        srtt_s: MaybeReal(Option<f64>),
        /// Retransmission timeout.
        rto_s: Real(f64),
        /// Duplicate acknowledgements in a row; missing in a live run, whose kernel does not tell.
        dupacks: MaybeWhole(Option<u64>),
    }
}

table! {
    /// What happened to a packet: at a managed link in `record.packets`, or, of a flow of a workload in
    /// `record.histories`, at its ends and where it was dropped.
    ///
    /// Rows are in the order of time; a host of a conversation that stands behind a delay of its own sends and receives
    /// that much later here than by its own clock.
    PacketRow as "packets" {
        /// When.
        time_s: Real(f64),
        /// The link; missing at the ends of a flow.
        link: MaybeWord(Option<u32>),
        /// At a link `start` (transmission begins), `deliver` (reaches the far end), `enqueue` (joins the
        /// queue) or `drop`. At the ends `send` and `receive`, of what carries payload, a SYN or a FIN;
        /// `retransmit` (`send` of what was sent before); `acknowledge` and, for each block of SACK it
        /// carries, `sack`: an acknowledgement reaches the sender of the data.
        event: Word(u32),
        /// Number of the flow.
        flow: Whole(u64),
        /// Whether it travels from the receiver of the data to their sender, as acknowledgements and requests do.
        backward: Truth(bool),
        /// First payload byte it carries; of a datagram, its number. Of `acknowledge`, the next byte
        /// that the receiver expects, of `sack` the first of the block.
        sequence_bytes: Whole(u64),
        /// Payload bytes it carries, and those of the block of `sack`; 0 for `acknowledge`.
        payload_bytes: Whole(u64),
        /// Bytes on the wire.
        size_bytes: Whole(u64),
        /// The next byte that its sender expects; missing if it acknowledges nothing.
        ack_bytes: MaybeWhole(Option<u64>),
        /// TCP's flags, added up as in its header: FIN 1, SYN 2, PSH 8, ACK 16, ECE 64, CWR 128; missing for
        /// datagrams.
        flags: MaybeWhole(Option<u64>),
        /// The ECN bits of its packet then: `not-ect`, `ect-1`, `ect-0` or `ce`.
        ecn: Word(u32),
        /// Packets waiting after the event; missing for `deliver`, at the ends, and at links that are not
        /// in `record.packets`.
        length_packets: MaybeWhole(Option<u64>),
        /// The discipline's gauge `average` after the event; missing there, too, and if it has none.
        average: MaybeReal(Option<f64>),
    }
}

table! {
    /// A managed link over the measured time, from the warm-up to the end.
    LinkRow as "links" {
        /// The link.
        link: Word(u32),
        /// Its rate; of a line that changes, the mean of what it could send in the measured time.
        rate_bps: Real(f64),
        /// Packets that arrived, the dropped ones included.
        arrivals: Whole(u64),
        /// Bytes that arrived.
        arrived_bytes: Whole(u64),
        /// Packets sent.
        departures: Whole(u64),
        /// Bytes sent.
        departed_bytes: Whole(u64),
        /// Packets dropped by the queue, and lost on the line after they were sent.
        drops: Whole(u64),
        /// Packets marked.
        marks: Whole(u64),
        /// Share of the time the line was sending; of a line that changes, what it sent of what it could.
        utilisation: Real(f64),
        /// Drops per arrival.
        drop_fraction: Real(f64),
        /// Marks per arrival.
        mark_fraction: Real(f64),
        /// Time average of the packets waiting.
        mean_queue_packets: Real(f64),
        /// Mean time a sent packet waited, by Little's law.
        mean_queue_delay_s: Real(f64),
        /// Share of arrivals at the very instant of another arrival or of a departure.
        tied_fraction: Real(f64),
    }
}

table! {
    /// A service class of a queue that has any (`htb`) over the measured time, from the warm-up to the end.
    ClassRow as "classes" {
        /// The link of the queue.
        link: Word(u32),
        /// The class.
        class: Word(u32),
        /// Packets that arrived, the dropped ones included.
        arrivals: Whole(u64),
        /// Packets that left.
        departures: Whole(u64),
        /// Bytes that left.
        departed_bytes: Whole(u64),
        /// Of those, sent with what another class lent.
        borrowed_bytes: Whole(u64),
        /// Packets dropped.
        drops: Whole(u64),
        /// Drops per arrival.
        drop_fraction: Real(f64),
        /// Rate at which the class sent.
        throughput_bps: Real(f64),
        /// Time average of the packets waiting.
        mean_queue_packets: Real(f64),
        /// Mean time a sent packet waited, by Little's law.
        mean_queue_delay_s: Real(f64),
    }
}

table! {
    /// What the client of a program sent: the way back of a flow whose way there is in `flows`.
    ///
    /// Only live runs with workloads of the kind `program` have this table. Counts are those after the warm-up.
    FromClientRow as "from_client" {
        /// Number of the flow.
        flow: Whole(u64),
        /// The workload it belongs to.
        traffic: Word(u32),
        /// Unique payload bytes that arrived in order after the warm-up (datagrams: bytes that arrived).
        delivered_bytes: Whole(u64),
        /// The same per second of the measured time.
        goodput_bps: Real(f64),
        /// Packets that the client sent, acknowledgements included.
        packets_sent: Whole(u64),
        /// Of those, dropped by queues.
        packets_dropped: Whole(u64),
        /// Of those, marked by queues.
        packets_marked: Whole(u64),
        /// Data segments sent again.
        retransmitted: Whole(u64),
        /// Datagrams that arrived after the warm-up; missing for connections.
        datagrams_received: MaybeWhole(Option<u64>),
        /// Mean time from the sending of a datagram to its arrival, of those that arrived after the warm-up;
        /// missing for connections.
        mean_delay_s: MaybeReal(Option<f64>),
    }
}

/// Every table, as documentation shows it.
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
        // Not of every run, so with a prefix, as the tables of other levels have one.
        TableDoc { name: "live.from_client", ..FromClientRow::DOC },
    ]
}
