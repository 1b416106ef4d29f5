//! A hint to the processor that a value will soon be needed.
//!
//! If there are very many flows, nearly every event accesses memory that is not in the cache. The packets in a lane
//! determine which memory will be accessed next, so this memory can be prefetched. A prefetch changes neither the
//! contents of memory nor the results. This file contains the only unsafe code in the platform-independent crates.

use std::ops::Range;

/// Size of a cache line in bytes.
const LINE: usize = 64;

/// Prefetches `values[index]`, if the index is valid.
#[inline]
pub(crate) fn prefetch<T>(values: &[T], index: usize) {
    prefetch_part(values, index, 0..size_of::<T>());
}

/// Prefetches a range of bytes of `values[index]`, if the index is valid.
#[inline]
pub(crate) fn prefetch_part<T>(values: &[T], index: usize, part: Range<usize>) {
    if let Some(value) = values.get(index) {
        prefetch_bytes(value, part);
    }
}

/// Prefetches all of `value`.
#[inline]
pub(crate) fn prefetch_value<T>(value: &T) {
    prefetch_bytes(value, 0..size_of::<T>());
}

#[inline]
fn prefetch_bytes<T>(value: &T, part: Range<usize>) {
    #[cfg(target_arch = "x86_64")]
    for offset in part.step_by(LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        #[allow(unsafe_code)]
        // SAFETY: a prefetch of any address has no effect that a program can observe.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast::<i8>().wrapping_add(offset));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (value, part, LINE);
}
