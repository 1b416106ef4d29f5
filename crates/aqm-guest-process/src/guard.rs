//! Kills guests after the program that started the guests has been killed.
//!
//! A killed program cannot end its guests. Most guests exit when their standard input ends, but a guest that computes or
//! sleeps does not read its standard input. Linux could send a signal to a guest (`PR_SET_PDEATHSIG`), but only at the end
//! of the thread that started the guest, and this thread ends early (`isolation`). Therefore, a shell waits until its
//! standard input ends, and kills the process groups of the guests that remain.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{self, Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// The program of the shell. A line of standard input adds (`+`) or removes (`-`) a process group.
const SCRIPT: &str = "
trap '' HUP INT TERM
groups=
while read -r change group; do
    kept=
    for one in $groups; do
        [ \"$one\" = \"$group\" ] || kept=\"$kept $one\"
    done
    groups=$kept
    [ \"$change\" = - ] || groups=\"$groups $group\"
done
for group in $groups; do
    kill -s KILL -- \"-$group\"
done
";

/// A process group that is killed if this program is killed. A process group is not guarded after the value has been
/// dropped.
#[derive(Debug)]
pub(crate) struct Guarded(u32);

impl Guarded {
    /// Guards the process group of a process that has just been started.
    pub(crate) fn new(group: u32) -> io::Result<Self> {
        with_guard(|guard| guard.add(group))?;
        Ok(Self(group))
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // If the shell has been killed, the process group is not guarded.
        let _ = with_guard(|guard| guard.remove(self.0));
    }
}

/// Calls a function with the guard of this process, which is started if necessary.
fn with_guard<T>(call: impl FnOnce(&mut Guard) -> io::Result<T>) -> io::Result<T> {
    static GUARD: Mutex<Option<Guard>> = Mutex::new(None);
    let mut guard = GUARD.lock().unwrap_or_else(PoisonError::into_inner);
    let this = process::id();
    // After a fork, the guard belongs to the parent.
    if guard.as_ref().is_none_or(|guard| guard.process != this) {
        *guard = Some(Guard::start(this)?);
    }
    guard.as_mut().map_or_else(|| Err(io::Error::other("the guard of guests is missing")), call)
}

/// The shell.
struct Guard {
    /// The process that started the shell.
    process: u32,
    shell: Child,
    input: ChildStdin,
    groups: BTreeSet<u32>,
}

impl Guard {
    fn start(process: u32) -> io::Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT]).current_dir("/").process_group(0);
        // The shell ends after this program, whose output must end with this program.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut shell = command.spawn()?;
        let input = shell.stdin.take().ok_or_else(|| io::Error::other("the shell has no standard input"))?;
        Ok(Self { process, shell, input, groups: BTreeSet::new() })
    }

    fn add(&mut self, group: u32) -> io::Result<()> {
        self.groups.insert(group);
        if self.send('+', group).is_err() {
            // The shell has been killed. The wait removes its process.
            let _ = self.shell.wait();
            let groups = std::mem::take(&mut self.groups);
            *self = Self { groups, ..Self::start(self.process)? };
            for group in self.groups.clone() {
                self.send('+', group)?;
            }
        }
        Ok(())
    }

    fn remove(&mut self, group: u32) -> io::Result<()> {
        self.groups.remove(&group);
        self.send('-', group)
    }

    /// Sends a line in one piece, which is shorter than the capacity of a pipe.
    fn send(&mut self, change: char, group: u32) -> io::Result<()> {
        self.input.write_all(format!("{change} {group}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use nix::sys::signal::{Signal, killpg};
    use nix::unistd::Pid;

    use super::*;

    fn sleeping() -> Child {
        // The shell and its child form a process group.
        Command::new("sh").args(["-c", "sleep 600 & wait"]).process_group(0).spawn().unwrap()
    }

    fn guarding(children: &[&Child]) -> Guard {
        let mut guard = Guard::start(process::id()).unwrap();
        children.iter().for_each(|child| guard.add(child.id()).unwrap());
        guard
    }

    #[test]
    fn guarded_process_groups_are_killed_when_the_input_of_the_shell_ends() {
        let (mut first, mut removed, mut last) = (sleeping(), sleeping(), sleeping());
        let mut guard = guarding(&[&first, &removed, &last]);
        guard.remove(removed.id()).unwrap();
        // The end of this program would also close the pipe.
        drop(guard);
        for child in [&mut first, &mut last] {
            assert_eq!(child.wait().unwrap().signal(), Some(9));
        }
        assert!(removed.try_wait().unwrap().is_none());
        killpg(Pid::from_raw(removed.id() as i32), Signal::SIGKILL).unwrap();
        removed.wait().unwrap();
    }

    #[test]
    fn a_killed_shell_is_replaced() {
        let (mut first, mut last) = (sleeping(), sleeping());
        let mut guard = guarding(&[&first]);
        guard.shell.kill().unwrap();
        guard.shell.wait().unwrap();
        guard.add(last.id()).unwrap();
        drop(guard);
        for child in [&mut first, &mut last] {
            assert_eq!(child.wait().unwrap().signal(), Some(9));
        }
    }
}
