//! The kind evict: the contract of eviction policies, as sdk/evict states it.
//!
//! A policy ranks objects and never deletes them. The master tells it what happened (`record`), asks for
//! victims (`propose`) and reports which of them it evicted (`resolve`), because only the master knows
//! leases, pins and unfinished writes.
//!
//! An object is unknown, ranked, or proposed. An insert makes it ranked; `propose` makes ranked objects
//! proposed; `resolve` makes proposed ones unknown (evicted) or ranked again (retained). A remove makes
//! it unknown from either state.
//!
//! The methods are called one at a time. While one of them runs, no other call is answered: each should
//! take milliseconds, and nothing in it should wait.

use crate::error::{Error, Result, columns};
use crate::host::Host;
use crate::lifecycle::{Component, Late, Shared, lock};
use crate::proto::mooncake::evict::v1 as wire;
use crate::serve::{self, Settings};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tonic::{Request, Response, Status};

/// Events, verdicts or candidates in one message.
const MAX_ITEMS: usize = 32 << 10;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// It became readable. An ID that is already known counts as an access.
    Insert,
    /// It was read. An unknown ID is ignored.
    Access,
    /// It was removed for another reason than eviction. An unknown ID is ignored.
    Remove,
}

/// One thing that happened to one object.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// What happened.
    pub op: Op,
    /// Never 0 for an object; never used again while the policy may still know it.
    pub id: u64,
    /// In bytes. Set on an insert.
    pub size: u64,
    /// The page before it in the prompt; 0 where there is none or it is not known.
    pub parent: u64,
    /// Set on an insert: a hash of the key, by which one can see that an object came back.
    pub fingerprint: u64,
}

/// A proposed victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Candidate {
    pub id: u64,
    pub size: u64,
}

/// What the master decided about a candidate.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    /// The candidate.
    pub id: u64,
    /// False: the object stays, ranked after all others.
    pub evicted: bool,
}

/// What a policy holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Known objects, proposed ones included.
    pub objects: u64,
    /// The sum of their sizes, modulo 2^64.
    pub bytes: u64,
    /// Proposed and not yet resolved.
    pub proposed: u64,
}

/// Ranks objects for eviction. Making one acquires nothing but memory.
pub trait Policy: Send + 'static {
    /// Acquires what the policy needs, or leaves nothing behind.
    fn start(&mut self, _host: &Host) -> Result<()> {
        Ok(())
    }
    /// Frees everything. At any time, also before start, and more than once.
    fn stop(&mut self) {}
    /// Applies events, in order.
    fn record(&mut self, events: &[Event]);
    /// Proposes victims, best first, until their sizes add up to `bytes`, there are `limit` of them, or none
    /// is left. None is proposed again before its verdict.
    fn propose(&mut self, bytes: u64, limit: usize) -> Vec<Candidate>;
    /// Hears what became of candidates. One that is not proposed is ignored.
    fn resolve(&mut self, verdicts: &[Verdict]);
    /// Counts.
    fn stats(&self) -> Stats;
}

/// The main function of an eviction policy. `create` makes it from valid settings, or says what is wrong.
pub fn serve<P: Policy, S: Settings>(
    manifest: &'static str,
    create: impl Fn(S) -> std::result::Result<P, String> + Send + Sync + 'static,
) -> ! {
    serve::main(
        manifest,
        "evict",
        move |s| create(s).map(Mutex::new),
        |shared, routes| {
            routes.add_service(wire::evict_service_server::EvictServiceServer::new(Evict(shared)));
        },
    )
}

impl<P: Policy> Component for Mutex<P> {
    fn start(&self, host: &Host) -> Result<()> {
        lock(self).start(host)
    }

    fn stop(&self, _: Duration) -> Result<()> {
        lock(self).stop();
        Ok(())
    }
}

struct Evict<P>(Arc<Shared<Mutex<P>>>);

fn events(m: &wire::RecordRequest) -> Result<Vec<Event>> {
    let n = m.ops.len();
    columns("evict record", MAX_ITEMS, n, &[m.ids.len(), m.sizes.len(), m.parents.len()])?;
    if !m.fingerprints.is_empty() {
        columns("evict record", MAX_ITEMS, n, &[m.fingerprints.len()])?;
    }
    let event = |i: usize| {
        let op = match m.ops[i] {
            1 => Op::Insert,
            2 => Op::Access,
            3 => Op::Remove,
            op => {
                let text = format!("evict record: an event has the unknown operation {op}");
                return Err(Error::invalid(text));
            }
        };
        let fingerprint = m.fingerprints.get(i).copied().unwrap_or(0);
        Ok(Event { op, id: m.ids[i], size: m.sizes[i], parent: m.parents[i], fingerprint })
    };
    (0..n).map(event).collect()
}

#[tonic::async_trait]
impl<P: Policy> wire::evict_service_server::EvictService for Evict<P> {
    async fn record(
        &self,
        m: Request<wire::RecordRequest>,
    ) -> std::result::Result<Response<wire::RecordResponse>, Status> {
        let policy = self.0.component()?;
        let events = events(m.get_ref())?;
        lock(&policy).record(&events);
        Ok(Response::new(wire::RecordResponse {}))
    }

    async fn propose(
        &self,
        m: Request<wire::ProposeRequest>,
    ) -> std::result::Result<Response<wire::ProposeResponse>, Status> {
        let policy = self.0.component()?;
        let late = Late::of(&m);
        let limit = m.get_ref().max_candidates as usize;
        if limit > MAX_ITEMS {
            let text =
                format!("evict propose: {limit} candidates wanted, at most {MAX_ITEMS} go into one message");
            return Err(Error::invalid(text).into());
        }
        let mut out = wire::ProposeResponse::default();
        if m.get_ref().bytes > 0 && limit > 0 {
            let mut policy = lock(&policy);
            let found = policy.propose(m.get_ref().bytes, limit);
            if late.now() {
                // The host will not receive these candidates, so that it would never resolve them.
                let back = found.iter().map(|c| Verdict { id: c.id, evicted: false });
                policy.resolve(&back.collect::<Vec<_>>());
            } else {
                (out.ids, out.sizes) = found.iter().map(|c| (c.id, c.size)).unzip();
            }
        }
        Ok(Response::new(out))
    }

    async fn resolve(
        &self,
        m: Request<wire::ResolveRequest>,
    ) -> std::result::Result<Response<wire::ResolveResponse>, Status> {
        let policy = self.0.component()?;
        let m = m.get_ref();
        columns("evict resolve", MAX_ITEMS, m.ids.len(), &[m.evicted.len()])?;
        if let Some(v) = m.evicted.iter().find(|v| **v > 1) {
            let text = format!("evict resolve: a verdict has the value {v}, want 0 or 1");
            return Err(Error::invalid(text).into());
        }
        let pairs = m.ids.iter().zip(&m.evicted);
        let verdicts: Vec<Verdict> =
            pairs.map(|(id, evicted)| Verdict { id: *id, evicted: *evicted == 1 }).collect();
        lock(&policy).resolve(&verdicts);
        Ok(Response::new(wire::ResolveResponse {}))
    }

    async fn stats(
        &self,
        _: Request<wire::StatsRequest>,
    ) -> std::result::Result<Response<wire::StatsResponse>, Status> {
        let policy = self.0.component()?;
        let Stats { objects, bytes, proposed } = lock(&policy).stats();
        Ok(Response::new(wire::StatsResponse { objects, bytes, proposed }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use prost::Message;

    /// Events of a message that was damaged are events, or an error that names the call.
    #[test]
    fn mutated_messages() {
        let golden = wire::RecordRequest {
            ops: vec![1, 2, 3],
            ids: vec![1, 2, 300],
            sizes: vec![4096, 0, 0],
            parents: vec![0, 1, 0],
            fingerprints: vec![7, 0, 0],
        };
        let mut refused = 0;
        for bytes in crate::hostile::mutants(&golden.encode_to_vec(), 10_000) {
            let Ok(m) = wire::RecordRequest::decode(&*bytes) else { continue };
            match events(&m) {
                Ok(events) => assert_eq!(events.len(), m.ids.len()),
                Err(e) => {
                    refused += 1;
                    assert!(
                        e.code == Code::InvalidParams && e.text.starts_with("evict record: "),
                        "{}",
                        e.text
                    );
                }
            }
        }
        assert!(refused > 0);
    }
}
