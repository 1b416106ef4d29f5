//! The bytes of a file, decompressed if necessary. The bytes are counted and included in a digest as they are read.

#![expect(
    clippy::disallowed_types,
    reason = "a trace may be larger than memory, so this crate reads it piecewise"
)]

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;
use std::rc::Rc;

use aqm_net::digest::Digest;
use flate2::bufread::MultiGzDecoder;

use aqm_net::level::Failure;
use aqm_net::watch::{Unit, Watch};

/// Number of bytes from which the type of a file is detected.
const HEAD_BYTES: u64 = 1 << 16;
/// Number of bytes per read.
const CHUNK: usize = 1 << 18;

/// A file that is being read.
pub(crate) struct Input<'a> {
    path: String,
    is_gzip: bool,
    /// First bytes of the file, decompressed.
    head: Vec<u8>,
    rest: Option<Box<dyn Read + 'a>>,
    state: Rc<State>,
}

/// State of the bytes that were read.
#[derive(Default)]
struct State {
    read: Cell<u64>,
    digest: RefCell<Digest>,
    /// Last error of the operating system or of the decompression.
    error: RefCell<Option<String>>,
}

impl<'a> Input<'a> {
    pub(crate) fn open(path: &str, watch: &'a Watch) -> Result<Self, Failure> {
        let unreadable = |error: io::Error| unreadable(path, &error);
        let file = File::open(path).map_err(unreadable)?;
        watch.expect(file.metadata().map_err(unreadable)?.len(), Unit::Bytes);
        let state = Rc::new(State::default());
        let mut raw = RawFile { file, watch, state: Rc::clone(&state) };
        let mut magic = Vec::new();
        raw.by_ref().take(2).read_to_end(&mut magic).map_err(unreadable)?;
        let is_gzip = magic == [0x1f, 0x8b];
        let whole = Cursor::new(magic).chain(raw);
        let mut rest: Box<dyn Read + 'a> = if is_gzip {
            let decompressed = MultiGzDecoder::new(BufReader::with_capacity(CHUNK, whole));
            Box::new(ErrorRecorder { inner: decompressed, state: Rc::clone(&state) })
        } else {
            Box::new(ErrorRecorder { inner: whole, state: Rc::clone(&state) })
        };
        let mut head = Vec::new();
        // An error is recorded, and occurs again when reading continues.
        let _ = rest.by_ref().take(HEAD_BYTES).read_to_end(&mut head);
        Ok(Self { path: path.to_owned(), is_gzip, head, rest: Some(rest), state })
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Returns whether the file is compressed with gzip.
    pub(crate) fn is_gzip(&self) -> bool {
        self.is_gzip
    }

    /// Returns the first bytes of the file, decompressed.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Returns a reader of all bytes from the first one; an empty reader on later calls.
    pub(crate) fn reader(&mut self) -> Box<dyn Read + 'a> {
        let rest = self.rest.take().unwrap_or_else(|| Box::new(io::empty()));
        Box::new(Cursor::new(self.head.clone()).chain(rest))
    }

    /// Returns the error that ended reading, if any.
    pub(crate) fn error(&self) -> Option<String> {
        self.state.error.borrow().clone()
    }

    /// Returns the digest of the whole file, even if only a part of it was used.
    pub(crate) fn contents(&self) -> Result<String, Failure> {
        contents(&self.path, self.state.digest.borrow().clone(), self.state.read.get())
    }
}

/// Returns the digest of a file; `digest` already contains the first `from` bytes.
pub(crate) fn contents(path: &str, mut digest: Digest, from: u64) -> Result<String, Failure> {
    let mut read = || {
        let mut file = File::open(Path::new(path))?;
        file.seek(SeekFrom::Start(from))?;
        let mut chunk = vec![0; CHUNK];
        loop {
            match file.read(&mut chunk)? {
                0 => return Ok(()),
                some => digest.bytes(&chunk[..some]),
            }
        }
    };
    read().map_err(|error: io::Error| unreadable(path, &error))?;
    Ok(digest.finish())
}

fn unreadable(path: &str, error: &io::Error) -> Failure {
    Failure::File(format!("{path}: cannot be read: {error}"))
}

/// A file as stored on disk.
struct RawFile<'a> {
    file: File,
    watch: &'a Watch,
    state: Rc<State>,
}

impl Read for RawFile<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(to)?;
        self.state.digest.borrow_mut().bytes(&to[..read]);
        self.state.read.set(self.state.read.get() + read as u64);
        self.watch.reach(self.state.read.get());
        Ok(read)
    }
}

/// A reader that records errors, because the layers above do not report their text.
struct ErrorRecorder<R> {
    inner: R,
    state: Rc<State>,
}

impl<R: Read> Read for ErrorRecorder<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.inner.read(to).inspect_err(|error| {
            self.state.error.replace(Some(error.to_string()));
        })
    }
}
