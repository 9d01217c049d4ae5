use super::*;
use crate::host::Host;
use crate::tier::{Commit, Cursor, Place, Stats, Volume};
use prost::Message;
use tokio::sync::mpsc::unbounded_channel;

const MAX_RECORD: u64 = 4096;

/// A store that takes what it gets.
struct Taking;

impl Store for Taking {
    fn write(&self, record: &Record, value: &[u8], commit: Commit) -> Result<Place> {
        assert_eq!(value.len() as u64, record.size);
        commit()?;
        Ok([1, 2, 3, 4])
    }
    fn read(&self, record: &Record, _: Place, offset: u64, into: &mut [u8]) -> Result<Record> {
        assert!(!into.is_empty() && offset + into.len() as u64 <= record.size);
        Ok(record.clone())
    }
    fn open(&self, _: &Host) -> Result<()> {
        unreachable!("the queue does not do this")
    }
    fn close(&self) -> Result<()> {
        unreachable!("the queue does not do this")
    }
    fn volume(&self) -> Volume {
        unreachable!("the queue does not do this")
    }
    fn space(&self, _: u64, _: u64) -> u64 {
        unreachable!("the queue does not do this")
    }
    fn forget(&self, _: &[Place]) -> Result<()> {
        unreachable!("the queue does not do this")
    }
    fn scan(&self, _: Cursor, _: usize) -> Result<(Vec<(Record, Place)>, Cursor)> {
        unreachable!("the queue does not do this")
    }
    fn flush(&self) -> Result<()> {
        unreachable!("the queue does not do this")
    }
    fn wipe(&self) -> Result<()> {
        unreachable!("the queue does not do this")
    }
    fn stats(&self) -> Result<Stats> {
        unreachable!("the queue does not do this")
    }
}

fn op(number: u64, kind: u32) -> wire::Op {
    let record = wire::Record { key: b"key".to_vec(), epoch: 1, put: 2, size: 64, sum: None };
    let local = vec![wire::Part { region: 1, at: 32, length: 64 }];
    wire::Op { number, kind, record: Some(record), local, limit: 60_000_000_000, ..Default::default() }
}

/// Takes operations, carries them out on this thread, and returns their completions.
fn carried_out(ops: Vec<wire::Op>) -> Result<Vec<wire::Completion>> {
    let queue = Queue::new(Taking);
    let fd = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).expect("a memory file");
    rustix::io::write(&fd, &[1; MAX_RECORD as usize]).expect("space");
    queue.add_region(1, Region::map(&fd, 0, MAX_RECORD)?)?;
    let (out, mut completions) = unbounded_channel();
    assert!(queue.open(out));
    queue.take(ops, MAX_RECORD)?;
    while let Some((number, o)) = { lock(&queue.state).next() } {
        let outcome = queue.carry_out(number, &o);
        lock(&queue.state).finish(number, outcome);
    }
    Ok(std::iter::from_fn(|| completions.try_recv().ok()).collect())
}

/// An operation of a damaged message has a completion, or the message ends the stream.
#[test]
fn mutated_operations() {
    let (mut done, mut failed, mut ended) = (0, 0, 0);
    let golden = wire::OperateRequest { ops: vec![op(1, WRITE), op(2, READ)] }.encode_to_vec();
    for bytes in crate::hostile::mutants(&golden, 3000) {
        let Ok(m) = wire::OperateRequest::decode(&*bytes) else { continue };
        let n = m.ops.len();
        let Ok(completions) = carried_out(m.ops).inspect_err(|e| assert_eq!(e.code, Code::InvalidParams))
        else {
            ended += 1;
            continue;
        };
        assert_eq!(completions.len(), n);
        for c in completions {
            match c.error {
                Some(e) => {
                    failed += 1;
                    assert!(c.status == FAILED && e.code < 0 && !e.message.is_empty(), "{e:?}");
                }
                None => done += 1,
            }
        }
    }
    assert!(done > 0 && failed > 0 && ended > 0, "{done} done, {failed} failed, {ended} ended");
}

#[test]
fn too_many_operations() {
    let ops = (1..=MAX_OPEN as u64 + 1).map(|n| op(n, WRITE)).collect();
    let e = carried_out(ops).expect_err("one too many");
    assert!(e.text.contains(&format!("{MAX_OPEN} open")), "{}", e.text);
}
