//! The versions of HTTP over which a client fetches a page, and the order in which the server sends the objects of a
//! page.
//!
//! R. Fielding, M. Nottingham, J. Reschke, "HTTP/1.1", RFC 9112, 2022; M. Thomson, C. Benfield, "HTTP/2", RFC 9113,
//! 2022; M. Bishop, "HTTP/3", RFC 9114, 2022.
//!
//! aqmlab's choices: the headers of frames are not modelled; a request and its response have the sizes that the scenario
//! specifies; the client requests all objects of a page when the connection is open.

use aqm_net::{ConfigError, Size, choices, parameters};

use crate::Exchange;

/// Maximum number of connections per page. A larger number is assumed to be a typing error.
const MAX_CONNECTIONS: u32 = 1000;
/// Number of connections of a browser to one server with HTTP/1.1 (RFC 7928, section 7.2).
const BROWSER_CONNECTIONS: u32 = 6;
/// Sizes of TLS 1.3 messages, in bytes: the client's first flight, and the server's flight with a certificate chain.
pub(crate) const CLIENT_HELLO: u64 = 517;
pub(crate) const SERVER_FLIGHT: u64 = 3000;

/// Urgency of a response whose request does not specify an urgency (RFC 9218, section 4.1).
pub(crate) const DEFAULT_URGENCY: u8 = 3;

choices! {
    /// Version of HTTP.
    pub enum Version {
        /// HTTP/1.1: a few persistent connections, over each of which one object is fetched at a time (RFC 9112).
        One = "1.1",
        /// HTTP/2: all objects over one TCP connection. A lost segment delays all objects whose data follows the
        /// segment (RFC 9113).
        Two = "2",
        /// HTTP/3: all objects over one QUIC connection. A lost packet delays only the objects whose data the packet
        /// carried (RFC 9114). Requires a transport with `recovery.kind = "quic"`, for example the profile `quic`.
        Three = "3",
    }
}

choices! {
    /// Order in which a server sends the objects that a client has requested over the same connection.
    pub enum Priority {
        /// In the order of the requests: each object is sent completely before the next object.
        InOrder = "in-order",
        /// One packet of each object in turn.
        RoundRobin = "round-robin",
    }
}

parameters! {
    /// Version of HTTP, and the properties of its connections.
    pub struct Http {
        /// Version of HTTP. With `1.1`, a client uses `connections` persistent connections (by default 6); with `2` and
        /// `3`, one connection that carries all objects of a page. By default, `connections` determines how objects are
        /// fetched.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub http: Option<Version> = None, "aqmlab's choice: the papers' workloads use a connection for each object";
        /// Order in which the server sends the objects of a page (HTTP/2 and HTTP/3 only). By default, `in-order`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub priority: Option<Priority> = None, "RFC 9218, section 10: non-incremental responses of equal urgency in order of request";
        /// Whether a TLS 1.3 handshake precedes the first request of a connection. Over TCP, the handshake takes one
        /// further round trip: the client sends 517 B, and the server sends 3000 B. In QUIC, the handshake of the
        /// connection includes TLS. Requires persistent connections.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub tls: bool = false, "aqmlab's choice; sizes: RFC 8446, RFC 7685 (517 B), a chain of two certificates with ECDSA keys";
    }
}

/// The property of a transport that a version of HTTP requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportNeed {
    /// The transport delivers the bytes of a connection in order (TCP).
    Bytes,
    /// The transport delivers the bytes of each stream in order, independently of other streams (QUIC).
    Streams,
}

/// How a client fetches the objects of a page over persistent connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Persistence {
    /// Maximum number of connections per page.
    pub connections: u32,
    /// Order in which the server sends the objects if one connection carries all objects of a page at the same time;
    /// `None` if each connection carries one object at a time.
    pub streams: Option<Priority>,
    /// TLS handshake that precedes the first request.
    pub handshake: Option<Exchange>,
}

impl Http {
    /// Returns how objects are fetched; `None` if each object has its own connection. `connections` and `request` are
    /// the values of the workload's parameters.
    ///
    /// # Errors
    /// Returns an error if the parameters contradict each other.
    pub(crate) fn persistence(
        &self,
        connections: Option<u32>,
        request: Option<Size>,
    ) -> Result<Option<Persistence>, ConfigError> {
        let multiplexes = matches!(self.http, Some(Version::Two | Version::Three));
        if let Some(number) = connections {
            let problem = format_args!("must be between 1 and {MAX_CONNECTIONS} (got {number})");
            ConfigError::unless((1..=MAX_CONNECTIONS).contains(&number), "connections", problem)?;
            let problem =
                "has no effect with HTTP/2 and HTTP/3, which use one connection: remove `connections`";
            ConfigError::unless(!multiplexes, "connections", problem)?;
        }
        let problem = "HTTP/1.1 has no priorities: set `http` to 2 or 3, or remove `priority`";
        ConfigError::unless(self.priority.is_none() || multiplexes, "priority", problem)?;
        let connections = match self.http {
            None => connections,
            Some(Version::One) => Some(connections.unwrap_or(BROWSER_CONNECTIONS)),
            Some(Version::Two | Version::Three) => Some(1),
        };
        let problem = "requires persistent connections: set `http`";
        ConfigError::unless(!self.tls || connections.is_some(), "tls", problem)?;
        let problem = "is missing: with persistent connections, the client sends a request for each object";
        ConfigError::unless(connections.is_none() || request.is_some(), "request", problem)?;
        Ok(connections.map(|connections| Persistence {
            connections,
            streams: multiplexes.then(|| self.priority.unwrap_or(Priority::InOrder)),
            handshake: self.tls.then(|| Exchange::immediate(CLIENT_HELLO, SERVER_FLIGHT)),
        }))
    }

    /// Returns the properties that a transport must have.
    pub(crate) fn transport(&self) -> Option<TransportNeed> {
        self.http.map(|version| match version {
            Version::One | Version::Two => TransportNeed::Bytes,
            Version::Three => TransportNeed::Streams,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(http: Option<Version>) -> Http {
        Http { http, ..Http::default() }
    }

    fn request() -> Option<Size> {
        Some(Size::from_bytes(300))
    }

    #[test]
    fn a_version_determines_the_connections() {
        let persistence = |http, connections| of(http).persistence(connections, request()).unwrap();
        assert_eq!(persistence(None, None), None);
        let sequential = |connections| Some(Persistence { connections, streams: None, handshake: None });
        assert_eq!(persistence(None, Some(3)), sequential(3));
        assert_eq!(persistence(Some(Version::One), None), sequential(6));
        assert_eq!(persistence(Some(Version::One), Some(2)), sequential(2));
        for version in [Version::Two, Version::Three] {
            let found = persistence(Some(version), None).unwrap();
            assert_eq!((found.connections, found.streams), (1, Some(Priority::InOrder)));
        }
    }

    #[test]
    fn contradictions_are_rejected() {
        let path =
            |http: &Http, connections, request| http.persistence(connections, request).unwrap_err().path;
        assert_eq!(path(&of(Some(Version::Two)), Some(6), request()), "connections");
        assert_eq!(path(&of(None), Some(0), request()), "connections");
        assert_eq!(path(&of(None), Some(1001), request()), "connections");
        assert_eq!(path(&of(Some(Version::Three)), None, None), "request");
        for http in [Some(Version::One), None] {
            let wrong = Http { priority: Some(Priority::RoundRobin), ..of(http) };
            assert_eq!(path(&wrong, None, request()), "priority");
        }
        assert_eq!(path(&Http { tls: true, ..of(None) }, None, request()), "tls");
    }
}
