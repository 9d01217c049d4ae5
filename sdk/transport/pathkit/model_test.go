package pathkit_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/pathkit"
)

// testOp is an operation with something of its own.
type testOp struct {
	pathkit.Record
	mark uint64
}

// testPath is a path whose operations end when the test says so.
type testPath struct {
	mu sync.Mutex
	pathkit.Base[uint64, testOp, *testOp]
	expired []uint64 // IDs, in order
	keep    bool     // expire leaves the operations active
}

func newTestPath(l pathkit.Limits) *testPath {
	p := &testPath{}
	p.Init(&p.mu, "transport/test: path", l, p.expire)
	return p
}

func (p *testPath) expire(due iter.Seq[*testOp]) {
	for o := range due {
		p.expired = append(p.expired, o.ID)
		if !p.keep {
			p.Finish(o, p.ErrOverdue(o, nil), false)
		}
	}
}

// submit does what the Submit of a transport does.
func (p *testPath) submit(ops ...transport.Op) (int, error) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range ops {
		if _, err := p.Check(&ops[i]); err != nil {
			return i, err
		}
		if !p.Room(&ops[i]) {
			return i, nil
		}
		p.Accept(&ops[i], now).mark = ops[i].ID
	}
	return len(ops), nil
}

func (p *testPath) add(k string, length uint64) (transport.RemoteID, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.AddKey(transport.Key(k), 1, length, length)
}

// find returns an active operation.
func (p *testPath) find(id uint64) *testOp {
	for o := range p.Active() {
		if o.ID == id {
			return o
		}
	}
	return nil
}

// model is what a path must look like from outside.
type model struct {
	p      *testPath
	limits pathkit.Limits
	keys   []string
	ids    map[string]transport.RemoteID
	active map[uint64]transport.Op
	done   []transport.Completion // in the order in which they have to come
	next   uint64
	closed bool
	err    error
}

func (m *model) bytes() (n int64) {
	for _, op := range m.active {
		n += int64(len(op.Local))
	}
	return n
}

// length is that of the region behind a key.
func length(k string) uint64 { return uint64(len(k)) * 100 }

func (m *model) importKey(t *rapid.T) {
	k := rapid.StringMatching("[ab]{1,3}").Draw(t, "key")
	id, err := m.p.add(k, length(k))
	if m.closed {
		require.ErrorIs(t, err, transport.ErrPathClosed)
		return
	}
	require.NoError(t, err)
	if old, ok := m.ids[k]; ok {
		require.Equal(t, old, id)
		return
	}
	m.keys = append(m.keys, k)
	m.ids[k] = id
	require.EqualValues(t, len(m.keys), id)
}

// refused is why the model refuses an operation.
func (m *model) refused(op *transport.Op) bool {
	if m.closed || op.Kind != transport.Read && op.Kind != transport.Write || int(op.Rail) > m.limits.Rails {
		return true
	}
	if op.Remote == 0 || int(op.Remote) > len(m.keys) {
		return true
	}
	end := length(m.keys[op.Remote-1])
	return op.Offset > end || uint64(len(op.Local)) > end-op.Offset
}

func (m *model) accepts(op *transport.Op) bool {
	if len(m.active)+len(m.done) >= m.limits.Ops {
		return false
	}
	b := m.bytes()
	return m.limits.Bytes == 0 || b == 0 || b+int64(len(op.Local)) <= m.limits.Bytes
}

func (m *model) submit(t *rapid.T) {
	ops := make([]transport.Op, rapid.IntRange(0, 4).Draw(t, "ops"))
	for i := range ops {
		m.next++
		ops[i] = transport.Op{
			ID:     m.next,
			Kind:   transport.OpKind(rapid.SampledFrom([]int{1, 1, 1, 2, 2, 2, 0, 3}).Draw(t, "kind")),
			Local:  make([]byte, rapid.IntRange(0, 150).Draw(t, "size")),
			Remote: transport.RemoteID(rapid.IntRange(0, len(m.keys)+1).Draw(t, "remote")),
			Offset: rapid.SampledFrom([]uint64{0, 0, 0, 0, 50, 100, 200, 1 << 63, 1<<64 - 1}).Draw(t, "offset"),
			Rail:   transport.RailID(rapid.SampledFrom([]int{0, 0, 0, 1, m.limits.Rails, m.limits.Rails + 1}).Draw(t, "rail")),
		}
	}
	want, fails := len(ops), false
	for i := range ops {
		fails = m.refused(&ops[i])
		if fails || !m.accepts(&ops[i]) {
			want = i
			break
		}
		m.active[ops[i].ID] = ops[i]
	}
	n, err := m.p.submit(ops...)
	require.Equal(t, want, n)
	require.Equal(t, fails, err != nil, "error: %v", err)
	if fails && !m.closed {
		require.True(t, errs.Is(err, errs.InvalidParams))
		require.Equal(t, errs.ClassPermanent, errs.ClassOf(err))
	}
}

// end finishes some of the active operations in the order in which Active gives them.
func (m *model) end(t *rapid.T) {
	share := rapid.IntRange(0, 3).Draw(t, "share")
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	seen := map[uint64]bool{}
	for o := range m.p.Active() {
		seen[o.ID] = true
		if int(o.ID)%4 <= share {
			m.finish(t, o)
		}
	}
	for id := range m.active {
		require.True(t, seen[id], "operation %d was left out", id)
	}
}

func (m *model) finish(t *rapid.T, o *testOp) {
	op, ok := m.active[o.ID]
	require.True(t, ok, "operation %d is not active", o.ID)
	require.Equal(t, op.ID, o.mark)
	require.Equal(t, [...]any{op.Kind, len(op.Local), op.Remote, op.Offset, op.Rail}, [...]any{o.Kind, len(o.Local), o.Remote, o.Offset, o.Rail})
	c := transport.Completion{ID: o.ID, Status: transport.OK}
	doubt := rapid.Bool().Draw(t, "doubt")
	if rapid.Bool().Draw(t, "fails") {
		c.Err, c.Status = m.err, transport.Failed
		if doubt {
			c.Status = transport.Quarantined
		}
	}
	m.p.Finish(o, c.Err, doubt)
	require.Zero(t, *o)
	delete(m.active, c.ID)
	m.done = append(m.done, c)
}

// endOther finishes an operation while the loop is at another one.
func (m *model) endOther(t *rapid.T) {
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	seen := map[uint64]bool{}
	for o := range m.p.Active() {
		seen[o.ID] = true
		for other := range m.p.Active() {
			if other != o && len(m.active) > 1 && rapid.Bool().Draw(t, "other") {
				seen[other.ID] = true
				m.finish(t, other)
				break
			}
		}
		require.Contains(t, m.active, o.ID)
	}
	for id := range m.active {
		require.True(t, seen[id], "operation %d was left out", id)
	}
}

func (m *model) complete(t *rapid.T) {
	if m.closed || len(m.done)+len(m.active) >= m.limits.Ops {
		t.Skip()
	}
	m.next++
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	m.p.Complete(m.next, nil, true)
	m.done = append(m.done, transport.Completion{ID: m.next, Status: transport.OK})
}

func (m *model) reap(t *rapid.T) {
	dst := make([]transport.Completion, rapid.IntRange(0, 5).Draw(t, "dst"))
	want := m.done[:min(len(dst), len(m.done))]
	ctx, cancel := context.WithCancel(t.Context())
	if len(m.done) == 0 {
		cancel() // There is nothing to wait for.
	}
	defer cancel()
	var n int
	var err error
	if rapid.Bool().Draw(t, "take") {
		n, err = m.p.Take(dst)
	} else {
		n, err = m.p.Reap(ctx, dst)
		if len(dst) > 0 && len(m.done) == 0 && !m.over() {
			require.ErrorIs(t, err, context.Canceled)
			err = nil
		}
		if len(dst) == 0 {
			require.NoError(t, err)
			return
		}
	}
	require.Equal(t, append([]transport.Completion{}, want...), dst[:n:n])
	require.Equal(t, m.over(), errors.Is(err, transport.ErrPathClosed), "error: %v", err)
	m.done = m.done[n:]
}

func (m *model) over() bool { return m.closed && len(m.active)+len(m.done) == 0 }

func (m *model) shut(t *rapid.T) {
	if !rapid.Bool().Draw(t, "really") {
		return
	}
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	require.Equal(t, !m.closed, m.p.Shut())
	m.closed = true
}

func (m *model) check(t *rapid.T) {
	require.Equal(t, len(m.done), m.p.Pending())
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	require.Equal(t, m.closed, m.p.Closed())
	require.Equal(t, len(m.active), m.p.Len())
	require.Equal(t, m.bytes(), m.p.Bytes())
	i := 0
	for length := range m.p.Remotes() {
		got, ok := m.p.Remote(transport.RemoteID(i + 1))
		require.True(t, ok)
		require.Equal(t, length, got)
		require.EqualValues(t, len(m.keys[i])*100, got)
		i++
	}
	require.Equal(t, len(m.keys), i)
	for _, id := range []int{0, i + 1} {
		_, ok := m.p.Remote(transport.RemoteID(id))
		require.False(t, ok, id)
	}
}

// TestModel compares a path with a model of it over random histories.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := pathkit.Limits{
			Ops: rapid.IntRange(1, 12).Draw(t, "limit"), Bytes: rapid.SampledFrom([]int64{0, 1, 200, 400}).Draw(t, "bytes"),
			Timeout: time.Hour, Rails: rapid.IntRange(0, 2).Draw(t, "rails"),
		}
		m := &model{
			p: newTestPath(l), limits: l, ids: map[string]transport.RemoteID{}, active: map[uint64]transport.Op{},
			err: fmt.Errorf("a failure"),
		}
		t.Repeat(map[string]func(*rapid.T){
			"import": m.importKey, "submit": m.submit, "submit more": m.submit, "end": m.end, "end other": m.endOther,
			"complete": m.complete, "reap": m.reap, "reap more": m.reap, "shut": m.shut, "": m.check,
		})
		m.p.mu.Lock()
		m.p.Shut() // Stops the clock.
		m.p.mu.Unlock()
	})
}
