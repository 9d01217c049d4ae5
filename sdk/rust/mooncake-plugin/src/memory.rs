//! The memory of the host: descriptors that come over a socket, and what is mapped of them.

use crate::error::{Code, Error, Result};
use crate::host::{Host, Level};
use crate::lifecycle::lock;
use memmap2::{MmapOptions, MmapRaw};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

const MAX_MESSAGE: usize = 4 << 10;
const MAX_FDS: usize = 8;
/// A message has this number and the token of the call to which its descriptors belong, 8 bytes each.
const MAGIC: u64 = 0x3130_4446_434d;
/// The most messages whose calls have not arrived; the oldest is dropped.
const MAX_UNCLAIMED: usize = 64;
/// The most invalid messages in a row.
const MAX_BAD: u32 = 100;

/// Keeps descriptors until the call that uses them arrives.
pub(crate) struct Inbox {
    kept: Mutex<Kept>,
    news: Notify,
}

#[derive(Default)]
struct Kept {
    fds: VecDeque<(u64, Vec<OwnedFd>)>,
    ended: bool,
}

impl Inbox {
    /// Receives until the host closes the socket, on a thread.
    pub fn new(socket: OwnedFd, host: Host) -> Arc<Inbox> {
        let inbox = Arc::new(Inbox { kept: Mutex::default(), news: Notify::new() });
        let to = inbox.clone();
        std::thread::spawn(move || {
            to.receive(&socket, &host);
            lock(&to.kept).ended = true;
            to.news.notify_waiters();
        });
        inbox
    }

    fn receive(&self, socket: &OwnedFd, host: &Host) {
        let mut bad = 0;
        let mut empty = 0;
        while bad < MAX_BAD {
            let mut bytes = [0; MAX_MESSAGE];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let parts = &mut [IoSliceMut::new(&mut bytes)];
            let got = match recvmsg(socket, parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Ok(got) => got,
                Err(rustix::io::Errno::INTR) => continue,
                Err(e) => return host.log(Level::Error, &format!("the socket for descriptors: {e}"), []),
            };
            let mut fds: Vec<OwnedFd> = Vec::new();
            for m in control.drain() {
                if let RecvAncillaryMessage::ScmRights(rights) = m {
                    fds.extend(rights);
                }
            }
            if got.bytes == 0 && fds.is_empty() {
                empty += 1; // An empty read may come before the last message.
                if empty == 2 {
                    return;
                }
                continue;
            }
            empty = 0;
            let whole = !got.flags.intersects(ReturnFlags::CTRUNC | ReturnFlags::TRUNC);
            match decode(&bytes[..got.bytes]) {
                Some(token) if whole && !fds.is_empty() => {
                    bad = 0;
                    self.keep(token, fds);
                }
                _ => {
                    bad += 1;
                    host.log(Level::Error, "a message with descriptors is lost", []);
                }
            }
        }
    }

    fn keep(&self, token: u64, fds: Vec<OwnedFd>) {
        let mut kept = lock(&self.kept);
        kept.fds.retain(|(t, _)| *t != token);
        kept.fds.push_back((token, fds));
        if kept.fds.len() > MAX_UNCLAIMED {
            kept.fds.pop_front();
        }
        drop(kept);
        self.news.notify_waiters();
    }

    /// Waits for the one descriptor of a token. The host bounds the call.
    pub async fn take(&self, token: u64) -> Result<OwnedFd> {
        let [fd] = self.take_all(token).await?;
        Ok(fd)
    }

    /// Waits for the descriptors of a token.
    pub async fn take_all<const N: usize>(&self, token: u64) -> Result<[OwnedFd; N]> {
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            {
                let mut kept = lock(&self.kept);
                if let Some(at) = kept.fds.iter().position(|(t, _)| *t == token)
                    && let Some((_, fds)) = kept.fds.remove(at)
                {
                    let wrong = |fds: Vec<_>| Error::invalid(format!("{} descriptors, want {N}", fds.len()));
                    return fds.try_into().map_err(wrong);
                }
                if kept.ended {
                    return Err(Error::new(Code::RpcFail, "the socket for descriptors has ended"));
                }
            }
            news.await;
        }
    }
}

/// The token of a message.
fn decode(message: &[u8]) -> Option<u64> {
    let (magic, token) = message.split_first_chunk::<8>()?;
    let token = u64::from_ne_bytes(token.try_into().ok()?);
    (u64::from_ne_bytes(*magic) == MAGIC && token != 0).then_some(token)
}

/// Registered memory. It stays mapped as long as an operation holds it.
pub(crate) struct Region {
    map: MmapRaw,
    skip: usize,
    size: usize,
}

impl Region {
    /// Maps `size` bytes at `offset` of a memory file.
    pub fn map(fd: &OwnedFd, offset: i64, size: u64) -> Result<Region> {
        let failed = |e: std::io::Error| Error::invalid(format!("the memory cannot be mapped: {e}"));
        let stat = rustix::fs::fstat(fd).map_err(|e| failed(e.into()))?;
        let block = rustix::fs::fstatfs(fd).map_err(|e| failed(e.into()))?.f_bsize as u64;
        let end = stat.st_size as u64;
        let inside = u64::try_from(offset).ok().filter(|o| o.checked_add(size).is_some_and(|e| e <= end));
        let Some(offset) = inside.filter(|_| size > 0) else {
            let text = format!(
                "{size} bytes at offset {offset} reach past the end of the memory file ({end} bytes)"
            );
            return Err(Error::invalid(text));
        };
        let page = block.max(rustix::param::page_size() as u64);
        let skip = offset % page;
        let length = (skip + size).next_multiple_of(page).min(end - (offset - skip));
        let map =
            MmapOptions::new().offset(offset - skip).len(length as usize).map_raw(fd).map_err(failed)?;
        Ok(Region { map, skip: skip as usize, size: size as usize })
    }
}

/// A part of the host's memory. The host and peers may change it at any time, so that it is only copied.
pub struct Part {
    region: Arc<Region>,
    at: usize,
    pub(crate) length: usize,
}

impl Part {
    pub(crate) fn new(region: Arc<Region>, at: u64, length: u64) -> Result<Part> {
        if at.checked_add(length).is_none_or(|end| end > region.size as u64) {
            let text =
                format!("{length} bytes at {at} reach past the end of a region of {} bytes", region.size);
            return Err(Error::invalid(text));
        }
        Ok(Part { region, at: at as usize, length: length as usize })
    }

    /// The length in bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Where the part begins. The memory stays mapped as long as the part lives.
    pub(crate) fn start(&self) -> *mut u8 {
        self.region.map.as_mut_ptr().wrapping_add(self.region.skip + self.at)
    }

    /// Copies from the memory to the end of a buffer.
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        out.reserve(self.length);
        // SAFETY: `new` checked that the part is inside the mapping, which lives as long as `region`, and
        // `reserve` made space for it. The two do not overlap.
        unsafe {
            let to = out.as_mut_ptr().add(out.len());
            std::ptr::copy_nonoverlapping(self.start(), to, self.length);
            out.set_len(out.len() + self.length);
        }
    }

    /// Copies to the memory. `from` has the length of the part.
    pub(crate) fn fill(&self, from: &[u8]) {
        let length = self.length.min(from.len());
        // SAFETY: as above; nothing in this process has a reference into the mapping.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.start(), length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: &[u8]) -> OwnedFd {
        let fd = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).expect("a memory file");
        rustix::io::write(&fd, bytes).expect("space");
        fd
    }

    #[test]
    fn parts_of_a_region() {
        let bytes: Vec<u8> = (0..9000).map(|i| i as u8).collect();
        let fd = file(&bytes);
        let region = Arc::new(Region::map(&fd, 4100, 4000).expect("inside"));
        let part = Part::new(region.clone(), 10, 20).expect("inside");
        let mut out = vec![7];
        part.append_to(&mut out);
        assert_eq!((out[0], &out[1..]), (7, &bytes[4110..4130]));
        part.fill(&[9; 20]);
        let mut out = Vec::new();
        Part::new(region.clone(), 9, 22).expect("inside").append_to(&mut out);
        assert_eq!(out, [&bytes[4109..4110], &[9; 20], &bytes[4130..4131]].concat());
        for (at, length) in [(4000, 1), (0, 4001), (u64::MAX, 2)] {
            assert!(Part::new(region.clone(), at, length).is_err());
        }
        for (offset, size) in [(0, 9001), (-1, 1), (9000, 1), (0, 0), (1, u64::MAX)] {
            assert!(Region::map(&fd, offset, size).is_err(), "{offset} {size}");
        }
    }

    #[test]
    fn messages() {
        let message = |magic: u64, token: u64| [magic.to_ne_bytes(), token.to_ne_bytes()].concat();
        assert_eq!(decode(&message(MAGIC, 5)), Some(5));
        for wrong in [message(MAGIC, 0), message(1, 5), vec![], vec![0; 15], vec![0; 17]] {
            assert_eq!(decode(&wrong), None);
        }
    }
}
