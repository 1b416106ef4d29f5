//! Whole runs in another process: the program `aqmlab-guests` simulates a scenario with the transport libraries that
//! the program contains, so that a guest which hangs or crashes does not end the caller.
//!
//! The caller writes one frame, the request, to the standard input of the program. The program writes a frame of the kind
//! *hello* to its standard output, then frames of the kind *progress* while it simulates, and at last a frame of the kind
//! *done* or *failed*. A frame consists of the length of its body (4 bytes, little-endian) and the body, whose first byte
//! is the kind. The rest of a body is in the format of the crate `postcard`, which has no compatibility between versions:
//! *hello* ensures that both programs have the same version.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use aqm_guest::STACKS;
use aqm_net::level::{Failure, Files, Level, Run};
use aqm_net::table::{Column, Table};
use aqm_net::watch::{Unit, Watch};
use nix::sys::resource::{UsageWho, getrusage};
use serde::{Deserialize, Serialize};

use crate::guard::Guarded;
use crate::process::spawn;

const REQUEST: u8 = 0;
const HELLO: u8 = 1;
const PROGRESS: u8 = 2;
const DONE: u8 = 3;
const FAILED: u8 = 4;

/// The versions on which results and messages depend.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Hello {
    version: String,
    results_version: u32,
    libraries: Vec<String>,
}

impl Hello {
    fn of(level: &dyn Level) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            results_version: level.results_version(),
            libraries: STACKS.iter().map(|stack| format!("{} {}", stack.library, stack.version)).collect(),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Request {
    /// The complete scenario as JSON.
    scenario: String,
    /// Contents of the files to which the scenario refers, by name.
    files: BTreeMap<String, String>,
}

impl Request {
    fn new(scenario: &serde_json::Value, files: &Files) -> Self {
        let files = files.iter().map(|(name, text)| (name.clone(), text.clone())).collect();
        Self { scenario: scenario.to_string(), files }
    }
}

#[derive(Serialize, Deserialize)]
struct Done {
    /// The columns of the tables, by name.
    tables: Vec<(String, Vec<(String, Column)>)>,
    manifest: String,
    events: u64,
    forwarded: Option<u64>,
    cpu_s: f64,
}

/// A run that another process has simulated.
#[derive(Debug)]
pub struct Finished {
    /// The result.
    pub run: Run,
    /// CPU time of the process in seconds.
    pub cpu_s: f64,
}

#[derive(Serialize, Deserialize)]
struct Failed {
    message: String,
    report: String,
}

/// Runs a scenario in the program `aqmlab-guests`, whose path is `program`. `scenario` is the complete scenario as JSON, and `files` contains the contents
/// of the files to which the scenario refers. The process has no network and a read-only file system.
///
/// # Errors
/// Returns an error if the program cannot be started, has another version, ends early, or reports an error, and if
/// `watch` stops the run.
pub fn run(
    program: &str,
    (scenario, files): (&serde_json::Value, &Files),
    level: &dyn Level,
    watch: &Watch,
) -> Result<Finished, Failure> {
    let mut command = Command::new(program);
    // The terminal sends Ctrl-C to the caller only, which ends the program.
    command.arg("run").stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    let failure = |problem: String| failed(format!("{program}: {problem}"));
    let mut child = Ended::new(spawn(&mut command).map_err(|error| failure(error.to_string()))?)
        .map_err(|error| failure(error.to_string()))?;
    let (Some(mut input), Some(output)) = (child.child.stdin.take(), child.child.stdout.take()) else {
        return Err(failure("the process has no pipes".to_owned()));
    };
    // A program that ends early is noticed below, where its last frame may contain the reason.
    let _ = write(&mut input, REQUEST, &Request::new(scenario, files));
    match receive(&mut BufReader::new(output), level, watch) {
        Ok(done) => Ok(done),
        Err(Broken::Failed(other)) => Err(other),
        Err(Broken::Invalid(problem)) => Err(failure(problem)),
        Err(Broken::Ended) => {
            let status =
                child.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
            Err(failure(format!("the program ended before its result ({status})")))
        }
    }
}

/// The reason why a program sent no result.
enum Broken {
    /// The output ended.
    Ended,
    /// A frame is invalid.
    Invalid(String),
    /// The run failed or was stopped.
    Failed(Failure),
}

/// Reads the frames that the program sends.
fn receive(output: &mut impl Read, level: &dyn Level, watch: &Watch) -> Result<Finished, Broken> {
    let mut greeted = false;
    loop {
        let body = read(output).map_err(|_| Broken::Ended)?;
        if watch.is_stopped() {
            return Err(Broken::Failed(Failure::Stopped));
        }
        let (&kind, body) = body.split_first().unwrap_or((&0, &[]));
        let invalid = |error: postcard::Error| {
            Broken::Invalid(format!("the program sent an invalid frame ({error}): build it again"))
        };
        match kind {
            HELLO => {
                let hello: Hello = postcard::from_bytes(body).map_err(invalid)?;
                if hello != Hello::of(level) {
                    let problem = "the program belongs to another version of aqmlab: build it again";
                    return Err(Broken::Invalid(problem.to_owned()));
                }
                greeted = true;
            }
            PROGRESS => {
                let (done, total): (u64, u64) = postcard::from_bytes(body).map_err(invalid)?;
                watch.expect(total, Unit::Nanoseconds);
                watch.reach(done);
            }
            DONE if greeted => {
                let done: Done = postcard::from_bytes(body).map_err(invalid)?;
                return done.finish(level).map_err(Broken::Invalid);
            }
            FAILED => {
                let Failed { message, report } = postcard::from_bytes(body).map_err(invalid)?;
                return Err(Broken::Failed(Failure::Workload { message, report }));
            }
            kind => {
                return Err(Broken::Invalid(format!("the program sent a frame of the unknown kind {kind}")));
            }
        }
    }
}

fn failed(message: String) -> Failure {
    Failure::Workload { message, report: String::new() }
}

/// Returns the CPU time of this process in seconds; zero if the system does not report the time.
fn cpu_s() -> f64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0.0, |usage| {
        [usage.user_time(), usage.system_time()]
            .map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6)
            .iter()
            .sum()
    })
}

/// A process that ends when the value is dropped.
struct Ended {
    child: Child,
    guarded: Option<Guarded>,
}

impl Ended {
    fn new(child: Child) -> io::Result<Self> {
        let mut ended = Self { child, guarded: None };
        ended.guarded = Some(Guarded::new(ended.child.id())?);
        Ok(ended)
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Done {
    fn finish(self, level: &dyn Level) -> Result<Finished, String> {
        let docs = level.tables();
        let table = |(name, columns): (String, Vec<(String, Column)>)| {
            let doc =
                docs.iter().find(|doc| doc.name == name).ok_or_else(|| format!("unknown table {name}"))?;
            let column = |(name, values): (String, Column)| {
                let doc = doc.columns.iter().find(|doc| doc.name == name);
                doc.map(|doc| (doc.name, values)).ok_or_else(|| format!("unknown column {name}"))
            };
            Ok(Table {
                name: doc.name,
                columns: columns.into_iter().map(column).collect::<Result<_, String>>()?,
            })
        };
        let run = Run {
            tables: self.tables.into_iter().map(table).collect::<Result<_, String>>()?,
            manifest: serde_json::from_str(&self.manifest).map_err(|error| error.to_string())?,
            events: self.events,
            forwarded: self.forwarded,
        };
        Ok(Finished { run, cpu_s: self.cpu_s })
    }
}

/// The side of the program: receives the request, simulates, and sends the result.
pub struct Server<W> {
    output: Mutex<W>,
    watch: Watch,
}

impl<W: Write> Server<W> {
    /// Creates a server that writes to the standard output of the program.
    pub fn new(output: W) -> Self {
        Self { output: Mutex::new(output), watch: Watch::default() }
    }

    /// Reads the request from `input`, runs the scenario at `level`, and writes the result.
    ///
    /// # Errors
    /// Returns an error if the input or the output fails. An error of the run is written to the output.
    pub fn serve(&self, input: &mut impl Read, level: &'static dyn Level) -> io::Result<()> {
        self.write(HELLO, &Hello::of(level))?;
        let body = read(input)?;
        match self.simulate(body.get(1..).unwrap_or_default(), level) {
            Ok(run) => {
                let columns = |table: Table| {
                    let columns = table.columns.into_iter().map(|(name, values)| (name.to_owned(), values));
                    (table.name.to_owned(), columns.collect())
                };
                let Run { tables, manifest, events, forwarded } = run;
                let tables = tables.into_iter().map(columns).collect();
                let (manifest, cpu_s) = (manifest.to_string(), cpu_s());
                self.write(DONE, &Done { tables, manifest, events, forwarded, cpu_s })
            }
            Err(Failure::Workload { message, report }) => self.fail(message, report),
            Err(other) => self.fail(other.to_string(), String::new()),
        }
    }

    fn simulate(&self, request: &[u8], level: &'static dyn Level) -> Result<Run, Failure> {
        let invalid = |error: &dyn std::fmt::Display| failed(format!("the request is invalid: {error}"));
        let request: Request = postcard::from_bytes(request).map_err(|error| invalid(&error))?;
        let scenario = serde_json::from_str(&request.scenario).map_err(|error| invalid(&error))?;
        let files = request.files.into_iter().collect();
        let plan = level.read(scenario, files).map_err(|errors| invalid(&errors))?;
        plan.run(&self.watch)
    }

    /// Sends the progress of the run. The program calls this method several times per second from another thread.
    ///
    /// # Errors
    /// Returns an error if the output fails.
    pub fn report_progress(&self) -> io::Result<()> {
        self.write(PROGRESS, &self.watch.progress())
    }

    /// Sends an error with which the run ends.
    ///
    /// # Errors
    /// Returns an error if the output fails.
    pub fn fail(&self, message: String, report: String) -> io::Result<()> {
        self.write(FAILED, &Failed { message, report })
    }

    fn write(&self, kind: u8, message: &impl Serialize) -> io::Result<()> {
        write(&mut *self.output.lock().unwrap_or_else(PoisonError::into_inner), kind, message)
    }
}

/// Length of the prefix that contains the length of the body.
const PREFIX: usize = 4;

fn write(output: &mut impl Write, kind: u8, message: &impl Serialize) -> io::Result<()> {
    let too_long = || io::Error::other("the tables of the run have more than 4 GB");
    let mut frame = vec![0; PREFIX];
    frame.push(kind);
    let mut frame = postcard::to_extend(message, frame).map_err(io::Error::other)?;
    let length = u32::try_from(frame.len() - PREFIX).map_err(|_| too_long())?;
    frame[..PREFIX].copy_from_slice(&length.to_le_bytes());
    output.write_all(&frame)?;
    output.flush()
}

fn read(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut prefix = [0; PREFIX];
    input.read_exact(&mut prefix)?;
    let length = u64::from(u32::from_le_bytes(prefix));
    let mut body = Vec::new();
    // The memory grows with the bytes that arrive, not with the length in the prefix.
    input.take(length).read_to_end(&mut body)?;
    if body.len() as u64 == length { Ok(body) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use aqm_sim::PACKET_LEVEL;
    use serde_json::json;

    use super::*;

    fn scenario(traffic: serde_json::Value) -> serde_json::Value {
        json!({
            "duration": "3s",
            "bottleneck": {"rate": "2Mbps", "delay": "10ms", "queue": {"kind": "red"}},
            "record": {"drops": true, "senders": ["bulk"], "flow_columns": ["flow", "goodput_bps"]},
            "traffic": {"bulk": traffic, "web": {"kind": "web", "load": 0.3}},
        })
    }

    /// Returns the frames that a program sends for a request.
    fn served(request: &[u8]) -> Vec<u8> {
        let server = Server::new(Vec::new());
        server.report_progress().unwrap();
        server.serve(&mut &request[..], &PACKET_LEVEL).unwrap();
        server.output.into_inner().unwrap()
    }

    fn request(scenario: &serde_json::Value) -> Vec<u8> {
        let mut frame = Vec::new();
        write(&mut frame, REQUEST, &Request::new(scenario, &Files::new())).unwrap();
        frame
    }

    fn received(frames: &[u8]) -> Result<Finished, Broken> {
        receive(&mut &frames[..], &PACKET_LEVEL, &Watch::default())
    }

    #[test]
    fn a_run_in_another_process_has_the_same_result() {
        let scenario = scenario(json!({"kind": "ftp"}));
        let plan = PACKET_LEVEL.read(scenario, Files::new()).unwrap();
        let here = plan.run(&Watch::default()).unwrap();
        let Ok(Finished { run: there, cpu_s }) = received(&served(&request(&plan.to_value()))) else {
            panic!("no result")
        };
        assert_eq!(there.tables, here.tables);
        assert_eq!((there.manifest, there.events), (here.manifest, here.events));
        assert!(cpu_s > 0.0);
    }

    #[test]
    fn an_error_of_the_run_is_an_error_of_the_caller() {
        let scenario = scenario(json!({"kind": "guest", "client": ["program"]}));
        let plan = PACKET_LEVEL.read(scenario, Files::new()).unwrap();
        let Err(Broken::Failed(Failure::Workload { message, report })) =
            received(&served(&request(&plan.to_value())))
        else {
            panic!("no failure")
        };
        assert_eq!((message.as_str(), report.as_str()), ("traffic.bulk: this program cannot run guests", ""));
        let invalid = received(&served(&[1, 0, 0, 0, REQUEST]));
        let Err(Broken::Failed(failure)) = invalid else { panic!("no failure") };
        assert!(failure.to_string().starts_with("the request is invalid: "), "{failure}");
    }

    #[test]
    fn frames_of_other_programs_are_errors() {
        let scenario = scenario(json!({"kind": "ftp"}));
        let plan = PACKET_LEVEL.read(scenario, Files::new()).unwrap();
        let frames = served(&request(&plan.to_value()));
        assert!(matches!(received(&frames[..frames.len() - 1]), Err(Broken::Ended)));
        let invalid = |frames: &[u8]| match received(frames) {
            Err(Broken::Invalid(problem)) => problem,
            _ => panic!("the frames are valid"),
        };
        assert_eq!(invalid(&[1, 0, 0, 0, 9]), "the program sent a frame of the unknown kind 9");
        assert!(invalid(&[1, 0, 0, 0, HELLO]).starts_with("the program sent an invalid frame ("));
        let mut other = Vec::new();
        let hello = Hello { results_version: 0, ..Hello::of(&PACKET_LEVEL) };
        write(&mut other, HELLO, &hello).unwrap();
        let problem = "the program belongs to another version of aqmlab: build it again";
        assert_eq!(invalid(&other), problem);
        let stopped = Watch::default();
        stopped.stop();
        let stopped = receive(&mut &frames[..], &PACKET_LEVEL, &stopped);
        assert!(matches!(stopped, Err(Broken::Failed(Failure::Stopped))));
    }

    #[test]
    fn a_program_that_is_not_aqmlab_guests_is_named() {
        let run = |program: &str| {
            let scenario = scenario(json!({"kind": "ftp"}));
            run(program, (&scenario, &Files::new()), &PACKET_LEVEL, &Watch::default())
                .unwrap_err()
                .to_string()
        };
        assert!(run("/no/such/program").starts_with("/no/such/program: "));
        if cfg!(target_os = "linux") {
            assert_eq!(run("false"), "false: the program ended before its result (exit status: 1)");
        }
    }
}
