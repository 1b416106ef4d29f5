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

use super::{Answer, Border, Call, End, Event, Fault, Guest, Payload, Problem, Start, VERSION};

/// Maximum length of a body in bytes: 10,000 datagrams of the maximum length need less.
pub const LONGEST: usize = 1 << 30;

/// Length of the prefix that contains the length of the body.
const PREFIX: usize = 4;

const START: u8 = 1;
const RUN: u8 = 2;
const STOP: u8 = 3;
const STARTED: u8 = 129;
const ANSWER: u8 = 130;
const STOPPED: u8 = 131;
const ERROR: u8 = 255;

/// Returns the frame of a request to a guest.
pub fn request(call: &Call) -> Vec<u8> {
    match call {
        Call::Start(Start { end, seed, config }) => frame(START, |body| {
            body.extend(VERSION.to_le_bytes());
            body.push(*end as u8);
            body.extend(seed.to_le_bytes());
            body.extend(config.as_bytes());
        }),
        Call::Run { now, received, .. } => frame(RUN, |body| {
            body.extend(now.nanos().to_le_bytes());
            write_datagrams(body, received);
        }),
        Call::Stop(_) => frame(STOP, |_| {}),
    }
}

/// Passes the body of a guest's answer to the border.
///
/// # Errors
/// Returns a fault if the body is not a valid answer to the last request, or if the answer violates the contract.
pub fn answer(border: &mut Border, body: &[u8]) -> Result<(), Fault> {
    match read_reply(body) {
        Ok(Reply::Started(wake)) => border.started(wake),
        Ok(Reply::Answer(now, answer)) => border.answer(now, answer),
        Ok(Reply::Stopped) => border.stopped(),
        Ok(Reply::Error(text)) => Err(border.fail(Problem::Error(text))),
        Err(problem) => Err(border.fail(Problem::Frame(problem))),
    }
}

/// The answer of a guest.
enum Reply {
    Started(Option<Instant>),
    Answer(Instant, Answer),
    Stopped,
    Error(String),
}

fn read_reply(body: &[u8]) -> Result<Reply, String> {
    let mut body = Body(body);
    let reply = match body.byte()? {
        STARTED => Reply::Started(body.time()?),
        ANSWER => {
            let now = body.time()?.unwrap_or(Instant::NEVER);
            let wake = body.time()?;
            let datagrams = body.datagrams()?;
            let count = body.number()?;
            let mut events = Vec::new();
            for _ in 0..count {
                let length = body.byte()?;
                let name = text(body.bytes(length.into())?)?;
                events.push(Event { name, value: f64::from_le_bytes(body.array()?) });
            }
            Reply::Answer(now, Answer { datagrams, wake, events })
        }
        STOPPED => Reply::Stopped,
        ERROR => Reply::Error(text(body.rest())?),
        kind => return Err(format!("the kind must be 129, 130, 131 or 255 (got {kind})")),
    };
    body.finish().map(|()| reply)
}

/// Runs a guest that receives requests from `input` and writes answers to `output`, until the guest is stopped or the
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
        let call = read_request(&body).map_err(invalid)?;
        let is_stop = matches!(call, Call::Stop(_));
        let reply =
            handle(guest, call).unwrap_or_else(|error| frame(ERROR, |body| body.extend(error.as_bytes())));
        output.write_all(&reply)?;
        output.flush()?;
        if is_stop {
            return Ok(());
        }
    }
}

/// Calls a guest, and returns the frame of its answer.
fn handle(guest: &mut dyn Guest, call: Call) -> Result<Vec<u8>, String> {
    Ok(match call {
        Call::Start(start) => {
            let wake = guest.start(&start)?;
            frame(STARTED, |body| write_time(body, wake))
        }
        Call::Run { now, received, .. } => {
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
        Call::Stop(_) => {
            guest.stop();
            frame(STOPPED, |_| {})
        }
    })
}

fn read_request(body: &[u8]) -> Result<Call, String> {
    let mut body = Body(body);
    let call = match body.byte()? {
        START => {
            let version = u16::from_le_bytes(body.array()?);
            if version != VERSION {
                return Err(format!("the version of the contract must be {VERSION} (got {version})"));
            }
            let number = body.byte()?;
            let end = End::ALL.get(usize::from(number)).copied();
            let end = end.ok_or_else(|| format!("the end must be 0 or 1 (got {number})"))?;
            let seed = u64::from_le_bytes(body.array()?);
            Call::Start(Start { end, seed, config: text(body.rest())? })
        }
        RUN => {
            let now = body.time()?.unwrap_or(Instant::NEVER);
            // The guest knows its end.
            Call::Run { end: End::Client, now, received: body.datagrams()? }
        }
        STOP => Call::Stop(End::Client),
        kind => return Err(format!("the kind must be 1, 2 or 3 (got {kind})")),
    };
    body.finish().map(|()| call)
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
        // A longer datagram is rejected by the border.
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

    fn finish(self) -> Result<(), String> {
        match self.0.len() {
            0 => Ok(()),
            rest => Err(format!("the body is longer than its contents by {rest} bytes")),
        }
    }
}
