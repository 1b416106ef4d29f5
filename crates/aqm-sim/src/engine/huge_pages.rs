//! A hint to the operating system that an array is large and accessed randomly.
//!
//! If there are very many flows, nearly every event accesses a different memory page, but the processor's translation
//! lookaside buffer has only a few entries. Huge pages reduce the number of entries that are needed by a factor of 512.
//! On Linux, the hint has an effect if programs may request huge pages (`/sys/kernel/mm/transparent_hugepage/enabled`
//! is `madvise` or `always`).

/// Minimum size, in bytes, of an array for which huge pages are requested. For smaller arrays, huge pages have no
/// measurable effect.
const LARGE: usize = 4 << 20;

/// Requests huge pages for the whole allocation of `values`.
pub(crate) fn prefer_huge_pages<T>(values: &Vec<T>) {
    let bytes = values.capacity() * size_of::<T>();
    if bytes >= LARGE {
        advise(values.as_ptr() as usize, bytes);
    }
}

#[cfg(target_os = "linux")]
fn advise(start: usize, bytes: usize) {
    const PAGE: usize = 2 << 20;
    let (first, end) = (start.next_multiple_of(PAGE), (start + bytes) / PAGE * PAGE);
    #[allow(unsafe_code)]
    // SAFETY: the pages are within an allocation, and the advice does not change their contents.
    unsafe {
        // If the call fails, the pages keep their size, which is harmless.
        libc::madvise(first as *mut libc::c_void, end - first, libc::MADV_HUGEPAGE);
    }
}

#[cfg(not(target_os = "linux"))]
fn advise(_start: usize, _bytes: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contents_of_an_array_do_not_change() {
        let values: Vec<u32> = (0..3 << 20).collect();
        prefer_huge_pages(&values);
        assert!(values.iter().copied().eq(0..3 << 20));
    }
}
