//! The functions of the C library that return the time and random numbers, as functions of the guest's time and seed.
//!
//! The linker resolves calls of these functions in Rust's standard library and in libraries in C to the definitions in the
//! program, which precede those of the C library. The cryptographic libraries BoringSSL and ring do not call `getrandom`,
//! but `syscall` with the number of the system call. Therefore, this file defines `syscall` too, and forwards all other
//! system calls to the C library.

use std::ffi::{c_int, c_long, c_uint, c_void};
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use aqm_net::Instant;
use entropy::SysRng;
use entropy::rand_core::TryRng;
use libc::{clockid_t, size_t, ssize_t, time_t, timespec, timeval};

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const NANOS_PER_MICROSECOND: u64 = 1000;

/// The time of the guest's current call, in nanoseconds.
static NOW: AtomicU64 = AtomicU64::new(0);

/// Sets the time that all clocks show: 1 January 2030 plus `now`.
pub fn set_time(now: Instant) {
    NOW.store(now.nanos(), Ordering::Relaxed);
}

/// Returns the seconds since the year 1970, and the nanoseconds of the second.
fn time_of_day() -> (time_t, u64) {
    let now = NOW.load(Ordering::Relaxed);
    let seconds = guest_common::DATE.as_secs() + now / NANOS_PER_SECOND;
    (seconds.cast_signed(), now % NANOS_PER_SECOND)
}

/// Writes the time of any clock.
///
/// # Safety
/// `time` must be valid for writing, as POSIX requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(_clock: clockid_t, time: *mut timespec) -> c_int {
    let (seconds, nanos) = time_of_day();
    // SAFETY: the caller passes a pointer that is valid for writing.
    unsafe { time.write(timespec { tv_sec: seconds, tv_nsec: nanos.cast_signed() }) };
    0
}

/// Writes the time. BoringSSL calls this function for the lifetime of TLS sessions.
///
/// # Safety
/// `time` must be valid for writing, as POSIX requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(time: *mut timeval, _zone: *mut c_void) -> c_int {
    let (seconds, nanos) = time_of_day();
    let micros = (nanos / NANOS_PER_MICROSECOND).cast_signed();
    // SAFETY: the caller passes a pointer that is valid for writing.
    unsafe { time.write(timeval { tv_sec: seconds, tv_usec: micros }) };
    0
}

/// Returns the time in seconds. BoringSSL calls this function for the validity of certificates.
///
/// # Safety
/// `result` must be null or valid for writing, as POSIX requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn time(result: *mut time_t) -> time_t {
    let (seconds, _) = time_of_day();
    if !result.is_null() {
        // SAFETY: the caller passes a pointer that is valid for writing, unless the pointer is null.
        unsafe { result.write(seconds) };
    }
    seconds
}

/// Fills a buffer with random numbers, and returns the length of the buffer.
///
/// # Safety
/// `buffer` must be valid for writing `length` bytes, as Linux requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut c_void, length: size_t, _flags: c_uint) -> ssize_t {
    // A caller that tests whether the function is available may pass a null pointer for a buffer of 0 bytes.
    if length > 0 {
        // SAFETY: the caller passes a buffer of `length` bytes. The bytes are initialised here before they become a slice.
        let bytes = unsafe {
            buffer.write_bytes(0, length);
            slice::from_raw_parts_mut(buffer.cast::<u8>(), length)
        };
        let Ok(()) = SysRng.try_fill_bytes(bytes);
    }
    length.cast_signed()
}

/// Executes a system call: `getrandom` as above, all others as the C library.
///
/// The function of the C library has a variable number of arguments. The calling conventions of Linux on x86-64 and on
/// 64-bit ARM pass up to seven integers in the same registers with and without a variable number of arguments, so that a
/// function with seven integers receives the arguments that the caller passes.
///
/// # Safety
/// The arguments must be valid for the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    if number == libc::SYS_getrandom {
        // SAFETY: the caller passes the arguments of `getrandom`.
        return unsafe { getrandom(ptr::with_exposed_provenance_mut(a as usize), b as size_t, c as c_uint) }
            as c_long;
    }
    /// The function of the C library, which follows this program in the order in which symbols are resolved.
    static ORIGINAL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    let mut original = ORIGINAL.load(Ordering::Relaxed);
    if original.is_null() {
        // SAFETY: the name is a C string.
        original = unsafe { libc::dlsym(libc::RTLD_NEXT, c"syscall".as_ptr()) };
        assert!(!original.is_null(), "the C library has no function syscall");
        ORIGINAL.store(original, Ordering::Relaxed);
    }
    type Syscall = unsafe extern "C" fn(c_long, ...) -> c_long;
    // SAFETY: the pointer is the address of the C library's `syscall`, which has this type.
    let original = unsafe { std::mem::transmute::<*mut c_void, Syscall>(original) };
    // SAFETY: the caller passes valid arguments, and the C library ignores those that the system call does not have.
    unsafe { original(number, a, b, c, d, e, f) }
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("the function syscall is defined for Linux on x86-64 and on 64-bit ARM");

#[cfg(test)]
mod tests {
    use std::collections::hash_map::RandomState;
    use std::hash::BuildHasher;
    use std::time::{Duration, SystemTime};
    use std::{io, process, thread};

    use super::*;

    /// The clock is global. Therefore, one test sets it.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test reads the clock of the guest")]
    fn all_clocks_show_the_time_of_the_guest() {
        set_time(Instant::from_nanos(7));
        let begin = std::time::Instant::now();
        set_time(Instant::from_nanos(5_000_000_007));
        assert_eq!(begin.elapsed(), Duration::from_secs(5));
        assert_eq!(
            SystemTime::UNIX_EPOCH.elapsed().ok(),
            Some(guest_common::DATE + Duration::from_nanos(5_000_000_007))
        );
        let mut day = timeval { tv_sec: 0, tv_usec: 0 };
        // SAFETY: the pointers are valid for writing, or null.
        let seconds = unsafe {
            assert_eq!(libc::gettimeofday(&raw mut day, ptr::null_mut()), 0);
            libc::time(ptr::null_mut())
        };
        assert_eq!((day.tv_sec, day.tv_usec, seconds), (1_893_456_005, 0, 1_893_456_005));
    }

    #[test]
    fn random_numbers_depend_on_the_seed_only() {
        let numbers = |seed| {
            let draw = move || {
                entropy::seed(seed);
                let mut bytes = [[0_u8; 12]; 2];
                // SAFETY: the buffers have 12 bytes.
                unsafe {
                    assert_eq!(libc::getrandom(bytes[0].as_mut_ptr().cast(), 12, 0), 12);
                    assert_eq!(libc::syscall(libc::SYS_getrandom, bytes[1].as_mut_ptr(), 12, 0), 12);
                }
                (bytes, RandomState::new().hash_one(1))
            };
            // A thread draws the keys of its hash tables once.
            thread::spawn(draw).join().expect("no panic")
        };
        let (bytes, hash) = numbers(1);
        assert_eq!(numbers(1), (bytes, hash));
        assert_ne!(bytes[0], bytes[1]);
        assert_ne!(numbers(2).0, bytes);
        assert_ne!(numbers(2).1, hash);
    }

    #[test]
    fn other_system_calls_reach_the_kernel() {
        // SAFETY: the system calls have no pointers.
        let (identifier, closed) =
            unsafe { (libc::syscall(libc::SYS_getpid), libc::syscall(libc::SYS_close, -1)) };
        assert_eq!(identifier, c_long::from(process::id()));
        assert_eq!((closed, io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EBADF)));
    }
}
