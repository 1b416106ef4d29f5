//! Programs as guests of a simulated scenario.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use std::{env, fs};

use aqm_guest::Guest;
use aqm_net::Span;
use aqm_net::digest::Digest;
use aqm_net::watch::StopRequest;

use crate::{Options, ProcessGuest, StartError};

/// Starts a program as a guest of a scenario. The program has no network and a read-only file system. If `stop` is set,
/// the guest is killed at its next or current request.
///
/// # Errors
/// Returns a description of the error if the program cannot be started or isolated.
pub fn guest(command: &[String], time_limit: Span, stop: &StopRequest) -> Result<Box<dyn Guest>, String> {
    let options = Options { time_limit: Duration::from_nanos(time_limit.nanos()), ..Options::default() };
    match ProcessGuest::new(command, &options, stop) {
        Ok(guest) => Ok(Box::new(guest)),
        Err(error @ StartError::Isolation(_)) => {
            Err(format!("{error}; guests of scenarios are always isolated"))
        }
        Err(StartError::Program(error)) => {
            Err(format!("{}: {error}", command.first().map_or("", |name| name)))
        }
    }
}

/// Returns a digest of the contents of the files that a command names: the program, and all arguments that are files.
///
/// The results of a program may also depend on other files, for example on libraries. The digest does not depend on these
/// files.
pub fn program_digest(command: &[String]) -> String {
    let mut digest = Digest::default();
    for (index, word) in command.iter().enumerate() {
        let path = if index == 0 { found(word) } else { Some(PathBuf::from(word)) };
        // A program without a file cannot be started, which the run reports.
        if let Some(content) = path.and_then(|path| file_digest(&path)) {
            digest.word(index as u64);
            digest.text(&content);
        }
    }
    digest.finish()
}

/// Returns the file of a program as `execvp` does (exec(3)): a name without a slash is searched in `PATH`.
fn found(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program));
    }
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Returns the digest of a regular file. A file is read again only if its length or its modification time has changed,
/// because a sweep asks for the digest of each of its scenarios.
fn file_digest(path: &Path) -> Option<String> {
    static KNOWN: Mutex<BTreeMap<PathBuf, (u64, SystemTime, String)>> = Mutex::new(BTreeMap::new());
    let path = fs::canonicalize(path).ok()?;
    let metadata = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
    let (length, modified) = (metadata.len(), metadata.modified().ok()?);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((of, at, content)) = known.get(&path)
        && (*of, *at) == (length, modified)
    {
        return Some(content.clone());
    }
    let mut digest = Digest::default();
    digest.bytes(&fs::read(&path).ok()?);
    let content = digest.finish();
    known.insert(path, (length, modified, content.clone()));
    Some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_a_command_changes_with_its_files() {
        let folder = env::temp_dir().join(format!("aqm-guest-process-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let file = folder.join("guest.py");
        let digest =
            |words: &[&str]| program_digest(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        let of_file = || digest(&["sh", file.to_str().unwrap(), "--verbose"]);
        let missing = of_file();
        fs::write(&file, "first").unwrap();
        let first = of_file();
        fs::write(&file, "another").unwrap();
        let other = of_file();
        fs::write(&file, "first").unwrap();
        assert_eq!(of_file(), first);
        assert!(missing != first && first != other);
        // The path of the program is not a part of the digest, but its contents are.
        let shell = found("sh").unwrap();
        assert_eq!(digest(&["sh"]), digest(&[shell.to_str().unwrap()]));
        assert_ne!(digest(&["sh"]), digest(&["cat"]));
        // A folder and a device are not read.
        assert_eq!(digest(&["sh", "/", "/dev/zero"]), digest(&["sh"]));
        fs::remove_dir_all(&folder).unwrap();
    }
}
