//! Allocator that counts the memory that a target allocates for an input.
//!
//! Allocations of zstd's C code are not counted. They do not depend on the input, because zstd's contexts have a fixed
//! size unless streams are decompressed.
#![allow(unsafe_code, reason = "required for an allocator; forwards to the system allocator")]
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The global allocator of a binary or test.
#[derive(Debug)]
pub struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: forwards all calls to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller upholds the safety contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller upholds the safety contract of `GlobalAlloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller upholds the safety contract of `GlobalAlloc`.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // The old and the new bytes may exist at the same time, so both count.
        count(size as isize);
        count(-(layout.size() as isize));
        // SAFETY: the caller upholds the safety contract of `GlobalAlloc`.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// Returns the result of `run`, and the peak memory use of this thread during `run`, in addition to the memory used
/// before.
pub fn peak<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    let result = run();
    (result, usize::try_from(PEAK.get() - before).unwrap_or(0))
}
