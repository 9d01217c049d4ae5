//! The rings of a path, through the library in C: `c/mooncake_ring.h` has the layout and the rules.

use crate::error::{Class, Code, Error, Result};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::Arc;

/// What the C library declares.
pub(crate) mod c {
    use super::*;

    pub const CLOSED: i64 = -4;
    pub const SUBMISSION: u32 = 64;
    pub const COMPLETION: u32 = 256;
    pub const IN_REGION: u8 = 0;
    pub const IN_STAGE: u8 = 1;

    #[repr(C)]
    #[allow(dead_code)]
    pub struct Ring {
        pub memory: *mut u8,
        pub next: u64,
        pub published: u64,
        pub theirs: u64,
        pub entries: u32,
        pub entry_size: u32,
        pub bell: i32,
        pub consumer: u8,
        pub broken: u8,
    }

    /// An operation that the host asks for.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub struct Submission {
        pub tag: u64,
        pub region: u64,
        pub local: u64,
        pub length: u64,
        pub remote: u64,
        pub offset: u64,
        pub limit: u64,
        pub rail: u16,
        pub kind: u8,
        pub place: u8,
    }

    unsafe extern "C" {
        pub fn mooncake_ring_error(error: i64) -> *const c_char;
        pub fn mooncake_ring_bytes(entries: u32, entry_size: u32) -> i64;
        pub fn mooncake_ring_map(fd: c_int, bytes: usize, memory: *mut *mut c_void) -> c_int;
        pub fn mooncake_ring_unmap(memory: *mut c_void, bytes: usize) -> c_int;
        pub fn mooncake_ring_producer(
            ring: *mut Ring,
            memory: *mut c_void,
            bytes: usize,
            entries: u32,
            entry_size: u32,
            bell: c_int,
        ) -> c_int;
        pub fn mooncake_ring_consumer(
            ring: *mut Ring,
            memory: *mut c_void,
            bytes: usize,
            entries: u32,
            entry_size: u32,
            bell: c_int,
        ) -> c_int;
        pub fn mooncake_ring_put(ring: *mut Ring, entry: *const c_void, bytes: usize) -> c_int;
        pub fn mooncake_ring_publish(ring: *mut Ring) -> c_int;
        pub fn mooncake_ring_ready(ring: *mut Ring) -> i64;
        pub fn mooncake_ring_copy(ring: *mut Ring, i: u32, entry: *mut c_void) -> c_int;
        pub fn mooncake_ring_release(ring: *mut Ring, n: u32) -> c_int;
        pub fn mooncake_ring_wait(ring: *mut Ring, wake: c_int, timeout: c_int) -> i64;
        pub fn mooncake_submission_read(s: *mut Submission, entry: *const c_void, slots: u32) -> c_int;
        pub fn mooncake_completion_write(
            entry: *mut c_void,
            tag: u64,
            status: u8,
            code: i32,
            error_class: u8,
            text: *const c_char,
            text_bytes: usize,
        ) -> c_int;
    }
}

/// Turns a result of the library into ours.
fn checked(what: &str, result: i64) -> Result<u32> {
    if let Ok(n) = u32::try_from(result) {
        return Ok(n);
    }
    // SAFETY: the function returns a constant text for each number.
    let text = unsafe { CStr::from_ptr(c::mooncake_ring_error(result)) }.to_string_lossy();
    Err(Error::new(Code::InvalidParams, format!("{what}: {text}")))
}

/// The memory of the rings of a path.
struct Mapping {
    at: *mut c_void,
    bytes: usize,
}

// SAFETY: it is only an address. The library accesses the memory by atomic words or copies it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: both ends of the rings keep the mapping alive, so that nothing uses it any more.
        unsafe { c::mooncake_ring_unmap(self.at, self.bytes) };
    }
}

/// One end of a ring with what it needs.
struct End {
    ring: c::Ring,
    _bell: OwnedFd,
    _memory: Arc<Mapping>,
}

// SAFETY: the pointer of the ring is into the mapping, which the end keeps alive; one thread at a time uses an
// end, because every function takes it by &mut.
unsafe impl Send for End {}

/// Whether an end writes or reads.
type Make = unsafe extern "C" fn(*mut c::Ring, *mut c_void, usize, u32, u32, c_int) -> c_int;

impl End {
    fn new(make: Make, map: &Arc<Mapping>, at: usize, slots: u32, size: u32, bell: OwnedFd) -> Result<End> {
        let mut ring = c::Ring {
            memory: null_mut(),
            next: 0,
            published: 0,
            theirs: 0,
            entries: 0,
            entry_size: 0,
            bell: -1,
            consumer: 0,
            broken: 0,
        };
        // SAFETY: `at` is inside the mapping, and the library checks that the ring fits into what follows it.
        let made =
            unsafe { make(&mut ring, map.at.byte_add(at), map.bytes - at, slots, size, bell.as_raw_fd()) };
        checked("make a ring", made.into())?;
        Ok(End { ring, _bell: bell, _memory: map.clone() })
    }
}

/// Maps the rings of a path from the descriptors of a Dial: the memory file and two bells.
pub(crate) fn open(fds: [OwnedFd; 3], slots: u32) -> Result<(Submissions, Completions)> {
    let ((map, second), [_, ring, strike]) = (map(&fds[0], slots)?, fds);
    let ours = End::new(c::mooncake_ring_consumer, &map, 0, slots, c::SUBMISSION, ring)?;
    let theirs = End::new(c::mooncake_ring_producer, &map, second, slots, c::COMPLETION, strike)?;
    Ok((Submissions { end: ours, slots }, Completions(theirs)))
}

/// Maps the memory file of a path. The number is where the ring of completions begins.
fn map(file: &OwnedFd, slots: u32) -> Result<(Arc<Mapping>, usize)> {
    // SAFETY: the function only computes.
    let bytes = |size| unsafe { c::mooncake_ring_bytes(slots, size) };
    let first = checked("the rings of a path", bytes(c::SUBMISSION))? as usize;
    let size = first + checked("the rings of a path", bytes(c::COMPLETION))? as usize;
    let mut at = null_mut();
    // SAFETY: the library maps `size` bytes somewhere, or returns an error.
    let mapped = unsafe { c::mooncake_ring_map(file.as_raw_fd(), size, &mut at) };
    checked("map the rings of a path", mapped.into())?;
    Ok((Arc::new(Mapping { at, bytes: size }), first))
}

/// What the host asks for: the reading end.
pub(crate) struct Submissions {
    end: End,
    slots: u32,
}

impl Submissions {
    /// Waits for entries, until `wake` can be read or the time in milliseconds is over, and returns how many there
    /// are; 0 may come early.
    pub fn wait(&mut self, wake: BorrowedFd, timeout: i32) -> Result<u32> {
        // SAFETY: the end is valid, and `wake` is open.
        let n = unsafe { c::mooncake_ring_wait(&mut self.end.ring, wake.as_raw_fd(), timeout) };
        checked("the ring of the host", n)
    }

    /// How many entries there are.
    pub fn ready(&mut self) -> Result<u32> {
        // SAFETY: the end is valid.
        checked("the ring of the host", unsafe { c::mooncake_ring_ready(&mut self.end.ring) })
    }

    /// Takes n entries, which are ready. The host may use their places again.
    pub fn take(&mut self, n: u32, into: &mut Vec<c::Submission>) -> Result<()> {
        for i in 0..n {
            let mut entry = [0u64; c::SUBMISSION as usize / 8];
            let mut s = c::Submission::default();
            // SAFETY: the library writes one entry, and reads one from the copy.
            let read = unsafe {
                match c::mooncake_ring_copy(&mut self.end.ring, i, entry.as_mut_ptr().cast()) {
                    0 => c::mooncake_submission_read(&mut s, entry.as_ptr().cast(), self.slots),
                    e => e,
                }
            };
            checked("an entry of the host", read.into())?;
            into.push(s);
        }
        // SAFETY: the end is valid.
        checked("the ring of the host", unsafe { c::mooncake_ring_release(&mut self.end.ring, n) }.into())?;
        Ok(())
    }
}

/// How an operation ended.
#[derive(Debug)]
pub enum Outcome {
    /// All bytes are in place; for a Write this means in the peer's memory.
    Done,
    /// An unknown part of the bytes was moved, and no more will be.
    Failed(Error),
    /// A Write failed, and the peer may still store some of its bytes.
    InDoubt(Error),
}

/// What the host learns: the writing end.
pub(crate) struct Completions(End);

impl Completions {
    /// Tells the host how an operation ended.
    pub fn post(&mut self, tag: u64, outcome: &Outcome) -> Result<()> {
        let (status, error) = match outcome {
            Outcome::Done => (1, None),
            Outcome::Failed(e) => (2, Some(e)),
            Outcome::InDoubt(e) => (3, Some(e)),
        };
        let (code, class) = error.map_or((0, 0), |e| (e.code as i32, e.class as u8));
        let text = error.map_or("", |e| e.text.as_str());
        let mut entry = [0u64; c::COMPLETION as usize / 8];
        // SAFETY: `entry` has the size of a completion, and the text its length. The end is valid.
        let posted = unsafe {
            let to = entry.as_mut_ptr().cast();
            let n =
                c::mooncake_completion_write(to, tag, status, code, class, text.as_ptr().cast(), text.len());
            match usize::try_from(n) {
                Ok(n) => match c::mooncake_ring_put(&mut self.0.ring, to, n) {
                    0 => c::mooncake_ring_publish(&mut self.0.ring),
                    e => e,
                },
                Err(_) => n,
            }
        };
        if i64::from(posted) == c::CLOSED {
            return Ok(()); // The host has ended, or does not listen any more.
        }
        checked("the ring of completions", posted.into()).map(drop)
    }
}

/// The error of an operation whose path was closed.
pub(crate) fn closed() -> Error {
    Error::new(Code::TransferFail, "the path is closed").class(Class::TransientPath)
}
