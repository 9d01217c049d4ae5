package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/mooncake-go/mooncake/core/cells"
	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/ha/leased"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// A pool that is cut into cells has these keys as well:
//
//	mooncake-go/<cluster>/cells              their number, in decimal; none for one
//	mooncake-go/<cluster>/masters/<address>  a master that runs (ha.Member as JSON), bound to a lease of its process
//
// Each cell has the keys of a cluster of its own, whose name begins with that of the pool.

var _ ha.Cells = (*Backend)(nil)

// Cell implements ha.Cells.
func (b *Backend) Cell(cluster string) ha.Backend {
	return (&Backend{conn: b.conn, each: b.each, opts: b.opts, log: b.log, shared: true}).of(cluster)
}

// Count implements ha.Cells.
func (b *Backend) Count(ctx context.Context) (n int, err error) {
	err = b.do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		r, err := c.Txn(ctx).Then(clientv3.OpGet(b.own+"cells"), clientv3.OpGet(b.term, clientv3.WithCountOnly())).Commit()
		if err != nil {
			return err
		}
		n, err = b.count(r.Responses[0].GetResponseRange().GetKvs(), r.Responses[1].GetResponseRange().GetCount() > 0)
		return err
	})
	return n, err
}

// Agree implements ha.Cells.
func (b *Backend) Agree(ctx context.Context, n int) error {
	has := 0
	err := b.do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		r, err := c.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(b.own+"cells"), "=", 0), clientv3.Compare(clientv3.CreateRevision(b.term), "=", 0)).
			Then(create(b.own+"cells", n)...).
			Else(clientv3.OpGet(b.own + "cells")).
			Commit()
		switch {
		case err != nil:
			return err
		case r.Succeeded:
			has = n
			return nil
		}
		has, err = b.count(r.Responses[0].GetResponseRange().GetKvs(), true)
		return err
	})
	if err != nil || has == n {
		return err
	}
	return errs.WithHint(errs.New(errs.InvalidParams, "master.cells", "this master has %d and the cluster was begun with %d", n, has),
		"give all masters the same number; another number needs another cluster_id, or a cluster whose masters are all stopped and whose keys below %s are deleted, which begins empty", b.own)
}

// create writes the number of cells, where there are several.
func create(key string, n int) []clientv3.Op {
	if n <= 1 {
		return nil
	}
	return []clientv3.Op{clientv3.OpPut(key, strconv.Itoa(n))}
}

// count reads the number of cells. A pool that has begun without one has one cell.
func (b *Backend) count(kvs []*mvccpb.KeyValue, begun bool) (int, error) {
	kv := first(kvs)
	switch {
	case kv == nil && begun:
		return 1, nil
	case kv == nil:
		return 0, nil
	}
	n, err := strconv.Atoi(string(kv.Value))
	if err != nil || n < 1 || n > cells.Max {
		return 0, errs.New(errs.EtcdOperationError, b.conn.Name(), "key %scells is %.40q, which is no number of cells from 1 to %d", b.own, kv.Value, cells.Max)
	}
	return n, nil
}

// membersPause is how often a master renews its key and reads those of the others.
const membersPause = 250 * time.Millisecond

// Join implements ha.Cells.
func (b *Backend) Join(ctx context.Context, self func() ha.Member, changed func(masters []ha.Member)) {
	m := membership{Backend: b}
	for told := ""; ctx.Err() == nil; pause(ctx, membersPause) {
		kvs, err := m.renew(ctx, self())
		if err != nil {
			b.log.Debug("the masters of the cells cannot be read, trying on", "error", err)
			continue
		}
		text := fmt.Sprint(kvs)
		if text == told {
			continue
		}
		told = text
		var masters []ha.Member
		for _, kv := range kvs {
			one := ha.Member{Name: kv[0]}
			if err := json.Unmarshal([]byte(kv[1]), &one); err != nil {
				b.log.Debug("a master of the cells has a key that cannot be read", "master", kv[0], "error", err)
				continue
			}
			masters = append(masters, one)
		}
		changed(masters)
	}
	if m.lease != 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if err := b.release(ctx, m.lease); err != nil {
			b.log.Debug("a lease in etcd is not revoked, it ends by itself", "error", err)
		}
	}
}

// membership is the key of a master that runs.
type membership struct {
	*Backend
	lease clientv3.LeaseID // 0 for none
	value string
}

// renew renews the key of a master, or makes it anew, and returns those of all masters, each with its value, sorted.
func (m *membership) renew(ctx context.Context, self ha.Member) (kvs [][2]string, err error) {
	value, err := json.Marshal(self)
	if err != nil {
		return nil, err
	}
	prefix := m.own + "masters/"
	if m.lease != 0 {
		err := m.Backend.renew(ctx, m.lease)
		if errors.Is(err, leased.ErrEnded) {
			m.lease = 0
		} else if err != nil {
			return nil, err
		}
	}
	err = m.do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		if m.lease == 0 {
			grant, err := c.Grant(ctx, int64(max(m.opts.TTL, time.Second)/time.Second))
			if err != nil {
				return err
			}
			m.lease, m.value = grant.ID, ""
		}
		if m.value != string(value) {
			if _, err := c.Put(ctx, prefix+self.Name, string(value), clientv3.WithLease(m.lease)); err != nil {
				return err
			}
			m.value = string(value)
		}
		r, err := c.Get(ctx, prefix, clientv3.WithPrefix())
		if err != nil {
			return err
		}
		kvs = nil
		for _, kv := range r.Kvs {
			kvs = append(kvs, [2]string{strings.TrimPrefix(string(kv.Key), prefix), string(kv.Value)})
		}
		return nil
	})
	return kvs, err
}
