//! A connection as the HTTP library sees it: it counts what passes, and closes with the last byte.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use aqm_net::Instant;
use hyper::rt::{Read, ReadBufCursor, Write};
use socket2::SockRef;
use tokio::net::TcpStream;

use super::end::End;

/// A connection, and what has passed over it.
pub(super) struct Wire {
    stream: Rc<TcpStream>,
    end: Rc<End>,
    progress: Rc<Progress>,
}

/// What has passed over a connection.
pub(super) struct Progress {
    sent: Cell<u64>,
    /// The messages that this end sends: how many bytes it has sent after each of them. With the last byte it closes.
    ends: Vec<u64>,
    /// Messages that are sent.
    done: Cell<usize>,
    /// When the first byte came since it was last asked for.
    first_byte: Cell<Option<Instant>>,
}

impl Progress {
    /// Nothing has passed. This end sends messages of so many bytes and then closes; with none it leaves that to the
    /// library.
    pub(super) fn new(messages: impl Iterator<Item = u64>) -> Rc<Self> {
        let ends = messages.scan(0_u64, |total, bytes| {
            *total = total.saturating_add(bytes);
            Some(*total)
        });
        let (sent, done, first_byte) = (Cell::new(0), Cell::new(0), Cell::new(None));
        Rc::new(Self { sent, ends: ends.collect(), done, first_byte })
    }

    /// When the first byte came since this was last asked.
    pub(super) fn take_first_byte(&self) -> Option<Instant> {
        self.first_byte.take()
    }
}

impl Wire {
    pub(super) fn new(stream: &Rc<TcpStream>, end: &Rc<End>, progress: &Rc<Progress>) -> Self {
        Self { stream: Rc::clone(stream), end: Rc::clone(end), progress: Rc::clone(progress) }
    }

    /// Counts what was sent. All segments of a message but the last one are full, and that goes out when the message
    /// is complete, if it is the last one with the FIN.
    fn note_sent(&self, result: io::Result<usize>) -> io::Result<usize> {
        let sent = result?;
        let Progress { sent: total, ends, done, .. } = &*self.progress;
        total.set(total.get() + sent as u64);
        while let Some(_complete) = ends.get(done.get()).filter(|&&end| end <= total.get()) {
            done.set(done.get() + 1);
            if done.get() == ends.len() {
                close(&self.stream)?;
            } else {
                set_cork(&self.stream, false)?;
            }
        }
        Ok(sent)
    }
}

/// Whether segments that are not full wait for what follows, the FIN included.
pub(super) fn set_cork(stream: &TcpStream, cork: bool) -> io::Result<()> {
    SockRef::from(stream).set_tcp_cork(cork)
}

/// Nothing more is sent over a connection: the FIN follows on what still waits.
pub(super) fn close(stream: &TcpStream) -> io::Result<()> {
    SockRef::from(stream).shutdown(Shutdown::Write)
}

/// Whether a call is to be made again when the socket is ready.
pub(super) fn is_early<T>(result: &io::Result<T>) -> bool {
    matches!(result, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

impl Read for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            let mut scratch = self.end.scratch();
            let room = scratch.len().min(buffer.remaining());
            let result = self.stream.try_read(&mut scratch[..room]);
            if is_early(&result) {
                continue;
            }
            let received = result?;
            buffer.put_slice(&scratch[..received]);
            if received > 0 && self.progress.first_byte.get().is_none() {
                self.progress.first_byte.set(Some(self.end.now()));
            }
            return Poll::Ready(Ok(()));
        }
    }
}

impl Write for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream.poll_write_ready(cx))?;
            let result = self.stream.try_write_vectored(slices);
            if !is_early(&result) {
                return Poll::Ready(self.note_sent(result));
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // It may be closed already, by either end.
        match close(&self.stream) {
            Err(error) if error.kind() != io::ErrorKind::NotConnected => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(())),
        }
    }
}

/// Memory that all connections of a thread read into, one after another.
pub(super) type Scratch = RefCell<Box<[u8]>>;
