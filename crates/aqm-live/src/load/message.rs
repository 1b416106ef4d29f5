//! The formats of requests and responses that have a given number of bytes on the connection, including headers.
//!
//! A response consists of the status line `HTTP/1.1 200 OK`, the header `content-length`, and a body. A response can
//! have any number of bytes from 38 on. If no number of digits in `content-length` yields exactly the required length,
//! the response has an additional empty header. A request is a GET with a path of suitable length, and can have any
//! number of bytes from 26 plus the length of `host` on. A request of more than 8 KiB is a POST with a body, because
//! servers reject long headers.
//!
//! aqmlab's choice: if a workload requests a message that is shorter than the shortest possible message, the shortest
//! possible message is sent.

/// Length of the shortest response.
pub(super) const SHORTEST_RESPONSE: u64 = 38;

/// Maximum length of a request without a body.
const LONGEST_HEAD: u64 = 8192;

/// Bytes of `HTTP/1.1 200 OK`, `content-length: `, and three line ends.
const RESPONSE_HEAD: u64 = 17 + 16 + 2 + 2;

/// Bytes of an empty header with a name of one letter: `x: ` and a line end.
const EMPTY_HEADER: u64 = 5;

/// Bytes of `GET / HTTP/1.1`, `host: `, and three line ends.
const GET_HEAD: u64 = 16 + 6 + 2 + 2;

/// Bytes of `POST / HTTP/1.1`, `host: `, `content-length: `, and four line ends.
const POST_HEAD: u64 = 17 + 6 + 2 + 16 + 2 + 2;

/// The format of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResponseShape {
    /// Bytes of the body.
    pub(super) body: u64,
    /// Whether the response has an additional empty header.
    pub(super) padded: bool,
}

impl ResponseShape {
    /// Returns the format of a response with `bytes` bytes.
    pub(super) fn of(bytes: u64) -> Self {
        let padded = || body_for(bytes, RESPONSE_HEAD + EMPTY_HEADER).map(|body| Self { body, padded: true });
        let plain = body_for(bytes, RESPONSE_HEAD).map(|body| Self { body, padded: false });
        plain.or_else(padded).unwrap_or(Self { body: 0, padded: false })
    }
}

/// The format of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestShape {
    /// Number of characters of the path after the first `/`.
    pub(super) path: usize,
    /// Bytes of the body, if the request is a POST.
    pub(super) body: Option<u64>,
}

impl RequestShape {
    /// Returns the format of a request with `bytes` bytes to a host whose name has `host` bytes.
    pub(super) fn of(bytes: u64, host: usize) -> Self {
        let host = host as u64;
        if bytes <= LONGEST_HEAD {
            return Self { path: bytes.saturating_sub(GET_HEAD + host) as usize, body: None };
        }
        // If no number of digits yields exactly the required length, the path gets an additional character.
        let with_path = |path: u64| {
            body_for(bytes, POST_HEAD + host + path)
                .map(|body| Self { path: path as usize, body: Some(body) })
        };
        with_path(0).or_else(|| with_path(1)).unwrap_or(Self { path: 0, body: Some(bytes) })
    }
}

/// Returns the length of the shortest request to a host whose name has `host` bytes.
pub(super) fn shortest_request(host: usize) -> u64 {
    GET_HEAD + host as u64
}

/// Returns the body length of a message with `bytes` bytes in total. `head` is the length of the header without the
/// digits of the body length. Returns `None` if no body length yields exactly `bytes` bytes.
fn body_for(bytes: u64, head: u64) -> Option<u64> {
    (1..=20).find_map(|digits| bytes.checked_sub(head + digits).filter(|&body| count_digits(body) == digits))
}

fn count_digits(number: u64) -> u64 {
    u64::from(number.checked_ilog10().unwrap_or(0)) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_have_every_size_from_the_shortest_on() {
        let bytes = |shape: ResponseShape| {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", shape.body).len() as u64;
            head + if shape.padded { 5 } else { 0 } + shape.body
        };
        for size in (SHORTEST_RESPONSE..20_000).chain([1_000_042, 1_000_043, 1_000_044, 5_000_000_000]) {
            assert_eq!(bytes(ResponseShape::of(size)), size);
        }
        assert_eq!(bytes(ResponseShape::of(12)), SHORTEST_RESPONSE);
    }

    #[test]
    fn requests_have_every_size_from_the_shortest_on() {
        let host = "10.1.0.1:8080";
        let bytes = |shape: RequestShape| {
            let path = "x".repeat(shape.path);
            let (method, length) = match shape.body {
                None => ("GET", String::new()),
                Some(body) => ("POST", format!("content-length: {body}\r\n")),
            };
            let head = format!("{method} /{path} HTTP/1.1\r\nhost: {host}\r\n{length}\r\n");
            head.len() as u64 + shape.body.unwrap_or(0)
        };
        let shortest = shortest_request(host.len());
        for size in (shortest..20_000).chain(10_050..10_080).chain([100_064, 100_065, 1_000_000]) {
            assert_eq!(bytes(RequestShape::of(size, host.len())), size);
        }
        assert_eq!(bytes(RequestShape::of(1, host.len())), shortest);
    }
}
