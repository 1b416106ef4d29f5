//! `[tcp.connection]`: segment sizes, the opening and closing of connections, and the limits of retries.
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
    /// Nagle's algorithm: delay of data that does not fill a segment.
    pub enum Nagle {
        /// No delay: the application disables the algorithm (`TCP_NODELAY`).
        Off = "off",
        /// The data waits until all sent data is acknowledged or more data fills the segment; the FIN waits with it (J.
        /// Nagle, RFC 896; RFC 9293, 3.7.4).
        On = "on",
    }
}

choices! {
    /// Opening of a connection.
    pub enum Handshake {
        /// SYN, SYN-ACK and acknowledgement; SYN and SYN-ACK are repeated until they are answered (RFC 9293, 3.5).
        ThreeWay = "three-way",
        /// SYN and its answer; the passive endpoint keeps neither state nor timer (ns-2's one-way TCP).
        TwoWay = "two-way",
        /// No handshake: data is sent at once.
        None = "none",
    }
}

choices! {
    /// Transport of the acknowledgement that completes a three-way handshake.
    pub enum HandshakeAck {
        /// In the first data segment, if data can be sent at once.
        WithData = "with-data",
        /// In a separate packet before the data (ns-3).
        Alone = "alone",
    }
}

choices! {
    /// Response to a repeated SYN.
    pub enum RepeatedSyn {
        /// The endpoint repeats its answer.
        Answered = "answered",
        /// The endpoint repeats its answer and restarts the answer's timer (Linux: `tcp_check_req`).
        Restarts = "restarts",
        /// No response: only the timer of the answer triggers a retransmission (ns-2's FullTcp).
        Ignored = "ignored",
    }
}

choices! {
    /// Closing of a connection.
    pub enum Close {
        /// Each endpoint sends a FIN after its data and repeats it until it is acknowledged (RFC 9293, 3.6).
        Fin = "fin",
        /// The connection ends when all data is acknowledged (ns-2's one-way TCP).
        None = "none",
    }
}

choices! {
    /// Transport of the acknowledgement of a FIN to which the endpoint responds by closing.
    pub enum FinAck {
        /// In the endpoint's next data segment, or in its FIN if no data remains.
        WithData = "with-data",
        /// In a separate packet: the acknowledgement is sent at once, and the application closes afterwards (Linux;
        /// ns-2's FullTcp).
        Alone = "alone",
    }
}

parameters! {
    /// Segments, and the opening and closing of connections (RFC 9293).
    pub struct Connection {
        /// Payload of a full segment (`SMSS`). A queue whose limit is in packets counts a short segment like a long
        /// one, so that shorter segments make it a smaller buffer.
        pub mss: Size = Size::from_bytes(1460), "RFC 9293, 3.7.1: 1500 minus 40";
        /// Header of a data segment, including IP: bytes that links and queues carry in addition to the payload.
        pub header: Size = Size::from_bytes(40), "RFC 791, RFC 9293: 20 B each, no options";
        /// Size of a SYN or a FIN without data on the wire.
        pub syn_size: Size = Size::from_bytes(40), "as `header`";
        /// Size of an acknowledgement or a SYN-ACK on the wire.
        pub ack_size: Size = Size::from_bytes(40), "as `header`";
        /// Size of the last segment of a transfer.
        pub last_segment: LastSegment = LastSegment::Exact, "RFC 9293";
        /// Nagle's algorithm. Linux uses G. Minshall's variant, which delays data only while an earlier partial segment
        /// is unacknowledged, and never delays a FIN. aqmlab's workloads never write data that this variant delays, so
        /// the Linux profiles use `off`.
        pub nagle: Nagle = Nagle::Off, "aqmlab's choice: RFC 9293, 3.7.4, lets applications disable it";
        /// Maximum of a random delay before sending. Segments that the window permits are sent after a time uniform on
        /// [0, `send_overhead`], together with the segments permitted in the meantime. Fast retransmissions and limited
        /// transmit are not delayed. The delay breaks phase effects between senders with equal round-trip times; a
        /// delay much longer than the transmission time of a packet slows the sender down.
        pub send_overhead: Span = Span::ZERO, "ns-2: `overhead_`";
        /// Opening of a connection.
        pub handshake: Handshake = Handshake::ThreeWay, "RFC 9293, 3.5";
        /// Transport of the acknowledgement that completes a three-way handshake.
        pub handshake_ack: HandshakeAck = HandshakeAck::WithData, "RFC 9293, 3.10.7.3: the acknowledgement may carry data";
        /// Response to a repeated SYN in a three-way handshake.
        pub repeated_syn: RepeatedSyn = RepeatedSyn::Answered, "aqmlab's choice; RFC 9293, 3.10.7.4: at least an acknowledgement";
        /// Closing of a connection.
        pub close: Close = Close::Fin, "RFC 9293, 3.6";
        /// Transport of the acknowledgement of a FIN to which the endpoint responds by closing.
        pub fin_ack: FinAck = FinAck::WithData, "RFC 9293, 3.10.7.4: may carry data; for a FIN aqmlab's choice";
        /// Maximum number of SYN retransmissions before the sender gives up; `none`: no limit. With a low value,
        /// transfers fail on paths with heavy loss.
        pub max_syn_retries: Option<u32> = Some(7), "RFC 1122, 4.2.3.5: at least 3 minutes";
        /// Maximum number of consecutive timeouts without progress before the sender gives up; `none`: no limit.
        pub max_retries: Option<u32> = Some(15), "Linux `tcp_retries2`; RFC 1122: at least 100 s";
    }
}
