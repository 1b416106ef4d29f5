//! The bytes of a file, which are decompressed if necessary. While the file is read, its bytes are counted and added to
//! a digest.

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

/// Number of bytes that are read to detect the type of a file.
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

/// State that results from the bytes read so far.
#[derive(Default)]
struct State {
    read: Cell<u64>,
    digest: RefCell<Digest>,
    /// Last error that the operating system or the decompressor reported.
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
        // An error is recorded and occurs again in the next read, so the error is ignored here.
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

    /// Returns a reader of all bytes of the file. Later calls return an empty reader.
    pub(crate) fn reader(&mut self) -> Box<dyn Read + 'a> {
        let rest = self.rest.take().unwrap_or_else(|| Box::new(io::empty()));
        Box::new(Cursor::new(self.head.clone()).chain(rest))
    }

    /// Returns the error that ended reading, if any.
    pub(crate) fn error(&self) -> Option<String> {
        self.state.error.borrow().clone()
    }

    /// Returns the digest of the whole file, even if only a part of the file was used.
    pub(crate) fn contents(&self) -> Result<String, Failure> {
        contents(&self.path, self.state.digest.borrow().clone(), self.state.read.get())
    }
}

/// Returns the digest of a file. `digest` must already include the first `from` bytes of the file.
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

/// A reader of the bytes of a file as stored on disk, before decompression.
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

/// A reader that records the texts of errors, because the higher layers do not report them.
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
