//! The edge hint of SHRED on a real sender: its congestion window, written into every packet it sends.
//!
//! Linux, `Documentation/bpf/`; bpf(2). What SHRED wants of the edge: M. Claypool,
//! R. Kinicki and M. Hartling, "Active Queue Management for Web Traffic", 2004.
//!
//! Ours: the hint stands in the identification of the IPv4 header. A packet that must not be fragmented, as TCP sends
//! them, needs none (J. Touch, RFC 6864, 2013). The program is assembled here, so that no compiler is needed, and sits
//! where packets leave the device. The device must not get segments to cut up (`gso_max_segs` 1), for the kernel
//! counts the identification up from piece to piece.

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

/// The program on a device, for as long as this value lives.
#[derive(Debug)]
pub struct CwndHint {
    /// The kernel takes the program off the device when this is closed, however the process ends.
    _link: OwnedFd,
}

impl CwndHint {
    /// Lets every packet of TCP that leaves the device of this index, in the network namespace of the calling
    /// thread, carry its sender's window: [`window`] reads it.
    ///
    /// # Errors
    /// If the kernel is older than 6.6, or does not let this process load or attach a program.
    pub fn attach(device: u32) -> Result<Self, LiveError> {
        let program = load(&program(), &mut [])
            .map_err(|error| refused("cannot load the BPF program that writes windows", error))?;
        let link = attach(&program, device)
            .map_err(|error| refused("cannot attach the BPF program that writes windows", error))?;
        Ok(Self { _link: link })
    }
}

/// The window in segments that a packet from a device with the program carries; 0 if it may carry none: only what has
/// payload or a FIN is sent by a socket that is neither half-open nor closed.
pub fn window(headers: &Headers) -> u16 {
    match headers.transport {
        Transport::Tcp(tcp) if headers.dont_fragment && (tcp.payload > 0 || tcp.flags.has(Flags::FIN)) => {
            headers.id
        }
        _ => 0,
    }
}

/// `BPF_PROG_LOAD`: the beginning of its part of `union bpf_attr`.
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

/// `BPF_LINK_CREATE`: the beginning of its part of `union bpf_attr`.
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

/// Loads a program; the verifier writes into `log` what it thinks of it, if there is room.
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

/// Puts a program where packets leave a device.
fn attach(program: &OwnedFd, device: u32) -> Result<OwnedFd, Errno> {
    let program = program.as_raw_fd().cast_unsigned();
    bpf(BPF_LINK_CREATE, &LinkCreate { program, device, attach_type: TCX_EGRESS, ..LinkCreate::default() })
}

/// bpf(2), of a command that makes a file descriptor.
fn bpf<T>(command: c_long, attributes: &T) -> Result<OwnedFd, Errno> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes of `attributes`, which is `repr(C)` without padding, and what
    // its addresses lead to, which outlives the call, in the lengths beside them; it writes only into the log.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>()) };
    let descriptor = Errno::result(result)? as RawFd;
    // SAFETY: the kernel has just made it for this call.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Why the kernel did not do `what`, and what helps.
fn refused(what: &str, error: Errno) -> LiveError {
    let told = |file: &str| read_to_string(file).map(|text| text.trim().to_owned()).unwrap_or_default();
    let release = told("/proc/sys/kernel/osrelease");
    let lockdown = told("/sys/kernel/security/lockdown");
    let reason = error.desc();
    let remedy = match error {
        _ if is_older_than_6_6(&release) => format!("Linux 6.6 is needed, this is {release}"),
        Errno::EPERM | Errno::EACCES
            if ["[integrity]", "[confidentiality]"].iter().any(|set| lockdown.contains(set)) =>
        {
            format!("the kernel is locked down ({lockdown})")
        }
        Errno::EPERM => {
            "CAP_BPF and CAP_NET_ADMIN are needed outside any user namespace: run it as root".to_owned()
        }
        Errno::EACCES => format!("its verifier refuses the program: {}", complaint()),
        Errno::ENOSYS => "the kernel is built without CONFIG_BPF_SYSCALL".to_owned(),
        Errno::ENODEV => "there is no such device in this network namespace".to_owned(),
        _ => "CONFIG_NET_CLS_ACT and CONFIG_NET_XGRESS may be missing from the kernel".to_owned(),
    };
    LiveError::new(
        what,
        format_args!("{reason}; {remedy}. Without it, windows are read by socket diagnostics"),
    )
}

fn is_older_than_6_6(release: &str) -> bool {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    version > (0, 0) && version < (6, 6)
}

/// The last words of the verifier about the program.
fn complaint() -> String {
    let mut log = vec![0; 1 << 16];
    let _ = load(&program(), &mut log);
    let text = String::from_utf8_lossy(&log);
    let mut words = text.trim_end_matches('\0').lines().filter(|line| !line.starts_with("processed "));
    words.next_back().unwrap_or("it does not say why").to_owned()
}
