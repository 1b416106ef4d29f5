//! `[tcp.connection]`: segment sizes, the opening and closing of connections, and the maximum number of retries.
//!
//! W. Eddy, "Transmission Control Protocol (TCP)", RFC 9293, 2022; R. Braden, RFC 1122, 1989, section 4.2.3.

use aqm_net::{Size, Span, choices, parameters};

choices! {
    /// Size of the last segment of a transfer.
    pub enum LastSegment {
        /// The size of the remaining data.
        Exact = "exact",
        /// The size of a full segment (ns-2 counts whole segments).
        Padded = "padded",
    }
}

choices! {
    /// Nagle's algorithm, which delays data that does not fill a segment.
    pub enum Nagle {
        /// No delay. The application disables Nagle's algorithm (`TCP_NODELAY`).
        Off = "off",
        /// A partial segment, and a FIN that follows it, are delayed until all previously sent data is acknowledged
        /// or until more data fills the segment (J. Nagle, RFC 896; RFC 9293, 3.7.4).
        On = "on",
    }
}

choices! {
    /// Handshake that opens a connection.
    pub enum Handshake {
        /// SYN, SYN-ACK and acknowledgement. SYN and SYN-ACK are retransmitted until they are acknowledged (RFC 9293,
        /// 3.5).
        ThreeWay = "three-way",
        /// SYN and SYN-ACK. The passive endpoint keeps no state and runs no timer (ns-2's one-way TCP).
        TwoWay = "two-way",
        /// No handshake. Data is sent immediately.
        None = "none",
    }
}

choices! {
    /// Segment that carries the last acknowledgement of a three-way handshake.
    pub enum HandshakeAck {
        /// The first data segment, if data can be sent immediately.
        WithData = "with-data",
        /// A separate packet, which is sent before the data (ns-3).
        Alone = "alone",
    }
}

choices! {
    /// Response to a retransmitted SYN.
    pub enum RepeatedSyn {
        /// The endpoint retransmits its SYN-ACK or its acknowledgement.
        Answered = "answered",
        /// The endpoint retransmits its SYN-ACK and restarts the SYN-ACK's retransmission timer (Linux:
        /// `tcp_check_req`).
        Restarts = "restarts",
        /// No response. Only the retransmission timer of the SYN-ACK triggers a retransmission (ns-2's FullTcp).
        Ignored = "ignored",
    }
}

choices! {
    /// How connections are closed.
    pub enum Close {
        /// Each endpoint sends a FIN after its data, and retransmits the FIN until it is acknowledged (RFC 9293, 3.6).
        Fin = "fin",
        /// The connection ends when all data is acknowledged (ns-2's one-way TCP).
        None = "none",
    }
}

choices! {
    /// Segment that acknowledges the other endpoint's FIN, if the local endpoint responds to the FIN by closing.
    pub enum FinAck {
        /// The local endpoint's next data segment, or its FIN if no data remains.
        WithData = "with-data",
        /// A separate packet. The acknowledgement is sent immediately, and the application closes the connection
        /// afterwards (Linux; ns-2's FullTcp).
        Alone = "alone",
    }
}

parameters! {
    /// Segment sizes, and the opening and closing of connections (RFC 9293).
    pub struct Connection {
        /// Payload of a full segment (`SMSS`). A queue whose limit is in packets counts short and long segments alike,
        /// so smaller segments reduce the number of bytes that fit into the queue.
        pub mss: Size = Size::from_bytes(1460), "RFC 9293, 3.7.1: 1500 minus 40";
        /// Size of the header of a data segment, including the IP header. Links and queues carry the header in addition
        /// to the payload.
        pub header: Size = Size::from_bytes(40), "RFC 791, RFC 9293: 20 B each, no options";
        /// Size on the wire of a SYN or of a FIN without data.
        pub syn_size: Size = Size::from_bytes(40), "as `header`";
        /// Size on the wire of an acknowledgement and, unless `syn_ack_size` is set, of a SYN-ACK.
        pub ack_size: Size = Size::from_bytes(40), "as `header`";
        /// Size on the wire of a SYN-ACK, or of QUIC's first packet from the server; by default, `ack_size`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub syn_ack_size: Option<Size> = None, "RFC 9293, 3.1: a header";
        /// Size of the last segment of a transfer.
        pub last_segment: LastSegment = LastSegment::Exact, "RFC 9293";
        /// Nagle's algorithm. Linux uses G. Minshall's variant, which delays data only while an earlier partial segment
        /// is unacknowledged, and never delays a FIN. aqmlab's workloads never write data in a pattern that Minshall's
        /// variant would delay, so the Linux profiles use `off`.
        pub nagle: Nagle = Nagle::Off, "aqmlab's choice: RFC 9293, 3.7.4, allows applications to disable the algorithm";
        /// Maximum random delay before segments are sent. Segments that the window permits are sent after a delay that
        /// is uniformly distributed on [0, `send_overhead`], together with the segments that the window permits in the
        /// meantime. Fast retransmissions and segments sent by limited transmit are not delayed. The delay breaks phase
        /// effects between senders with equal round-trip times. A delay that is much longer than the transmission time
        /// of a packet slows the sender down.
        pub send_overhead: Span = Span::ZERO, "ns-2: `overhead_`";
        /// Handshake that opens a connection.
        pub handshake: Handshake = Handshake::ThreeWay, "RFC 9293, 3.5";
        /// Segment that carries the last acknowledgement of a three-way handshake.
        pub handshake_ack: HandshakeAck = HandshakeAck::WithData, "RFC 9293, 3.10.7.3: the acknowledgement may carry data";
        /// Response to a retransmitted SYN in a three-way handshake.
        pub repeated_syn: RepeatedSyn = RepeatedSyn::Answered, "aqmlab's choice; RFC 9293, 3.10.7.4: at least an acknowledgement";
        /// How connections are closed.
        pub close: Close = Close::Fin, "RFC 9293, 3.6";
        /// Segment that acknowledges the other endpoint's FIN, if the local endpoint responds to the FIN by closing.
        pub fin_ack: FinAck = FinAck::WithData, "RFC 9293, 3.10.7.4: the acknowledgement may carry data; for a FIN, aqmlab's choice";
        /// Maximum number of SYN retransmissions before the sender gives up; `none` means no limit. If the maximum is
        /// low, transfers fail on paths with heavy loss.
        pub max_syn_retries: Option<u32> = Some(7), "RFC 1122, 4.2.3.5: at least 3 minutes";
        /// Maximum number of consecutive timeouts without progress before the sender gives up; `none` means no limit.
        pub max_retries: Option<u32> = Some(15), "Linux `tcp_retries2`; RFC 1122: at least 100 s";
    }
}
