//! How a request or a response is made so long that it has a wanted number of bytes on the connection, headers
//! included.
//!
//! A response is `HTTP/1.1 200 OK` with `content-length` and nothing else: any number of bytes from 38 on. Where the
//! digits of the length leave a gap, an empty header fills it. A request is a GET whose path is as long as it takes,
//! from 26 bytes and the `host` on; one of more than 8 KiB is a POST with a body, because servers refuse long
//! headers.
//!
//! Ours: a message that is to be shorter than its shortest form has that form.

/// The shortest response.
pub(super) const SHORTEST_RESPONSE: u64 = 38;

/// From here on a request has a body.
const LONGEST_HEAD: u64 = 8192;

/// `HTTP/1.1 200 OK`, `content-length: `, and the three ends of lines.
const RESPONSE_HEAD: u64 = 17 + 16 + 2 + 2;

/// An empty header of one letter: `x: `, and its end of line.
const EMPTY_HEADER: u64 = 5;

/// `GET / HTTP/1.1`, `host: `, and the three ends of lines.
const GET_HEAD: u64 = 16 + 6 + 2 + 2;

/// `POST / HTTP/1.1`, `host: `, `content-length: `, and the four ends of lines.
const POST_HEAD: u64 = 17 + 6 + 2 + 16 + 2 + 2;

/// How a response is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResponseShape {
    /// Bytes of the body.
    pub(super) body: u64,
    /// Whether there is an empty header.
    pub(super) padded: bool,
}

impl ResponseShape {
    /// A response of `bytes`.
    pub(super) fn of(bytes: u64) -> Self {
        let padded = || body_for(bytes, RESPONSE_HEAD + EMPTY_HEADER).map(|body| Self { body, padded: true });
        let plain = body_for(bytes, RESPONSE_HEAD).map(|body| Self { body, padded: false });
        plain.or_else(padded).unwrap_or(Self { body: 0, padded: false })
    }
}

/// How a request is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestShape {
    /// Characters of the path behind the first `/`.
    pub(super) path: usize,
    /// Bytes of the body, if it is a POST.
    pub(super) body: Option<u64>,
}

impl RequestShape {
    /// A request of `bytes` to a host whose name has so many bytes.
    pub(super) fn of(bytes: u64, host: usize) -> Self {
        let host = host as u64;
        if bytes <= LONGEST_HEAD {
            return Self { path: bytes.saturating_sub(GET_HEAD + host) as usize, body: None };
        }
        // One more character closes any gap that the digits leave.
        let with_path = |path: u64| {
            body_for(bytes, POST_HEAD + host + path)
                .map(|body| Self { path: path as usize, body: Some(body) })
        };
        with_path(0).or_else(|| with_path(1)).unwrap_or(Self { path: 0, body: Some(bytes) })
    }
}

/// The shortest request to a host whose name has so many bytes.
pub(super) fn shortest_request(host: usize) -> u64 {
    GET_HEAD + host as u64
}

/// The body with which a message has `bytes`, if its head has `head` and the digits of the body's length.
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
    fn every_size_of_a_response_from_the_shortest_on_is_met() {
        let bytes = |shape: ResponseShape| {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", shape.body).len() as u64;
            head + if shape.padded { 5 } else { 0 } + shape.body
        };
        for wanted in (SHORTEST_RESPONSE..20_000).chain([1_000_042, 1_000_043, 1_000_044, 5_000_000_000]) {
            assert_eq!(bytes(ResponseShape::of(wanted)), wanted);
        }
        assert_eq!(bytes(ResponseShape::of(12)), SHORTEST_RESPONSE);
    }

    #[test]
    fn every_size_of_a_request_from_the_shortest_on_is_met() {
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
        for wanted in (shortest..20_000).chain(10_050..10_080).chain([100_064, 100_065, 1_000_000]) {
            assert_eq!(bytes(RequestShape::of(wanted, host.len())), wanted);
        }
        assert_eq!(bytes(RequestShape::of(1, host.len())), shortest);
    }
}
