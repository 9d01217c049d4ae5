package store_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/node"
	lru "github.com/mooncake-go/mooncake/plugins/evict-lru"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest/reference"
)

// disk is a storage tier that outlives its nodes.
type disk struct {
	backing *reference.Backing
	folder  string
	client  model.ClientID // as which the last node used it
	stop    func()         // ends the tier of the last node
	cluster string         // of the nodes
	wrap    func(tier.Tier) tier.Tier
}

func newDisk(t testing.TB, capacity uint64) *disk {
	return &disk{backing: reference.NewBacking(capacity), folder: t.TempDir(), stop: func() {}, cluster: "pool"}
}

// tiered makes a member's node one with a tier.
func (p *pool) tiered(d *disk, change func(*node.Tiers)) func(*node.Config) {
	p.t.Helper()
	ctx := context.Background()
	d.stop()
	f := reference.Surviving()
	c := f.DefaultConfig().(*reference.Config)
	c.Backing = d.backing
	t, err := f.New(c)
	require.NoError(p.t, err)
	if d.wrap != nil {
		t = d.wrap(t)
	}
	require.NoError(p.t, t.Start(ctx, host{}))
	d.stop = sync.OnceFunc(func() { _ = t.Stop(ctx) })
	p.t.Cleanup(d.stop)
	e, err := lru.Factory().New(lru.Factory().DefaultConfig())
	require.NoError(p.t, err)
	require.NoError(p.t, e.Start(ctx, host{}))
	p.t.Cleanup(func() { _ = e.Stop(ctx) })
	tiers := node.DefaultTiers()
	tiers.Staging, tiers.Endpoint = 32<<20, "tier.test:1"
	one := &node.Tier{Tier: t, Name: "disk", Policy: e}
	require.NoError(p.t, node.OpenTier(ctx, one, d.folder, d.cluster, p.logger()))
	tiers.Each, d.client = []*node.Tier{one}, one.Client()
	if change != nil {
		change(&tiers)
	}
	return func(c *node.Config) { c.Tiers = &tiers }
}

// saved waits until n objects have been saved.
func (m *member) saved(t testing.TB, n int) {
	require.Eventually(t, func() bool { return m.count(t, "mooncake_node_tier_saved_total") >= n }, 20*time.Second, time.Millisecond)
}

// stage has the node of an object's tier stage it.
func (m *member) stage(ctx context.Context, t testing.TB, o *model.Object) (model.Staging, error) {
	t.Helper()
	i := slices.IndexFunc(o.Replicas, func(r model.Replica) bool { return r.OnTier() })
	require.GreaterOrEqual(t, i, 0, "it is on no tier: %+v", o.Replicas)
	r := &o.Replicas[i]
	got, err := m.node.Stage(ctx, []model.StageRead{{Segment: r.SegmentID, Replica: r.ID, Size: o.Size, Length: o.Size}})
	require.NoError(t, err)
	return got, got.Parts[0].Err
}

// read reads an object from its tier.
func (m *member) read(t testing.TB, o *model.Object) ([]byte, error) {
	t.Helper()
	got, err := m.stage(context.Background(), t, o)
	if err != nil {
		return nil, err
	}
	p := got.Parts[0].Value
	out := bytes.Clone(unsafe.Slice(*(**byte)(unsafe.Pointer(&p.Address)), int(p.Size)))
	require.NoError(t, m.node.Release(context.Background(), got.ID))
	return out, nil
}

// staged reads an object from the tier that has it.
func (m *member) staged(t testing.TB, k string) []byte {
	t.Helper()
	o, err := m.query(k)
	require.NoError(t, err)
	got, err := m.read(t, &o)
	require.NoError(t, err)
	return got
}

func (m *member) query(k string) (model.Object, error) {
	r := m.Query(context.Background(), []model.Key{k})[0]
	return r.Value, r.Err
}

// TestTierKeepsWhatMemoryCannot: more objects than memory holds are all there, on the tier, and the node reads them.
func TestTierKeepsWhatMemoryCannot(t *testing.T) {
	ctx := context.Background()
	p := newPool(t, func(c *master.Config) { c.Tiers, c.LeaseTTL = tierPolicy(0), time.Millisecond })
	m := p.member("a", memberOptions{segments: []uint64{8 << 20}, node: p.tiered(newDisk(t, 256<<20), nil)})
	const n = 32
	for i := range n {
		k := fmt.Sprint("key", i)
		require.NoError(t, m.Put(ctx, k, content(k, 1<<20), model.DefaultReplicateConfig()))
		m.saved(t, i+1)
	}
	onlyThere := 0
	for i := range n {
		k := fmt.Sprint("key", i)
		ok, err := m.Exist(ctx, k)
		require.NoError(t, err)
		require.True(t, ok, k)
		require.True(t, bytes.Equal(content(k, 1<<20), m.staged(t, k)), k)
		o, err := m.query(k)
		require.NoError(t, err)
		if len(o.Replicas) == 1 {
			onlyThere++
		}
	}
	require.Greater(t, onlyThere, n/2)
	require.NoError(t, m.Remove(ctx, "key0", true))
	ok, err := m.Exist(ctx, "key0")
	require.NoError(t, err)
	require.False(t, ok)
}

// TestWhyOfTiers: the master tells which tier has an object, whether memory has it too, and that an object is not saved
// although its node has a tier. Its figures count memory and tiers apart.
func TestWhyOfTiers(t *testing.T) {
	ctx := context.Background()
	p := newPool(t, func(c *master.Config) { c.Tiers, c.LeaseTTL = tierPolicy(0), time.Millisecond })
	d := newDisk(t, 256<<20)
	m := p.member("a", memberOptions{segments: []uint64{8 << 20}, node: p.tiered(d, func(x *node.Tiers) { x.Staging = 3 << 20 })})
	why := func(k string) string {
		story, err := p.master.current().Why(ctx, model.Caller{}, k)
		require.NoError(t, err)
		return story.Reason
	}
	put := func(k string, size int) {
		require.NoError(t, m.Put(ctx, k, content(k, size), model.DefaultReplicateConfig()))
	}
	put("large", 4<<20) // The staging memory is too small for it.
	require.Contains(t, why("large"), "; no storage tier of its node a takes an object of this size")
	put("saved", 1<<20)
	m.saved(t, 1)
	require.Contains(t, why("saved"), "; what is evicted is its copy in memory, since a storage tier has it as well (tier0 of node a)")
	require.Eventually(t, func() bool {
		text := p.master.current().(*master.Service).Summary()
		return strings.Contains(text, "Mem Storage: 5.00 MB / 8.00 MB") && strings.Contains(text, "SSD Storage: 1.00 MB / 256.00 MB")
	}, time.Minute, time.Millisecond, "memory and tiers apart")
	for i := range 16 {
		put(fmt.Sprint("more", i), 1<<20)
		m.saved(t, i+2)
	}
	require.Contains(t, why("saved"), "; it lies on a storage tier only (tier0 of node a)")

	bare := p.member("b", memberOptions{segments: []uint64{8 << 20}})
	c := model.DefaultReplicateConfig()
	c.PreferredSegments = []string{"b"}
	require.NoError(t, bare.Put(ctx, "bare", content("bare", 1<<20), c))
	require.NotContains(t, why("bare"), "tier", "its node has none")
}

// fill puts n objects of 1 MiB and waits until they are saved.
func (m *member) fill(t testing.TB, n int) {
	for i := range n {
		k := fmt.Sprint("key", i)
		require.NoError(t, m.Put(context.Background(), k, content(k, 1<<20), model.DefaultReplicateConfig()))
		m.saved(t, i+1)
	}
}

// there counts the objects of fill that are on the tier with the right bytes, once at least want are.
func (m *member) there(t testing.TB, n, want int) {
	t.Helper()
	keys := make([]model.Key, n)
	for i := range keys {
		keys[i] = fmt.Sprint("key", i)
	}
	var found int
	require.Eventually(t, func() bool {
		found = 0
		for _, r := range m.BatchExist(context.Background(), keys) {
			if r.Err == nil && r.Value {
				found++
			}
		}
		return found >= want
	}, 20*time.Second, 10*time.Millisecond, "%d are to be there", want)
	require.Equal(t, want, found)
	for _, k := range keys {
		if ok, _ := m.Exist(context.Background(), k); ok {
			require.True(t, bytes.Equal(content(k, 1<<20), m.staged(t, k)), k)
		}
	}
}

// TestTierOutlives: what was saved is there again after the node, the master or both have been replaced, whether the new
// process is the same client or another one, and also where the ledger of the tier was lost. What was removed meanwhile
// does not return.
func TestTierOutlives(t *testing.T) {
	ctx := context.Background()
	const n = 12
	for name, c := range map[string]struct{ node, master, sameClient, noLedger bool }{
		"node":                     {node: true, sameClient: true},
		"node as another client":   {node: true},
		"master":                   {master: true},
		"both":                     {node: true, master: true, sameClient: true},
		"both, as another client":  {node: true, master: true},
		"node without its ledger":  {node: true, noLedger: true},
		"both, without the ledger": {node: true, master: true, noLedger: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, func(c *master.Config) {
				c.Tiers, c.LeaseTTL, c.ClientTTL = tierPolicy(0), time.Millisecond, 10*time.Second
			})
			d := newDisk(t, 256<<20)
			m := p.member("a", memberOptions{segments: []uint64{8 << 20}, node: p.tiered(d, nil)})
			other := p.member("b", memberOptions{})
			m.fill(t, n)
			require.NoError(t, m.Remove(ctx, "key0", true))
			if c.node {
				m.stop()
				if !c.master { // It fails because the node does not confirm it, and happens all the same.
					require.Error(t, other.Remove(ctx, "key1", true))
				}
			}
			if c.master {
				p.kill()
				p.boot()
			}
			if c.node {
				if c.noLedger {
					files, err := filepath.Glob(filepath.Join(d.folder, "ledger-*"))
					require.NoError(t, err)
					require.Len(t, files, 1)
					require.NoError(t, os.Remove(files[0]))
				}
				tiers := p.tiered(d, nil)
				o := memberOptions{segments: []uint64{8 << 20}, node: tiers}
				if c.sameClient {
					require.Equal(t, m.deps.ID, d.client)
					o.id = d.client
				}
				m = p.member("a", o)
			}
			want := n - 1
			if c.node && !c.master {
				want--
			}
			m.there(t, n, want)
			ok, err := m.Exist(ctx, "key0")
			require.NoError(t, err)
			require.False(t, ok, "a removed object has returned")
		})
	}
}

func tierPolicy(promoteAt uint32) *model.TierPolicy {
	return &model.TierPolicy{PromoteAt: promoteAt, QueueLimit: 1000}
}

// TestTierPromotes: the read that reaches the threshold brings an object back into memory, and no read before.
func TestTierPromotes(t *testing.T) {
	ctx := context.Background()
	p := newPool(t, func(c *master.Config) { c.Tiers, c.LeaseTTL = tierPolicy(2), time.Second })
	m := p.member("a", memberOptions{segments: []uint64{8 << 20}, node: p.tiered(newDisk(t, 256<<20), nil)})
	m.fill(t, 16)
	for _, k := range []string{"key8", "key9", "key10", "key11", "key12", "key13", "key14", "key15"} {
		require.NoError(t, m.Remove(ctx, k, true)) // Memory has space again.
	}
	copies := func() int {
		o, err := m.query("key0")
		require.NoError(t, err)
		return len(o.Replicas)
	}
	require.Equal(t, 1, copies())
	require.True(t, bytes.Equal(content("key0", 1<<20), m.staged(t, "key0")))
	require.Equal(t, 1, copies())
	require.True(t, bytes.Equal(content("key0", 1<<20), m.staged(t, "key0")))
	require.Eventually(t, func() bool { return copies() == 2 }, 20*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { return m.count(t, "mooncake_node_tier_promoted_total") == 1 }, 20*time.Second, time.Millisecond)
	got, err := m.Get(ctx, "key0")
	require.NoError(t, err)
	require.True(t, bytes.Equal(content("key0", 1<<20), got), "the copy in memory")
}

// TestTierSavesOnEvict: a node saves the objects that eviction chooses, which go from memory then, and no others.
func TestTierSavesOnEvict(t *testing.T) {
	ctx := context.Background()
	p := newPool(t, func(c *master.Config) {
		c.Tiers, c.LeaseTTL = &model.TierPolicy{QueueLimit: 1000, OnEvict: true}, time.Millisecond
	})
	m := p.member("a", memberOptions{segments: []uint64{16 << 20}, node: p.tiered(newDisk(t, 256<<20), nil)})
	for i := range 15 { // One more than the watermark allows. An eviction takes two.
		k := fmt.Sprint("key", i)
		require.NoError(t, m.Put(ctx, k, content(k, 1<<20), model.DefaultReplicateConfig()))
	}
	where := func(k string) (memory, tiers int) {
		o, err := m.query(k)
		require.NoError(t, err)
		for i := range o.Replicas {
			if o.Replicas[i].OnTier() {
				tiers++
			} else {
				memory++
			}
		}
		return memory, tiers
	}
	require.Eventually(t, func() bool { // A read would spare the object.
		all, err := p.master.Segments(ctx)
		require.NoError(t, err)
		i := slices.IndexFunc(all, func(s model.SegmentInfo) bool { return !s.OnTier() })
		return all[i].Used <= 14<<20 && m.count(t, "mooncake_node_tier_saved_total") == 2
	}, 20*time.Second, time.Millisecond)
	memory, tiers := where("key0")
	require.Equal(t, []int{0, 1}, []int{memory, tiers})
	require.True(t, bytes.Equal(content("key0", 1<<20), m.staged(t, "key0")))
	story, err := p.master.current().Why(ctx, model.Caller{}, "key14")
	require.NoError(t, err)
	require.Contains(t, story.Reason, "; its node a saves it on a storage tier when eviction chooses it")
	for i := 2; i < 15; i++ {
		memory, tiers := where(fmt.Sprint("key", i))
		require.Equal(t, []int{1, 0}, []int{memory, tiers}, i)
	}
}

// TestTierIsEvicted: a tier never fails a put and keeps what fits.
func TestTierIsEvicted(t *testing.T) {
	p := newPool(t, func(c *master.Config) { c.Tiers, c.LeaseTTL = tierPolicy(0), time.Millisecond })
	m := p.member("a", memberOptions{segments: []uint64{8 << 20}, node: p.tiered(newDisk(t, 16<<20), nil)})
	m.fill(t, 40)
	require.Positive(t, m.count(t, "mooncake_node_tier_evicted_bytes_total"))
	there := 0
	for i := range 40 {
		k := fmt.Sprint("key", i)
		if o, err := m.query(k); err == nil && o.Replicas[0].OnTier() {
			got, err := m.read(t, &o)
			if errs.Is(err, errs.ObjectNotFound) {
				continue // It was evicted meanwhile.
			}
			require.NoError(t, err)
			there++
			require.True(t, bytes.Equal(content(k, 1<<20), got), k)
		}
	}
	require.Positive(t, there)
	_, err := m.query("key39")
	require.NoError(t, err, "the newest one")
	require.Zero(t, m.count(t, "mooncake_node_tier_failed_total"))
}

// TestTierThatKeeps: a tier that may not evict has the first objects, and nothing is saved once it is full.
func TestTierThatKeeps(t *testing.T) {
	ctx := context.Background()
	p := newPool(t, func(c *master.Config) { c.Tiers, c.LeaseTTL = tierPolicy(0), time.Millisecond })
	m := p.member("a", memberOptions{segments: []uint64{8 << 20}, node: p.tiered(newDisk(t, 16<<20), func(x *node.Tiers) { x.Keep = true })})
	m.fill(t, 12)
	for i := 12; m.count(t, "mooncake_node_tier_failed_total") == 0; i++ {
		require.Less(t, i, 1000)
		k := fmt.Sprint("key", i)
		require.NoError(t, m.Put(ctx, k, content(k, 1<<20), model.DefaultReplicateConfig()))
	}
	require.Zero(t, m.count(t, "mooncake_node_tier_evicted_bytes_total"))
	m.there(t, 12, 12)
}

// TestTierNeedsAMasterThatTakesIt: at another master the node is one of memory only, and it has its tier again at one that
// takes it.
func TestTierNeedsAMasterThatTakesIt(t *testing.T) {
	takes := false
	p := newPool(t, func(c *master.Config) {
		c.LeaseTTL = time.Millisecond
		if takes {
			c.Tiers = tierPolicy(0)
		}
	})
	m := p.member("a", memberOptions{segments: []uint64{8 << 20}, node: p.tiered(newDisk(t, 256<<20), nil)})
	require.NoError(t, m.Put(context.Background(), "k", content("k", 1<<20), model.DefaultReplicateConfig()))
	o, err := m.query("k")
	require.NoError(t, err)
	require.Len(t, o.Replicas, 1)
	require.Zero(t, m.count(t, "mooncake_node_tier_saved_total"))
	takes = true
	p.kill()
	p.boot()
	require.Eventually(t, func() bool {
		return m.Put(context.Background(), "l", content("l", 1<<20), model.DefaultReplicateConfig()) == nil
	}, 20*time.Second, 10*time.Millisecond)
	m.saved(t, 1)
}

// TestTierKeepsStripedObjects: an object whose copy in memory lies in several extents is kept in one, on the tier of the node
// that has the first, also where the others lie on another node.
func TestTierKeepsStripedObjects(t *testing.T) {
	for name, segments := range map[string][][]uint64{"one node": {{8 << 20, 8 << 20}}, "two nodes": {{8 << 20}, {8 << 20}}} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, func(c *master.Config) { c.Tiers = tierPolicy(0) })
			var members []*member
			for i, s := range segments {
				members = append(members, p.member(string(rune('a'+i)), memberOptions{segments: s, node: p.tiered(newDisk(t, 256<<20), func(x *node.Tiers) { x.Endpoint = fmt.Sprint("tier.test:", i+1) })}))
			}
			value := content("k", 12<<20)
			require.NoError(t, members[0].Put(context.Background(), "k", value, model.DefaultReplicateConfig()))
			saved := func() (n int, by *member) {
				for _, m := range members {
					if k := m.count(t, "mooncake_node_tier_saved_total"); k > 0 {
						n, by = n+k, m
					}
				}
				return n, by
			}
			require.Eventually(t, func() bool { n, _ := saved(); return n > 0 }, 20*time.Second, time.Millisecond)
			n, by := saved()
			require.Equal(t, 1, n)
			o, err := by.query("k")
			require.NoError(t, err)
			first := o.Replicas[0]
			require.NotEmpty(t, first.More, "the copy in memory is striped")
			require.Equal(t, len(members) > 1, slices.ContainsFunc(first.More, func(x model.Part) bool { return x.Endpoint != first.Endpoint }))
			require.Equal(t, by.name, first.Endpoint)
			require.True(t, bytes.Equal(value, by.staged(t, "k")))
		})
	}
}
