use std::collections::BTreeMap;
use std::{env, fs, process, thread};

use aqm_guest_process::{ProcessGuest, StartError};
use aqm_net::watch::Watch;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use crate::{options, shell, start};

/// Runs a script in a shell that reports whether the script succeeds.
fn succeeds(script: &str, isolation: bool) -> bool {
    let script = format!("if {script}; then echo yes >&2; else echo no >&2; fi; started; cat >/dev/null");
    let (answer, errors) = start(&script, "{}", &options(isolation));
    assert_eq!(answer, Ok(None), "{errors}");
    match errors.lines().last() {
        Some("yes") => true,
        Some("no") => false,
        _ => panic!("{errors}"),
    }
}

#[test]
fn an_isolated_program_cannot_change_the_file_system() {
    let folder = env::temp_dir().join(format!("aqm-guest-process-{}", process::id()));
    fs::create_dir_all(folder.join("sub")).unwrap();
    let file = folder.join("file");
    let (at, file_at) = (folder.display(), file.display());
    for script in [
        format!("(: >> {file_at})"),
        format!("(: > {at}/new)"),
        format!("mkdir {at}/new"),
        format!("rmdir {at}/sub"),
        format!("rm {file_at}"),
        format!("mv {file_at} {at}/moved"),
        format!("ln {file_at} {at}/hard"),
        format!("ln -s {file_at} {at}/symbolic"),
        format!("mkfifo {at}/pipe"),
        format!("chmod 700 {file_at}"),
        format!("touch -d 2001-01-01 {file_at}"),
        format!("chown $(id -u) {file_at}"),
    ] {
        // The same script succeeds without isolation.
        for isolation in [true, false] {
            fs::remove_dir_all(&folder).unwrap();
            fs::create_dir_all(folder.join("sub")).unwrap();
            fs::write(&file, "contents").unwrap();
            assert_eq!(succeeds(&script, isolation), !isolation, "{script}");
        }
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_isolated_program_can_read_files_and_execute_programs() {
    let program = env::current_exe().unwrap();
    for script in [
        format!("head -c 4 {} | grep -q ELF", program.display()),
        "(echo text > /dev/null)".to_owned(),
        "(echo text > /dev/stderr)".to_owned(),
        "test \"$(echo a | cat)\" = a".to_owned(),
    ] {
        assert!(succeeds(&script, true), "{script}");
    }
}

#[test]
fn a_system_without_landlock_is_an_error_that_names_the_option() {
    // The thread has a filter that refuses to create rules of Landlock, as a kernel without Landlock does.
    let watch = Watch::default();
    let started = thread::scope(|scope| {
        let without_landlock = || {
            let rules = BTreeMap::from([(libc::SYS_landlock_create_ruleset, Vec::new())]);
            let (allow, refuse) = (SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32));
            let filter = SeccompFilter::new(rules, allow, refuse, env::consts::ARCH.try_into().unwrap());
            let program: BpfProgram = filter.unwrap().try_into().unwrap();
            seccompiler::apply_filter(&program).unwrap();
            ProcessGuest::new(&shell("started"), &options(true), &watch.stop_request())
        };
        scope.spawn(without_landlock).join().unwrap()
    });
    let Err(error @ StartError::Isolation(_)) = started else { panic!("{started:?}") };
    let text = error.to_string();
    assert!(text.contains("Linux 6.2") && text.contains("cannot isolate a guest"), "{text}");
}
