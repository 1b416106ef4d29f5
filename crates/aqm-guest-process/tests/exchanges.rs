use std::time::{Duration, Instant};

use aqm_guest::{Echo, End, Guest, Origin, Problem, Provider, Start};
use aqm_guest_process::{Options, ProcessGuest, StartError, scenario};
use aqm_net::level::{Document, Files};
use aqm_net::watch::{StopRequest, Watch};
use aqm_path::Path;
use aqm_path::guests::{Border, Failure, Setup};
use aqm_sim::PacketLevel;

use crate::{options, problem_of, shell, start};

/// A time limit that a script exceeds.
fn short() -> Options {
    Options { time_limit: Duration::from_millis(500), ..options(false) }
}

#[test]
fn a_program_answers_a_request_to_start() {
    let (answer, errors) = start("echo ready >&2; started; cat >/dev/null", "{}", &options(true));
    assert_eq!((answer, errors.as_str()), (Ok(None), "ready\n"));
}

#[test]
fn a_program_that_exits_is_a_problem_with_its_exit_status() {
    let script = "head -c 1 >/dev/null; echo no more data >&2; exit 3";
    let (answer, errors) = start(script, "{}", &options(true));
    assert_eq!(answer, Err(Problem::Program("the guest ended before its answer (exit status 3)".to_owned())));
    assert_eq!(errors, "no more data\n");
    let killed = problem_of("head -c 1 >/dev/null; kill -9 $$", &options(false));
    assert_eq!(killed, "the guest ended before its answer (signal 9)");
    let closed = problem_of("head -c 1 >/dev/null; exec >&-; sleep 60", &options(false));
    assert_eq!(closed, "the guest ended before its answer (its standard streams are closed)");
}

#[test]
fn a_program_that_exits_without_reading_a_long_request_is_a_problem() {
    let (answer, _) = start("exit 4", &"x".repeat(1 << 20), &options(false));
    let Err(Problem::Program(text)) = answer else { panic!("{answer:?}") };
    assert!(text.starts_with("the guest ended before ") && text.ends_with("(exit status 4)"), "{text}");
}

#[test]
fn a_program_that_hangs_is_ended_with_all_processes_that_it_started() {
    let watch = Watch::default();
    let script = "sleep 60 & echo $$ $! >&2; wait";
    let mut guest = ProcessGuest::new(&shell(script), &short(), &watch.stop_request()).unwrap();
    let begin = Instant::now();
    let problem = guest.start(&Start { end: End::Client, seed: 1, config: String::new() }).unwrap_err();
    assert_eq!(problem.to_string(), "the guest did not answer within 0.5 s and was ended");
    assert!(begin.elapsed() < Duration::from_secs(30));
    let processes = guest.diagnosis();
    assert_eq!(processes.split_whitespace().count(), 2);
    for process in processes.split_whitespace() {
        assert!(has_ended(process), "{process}");
    }
}

/// Returns whether a process ends within 10 seconds. A process that has ended remains a zombie until its parent reads the
/// status.
fn has_ended(process: &str) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(10) {
        let state = std::process::Command::new("ps").args(["-o", "stat=", "-p", process]).output().unwrap();
        let state = String::from_utf8(state.stdout).unwrap();
        if state.trim().is_empty() || state.starts_with('Z') {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

#[test]
fn a_program_that_answers_late_or_in_small_parts_exceeds_the_time_limit() {
    for script in ["sleep 5; started; cat", "while :; do printf '\\1'; sleep 0.1; done"] {
        let problem = problem_of(script, &short());
        assert_eq!(problem, "the guest did not answer within 0.5 s and was ended");
    }
}

#[test]
fn a_program_that_writes_too_much_is_a_problem() {
    let frame = "\\011\\0\\0\\0\\201\\377\\377\\377\\377\\377\\377\\377\\377";
    let twice =
        problem_of(&format!("head -c 1 >/dev/null; printf '{frame}{frame}'; sleep 60"), &options(false));
    assert_eq!(twice, "the guest sent more than one answer, or an answer without a request");
    let long = problem_of("printf '\\377\\377\\377\\377'; cat >/dev/null", &options(false));
    assert_eq!(long, "an answer must contain at most 1073741824 bytes (got 4294967295)");
    let early = "started; sleep 60";
    let (answer, _) = start(early, &"x".repeat(1 << 20), &options(false));
    assert_eq!(
        answer.unwrap_err().to_string(),
        "the guest sent more than one answer, or an answer without a request"
    );
}

#[test]
fn a_long_request_and_a_long_answer_do_not_block_each_other() {
    // `cat` returns the request while the request is being written. A request is no answer.
    let (answer, _) = start("exec cat", &"x".repeat(5 << 20), &options(true));
    let Err(Problem::Frame(text)) = answer else { panic!("{answer:?}") };
    assert_eq!(text, "the kind must be 129 or 255 (got 1)");
}

#[test]
fn a_program_with_many_messages_is_not_blocked() {
    let script = "head -c 3000000 /dev/zero | tr '\\0' x >&2; echo end >&2; started; cat >/dev/null";
    let (answer, errors) = start(script, "{}", &options(true));
    assert_eq!((answer, errors.len()), (Ok(None), 2000));
    assert!(errors.ends_with("xxxend\n"));
}

#[test]
fn a_program_that_does_not_exist_cannot_be_started() {
    let watch = Watch::default();
    for isolation in [false, true] {
        let missing =
            ProcessGuest::new(&["/no/such/program".to_owned()], &options(isolation), &watch.stop_request());
        let Err(StartError::Program(error)) = missing else { panic!("{missing:?}") };
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    }
    let empty = ProcessGuest::new(&[], &options(false), &watch.stop_request()).unwrap_err();
    assert_eq!(empty.to_string(), "the command of a guest must not be empty");
}

#[test]
fn a_dropped_guest_leaves_no_process() {
    let watch = Watch::default();
    let script = "trap '' TERM; echo $$ >&2; started; while :; do sleep 1; done";
    let mut guest = ProcessGuest::new(&shell(script), &options(true), &watch.stop_request()).unwrap();
    guest.start(&Start { end: End::Client, seed: 1, config: String::new() }).unwrap();
    let process = guest.diagnosis().trim().to_owned();
    drop(guest);
    let state = std::process::Command::new("ps").args(["-o", "stat=", "-p", &process]).output().unwrap();
    assert_eq!(String::from_utf8(state.stdout).unwrap(), "", "neither a process nor a zombie");
}

#[test]
fn a_watcher_ends_the_wait_for_an_answer() {
    let watch = Watch::default();
    let mut guest = ProcessGuest::new(&shell("sleep 60"), &options(true), &watch.stop_request()).unwrap();
    let begin = Instant::now();
    let problem = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            watch.stop();
        });
        guest.start(&Start { end: End::Client, seed: 1, config: String::new() }).unwrap_err()
    });
    assert_eq!(problem.to_string(), "the run was stopped");
    assert!(begin.elapsed() < Duration::from_secs(10));
}

/// The programs of a scenario.
struct Programs;

impl Provider for Programs {
    fn guest(&self, origin: &Origin<'_>, stop: &StopRequest) -> Result<Box<dyn Guest>, String> {
        let Origin::Program { command, time_limit } = *origin else { return Err("a stack".to_owned()) };
        scenario::guest(command, time_limit, stop)
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_watcher_ends_a_scenario_whose_programs_do_not_answer() {
    static LEVEL: PacketLevel = PacketLevel { guests: &Programs };
    let text = r#"
        duration = "5s"
        bottleneck = { rate = "1Mbps", queue = { kind = "drop-tail" } }
        [traffic.hanging]
        kind = "guest"
        client = ["sleep", "600"]
        time_limit = "10min"
        "#;
    let plan = Document::of_toml(text, "folder".as_ref(), &[&LEVEL]).unwrap().plan(Files::new()).unwrap();
    let (watch, begin) = (Watch::default(), Instant::now());
    let failure = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            watch.stop();
        });
        plan.run(&watch).unwrap_err()
    });
    assert_eq!(failure, aqm_net::level::Failure::Stopped);
    assert!(begin.elapsed() < Duration::from_secs(10));
}

#[test]
fn the_border_reports_the_fault_of_a_program() {
    let watch = Watch::default();
    let mut server = ProcessGuest::new(
        &shell("started; head -c 100 >/dev/null; exit 5"),
        &options(true),
        &watch.stop_request(),
    )
    .unwrap();
    let path = Path::from_toml(r#"forward = [{ rate = "10Mbps", delay = "20ms" }]"#).unwrap();
    let mut border = Border::new(path, Setup::default());
    let failure = border.run([&mut Echo::default(), &mut server], &watch).unwrap_err();
    let Failure::Fault(fault) = failure else { panic!("{failure}") };
    let text = fault.to_string();
    assert!(text.starts_with("server at ") && text.ends_with("(exit status 5)"), "{text}");
    let last: Vec<String> = border.last_exchanges().collect();
    assert_eq!(last.last(), Some(&text));
    assert!(last.iter().any(|line| line.starts_with("server start, seed ")));
}
