//! A path to a peer: operations from the ring of the host to the lanes of the transport, and their completions.

use crate::error::{Class, Code, Error, Result};
use crate::host::{Host, Level};
use crate::lifecycle::lock;
use crate::memory::Part;
use crate::regions::{Key, Kind, Regions};
use crate::ring::{Completions, Outcome, Submissions, c, closed};
use crate::stream::Halt;
use std::collections::{HashMap, VecDeque};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The most entries that are handled at a time.
const BATCH: u32 = 64;
/// The most keys that a path knows.
const MAX_KEYS: usize = 1 << 16;

/// Bytes to move to or from a peer.
pub struct Operation {
    /// The direction.
    pub kind: Kind,
    /// The region of the peer.
    pub key: Key,
    /// Where in the region.
    pub offset: u64,
    /// The memory of this side; its length is that of the operation, and is not 0.
    pub part: Part,
    /// When the operation has to end.
    pub deadline: Instant,
    tag: u64,
}

/// Moves bytes for a path, one operation at a time. A lane has a thread of its own, on which it may wait.
pub trait Lane: Send {
    /// Moves the bytes of an operation. It returns soon after the deadline of the operation, and soon after `halt`. From then on it
    /// does not touch the memory.
    fn carry(&mut self, op: &Operation, halt: &Halt) -> Outcome;
}

/// Makes the lanes of a path.
pub type Lanes = Box<dyn Fn() -> Box<dyn Lane> + Send + Sync>;

/// The error of an operation whose deadline has passed.
pub fn late() -> Error {
    Error::new(Code::RpcTimeout, "the deadline has passed").class(Class::TransientPath)
}

struct Queue {
    waiting: VecDeque<Operation>,
    lanes: usize,
    idle: usize,
    closed: bool,
}

struct Inner {
    queue: Mutex<Queue>,
    more: Condvar,
    halt: Halt,
    completions: Mutex<Completions>,
    keys: Mutex<(HashMap<Key, u64>, Vec<Key>)>,
    make: Lanes,
    host: Host,
}

/// A path, with its threads.
pub(crate) struct Path {
    inner: Arc<Inner>,
    incarnation: u64,
    pump: Mutex<Option<JoinHandle<Vec<JoinHandle<()>>>>>,
}

/// What all paths of a transport share.
#[derive(Clone)]
pub(crate) struct Common {
    pub regions: Regions,
    pub host: Host,
    pub lanes: usize,
    pub operations: Arc<AtomicU64>,
}

impl Path {
    /// Begins to take operations of the host.
    pub fn new(
        rings: (Submissions, Completions),
        make: Lanes,
        incarnation: u64,
        common: Common,
    ) -> Result<Path> {
        let queue = Queue { waiting: VecDeque::new(), lanes: 0, idle: 0, closed: false };
        let inner = Arc::new(Inner {
            queue: Mutex::new(queue),
            more: Condvar::new(),
            halt: Halt::new()?,
            completions: Mutex::new(rings.1),
            keys: Mutex::default(),
            make,
            host: common.host.clone(),
        });
        let pump = Pump { inner: inner.clone(), ring: rings.0, common, lanes: Vec::new() };
        let pump = Mutex::new(Some(std::thread::spawn(move || pump.run())));
        Ok(Path { inner, incarnation, pump })
    }

    /// Makes a key usable, and returns its number on this path.
    pub fn import(&self, blob: &[u8]) -> Result<u64> {
        let key = Key::decode(blob)?;
        if key.incarnation != self.incarnation {
            let text = "import: the key is of another start of the peer than the path; dial it again";
            return Err(Error::new(Code::InvalidKey, text).class(Class::TransientPeer));
        }
        let mut keys = lock(&self.inner.keys);
        if let Some(known) = keys.0.get(&key) {
            return Ok(*known);
        }
        if keys.1.len() == MAX_KEYS {
            let text = format!("import: the path has {MAX_KEYS} keys already; dial another one");
            return Err(Error::new(Code::NoAvailableHandle, text).class(Class::TransientPath));
        }
        keys.1.push(key);
        let id = keys.1.len() as u64;
        keys.0.insert(key, id);
        Ok(id)
    }

    /// Ends the path. It returns when every operation has its completion, and the threads have ended. It may be
    /// called again.
    pub fn close(&self) {
        self.inner.shut();
        let mut pump = lock(&self.pump); // A second call waits here.
        if let Some(pump) = pump.take() {
            let lanes = pump.join().unwrap_or_default(); // A panic ends the process.
            lanes.into_iter().for_each(|lane| drop(lane.join()));
        }
    }
}

impl Inner {
    /// Fails what waits, and tells lanes and pump to end.
    fn shut(&self) {
        let waiting = {
            let mut queue = lock(&self.queue);
            queue.closed = true;
            std::mem::take(&mut queue.waiting)
        };
        self.halt.now();
        self.more.notify_all();
        waiting.into_iter().for_each(|op| self.end(op.tag, &Outcome::Failed(closed())));
    }

    fn end(&self, tag: u64, outcome: &Outcome) {
        if let Err(e) = lock(&self.completions).post(tag, outcome) {
            self.host.log(Level::Error, &format!("a completion is lost: {}", e.text), []);
        }
    }

    /// The work of a lane.
    fn work(&self) {
        let mut lane = (self.make)();
        while let Some(op) = self.next() {
            let outcome = match op.deadline.checked_duration_since(Instant::now()) {
                Some(left) if !left.is_zero() => lane.carry(&op, &self.halt),
                _ => Outcome::Failed(late()),
            };
            let Operation { tag, part, .. } = op;
            drop(part); // The memory may be unmapped once the host has the completion.
            self.end(tag, &outcome);
        }
    }

    /// Waits for the next operation, or the end of the path.
    fn next(&self) -> Option<Operation> {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(op) = queue.waiting.pop_front() {
                return Some(op);
            }
            if queue.closed {
                return None;
            }
            queue.idle += 1;
            queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }
}

/// Takes the operations of the host, on a thread.
struct Pump {
    inner: Arc<Inner>,
    ring: Submissions,
    common: Common,
    lanes: Vec<JoinHandle<()>>,
}

impl Pump {
    /// Returns the threads of the lanes when the path was closed.
    fn run(mut self) -> Vec<JoinHandle<()>> {
        if let Err(e) = self.serve() {
            self.inner.host.log(Level::Error, &format!("a path ends: {}", e.text), []);
            self.inner.shut();
        }
        self.lanes
    }

    fn serve(&mut self) -> Result<()> {
        let inner = self.inner.clone();
        let mut batch = Vec::with_capacity(BATCH as usize);
        loop {
            let timeout = self.expire();
            let mut n = self.ring.wait(inner.halt.as_fd(), timeout)?;
            let closing = inner.halt.is_over();
            if closing {
                n = self.ring.ready()?; // The host has written all that it will.
                if n == 0 {
                    return Ok(());
                }
            }
            self.ring.take(n.min(BATCH), &mut batch)?;
            self.common.operations.fetch_add(batch.len() as u64, Ordering::Relaxed);
            for s in batch.drain(..) {
                match self.accept(&s) {
                    Ok(Some(op)) => self.enqueue(op),
                    Ok(None) => inner.end(s.tag, &Outcome::Done),
                    Err(e) => inner.end(s.tag, &Outcome::Failed(e)),
                }
            }
        }
    }

    /// Checks an operation. One of no bytes is done.
    fn accept(&self, s: &c::Submission) -> Result<Option<Operation>> {
        let at = usize::try_from(s.remote).ok().and_then(|id| id.checked_sub(1));
        let key = at.and_then(|i| lock(&self.inner.keys).1.get(i).copied());
        let key =
            key.ok_or_else(|| Error::invalid(format!("remote {} was not imported on this path", s.remote)))?;
        if s.offset.checked_add(s.length).is_none_or(|end| end > key.length) {
            let text = format!(
                "{} bytes at {} reach past the end of a region of {} bytes",
                s.length, s.offset, key.length
            );
            return Err(Error::invalid(text));
        }
        if s.length == 0 {
            return Ok(None);
        }
        let handle = match s.place {
            c::IN_REGION => Some(s.region),
            c::IN_STAGE => None,
            _ => {
                return Err(Error::new(
                    Code::NotSupported,
                    "this transport does not copy from the host's memory",
                ));
            }
        };
        let part = self.common.regions.part(handle, s.local, s.length)?;
        let kind = if s.kind == 1 { Kind::Read } else { Kind::Write };
        let deadline = Instant::now() + Duration::from_nanos(s.limit);
        Ok(Some(Operation { kind, key, offset: s.offset, part, deadline, tag: s.tag }))
    }

    /// Gives an operation to a lane, and begins one more if all are busy.
    fn enqueue(&mut self, op: Operation) {
        let mut queue = lock(&self.inner.queue);
        if queue.closed {
            drop(queue);
            return self.inner.end(op.tag, &Outcome::Failed(closed()));
        }
        queue.waiting.push_back(op);
        if queue.waiting.len() > queue.idle && queue.lanes < self.common.lanes {
            queue.lanes += 1;
            let inner = self.inner.clone();
            self.lanes.push(std::thread::spawn(move || inner.work()));
        }
        drop(queue);
        self.inner.more.notify_one();
    }

    /// Fails what waits for a lane and is late. Returns in how many milliseconds the next one is, -1 for none.
    fn expire(&self) -> i32 {
        let now = Instant::now();
        let mut late_ones = Vec::new();
        let mut first: Option<Instant> = None;
        {
            let mut queue = lock(&self.inner.queue);
            let (over, waiting): (VecDeque<_>, _) =
                std::mem::take(&mut queue.waiting).into_iter().partition(|op| op.deadline <= now);
            first = waiting.iter().map(|op: &Operation| op.deadline).chain(first).min();
            queue.waiting = waiting;
            late_ones.extend(over);
        }
        late_ones.into_iter().for_each(|op| self.inner.end(op.tag, &Outcome::Failed(late())));
        first.map_or(-1, |at| {
            let ms = at.saturating_duration_since(now).as_millis() + 1;
            i32::try_from(ms).unwrap_or(i32::MAX)
        })
    }
}
