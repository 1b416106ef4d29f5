//! The smallest guest: a client that sends datagrams at random times, and a server that returns each datagram.

use aqm_net::{Instant, Rng, Span, Streams};

use crate::{Answer, End, Event, Guest, Payload, Problem, Start};

/// The echo guest. The client sends 100 datagrams of random lengths, up to 1200 bytes, at random intervals of at most
/// 10 ms, and reports each echo with the time since the datagram was sent (`rtt_s`). The server returns each datagram.
/// The configuration is not used.
#[derive(Default)]
pub struct Echo {
    client: Option<Client>,
}

struct Client {
    rng: Rng,
    next: Instant,
    sent: u64,
    /// The times at which the datagrams were sent.
    times: Vec<Instant>,
}

/// Number of datagrams that the client sends.
const COUNT: u64 = 100;
/// Maximum length of a datagram in bytes.
const LONGEST: u64 = 1200;
/// Length of the datagram's number in bytes.
const NUMBER: usize = 8;
/// Maximum interval between two datagrams.
const LONGEST_GAP: Span = Span::from_millis(10);

impl Guest for Echo {
    fn start(&mut self, start: &Start) -> Result<Option<Instant>, Problem> {
        if start.end == End::Server {
            return Ok(None);
        }
        let rng = Streams::new(start.seed).named("echo", 0);
        let client = self.client.insert(Client { rng, next: Instant::START, sent: 0, times: Vec::new() });
        client.wait();
        Ok(Some(client.next))
    }

    fn run(&mut self, now: Instant, received: Vec<Payload>) -> Result<Answer, Problem> {
        match &mut self.client {
            None => Ok(Answer { datagrams: received, ..Answer::default() }),
            Some(client) => client.run(now, received),
        }
    }
}

impl Client {
    fn run(&mut self, now: Instant, received: Vec<Payload>) -> Result<Answer, Problem> {
        let mut answer = Answer::default();
        for echo in received {
            let number = echo.data.first_chunk::<NUMBER>().map(|bytes| u64::from_le_bytes(*bytes));
            let sent = number.and_then(|number| self.times.get(number as usize));
            let sent = sent.ok_or("a datagram is not an echo of a datagram that the client sent")?;
            answer.events.push(Event { name: "rtt_s".to_owned(), value: now.since(*sent).seconds() });
        }
        if self.sent < COUNT && now >= self.next {
            let length = NUMBER as u64 + self.rng.below(LONGEST - NUMBER as u64 + 1);
            let mut data = self.sent.to_le_bytes().to_vec();
            data.resize(length as usize, 0);
            answer.datagrams.push(Payload { flow: 0, ecn: aqm_net::Ecn::NotEct, data });
            self.times.push(now);
            self.sent += 1;
            self.wait();
        }
        answer.wake = (self.sent < COUNT).then_some(self.next);
        Ok(answer)
    }

    /// Chooses the time of the next datagram.
    fn wait(&mut self) {
        self.next += Span::from_nanos(1 + self.rng.below(LONGEST_GAP.nanos()));
    }
}
