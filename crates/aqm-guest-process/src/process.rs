//! A guest in a process of its own.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use aqm_guest::frames::{self, LONGEST, PREFIX};
use aqm_guest::{Answer, Guest, Payload, Problem, Start};
use aqm_net::watch::StopRequest;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::guard::Guarded;
use crate::{Options, StartError};

/// Maximum number of bytes that are read at once: the capacity of a pipe (pipe(7)).
const CHUNK: usize = 1 << 16;
/// Number of bytes of standard error that are retained: the last 20 to 30 lines.
const RETAINED: usize = 2000;
/// Interval at which a waiting guest looks whether the watcher has stopped the run, so that Ctrl-C seems immediate.
const LOOK: Duration = Duration::from_millis(100);
/// Maximum time that a program may need to exit after its standard output has been closed.
const EXIT_TIME: Duration = Duration::from_secs(1);
/// Maximum time that a program may need to exit after its standard input has been closed.
const STOP_TIME: Duration = Duration::from_millis(500);

/// A guest in a process of its own. The process, and all processes of its process group, are killed when the guest is
/// dropped.
#[derive(Debug)]
pub struct ProcessGuest {
    process: Process,
    time_limit: Duration,
    stop: StopRequest,
    /// The bytes of the current answer.
    answer: Vec<u8>,
    /// Time of the answer to the request to start, and of the last answer.
    answered: Option<(Instant, Instant)>,
}

/// A process and the pipes to its standard streams.
#[derive(Debug)]
struct Process {
    child: Child,
    /// `None` after the exit status has been read, because another process may then have the same number.
    guarded: Option<Guarded>,
    /// `None` after the pipe has been closed.
    input: Option<ChildStdin>,
    output: ChildStdout,
    /// `None` after the program has closed its standard error.
    errors: Option<ChildStderr>,
    /// The end of standard error.
    retained: Vec<u8>,
    chunk: Box<[u8]>,
    /// Whether the exit status has been read.
    has_exited: bool,
}

impl ProcessGuest {
    /// Starts a program. The first element of `command` is the name or the path of the program. If `stop` is set, the
    /// guest does not wait for its current answer any longer.
    ///
    /// # Errors
    /// Returns an error if the program cannot be started, or if the system cannot isolate processes although `options`
    /// requires isolation.
    pub fn new(command: &[String], options: &Options, stop: &StopRequest) -> Result<Self, StartError> {
        let process = Process::start(command, options.isolation)?;
        let (time_limit, stop) = (options.time_limit, stop.clone());
        Ok(Self { process, time_limit, stop, answer: Vec::new(), answered: None })
    }

    /// Returns the real time between the answer to the request to start and the last answer.
    pub fn running_time(&self) -> Duration {
        self.answered.map_or(Duration::ZERO, |(first, last)| last - first)
    }

    /// Sends the frame of a request, and returns the body of the answer.
    fn exchange(&mut self, mut request: &[u8]) -> Result<&[u8], Problem> {
        let begin = Instant::now();
        self.answer.clear();
        loop {
            if self.stop.is_set() {
                self.process.kill();
                return Err(Problem::Program("the run was stopped".to_owned()));
            }
            request = &request[self.process.write(request)?..];
            let left = self.time_limit.saturating_sub(begin.elapsed());
            let is_readable = self.process.wait(!request.is_empty(), left.min(LOOK)).map_err(failed)?;
            if is_readable && self.read(request.is_empty())? {
                break;
            }
            if begin.elapsed() >= self.time_limit {
                self.process.kill();
                let limit = self.time_limit.as_secs_f64();
                let text = format!("the guest did not answer within {limit} s and was ended");
                return Err(Problem::Program(text));
            }
        }
        let now = Instant::now();
        self.answered = Some((self.answered.map_or(now, |(first, _)| first), now));
        Ok(&self.answer[PREFIX..])
    }

    /// Reads a part of the answer. Returns whether the answer is complete.
    fn read(&mut self, is_request_written: bool) -> Result<bool, Problem> {
        let Some(bytes) = self.process.read()? else { return Ok(false) };
        self.answer.extend_from_slice(bytes);
        let Some(prefix) = self.answer.first_chunk::<PREFIX>() else { return Ok(false) };
        let length = u32::from_le_bytes(*prefix) as usize;
        if length > LONGEST {
            let text = format!("an answer must contain at most {LONGEST} bytes (got {length})");
            return Err(Problem::Program(text));
        }
        let frame = PREFIX + length;
        if self.answer.len() > frame || self.answer.len() == frame && !is_request_written {
            let text = "the guest sent more than one answer, or an answer without a request";
            return Err(Problem::Program(text.to_owned()));
        }
        Ok(self.answer.len() == frame)
    }
}

impl Guest for ProcessGuest {
    fn start(&mut self, start: &Start) -> Result<Option<aqm_net::Instant>, Problem> {
        frames::read_started(self.exchange(&frames::start(start))?)
    }

    fn run(&mut self, now: aqm_net::Instant, received: Vec<Payload>) -> Result<Answer, Problem> {
        frames::read_answer(self.exchange(&frames::run(now, &received))?, now)
    }

    fn stop(&mut self) -> Result<(), Problem> {
        frames::read_stopped(self.exchange(&frames::stop())?)
    }

    /// Returns the end of the program's standard error, at most 2000 bytes.
    fn diagnosis(&mut self) -> String {
        self.process.read_errors();
        String::from_utf8_lossy(&self.process.retained).into_owned()
    }
}

impl Drop for ProcessGuest {
    /// Kills the program at once if the run was stopped.
    fn drop(&mut self) {
        if self.stop.is_set() {
            self.process.kill();
        }
    }
}

impl Process {
    fn start(command: &[String], isolation: bool) -> Result<Self, StartError> {
        let Some((program, arguments)) = command.split_first() else {
            let error = io::Error::new(ErrorKind::InvalidInput, "the command of a guest must not be empty");
            return Err(StartError::Program(error));
        };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // The terminal sends the signal of Ctrl-C to the process group of aqmlab, which ends the run in order.
        command.process_group(0);
        let mut child =
            if isolation { spawn(&mut command)? } else { command.spawn().map_err(StartError::Program)? };
        let (Some(input), Some(output), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(StartError::Program(io::Error::other("the guest has no standard streams")));
        };
        let fds = [input.as_fd(), output.as_fd(), errors.as_fd()];
        let set =
            fds.into_iter().try_for_each(|fd| fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map(|_| ()));
        // If a pipe cannot be set, or the program cannot be guarded, the drop of the process ends the program.
        let mut process = Self {
            child,
            guarded: None,
            input: Some(input),
            output,
            errors: Some(errors),
            retained: Vec::new(),
            chunk: vec![0; CHUNK].into(),
            has_exited: false,
        };
        set.map_err(|error| StartError::Program(error.into()))?;
        process.guarded = Some(Guarded::new(process.child.id()).map_err(StartError::Program)?);
        Ok(process)
    }

    /// Writes as much of a request as the pipe accepts. Returns the number of bytes.
    fn write(&mut self, request: &[u8]) -> Result<usize, Problem> {
        let Some(input) = self.input.as_mut().filter(|_| !request.is_empty()) else { return Ok(0) };
        match input.write(request) {
            Ok(count) => Ok(count),
            Err(error) if is_temporary(&error) => Ok(0),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                let text = format!("the guest ended before the request ({})", self.status());
                Err(Problem::Program(text))
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Reads a part of standard output. Returns `None` if nothing can be read.
    fn read(&mut self) -> Result<Option<&[u8]>, Problem> {
        match self.output.read(&mut self.chunk) {
            Ok(0) => Err(Problem::Program(format!("the guest ended before its answer ({})", self.status()))),
            Ok(count) => Ok(Some(&self.chunk[..count])),
            Err(error) if is_temporary(&error) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Waits until the program has written output, or, if `to_write` is set, until the program accepts input. Returns whether
    /// the output can be read. Reads standard error, so that a program never waits for the reader of its messages.
    fn wait(&mut self, to_write: bool, time: Duration) -> Result<bool, Errno> {
        // Nobody waits for less than a millisecond, because the time is rounded up.
        let milliseconds = u16::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u16::MAX);
        let mut fds = [
            PollFd::new(self.output.as_fd(), PollFlags::POLLIN),
            // These two entries have no events, unless the code below replaces them.
            PollFd::new(self.output.as_fd(), PollFlags::empty()),
            PollFd::new(self.output.as_fd(), PollFlags::empty()),
        ];
        if let Some(errors) = &self.errors {
            fds[1] = PollFd::new(errors.as_fd(), PollFlags::POLLIN);
        }
        if let Some(input) = self.input.as_ref().filter(|_| to_write) {
            fds[2] = PollFd::new(input.as_fd(), PollFlags::POLLOUT);
        }
        match poll(&mut fds, PollTimeout::from(milliseconds)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
        let [output, errors, _] = fds.map(|fd| fd.any().unwrap_or(true));
        if errors {
            self.read_errors();
        }
        Ok(output)
    }

    /// Reads what the program has written to standard error, and retains the end.
    fn read_errors(&mut self) {
        while let Some(errors) = &mut self.errors {
            match errors.read(&mut self.chunk) {
                Ok(count @ 1..) => {
                    self.retained.extend_from_slice(&self.chunk[..count]);
                    self.retained.drain(..self.retained.len().saturating_sub(RETAINED));
                }
                Err(error) if is_temporary(&error) => return,
                _ => self.errors = None,
            }
        }
    }

    /// Waits for the exit of a program that has closed a stream. Returns a description of the exit status.
    fn status(&mut self) -> String {
        let begin = Instant::now();
        loop {
            self.read_errors();
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    self.has_exited = true;
                    // The processes that the program has started form the process group.
                    self.kill_group();
                    self.guarded = None;
                    return describe(status);
                }
                Ok(None) if begin.elapsed() < EXIT_TIME => thread::sleep(Duration::from_millis(1)),
                _ => return "its standard streams are closed".to_owned(),
            }
        }
    }

    /// Kills the program and all processes of its process group.
    fn kill(&mut self) {
        if !self.has_exited {
            // Until the exit status is read, no other process has the number of the process group.
            self.kill_group();
            // The wait fails only if there is no such process.
            let _ = self.child.wait();
            self.has_exited = true;
            self.guarded = None;
        }
    }

    fn kill_group(&self) {
        // The signal fails only if all processes have exited.
        let _ = killpg(Pid::from_raw(self.child.id() as i32), Signal::SIGKILL);
    }
}

impl Drop for Process {
    /// Closes standard input, and kills the program if the program does not exit soon.
    fn drop(&mut self) {
        self.input = None;
        let begin = Instant::now();
        while !self.has_exited && begin.elapsed() < STOP_TIME {
            match self.wait(false, STOP_TIME.saturating_sub(begin.elapsed())) {
                // At the end of standard output, the program exits.
                Ok(true) if !matches!(self.output.read(&mut self.chunk), Ok(1..)) => break,
                Ok(_) => {}
                Err(_) => break,
            }
        }
        self.kill();
    }
}

/// Starts the process of a command, which has no network and a read-only file system.
#[cfg(target_os = "linux")]
pub(crate) fn spawn(command: &mut Command) -> Result<Child, StartError> {
    crate::isolation::spawn(command)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn spawn(_: &mut Command) -> Result<Child, StartError> {
    Err(StartError::Isolation("Linux is required".to_owned()))
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn failed(error: impl Into<io::Error>) -> Problem {
    Problem::Program(format!("the pipe to the guest failed: {}", error.into()))
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}
