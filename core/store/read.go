package store

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// readItem is one object on its way out of the pool.
type readItem struct {
	key      model.Key
	dst      []byte
	allocate bool // dst is made by the client
	obj      model.Object
	expires  time.Time
	next     int   // index of the replica to be tried
	last     error // why the replica before failed
	twice    bool  // the replica to be tried had wrong bytes once
	damaged  int   // replicas that had wrong bytes twice
	ok       bool
	err      error
}

// bytes returns what was read, nil after an error.
func (it *readItem) bytes() []byte {
	if !it.ok {
		return nil
	}
	return it.dst[:it.obj.Size]
}

// read takes items through query, transfer and checks. Those whose lease ran out start
// again, a bounded number of times.
func (c *Client) read(ctx context.Context, items []*readItem) {
	defer c.dropDamaged(ctx, items)
	for round := 0; ; round++ {
		late := c.readRound(ctx, items)
		if len(late) == 0 {
			return
		}
		c.metrics.expired.Add(float64(len(late)))
		if round == c.cfg.ReadRetries || ctx.Err() != nil {
			for _, it := range late {
				it.err = errs.WithHint(errs.New(errs.LeaseExpired, "store: get "+quote(it.key), "reading took longer than the lease of %v", it.obj.LeaseTTL),
					"raise the master's default_kv_lease_ttl or read smaller batches")
			}
			return
		}
		items = late
	}
}

// readRound asks where the items lie, reads them, and returns those that outlived their
// lease. All others are decided.
func (c *Client) readRound(ctx context.Context, items []*readItem) (late []*readItem) {
	pending := c.locate(ctx, items)
	for len(pending) > 0 {
		end := time.Now().Add(c.cfg.TransferTimeout)
		reqs := make([]transfer.Request, len(pending))
		for i, it := range pending {
			r := &it.obj.Replicas[it.next]
			deadline := it.expires
			if end.Before(deadline) {
				deadline = end
			}
			reqs[i] = transfer.Request{Kind: transport.Read, Local: it.dst[:it.obj.Size], Peer: r.Endpoint, Addr: r.Address, Deadline: deadline}
		}
		results := c.engine.Transfer(ctx, reqs)
		arrived, again := pending[:0:0], pending[:0:0]
		for i, it := range pending {
			res := results[i]
			if errors.Is(res.Err, transfer.ErrQuarantined) && it.allocate {
				it.dst = make([]byte, it.obj.Size) // The old one is never used again.
			}
			switch {
			case errors.Is(res.Err, transfer.ErrQuarantined) && !it.allocate:
				it.err = errs.Wrap(errs.TransferFail, "store: get "+quote(it.key), res.Err)
			case ctx.Err() != nil && res.Err != nil:
				it.err = errs.Wrap(errs.TransferFail, "store: get "+quote(it.key), res.Err)
			case !res.Done.Before(it.expires):
				late = append(late, it)
			case res.Err != nil:
				it.last = res.Err
				if c.another(it) {
					again = append(again, it)
				}
			default:
				arrived = append(arrived, it)
			}
		}
		pending = append(again, c.verify(arrived)...)
	}
	return late
}

// another moves on to the next replica; false, with the item decided, when there is none.
func (c *Client) another(it *readItem) bool {
	it.twice = false
	if it.next++; it.next < len(it.obj.Replicas) {
		c.metrics.failovers.Inc()
		return true
	}
	op, n := "store: get "+quote(it.key), len(it.obj.Replicas)
	if it.damaged > 0 {
		it.err = errs.Wrap(errs.ChecksumMismatch, op, errors.Join(errors.New("no copy has the bytes that were put"), it.last))
	} else {
		it.err = errs.Wrap(errs.TransferFail, op, errors.Join(errs.New(errs.TransferFail, "", "none of %d copies could be read", n), it.last))
	}
	return false
}

// verify checks what arrived and decides the items that are right. It returns those that
// are to be read again: once from the same replica, then from another.
func (c *Client) verify(items []*readItem) (again []*readItem) {
	sums := make([]model.Checksum, len(items))
	if c.cfg.Checksum {
		checksums(len(items), func(i int) []byte {
			if !c.checked(items[i]) {
				return nil
			}
			return items[i].dst[:items[i].obj.Size]
		}, func(i int, s model.Checksum) { sums[i] = s })
	}
	for i, it := range items {
		if c.checked(it) && sums[i] != it.obj.Checksum {
			r := it.obj.Replicas[it.next]
			c.metrics.mismatches.Inc()
			c.log.Warn("a copy of an object has wrong bytes", "key", it.key, "segment", r.Segment, "endpoint", r.Endpoint, "bytes", r.Size)
			it.last = errs.New(errs.ChecksumMismatch, r.Endpoint, "the checksum is %08x, not %08x", sums[i].Value, it.obj.Checksum.Value)
			if !it.twice { // It may have happened on the way.
				it.twice = true
				again = append(again, it)
				continue
			}
			it.damaged++
			if c.another(it) {
				again = append(again, it)
			}
			continue
		}
		it.ok = true
		c.metrics.readBytes.Add(float64(it.obj.Size))
	}
	return again
}

// checked reports whether the item's bytes are compared with a checksum.
func (c *Client) checked(it *readItem) bool {
	return c.cfg.Checksum && it.obj.Checksum.Kind == model.ChecksumCRC32C
}

// locate asks the master where the items lie and returns those that can be read.
func (c *Client) locate(ctx context.Context, items []*readItem) []*readItem {
	keys := make([]model.Key, len(items))
	for i, it := range items {
		keys[i] = it.key
	}
	asked := time.Now()
	got, err := c.master.GetReplicas(ctx, c.caller, keys)
	c.rpc("BatchGetReplicaList", asked)
	if err == nil && len(got) != len(items) {
		err = shortAnswer(len(got), len(items))
	}
	found := make([]*readItem, 0, len(items))
	for i, it := range items {
		e := err
		if e == nil {
			e = got[i].Err
		}
		if e == nil {
			it.obj, it.next, it.last, it.twice, it.damaged = got[i].Value, 0, nil, false, 0
			it.expires = asked.Add(it.obj.LeaseTTL)
			if it.obj.LeaseTTL <= 0 && c.checked(it) {
				// A master without leases protects no reader; the checksum still does.
				it.expires = asked.Add(c.cfg.TransferTimeout)
			}
			e = c.accept(it)
		}
		if e != nil {
			it.err = errs.Wrap(errs.CodeOf(e), "store: get "+quote(it.key), e)
			continue
		}
		found = append(found, it)
	}
	return found
}

// accept checks an object's description against the buffer and picks the order of its
// replicas: a copy in this process first.
func (c *Client) accept(it *readItem) error {
	o := &it.obj
	switch {
	case len(o.Replicas) == 0 || o.Size == 0:
		return errs.New(errs.ReplicaIsNotReady, "", "there is no copy to read")
	case c.cfg.Checksum && o.Checksum.Kind > model.ChecksumCRC32C:
		return errs.New(errs.InvalidVersion, "", "the checksum is of kind %d, which this version cannot check", o.Checksum.Kind)
	case it.allocate && o.Size > c.cfg.MaxObjectSize:
		return errs.New(errs.BufferOverflow, "", "the object has %s, more than the bound of %s", memory.Human(o.Size), memory.Human(c.cfg.MaxObjectSize))
	case !it.allocate && o.Size > uint64(len(it.dst)):
		return errs.New(errs.InvalidParams, "", "the object has %d bytes, the buffer %d", o.Size, len(it.dst))
	}
	self := c.engine.LocalName()
	for i, r := range o.Replicas {
		if r.Size != o.Size {
			return errs.New(errs.InvalidReplica, "", "a copy on %s has %d bytes, the object %d", r.Endpoint, r.Size, o.Size)
		}
		if r.Endpoint == self {
			o.Replicas[0], o.Replicas[i] = o.Replicas[i], o.Replicas[0]
		}
	}
	if it.allocate && uint64(len(it.dst)) != o.Size {
		it.dst = make([]byte, o.Size)
	}
	return nil
}
