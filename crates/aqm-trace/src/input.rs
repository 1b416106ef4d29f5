//! The bytes of a file, unpacked if gzip packed them; what was read is counted and digested on the way.

#![expect(
    clippy::disallowed_types,
    reason = "a trace may be larger than memory, so this room reads it by itself"
)]

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;
use std::rc::Rc;

use aqm_net::digest::Digest;
use flate2::bufread::MultiGzDecoder;

use aqm_net::stage::Failure;
use aqm_net::watch::{Unit, Watch};

/// How much is looked at before a file is taken for something.
const HEAD: u64 = 1 << 16;
/// How much is read at once.
const PIECE: usize = 1 << 18;

/// A file that is being read.
pub(crate) struct Input<'a> {
    path: String,
    packed: bool,
    /// What the file begins with, unpacked.
    head: Vec<u8>,
    rest: Option<Box<dyn Read + 'a>>,
    state: Rc<State>,
}

/// What is known of the bytes that were read.
#[derive(Default)]
struct State {
    read: Cell<u64>,
    digest: RefCell<Digest>,
    /// What the operating system or the unpacker said last.
    trouble: RefCell<Option<String>>,
}

impl<'a> Input<'a> {
    pub(crate) fn open(path: &str, watch: &'a Watch) -> Result<Self, Failure> {
        let unreadable = |error: io::Error| unreadable(path, &error);
        let file = File::open(path).map_err(unreadable)?;
        watch.expect(file.metadata().map_err(unreadable)?.len(), Unit::Bytes);
        let state = Rc::new(State::default());
        let mut raw = Raw { file, watch, state: Rc::clone(&state) };
        let mut magic = Vec::new();
        raw.by_ref().take(2).read_to_end(&mut magic).map_err(unreadable)?;
        let packed = magic == [0x1f, 0x8b];
        let whole = Cursor::new(magic).chain(raw);
        let mut rest: Box<dyn Read + 'a> = if packed {
            let unpacked = MultiGzDecoder::new(BufReader::with_capacity(PIECE, whole));
            Box::new(Noting { inner: unpacked, state: Rc::clone(&state) })
        } else {
            Box::new(Noting { inner: whole, state: Rc::clone(&state) })
        };
        let mut head = Vec::new();
        // Trouble is noted, and whoever takes up reading meets it again.
        let _ = rest.by_ref().take(HEAD).read_to_end(&mut head);
        Ok(Self { path: path.to_owned(), packed, head, rest: Some(rest), state })
    }

    /// Its path.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Whether gzip packed it.
    pub(crate) fn is_packed(&self) -> bool {
        self.packed
    }

    /// What it begins with.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    /// All bytes from the first on; nothing the second time.
    pub(crate) fn take(&mut self) -> Box<dyn Read + 'a> {
        let rest = self.rest.take().unwrap_or_else(|| Box::new(io::empty()));
        Box::new(Cursor::new(self.head.clone()).chain(rest))
    }

    /// What reading failed of, if it did.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.state.trouble.borrow().clone()
    }

    /// The digest of the whole file, however much of it was of use.
    pub(crate) fn contents(&self) -> Result<String, Failure> {
        contents(&self.path, self.state.digest.borrow().clone(), self.state.read.get())
    }
}

/// The digest of a file, of which `digest` has taken in the first bytes, `from` of them.
pub(crate) fn contents(path: &str, mut digest: Digest, from: u64) -> Result<String, Failure> {
    let mut read = || {
        let mut file = File::open(Path::new(path))?;
        file.seek(SeekFrom::Start(from))?;
        let mut piece = vec![0; PIECE];
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(()),
                some => digest.bytes(&piece[..some]),
            }
        }
    };
    read().map_err(|error: io::Error| unreadable(path, &error))?;
    Ok(digest.finish())
}

fn unreadable(path: &str, error: &io::Error) -> Failure {
    Failure::File(format!("{path}: cannot be read: {error}"))
}

/// A file as it lies on the disk.
struct Raw<'a> {
    file: File,
    watch: &'a Watch,
    state: Rc<State>,
}

impl Read for Raw<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(to)?;
        self.state.digest.borrow_mut().bytes(&to[..read]);
        self.state.read.set(self.state.read.get() + read as u64);
        self.watch.reach(self.state.read.get());
        Ok(read)
    }
}

/// Notes what goes wrong, for those above do not tell.
struct Noting<R> {
    inner: R,
    state: Rc<State>,
}

impl<R: Read> Read for Noting<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.inner.read(to).inspect_err(|error| {
            self.state.trouble.replace(Some(error.to_string()));
        })
    }
}
