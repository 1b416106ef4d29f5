use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::UdpSocket;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::*;
use crate::testing::{SERVER, Wire, lab_or_skip, transfer};

/// Timeout for an event that is certain to occur; long enough even for a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn sh(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::null());
    command
}

/// Runs a shell script in a host, and returns the script's output and exit status.
fn output(host: &Host, script: &str) -> (String, i32) {
    let mut command = sh(script);
    let mut child = host
        .spawn(
            {
                command.stdout(Stdio::piped());
                command
            },
            Daemons::End,
        )
        .unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    (text, child.wait())
}

/// Returns the network namespace of a host, in the same format as the links in /proc/PID/ns.
fn namespace_of(host: &Host) -> PathBuf {
    host.run(|| fs::read_link("/proc/thread-self/ns/net").unwrap()).unwrap().join().unwrap()
}

/// Returns all processes and threads, except this process, that are in one of `namespaces` or have an open file
/// descriptor for one of `namespaces`.
fn users_of(namespaces: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let entries = |directory: PathBuf| {
        fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
    };
    let is_number = |name: &OsStr| name.to_str().is_some_and(|name| name.parse::<u32>().is_ok());
    let processes = entries("/proc".into()).filter(|path| path.file_name().is_some_and(is_number));
    let mut links = Vec::new();
    for process in processes {
        links.extend(entries(process.join("fd")));
        links.extend(entries(process.join("task")).map(|task| task.join("ns/net")));
    }
    links.retain(|link| fs::read_link(link).is_ok_and(|target| namespaces.contains(&target)));
    links
}

/// Returns the processes whose environment contains the text `mark`.
fn processes_with(mark: &str) -> Vec<PathBuf> {
    let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    all.filter(|path| {
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        environment.windows(mark.len()).any(|window| window == mark.as_bytes())
    })
    .collect()
}

/// Waits until the condition `is_true` holds, and panics after [`PATIENCE`].
fn assert_comes(what: &str, mut is_true: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until `left` returns an empty list, and panics after [`PATIENCE`].
fn assert_vanishes(what: &str, left: impl Fn() -> Vec<PathBuf>) {
    assert_comes(&format!("{what} are left"), || left().is_empty());
}

/// Returns the machine's network devices and mounts, as seen by this process.
fn machine() -> (BTreeSet<String>, String) {
    let devices = fs::read_to_string("/proc/self/net/dev").unwrap();
    let names =
        devices.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim().to_owned());
    (names.collect(), fs::read_to_string("/proc/self/mountinfo").unwrap())
}

#[test]
fn hosts_exchange_datagrams_between_any_of_their_addresses() {
    let Some(lab) = lab_or_skip() else { return };
    let wire = Wire::between(lab.hosts());
    let [server, client] = lab.hosts() else { panic!() };
    let (far, near) = (server.address(299), client.address(65_533));
    assert_eq!((far, near), (Ipv4Addr::new(10, 1, 1, 44), Ipv4Addr::new(10, 2, 255, 254)));
    let socket = server.run(move || UdpSocket::bind((far, 7)).unwrap()).unwrap().join().unwrap();
    let echo = std::thread::spawn(move || {
        let mut text = [0; 100];
        let (length, from) = socket.recv_from(&mut text).unwrap();
        socket.send_to(&text[..length], from).unwrap();
    });
    let answer = client.run(move || {
        let socket = UdpSocket::bind((near, 0)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send_to(b"hello", (far, 7)).unwrap();
        let mut text = [0; 100];
        let (length, from) = socket.recv_from(&mut text).unwrap();
        (text[..length].to_vec(), from)
    });
    assert_eq!(answer.unwrap().join().unwrap(), (b"hello".to_vec(), (far, 7).into()));
    echo.join().unwrap();
    let packets = wire.finish();
    assert_eq!(packets.map(|packets| packets.len()), [1, 1], "no other packets were sent");
    let counted = client.statistics().unwrap();
    assert_eq!((counted.tx_packets, counted.tx_bytes, counted.tx_dropped), (1, 33, 0));
    assert_eq!((counted.rx_packets, counted.rx_bytes), (1, 33));
}

#[test]
fn packets_that_find_the_device_full_are_counted() {
    let Some(lab) = lab_or_skip() else { return };
    let client = &lab.hosts()[1];
    let sending = client.run(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        for _ in 0..10_100 {
            socket.send_to(b"x", (SERVER, 9)).unwrap();
        }
    });
    sending.unwrap().join().unwrap();
    let counted = client.statistics().unwrap();
    assert_eq!((counted.tx_packets, counted.tx_dropped), (0, 100), "no packet was read");
}

#[test]
fn the_exit_status_of_a_program_is_passed_on() {
    let Some(lab) = lab_or_skip() else { return };
    let host = &lab.hosts()[0];
    for (script, expected) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
        // In this case, the program ends before its background process.
        ("(sleep 0.05; exit 3) & exit 4", 4),
    ] {
        let mut child = host.spawn(sh(script), Daemons::End).unwrap();
        assert_eq!(child.wait(), expected, "{script}");
        assert_eq!(child.wait_timeout(Duration::ZERO), Some(expected));
        child.kill();
    }
    // The daemon exits when its standard input is closed.
    let mut leaving = sh("exec 3<&0; (read line <&3; exit 3) & exit 4");
    leaving.stdin(Stdio::piped());
    let mut lasting = host.spawn(leaving, Daemons::Stay).unwrap();
    assert_eq!(lasting.wait_timeout(Duration::from_millis(50)), None, "the daemon must still run");
    drop(lasting.stdin.take());
    assert_eq!(lasting.wait(), 4);
    let mut killed = host.spawn(sh("sleep 1000"), Daemons::End).unwrap();
    killed.kill();
    assert_eq!(killed.wait(), 137);
}

#[test]
fn a_program_that_cannot_run_is_reported() {
    let Some(lab) = lab_or_skip() else { return };
    let error = lab.hosts()[0].spawn(Command::new("no-such-program"), Daemons::End).unwrap_err();
    assert_eq!(error.what, "cannot run `no-such-program`: No such file or directory (os error 2)");
}

#[test]
fn a_program_sees_its_host_and_nothing_else() {
    let Some(lab) = lab_or_skip() else { return };
    let before = machine();
    let host = &lab.hosts()[1];
    assert_eq!(output(host, "cat /etc/hosts").0, "127.0.0.1 localhost\n10.1.0.1 server\n10.2.0.1 client\n");
    assert_eq!(output(host, "cat /etc/resolv.conf").0, RESOLV_CONF);
    assert_eq!(output(host, "echo /proc/[0-9]*").0.trim().split(' ').count(), 2, "the first process and sh");
    let (devices, _) = output(host, "cat /proc/net/dev");
    let names: BTreeSet<_> =
        devices.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
    assert_eq!(names, BTreeSet::from(["lo", "tun0"]));
    // In a container, the system may refuse to mount a separate /sys.
    if output(host, "mount -t sysfs -o ro,nosuid,nodev,noexec sysfs /mnt").1 == 0 {
        let shown = output(host, "echo /sys/class/net/*; cat /sys/class/net/tun0/mtu").0;
        assert_eq!(shown, "/sys/class/net/lo /sys/class/net/tun0\n1500\n");
    }
    let (files, _) = output(host, "ls -l /proc/self/fd /proc/1/fd");
    assert!(
        !files.contains("tun") && !files.contains("net:"),
        "files of this process must be closed: {files}"
    );
    assert_eq!(machine(), before, "neither devices nor mounts of the machine have changed");
}

#[test]
fn daemons_of_a_program_end_with_it() {
    let Some(lab) = lab_or_skip() else { return };
    let mark = format!("AQMLAB_TEST_DAEMONS={}", std::process::id());
    let mut command = sh("setsid sleep 1000 & (sleep 1000 &) ; (trap '' TERM HUP INT; sleep 1000) & exit 5");
    let (name, value) = mark.split_once('=').unwrap();
    command.env(name, value);
    let mut child = lab.hosts()[0].spawn(command, Daemons::End).unwrap();
    assert_eq!(child.wait(), 5);
    assert_eq!(processes_with(&mark), [""; 0].map(PathBuf::from), "all have ended when the program has");
}

#[test]
fn a_dropped_lab_leaves_nothing() {
    let before = machine();
    let Some(lab) = lab_or_skip() else { return };
    let namespaces: BTreeSet<_> = lab.hosts().iter().map(namespace_of).collect();
    let mark = format!("AQMLAB_TEST_DROP={}", std::process::id());
    let (name, value) = mark.split_once('=').unwrap();
    let mut command = sh("sleep 1000 & sleep 1000");
    command.env(name, value);
    let child = lab.hosts()[0].spawn(command, Daemons::Stay).unwrap();
    let wire = Wire::between(lab.hosts());
    assert_eq!(namespaces.len(), 2);
    assert!(!users_of(&namespaces).is_empty() && !processes_with(&mark).is_empty());
    drop((child, wire.finish(), lab));
    assert_eq!(processes_with(&mark), [""; 0].map(PathBuf::from));
    assert_vanishes("users of namespaces", || users_of(&namespaces));
    assert_eq!(machine(), before);
}

/// Environment variable that is set if the test program runs as a child process of itself. The value marks all
/// processes that the test starts.
const CHILD: &str = "AQMLAB_TEST_CHILD";

/// Returns the command that runs the test `test` of this test program in a child process with a unique mark in the
/// environment.
fn again(test: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["--exact", test, "--nocapture"]).env(CHILD, format!("{}.{test}", std::process::id()));
    command
}

#[test]
fn a_lab_whose_process_is_killed_leaves_nothing() {
    if std::env::var_os(CHILD).is_some() {
        return print_and_wait();
    }
    let before = machine();
    if kill_when_ready(again("host::lab::tests::a_lab_whose_process_is_killed_leaves_nothing")) {
        assert_eq!(machine(), before);
    }
}

/// Creates a lab with programs that ignore termination signals, prints the lab's namespaces to standard output, and
/// then waits to be killed.
fn print_and_wait() {
    let Some(lab) = lab_or_skip() else { return };
    let _daemon = lab.hosts()[0].spawn(sh("setsid sleep 1000 & exit 0"), Daemons::Stay).unwrap();
    let _program = lab.hosts()[1].spawn(sh("trap '' TERM HUP INT; sleep 1000 & sleep 1000"), Daemons::End);
    let _wire = Wire::between(lab.hosts());
    for host in lab.hosts() {
        println!("{}", namespace_of(host).display());
    }
    println!("ready");
    std::thread::sleep(PATIENCE);
    unreachable!("killed before");
}

/// Kills a process that runs `print_and_wait`, and verifies that no namespace or child process of that process remains.
/// Returns false if the process could not create a lab.
fn kill_when_ready(mut command: Command) -> bool {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let printed: Vec<String> = lines.take_while(|line| line != "ready").collect();
    let namespaces: BTreeSet<_> =
        printed.iter().filter(|line| line.starts_with("net:")).map(PathBuf::from).collect();
    if namespaces.is_empty() {
        assert!(child.wait().unwrap().success(), "{printed:?}");
        return false;
    }
    let mark = started_mark(&command);
    // The processes are the test's child process, the first processes of the two process namespaces, a daemon, a shell
    // and the shell's child process.
    assert_comes("processes", || processes_with(&mark).len() >= 7);
    assert!(!users_of(&namespaces).is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_vanishes("processes", || processes_with(&mark));
    assert_vanishes("users of namespaces", || users_of(&namespaces));
    true
}

/// Returns the mark that `again` put into the environment of `command`.
fn started_mark(command: &Command) -> String {
    let mut marks = command.get_envs().filter(|(name, _)| *name == CHILD).filter_map(|(_, value)| value);
    format!("{CHILD}={}", marks.next().unwrap().display())
}

/// Returns the command that runs the test `test` in a child process as an unprivileged user.
fn again_as_nobody(test: &str) -> Command {
    let mut command = again(test);
    command.uid(65_534).gid(65_534);
    command
}

/// If this test does not run in a user namespace, runs the test again in a new user namespace and exits with the
/// resulting exit status.
fn into_user_namespace() {
    if crate::needs_user_namespace() {
        let mut arguments: Vec<_> = std::env::args_os().collect();
        arguments[0] = "/proc/self/exe".into();
        let status = crate::run_in_user_namespace(&arguments).unwrap_or_else(|error| {
            eprintln!("skipped: {error}");
            NOTHING_TO_TEST
        });
        std::process::exit(status);
    }
}

/// Exit status of a child process if the machine does not support the test.
const NOTHING_TO_TEST: i32 = 77;

#[test]
fn an_ordinary_user_has_a_lab_in_a_user_namespace() {
    if std::env::var_os(CHILD).is_some() {
        into_user_namespace();
        let Some(lab) = lab_or_skip() else { std::process::exit(NOTHING_TO_TEST) };
        assert_eq!(transfer(&lab, 100_000).0, "cubic");
        assert_eq!(output(&lab.hosts()[0], "grep -c tun0 /proc/net/dev; exit 6"), ("1\n".to_owned(), 6));
        let here = crate::Privileges::here();
        assert!(!here.bpf.is_granted(), "{here:?}");
        std::process::exit(42);
    }
    let status =
        again_as_nobody("host::lab::tests::an_ordinary_user_has_a_lab_in_a_user_namespace").status().unwrap();
    assert!([Some(42), Some(NOTHING_TO_TEST)].contains(&status.code()), "{status}");
}

#[test]
fn a_lab_in_a_user_namespace_ends_with_the_outer_process() {
    if std::env::var_os(CHILD).is_some() {
        into_user_namespace();
        return print_and_wait();
    }
    kill_when_ready(again_as_nobody(
        "host::lab::tests::a_lab_in_a_user_namespace_ends_with_the_outer_process",
    ));
}
