//! System calls that return the same values in every run.
//!
//! str0m takes all times from its caller, except for one pair of readings of the system's clocks, with which it converts
//! instants to the NTP times of RTCP reports. These times are rounded to 15 us, and the round-trip times that follow from
//! them decide when a lost packet is requested again. The order of the reports of several streams is the order of a hash
//! table, whose keys are random numbers of the system. Therefore, the runs of two processes differ, unless both read the
//! same clocks and the same random numbers. The standard library calls the functions that this file defines.

#![expect(unsafe_code, reason = "a C function cannot be replaced otherwise")]

use libc::{CLOCK_REALTIME, c_int, c_uint, c_void, clockid_t, size_t, ssize_t, timespec};

/// Reading of the monotonic clock, in seconds. str0m subtracts an hour.
const UPTIME: i64 = 1_000_000;
/// Reading of the real-time clock, in seconds since 1970: 1 January 2026.
const DATE: i64 = 1_767_225_600;

/// Replaces the function of the C library.
///
/// # Safety
/// `time` points to a writable `timespec`, as for the function of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    let seconds = if clock == CLOCK_REALTIME { DATE } else { UPTIME };
    // SAFETY: the caller guarantees that `time` can be written.
    unsafe { time.write(timespec { tv_sec: seconds, tv_nsec: 0 }) };
    0
}

/// Replaces the function of the C library. All bytes are 1.
///
/// # Safety
/// `buffer` points to `length` writable bytes, as for the function of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut c_void, length: size_t, _flags: c_uint) -> ssize_t {
    // SAFETY: the caller guarantees that `length` bytes can be written.
    unsafe { buffer.cast::<u8>().write_bytes(1, length) };
    length as ssize_t
}
