//! The kind alloc: the contract of allocators, as sdk/alloc states it.
//!
//! An allocator works on numbers, never on memory: it hands out extents of spaces. The master makes a space
//! for every segment that a node contributes, and decides in which spaces an object may go. The allocator
//! decides where inside.
//!
//! Errors concern one item of a batch: NoAvailableHandle if nothing fits, SegmentNotFound for an unknown
//! space, InvalidParams for what could never work, and InvalidWrite for a free of what is not allocated. An
//! error changes nothing. The methods are called one at a time, and should take milliseconds.

use crate::error::{Error, Result, columns};
use crate::host::Host;
use crate::lifecycle::{Component, Late, Shared, lock};
use crate::proto::mooncake::{alloc::v1 as wire, plugin::v1 as plugin};
use crate::serve::{self, Settings};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tonic::{Request, Response, Status};

/// Requests or extents in one message.
const MAX_ITEMS: usize = 4 << 10;
/// Candidate spaces of all requests in one message.
const MAX_SPACES: usize = 128 << 10;

/// An allocated range of a space, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Extent {
    pub space: u64,
    pub offset: u64,
    /// As it was asked for. The allocator may set aside more, see [`Stats`].
    pub size: u64,
}

/// Asks for one extent.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// In bytes.
    pub size: u64,
    /// A power of two, or 0 for no wish. The offset is a multiple of it. An allocator must honour at least
    /// 4096, and may refuse more with InvalidParams.
    pub align: u64,
    /// The spaces to try, in order. The first that fits is taken.
    pub candidates: &'a [u64],
}

/// One space, in bytes and counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Of the space.
    pub size: u64,
    /// The sum of the live extents, as requested.
    pub requested: u64,
    /// The sum that they occupy, rounding included.
    pub reserved: u64,
    /// Live extents.
    pub extents: u64,
    /// The largest size that a request without alignment would get now, or a lower bound.
    pub largest_free: u64,
}

/// Hands out extents of spaces. Making one acquires nothing but memory.
pub trait Allocator: Send + 'static {
    /// Acquires what the allocator needs, or leaves nothing behind.
    fn start(&mut self, _host: &Host) -> Result<()> {
        Ok(())
    }
    /// Frees everything. At any time, also before start, and more than once.
    fn stop(&mut self) {}
    /// Makes a space known. InvalidParams for size 0 or a space that is known.
    fn add_space(&mut self, space: u64, size: u64) -> Result<()>;
    /// Forgets a space with all its extents. SegmentNotFound if it is unknown.
    fn remove_space(&mut self, space: u64) -> Result<()>;
    /// Hands out an extent. Live extents of a space never overlap and lie inside it.
    fn alloc(&mut self, wanted: Wanted) -> Result<Extent>;
    /// Frees an extent, exactly as `alloc` returned it.
    fn free(&mut self, extent: Extent) -> Result<()>;
    /// Takes exactly this extent, which an earlier process with the same settings handed out. InvalidWrite if
    /// it overlaps a live one or leaves its space, NoAvailableHandle if this allocator could never have
    /// handed it out.
    fn reserve(&mut self, extent: Extent) -> Result<()>;
    /// Describes a space. SegmentNotFound if it is unknown.
    fn stats(&self, space: u64) -> Result<Stats>;
}

/// The main function of an allocator. `create` makes it from valid settings, or says what is wrong.
pub fn serve<A: Allocator, S: Settings>(
    manifest: &'static str,
    create: impl Fn(S) -> std::result::Result<A, String> + Send + Sync + 'static,
) -> ! {
    let create = move |s| create(s).map(|a| Locked(Mutex::new(a)));
    serve::main(manifest, "alloc", create, |shared, routes| {
        routes.add_service(wire::alloc_service_server::AllocServiceServer::new(Alloc(shared)));
    })
}

struct Locked<A>(Mutex<A>);

impl<A: Allocator> Component for Locked<A> {
    fn start(&self, host: &Host) -> Result<()> {
        lock(&self.0).start(host)
    }

    fn stop(&self, _: Duration) -> Result<()> {
        lock(&self.0).stop();
        Ok(())
    }
}

struct Alloc<A>(Arc<Shared<Locked<A>>>);

impl<A: Allocator> Alloc<A> {
    /// Does something with every extent: one error for each, or none if nothing failed.
    fn each(
        &self,
        op: &str,
        extents: &[wire::Extent],
        call: impl Fn(&mut A, Extent) -> Result<()>,
    ) -> Result<Vec<plugin::Error>> {
        let allocator = self.0.component()?;
        columns(op, MAX_ITEMS, extents.len(), &[])?;
        let mut allocator = lock(&allocator.0);
        let one = |e: &wire::Extent| {
            let e = Extent { space: e.space, offset: e.offset, size: e.size };
            failure(call(&mut allocator, e))
        };
        let failures: Vec<_> = extents.iter().map(one).collect();
        if failures.iter().all(Option::is_none) {
            return Ok(Vec::new());
        }
        Ok(failures.into_iter().map(Option::unwrap_or_default).collect())
    }
}

fn failure<T>(r: Result<T>) -> Option<plugin::Error> {
    r.err().map(|e| e.item())
}

#[tonic::async_trait]
impl<A: Allocator> wire::alloc_service_server::AllocService for Alloc<A> {
    async fn add_space(
        &self,
        m: Request<wire::AddSpaceRequest>,
    ) -> std::result::Result<Response<wire::AddSpaceResponse>, Status> {
        let allocator = self.0.component()?;
        let added = lock(&allocator.0).add_space(m.get_ref().space, m.get_ref().size);
        Ok(Response::new(wire::AddSpaceResponse { error: failure(added) }))
    }

    async fn remove_space(
        &self,
        m: Request<wire::RemoveSpaceRequest>,
    ) -> std::result::Result<Response<wire::RemoveSpaceResponse>, Status> {
        let allocator = self.0.component()?;
        let removed = lock(&allocator.0).remove_space(m.get_ref().space);
        Ok(Response::new(wire::RemoveSpaceResponse { error: failure(removed) }))
    }

    async fn alloc(
        &self,
        m: Request<wire::AllocRequest>,
    ) -> std::result::Result<Response<wire::AllocResponse>, Status> {
        let allocator = self.0.component()?;
        let late = Late::of(&m);
        let items = &m.get_ref().items;
        columns("alloc", MAX_ITEMS, items.len(), &[])?;
        if items.iter().map(|i| i.candidates.len()).sum::<usize>() > MAX_SPACES {
            let text = format!("alloc: more than {MAX_SPACES} candidate spaces in one message");
            return Err(Error::invalid(text).into());
        }
        let mut allocator = lock(&allocator.0);
        let one = |i: &wire::AllocItem| {
            let wanted = Wanted { size: i.size, align: i.align, candidates: &i.candidates };
            match allocator.alloc(wanted) {
                Ok(Extent { space, offset, size }) => {
                    let extent = Some(wire::Extent { space, offset, size });
                    wire::AllocResult { extent, error: None }
                }
                Err(e) => wire::AllocResult { extent: None, error: Some(e.item()) },
            }
        };
        let results: Vec<_> = items.iter().map(one).collect();
        if late.now() {
            // The host will not learn of these extents, so that it would never free them.
            for e in results.iter().filter_map(|r| r.extent.as_ref()) {
                let _ = allocator.free(Extent { space: e.space, offset: e.offset, size: e.size });
            }
        }
        Ok(Response::new(wire::AllocResponse { results }))
    }

    async fn free(
        &self,
        m: Request<wire::FreeRequest>,
    ) -> std::result::Result<Response<wire::FreeResponse>, Status> {
        let errors = self.each("alloc free", &m.get_ref().extents, A::free)?;
        Ok(Response::new(wire::FreeResponse { errors }))
    }

    async fn reserve(
        &self,
        m: Request<wire::ReserveRequest>,
    ) -> std::result::Result<Response<wire::ReserveResponse>, Status> {
        let errors = self.each("alloc reserve", &m.get_ref().extents, A::reserve)?;
        Ok(Response::new(wire::ReserveResponse { errors }))
    }

    async fn stats(
        &self,
        m: Request<wire::StatsRequest>,
    ) -> std::result::Result<Response<wire::StatsResponse>, Status> {
        let allocator = self.0.component()?;
        let stats = lock(&allocator.0).stats(m.get_ref().space);
        Ok(Response::new(match stats {
            Ok(s) => wire::StatsResponse {
                error: None,
                size: s.size,
                requested: s.requested,
                reserved: s.reserved,
                extents: s.extents,
                largest_free: s.largest_free,
            },
            Err(e) => wire::StatsResponse { error: Some(e.item()), ..Default::default() },
        }))
    }
}
