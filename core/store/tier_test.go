package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rpc/staging"
	"github.com/mooncake-go/mooncake/core/internal/testkit/heldport"
	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client"
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

var errBusy = errs.New(errs.UnavailableInCurrentStatus, "test tier", "busy")

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

// TestReadsFromTiers: what lies on a tier alone is read whole, in ranges and in sessions, and verified. Of a range, the node
// stages the grains that it touches, and it is told to free everything.
func TestReadsFromTiers(t *testing.T) {
	p := newTierPool(t, 64<<20, memberOptions{})
	n := p.tierNode("d:1", 64<<20)
	var keys []string
	var values, dst [][]byte
	for i, size := range []int{1, 5000, 64 << 10, 200_000, 20 << 20} {
		key := fmt.Sprint("k", i)
		values, keys = append(values, p.put(key, size)), append(keys, key)
		dst = append(dst, make([]byte, size))
		p.tiered.offload(key, values[i], n, "")
	}
	got, err := p.reader.Get(tctx, "k3")
	require.NoError(t, err)
	require.Equal(t, values[3], got)
	require.Empty(t, n.seen(), "there is a replica in memory")
	require.Zero(t, p.reader.StageCalls())

	p.tiered.evict(keys...)
	for i, r := range p.reader.BatchGetInto(tctx, keys, dst) {
		require.NoError(t, r.Err)
		require.Equal(t, values[i], dst[i])
	}
	n.allFree(t)
	calls := n.seen()
	require.Equal(t, uint64(len(calls)), p.reader.StageCalls())
	require.Equal(t, len(keys), p.reader.count(t, "mooncake_client_tier_reads_total"))
	require.Equal(t, 1+5000+64<<10+200_000+20<<20, p.reader.count(t, "mooncake_client_tier_read_bytes_total"))

	mem := make([]byte, 100)
	res := p.reader.GetIntoRanges(tctx, []store.Ranges{{Key: "k3", Fragments: []store.Fragment{{Offset: 40_000, Mem: mem[:50]}, {Offset: 100_000, Mem: mem[50:]}}}})
	require.NoError(t, res[0][0].Err)
	require.NoError(t, res[0][1].Err)
	require.Equal(t, values[3][40_000:40_050], mem[:50])
	require.Equal(t, values[3][100_000:100_050], mem[50:])
	reads := n.seen()[len(calls)]
	require.Len(t, reads, 2, "nothing between the ranges is staged")
	require.Equal(t, [2]uint64{2 * model.MinGrain, model.MinGrain}, [2]uint64{reads[0].Offset, reads[0].Length})
	require.Equal(t, [2]uint64{6 * model.MinGrain, model.MinGrain}, [2]uint64{reads[1].Offset, reads[1].Length})

	require.NoError(t, p.reader.StartGets(tctx, []string{"k3"})[0])
	for _, off := range []uint64{0, 199_900} {
		got := p.reader.GetRanges(tctx, []store.Ranges{{Key: "k3", Fragments: []store.Fragment{{Offset: off, Mem: mem}}}})
		require.NoError(t, got[0].Err)
		require.Equal(t, values[3][off:off+100], mem)
	}
	require.NoError(t, p.reader.EndGets(tctx, []string{"k3"}))
	n.allFree(t)
}

// TestManyObjectsFromTiers: a batch that is larger than what a node stages at the same time is read in waves.
func TestManyObjectsFromTiers(t *testing.T) {
	const count, size = 300, 256 << 10
	p := newTierPool(t, 160<<20, memberOptions{})
	n := p.tierNode("d:1", 64<<20)
	n.release = 20 * time.Millisecond // The next wave has to wait for it.
	var first uint64
	n.read = func(r model.StageRead, b []byte) error { // One of the first wave has wrong bytes once.
		if first == 0 {
			first = r.Replica
			clear(b)
		}
		return nil
	}
	keys, values, dst := make([]string, count), make([][]byte, count), make([][]byte, count)
	for i := range keys {
		keys[i], dst[i] = fmt.Sprint("k", i), make([]byte, size)
		values[i] = p.put(keys[i], size)
		p.tiered.offload(keys[i], values[i], n, "")
		if i%10 > 0 { // The others are in memory, too.
			p.tiered.evict(keys[i])
		}
	}
	for i, r := range p.reader.BatchGetInto(tctx, keys, dst) {
		require.NoError(t, r.Err)
		require.Equal(t, values[i], dst[i])
	}
	n.allFree(t)
	reads := 0
	for _, c := range n.seen() {
		reads += len(c)
		require.LessOrEqual(t, len(c)*size, 16<<20)
	}
	require.Equal(t, count*9/10+1, reads)
	require.Equal(t, 1, p.reader.count(t, "mooncake_client_checksum_mismatches_total"))
	require.LessOrEqual(t, n.most, 4)
	require.LessOrEqual(t, n.peak, 64<<20)
	require.Zero(t, p.reader.count(t, "mooncake_client_tier_read_failures_total"))

	var small []string
	for i := range 600 {
		key := fmt.Sprint("small", i)
		p.tiered.offload(key, p.put(key, 100), n, "")
		small = append(small, key)
	}
	p.tiered.evict(small...)
	before := len(n.seen())
	for i, r := range p.reader.BatchGet(tctx, small) {
		require.NoError(t, r.Err)
		require.Equal(t, content(small[i], 100), r.Value)
	}
	for _, c := range n.seen()[before:] {
		require.LessOrEqual(t, len(c), 256)
	}
}

// TestTiersThatCannotBeRead: a replica that its node cannot stage is left for the next one. Without another one the read fails,
// with the reason, and the object stays.
func TestTiersThatCannotBeRead(t *testing.T) {
	dead := heldport.Address(t)
	for name, c := range map[string]struct {
		spoil    func(n *tierNode)
		endpoint string
		want     errs.Code
	}{
		"a busy node":   {spoil: func(n *tierNode) { n.bound = 10 }, want: errs.UnavailableInCurrentStatus},
		"a busy call":   {spoil: func(n *tierNode) { n.before = func(context.Context) error { return errBusy } }, want: errs.UnavailableInCurrentStatus},
		"a lost record": {spoil: func(n *tierNode) { clear(n.disk) }, want: errs.ObjectNotFound},
		"a damaged record": {spoil: func(n *tierNode) {
			n.read = func(model.StageRead, []byte) error { return errs.New(errs.ChecksumMismatch, "test tier", "damaged") }
		}, want: errs.ChecksumMismatch},
		"a dead node":         {spoil: func(*tierNode) {}, endpoint: dead, want: errs.RPCFail},
		"a panic of the node": {spoil: func(n *tierNode) { n.before = func(context.Context) error { panic("a bug") } }, want: errs.Internal},
		"bytes that are late": {spoil: func(n *tierNode) { n.ttl = func(int) time.Duration { return 0 } }, want: errs.LeaseExpired},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTierPool(t, 16<<20, memberOptions{})
			bad, good := p.tierNode("d:1", 1<<20), p.tierNode("d:2", 1<<20)
			value := p.put("k", 5000)
			if c.endpoint == "" {
				p.tiered.offload("k", value, bad, "")
			} else {
				p.tiered.offload("k", value, nil, c.endpoint)
			}
			bad.set(func() { c.spoil(bad) })
			p.tiered.evict("k")
			dst := make([]byte, 5000)
			_, err := p.reader.GetInto(tctx, "k", dst)
			require.Equal(t, errs.TransferFail, errs.CodeOf(err))
			require.True(t, store.IsMiss(err))
			require.True(t, errors.Is(err, c.want.Err()), "%v", err)
			require.Positive(t, p.reader.count(t, "mooncake_client_tier_read_failures_total"))
			p.tiered.offload("k", value, good, "")
			for range 8 { // The order is random.
				_, err = p.reader.GetInto(tctx, "k", dst)
				require.NoError(t, err)
				require.Equal(t, value, dst)
				clear(dst)
			}
			bad.set(func() { bad.before = nil })
			bad.allFree(t)
			good.allFree(t)
			require.Zero(t, p.reader.count(t, "mooncake_client_damaged_objects_removed_total"))
		})
	}
}

// TestStagedBytesThatWereLateOnce: bytes that arrived after the node may have freed them are thrown away, and staged again.
func TestStagedBytesThatWereLateOnce(t *testing.T) {
	p := newTierPool(t, 16<<20, memberOptions{})
	n := p.tierNode("d:1", 1<<20)
	n.ttl = func(call int) time.Duration { return time.Duration(call-1) * time.Minute }
	n.read = func(_ model.StageRead, b []byte) error {
		if len(n.calls) == 1 {
			clear(b) // as if they had been freed
		}
		return nil
	}
	value := p.put("k", 5000)
	p.tiered.offload("k", value, n, "")
	p.tiered.evict("k")
	got, err := p.reader.Get(tctx, "k")
	require.NoError(t, err)
	require.Equal(t, value, got)
	require.Len(t, n.seen(), 2)
	require.Zero(t, p.reader.count(t, "mooncake_client_checksum_mismatches_total"))
	n.allFree(t)
}

// TestWrongBytesOfTiers: wrong bytes are never returned. An object with a replica in memory that cannot be reached now stays.
// One whose only replica is damaged is removed, so that it can be put again.
func TestWrongBytesOfTiers(t *testing.T) {
	p := newTierPool(t, 16<<20, memberOptions{})
	n := p.tierNode("d:1", 4<<20)
	n.read = func(r model.StageRead, b []byte) error {
		if at := r.Size / 2; r.Offset <= at && at < r.Offset+r.Length {
			b[at-r.Offset] ^= 1
		}
		return nil
	}
	var cut atomic.Bool
	p.reader.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
		if cut.Load() && e.To == "a:1" {
			return memtransport.Fault{Err: errs.WithClass(errs.ClassTransientPeer, "test", errCut)}
		}
		return memtransport.Fault{}
	})
	for i, size := range []int{5000, 200_000} {
		key := fmt.Sprint("k", size)
		value := p.put(key, size)
		p.tiered.offload(key, value, n, "")
		calls := len(n.seen())
		cut.Store(true)
		_, err := p.reader.Get(tctx, key)
		require.Equal(t, errs.ChecksumMismatch, errs.CodeOf(err))
		require.Len(t, n.seen(), calls+2, "the replica is read a second time")
		cut.Store(false)
		require.Eventually(t, func() bool { // The engine leaves the node in peace for a moment.
			got, err := p.reader.Get(tctx, key)
			return err == nil && string(got) == string(value)
		}, 30*time.Second, 10*time.Millisecond)

		p.tiered.evict(key)
		mem := make([]byte, 100)
		part := func(off int) error {
			return p.reader.GetIntoRanges(tctx, []store.Ranges{{Key: key, Fragments: []store.Fragment{{Offset: uint64(off), Mem: mem}}}})[0][0].Err
		}
		if i == 1 {
			require.NoError(t, part(100), "that grain is good")
		}
		require.Equal(t, errs.ChecksumMismatch, errs.CodeOf(part(size/2-10)))
		require.Equal(t, i+1, p.reader.count(t, "mooncake_client_damaged_objects_removed_total"))
		require.Equal(t, errs.ObjectNotFound, errs.CodeOf(part(100)))
	}
	n.allFree(t)
}

// TestClientsWithoutTiers: a client that cannot read tiers says so, and reads what else there is.
func TestClientsWithoutTiers(t *testing.T) {
	p := newTierPool(t, 16<<20, memberOptions{})
	n := p.tierNode("d:1", 1<<20)
	value := p.put("k", 5000)
	p.tiered.offload("k", value, n, "")
	plain := p.member("p:1", memberOptions{master: p.tiered})
	got, err := plain.Get(tctx, "k")
	require.NoError(t, err)
	require.Equal(t, value, got)
	p.tiered.evict("k")
	_, err = plain.Get(tctx, "k")
	require.Equal(t, errs.NotSupported, errs.CodeOf(err))
	require.ErrorContains(t, err, "cannot read storage tiers")
	require.Empty(t, n.seen())
}

// TestReadTimeoutBoundsStage: a node that does not answer costs a read its timeout and no more, and gets to know it.
func TestReadTimeoutBoundsStage(t *testing.T) {
	p := newTierPool(t, 16<<20, memberOptions{client: func(c *client.Config) { c.TransferTimeout = 300 * time.Millisecond }})
	n := p.tierNode("d:1", 1<<20)
	n.before = func(ctx context.Context) error {
		limit, ok := ctx.Deadline()
		assert.True(t, ok)
		assert.LessOrEqual(t, time.Until(limit), 300*time.Millisecond)
		<-ctx.Done()
		return ctx.Err()
	}
	p.tiered.offload("k", p.put("k", 5000), n, "")
	p.tiered.evict("k")
	_, err := p.reader.Get(tctx, "k")
	require.ErrorIs(t, err, errs.RPCTimeout.Err())

	ctx, cancel := context.WithCancel(tctx)
	n.set(func() { n.before = func(ctx context.Context) error { cancel(); <-ctx.Done(); return ctx.Err() } })
	_, err = p.reader.Get(ctx, "k")
	require.Equal(t, errs.TransferFail, errs.CodeOf(err))
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, p.reader.count(t, "mooncake_client_tier_read_failures_total"), "the caller ended the second one")
}

// TestHotCacheHoldsObjectsOfTiers: an object on a tier that is read often is read from memory then.
func TestHotCacheHoldsObjectsOfTiers(t *testing.T) {
	p := newTierPool(t, 16<<20, memberOptions{client: hot})
	n := p.tierNode("d:1", 1<<20)
	value := p.put("k", 5000)
	p.tiered.offload("k", value, n, "")
	p.tiered.evict("k")
	require.Eventually(t, func() bool {
		before := len(n.seen())
		got, err := p.reader.Get(tctx, "k")
		return err == nil && string(got) == string(value) && len(n.seen()) == before && p.reader.count(t, "mooncake_client_hot_cache_hits_total") > 0
	}, 30*time.Second, time.Millisecond)
}

// TestTiersAreForWhatMemoryCannotServe: a read whose node in memory fails goes on with the tier.
func TestTiersAreForWhatMemoryCannotServe(t *testing.T) {
	p := newTierPool(t, 16<<20, memberOptions{})
	n := p.tierNode("d:1", 4<<20)
	value := p.put("k", 200_000)
	p.tiered.offload("k", value, n, "")
	p.reader.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
		if e.To == "a:1" {
			return memtransport.Fault{Err: errs.WithClass(errs.ClassTransientPeer, "test", errCut)}
		}
		return memtransport.Fault{}
	})
	got, err := p.reader.Get(tctx, "k")
	require.NoError(t, err)
	require.Equal(t, value, got)
	require.Len(t, n.seen(), 1)
	require.Equal(t, 1, p.reader.count(t, "mooncake_client_replica_failovers_total"))
	n.allFree(t)
}

// TestNextWaveIsStagedDuringTheTransfer: the first transfer, of what is in memory, goes on only once the node is asked to stage
// the first wave, and that of the first wave once it is asked for the second one.
func TestNextWaveIsStagedDuringTheTransfer(t *testing.T) {
	p := newTierPool(t, 64<<20, memberOptions{})
	n := p.tierNode("d:1", 64<<20)
	keys := make([]string, 11)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
		value := p.put(keys[i], 4<<20)
		if i > 0 {
			p.tiered.offload(keys[i], value, n, "")
			p.tiered.evict(keys[i])
		}
	}
	p.reader.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
		want := map[string]int{"a:1": 1, "d:1": 9}[e.To] // reads; 8 are a wave
		assert.Eventually(t, func() bool {
			reads := 0
			for _, c := range n.seen() {
				reads += len(c)
			}
			return reads >= want
		}, 30*time.Second, time.Millisecond)
		return memtransport.Fault{}
	})
	for i, r := range p.reader.BatchGet(tctx, keys) {
		require.NoError(t, r.Err)
		require.Equal(t, content(keys[i], 4<<20), r.Value)
	}
	n.allFree(t)
}

// TestLargeObjectsFromTiers: an object of any size is read through a staging memory that has one step of it, whole and in
// ranges, also where the checksums of its ranges are not known.
func TestLargeObjectsFromTiers(t *testing.T) {
	const size, step = 70<<20 + 5, 16 << 20
	for _, bound := range []int{step, 2 * step, 200 << 20} {
		t.Run(fmt.Sprint(bound), func(t *testing.T) {
			p := newTierPool(t, 160<<20, memberOptions{})
			n := p.tierNode("d:1", 128<<20)
			n.bound = bound
			p.reader.wire.SetSums(bound > step) // else the client computes the checksum
			value := p.put("k", size)
			p.tiered.offload("k", value, n, "")
			p.tiered.evict("k")
			dst := make([]byte, size)
			_, err := p.reader.GetInto(tctx, "k", dst)
			require.NoError(t, err)
			require.True(t, bytes.Equal(value, dst))
			require.LessOrEqual(t, n.peak, min(bound, 64<<20))
			for _, c := range n.seen() {
				for _, r := range c {
					require.LessOrEqual(t, r.Length, uint64(step))
				}
			}
			if bound > 64<<20 {
				require.Len(t, n.seen(), 5, "each step once")
			}
			require.Equal(t, 1, p.reader.count(t, "mooncake_client_tier_reads_total"))

			p.tiered.noGrains = bound == step
			a, b, c := make([]byte, 100), make([]byte, 20<<20), make([]byte, 1)
			before := len(n.seen())
			for i, r := range p.reader.GetIntoRanges(tctx, []store.Ranges{{Key: "k", Fragments: []store.Fragment{{Offset: 50, Mem: a}, {Offset: 30<<20 + 1, Mem: b}, {Offset: size - 1, Mem: c}}}})[0] {
				require.NoError(t, r.Err, i)
			}
			require.True(t, bytes.Equal(value[50:150], a) && bytes.Equal(value[30<<20+1:][:20<<20], b) && value[size-1] == c[0])
			staged := uint64(0)
			for _, c := range n.seen()[before:] {
				for _, r := range c {
					staged += r.Length
				}
			}
			if grain := model.GrainSize(size); !p.tiered.noGrains && bound > 64<<20 {
				require.LessOrEqual(t, staged, 20<<20+5*grain)
			} else {
				require.GreaterOrEqual(t, staged, uint64(20<<20))
			}
			n.allFree(t)
			require.Zero(t, p.reader.count(t, "mooncake_client_tier_read_failures_total"))
		})
	}
}

// TestLargeObjectsFromTiersGoWrong: a step with wrong bytes is never part of what a read returns; one that was late, or that
// failed, is read again or from another replica.
func TestLargeObjectsFromTiersGoWrong(t *testing.T) {
	const size, step = 70 << 20, 16 << 20
	for name, c := range map[string]struct {
		spoil func(n *tierNode)
		calls int
		want  errs.Code
	}{
		"damaged once": {calls: 10, spoil: func(n *tierNode) {
			once := true
			n.read = func(r model.StageRead, b []byte) error {
				if r.Offset == 2*step && once {
					once = false
					b[7] ^= 1
				}
				return nil
			}
		}},
		"damaged": {want: errs.ChecksumMismatch, spoil: func(n *tierNode) {
			n.read = func(r model.StageRead, b []byte) error {
				if r.Offset == 2*step {
					b[7] ^= 1
				}
				return nil
			}
		}},
		"late once": {calls: 7, spoil: func(n *tierNode) {
			n.ttl = func(call int) time.Duration { return time.Duration(call-1) * time.Minute }
		}},
		"late": {want: errs.LeaseExpired, spoil: func(n *tierNode) {
			n.ttl = func(call int) time.Duration { return time.Duration(max(0, 3-call)) * time.Minute }
		}},
		"lost": {want: errs.ObjectNotFound, spoil: func(n *tierNode) {
			n.read = func(r model.StageRead, _ []byte) error {
				if r.Offset == 3*step {
					return errs.New(errs.ObjectNotFound, "test tier", "it went")
				}
				return nil
			}
		}},
		"busy for others": {want: errs.UnavailableInCurrentStatus, spoil: func(n *tierNode) {
			n.read = func(r model.StageRead, _ []byte) error {
				if r.Offset == 3*step {
					return errBusy
				}
				return nil
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTierPool(t, 160<<20, memberOptions{})
			bad, good := p.tierNode("d:1", 128<<20), p.tierNode("d:2", 128<<20)
			value := p.put("k", size)
			p.tiered.offload("k", value, bad, "")
			bad.set(func() { c.spoil(bad) })
			p.tiered.evict("k")
			dst := make([]byte, size)
			if c.want != 0 {
				p.tiered.offload("k", value, good, "")
				require.Eventually(t, func() bool { // The order is random.
					clear(dst)
					_, err := p.reader.GetInto(tctx, "k", dst)
					require.NoError(t, err)
					require.True(t, bytes.Equal(value, dst))
					return len(bad.seen()) > 0
				}, 30*time.Second, time.Millisecond)
				p.tiered.mu.Lock()
				p.tiered.onTier["k"] = p.tiered.onTier["k"][:1]
				p.tiered.mu.Unlock()
				_, err := p.reader.GetInto(tctx, "k", dst)
				require.ErrorIs(t, err, c.want.Err())
				good.allFree(t)
			} else {
				_, err := p.reader.GetInto(tctx, "k", dst)
				require.NoError(t, err)
				require.True(t, bytes.Equal(value, dst))
				require.Len(t, bad.seen(), c.calls)
			}
			bad.allFree(t)
		})
	}
}

// TestNextStepIsStagedDuringTheTransfer: the steps of one object follow each other as the objects of a batch do.
func TestNextStepIsStagedDuringTheTransfer(t *testing.T) {
	p := newTierPool(t, 160<<20, memberOptions{})
	n := p.tierNode("d:1", 128<<20)
	value := p.put("k", 64<<20)
	p.tiered.offload("k", value, n, "")
	p.tiered.evict("k")
	p.reader.wire.SetHook(func(memtransport.Event) memtransport.Fault {
		assert.Eventually(t, func() bool { return len(n.seen()) == 4 }, 30*time.Second, time.Millisecond)
		return memtransport.Fault{}
	})
	got, err := p.reader.Get(tctx, "k")
	require.NoError(t, err)
	require.True(t, bytes.Equal(value, got))
	n.allFree(t)
}
