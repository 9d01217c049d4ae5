//! The kind tier: what an author of a storage tier writes, a [`Store`].
//!
//! The contract is that of sdk/tier. This library does what every tier needs: it maps the memory of the host,
//! takes operations and gives out their completions, urgent ones first, at their deadlines; it computes and
//! compares the checksums (CRC-32C). A store moves bytes.
//!
//! All methods may be called on several threads at once, and may wait for the storage.

use crate::error::{Code, Error, Result, columns};
use crate::host::Host;
use crate::lifecycle::{Component, Late, Shared, limit, lock, wait};
use crate::memory::{Inbox, Region};
use crate::process;
use crate::proto::mooncake::tier::v1 as wire;
use crate::queue::Queue;
use crate::serve::{self, Settings};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// The length of the longest key in bytes.
pub const MAX_KEY: usize = 2048;
/// Locators, records and completions in one message.
const MAX_FORGET: usize = 64 << 10;
const MAX_FOUND: u32 = 1024;
const BATCH: usize = 256;
/// How long a call that waits for the storage may take if the host does not say it.
const SLOW: Duration = Duration::from_secs(300);

/// The place of a record, which only the store interprets. Not all numbers are 0. A locator is never given to
/// another record of the volume, also after forget and wipe.
pub type Place = [u64; 4];
/// Where a scan goes on; [0, 0] begins one.
pub type Cursor = [u64; 2];
pub(crate) type Locator = Place;

/// One version of one key. `epoch` and `put` order the versions of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Record {
    pub key: Vec<u8>,
    pub epoch: u64,
    pub put: u64,
    /// The length of the value in bytes, at least 1.
    pub size: u64,
    /// The checksum of the value.
    pub sum: Option<u32>,
}

impl Record {
    /// Whether this record is the one that a reader expects.
    pub fn expected_by(&self, want: &Record) -> bool {
        let sums = self.sum.is_none() || want.sum.is_none() || self.sum == want.sum;
        (&self.key, self.epoch, self.put, self.size) == (&want.key, want.epoch, want.put, want.size) && sums
    }
}

/// What a store opened.
#[derive(Clone, Copy, Debug)]
pub struct Volume {
    /// Names the storage across restarts and machines.
    pub id: [u8; 16],
    /// Counts the calls of wipe over the life of the volume.
    pub generation: u64,
    /// How many bytes the records may take together, as `space` counts them.
    pub capacity: u64,
    /// The size of the largest value.
    pub max_record: u64,
}

/// What a store holds.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Stats {
    pub used: u64,
    pub records: u64,
    pub capacity: u64,
    /// The size of the largest value for which there is space, whatever its key.
    pub largest_free: u64,
}

/// Settles that a write keeps its record, or refuses it.
pub type Commit<'a> = &'a dyn Fn() -> Result<()>;

/// Keeps records. Making one acquires nothing but memory.
pub trait Store: Send + Sync + 'static {
    /// Opens the volume and finds its records, or leaves nothing behind.
    fn open(&self, host: &Host) -> Result<()>;
    /// Makes everything durable and closes the volume. Comes once, after `open`, when no other call runs.
    fn close(&self) -> Result<()>;
    /// What was opened, with the current generation.
    fn volume(&self) -> Volume;
    /// How much of the capacity a record takes, from the lengths of its key and value.
    fn space(&self, key: u64, size: u64) -> u64;
    /// Keeps a new record, and leaves those that are there. Call `commit` when the bytes are at the storage,
    /// just before a read or a scan can find the record; if it fails, keep nothing. Without space:
    /// NoAvailableHandle. If the storage fails: FileWriteFail.
    fn write(&self, record: &Record, value: &[u8], commit: Commit) -> Result<Place>;
    /// Copies the value from `offset` on, and returns the record that is there. ObjectNotFound if it is not
    /// the expected one. FileReadFail if the storage fails.
    fn read(&self, record: &Record, at: Place, offset: u64, into: &mut [u8]) -> Result<Record>;
    /// Ends records. Ignores unknown places. A read that has begun goes on.
    fn forget(&self, at: &[Place]) -> Result<()>;
    /// Up to `limit` records from `start` on, those that were written last first, and where to go on. None at
    /// the end.
    fn scan(&self, start: Cursor, limit: usize) -> Result<(Vec<(Record, Place)>, Cursor)>;
    /// Returns when all that completed before survives a crash.
    fn flush(&self) -> Result<()>;
    /// Ends all records and adds 1 to the generation, durably. No write runs meanwhile.
    fn wipe(&self) -> Result<()>;
    /// The current counts.
    fn stats(&self) -> Result<Stats>;
}

/// The main function of a storage tier. `create` makes the store from valid settings, or says what is wrong.
pub fn serve<S: Store, C: Settings>(
    manifest: &'static str,
    create: impl Fn(C) -> std::result::Result<S, String> + Send + Sync + 'static,
) -> ! {
    let create = move |c| create(c).map(|s| Node { queue: Queue::new(s), life: Mutex::default() });
    serve::main(manifest, "tier", create, |shared, routes| {
        routes.add_service(wire::tier_service_server::TierServiceServer::new(Tier(shared)));
    })
}

#[derive(Default)]
enum Life {
    #[default]
    Created,
    Running(Arc<Inbox>, u64),
    Stopped,
}

struct Node<S> {
    queue: Arc<Queue<S>>,
    life: Mutex<Life>,
}

impl<S: Store> Node<S> {
    /// What a tier that runs has: its inbox, and the size of its largest value.
    fn running(&self) -> Result<(Arc<Inbox>, u64)> {
        match &*lock(&self.life) {
            Life::Running(inbox, max_record) => Ok((inbox.clone(), *max_record)),
            _ => Err(Error::new(Code::UnavailableInCurrentStatus, "the tier does not run")),
        }
    }
}

impl<S: Store> Component for Node<S> {
    fn start(&self, host: &Host) -> Result<()> {
        let mut life = lock(&self.life);
        if !matches!(*life, Life::Created) {
            return Err(Error::new(Code::UnavailableInCurrentStatus, "start: the tier was stopped before"));
        }
        let Some(socket) = process::descriptor(process::DATA)? else {
            let text = format!("start: the host gave no socket for descriptors ({})", process::DATA);
            return Err(Error::new(Code::NotSupported, text));
        };
        self.queue.store.open(host)?;
        let inbox = Inbox::new(socket, host.clone());
        *life = Life::Running(inbox, self.queue.store.volume().max_record);
        self.queue.run();
        Ok(())
    }

    fn stop(&self, within: Duration) -> Result<()> {
        let mut life = lock(&self.life);
        let running = matches!(*life, Life::Running(..));
        if running {
            drop(life); // Calls may end meanwhile.
            self.queue.end(within)?;
            life = lock(&self.life);
        }
        let open = matches!(*life, Life::Running(..));
        *life = Life::Stopped;
        let closed = if open { self.queue.store.close() } else { Ok(()) };
        self.queue.stopped();
        closed
    }
}

struct Tier<S>(Arc<Shared<Node<S>>>);

impl<S: Store> Tier<S> {
    /// Runs a call of the store, on a thread for it.
    async fn ask<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Queue<S>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let node = self.0.component()?;
        node.running()?;
        wait(move || call(&node.queue)).await
    }
}

type Reply<T> = std::result::Result<Response<T>, Status>;

#[tonic::async_trait]
impl<S: Store> wire::tier_service_server::TierService for Tier<S> {
    type OperateStream = ReceiverStream<std::result::Result<wire::OperateResponse, Status>>;

    async fn operate(&self, m: Request<Streaming<wire::OperateRequest>>) -> Reply<Self::OperateStream> {
        let node = self.0.component()?;
        let (_, max_record) = node.running()?;
        let (post, mut completions) = mpsc::unbounded_channel();
        if !node.queue.open(post) {
            return Err(Error::new(Code::UnavailableInCurrentStatus, "operate comes once").into());
        }
        let (to_host, out) = mpsc::channel(4);
        let failed = to_host.clone();
        let mut ops = m.into_inner();
        tokio::spawn(async move {
            while let Ok(Some(m)) = ops.message().await {
                if let Err(e) = node.queue.take(m.ops, max_record) {
                    let _ = failed.send(Err(e.into())).await;
                    break;
                }
            }
            node.queue.close();
        });
        tokio::spawn(async move {
            let mut batch = Vec::with_capacity(BATCH);
            while completions.recv_many(&mut batch, BATCH).await > 0 {
                let part = wire::OperateResponse { completions: std::mem::take(&mut batch) };
                if to_host.send(Ok(part)).await.is_err() {
                    return; // The host is gone.
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(out)))
    }

    async fn volume(&self, _: Request<wire::VolumeRequest>) -> Reply<wire::VolumeResponse> {
        let volume = Some(self.ask(|q| Ok(q.store.volume().into())).await?);
        Ok(Response::new(wire::VolumeResponse { volume }))
    }

    async fn space(&self, m: Request<wire::SpaceRequest>) -> Reply<wire::SpaceResponse> {
        let node = self.0.component()?;
        node.running()?;
        let space = node.queue.store.space(u64::from(m.get_ref().key), m.get_ref().size);
        Ok(Response::new(wire::SpaceResponse { space }))
    }

    async fn register(&self, m: Request<wire::RegisterRequest>) -> Reply<wire::RegisterResponse> {
        let node = self.0.component()?;
        let (inbox, _) = node.running()?;
        let late = Late::of(&m);
        let m = m.into_inner();
        let fd = inbox.take(m.token).await?;
        node.queue.add_region(m.token, Region::map(&fd, m.offset, m.bytes)?)?;
        if late.now() {
            node.queue.remove_region(m.token); // The host will not use it.
        }
        Ok(Response::new(wire::RegisterResponse {}))
    }

    async fn deregister(&self, m: Request<wire::DeregisterRequest>) -> Reply<wire::DeregisterResponse> {
        self.0.component()?.queue.remove_region(m.get_ref().token);
        Ok(Response::new(wire::DeregisterResponse {}))
    }

    async fn forget(&self, m: Request<wire::ForgetRequest>) -> Reply<wire::ForgetResponse> {
        columns("forget", MAX_FORGET, m.get_ref().at.len(), &[])?;
        let at: Vec<Place> = m.into_inner().at.into_iter().map(Place::from).collect();
        self.ask(move |q| q.store.forget(&at)).await?;
        Ok(Response::new(wire::ForgetResponse {}))
    }

    async fn scan(&self, m: Request<wire::ScanRequest>) -> Reply<wire::ScanResponse> {
        let m = m.into_inner();
        if m.limit == 0 {
            return Err(Error::invalid("scan: there is no place for records").into());
        }
        let limit = m.limit.min(MAX_FOUND) as usize;
        let (found, next) = self.ask(move |q| q.store.scan([m.from_a, m.from_b], limit)).await?;
        let one =
            |(record, at): (Record, Place)| wire::Found { record: Some(record.into()), at: Some(at.into()) };
        let found = found.into_iter().map(one).collect();
        Ok(Response::new(wire::ScanResponse { found, next_a: next[0], next_b: next[1] }))
    }

    async fn flush(&self, _: Request<wire::FlushRequest>) -> Reply<wire::FlushResponse> {
        self.ask(|q| q.store.flush()).await?;
        Ok(Response::new(wire::FlushResponse {}))
    }

    async fn wipe(&self, m: Request<wire::WipeRequest>) -> Reply<wire::WipeResponse> {
        let until = Instant::now() + limit(m.metadata()).unwrap_or(SLOW);
        let after = m.get_ref().after;
        let wiped = self.ask(move |q| {
            q.wipe(after, until)?;
            Ok(q.store.volume().into())
        });
        Ok(Response::new(wire::WipeResponse { volume: Some(wiped.await?) }))
    }

    async fn stats(&self, _: Request<wire::StatsRequest>) -> Reply<wire::StatsResponse> {
        let (s, (counts, oldest)) = self.ask(|q| Ok((q.store.stats()?, q.counts()))).await?;
        Ok(Response::new(wire::StatsResponse {
            used: s.used,
            records: s.records,
            capacity: s.capacity,
            largest_free: s.largest_free,
            read_errors: counts.read_errors,
            write_errors: counts.write_errors,
            damaged: counts.damaged,
            oldest: i64::try_from(oldest.as_nanos()).unwrap_or(i64::MAX),
        }))
    }
}

impl From<wire::Locator> for Place {
    fn from(m: wire::Locator) -> Self {
        [m.a, m.b, m.c, m.d]
    }
}

impl From<Place> for wire::Locator {
    fn from([a, b, c, d]: Place) -> Self {
        wire::Locator { a, b, c, d }
    }
}

impl From<wire::Record> for Record {
    fn from(m: wire::Record) -> Self {
        Record { key: m.key, epoch: m.epoch, put: m.put, size: m.size, sum: m.sum }
    }
}

impl From<Record> for wire::Record {
    fn from(r: Record) -> Self {
        wire::Record { key: r.key, epoch: r.epoch, put: r.put, size: r.size, sum: r.sum }
    }
}

impl From<Volume> for wire::Volume {
    fn from(v: Volume) -> Self {
        wire::Volume {
            id: v.id.to_vec(),
            generation: v.generation,
            capacity: v.capacity,
            max_record: v.max_record,
            align: 1,
        }
    }
}
