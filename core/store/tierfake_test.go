package store_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rpc/staging"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/transfer/region"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// tierNode is the node of a storage tier whose disk is memory. It serves Stage over gRPC.
type tierNode struct {
	member   *member
	endpoint string
	segment  model.SegmentID
	area     []byte // what it stages lies there
	bound    int    // bytes that it stages at the same time; it is too busy for more

	mu       sync.Mutex
	disk     map[uint64][]byte // by the ID of the replica
	staged   map[uint64]int    // bytes, by the ID of the staging, until Release
	release  time.Duration     // how long a call of Release takes
	at       int               // the next free byte of area
	inUse    int
	peak     int
	ids      uint64
	calls    [][]model.StageRead
	inFlight int
	most     int // calls in flight
	ttl      func(call int) time.Duration
	before   func(ctx context.Context) error
	read     func(r model.StageRead, bytes []byte) error // may change the bytes
}

func (p *pool) tierNode(name string, size int) *tierNode {
	p.t.Helper()
	n := &tierNode{
		member: p.member(name, memberOptions{}), segment: model.NewUUID(), area: make([]byte, size), bound: size,
		disk: map[uint64][]byte{}, staged: map[uint64]int{}, ttl: func(int) time.Duration { return time.Minute },
	}
	region, err := n.member.engine.Register(context.Background(), region.Memory{Bytes: n.area, FD: -1, Location: "cpu:0", Access: transport.AccessRemoteRead})
	require.NoError(p.t, err)
	require.NoError(p.t, n.member.engine.Publish(context.Background()))
	p.t.Cleanup(func() { require.NoError(p.t, n.member.engine.Deregister(context.Background(), region)) })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(p.t, err)
	n.endpoint = ln.Addr().String()
	srv := staging.NewServer(n, nil, nil)
	var serving sync.WaitGroup
	serving.Go(func() { assert.NoError(p.t, srv.Serve(ln)) })
	p.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		srv.Stop(ctx)
		serving.Wait()
	})
	return n
}

func (n *tierNode) Stage(ctx context.Context, reads []model.StageRead) (model.Staging, error) {
	n.mu.Lock()
	n.calls = append(n.calls, slices.Clone(reads))
	call := len(n.calls)
	n.inFlight++
	n.most = max(n.most, n.inFlight)
	before := n.before
	n.mu.Unlock()
	var err error
	if before != nil {
		err = before(ctx)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.inFlight--
	if err != nil {
		return model.Staging{}, err
	}
	n.ids++
	s := model.Staging{ID: n.ids, TTL: n.ttl(call)}
	n.staged[s.ID] = 0
	for _, r := range reads {
		p, err := n.load(r, s.ID)
		s.Parts = append(s.Parts, model.Result[model.Part]{Value: p, Err: err})
	}
	return s, nil
}

// load stages one read. The caller holds mu.
func (n *tierNode) load(r model.StageRead, id uint64) (model.Part, error) {
	value, ok := n.disk[r.Replica]
	switch {
	case !ok || r.Segment != n.segment || uint64(len(value)) != r.Size:
		return model.Part{}, errs.New(errs.ObjectNotFound, "test tier", "nothing is there")
	case n.inUse+int(r.Length) > n.bound:
		return model.Part{}, errBusy
	}
	if n.at+int(r.Length) > len(n.area) {
		n.at = 0
	}
	mem := n.area[n.at:][:r.Length]
	copy(mem, value[r.Offset:])
	if n.read != nil {
		if err := n.read(r, mem); err != nil {
			return model.Part{}, err
		}
	}
	n.at += int(r.Length)
	n.inUse += int(r.Length)
	n.peak = max(n.peak, n.inUse)
	n.staged[id] += int(r.Length)
	return model.Part{Endpoint: n.member.name, Address: uint64(uintptr(unsafe.Pointer(&mem[0]))), Size: r.Length}, nil
}

func (n *tierNode) Release(_ context.Context, id uint64) error {
	time.Sleep(n.release)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.inUse -= n.staged[id]
	delete(n.staged, id)
	return nil
}

// seen returns the calls so far.
func (n *tierNode) seen() [][]model.StageRead {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.calls)
}

// allFree waits until the readers have released everything.
func (n *tierNode) allFree(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return len(n.staged) == 0
	}, 30*time.Second, time.Millisecond)
}

// set changes how the node behaves.
func (n *tierNode) set(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

// tiered is a master that also knows replicas on tiers.
type tiered struct {
	store.Master
	mu     sync.Mutex
	onTier map[string][]model.Replica
	only   map[string]bool // without those in memory
	ids    uint64
	// noGrains: it does not know the checksums of ranges.
	noGrains bool
}

func (m *tiered) GetReplicas(ctx context.Context, c model.Caller, keys []model.Key, into *model.Answer[model.Object]) ([]model.Result[model.Object], error) {
	got, err := m.Master.GetReplicas(ctx, c, keys, into)
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range got {
		tiers := m.onTier[keys[i]]
		if got[i].Err != nil || len(tiers) == 0 {
			continue
		}
		memory := got[i].Value.Replicas
		if m.only[keys[i]] {
			memory = nil
		}
		got[i].Value.Replicas = slices.Concat(tiers, memory)
		if m.noGrains {
			got[i].Value.Grains = nil
		}
	}
	return got, err
}

// offload adds a replica of an object on the tier of a node, or one at an endpoint if n is nil.
func (m *tiered) offload(key string, value []byte, n *tierNode, endpoint string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ids++
	r := model.Replica{ID: 1<<40 + m.ids, Status: model.ReplicaComplete, Part: model.Part{Endpoint: endpoint, Protocol: model.ProtocolTier, Size: uint64(len(value))}}
	if n != nil {
		n.set(func() { n.disk[r.ID] = value })
		r.Endpoint, r.SegmentID = n.endpoint, n.segment
	}
	m.onTier[key] = append(m.onTier[key], r)
}

// evict takes the replicas in memory away.
func (m *tiered) evict(keys ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range keys {
		m.only[k] = true
	}
}

// tierPool is a pool with a node in memory and a client that reads tiers.
type tierPool struct {
	*pool
	tiered *tiered
	reader *member
}

func newTierPool(t *testing.T, size uint64, o memberOptions) *tierPool {
	p := newPool(t, nil)
	m := &tiered{Master: p.master, onTier: map[string][]model.Replica{}, only: map[string]bool{}}
	p.member("a:1", memberOptions{segments: []uint64{size}})
	tiers := staging.NewClient(staging.Options{})
	t.Cleanup(func() { require.NoError(t, tiers.Close()) })
	if o.master = m; o.tiers == nil {
		o.tiers = tiers
	}
	return &tierPool{pool: p, tiered: m, reader: p.member("r:1", o)}
}

// put puts an object, and returns its value.
func (p *tierPool) put(key string, size int) []byte {
	p.t.Helper()
	value := content(key, size)
	require.NoError(p.t, p.reader.Put(context.Background(), key, value, one))
	return value
}
