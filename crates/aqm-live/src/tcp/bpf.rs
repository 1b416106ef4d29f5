//! The edge hint of SHRED for real senders. The hint is the sender's congestion window, which is written into every
//! packet that the sender transmits.
//!
//! Sources: Linux, `Documentation/bpf/`; bpf(2). SHRED's requirements for the edge: M. Claypool, R. Kinicki and M.
//! Hartling, "Active Queue Management for Web Traffic", 2004.
//!
//! aqmlab's choice: the hint is stored in the identification field of the IPv4 header. A packet that must not be
//! fragmented, such as a TCP packet, does not need this field (J. Touch, RFC 6864, 2013). The BPF program is assembled
//! in this module, so that no compiler is needed, and is attached to the egress path of the device. The device must not
//! be given large segments that are split later (`gso_max_segs` is 1), because the kernel increments the identification
//! in each segment that results from a split.

#![allow(unsafe_code)]

mod program;
#[cfg(test)]
pub(crate) mod tests;

use std::ffi::c_long;
use std::fs::read_to_string;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use aqm_tcp::Flags;
use nix::errno::Errno;

use self::program::{Instruction, program};
use crate::LiveError;
use crate::router::ip::{Headers, Transport};

/// The BPF program that is attached to a device. Dropping this value detaches the program.
#[derive(Debug)]
pub struct CwndHint {
    /// The kernel detaches the program when this descriptor is closed, even if the process is killed.
    _link: OwnedFd,
}

impl CwndHint {
    /// Attaches the program to the device with the index `device` in the network namespace of the calling thread. From
    /// then on, every outgoing TCP packet contains its sender's window, which [`window`] reads.
    ///
    /// # Errors
    /// Returns an error if the kernel is older than Linux 6.6, or if the kernel does not permit this process to load or
    /// attach a program.
    pub fn attach(device: u32) -> Result<Self, LiveError> {
        let program = load(&program(), &mut [])
            .map_err(|error| refused("cannot load the BPF program that writes windows", error))?;
        let link = attach(&program, device)
            .map_err(|error| refused("cannot attach the BPF program that writes windows", error))?;
        Ok(Self { _link: link })
    }
}

/// Returns the window, in segments, that a packet contains. The packet must come from a device to which the program is
/// attached. Returns 0 if the packet does not necessarily contain a window. Only a packet that carries payload or a FIN
/// is certain to come from a socket that is neither half-open nor closed.
pub fn window(headers: &Headers) -> u16 {
    match headers.transport {
        Transport::Tcp(tcp) if headers.dont_fragment && (tcp.payload > 0 || tcp.flags.has(Flags::FIN)) => {
            headers.id
        }
        _ => 0,
    }
}

/// The first fields of `BPF_PROG_LOAD` in `union bpf_attr`.
#[derive(Default)]
#[repr(C)]
struct Load {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    device: u32,
    expected_attach_type: u32,
}

/// The first fields of `BPF_LINK_CREATE` in `union bpf_attr`.
#[derive(Default)]
#[repr(C)]
struct LinkCreate {
    program: u32,
    device: u32,
    attach_type: u32,
    flags: u32,
}

const BPF_PROG_LOAD: c_long = 5;
const BPF_LINK_CREATE: c_long = 28;
const SCHED_CLS: u32 = 3;
const TCX_EGRESS: u32 = 47;

/// Loads a program. If `log` is not empty, the verifier writes its messages into `log`.
fn load(program: &[Instruction], log: &mut [u8]) -> Result<OwnedFd, Errno> {
    let license = c"MIT";
    let mut name = [0; 16];
    name[..9].copy_from_slice(b"cwnd_hint");
    let attributes = Load {
        program_type: SCHED_CLS,
        instruction_count: program.len() as u32,
        instructions: program.as_ptr().addr() as u64,
        license: license.as_ptr().addr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log: if log.is_empty() { 0 } else { log.as_mut_ptr().expose_provenance() as u64 },
        name,
        expected_attach_type: TCX_EGRESS,
        ..Load::default()
    };
    bpf(BPF_PROG_LOAD, &attributes)
}

/// Attaches a program to the egress path of a device.
fn attach(program: &OwnedFd, device: u32) -> Result<OwnedFd, Errno> {
    let program = program.as_raw_fd().cast_unsigned();
    bpf(BPF_LINK_CREATE, &LinkCreate { program, device, attach_type: TCX_EGRESS, ..LinkCreate::default() })
}

/// Calls bpf(2) with a command that returns a file descriptor.
fn bpf<T>(command: c_long, attributes: &T) -> Result<OwnedFd, Errno> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes of `attributes`, which is `repr(C)` without padding. The kernel
    // also reads the memory regions whose addresses and lengths are stored in `attributes`; these regions outlive the
    // call. The kernel writes only into the log.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>()) };
    let descriptor = Errno::result(result)? as RawFd;
    // SAFETY: the kernel has just created the descriptor, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Returns an error which states that the operation `what` failed, and which suggests a remedy.
fn refused(what: &str, error: Errno) -> LiveError {
    let contents = |file: &str| read_to_string(file).map(|text| text.trim().to_owned()).unwrap_or_default();
    let release = contents("/proc/sys/kernel/osrelease");
    let lockdown = contents("/sys/kernel/security/lockdown");
    let reason = error.desc();
    let remedy = match error {
        _ if is_older_than_6_6(&release) => format!("Linux 6.6 or later is needed (got {release})"),
        Errno::EPERM | Errno::EACCES
            if ["[integrity]", "[confidentiality]"].iter().any(|set| lockdown.contains(set)) =>
        {
            format!("the kernel is locked down ({lockdown})")
        }
        Errno::EPERM => {
            "the capabilities CAP_BPF and CAP_NET_ADMIN are needed outside user namespaces: run as root"
                .to_owned()
        }
        Errno::EACCES => format!("the verifier rejected the program: {}", verifier_message()),
        Errno::ENOSYS => "the kernel is built without CONFIG_BPF_SYSCALL".to_owned(),
        Errno::ENODEV => "the device does not exist in this network namespace".to_owned(),
        _ => "CONFIG_NET_CLS_ACT and CONFIG_NET_XGRESS may be missing from the kernel".to_owned(),
    };
    LiveError::new(
        what,
        format_args!(
            "{reason}; {remedy}. Without the BPF program, windows are read through socket diagnostics"
        ),
    )
}

fn is_older_than_6_6(release: &str) -> bool {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    version > (0, 0) && version < (6, 6)
}

/// Returns the last message that the verifier reports about the program.
fn verifier_message() -> String {
    let mut log = vec![0; 1 << 16];
    let _ = load(&program(), &mut log);
    let text = String::from_utf8_lossy(&log);
    let mut words = text.trim_end_matches('\0').lines().filter(|line| !line.starts_with("processed "));
    words.next_back().unwrap_or("the verifier printed no message").to_owned()
}
