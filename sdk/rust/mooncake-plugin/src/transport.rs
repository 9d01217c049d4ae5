//! The kind transport: what an author of a transport writes, a [`Transport`] and its [`Lane`]s.
//!
//! The contract is that of sdk/transport. This library does what every transport in a process of its own needs: it
//! maps the memory of the host, takes operations from the ring, hands them to lanes, and writes the completions; it
//! makes and checks keys, and knows which peers use which region. A transport listens, connects, and moves bytes.
//!
//! It takes memory without a descriptor through the stage: the host copies. It has no rails, carries no grants, and
//! does not speak to nodes of kvcache-ai/Mooncake.
//!
//! All methods may be called on several threads at once, and may wait.

use crate::error::{Class, Code, Error, Result};
use crate::host::Host;
use crate::lifecycle::{Component, Shared, limit, lock, wait};
pub use crate::memory::Part;
use crate::memory::{Inbox, Region};
use crate::path::{Common, Path};
pub use crate::path::{Lane, Lanes, Operation, late};
use crate::process;
use crate::proto::mooncake::transport::v1 as wire;
use crate::regions::New;
pub use crate::regions::{Ask, Held, Key, Kind, Refusal, Regions};
use crate::ring;
pub use crate::ring::Outcome;
use crate::serve::{self, Settings};
pub use crate::stream::{Broken, Halt, Stream, Wait};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_stream::{Stream as Messages, StreamExt};
use tonic::{Request, Response, Status};

/// The most bytes of an endpoint and of a key.
pub const MAX_BLOB: usize = 4 << 10;
/// How long a Deregister waits for peers if the host does not say it, and how long before the host gives up it
/// answers.
const DEREGISTER: Duration = Duration::from_secs(10);
const MARGIN: Duration = Duration::from_millis(200);

/// What a transport serves peers with.
pub struct Serving {
    /// Of this start. Peers name it, so that a process that was restarted refuses what was meant for the earlier one.
    pub incarnation: u64,
    /// The memory that peers may use.
    pub regions: Regions,
}

/// Moves bytes between this process and others. Making one acquires nothing but memory.
pub trait Transport: Send + Sync + 'static {
    /// Begins to serve peers, or leaves nothing behind. Returns what peers dial, at most [`MAX_BLOB`] bytes.
    fn start(&self, host: &Host, serving: Serving) -> Result<Vec<u8>>;
    /// Ends all connections of peers and frees everything. It carries out nothing new of theirs, finishes what had
    /// begun, and answers the rest with a refusal of class transient-peer, until `until` at the latest. Comes once,
    /// after `start`, when the paths are closed.
    fn stop(&self, until: Instant);
    /// The most lanes of a path, at least 1.
    fn lanes(&self) -> usize;
    /// Checks an endpoint, and returns what makes the lanes to it. It need not connect. InvalidParams for what no
    /// transport of this name made.
    fn dial(&self, blob: &[u8], incarnation: u64) -> Result<Lanes>;
}

/// The main function of a transport. `create` makes it from valid settings, or says what is wrong.
pub fn serve<T: Transport, S: Settings>(
    manifest: &'static str,
    create: impl Fn(S) -> std::result::Result<T, String> + Send + Sync + 'static,
) -> ! {
    let create = move |s| create(s).map(Node::new);
    serve::main(manifest, "transport", create, |shared, routes| {
        routes.add_service(wire::transport_service_server::TransportServiceServer::new(Service(shared)));
    })
}

/// A transport that runs.
#[derive(Clone)]
struct Running {
    inbox: Arc<Inbox>,
    endpoint: wire::Endpoint,
    common: Common,
}

#[derive(Default)]
enum Life {
    #[default]
    Created,
    Running(Running),
    Stopped,
}

struct Node<T> {
    transport: Arc<T>,
    life: Mutex<Life>,
    /// Held by a stop.
    stopping: Mutex<()>,
    joined: Mutex<bool>,
    regions: Regions,
    paths: Mutex<HashMap<u64, Arc<Path>>>,
    next: AtomicU64,
}

impl<T: Transport> Node<T> {
    fn new(transport: T) -> Node<T> {
        Node {
            transport: Arc::new(transport),
            life: Mutex::default(),
            stopping: Mutex::default(),
            joined: Mutex::default(),
            regions: Regions::default(),
            paths: Mutex::default(),
            next: AtomicU64::new(1),
        }
    }

    fn running(&self, op: &str) -> Result<Running> {
        match &*lock(&self.life) {
            Life::Running(r) => Ok(r.clone()),
            _ => Err(Error::new(
                Code::UnavailableInCurrentStatus,
                format!("{op}: the transport is not running"),
            )),
        }
    }

    /// Keeps a path, unless the transport was stopped meanwhile.
    fn keep(&self, path: Arc<Path>) -> Result<u64> {
        let life = lock(&self.life);
        if !matches!(*life, Life::Running(..)) {
            drop(life);
            path.close();
            return Err(Error::new(
                Code::UnavailableInCurrentStatus,
                "dial: the transport was stopped meanwhile",
            ));
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.paths).insert(id, path);
        Ok(id)
    }

    fn path(&self, id: u64) -> Option<Arc<Path>> {
        lock(&self.paths).get(&id).cloned()
    }
}

/// A random number that is not 0.
fn incarnation() -> Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| Error::new(Code::Internal, format!("start: no random numbers: {e}")))?;
    Ok(u64::from_ne_bytes(bytes).max(1))
}

impl<T: Transport> Component for Node<T> {
    fn start(&self, host: &Host) -> Result<()> {
        let mut life = lock(&self.life);
        if !matches!(*life, Life::Created) {
            return Err(Error::new(
                Code::UnavailableInCurrentStatus,
                "start: the transport was stopped before",
            ));
        }
        let Some(socket) = process::descriptor(process::DATA)? else {
            let text = format!("start: the host gave no socket for descriptors ({})", process::DATA);
            return Err(Error::new(Code::NotSupported, text));
        };
        let incarnation = incarnation()?;
        let blob = self.transport.start(host, Serving { incarnation, regions: self.regions.clone() })?;
        let common = Common {
            regions: self.regions.clone(),
            host: host.clone(),
            lanes: self.transport.lanes().max(1),
            operations: Arc::default(),
        };
        let endpoint = wire::Endpoint { blob, incarnation };
        *life = Life::Running(Running { inbox: Inbox::new(socket, host.clone()), endpoint, common });
        Ok(())
    }

    fn stop(&self, within: Duration) -> Result<()> {
        let until = Instant::now() + within;
        let _stopping = lock(&self.stopping);
        let was = std::mem::replace(&mut *lock(&self.life), Life::Stopped);
        if !matches!(was, Life::Running(..)) {
            return Ok(());
        }
        let paths = std::mem::take(&mut *lock(&self.paths));
        paths.into_values().for_each(|p| p.close());
        self.transport.stop(until);
        self.regions.clear();
        Ok(())
    }
}

struct Service<T>(Arc<Shared<Node<T>>>);

type Reply<T> = std::result::Result<Response<T>, Status>;

fn unsupported(op: &str) -> Status {
    Error::new(Code::NotSupported, format!("{op}: a transport of this library does not do this")).into()
}

#[tonic::async_trait]
impl<T: Transport> wire::transport_service_server::TransportService for Service<T> {
    type WatchStream = Pin<Box<dyn Messages<Item = std::result::Result<wire::WatchResponse, Status>> + Send>>;

    async fn join(&self, _: Request<wire::JoinRequest>) -> Reply<wire::JoinResponse> {
        let node = self.0.component()?;
        let running = node.running("join")?;
        if std::mem::replace(&mut *lock(&node.joined), true) {
            return Err(Error::new(Code::UnavailableInCurrentStatus, "join comes once").into());
        }
        Ok(Response::new(wire::JoinResponse { endpoint: Some(running.endpoint), nonce: Vec::new() }))
    }

    async fn share(&self, m: Request<wire::ShareRequest>) -> Reply<wire::ShareResponse> {
        let node = self.0.component()?;
        let m = m.into_inner();
        let fd = node.running("share")?.inbox.take(m.token).await?;
        node.regions.set_stage(Region::map(&fd, 0, m.bytes)?);
        Ok(Response::new(wire::ShareResponse {}))
    }

    async fn watch(&self, _: Request<wire::WatchRequest>) -> Reply<Self::WatchStream> {
        // The endpoint stays the same as long as the process lives.
        let endpoint = Some(self.0.component()?.running("watch")?.endpoint);
        let first = tokio_stream::once(Ok(wire::WatchResponse { endpoint }));
        Ok(Response::new(Box::pin(first.chain(tokio_stream::pending()))))
    }

    async fn register(&self, m: Request<wire::RegisterRequest>) -> Reply<wire::RegisterResponse> {
        let node = self.0.component()?;
        let m = m.into_inner();
        let running = node.running("register")?;
        if m.grants.is_some() {
            return Err(unsupported("register with grants"));
        }
        let fd = running.inbox.take(m.token).await?;
        let new = New { id: m.region, handle: m.token, addr: m.addr, bytes: m.bytes, access: m.access };
        let token = node.regions.add(&new, || Region::map(&fd, m.offset, m.bytes))?;
        let incarnation = running.endpoint.incarnation;
        let key = Key { incarnation, region: m.region, length: m.bytes, token }.encode();
        Ok(Response::new(wire::RegisterResponse { key, elsewhere: true }))
    }

    async fn deregister(&self, m: Request<wire::DeregisterRequest>) -> Reply<wire::DeregisterResponse> {
        let node = self.0.component()?;
        let until = Instant::now() + limit(m.metadata()).unwrap_or(DEREGISTER).saturating_sub(MARGIN);
        let id = m.get_ref().region;
        wait(move || node.regions.remove(id, until)).await?;
        Ok(Response::new(wire::DeregisterResponse {}))
    }

    async fn allow(&self, _: Request<wire::AllowRequest>) -> Reply<wire::AllowResponse> {
        Err(unsupported("allow"))
    }

    async fn dial(&self, m: Request<wire::DialRequest>) -> Reply<wire::DialResponse> {
        let node = self.0.component()?;
        let m = m.into_inner();
        let running = node.running("dial")?;
        let fds = running.inbox.take_all(m.token).await?;
        if m.grants {
            return Err(unsupported("dial with grants"));
        }
        let path = wait(move || {
            let peer = m.endpoint.unwrap_or_default();
            let lanes = node.transport.dial(&peer.blob, peer.incarnation)?;
            let rings = ring::open(fds, m.slots)?;
            node.keep(Arc::new(Path::new(rings, lanes, peer.incarnation, running.common)?))
        });
        Ok(Response::new(wire::DialResponse { path: path.await?, rails: Vec::new() }))
    }

    async fn import(&self, m: Request<wire::ImportRequest>) -> Reply<wire::ImportResponse> {
        let m = m.get_ref();
        let unknown = || Error::invalid(format!("import: there is no path {}", m.path));
        let path = self.0.component()?.path(m.path).ok_or_else(unknown)?;
        Ok(Response::new(wire::ImportResponse { remote: path.import(&m.key)? }))
    }

    async fn close_path(&self, m: Request<wire::ClosePathRequest>) -> Reply<wire::ClosePathResponse> {
        let node = self.0.component()?;
        let id = m.get_ref().path;
        wait(move || {
            if let Some(path) = node.path(id) {
                path.close();
                lock(&node.paths).remove(&id);
            }
            Ok(())
        })
        .await?;
        Ok(Response::new(wire::ClosePathResponse {}))
    }

    async fn rails(&self, _: Request<wire::RailsRequest>) -> Reply<wire::RailsResponse> {
        Err(unsupported("rails"))
    }

    async fn stats(&self, _: Request<wire::StatsRequest>) -> Reply<wire::StatsResponse> {
        let node = self.0.component()?;
        let running = node.running("stats")?;
        Ok(Response::new(wire::StatsResponse {
            operations: running.common.operations.load(Ordering::Relaxed),
            bytes_copied: 0,
            regions: node.regions.count() as u64,
            paths: lock(&node.paths).len() as u64,
            goroutines: 0,
        }))
    }

    async fn join_segment(&self, _: Request<wire::JoinSegmentRequest>) -> Reply<wire::JoinSegmentResponse> {
        Err(unsupported("join segment"))
    }

    async fn segment(&self, _: Request<wire::SegmentRequest>) -> Reply<wire::SegmentResponse> {
        Err(unsupported("segment"))
    }

    async fn translate(&self, _: Request<wire::TranslateRequest>) -> Reply<wire::TranslateResponse> {
        Err(unsupported("translate"))
    }

    async fn accept(&self, _: Request<wire::AcceptRequest>) -> Reply<wire::AcceptResponse> {
        Err(unsupported("accept"))
    }
}

/// The error of a connection that broke, for an operation on it.
pub fn lost(broken: &Broken) -> Error {
    match broken {
        Broken::Late => late(),
        Broken::Halted => ring::closed(),
        Broken::Lost(e) => {
            Error::new(Code::TransferFail, format!("the connection is lost: {e}")).class(Class::TransientPath)
        }
    }
}
