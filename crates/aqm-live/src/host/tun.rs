//! TUN devices: network interfaces whose IP packets a program exchanges with the kernel through a file descriptor.
//!
//! Source: Linux, `Documentation/networking/tuntap.rst`. The device is not persistent and disappears when its file
//! descriptor is closed. Because `IFF_VNET_HDR` is not set, the packets that the kernel passes to the program are not
//! larger than the MTU and have complete checksums.

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

/// Creates a TUN device in the network namespace of the calling thread. The device is not yet enabled. Reads and writes
/// do not block, and each read or write transfers one IP packet.
///
/// # Errors
/// Returns an error if `/dev/net/tun` does not exist, or if the process may not open `/dev/net/tun` or create a device.
pub(crate) fn open() -> Result<OwnedFd, LiveError> {
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(FILE);
    let file = file.map_err(|error| {
        let remedy = match error.kind() {
            ErrorKind::NotFound => "load the module (`modprobe tun`), or add the device to the container",
            ErrorKind::PermissionDenied => "let this user read and write the file (the usual mode is 0666)",
            _ => "load the module (`modprobe tun`)",
        };
        LiveError::new(format_args!("cannot open {FILE}"), format_args!("{error}; {remedy}"))
    })?;
    let mut name = [0; libc::IFNAMSIZ];
    for (to, from) in name.iter_mut().zip(NAME.bytes()) {
        *to = from.cast_signed();
    }
    let flags = libc::c_short::try_from(libc::IFF_TUN | libc::IFF_NO_PI).unwrap_or_default();
    let request =
        libc::ifreq { ifr_name: name, ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: flags } };
    // SAFETY: `file` is open, and `request` is an `ifreq` that outlives the call, as TUNSETIFF requires.
    unsafe { request::set_iff(file.as_raw_fd(), &raw const request) }.map_err(|error| {
        let why = "a TUN device needs the capability CAP_NET_ADMIN in the user namespace of the host";
        LiveError::new("cannot create a TUN device", format_args!("{}; {why}", error.desc()))
    })?;
    Ok(file.into())
}

/// Returns the index of the device in the namespace of the calling thread.
pub(crate) fn index() -> Result<u32, LiveError> {
    nix::net::if_::if_nametoindex(NAME)
        .map_err(|error| LiveError::new(format_args!("cannot find the device {NAME}"), error))
}

#[cfg(test)]
mod tests {
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};

    use super::*;

    /// Calls `open` in a thread with its own network and mount namespaces, after `hide` has changed the mounts, and
    /// returns the result.
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
    fn without_tun_devices_the_error_contains_a_remedy() {
        let hidden = open_after(|| {
            let none: Option<&str> = None;
            mount(none, "/dev/net", Some("tmpfs"), MsFlags::empty(), none).unwrap();
        });
        let Some(opened) = hidden else { return };
        assert_eq!(
            opened.unwrap_err().what,
            "cannot open /dev/net/tun: No such file or directory (os error 2); load the module (`modprobe tun`), \
             or add the device to the container"
        );
    }

    #[test]
    fn a_file_that_is_not_a_tun_device_is_refused() {
        let hidden = open_after(|| {
            let none: Option<&str> = None;
            mount(Some("/dev/null"), FILE, none, MsFlags::MS_BIND, none).unwrap();
        });
        let Some(opened) = hidden else { return };
        let said = opened.unwrap_err().what;
        assert!(said.starts_with("cannot create a TUN device: "), "{said}");
    }
}
