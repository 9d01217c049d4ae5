//! The registered memory of a transport: what operations use, and what peers may read and write.

use crate::error::{Class, Code, Error, Result};
use crate::lifecycle::lock;
use crate::memory::{Part, Region};
use crate::stream::Halt;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

const MAGIC: &[u8; 8] = b"mckey-1\n";
const KEY: usize = 48;
/// What peers may do.
const READABLE: u32 = 1;
const WRITABLE: u32 = 2;
/// How long a Deregister lets operations of peers end before it cuts their connections.
const GRACE: Duration = Duration::from_secs(1);

/// The direction of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From the peer's memory.
    Read,
    /// Into the peer's memory.
    Write,
}

/// What a peer needs to address a region. A key names one registration, and nobody can guess another's token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Of the transport that made it.
    pub incarnation: u64,
    /// The region there.
    pub region: u64,
    /// In bytes.
    pub length: u64,
    /// Known only to those who have the key.
    pub token: [u8; 16],
}

impl Key {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let numbers = [self.incarnation, self.region, self.length].map(u64::to_le_bytes).concat();
        [MAGIC.as_slice(), &numbers, &self.token].concat()
    }

    /// Reads a key, which came from a directory that others write to.
    pub(crate) fn decode(b: &[u8]) -> Result<Key> {
        let number = |at: usize| Some(u64::from_le_bytes(b.get(at..at + 8)?.try_into().ok()?));
        let read = || {
            let token = b.get(32..KEY)?.try_into().ok()?;
            Some(Key { incarnation: number(8)?, region: number(16)?, length: number(24)?, token })
        };
        let key = read().filter(|k| b.len() == KEY && b.starts_with(MAGIC) && k.region != 0 && k.length != 0);
        key.ok_or_else(|| {
            Error::new(
                Code::InvalidKey,
                format!("a key of {} bytes was not made by such a transport", b.len()),
            )
        })
    }
}

/// Why an operation of a peer is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// There is no such region (any more).
    Unknown = 1,
    /// The key is not that of the region.
    WrongToken = 2,
    /// Peers may not read it.
    NoRead = 3,
    /// Peers may not write it.
    NoWrite = 4,
    /// The range reaches past the end.
    Range = 5,
    /// The region is being deregistered.
    Leaving = 6,
}

impl Refusal {
    /// The refusal with a number of the enum, which a peer sent.
    pub fn of(number: u8) -> Option<Refusal> {
        use Refusal::*;
        [Unknown, WrongToken, NoRead, NoWrite, Range, Leaving].into_iter().find(|r| *r as u8 == number)
    }

    /// The error for the caller of the operation.
    pub fn error(self) -> Error {
        let (code, class, text) = match self {
            Refusal::Unknown => {
                (Code::InvalidKey, Class::TransientPeer, "the peer has no such region (any more)")
            }
            Refusal::WrongToken => {
                (Code::InvalidKey, Class::Permanent, "the key was not issued by this peer for this region")
            }
            Refusal::NoRead => {
                (Code::InvalidRead, Class::Permanent, "the region does not allow peers to read")
            }
            Refusal::NoWrite => {
                (Code::InvalidWrite, Class::Permanent, "the region does not allow peers to write")
            }
            Refusal::Range => {
                (Code::InvalidParams, Class::Permanent, "the range reaches past the end of the peer's region")
            }
            Refusal::Leaving => {
                (Code::InvalidKey, Class::TransientPeer, "the peer is deregistering the region")
            }
        };
        Error::new(code, text).class(class)
    }
}

/// An operation that a peer asks for.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Ask {
    pub kind: Kind,
    pub region: u64,
    pub token: [u8; 16],
    pub offset: u64,
    pub length: u64,
}

/// A registered region.
struct Entry {
    memory: Arc<Region>,
    /// The call that registered it, by which operations name it.
    handle: u64,
    /// Where the host has it.
    addr: u64,
    bytes: u64,
    access: u32,
    token: [u8; 16],
    leaving: bool,
    /// The connections that use it for peers, by a number of their own.
    users: HashMap<u64, Arc<Halt>>,
}

#[derive(Default)]
struct Table {
    entries: HashMap<u64, Entry>,
    handles: HashMap<u64, u64>,
    stage: Option<Arc<Region>>,
    next: u64,
}

/// The registered memory of a transport. Cheap to clone, usable on any thread.
#[derive(Clone, Default)]
pub struct Regions(Arc<(Mutex<Table>, Condvar)>);

/// What the host asks to register.
pub(crate) struct New {
    pub id: u64,
    pub handle: u64,
    pub addr: u64,
    pub bytes: u64,
    pub access: u32,
}

impl Regions {
    /// Registers a region, and returns the token of its key.
    pub(crate) fn add(&self, n: &New, map: impl FnOnce() -> Result<Region>) -> Result<[u8; 16]> {
        let mut table = lock(&self.0.0);
        let end = n.addr.checked_add(n.bytes).filter(|_| n.bytes > 0 && n.id != 0);
        let Some(end) = end else {
            return Err(Error::invalid(format!("register: a region {} of {} bytes", n.id, n.bytes)));
        };
        if table.entries.contains_key(&n.id) {
            return Err(Error::invalid(format!("register: region ID {} is in use", n.id)));
        }
        let other = table.entries.iter().find(|(_, e)| n.addr < e.addr + e.bytes && e.addr < end);
        if let Some((id, _)) = other {
            return Err(Error::invalid(format!("register: region {} overlaps region {id}", n.id)));
        }
        let mut token = [0; 16];
        rustix::rand::getrandom(&mut token, rustix::rand::GetRandomFlags::empty())
            .map_err(|e| Error::new(Code::Internal, format!("register: no random numbers: {e}")))?;
        let entry = Entry {
            memory: Arc::new(map()?),
            handle: n.handle,
            addr: n.addr,
            bytes: n.bytes,
            access: n.access,
            token,
            leaving: false,
            users: HashMap::new(),
        };
        table.entries.insert(n.id, entry);
        table.handles.insert(n.handle, n.id);
        Ok(token)
    }

    /// Ends a region. It is closed to peers from now on, and unmapped when nothing uses it. An unknown region is no
    /// error, because an earlier answer may have been lost. After an error it can be called again.
    pub(crate) fn remove(&self, id: u64, until: Instant) -> Result<()> {
        let (table, left) = &*self.0;
        let mut table = lock(table);
        let grace = Instant::now() + GRACE;
        let mut cut = false;
        while let Some(entry) = table.entries.get_mut(&id) {
            entry.leaving = true;
            if entry.users.is_empty() {
                let handle = entry.handle;
                table.entries.remove(&id);
                table.handles.remove(&handle);
                break;
            }
            let now = Instant::now();
            if now >= until {
                let text =
                    format!("deregister: peers still use region {id}; its memory must not be reused yet");
                return Err(Error::new(Code::RpcTimeout, text).class(Class::LocalDevice));
            }
            if now >= grace && !cut {
                cut = true;
                entry.users.values().for_each(|user| user.now());
            }
            let end = if cut { until } else { grace.min(until) };
            table = left
                .wait_timeout(table, end.saturating_duration_since(now))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        Ok(())
    }

    /// Forgets all regions. No peer is served any more.
    pub(crate) fn clear(&self) {
        *lock(&self.0.0) = Table::default();
    }

    pub(crate) fn set_stage(&self, stage: Region) {
        lock(&self.0.0).stage = Some(Arc::new(stage));
    }

    pub(crate) fn count(&self) -> usize {
        lock(&self.0.0).entries.len()
    }

    /// The local memory of an operation: of a region, or of the stage.
    pub(crate) fn part(&self, handle: Option<u64>, at: u64, length: u64) -> Result<Part> {
        let table = lock(&self.0.0);
        let region = match handle {
            Some(h) => table.handles.get(&h).and_then(|id| table.entries.get(id)).map(|e| &e.memory),
            None => table.stage.as_ref(),
        };
        let unknown = || Error::invalid("the local memory of an operation is in no registered region");
        Part::new(region.ok_or_else(unknown)?.clone(), at, length)
    }

    /// Gives a peer the memory that it asks for. `cut` ends the connection if the region has to go meanwhile.
    pub fn acquire(&self, ask: &Ask, cut: &Arc<Halt>) -> std::result::Result<Held, Refusal> {
        let mut table = lock(&self.0.0);
        table.next += 1;
        let user = table.next;
        let entry = table.entries.get_mut(&ask.region).ok_or(Refusal::Unknown)?;
        let differs = entry.token.iter().zip(&ask.token).fold(0, |d, (a, b)| d | (a ^ b)); // In constant time.
        if differs != 0 {
            return Err(Refusal::WrongToken);
        }
        let (right, refusal) = match ask.kind {
            Kind::Read => (READABLE, Refusal::NoRead),
            Kind::Write => (WRITABLE, Refusal::NoWrite),
        };
        if entry.access & right == 0 {
            return Err(refusal);
        }
        if entry.leaving {
            return Err(Refusal::Leaving);
        }
        let part = Part::new(entry.memory.clone(), ask.offset, ask.length).map_err(|_| Refusal::Range)?;
        entry.users.insert(user, cut.clone());
        Ok(Held { part, user, region: ask.region, of: self.clone() })
    }
}

/// Memory that a connection uses for a peer, until it is dropped.
pub struct Held {
    /// The memory.
    pub part: Part,
    user: u64,
    region: u64,
    of: Regions,
}

impl Drop for Held {
    fn drop(&mut self) {
        let (table, left) = &*self.of.0;
        if let Some(entry) = lock(table).entries.get_mut(&self.region) {
            entry.users.remove(&self.user);
        }
        left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;

    fn memory() -> Result<Region> {
        let fd: OwnedFd =
            rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).expect("a memory file");
        rustix::io::write(&fd, &[7; 4096]).expect("space");
        Region::map(&fd, 0, 4096)
    }

    #[test]
    fn keys() {
        let key = Key { incarnation: 1, region: 2, length: 3, token: [4; 16] };
        let blob = key.encode();
        assert_eq!(Key::decode(&blob).expect("a key"), key);
        for end in 0..blob.len() {
            assert!(Key::decode(&blob[..end]).is_err());
        }
        assert!(Key::decode(&[blob.as_slice(), &[0]].concat()).is_err());
        let none = Key { region: 0, ..key }.encode();
        assert_eq!(Key::decode(&none).expect_err("region 0").code, Code::InvalidKey);
    }

    #[test]
    fn what_peers_may_do() {
        let regions = Regions::default();
        let new = |id, addr, access| New { id, handle: id + 100, addr, bytes: 4096, access };
        let token = regions.add(&new(1, 0x1000, READABLE), memory).expect("a region");
        for (bad, why) in
            [(new(1, 0x9000, 0), "in use"), (new(2, 0x1fff, 0), "overlaps"), (new(0, 0x9000, 0), "region 0")]
        {
            assert!(regions.add(&bad, memory).expect_err(why).text.contains(why));
        }
        regions.add(&new(2, 0x2000, WRITABLE), memory).expect("a neighbour");
        let cut = Arc::new(Halt::new().expect("a descriptor"));
        let ask = Ask { kind: Kind::Read, region: 1, token, offset: 4000, length: 96 };
        for (bad, why) in [
            (Ask { region: 3, ..ask }, Refusal::Unknown),
            (Ask { token: [0; 16], ..ask }, Refusal::WrongToken),
            (Ask { kind: Kind::Write, ..ask }, Refusal::NoWrite),
            (Ask { length: 97, ..ask }, Refusal::Range),
            (Ask { offset: u64::MAX, ..ask }, Refusal::Range),
        ] {
            assert_eq!(regions.acquire(&bad, &cut).err(), Some(why), "{bad:?}");
            assert_eq!(Refusal::of(why as u8), Some(why));
        }
        let held = regions.acquire(&ask, &cut).expect("granted");
        let at_once = regions.remove(1, Instant::now()).expect_err("a peer uses it");
        assert_eq!(at_once.class, Class::LocalDevice);
        assert_eq!(regions.acquire(&ask, &cut).err(), Some(Refusal::Leaving));
        let waiting = {
            let regions = regions.clone();
            std::thread::spawn(move || regions.remove(1, Instant::now() + Duration::from_secs(60)))
        };
        while !cut.is_over() {
            std::thread::yield_now(); // Until the grace is over.
        }
        drop(held);
        waiting.join().expect("no panic").expect("nobody uses it");
        assert_eq!(regions.count(), 1);
        assert!(regions.part(Some(101), 0, 1).is_err() && regions.part(Some(102), 0, 4096).is_ok());
    }
}
