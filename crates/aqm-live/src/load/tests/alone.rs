//! Tests of a single end that is connected to plain sockets instead of a second end.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

use aqm_net::Ecn;

use super::*;
use crate::load::record::Event;
use crate::load::sockets::ecn_bits;

/// An end without the workload's other end.
struct Alone {
    commands: Commands,
    reports: mpsc::Receiver<Report>,
    delays: mpsc::Receiver<ConnectionDelays>,
    expected: Expected,
    thread: JoinHandle<()>,
    address: SocketAddrV4,
}

impl Alone {
    fn new(index: HostIndex, options: Options, datagrams: bool) -> Self {
        let address = Loopback::new().address(index);
        let ((commands, receiver), (reports, received)) = (unbounded_channel(), mpsc::channel());
        let ((delays, announced_delays), (ready, is_ready)) = (mpsc::channel(), mpsc::channel());
        let expected = Expected::default();
        let spec = EndSpec {
            index,
            options,
            listening: vec![address],
            sends_datagrams: datagrams,
            expected: Arc::clone(&expected),
            reports,
            delays,
        };
        let thread = std::thread::spawn(move || end::run(spec, receiver, &ready));
        is_ready.recv().unwrap().unwrap();
        commands.send(Command::Begin(Clock::start())).unwrap();
        Self { commands, reports: received, delays: announced_delays, expected, thread, address }
    }

    /// Returns a job in which this end connects to `to` and performs `task`.
    fn job(&self, to: SocketAddrV4, task: Task) -> Job {
        Job { number: 7, from: *self.address.ip(), to, task }
    }

    /// Stops the end and returns the events that the end reported.
    fn stop(self) -> Vec<Event> {
        self.commands.send(Command::Stop).unwrap();
        self.thread.join().unwrap();
        let event =
            |report| if let Report::Job { number: 7, event, .. } = report { Some(event) } else { None };
        self.reports.try_iter().filter_map(event).collect()
    }
}

/// Returns exchanges whose requests and responses have the sizes in `all`. The exchanges have no pauses, because there
/// is no thread in these tests that would wake a sleeping end.
fn rounds(all: &[(u64, u64)]) -> Task {
    let round = |&(request, response): &(u64, u64)| Round {
        pause: Span::ZERO,
        request,
        think: Span::ZERO,
        response: Some(response),
    };
    let (client_delay, server_delay) = (Span::from_millis(40), Span::ZERO);
    Task::Request(Arc::new(Rounds { all: all.iter().map(round).collect(), client_delay, server_delay }))
}

/// Reads a request or a response, and returns its header section and its total length.
fn read_message(stream: &mut TcpStream) -> (String, u64) {
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    while !bytes.ends_with(b"\r\n\r\n") {
        assert_eq!(
            stream.read(&mut byte).unwrap(),
            1,
            "it ended after {:?}",
            String::from_utf8_lossy(&bytes)
        );
        bytes.push(byte[0]);
    }
    let head = String::from_utf8(bytes).unwrap();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
    let body = length.map_or(0, |length| length.parse().unwrap());
    stream.read_exact(&mut vec![0; body]).unwrap();
    let bytes = (head.len() + body) as u64;
    (head, bytes)
}

fn is_over(stream: &mut TcpStream) -> bool {
    matches!(stream.read(&mut [0; 9]), Ok(0))
}

#[test]
fn requests_have_their_size_and_the_client_closes_after_the_last_response() {
    let client = Alone::new(RECEIVER, Options { dscp: 10, ..PLAIN }, false);
    let listener = TcpListener::bind(Loopback::new().address(SENDER)).unwrap();
    let Ok(SocketAddr::V4(server)) = listener.local_addr() else { panic!("not IPv4") };
    let wanted = [300, 8192, 8193, 100_063, 100_064, 1];
    let task = rounds(&wanted.map(|bytes| (bytes, 45)));
    client.commands.send(Command::Open(client.job(server, task))).unwrap();
    let (mut stream, peer) = listener.accept().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let delays = client.delays.try_recv().unwrap();
    assert_eq!((SocketAddr::V4(delays.client), delays.server), (peer, server));
    assert_eq!((delays.client_delay, delays.server_delay), (Span::from_millis(40), Span::ZERO));
    for wanted in wanted {
        let (head, bytes) = read_message(&mut stream);
        let host = format!("host: {server}\r\n");
        assert!(head.contains(&host) && head.starts_with(if wanted > 8192 { "POST" } else { "GET" }));
        assert_eq!(bytes, wanted.max(message::shortest_request(server.to_string().len())));
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nthere").unwrap();
    }
    assert!(is_over(&mut stream));
    let arrived = client.stop().into_iter().filter(|event| matches!(event, Event::Arrived(Some(_)))).count();
    assert_eq!(arrived, wanted.len());
}

#[test]
fn responses_have_their_size_and_the_server_closes_with_the_last_one() {
    let server = Alone::new(SENDER, PLAIN, false);
    let wanted = [12, 38, 47, 48, 49, 139, 1500, 70_000, 1_000_043];
    // The client's address is announced before the client connects, as the load generator does for its clients.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddrV4::new(*Loopback::new().address(RECEIVER).ip(), 0).into()).unwrap();
    let client = socket.local_addr().unwrap().as_socket_ipv4().unwrap();
    let job = server.job(server.address, rounds(&wanted.map(|bytes| (50, bytes))));
    server.expected.lock().unwrap().insert(client, job);
    socket.connect(&server.address.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    for wanted in wanted {
        stream.write_all(b"GET /some/where HTTP/1.1\r\nhost: there\r\n\r\n").unwrap();
        let (head, bytes) = read_message(&mut stream);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert_eq!(bytes, wanted.max(message::SHORTEST_RESPONSE));
    }
    assert!(is_over(&mut stream), "the connection must end at once without further data");
    drop(stream);
    // The server still has to detect that the connection was closed.
    std::thread::sleep(Duration::from_millis(500));
    let events = server.stop();
    let [Event::Info(info)] = events.as_slice() else { panic!("{events:?}") };
    assert!(info.cwnd > 0 && !info.congestion_control.is_empty(), "{info:?}");
}

#[test]
fn an_unannounced_connection_is_closed() {
    let server = Alone::new(SENDER, PLAIN, false);
    let mut stream = TcpStream::connect(server.address).unwrap();
    assert!(is_over(&mut stream));
    let error = server.reports.recv().unwrap();
    assert!(matches!(&error, Report::Error { reason, .. } if reason.contains("no workload")), "{error:?}");
}

#[test]
fn datagrams_contain_their_number_and_ecn_codepoint() {
    let sender = Alone::new(SENDER, Options { dscp: 46, ..PLAIN }, true);
    let receiver = UdpSocket::bind(Loopback::new().address(RECEIVER)).unwrap();
    socket2::SockRef::from(&receiver).set_recv_tos_v4(true).unwrap();
    let Ok(SocketAddr::V4(to)) = receiver.local_addr() else { panic!("not IPv4") };
    let sent = [(1000, Ecn::Ect0), (1500, Ecn::NotEct), (1501, Ecn::Ect1), (44, Ecn::Ect1), (5, Ecn::Ect0)];
    for (bytes, ecn) in sent {
        let job = sender.job(to, Task::Stream);
        sender.commands.send(Command::Datagram { job, bytes, ecn }).unwrap();
    }
    let mut buffer = [0; 2000];
    for (number, (bytes, ecn)) in [(0, sent[0]), (1, sent[1]), (2, sent[3]), (3, sent[4])] {
        let (_, length, tos) = datagrams::read_raw(&receiver, &mut buffer).unwrap();
        assert_eq!((length, tos), (usize::from(bytes).saturating_sub(28), 46 << 2 | ecn_bits(ecn)));
        assert!(length == 0 || buffer[..8] == u64::to_be_bytes(number), "{:?}", &buffer[..8]);
    }
    let error = sender.reports.iter().find(|report| matches!(report, Report::Error { .. }));
    let Some(Report::Error { reason, .. }) = error else { panic!("a datagram that is too large was sent") };
    assert!(reason.starts_with("sending a datagram: Message too long"), "{reason}");
    sender.stop();
}
