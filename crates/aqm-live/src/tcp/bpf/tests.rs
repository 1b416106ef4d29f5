use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};
use rtnetlink::LinkUnspec;
use rtnetlink::packet_route::link::LinkAttribute;

use super::*;
use crate::router::ip::parse;

nix::ioctl_write_ptr_bad!(set_iff, libc::TUNSETIFF, libc::ifreq);

type Task = Box<dyn FnOnce() + Send>;

/// A network namespace with a TUN device.
pub(crate) struct TestHost {
    pub(crate) tun: File,
    pub(crate) device: u32,
    tasks: Sender<Task>,
}

impl TestHost {
    /// Creates a host with this address. If the machine does not permit network namespaces, returns `None` and prints
    /// the reason. If `own_table` is true, the host uses a small connection table of its own instead of the machine's
    /// table.
    pub(crate) fn new(address: Ipv4Addr, own_table: bool) -> Option<Self> {
        let (sender, receiver) = channel();
        let (tasks, todo): (_, Receiver<Task>) = channel();
        spawn(move || {
            let _ = sender.send(set_up(address, own_table));
            todo.into_iter().for_each(|task| task());
        });
        match receiver.recv().unwrap() {
            Ok((tun, device)) => Some(Self { tun, device, tasks }),
            Err(why) => {
                eprintln!("skipped: no network namespace with a TUN device: {why}");
                None
            }
        }
    }

    /// Runs `task` in a new thread in the host.
    pub(crate) fn run<T: Send + 'static>(&self, task: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let (sender, receiver) = channel();
        // The new thread inherits the namespace of the thread that starts it.
        self.tasks.send(Box::new(move || sender.send(spawn(task)).unwrap())).unwrap();
        receiver.recv().unwrap()
    }
}

fn set_up(address: Ipv4Addr, own_table: bool) -> std::io::Result<(File, u32)> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    if own_table {
        std::fs::write("/proc/sys/net/ipv4/tcp_child_ehash_entries", "1024")?;
        unshare(CloneFlags::CLONE_NEWNET)?;
    }
    let tun =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    // SAFETY: zeros are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"tun0") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as i16;
    // SAFETY: the `ifreq` outlives the call and contains the fields that TUNSETIFF reads.
    unsafe { set_iff(tun.as_raw_fd(), &raw const request) }?;
    let device = nix::net::if_::if_nametoindex("tun0")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        tokio::spawn(connection);
        // The loopback device always has the first index.
        handle
            .link()
            .set(LinkUnspec::new_with_index(1).up().build())
            .execute()
            .await
            .map_err(std::io::Error::other)?;
        let one = LinkAttribute::GsoMaxSegs(1);
        let settings = LinkUnspec::new_with_index(device).up().txqueuelen(10_000);
        let settings = settings.append_extra_attribute(one).build();
        handle.link().set(settings).execute().await.map_err(std::io::Error::other)?;
        // All of 10.0.0.0/8 is routed to the device.
        handle.address().add(device, address.into(), 8).execute().await.map_err(std::io::Error::other)
    })?;
    Ok((tun, device))
}

pub(crate) const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 1);
pub(crate) const PORT: u16 = 5001;

/// Returns two hosts, or `None` if the machine does not permit network namespaces.
pub(crate) fn two_hosts() -> Option<[TestHost; 2]> {
    Some([TestHost::new(CLIENT, false)?, TestHost::new(SERVER, false)?])
}

/// Forwards packets between hosts until `done` returns true. `see` is called with each packet from the first host; if
/// `see` returns false, the packet is dropped.
pub(crate) fn pump(
    [first, second]: &mut [TestHost; 2],
    mut done: impl FnMut() -> bool,
    mut see: impl FnMut(&[u8]) -> bool,
) {
    let mut buffer = [0; 2048];
    let start = Instant::now();
    while !done() && start.elapsed() < Duration::from_secs(300) {
        let mut idle = true;
        while let Ok(length) = first.tun.read(&mut buffer) {
            idle = false;
            let ipv4 = buffer[0] >> 4 == 4;
            if ipv4 && see(&buffer[..length]) {
                let _ = second.tun.write(&buffer[..length]);
            }
        }
        while let Ok(length) = second.tun.read(&mut buffer) {
            idle = false;
            let _ = first.tun.write(&buffer[..length]);
        }
        if idle {
            sleep(Duration::from_micros(500));
        }
    }
}

/// Starts a server that accepts this number of connections and receives all data.
pub(crate) fn serve(host: &TestHost, connections: usize) -> JoinHandle<u64> {
    let (sender, receiver) = channel();
    let server = host.run(move || {
        let listener = TcpListener::bind(SocketAddrV4::new(SERVER, PORT)).unwrap();
        sender.send(()).unwrap();
        let readers: Vec<_> = (0..connections)
            .map(|_| {
                let (mut stream, _) = listener.accept().unwrap();
                spawn(move || std::io::copy(&mut stream, &mut std::io::sink()).unwrap())
            })
            .collect();
        readers.into_iter().map(|reader| reader.join().unwrap()).sum()
    });
    receiver.recv().unwrap();
    server
}

/// Returns a connection to the server that uses the congestion control of RFC 5681, regardless of the machine's
/// default.
pub(crate) fn connect() -> TcpStream {
    let stream = TcpStream::connect((SERVER, PORT)).unwrap();
    socket2::SockRef::from(&stream).set_tcp_congestion(b"reno").unwrap();
    stream
}

fn checksum_is_right(packet: &[u8]) -> bool {
    let header = etherparse::Ipv4Header::from_slice(packet).unwrap().0;
    header.calc_header_checksum() == header.header_checksum
}

#[test]
fn every_data_packet_carries_the_window_of_its_sender() {
    let Some(mut hosts) = two_hosts() else { return };
    let device = hosts[0].device;
    let hint = match hosts[0].run(move || CwndHint::attach(device)).join().unwrap() {
        Ok(hint) => hint,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let server = serve(&hosts[1], 1);
    let client = hosts[0].run(|| {
        let mut stream = connect();
        stream.write_all(&[0; 2_000_000]).unwrap();
    });
    let (mut windows, mut wrong) = (Vec::new(), 0);
    pump(
        &mut hosts,
        || server.is_finished(),
        |packet| {
            let headers = parse(packet).unwrap();
            wrong += usize::from(!checksum_is_right(packet));
            windows.extend(Some(window(&headers)).filter(|&window| window > 0));
            // One packet is dropped in order to reduce the window.
            windows.len() != 200
        },
    );
    client.join().unwrap();
    assert_eq!(server.join().unwrap(), 2_000_000);
    assert_eq!(wrong, 0, "checksums");
    assert!(windows.len() > 1360, "{} packets of 1460 bytes", windows.len());
    assert!(windows[..5].iter().all(|&window| window == 10), "the initial window: {:?}", &windows[..5]);
    let most = windows.iter().max().unwrap();
    assert!((20..2000).contains(most), "the window must grow and not count packets: {most}");
    let mut most_yet = 0;
    let falls = windows.iter().any(|&window| {
        most_yet = window.max(most_yet);
        window * 4 < most_yet * 3
    });
    assert!(falls, "the window must decrease after a loss: {windows:?}");
    drop(hint);
}

#[test]
fn without_the_program_identifications_count() {
    let Some(mut hosts) = two_hosts() else { return };
    let device = hosts[0].device;
    match hosts[0].run(move || CwndHint::attach(device)).join().unwrap() {
        Ok(hint) => drop(hint),
        Err(why) => return eprintln!("skipped: {why}"),
    }
    let server = serve(&hosts[1], 1);
    let client =
        hosts[0].run(|| TcpStream::connect((SERVER, PORT)).unwrap().write_all(&[0; 60_000]).unwrap());
    let mut ids = Vec::new();
    pump(
        &mut hosts,
        || server.is_finished(),
        |packet| {
            ids.push(parse(packet).unwrap().id);
            true
        },
    );
    client.join().unwrap();
    let following = ids.windows(2).filter(|pair| pair[1] == pair[0].wrapping_add(1)).count();
    assert!(following + 2 > ids.len() / 2, "the program must be detached with its file: {ids:?}");
}

#[test]
fn refusals_of_the_kernel_are_reported() {
    match CwndHint::attach(u32::MAX) {
        Err(error) => assert!(error.what.contains("BPF program that writes windows"), "{error}"),
        Ok(_) => panic!("no device has this number"),
    }
    for (error, expected) in [
        (Errno::EPERM, "CAP_BPF"),
        (Errno::ENOSYS, "CONFIG_BPF_SYSCALL"),
        (Errno::ENODEV, "does not exist"),
        (Errno::EINVAL, "CONFIG_NET_XGRESS"),
    ] {
        let text = refused("x", error).what;
        assert!(text.contains(expected) || text.contains("locked down") || text.contains("6.6"), "{text}");
    }
    let old = ["6.5.13-arch", "5.15.0", "6.6.1", "6.10", "7.0", "", "x"].map(is_older_than_6_6);
    assert_eq!(old, [true, true, false, false, false, false, false]);
}

#[test]
fn every_jump_to_the_end_has_the_right_offset() {
    let program = program();
    for (at, one) in program.iter().enumerate().filter(|(_, one)| matches!(one.code, 0x15 | 0x55)) {
        assert_eq!(at + 1 + one.offset as usize, program.len() - 2);
    }
}
