//! The application of both ends: the server sends a file, and the client closes the connection at the end of the file.

use std::cell::RefCell;
use std::rc::Rc;

use aqm_guest::{End, Event, Problem};
use bytes::Bytes;
use guest_common::{block, report_received};
use tquic::{Connection, Error, TransportHandler};

use crate::host::problem;

/// Bytes that the client reads at once.
const READ: usize = 65_536;

/// What the application has observed.
#[derive(Default)]
pub struct State {
    /// The number of the connection in the endpoint, after the handshake.
    pub established: Option<u64>,
    /// Whether the endpoint has removed the connection.
    pub closed: bool,
    pub events: Vec<Event>,
    pub problem: Option<Problem>,
}

/// The application of one end.
pub struct Transfer {
    end: End,
    /// Bytes of the file that the server has not yet passed to tquic.
    left: u64,
    buffer: Vec<u8>,
    state: Rc<RefCell<State>>,
}

impl Transfer {
    pub fn new(end: End, size: u64, state: Rc<RefCell<State>>) -> Self {
        Self { end, left: size, buffer: vec![0; READ], state }
    }

    /// Passes the file to tquic, as far as tquic's buffer has space.
    fn write(&mut self, connection: &mut Connection, stream: u64) -> tquic::Result<()> {
        while self.left > 0 {
            let next = block(self.left);
            let is_last = next.len() as u64 == self.left;
            match connection.stream_write(stream, Bytes::from_static(next), is_last) {
                Ok(written) => {
                    self.left -= written as u64;
                    if written < next.len() {
                        return connection.stream_want_write(stream, true);
                    }
                }
                Err(Error::Done) => return connection.stream_want_write(stream, true),
                Err(error) => return Err(error),
            }
        }
        connection.stream_want_write(stream, false)
    }

    /// Reads the received part of the file.
    fn read(&mut self, connection: &mut Connection, stream: u64) -> tquic::Result<()> {
        let mut bytes = 0;
        let is_complete = loop {
            match connection.stream_read(stream, &mut self.buffer) {
                Ok((length, is_complete)) => {
                    bytes += length;
                    if is_complete {
                        break true;
                    }
                }
                Err(Error::Done) => break false,
                Err(error) => return Err(error),
            }
        };
        report_received(&mut self.state.borrow_mut().events, bytes);
        if is_complete { connection.close(true, 0, b"") } else { Ok(()) }
    }

    /// Keeps an error for the answer of the guest. `Done` means that the stream or the connection is complete.
    fn keep(&self, done: tquic::Result<()>) {
        match done {
            Ok(()) | Err(Error::Done) => {}
            Err(error) => {
                self.state.borrow_mut().problem.get_or_insert(problem(error));
            }
        }
    }
}

impl TransportHandler for Transfer {
    fn on_conn_created(&mut self, _: &mut Connection) {}

    fn on_conn_established(&mut self, connection: &mut Connection) {
        self.state.borrow_mut().established = connection.index();
        if self.end == End::Server {
            let opened = connection.stream_uni_new(0, false);
            let done = opened.and_then(|stream| self.write(connection, stream));
            self.keep(done);
        }
    }

    fn on_conn_closed(&mut self, connection: &mut Connection) {
        let mut state = self.state.borrow_mut();
        (state.established, state.closed) = (None, true);
        let error = connection.local_error().or(connection.peer_error()).filter(|error| !error.is_app);
        if let Some(error) = error {
            let reason = String::from_utf8_lossy(&error.reason);
            let text = format!("the connection is lost: error {:#x} {reason}", error.error_code);
            state.problem.get_or_insert(text.into());
        }
    }

    fn on_stream_created(&mut self, _: &mut Connection, _: u64) {}

    fn on_stream_readable(&mut self, connection: &mut Connection, stream: u64) {
        let done = self.read(connection, stream);
        self.keep(done);
    }

    fn on_stream_writable(&mut self, connection: &mut Connection, stream: u64) {
        let done = self.write(connection, stream);
        self.keep(done);
    }

    fn on_stream_closed(&mut self, _: &mut Connection, _: u64) {}

    fn on_new_token(&mut self, _: &mut Connection, _: Vec<u8>) {}
}
