//! Operations of a tier from their arrival to their completions.
//!
//! A value is copied between the memory of the host and a buffer that the store gets. So an operation whose
//! deadline passes while the storage has it fails at once: nothing touches the host's memory any more.

use crate::error::{Class, Code, Error, Result};
use crate::lifecycle::lock;
use crate::memory::{Part, Region};
use crate::proto::mooncake::tier::v1 as wire;
use crate::tier::{Locator, MAX_KEY, Record, Store};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;

/// How many operations are at the storage at once.
const WORKERS: usize = 8;
/// When an operation without a deadline ends, and the longest deadline.
const OWN_LIMIT: Duration = Duration::from_secs(30);
const MAX_LIMIT: Duration = Duration::from_secs(24 * 3600);
/// The most operations without a completion. A host has fewer.
const MAX_OPEN: usize = 4096;
const WRITE: u32 = 1;
const READ: u32 = 2;
const OK: u32 = 1;
const FAILED: u32 = 2;

struct Operation {
    kind: u32,
    record: Record,
    at: Locator,
    offset: u64,
    parts: Vec<Part>,
    deadline: Instant,
}

/// What the counts of the tier need beside those of the store.
#[derive(Default, Clone, Copy)]
pub(crate) struct Counts {
    pub read_errors: u64,
    pub write_errors: u64,
    pub damaged: u64,
}

#[derive(Default)]
struct State {
    got: u64,
    open: BTreeMap<u64, Arc<Operation>>,
    /// Open operations whose outcome stands: neither a deadline nor a wipe changes it.
    decided: HashSet<u64>,
    urgent: VecDeque<u64>,
    others: VecDeque<u64>,
    /// When the operations that the storage has began, and whether they are writes.
    storage: HashMap<u64, (Instant, bool)>,
    regions: HashMap<u64, Arc<Region>>,
    out: Option<UnboundedSender<wire::Completion>>,
    counts: Counts,
    paused: bool,
    ended: bool,
    stopped: bool,
    closed: bool,
    workers: usize,
}

pub(crate) struct Queue<S> {
    pub store: S,
    state: Mutex<State>,
    /// Something of the state changed.
    changed: Condvar,
}

impl<S: Store> Queue<S> {
    pub fn new(store: S) -> Arc<Self> {
        Arc::new(Queue { store, state: Mutex::default(), changed: Condvar::new() })
    }

    /// Starts the threads.
    pub fn run(self: &Arc<Self>) {
        lock(&self.state).workers = WORKERS;
        for _ in 0..WORKERS {
            let queue = self.clone();
            std::thread::spawn(move || queue.work());
        }
        let queue = self.clone();
        std::thread::spawn(move || queue.expire());
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something holds, or the time is over: then it returns false.
    fn wait_until(&self, until: Instant, ready: impl Fn(&State) -> bool) -> bool {
        let left = until.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout_while(lock(&self.state), left, |s| !ready(s));
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Begins to give out completions. Once.
    pub fn open(&self, out: UnboundedSender<wire::Completion>) -> bool {
        let mut s = lock(&self.state);
        let first = s.out.is_none() && !s.closed;
        if first {
            s.out = Some(out);
        }
        first
    }

    /// The host sends no more operations.
    pub fn close(&self) {
        let mut s = lock(&self.state);
        s.closed = true;
        s.finish_stream();
        self.changed.notify_all();
    }

    pub fn add_region(&self, token: u64, region: Region) -> Result<()> {
        let mut s = lock(&self.state);
        if s.stopped || s.regions.contains_key(&token) {
            return Err(Error::invalid(format!(
                "region {token} is registered already, or the tier is stopped"
            )));
        }
        s.regions.insert(token, Arc::new(region));
        Ok(())
    }

    /// The memory stays mapped as long as an operation holds it; the host waits for those.
    pub fn remove_region(&self, token: u64) {
        lock(&self.state).regions.remove(&token);
    }

    /// Accepts the operations of a message. An error ends the stream.
    pub fn take(&self, ops: Vec<wire::Op>, max_record: u64) -> Result<()> {
        let now = Instant::now();
        let mut s = lock(&self.state);
        for m in ops {
            if m.number != s.got + 1 || s.open.len() >= MAX_OPEN {
                let text = format!("operation {} after operation {}, {} open", m.number, s.got, s.open.len());
                return Err(Error::invalid(text));
            }
            s.got += 1;
            let (number, urgent) = (m.number, m.urgent);
            let made = if s.ended { Err(stopped()) } else { s.operation(m, now, max_record) };
            match made {
                Ok(o) => {
                    s.open.insert(number, Arc::new(o));
                    if urgent { s.urgent.push_back(number) } else { s.others.push_back(number) }
                }
                Err(e) => s.post(number, Err(e)),
            }
        }
        self.changed.notify_all();
        Ok(())
    }

    /// Carries out operations, urgent ones first, until the tier ends.
    fn work(&self) {
        let mut s = lock(&self.state);
        while !s.ended {
            let next = if s.paused { None } else { s.next() };
            let Some((number, o)) = next else {
                s = self.wait(s);
                continue;
            };
            drop(s);
            let outcome = self.carry_out(number, &o);
            s = lock(&self.state);
            s.storage.remove(&number);
            if s.open.contains_key(&number) {
                s.finish(number, outcome);
            }
            self.changed.notify_all();
        }
        s.workers -= 1;
        self.changed.notify_all();
    }

    fn carry_out(&self, number: u64, o: &Operation) -> Result<Done> {
        if o.kind == WRITE {
            let mut value = Vec::with_capacity(o.record.size as usize);
            for part in &o.parts {
                part.append_to(&mut value);
            }
            if o.record.sum.is_some_and(|sum| sum != crc32c::crc32c(&value)) {
                let text = "write: the bytes are not those of the checksum";
                return Err(Error::new(Code::ChecksumMismatch, text));
            }
            let at = self.store.write(&o.record, &value, &|| self.decide(number))?;
            return Ok(Done { at: Some(at), verified: false });
        }
        let mut value = vec![0; o.parts.iter().map(|p| p.length).sum()];
        let there = self.store.read(&o.record, o.at, o.offset, &mut value)?;
        let whole = there.sum.filter(|_| value.len() as u64 == there.size);
        if whole.is_some_and(|sum| sum != crc32c::crc32c(&value)) {
            let text = format!("read: the bytes at {:?} are damaged", o.at);
            return Err(Error::new(Code::ChecksumMismatch, text));
        }
        self.decide(number)?; // From here on the deadline waits for the copy.
        let mut rest = &value[..];
        for part in &o.parts {
            let (here, after) = rest.split_at(part.length);
            part.fill(here);
            rest = after;
        }
        Ok(Done { at: None, verified: whole.is_some() })
    }

    /// Settles the outcome of an operation, unless its deadline, a wipe or a stop came first.
    fn decide(&self, number: u64) -> Result<()> {
        let mut s = lock(&self.state);
        if !s.open.contains_key(&number) {
            return Err(late());
        }
        s.decided.insert(number);
        Ok(())
    }

    /// Fails operations at their deadlines.
    fn expire(&self) {
        let mut s = lock(&self.state);
        while !s.stopped {
            let now = Instant::now();
            let mut next = now + OWN_LIMIT;
            for number in s.undecided() {
                let deadline = s.open[&number].deadline;
                if deadline <= now {
                    s.finish(number, Err(late()));
                    self.changed.notify_all();
                } else {
                    next = next.min(deadline);
                }
            }
            let waited = self.changed.wait_timeout(s, next.saturating_duration_since(now));
            s = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Fails the writes that were submitted before, and wipes when none is at the storage.
    pub fn wipe(&self, after: u64, until: Instant) -> Result<()> {
        let late = |what: &str| Err(Error::new(Code::RpcTimeout, format!("wipe: {what}")));
        if !self.wait_until(until, |s| s.got >= after && !s.paused) {
            return late("the operations that were submitted before did not arrive");
        }
        let mut s = lock(&self.state);
        s.paused = true;
        for number in s.undecided() {
            if s.open[&number].kind == WRITE {
                let text = "the volume was wiped";
                s.finish(number, Err(Error::new(Code::UnavailableInCurrentStatus, text)));
            }
        }
        drop(s);
        let idle = self.wait_until(until, |s| !s.storage.values().any(|(_, write)| *write));
        let wiped = if idle { self.store.wipe() } else { late("a write does not end at the storage") };
        lock(&self.state).paused = false;
        self.changed.notify_all();
        wiped
    }

    /// Ends all operations and threads. An error says that the storage does not respond.
    pub fn end(&self, within: Duration) -> Result<()> {
        let grace = Duration::from_secs(1);
        let until = Instant::now() + within.max(grace);
        self.wait_until(until - grace, |s| s.open.is_empty());
        let mut s = lock(&self.state);
        s.ended = true;
        for number in s.undecided() {
            s.finish(number, Err(stopped()));
        }
        self.changed.notify_all();
        drop(s);
        if !self.wait_until(until, |s| s.workers == 0 && s.open.is_empty()) {
            return Err(Error::new(Code::FileWriteFail, "stop: the storage does not respond"));
        }
        Ok(())
    }

    /// Ends the regions and, when the host has sent all, the completions.
    pub fn stopped(&self) {
        let mut s = lock(&self.state);
        s.stopped = true;
        s.regions.clear();
        s.finish_stream();
        self.changed.notify_all();
    }

    /// The counts of operations, and how long the oldest one has been at the storage.
    pub fn counts(&self) -> (Counts, Duration) {
        let s = lock(&self.state);
        let began = s.storage.values().map(|(began, _)| *began).min();
        (s.counts, began.map_or(Duration::ZERO, |b| b.elapsed().max(Duration::from_nanos(1))))
    }
}

struct Done {
    at: Option<Locator>,
    verified: bool,
}

impl State {
    /// Makes an operation of a message, or says what breaks the contract.
    fn operation(&self, m: wire::Op, now: Instant, max_record: u64) -> Result<Operation> {
        let bad = |text: String| Err(Error::invalid(format!("submit: operation {} {text}", m.number)));
        let record = Record::from(m.record.clone().unwrap_or_default());
        let mut parts = Vec::with_capacity(m.local.len());
        let mut length = 0u64;
        for p in &m.local {
            let Some(region) = self.regions.get(&p.region) else {
                let text = format!("local memory: region {} is not registered", p.region);
                return Err(Error::new(Code::UnavailableInCurrentStatus, text));
            };
            parts.push(Part::new(region.clone(), p.at, p.length)?);
            length = length.saturating_add(p.length);
        }
        match m.kind {
            READ | WRITE if record.key.is_empty() || record.key.len() > MAX_KEY => {
                return bad(format!("has a key of {} bytes, must be 1 to {MAX_KEY}", record.key.len()));
            }
            READ | WRITE if record.size == 0 || record.size > max_record => {
                return bad(format!("has a value of {} bytes, must be 1 to {max_record}", record.size));
            }
            WRITE if length != record.size => {
                return bad(format!("writes {length} bytes as a value of {}", record.size));
            }
            READ if length == 0 || m.offset.checked_add(length).is_none_or(|end| end > record.size) => {
                return bad(format!("reads {length} bytes at {} of a value of {}", m.offset, record.size));
            }
            READ | WRITE => {}
            kind => return bad(format!("is of the unknown kind {kind}")),
        }
        let limit = match u64::try_from(m.limit) {
            Ok(n) if n > 0 => Duration::from_nanos(n).min(MAX_LIMIT),
            _ => OWN_LIMIT,
        };
        let at = Locator::from(m.at.unwrap_or_default());
        Ok(Operation { kind: m.kind, record, at, offset: m.offset, parts, deadline: now + limit })
    }

    /// Takes the next operation to the storage.
    fn next(&mut self) -> Option<(u64, Arc<Operation>)> {
        while let Some(number) = self.urgent.pop_front().or_else(|| self.others.pop_front()) {
            let Some(o) = self.open.get(&number).cloned() else { continue };
            let now = Instant::now();
            if o.deadline <= now {
                self.finish(number, Err(late()));
                continue;
            }
            self.storage.insert(number, (now, o.kind == WRITE));
            return Some((number, o));
        }
        None
    }

    fn undecided(&self) -> Vec<u64> {
        self.open.keys().filter(|n| !self.decided.contains(n)).copied().collect()
    }

    /// Ends an operation: nothing touches its memory any more.
    fn finish(&mut self, number: u64, outcome: Result<Done>) {
        let Some(o) = self.open.remove(&number) else { return };
        self.decided.remove(&number);
        match outcome.as_ref().map_err(|e| e.code) {
            Err(Code::FileReadFail) => self.counts.read_errors += 1,
            Err(Code::FileWriteFail) => self.counts.write_errors += 1,
            Err(Code::ObjectNotFound | Code::ChecksumMismatch) if o.kind == READ => self.counts.damaged += 1,
            _ => {}
        }
        self.post(number, outcome);
        self.finish_stream();
    }

    fn post(&mut self, number: u64, outcome: Result<Done>) {
        let mut c = wire::Completion { number, status: OK, ..Default::default() };
        match outcome {
            Ok(done) => (c.at, c.verified) = (done.at.map(wire::Locator::from), done.verified),
            Err(e) => (c.status, c.error) = (FAILED, Some(e.item())),
        }
        if let Some(out) = &self.out {
            let _ = out.send(c); // The host may be gone.
        }
    }

    /// Ends the completions after the last one.
    fn finish_stream(&mut self) {
        if self.closed && self.stopped && self.open.is_empty() {
            self.out = None;
        }
    }
}

fn late() -> Error {
    Error::new(Code::RpcTimeout, "the deadline of the operation has passed").class(Class::Permanent)
}

fn stopped() -> Error {
    Error::new(Code::UnavailableInCurrentStatus, "the tier was stopped")
}

#[cfg(test)]
mod tests;
