//! A TUN device: a network interface whose other side is a file of whole IP packets.
//!
//! Linux, `Documentation/networking/tuntap.rst`. It is not persistent: it vanishes with its file. Without
//! `IFF_VNET_HDR` the kernel hands over packets of at most the MTU, with their checksums complete.

#![allow(unsafe_code)]

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;

use crate::LiveError;

/// The name of the device in every host.
pub(crate) const NAME: &str = "tun0";

const FILE: &str = "/dev/net/tun";

mod request {
    nix::ioctl_write_ptr_bad!(set_iff, libc::TUNSETIFF, libc::ifreq);
}

/// Makes a TUN device in the network namespace of the calling thread, not yet up. Reading and writing do not
/// wait; each moves one IP packet.
///
/// # Errors
/// If there is no `/dev/net/tun`, or it or a device may not be had.
pub(crate) fn open() -> Result<OwnedFd, LiveError> {
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(FILE);
    let file = file.map_err(|error| {
        let remedy = match error.kind() {
            ErrorKind::NotFound => "load the module (`modprobe tun`), or give the container the device",
            ErrorKind::PermissionDenied => "let this user read and write it (mode 0666 is usual)",
            _ => "load the module (`modprobe tun`)",
        };
        LiveError::new(format_args!("cannot open {FILE}"), format_args!("{error}; {remedy}"))
    })?;
    let mut name = [0; libc::IFNAMSIZ];
    for (to, from) in name.iter_mut().zip(NAME.bytes()) {
        *to = from.cast_signed();
    }
    let flags = libc::c_short::try_from(libc::IFF_TUN | libc::IFF_NO_PI).unwrap_or_default();
    let wanted = libc::ifreq { ifr_name: name, ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: flags } };
    // SAFETY: `file` is open and `wanted` an `ifreq` that outlives the call, as TUNSETIFF asks.
    unsafe { request::set_iff(file.as_raw_fd(), &raw const wanted) }.map_err(|error| {
        let why = "it needs the capability CAP_NET_ADMIN in the user namespace of the host";
        LiveError::new("cannot make a TUN device", format_args!("{}; {why}", error.desc()))
    })?;
    Ok(file.into())
}

/// The index of the device in the namespace of the calling thread.
pub(crate) fn index() -> Result<u32, LiveError> {
    nix::net::if_::if_nametoindex(NAME)
        .map_err(|error| LiveError::new(format_args!("cannot find the device {NAME}"), error))
}

#[cfg(test)]
mod tests {
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};

    use super::*;

    /// What `open` says in a thread that has network and mounts of its own, once `hide` has changed these.
    fn open_after(hide: fn()) -> Option<Result<OwnedFd, LiveError>> {
        let thread = std::thread::spawn(move || {
            if let Err(error) = unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS) {
                eprintln!("skipped: {error}");
                return None;
            }
            let none: Option<&str> = None;
            mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
            hide();
            Some(open())
        });
        thread.join().unwrap()
    }

    #[test]
    fn a_machine_without_tun_devices_is_told_what_to_do() {
        let hidden = open_after(|| {
            let none: Option<&str> = None;
            mount(none, "/dev/net", Some("tmpfs"), MsFlags::empty(), none).unwrap();
        });
        let Some(opened) = hidden else { return };
        assert_eq!(
            opened.unwrap_err().what,
            "cannot open /dev/net/tun: No such file or directory (os error 2); load the module (`modprobe tun`), \
             or give the container the device"
        );
    }

    #[test]
    fn a_device_that_is_none_of_tun_is_refused() {
        let hidden = open_after(|| {
            let none: Option<&str> = None;
            mount(Some("/dev/null"), FILE, none, MsFlags::MS_BIND, none).unwrap();
        });
        let Some(opened) = hidden else { return };
        let said = opened.unwrap_err().what;
        assert!(said.starts_with("cannot make a TUN device: "), "{said}");
    }
}
