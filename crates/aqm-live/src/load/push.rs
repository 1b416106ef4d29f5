//! Transfers without a request: the sender of the data opens the connection, sends the data, and closes the connection.

use std::io;
use std::rc::Rc;

use tokio::net::TcpStream;

use super::Job;
use super::end::{CHUNK, End};
use super::record::Event;
use super::wire::{close, set_cork, would_block};

/// The data to send.
pub(super) static FILLING: [u8; CHUNK] = [b'x'; CHUNK];

/// Opens the connection of a job and sends `bytes` bytes, or sends endlessly if `bytes` is `None`.
pub(super) async fn send(end: Rc<End>, job: Job, bytes: Option<u64>) {
    let Some(stream) = end.connect(&job).await else { return };
    end.register_sender(job.number, &stream);
    let sent = send_all(&end, &stream, bytes).await;
    end.release_sender(job.number);
    if let Err(error) = sent {
        end.fail(job.number, "sending", &error);
    }
}

/// Sends the data and closes the connection. Returns when the other end has also closed the connection, which means
/// that all data have arrived.
async fn send_all(end: &End, stream: &TcpStream, bytes: Option<u64>) -> io::Result<()> {
    // With this option, all segments except the last segment are full, and the last segment carries the FIN.
    set_cork(stream, true)?;
    let mut left = bytes;
    while left != Some(0) {
        stream.writable().await?;
        let most = left.map_or(CHUNK, |left| left.min(CHUNK as u64) as usize);
        let result = stream.try_write(&FILLING[..most]);
        if !would_block(&result) {
            let sent = result? as u64;
            left = left.map(|left| left - sent);
        }
    }
    close(stream)?;
    while read(end, stream).await? > 0 {}
    Ok(())
}

/// Receives the data of a job: `bytes` bytes, or endless data if `bytes` is `None`.
pub(super) async fn receive(end: Rc<End>, stream: Rc<TcpStream>, number: u32, bytes: Option<u64>) {
    let mut received = 0;
    let is_all = |received| bytes.is_some_and(|bytes| received >= bytes);
    let mut reported = false;
    loop {
        if is_all(received) && !reported {
            reported = true;
            end.report(number, Event::Arrived(None));
        }
        match read(&end, &stream).await {
            Ok(0) if reported => return,
            Ok(0) => return end.fail(number, "receiving", &io::Error::from(io::ErrorKind::UnexpectedEof)),
            Ok(more) => received += more as u64,
            Err(error) => return end.fail(number, "receiving", &error),
        }
    }
}

/// Reads the available data and returns the number of bytes read; 0 means the end of the stream.
async fn read(end: &End, stream: &TcpStream) -> io::Result<usize> {
    loop {
        stream.readable().await?;
        let result = stream.try_read(&mut end.scratch());
        if !would_block(&result) {
            return result;
        }
    }
}
