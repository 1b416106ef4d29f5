//! A guest in a program of its own, which may access the network and files, in contrast to the guests of
//! `aqmlab guest check`.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use aqm_guest::{Answer, Guest, Payload, Problem, Start, frames};
use aqm_net::Instant;

/// A program that exchanges frames over its standard input and its standard output.
pub struct Process {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Process {
    /// Starts the program.
    ///
    /// # Panics
    /// Panics if the program does not exist.
    pub fn new(program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program exists");
        let input = child.stdin.take().expect("a pipe");
        let output = child.stdout.take().expect("a pipe");
        Self { child, input, output }
    }

    /// Returns the body of the answer to a request.
    fn ask(&mut self, request: &[u8]) -> Vec<u8> {
        self.input.write_all(request).expect("the program runs");
        let mut prefix = [0; frames::PREFIX];
        self.output.read_exact(&mut prefix).expect("the program answers");
        let mut body = vec![0; u32::from_le_bytes(prefix) as usize];
        self.output.read_exact(&mut body).expect("the program answers");
        body
    }
}

impl Guest for Process {
    fn start(&mut self, start: &Start) -> Result<Option<Instant>, Problem> {
        frames::read_started(&self.ask(&frames::start(start)))
    }

    fn run(&mut self, now: Instant, received: Vec<Payload>) -> Result<Answer, Problem> {
        frames::read_answer(&self.ask(&frames::run(now, &received)), now)
    }

    fn stop(&mut self) -> Result<(), Problem> {
        frames::read_stopped(&self.ask(&frames::stop()))?;
        let status = self.child.wait().expect("the program ends");
        assert!(status.success(), "{status}");
        Ok(())
    }
}
