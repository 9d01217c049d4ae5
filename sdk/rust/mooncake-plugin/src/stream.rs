//! Connections that end in time: every wait has a limit, and another thread can end it.

use crate::error::{Code, Error, Result};
use crate::memory::Part;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Ends waits of other threads, once and for good.
pub struct Halt {
    event: OwnedFd,
    over: AtomicBool,
}

impl Halt {
    /// Makes one, or says that there are no more descriptors.
    pub fn new() -> Result<Halt> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|e| Error::new(Code::Internal, format!("eventfd: {e}")))?;
        Ok(Halt { event, over: AtomicBool::new(false) })
    }

    /// Ends the waits, now and later.
    pub fn now(&self) {
        self.over.store(true, Ordering::SeqCst);
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes()); // It cannot be full.
    }

    /// Whether `now` was called.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }
}

impl AsFd for Halt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// Why bytes were not moved.
#[derive(Debug)]
pub enum Broken {
    /// The time was over.
    Late,
    /// One of the halts was called.
    Halted,
    /// The other side closed the connection, or it was lost.
    Lost(io::Error),
}

/// How long bytes may take, and what else ends the wait.
pub struct Wait<'a> {
    /// The end of the wait.
    pub until: Instant,
    /// What ends it early.
    pub halts: &'a [&'a Halt],
}

impl Wait<'_> {
    /// Waits until a descriptor can be read.
    pub fn readable(&self, fd: impl AsFd) -> std::result::Result<(), Broken> {
        self.on(fd, PollFlags::IN)
    }

    fn on(&self, fd: impl AsFd, flags: PollFlags) -> std::result::Result<(), Broken> {
        let fd = fd.as_fd();
        loop {
            if self.halts.iter().any(|h| h.is_over()) {
                return Err(Broken::Halted);
            }
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Broken::Late);
            }
            let mut fds = vec![PollFd::from_borrowed_fd(fd, flags)];
            fds.extend(self.halts.iter().map(|h| PollFd::new(*h, PollFlags::IN)));
            match poll(&mut fds, Some(&timespec(left))) {
                Ok(_) if !fds[0].revents().is_empty() => return Ok(()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(Broken::Lost(e.into())),
            }
        }
    }
}

fn timespec(d: Duration) -> Timespec {
    let secs = i64::try_from(d.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec: secs, tv_nsec: i64::from(d.subsec_nanos()) }
}

/// A connection. Its socket is of type stream; whether it blocks does not matter.
pub struct Stream(OwnedFd);

impl Stream {
    /// Takes a connected socket: `Stream::new(socket)`.
    pub fn new(socket: impl Into<OwnedFd>) -> Stream {
        Stream(socket.into())
    }

    /// Whether nothing has arrived, and the other side has not closed the connection.
    pub fn is_quiet(&self) -> bool {
        let mut byte = [0u8; 1];
        // SAFETY: the buffer has one byte.
        let n = unsafe {
            let to = byte.as_mut_ptr().cast();
            libc::recv(self.0.as_raw_fd(), to, 1, libc::MSG_PEEK | libc::MSG_DONTWAIT)
        };
        n < 0 && io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock
    }

    /// Sends all bytes. The number says how many were sent, whatever the result is.
    pub fn send(&self, bytes: &[u8], wait: &Wait) -> (usize, std::result::Result<(), Broken>) {
        // SAFETY: send only reads.
        unsafe { self.whole(bytes.as_ptr().cast_mut(), bytes.len(), PollFlags::OUT, wait) }
    }

    /// Receives exactly as many bytes as fit. The number says how many were received, whatever the result is.
    pub fn receive(&self, into: &mut [u8], wait: &Wait) -> (usize, std::result::Result<(), Broken>) {
        // SAFETY: the slice is writable.
        unsafe { self.whole(into.as_mut_ptr(), into.len(), PollFlags::IN, wait) }
    }

    /// Sends `length` bytes of a part from `at` on, straight from the memory. See `send`.
    pub fn send_part(
        &self,
        part: &Part,
        at: usize,
        length: usize,
        wait: &Wait,
    ) -> (usize, std::result::Result<(), Broken>) {
        let (from, length) = range(part, at, length);
        // SAFETY: the range is inside the part, which keeps it mapped. The kernel copies it, so that no reference
        // into memory that others change exists.
        unsafe { self.whole(from, length, PollFlags::OUT, wait) }
    }

    /// Receives `length` bytes into a part from `at` on, straight into the memory. See `receive`.
    pub fn receive_part(
        &self,
        part: &Part,
        at: usize,
        length: usize,
        wait: &Wait,
    ) -> (usize, std::result::Result<(), Broken>) {
        let (to, length) = range(part, at, length);
        // SAFETY: as in `send_part`.
        unsafe { self.whole(to, length, PollFlags::IN, wait) }
    }

    /// Moves all bytes of a range.
    ///
    /// # Safety
    /// The range is readable, and for `IN` writable.
    unsafe fn whole(
        &self,
        memory: *mut u8,
        length: usize,
        way: PollFlags,
        wait: &Wait,
    ) -> (usize, std::result::Result<(), Broken>) {
        let mut done = 0;
        while done < length {
            // SAFETY: `done` is below `length`.
            let n = unsafe {
                let (fd, at, left) = (self.0.as_raw_fd(), memory.add(done).cast(), length - done);
                match way {
                    PollFlags::IN => libc::recv(fd, at, left, libc::MSG_DONTWAIT),
                    _ => libc::send(fd, at, left, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL),
                }
            };
            match usize::try_from(n) {
                Ok(0) => return (done, Err(Broken::Lost(io::ErrorKind::UnexpectedEof.into()))),
                Ok(n) => done += n,
                Err(_) => match io::Error::last_os_error() {
                    e if e.kind() == io::ErrorKind::Interrupted => {}
                    e if e.kind() == io::ErrorKind::WouldBlock => {
                        if let Err(e) = wait.on(&self.0, way) {
                            return (done, Err(e));
                        }
                    }
                    e => return (done, Err(Broken::Lost(e))),
                },
            }
        }
        (done, Ok(()))
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The part of a range that is inside a part.
fn range(part: &Part, at: usize, length: usize) -> (*mut u8, usize) {
    let at = at.min(part.len());
    (part.start().wrapping_add(at), length.min(part.len() - at))
}
