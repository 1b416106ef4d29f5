//! Frames, with which guests in other programs exchange requests and answers over a pipe.
//!
//! A frame consists of the length of its body (4 bytes) and the body. All numbers are little-endian. The first byte of a
//! body is its kind. A time is a number of nanoseconds (8 bytes); the time 2^64 - 1 means *never*.
//!
//! | Body | Contents |
//! | --- | --- |
//! | start (1) | version of the contract (2 bytes), end (1 byte: 0 client, 1 server), seed (8 bytes), configuration (UTF-8 text, the rest of the body) |
//! | run (2) | time, number of datagrams (4 bytes), datagrams |
//! | stop (3) | nothing |
//! | started (129) | time of the first wake-up |
//! | answer (130) | time of the request, time of the next wake-up, number of datagrams (4 bytes), datagrams, number of events (4 bytes), events |
//! | stopped (131) | nothing |
//! | error (255) | description (UTF-8 text, the rest of the body) |
//!
//! A datagram consists of the number of the flow (4 bytes), the two ECN bits of the IP header (1 byte: 0 Not-ECT, 1 ECT(1),
//! 2 ECT(0), 3 CE), the length of its contents (2 bytes) and the contents. An event consists of the length of its name
//! (1 byte), the name (UTF-8 text), and the value (8 bytes, IEEE 754).

use std::io::{self, Read, Write};

use aqm_net::{Ecn, Instant};

use crate::{Answer, End, Event, Guest, Payload, Problem, Start, VERSION};

/// Maximum length of a body in bytes: 10,000 datagrams of the maximum length need less.
pub const LONGEST: usize = 1 << 30;

/// Length of the prefix that contains the length of the body.
pub const PREFIX: usize = 4;

const START: u8 = 1;
const RUN: u8 = 2;
const STOP: u8 = 3;
const STARTED: u8 = 129;
const ANSWER: u8 = 130;
const STOPPED: u8 = 131;
const ERROR: u8 = 255;

/// Returns the frame of a request to start.
pub fn start(start: &Start) -> Vec<u8> {
    frame(START, |body| {
        body.extend(VERSION.to_le_bytes());
        body.push(start.end as u8);
        body.extend(start.seed.to_le_bytes());
        body.extend(start.config.as_bytes());
    })
}

/// Returns the frame of a request to run.
pub fn run(now: Instant, received: &[Payload]) -> Vec<u8> {
    frame(RUN, |body| {
        body.extend(now.nanos().to_le_bytes());
        write_datagrams(body, received);
    })
}

/// Returns the frame of a request to stop.
pub fn stop() -> Vec<u8> {
    frame(STOP, |_| {})
}

/// Returns the time of the first wake-up, from the body of the answer to a request to start.
///
/// # Errors
/// Returns an error if the body is invalid, or the error that the guest reports.
pub fn read_started(body: &[u8]) -> Result<Option<Instant>, Problem> {
    read_reply(body, STARTED, |body| body.time())
}

/// Returns the answer to a request to run at `now`, from the body of the answer.
///
/// # Errors
/// Returns an error if the body is invalid or is an answer for another time, or the error that the guest reports.
pub fn read_answer(body: &[u8], now: Instant) -> Result<Answer, Problem> {
    let (at, answer) = read_reply(body, ANSWER, |body| {
        let at = body.time()?.unwrap_or(Instant::NEVER);
        let wake = body.time()?;
        let datagrams = body.datagrams()?;
        let count = body.number()?;
        let mut events = Vec::new();
        for _ in 0..count {
            let length = body.byte()?;
            let name = text(body.bytes(length.into())?)?;
            events.push(Event { name, value: f64::from_le_bytes(body.array()?) });
        }
        Ok((at, Answer { datagrams, wake, events }))
    })?;
    if at == now { Ok(answer) } else { Err(Problem::OtherTime(at)) }
}

/// Reads the body of the answer to a request to stop.
///
/// # Errors
/// Returns an error if the body is invalid, or the error that the guest reports.
pub fn read_stopped(body: &[u8]) -> Result<(), Problem> {
    read_reply(body, STOPPED, |_| Ok(()))
}

/// Reads the body of an answer, which must have the given kind unless the guest reports an error.
fn read_reply<T>(
    body: &[u8],
    expected: u8,
    read: impl FnOnce(&mut Body<'_>) -> Result<T, String>,
) -> Result<T, Problem> {
    let mut body = Body(body);
    let kind = body.byte().map_err(Problem::Frame)?;
    if kind == ERROR {
        return Err(text(body.rest()).map_or_else(Problem::Frame, Problem::Error));
    }
    if kind != expected {
        return Err(Problem::Frame(format!("the kind must be {expected} or {ERROR} (got {kind})")));
    }
    let value = read(&mut body).map_err(Problem::Frame)?;
    body.finish().map_err(Problem::Frame)?;
    Ok(value)
}

/// Calls a guest with the requests that it receives from `input` and writes answers to `output`, until the guest is stopped or the
/// input ends. A guest in a program of its own calls this function with standard input and standard output.
///
/// # Errors
/// Returns an error if the input or the output fails, or if a request is not valid.
pub fn serve(guest: &mut dyn Guest, input: &mut impl Read, output: &mut impl Write) -> io::Result<()> {
    loop {
        let mut prefix = [0; PREFIX];
        match input.read_exact(&mut prefix) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        }
        let length = u32::from_le_bytes(prefix) as usize;
        let invalid = |problem: String| io::Error::new(io::ErrorKind::InvalidData, problem);
        if length > LONGEST {
            return Err(invalid(format!("the body must contain at most {LONGEST} bytes (got {length})")));
        }
        let mut body = vec![0; length];
        input.read_exact(&mut body)?;
        let request = read_request(&body).map_err(invalid)?;
        let is_stop = matches!(request, Request::Stop);
        let reply = handle(guest, request)
            .unwrap_or_else(|problem| frame(ERROR, |body| body.extend(problem.to_string().as_bytes())));
        output.write_all(&reply)?;
        output.flush()?;
        if is_stop {
            return Ok(());
        }
    }
}

/// A request to a guest.
enum Request {
    Start(Start),
    Run(Instant, Vec<Payload>),
    Stop,
}

/// Calls a guest, and returns the frame of its answer.
fn handle(guest: &mut dyn Guest, request: Request) -> Result<Vec<u8>, Problem> {
    Ok(match request {
        Request::Start(start) => {
            let wake = guest.start(&start)?;
            frame(STARTED, |body| write_time(body, wake))
        }
        Request::Run(now, received) => {
            let Answer { datagrams, wake, events } = guest.run(now, received)?;
            frame(ANSWER, |body| {
                write_time(body, Some(now));
                write_time(body, wake);
                write_datagrams(body, &datagrams);
                body.extend((events.len() as u32).to_le_bytes());
                for Event { name, value } in events {
                    body.push(name.len().min(usize::from(u8::MAX)) as u8);
                    body.extend(&name.as_bytes()[..name.len().min(usize::from(u8::MAX))]);
                    body.extend(value.to_le_bytes());
                }
            })
        }
        Request::Stop => {
            guest.stop()?;
            frame(STOPPED, |_| {})
        }
    })
}

fn read_request(body: &[u8]) -> Result<Request, String> {
    let mut body = Body(body);
    let request = match body.byte()? {
        START => {
            let version = u16::from_le_bytes(body.array()?);
            if version != VERSION {
                return Err(format!("the version of the contract must be {VERSION} (got {version})"));
            }
            let number = body.byte()?;
            let end = End::ALL.get(usize::from(number)).copied();
            let end = end.ok_or_else(|| format!("the end must be 0 or 1 (got {number})"))?;
            let seed = u64::from_le_bytes(body.array()?);
            Request::Start(Start { end, seed, config: text(body.rest())? })
        }
        RUN => Request::Run(body.time()?.unwrap_or(Instant::NEVER), body.datagrams()?),
        STOP => Request::Stop,
        kind => return Err(format!("the kind must be 1, 2 or 3 (got {kind})")),
    };
    body.finish().map(|()| request)
}

fn frame(kind: u8, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = vec![0, 0, 0, 0, kind];
    write(&mut frame);
    let length = (frame.len() - PREFIX) as u32;
    frame[..PREFIX].copy_from_slice(&length.to_le_bytes());
    frame
}

fn write_time(body: &mut Vec<u8>, time: Option<Instant>) {
    body.extend(time.unwrap_or(Instant::NEVER).nanos().to_le_bytes());
}

fn write_datagrams(body: &mut Vec<u8>, datagrams: &[Payload]) {
    body.extend((datagrams.len() as u32).to_le_bytes());
    for Payload { flow, ecn, data } in datagrams {
        body.extend(flow.to_le_bytes());
        body.push(*ecn as u8);
        // A longer datagram is invalid.
        let length = data.len().min(usize::from(u16::MAX));
        body.extend((length as u16).to_le_bytes());
        body.extend(&data[..length]);
    }
}

fn text(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "a text is not UTF-8".to_owned())
}

/// The unread part of a body.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or("the body is too short")?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let bytes = self.bytes(N)?;
        let mut array = [0; N];
        array.copy_from_slice(bytes);
        Ok(array)
    }

    fn byte(&mut self) -> Result<u8, String> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn number(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    fn time(&mut self) -> Result<Option<Instant>, String> {
        let time = Instant::from_nanos(u64::from_le_bytes(self.array()?));
        Ok((time != Instant::NEVER).then_some(time))
    }

    fn datagrams(&mut self) -> Result<Vec<Payload>, String> {
        let count = self.number()?;
        let mut datagrams = Vec::new();
        for _ in 0..count {
            let flow = self.number()?;
            let ecn = match self.byte()? {
                0 => Ecn::NotEct,
                1 => Ecn::Ect1,
                2 => Ecn::Ect0,
                3 => Ecn::Ce,
                bits => return Err(format!("the ECN bits must be from 0 to 3 (got {bits})")),
            };
            let length = u16::from_le_bytes(self.array()?);
            datagrams.push(Payload { flow, ecn, data: self.bytes(length.into())?.to_vec() });
        }
        Ok(datagrams)
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    fn finish(&self) -> Result<(), String> {
        match self.0.len() {
            0 => Ok(()),
            rest => Err(format!("the body is longer than its contents by {rest} bytes")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::Echo;

    /// Returns the body of the echo guest's answer to a request.
    fn served(guest: &mut Echo, request: Vec<u8>) -> Vec<u8> {
        let mut answer = Vec::new();
        serve(guest, &mut Cursor::new(request), &mut answer).expect("a valid request");
        let length = u32::from_le_bytes(*answer.first_chunk().expect("a prefix"));
        assert_eq!(length as usize, answer.len() - PREFIX);
        answer.split_off(PREFIX)
    }

    #[test]
    fn answers_are_the_same_behind_frames() {
        let (mut direct, mut framed) = (Echo::default(), Echo::default());
        let begin = Start { end: End::Client, seed: 4, config: "{}".to_owned() };
        let mut wake = direct.start(&begin).unwrap();
        assert_eq!(read_started(&served(&mut framed, start(&begin))).unwrap(), wake);
        let mut received = Vec::new();
        for _ in 0..10 {
            let now = wake.expect("the client sends 100 datagrams");
            let answer = direct.run(now, received.clone()).unwrap();
            assert_eq!(read_answer(&served(&mut framed, run(now, &received)), now).unwrap(), answer);
            assert_eq!(answer.events.len(), received.len());
            (wake, received) = (answer.wake, answer.datagrams);
        }
        read_stopped(&served(&mut framed, stop())).unwrap();
    }

    #[test]
    fn frames_that_are_not_valid_answers_are_rejected() {
        let started = |body: &[u8]| read_started(body).unwrap_err().to_string();
        for (body, expected) in [
            (&[][..], "the frame is not a valid answer: the body is too short"),
            (&[1][..], "the frame is not a valid answer: the kind must be 129 or 255 (got 1)"),
            (&[129, 0, 0][..], "the frame is not a valid answer: the body is too short"),
            (
                &[129, 0, 0, 0, 0, 0, 0, 0, 0, 9][..],
                "the frame is not a valid answer: the body is longer than its contents by 1 bytes",
            ),
            (&[255, 0xff][..], "the frame is not a valid answer: a text is not UTF-8"),
            (&[255, b'n', b'o'][..], "no"),
        ] {
            assert_eq!(started(body), expected);
        }
        let late = [&[ANSWER][..], &4000_u64.to_le_bytes(), &[0xff; 8], &[0; 8]].concat();
        assert_eq!(
            read_answer(&late, Instant::from_nanos(5000)),
            Err(Problem::OtherTime(Instant::from_nanos(4000)))
        );
        let served = serve(&mut Echo::default(), &mut Cursor::new([0xff_u8; 4]), &mut Vec::new());
        let error = served.unwrap_err().to_string();
        assert_eq!(error, format!("the body must contain at most {LONGEST} bytes (got 4294967295)"));
    }

    proptest::proptest! {
        #[test]
        fn mangled_frames_never_cause_a_panic(
            body in proptest::collection::vec(proptest::num::u8::ANY, 0..60),
            kind in 128_u8..133,
        ) {
            let typed = [&[kind][..], &body].concat();
            for body in [&body, &typed] {
                let _ = read_started(body);
                let _ = read_answer(body, Instant::START);
                let _ = read_stopped(body);
                let frame = [&(body.len() as u32).to_le_bytes()[..], body].concat();
                let _ = serve(&mut Echo::default(), &mut Cursor::new(frame), &mut Vec::new());
            }
        }
    }
}
