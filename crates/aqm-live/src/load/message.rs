//! The formats of requests and responses whose length, including headers, is a given number of bytes.
//!
//! A response consists of the status line `HTTP/1.1 200 OK`, a `content-length` header, and a body. The length of a
//! response can be any number of bytes that is at least 38. If the required length cannot be reached exactly with any
//! number of digits in `content-length`, the response contains an additional empty header. A request is a GET with a
//! path of suitable length. The length of a request can be any number of bytes that is at least 26 plus the length of
//! `host`. A request longer than 8 KiB is a POST with a body, because servers reject long headers.
//!
//! aqmlab's choice: if a workload requests a message that is shorter than the shortest possible message, the shortest
//! possible message is sent.

/// Length of the shortest response.
pub(super) const SHORTEST_RESPONSE: u64 = 38;

/// Maximum length of a request without a body.
const LONGEST_HEAD: u64 = 8192;

/// Number of bytes in `HTTP/1.1 200 OK`, `content-length: ` and three line ends.
const RESPONSE_HEAD: u64 = 17 + 16 + 2 + 2;

/// Number of bytes in an empty header whose name is a single letter: `x: ` and a line end.
const EMPTY_HEADER: u64 = 5;

/// Number of bytes in `GET / HTTP/1.1`, `host: ` and three line ends.
const GET_HEAD: u64 = 16 + 6 + 2 + 2;

/// Number of bytes in `POST / HTTP/1.1`, `host: `, `content-length: ` and four line ends.
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
    /// Returns the format of a response that is `bytes` bytes long.
    pub(super) fn of(bytes: u64) -> Self {
        let padded = || body_for(bytes, RESPONSE_HEAD + EMPTY_HEADER).map(|body| Self { body, padded: true });
        let plain = body_for(bytes, RESPONSE_HEAD).map(|body| Self { body, padded: false });
        plain.or_else(padded).unwrap_or(Self { body: 0, padded: false })
    }
}

/// The format of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestShape {
    /// Number of characters in the path after the first `/`.
    pub(super) path: usize,
    /// Bytes of the body, if the request is a POST.
    pub(super) body: Option<u64>,
}

impl RequestShape {
    /// Returns the format of a request that is `bytes` bytes long, to a host whose name is `host` bytes long.
    pub(super) fn of(bytes: u64, host: usize) -> Self {
        let host = host as u64;
        if bytes <= LONGEST_HEAD {
            return Self { path: bytes.saturating_sub(GET_HEAD + host) as usize, body: None };
        }
        // If the required length cannot be reached exactly with any number of digits, one character is added to the
        // path.
        let with_path = |path: u64| {
            body_for(bytes, POST_HEAD + host + path)
                .map(|body| Self { path: path as usize, body: Some(body) })
        };
        with_path(0).or_else(|| with_path(1)).unwrap_or(Self { path: 0, body: Some(bytes) })
    }
}

/// Returns the length of the shortest request to a host whose name is `host` bytes long.
pub(super) fn shortest_request(host: usize) -> u64 {
    GET_HEAD + host as u64
}

/// Returns the body length of a message whose total length is `bytes`. `head` is the length of the header without the
/// digits of the body length. Returns `None` if no body length results in exactly `bytes` bytes.
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
