//! Whole simulations: `aqmlab-guests run` receives a scenario over standard input, and sends the result over standard
//! output (`aqm_guest_process::whole_run`).
//!
//! A thread reports the progress, and ends the program if a guest does not return from a call.

#![expect(clippy::disallowed_methods, reason = "the time limit of a call is in real time")]

use std::process::exit;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant as Clock};
use std::{io, thread};

use aqm_guest::{Answer, End, Guest, Origin, Payload, Problem, Provider, Start};
use aqm_guest_process::scenario;
use aqm_guest_process::whole_run::Server;
use aqm_net::Instant;
use aqm_net::watch::StopRequest;
use aqm_sim::PacketLevel;

use crate::stacks;

/// Interval between two reports of the progress, so that a progress bar moves and Ctrl-C seems immediate.
const REPORT: Duration = Duration::from_millis(100);
/// Maximum real time of a call of a guest: as for programs (`aqmlab guest check --time-limit`).
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Exit status after a guest did not return.
const HUNG: i32 = 1;

/// Runs the scenario that standard input contains.
///
/// # Errors
/// Returns an error if standard input or standard output fails.
pub fn run() -> io::Result<()> {
    static LEVEL: PacketLevel = PacketLevel { guests: &Libraries };
    let server = Arc::new(Server::new(io::stdout()));
    let reports = Arc::clone(&server);
    thread::spawn(move || {
        loop {
            thread::sleep(REPORT);
            let hung = CALL
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .as_ref()
                .and_then(|call| call.overdue(TIME_LIMIT));
            if let Some(message) = hung {
                let _ = reports.fail(message, String::new());
                exit(HUNG);
            }
            // The caller has ended.
            if reports.report_progress().is_err() {
                exit(HUNG);
            }
        }
    });
    server.serve(&mut io::stdin().lock(), &LEVEL)
}

/// The source of guests: the transport libraries, and programs.
struct Libraries;

impl Provider for Libraries {
    fn guest(&self, origin: &Origin<'_>, stop: &StopRequest) -> Result<Box<dyn Guest>, String> {
        match *origin {
            Origin::Stack(stack) => {
                let guest = stacks::build(stack.name)?;
                Ok(Box::new(Timed { stack: stack.name, end: End::Client, seed: 0, guest }))
            }
            Origin::Program { command, time_limit } => scenario::guest(command, time_limit, stop),
        }
    }

    fn program_digest(&self, command: &[String]) -> Option<String> {
        Some(scenario::program_digest(command))
    }
}

/// The call in progress.
static CALL: Mutex<Option<Call>> = Mutex::new(None);

struct Call {
    begin: Clock,
    stack: &'static str,
    end: End,
    seed: u64,
    now: Instant,
    received: usize,
}

impl Call {
    /// Returns the description of a call that takes longer than allowed.
    fn overdue(&self, limit: Duration) -> Option<String> {
        let Self { begin, stack, end, seed, now, received } = self;
        (begin.elapsed() > limit).then(|| {
            format!(
                "the {} {stack} with the seed {seed} did not return within {} s from its call at {} ns with \
                 {received} datagrams",
                end.name(),
                limit.as_secs_f64(),
                now.nanos()
            )
        })
    }
}

/// A guest whose calls are timed.
struct Timed {
    stack: &'static str,
    end: End,
    seed: u64,
    guest: Box<dyn Guest>,
}

impl Timed {
    fn call<T>(&mut self, now: Instant, received: usize, call: impl FnOnce(&mut dyn Guest) -> T) -> T {
        let set = |call| *CALL.lock().unwrap_or_else(PoisonError::into_inner) = call;
        let &mut Self { stack, end, seed, .. } = self;
        set(Some(Call { begin: Clock::now(), stack, end, seed, now, received }));
        let result = call(&mut *self.guest);
        set(None);
        result
    }
}

impl Guest for Timed {
    fn start(&mut self, start: &Start) -> Result<Option<Instant>, Problem> {
        (self.end, self.seed) = (start.end, start.seed);
        self.call(Instant::START, 0, |guest| guest.start(start))
    }
    fn run(&mut self, now: Instant, received: Vec<Payload>) -> Result<Answer, Problem> {
        self.call(now, received.len(), |guest| guest.run(now, received))
    }
    fn stop(&mut self) -> Result<(), Problem> {
        self.call(Instant::START, 0, |guest| guest.stop())
    }
    fn diagnosis(&mut self) -> String {
        self.guest.diagnosis()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A guest whose call ends when the test permits the end.
    struct Waiting(mpsc::Receiver<()>);

    impl Guest for Waiting {
        fn start(&mut self, _: &Start) -> Result<Option<Instant>, Problem> {
            Ok(Some(Instant::START))
        }
        fn run(&mut self, _: Instant, _: Vec<Payload>) -> Result<Answer, Problem> {
            self.0.recv().map_err(|error| Problem::Error(error.to_string()))?;
            Ok(Answer::default())
        }
    }

    #[test]
    fn a_call_that_does_not_return_is_overdue() {
        let call = || CALL.lock().expect("no panic");
        let (permit, receiver) = mpsc::channel();
        let thread = thread::spawn(move || {
            let guest = Box::new(Waiting(receiver));
            let mut guest = Timed { stack: "quinn", end: End::Client, seed: 0, guest };
            guest.start(&Start { end: End::Server, seed: 7, config: String::new() }).expect("a start");
            guest.run(Instant::from_nanos(5), Vec::new()).expect("an answer");
        });
        let running = || call().as_ref().is_some_and(|call| call.now > Instant::START);
        while !running() {
            thread::yield_now();
        }
        let overdue = |limit| call().as_ref().and_then(|call| call.overdue(limit));
        assert_eq!(overdue(Duration::from_secs(1000)), None);
        assert_eq!(
            overdue(Duration::ZERO).as_deref(),
            Some(
                "the server quinn with the seed 7 did not return within 0 s from its call at 5 ns with 0 datagrams"
            )
        );
        permit.send(()).expect("the guest waits");
        thread.join().expect("no panic");
        assert!(call().is_none());
    }
}
