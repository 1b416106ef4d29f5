//! A hint to the operating system that an array is large and is read here and there.
//!
//! With very many flows nearly every event meets another page, and a processor remembers where only so many of them
//! are. On Linux, where programs may ask for huge pages (`/sys/kernel/mm/transparent_hugepage/enabled` is `madvise` or
//! `always`), it then has to remember 512 times fewer.

/// Below this size it makes no difference.
const LARGE: usize = 4 << 20;

/// Asks for huge pages for the room that `values` has.
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
    // SAFETY: the pages lie within an allocation, and the advice changes nothing of what is in them.
    unsafe {
        // If it is not taken, all is as it was.
        libc::madvise(first as *mut libc::c_void, end - first, libc::MADV_HUGEPAGE);
    }
}

#[cfg(not(target_os = "linux"))]
fn advise(_start: usize, _bytes: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_an_array_stays_in_it() {
        let values: Vec<u32> = (0..3 << 20).collect();
        prefer_huge_pages(&values);
        assert!(values.iter().copied().eq(0..3 << 20));
    }
}
