//! `[tcp.connection]`: segments and their sizes, how a connection opens and closes, when an end gives up.
//!
//! W. Eddy, "Transmission Control Protocol (TCP)", RFC 9293, 2022; R. Braden, RFC 1122, 1989, section 4.2.3.

use aqm_net::{Size, Span, choices, parameters};

choices! {
    /// How long the last segment of a transfer is.
    pub enum LastSegment {
        /// As long as the data that is left.
        Exact = "exact",
        /// Full size, whatever is left (ns-2 counts whole segments).
        Padded = "padded",
    }
}

choices! {
    /// Whether the rest of the data waits that does not fill a segment.
    pub enum Nagle {
        /// It does not: the application disables the algorithm (`TCP_NODELAY`).
        Off = "off",
        /// It waits until all that was sent is acknowledged, unless more data fills the segment; the FIN
        /// waits with it (J. Nagle, RFC 896; RFC 9293, 3.7.4).
        On = "on",
    }
}

choices! {
    /// How a connection opens.
    pub enum Handshake {
        /// SYN, SYN-ACK and an acknowledgement, each sent again until it is answered (RFC 9293, 3.5).
        ThreeWay = "three-way",
        /// SYN and its answer: the passive end keeps no state and no timer (ns-2's one-way TCP).
        TwoWay = "two-way",
        /// Data flows at once.
        None = "none",
    }
}

choices! {
    /// How the acknowledgement travels that ends a three-way handshake.
    pub enum HandshakeAck {
        /// On the first data, if there is some to send at once.
        WithData = "with-data",
        /// As a packet of its own before the data (ns-3).
        Alone = "alone",
    }
}

choices! {
    /// What a SYN does that comes again to the end that has answered it.
    pub enum RepeatedSyn {
        /// It is answered again.
        Answered = "answered",
        /// It is answered again, and the timer of the answer starts anew (Linux: `tcp_check_req`).
        Restarts = "restarts",
        /// Nothing: the timer of the answer is enough (ns-2's FullTcp).
        Ignored = "ignored",
    }
}

choices! {
    /// How a connection closes.
    pub enum Close {
        /// Each end sends a FIN behind its data, again until it is acknowledged (RFC 9293, 3.6).
        Fin = "fin",
        /// It ends when all data is acknowledged (ns-2's one-way TCP).
        None = "none",
    }
}

choices! {
    /// How the acknowledgement travels of the FIN that makes an end close, too.
    pub enum FinAck {
        /// On what that end still has to send, its own FIN if no more.
        WithData = "with-data",
        /// As a packet of its own before: the acknowledgement leaves at once, and the application closes
        /// after (Linux; ns-2's FullTcp).
        Alone = "alone",
    }
}

parameters! {
    /// Segments, opening and closing (RFC 9293).
    pub struct Connection {
        /// Payload of a full segment (`SMSS`). A queue whose limit is in packets counts a short segment like a
        /// long one, so that shorter segments make it a smaller buffer.
        pub mss: Size = Size::from_bytes(1460), "RFC 9293, 3.7.1: 1500 less 40";
        /// Header of a data segment, IP included: bytes that lines and queues carry beside the payload.
        pub header: Size = Size::from_bytes(40), "RFC 791, RFC 9293: 20 each, no options";
        /// A SYN or a bare FIN on the wire.
        pub syn_size: Size = Size::from_bytes(40), "as `header`";
        /// An acknowledgement on the wire, a SYN-ACK too.
        pub ack_size: Size = Size::from_bytes(40), "as `header`";
        /// How long the last segment is.
        pub last_segment: LastSegment = LastSegment::Exact, "RFC 9293";
        /// Whether the rest of the data waits that does not fill a segment. Linux holds it only while an
        /// earlier segment of that kind is not acknowledged, and never with a FIN (G. Minshall's form of the
        /// algorithm): never what these workloads write, so its profiles are as if it were off.
        pub nagle: Nagle = Nagle::Off, "ours: RFC 9293, 3.7.4, lets applications disable it";
        /// What the window allows is sent after a time uniform on [0, `send_overhead`], together with what
        /// it allows meanwhile; fast retransmissions and limited transmit do not wait. It breaks the phase
        /// effects of equal round-trip times at the sender; much more than the time of a packet on the line slows
        /// the sender down.
        pub send_overhead: Span = Span::ZERO, "ns-2: `overhead_`";
        /// How a connection opens.
        pub handshake: Handshake = Handshake::ThreeWay, "RFC 9293, 3.5";
        /// How the acknowledgement travels that ends a three-way handshake.
        pub handshake_ack: HandshakeAck = HandshakeAck::WithData, "RFC 9293, 3.10.7.3: data may go with it";
        /// What a SYN does that comes again in a three-way handshake.
        pub repeated_syn: RepeatedSyn = RepeatedSyn::Answered, "RFC 9293, 3.10.7.4: at least acknowledged; ours";
        /// How a connection closes.
        pub close: Close = Close::Fin, "RFC 9293, 3.6";
        /// How the acknowledgement travels of the FIN that makes an end close, too.
        pub fin_ack: FinAck = FinAck::WithData, "RFC 9293, 3.10.7.4: it may go with data; ours for a FIN";
        /// How often a SYN is sent again before the sender gives up; `none`: for ever. With few, transfers fail
        /// where losses are heavy.
        pub max_syn_retries: Option<u32> = Some(7), "RFC 1122, 4.2.3.5: at least 3 minutes";
        /// How often data is sent again by the timer, with no progress, before the sender gives up; `none`: for
        /// ever.
        pub max_retries: Option<u32> = Some(15), "Linux `tcp_retries2`; RFC 1122: at least 100 s";
    }
}
