//! A hint to the processor that a value will soon be needed.
//!
//! With very many flows nearly every event meets memory that is not in the cache, and packets that
//! wait in a lane tell beforehand which. The one unsafe line of the core rooms is here: it reads and
//! writes nothing, so it changes no result.

/// A cache line.
const LINE: usize = 64;

/// As much of a value as is worth fetching.
const MOST: usize = 6 * LINE;

/// Asks for `values[index]`, if there is such a value.
#[inline]
pub(crate) fn prefetch<T>(values: &[T], index: usize) {
    let Some(value) = values.get(index) else { return };
    #[cfg(target_arch = "x86_64")]
    for offset in (0..size_of::<T>().min(MOST)).step_by(LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        #[allow(unsafe_code)]
        // SAFETY: a prefetch of any address is without effect on what a program can see.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast::<i8>().wrapping_add(offset));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (value, LINE, MOST);
}
