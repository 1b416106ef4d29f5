//! Exchanges over HTTP/1.1. The client runs at the receiver of the data, and the server runs at the sender. All
//! exchanges of a job use the same connection.
//!
//! The server closes the connection with the last byte of the last response, and the client closes the connection after
//! receiving the last response. Therefore, the last response does not need a `connection: close` header, which would
//! not fit into small responses.

use std::cell::Cell;
use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddrV4;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use tokio::net::TcpStream;
use tokio::task::spawn_local;

use super::end::{CHUNK, End};
use super::message::{RequestShape, ResponseShape, SHORTEST_RESPONSE};
use super::push::FILLING;
use super::record::Event;
use super::wire::{Progress, Wire, set_cork};
use super::{Job, Round, Rounds};

type Failure = Box<dyn Error + Send + Sync>;

/// Runs a client, which opens the connection of a job, sends the requests in order, and reads the responses.
pub(super) async fn request_all(end: Rc<End>, job: Job, rounds: Arc<Rounds>) {
    let Some(stream) = end.connect(&job).await else { return };
    if let Err(error) = send_requests(&end, &job, &stream, &rounds).await {
        end.fail(job.number, "requesting", error.as_ref());
    }
}

async fn send_requests(
    end: &Rc<End>,
    job: &Job,
    stream: &Rc<TcpStream>,
    rounds: &Rounds,
) -> Result<(), Failure> {
    let progress = Progress::new(std::iter::empty());
    let wire = Wire::new(stream, end, &progress);
    let (mut server, connection) = hyper::client::conn::http1::handshake(wire).await?;
    let connection = spawn_local(connection);
    let outcome = exchange_in_turn(end, job, &mut server, rounds, &progress).await;
    // Dropping `server` closes the connection.
    drop(server);
    let closed = connection.await;
    outcome?;
    // If the server has already closed the connection, no error is reported, because all data have arrived.
    let _ = closed;
    Ok(())
}

async fn exchange_in_turn(
    end: &End,
    job: &Job,
    server: &mut SendRequest<Filling>,
    rounds: &Rounds,
    progress: &Progress,
) -> Result<(), Failure> {
    for (index, round) in rounds.all.iter().enumerate() {
        if index > 0 {
            end.sleep(round.pause).await;
            end.report(job.number, Event::Requested);
        }
        server.ready().await?;
        let response = server.send_request(request(round, job.to)?).await?;
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            frame?;
        }
        end.report(job.number, Event::Arrived(progress.take_first_byte()));
    }
    Ok(())
}

fn request(round: &Round, server: SocketAddrV4) -> Result<Request<Filling>, hyper::http::Error> {
    let host = server.to_string();
    let RequestShape { path, body } = RequestShape::of(round.request, host.len());
    let uri = format!("/{}", "x".repeat(path));
    let method = if body.is_some() { Method::POST } else { Method::GET };
    let request = Request::builder().method(method).uri(uri).header(hyper::header::HOST, host);
    request.body(Filling { left: Some(body.unwrap_or(0)) })
}

/// Runs the server of a connection, which receives requests in order and responds to each request.
pub(super) async fn respond_all(end: Rc<End>, stream: Rc<TcpStream>, number: u32, rounds: Arc<Rounds>) {
    end.register_sender(number, &stream);
    let sizes = rounds.all.iter().map(|round| round.response.unwrap_or(u64::MAX).max(SHORTEST_RESPONSE));
    let progress = Progress::new(sizes);
    let wire = Wire::new(&stream, &end, &progress);
    let server =
        Rc::new(Server { end: Rc::clone(&end), stream: Rc::clone(&stream), rounds, responses: Cell::new(0) });
    let service = service_fn(move |request| {
        let server = Rc::clone(&server);
        async move { server.respond(request).await }
    });
    let mut connection = hyper::server::conn::http1::Builder::new();
    connection.auto_date_header(false).header_read_timeout(None);
    let served = connection.serve_connection(wire, service).await;
    end.release_sender(number);
    if let Err(error) = served {
        end.fail(number, "responding", &error);
    }
}

/// The state of a connection at the server.
struct Server {
    end: Rc<End>,
    stream: Rc<TcpStream>,
    rounds: Arc<Rounds>,
    responses: Cell<usize>,
}

impl Server {
    async fn respond(&self, request: Request<Incoming>) -> Result<Response<Filling>, Failure> {
        let mut body = request.into_body();
        while let Some(frame) = body.frame().await {
            frame?;
        }
        let index = self.responses.replace(self.responses.get() + 1);
        let round = self.rounds.all.get(index).ok_or("too many requests")?;
        self.end.sleep(round.think).await;
        set_cork(&self.stream, true)?;
        let shape = round.response.map(ResponseShape::of);
        let mut response = Response::new(Filling { left: shape.map(|shape| shape.body) });
        if shape.is_some_and(|shape| shape.padded) {
            response.headers_mut().insert(HeaderName::from_static("x"), HeaderValue::from_static(""));
        }
        Ok(response)
    }
}

/// A body with `left` bytes, or an endless body if `left` is `None`.
struct Filling {
    left: Option<u64>,
}

impl Body for Filling {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let most = self.left.map_or(CHUNK, |left| left.min(CHUNK as u64) as usize);
        self.left = self.left.map(|left| left - most as u64);
        Poll::Ready((most > 0).then(|| Ok(Frame::data(Bytes::from_static(&FILLING[..most])))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
