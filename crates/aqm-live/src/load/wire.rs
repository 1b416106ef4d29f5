//! A connection for the HTTP library, which counts the bytes that are sent and is closed with the last byte.

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

/// A connection and the progress of its messages.
pub(super) struct Wire {
    stream: Rc<TcpStream>,
    end: Rc<End>,
    progress: Rc<Progress>,
}

/// The progress of a connection.
pub(super) struct Progress {
    sent: Cell<u64>,
    /// For each message that this end sends, the total number of bytes sent up to the end of the message. The
    /// connection is closed with the last byte.
    ends: Vec<u64>,
    /// Number of messages sent completely.
    done: Cell<usize>,
    /// Arrival time of the first byte since the last call to [`take_first_byte`](Self::take_first_byte).
    first_byte: Cell<Option<Instant>>,
}

impl Progress {
    /// Creates the progress of a new connection. This end sends messages, whose lengths are given by `messages`, and
    /// then closes the connection. If `messages` is empty, the HTTP library closes the connection.
    pub(super) fn new(messages: impl Iterator<Item = u64>) -> Rc<Self> {
        let ends = messages.scan(0_u64, |total, bytes| {
            *total = total.saturating_add(bytes);
            Some(*total)
        });
        let (sent, done, first_byte) = (Cell::new(0), Cell::new(0), Cell::new(None));
        Rc::new(Self { sent, ends: ends.collect(), done, first_byte })
    }

    /// Returns the arrival time of the first byte since the last call.
    pub(super) fn take_first_byte(&self) -> Option<Instant> {
        self.first_byte.take()
    }
}

impl Wire {
    pub(super) fn new(stream: &Rc<TcpStream>, end: &Rc<End>, progress: &Rc<Progress>) -> Self {
        Self { stream: Rc::clone(stream), end: Rc::clone(end), progress: Rc::clone(progress) }
    }

    /// Counts sent bytes. All segments of a message except the last one are full-sized. The last segment is sent when
    /// the message is complete, and carries the FIN if the message is the last one on the connection.
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

/// Sets whether a segment smaller than the MSS is held back until more data or the FIN follows (`TCP_CORK`).
pub(super) fn set_cork(stream: &TcpStream, cork: bool) -> io::Result<()> {
    SockRef::from(stream).set_tcp_cork(cork)
}

/// Closes the sending direction of a connection. The FIN is sent after any data that are still queued.
pub(super) fn close(stream: &TcpStream) -> io::Result<()> {
    SockRef::from(stream).shutdown(Shutdown::Write)
}

/// Returns whether a call failed only because the socket was not ready, in which case the call must be repeated later.
pub(super) fn would_block<T>(result: &io::Result<T>) -> bool {
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
            let capacity = scratch.len().min(buffer.remaining());
            let result = self.stream.try_read(&mut scratch[..capacity]);
            if would_block(&result) {
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
            if !would_block(&result) {
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
        // One of the two ends may already have closed the connection.
        match close(&self.stream) {
            Err(error) if error.kind() != io::ErrorKind::NotConnected => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(())),
        }
    }
}

/// The read buffer that all connections of a thread share.
pub(super) type Scratch = RefCell<Box<[u8]>>;
