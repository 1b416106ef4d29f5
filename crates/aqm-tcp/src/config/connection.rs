//! `[tcp.connection]`: segment sizes, the opening and closing of connections, and the maximum numbers of retries.
//!
//! W. Eddy, "Transmission Control Protocol (TCP)", RFC 9293, 2022; R. Braden, RFC 1122, 1989, section 4.2.3.

use aqm_net::{Size, Span, choices, parameters};

choices! {
    /// Size of the last segment of a transfer.
    pub enum LastSegment {
        /// The remaining data.
        Exact = "exact",
        /// A full segment (ns-2 counts whole segments).
        Padded = "padded",
    }
}

choices! {
    /// Nagle's algorithm, which delays data that does not fill a segment.
    pub enum Nagle {
        /// No delay. The application disables the algorithm (`TCP_NODELAY`).
        Off = "off",
        /// The data and a FIN that follows it wait until all sent data is acknowledged or more data fills the segment
        /// (J. Nagle, RFC 896; RFC 9293, 3.7.4).
        On = "on",
    }
}

choices! {
    /// Handshake that opens a connection.
    pub enum Handshake {
        /// SYN, SYN-ACK and acknowledgement. SYN and SYN-ACK are retransmitted until they are acknowledged (RFC 9293,
        /// 3.5).
        ThreeWay = "three-way",
        /// SYN and SYN-ACK. The passive endpoint keeps neither state nor timer (ns-2's one-way TCP).
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
        /// A separate packet before the data (ns-3).
        Alone = "alone",
    }
}

choices! {
    /// Response to a retransmitted SYN.
    pub enum RepeatedSyn {
        /// The endpoint retransmits its SYN-ACK or acknowledgement.
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
    /// Segment that acknowledges the other endpoint's FIN, if the endpoint responds to the FIN by closing.
    pub enum FinAck {
        /// The endpoint's next data segment, or its FIN if no data remains.
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
        /// so a smaller segment size makes such a queue a smaller buffer in bytes.
        pub mss: Size = Size::from_bytes(1460), "RFC 9293, 3.7.1: 1500 minus 40";
        /// Size of the header of a data segment, including the IP header. Links and queues carry these bytes in
        /// addition to the payload.
        pub header: Size = Size::from_bytes(40), "RFC 791, RFC 9293: 20 B each, no options";
        /// Size on the wire of a SYN or of a FIN without data.
        pub syn_size: Size = Size::from_bytes(40), "as `header`";
        /// Size on the wire of an acknowledgement or a SYN-ACK.
        pub ack_size: Size = Size::from_bytes(40), "as `header`";
        /// Size of the last segment of a transfer.
        pub last_segment: LastSegment = LastSegment::Exact, "RFC 9293";
        /// Nagle's algorithm. Linux uses G. Minshall's variant, which delays data only while an earlier partial segment
        /// is unacknowledged, and never delays a FIN. aqmlab's workloads never write data in such a way that this
        /// variant delays data, so the Linux profiles use `off`.
        pub nagle: Nagle = Nagle::Off, "aqmlab's choice: RFC 9293, 3.7.4, allows applications to disable the algorithm";
        /// Maximum of a random delay before segments are sent. Segments that the window permits are sent after a delay
        /// that is uniform on [0, `send_overhead`], together with the segments that the window permits in the meantime.
        /// Fast retransmissions and segments sent by limited transmit are not delayed. The delay breaks phase effects
        /// between senders with equal round-trip times. A delay that is much longer than the transmission time of a
        /// packet slows the sender down.
        pub send_overhead: Span = Span::ZERO, "ns-2: `overhead_`";
        /// Handshake that opens a connection.
        pub handshake: Handshake = Handshake::ThreeWay, "RFC 9293, 3.5";
        /// Segment that carries the last acknowledgement of a three-way handshake.
        pub handshake_ack: HandshakeAck = HandshakeAck::WithData, "RFC 9293, 3.10.7.3: the acknowledgement may carry data";
        /// Response to a retransmitted SYN in a three-way handshake.
        pub repeated_syn: RepeatedSyn = RepeatedSyn::Answered, "aqmlab's choice; RFC 9293, 3.10.7.4: at least an acknowledgement";
        /// How connections are closed.
        pub close: Close = Close::Fin, "RFC 9293, 3.6";
        /// Segment that acknowledges the other endpoint's FIN, if the endpoint responds to the FIN by closing.
        pub fin_ack: FinAck = FinAck::WithData, "RFC 9293, 3.10.7.4: the acknowledgement may carry data; for a FIN, aqmlab's choice";
        /// Maximum number of SYN retransmissions before the sender gives up; `none` means no limit. With a low maximum,
        /// transfers fail on paths with heavy loss.
        pub max_syn_retries: Option<u32> = Some(7), "RFC 1122, 4.2.3.5: at least 3 minutes";
        /// Maximum number of consecutive timeouts without progress before the sender gives up; `none` means no limit.
        pub max_retries: Option<u32> = Some(15), "Linux `tcp_retries2`; RFC 1122: at least 100 s";
    }
}
