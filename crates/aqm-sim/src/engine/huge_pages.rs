//! A hint to the operating system that an array is large and accessed randomly.
//!
//! With very many flows, nearly every event accesses a different page, and the processor's translation lookaside buffer
//! has few entries. On Linux, if programs may request huge pages (`/sys/kernel/mm/transparent_hugepage/enabled` is
//! `madvise` or `always`), the hint reduces the number of entries needed by a factor of 512.

/// Size below which huge pages make no difference.
const LARGE: usize = 4 << 20;

/// Requests huge pages for the capacity of `values`.
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
        // The hint may fail without consequences.
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
