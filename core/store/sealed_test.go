package store_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/sealkeys"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/core/store/internal/fragment"
	"github.com/mooncake-go/mooncake/core/store/internal/seal"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// algorithms are what the tests of seals run with.
var algorithms = map[string]seal.Algorithm{"mac": seal.MAC, "aead": seal.AEAD}

func sealing(a seal.Algorithm, keys sealkeys.Keys) func(*client.Config) {
	return func(c *client.Config) { c.Seal.Algorithm, c.Seal.Keys = a, keys }
}

// TestSealedObjects: every way to put and to get an object does what it does without a seal, also of striped objects, in several
// replicas, out of the hot cache and while batches are larger than the staging memory.
func TestSealedObjects(t *testing.T) {
	for name, a := range algorithms {
		p, l := newLedgerPool(t)
		p.member("a:1", memberOptions{segments: []uint64{512 << 20}})
		p.member("b:1", memberOptions{segments: []uint64{512 << 20}})
		o := memberOptions{client: func(c *client.Config) {
			sealing(a, testKeys(t))(c)
			c.Seal.Staging = 256 << 10
		}}
		w := p.member("w:1", o)
		o.client = func(c *client.Config) { hot(c); sealing(a, testKeys(t))(c) }
		members := rapid.SampledFrom([]*member{w, p.member("r:1", o)})
		n := 0
		rapid.Check(t, func(t *rapid.T) {
			n++
			key := fmt.Sprint(name, n)
			size := rapid.OneOf(rapid.IntRange(1, 300), rapid.IntRange(16300, 16500), rapid.IntRange(1, 400_000)).Draw(t, "size")
			l.stripe = uint64(rapid.SampledFrom([]int{0, 50_000, 128 << 10}).Draw(t, "stripe"))
			cfg, value := one, content(key, size)
			cfg.ReplicaNum = rapid.Uint32Range(1, 2).Draw(t, "copies")
			putSomehow(t, members.Draw(t, "writer"), key, slices.Clone(value), cfg)
			require.Equal(t, seal.SealedSize(uint64(size)), l.objects[at(model.Caller{}, key)].obj.Size)
			require.Equal(t, model.ChecksumSealed, l.objects[at(model.Caller{}, key)].obj.Checksum.Kind)
			readSomehow(t, members.Draw(t, "reader"), key, value)
		})
	}
}

// TestATrailerInAGrainOfItsOwn: the trailer of a value that is put in ranges may begin a grain that the value does not have.
func TestATrailerInAGrainOfItsOwn(t *testing.T) {
	for name, a := range algorithms {
		p := newPool(t, nil)
		p.member("a:1", memberOptions{segments: []uint64{64 << 20}})
		c := p.member("c:1", memberOptions{client: sealing(a, testKeys(t))})
		for _, size := range []int{81_681, 81_920, 5<<14 - 1} {
			key := fmt.Sprint(name, size)
			value := content(key, size)
			_, plain := fragment.GrainOf(uint64(size))
			_, sealed := fragment.GrainOf(seal.SealedSize(uint64(size)))
			require.Greater(t, sealed, plain)
			require.NoError(t, c.StartPuts(tctx, []string{key}, []uint64{uint64(size)}, one, nil)[0])
			require.NoError(t, c.PutRanges(tctx, []store.Ranges{{Key: key, Fragments: []store.Fragment{{Mem: value}}}})[0].Err)
			require.NoError(t, c.EndPuts(tctx, []string{key})[0])
			got, err := c.Get(tctx, key)
			require.NoError(t, err)
			require.Equal(t, value, got)
		}
	}
}

// readSomehow reads an object in each way and compares it.
func readSomehow(t *rapid.T, r *member, key string, value []byte) {
	size, err := r.Size(tctx, key)
	require.NoError(t, err)
	require.Equal(t, uint64(len(value)), size)
	got, err := r.Get(tctx, key)
	require.NoError(t, err)
	require.Equal(t, value, got)

	// Memory of the caller, which is larger and in pieces.
	mem := make([]byte, len(value)+rapid.IntRange(0, 40).Draw(t, "more"))
	n, err := r.GetInto(tctx, key, pieces(t, mem, "read")...)
	require.NoError(t, err)
	require.Equal(t, len(value), n)
	require.Equal(t, value, mem[:n])
	require.Equal(t, make([]byte, len(mem)-n), mem[n:], "nothing is written behind the value")
	_, err = r.GetInto(tctx, key, mem[:len(value)-1])
	require.ErrorIs(t, err, errs.InvalidParams.Err())

	lent, err := r.GetBuffer(tctx, key)
	require.NoError(t, err)
	require.Equal(t, value, lent.Bytes())
	lent.Release()

	ranges := store.Ranges{Key: key}
	for range rapid.IntRange(1, 4).Draw(t, "ranges") {
		lo := rapid.IntRange(0, len(value)-1).Draw(t, "from")
		hi := rapid.IntRange(lo, min(len(value), lo+40_000)).Draw(t, "to")
		ranges.Fragments = append(ranges.Fragments, store.Fragment{Offset: uint64(lo), Mem: make([]byte, hi-lo)})
	}
	beyond := append(slices.Clone(ranges.Fragments), store.Fragment{Offset: uint64(len(value)), Mem: make([]byte, 1)})
	results := r.GetIntoRanges(tctx, []store.Ranges{{Key: key, Fragments: beyond}})[0]
	require.ErrorIs(t, results[len(results)-1].Err, errs.InvalidParams.Err(), "the trailer is not readable")
	check := func() {
		for _, f := range ranges.Fragments {
			require.Equal(t, value[f.Offset:][:len(f.Mem)], f.Mem)
			clear(f.Mem)
		}
	}
	check()
	require.NoError(t, r.StartGets(tctx, []string{key})[0])
	res := r.Layers().GetRanges(tctx, []store.Ranges{ranges})[0]
	require.NoError(t, res.Err)
	require.Equal(t, fragment.Bytes(ranges.Fragments), res.Value)
	check()
	require.NoError(t, r.EndGets(tctx, []string{key}))
}

// TestSealedBatches: a batch that needs several times the staging memory, with a value that needs more than all of it, keys that
// exist and bad ones.
func TestSealedBatches(t *testing.T) {
	for _, a := range algorithms {
		p := newPool(t, nil)
		p.member("a:1", memberOptions{segments: []uint64{64 << 20}})
		c := p.member("c:1", memberOptions{client: func(c *client.Config) { sealing(a, testKeys(t))(c); c.Seal.Staging = 1 << 20 }})
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				keys, values := []string{"", "twice", "twice"}, [][]byte{{1}, content("twice", 9), content("twice", 9)}
				for i := range 40 {
					keys = append(keys, fmt.Sprint(w, "/", i))
					values = append(values, content(keys[len(keys)-1], 100_000+i))
				}
				values[7] = content(keys[7], 3<<20)
				for round := range 2 {
					for i, err := range c.BatchPut(tctx, keys, values, one) {
						if keys[i] == "" {
							require.ErrorIs(t, err, errs.InvalidParams.Err())
						} else if keys[i] != "twice" {
							require.NoError(t, err, "%d %s", round, keys[i])
						}
					}
				}
				for i, r := range c.BatchGet(tctx, keys[3:]) {
					require.NoError(t, r.Err)
					require.Equal(t, values[3+i], r.Value)
				}
			})
		}
		wg.Wait()
	}
}

// TestSealedOverTransports: objects that are sealed over tcp and over shared memory, from registered memory and to it.
func TestSealedOverTransports(t *testing.T) {
	for name, a := range algorithms {
		for _, near := range []bool{false, true} {
			c := newCluster(t)
			c.member(memberOptions{segments: []uint64{64 << 20}, shm: near})
			m := c.member(memberOptions{shm: near, client: sealing(a, testKeys(t))})
			src, dst := content(name, 3<<20), make([]byte, 3<<20)
			require.NoError(t, m.RegisterBuffer(tctx, src, "cpu:0"))
			require.NoError(t, m.RegisterBuffer(tctx, dst, "cpu:0"))
			require.NoError(t, m.Put(tctx, "k", src, one))
			require.Equal(t, content(name, 3<<20), src)
			n, err := m.GetInto(tctx, "k", dst)
			require.NoError(t, err)
			require.Equal(t, src, dst[:n])
		}
	}
}

// forge changes what a replica of an object has. With the first one, the object gets its checksum, as a hostile master would have it.
func forge(l *ledger, key string, replica int, do func(object []byte)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := &l.objects[at(model.Caller{}, key)].obj
	part := model.Object{Size: o.Size, Replicas: o.Replicas[replica:][:1]}
	var sum uint32
	stored(&part, func(_ uint64, mem []byte) {
		do(mem)
		sum = crc32c.Sum(mem)
	})
	if replica == 0 {
		o.Checksum.Value, o.Grains = uint64(sum), nil
	}
}

// TestHostileNode: a node that changes, exchanges, replays and unseals objects, with checksums that fit, is never believed. The object
// stays, since the keys of the reader may be at fault.
func TestHostileNode(t *testing.T) {
	const size = 100_000
	object := func(l *ledger, tenant, key string) (out []byte) {
		stored(&l.objects[at(model.Caller{Tenant: tenant}, key)].obj, func(_ uint64, mem []byte) { out = slices.Clone(mem) })
		return out
	}
	for name, a := range algorithms {
		for what, do := range map[string]func(l *ledger, mem []byte){
			"a flipped bit":              func(_ *ledger, mem []byte) { mem[40_000] ^= 4 },
			"a flipped bit of a tag":     func(_ *ledger, mem []byte) { mem[len(mem)-1] ^= 1 },
			"a flipped bit of the salt":  func(_ *ledger, mem []byte) { mem[size+30] ^= 1 },
			"exchanged chunks":           func(_ *ledger, mem []byte) { copy(mem[16<<10:], mem[:16<<10]) },
			"another object":             func(l *ledger, mem []byte) { copy(mem, object(l, "", "other")) },
			"the object of a tenant":     func(l *ledger, mem []byte) { copy(mem, object(l, "a", "k")) },
			"the value itself":           func(_ *ledger, mem []byte) { copy(mem, content("k", size)) },
			"the value without its seal": func(_ *ledger, mem []byte) { clear(mem[copy(mem, content("k", size)):]) },
			"nothing":                    func(_ *ledger, mem []byte) { clear(mem) },
		} {
			if a == seal.MAC && what == "the value itself" {
				continue // The body is the value.
			}
			p, l := newLedgerPool(t)
			p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
			p.member("b:1", memberOptions{segments: []uint64{1 << 20}})
			c := p.member("c:1", memberOptions{client: sealing(a, testKeys(t))})
			d := p.member("d:1", memberOptions{client: func(c *client.Config) { sealing(a, testKeys(t))(c); c.Tenant = "a" }})
			require.NoError(t, c.Put(tctx, "k", content("k", size), two()))
			require.NoError(t, c.Put(tctx, "other", content("other", size), one))
			require.NoError(t, d.Put(tctx, "k", content("a's", size), one))

			// One replica is good, and its checksum is right.
			forge(l, "k", 1, func(mem []byte) { do(l, mem) })
			for range 8 {
				got, err := c.Get(tctx, "k")
				require.NoError(t, err, "%s, %s", name, what)
				require.Equal(t, content("k", size), got)
			}
			forge(l, "k", 0, func(mem []byte) { do(l, mem) })
			_, err := c.Get(tctx, "k")
			require.ErrorIs(t, err, errs.ChecksumMismatch.Err(), "%s, %s", name, what)
			require.True(t, store.IsMiss(err))
			lent, err := c.GetBuffer(tctx, "k")
			require.ErrorIs(t, err, errs.ChecksumMismatch.Err())
			require.Nil(t, lent)
			r := store.Ranges{Key: "k", Fragments: []store.Fragment{{Offset: 35_000, Mem: make([]byte, 7000)}, {Offset: size - 10, Mem: make([]byte, 10)}, {Offset: 16 << 10, Mem: make([]byte, 1)}}}
			for i, res := range c.GetIntoRanges(tctx, []store.Ranges{r})[0] {
				require.ErrorIs(t, res.Err, errs.ChecksumMismatch.Err(), "%s, %s, %d", name, what, i)
			}
			require.NotZero(t, c.count(t, "mooncake_client_unopened_objects_total"))
			require.Zero(t, c.count(t, "mooncake_client_damaged_objects_removed_total"))
			got, err := c.Get(tctx, "other")
			require.NoError(t, err)
			require.Equal(t, content("other", size), got)
		}
	}
}

// TestWithAndWithoutSeal: clients with and without keys, of one pool.
func TestWithAndWithoutSeal(t *testing.T) {
	p, _ := newLedgerPool(t)
	p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
	plain := p.member("p:1", memberOptions{client: func(c *client.Config) { c.Seal.Algorithm = 0 }})
	sealed := p.member("s:1", memberOptions{client: sealing(seal.AEAD, testKeys(t))})
	mac := p.member("m:1", memberOptions{client: sealing(seal.MAC, testKeys(t))})
	other := p.member("o:1", memberOptions{client: sealing(seal.AEAD, newKeys(t, t.TempDir()+"/k.json"))})
	require.NoError(t, sealed.Put(tctx, "sealed", content("sealed", 1000), one))
	for size := 1000; size < 1020; size++ { // some of them are sizes of sealed objects
		key := fmt.Sprint("plain", size)
		require.NoError(t, plain.Put(tctx, key, content(key, size), one))
		_, err := sealed.Get(tctx, key)
		require.ErrorIs(t, err, errs.ChecksumMismatch.Err())
		require.ErrorContains(t, err, "seal")
	}
	_, err := plain.Get(tctx, "sealed")
	require.ErrorIs(t, err, errs.UnavailableInCurrentMode.Err())
	require.ErrorContains(t, err, "security.seal_keys")
	size, err := plain.Size(tctx, "sealed")
	require.NoError(t, err)
	require.EqualValues(t, 1000, size, "also without a key")
	got, err := mac.Get(tctx, "sealed")
	require.NoError(t, err, "the object says how it is sealed")
	require.Equal(t, content("sealed", 1000), got)
	_, err = other.Get(tctx, "sealed")
	require.ErrorIs(t, err, errs.ChecksumMismatch.Err())
	require.ErrorContains(t, err, "which tenant default does not have")
	there, err := other.Exist(tctx, "sealed")
	require.NoError(t, err)
	require.True(t, there)
}

// newKeys makes a file of keys.
func newKeys(t testing.TB, path string) sealkeys.Keys {
	_, err := sealkeys.New(path, "default", time.Now())
	require.NoError(t, err)
	k, err := sealkeys.Open("file:"+path, sealkeys.Options{})
	require.NoError(t, err)
	return k
}

// lockedKeys are keys that cannot be had.
type lockedKeys struct {
	sealkeys.Keys
	err error
}

func (k *lockedKeys) Current(ctx context.Context, tenant string) (sealkeys.Key, error) {
	if k.err != nil {
		return sealkeys.Key{}, k.err
	}
	return k.Keys.Current(ctx, tenant)
}

func (k *lockedKeys) Find(ctx context.Context, tenant, id string) (sealkeys.Key, error) {
	if k.err != nil {
		return sealkeys.Key{}, k.err
	}
	return k.Keys.Find(ctx, tenant, id)
}

// TestKeysThatCannotBeHad: calls fail with the error of the keys, nothing is revoked late, and all is well when the keys are back.
func TestKeysThatCannotBeHad(t *testing.T) {
	p := newPool(t, nil)
	p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
	keys := &lockedKeys{Keys: testKeys(t)}
	c := p.member("c:1", memberOptions{client: sealing(seal.AEAD, keys)})
	require.NoError(t, c.Put(tctx, "k", content("k", 1000), one))
	require.NoError(t, c.StartPuts(tctx, []string{"l"}, []uint64{4}, one, nil)[0])
	require.NoError(t, c.PutRanges(tctx, []store.Ranges{write("l", 0, []byte("abcd"))})[0].Err)
	keys.err = errs.New(errs.UnavailableInCurrentStatus, "Vault", "it is away")
	require.ErrorIs(t, c.Put(tctx, "n", content("n", 1000), one), errs.UnavailableInCurrentStatus.Err())
	_, err := c.Get(tctx, "k")
	require.ErrorIs(t, err, errs.UnavailableInCurrentStatus.Err())
	require.ErrorIs(t, c.EndPuts(tctx, []string{"l"})[0], errs.UnavailableInCurrentStatus.Err())
	keys.err = errors.New("another")
	require.Error(t, c.Put(tctx, "n", content("n", 1000), one))
	keys.err = nil
	got, err := c.Get(tctx, "k")
	require.NoError(t, err)
	require.Equal(t, content("k", 1000), got)
	require.NoError(t, c.Put(tctx, "n", content("n", 1000), one))
	require.NoError(t, c.Put(tctx, "l", []byte("abcd"), one), "its put was revoked")
}

// TestKeysRotate: keys are made, taken and used while clients write and read.
func TestKeysRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newLedgerPool(t)
		p.member("a:1", memberOptions{segments: []uint64{16 << 20}})
		path := filepath.Join(t.TempDir(), "keys.json")
		made, err := sealkeys.New(path, "default", time.Now())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var mu sync.Mutex
		var put []string
		for w := range 3 {
			keys, err := sealkeys.Open("file:"+path, sealkeys.Options{})
			require.NoError(t, err)
			c := p.member(fmt.Sprintf("c%d:1", w), memberOptions{client: sealing([]seal.Algorithm{seal.MAC, seal.AEAD}[w%2], keys)})
			wg.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					key := fmt.Sprint(w, "/", i)
					require.NoError(t, c.Put(tctx, key, content(key, 500), one))
					mu.Lock()
					put = append(put, key)
					seen := put[(i*7)%len(put)]
					mu.Unlock()
					got, err := c.Get(tctx, seen)
					require.NoError(t, err)
					require.Equal(t, content(seen, 500), got)
					time.Sleep(time.Second)
				}
			})
		}
		for range 4 {
			time.Sleep(15 * time.Second)
			e, err := sealkeys.Rotate(path, "default", true, time.Now())
			require.NoError(t, err)
			time.Sleep(15 * time.Second)
			require.NoError(t, sealkeys.Use(path, "default", e.ID))
		}
		time.Sleep(15 * time.Second)
		cancel()
		wg.Wait()
		require.NoError(t, sealkeys.Drop(path, "default", made.ID))
		keys, err := sealkeys.Open("file:"+path, sealkeys.Options{})
		require.NoError(t, err)
		c := p.member("last:1", memberOptions{client: sealing(seal.AEAD, keys)})
		_, err = c.Get(tctx, "0/0")
		require.ErrorIs(t, err, errs.ChecksumMismatch.Err(), "its key is gone")
		got, err := c.Get(tctx, "0/40")
		require.NoError(t, err)
		require.Equal(t, content("0/40", 500), got)
	})
}

// TestSealedSessionsAreBounded: layer-wise puts keep their bytes in the client, up to a bound.
func TestSealedSessionsAreBounded(t *testing.T) {
	p := newPool(t, nil)
	p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
	c := p.member("c:1", memberOptions{client: func(c *client.Config) { sealing(seal.AEAD, testKeys(t))(c); c.Seal.Sessions = 1000 }})
	out := c.StartPuts(tctx, []string{"a", "b", "c", "huge"}, []uint64{600, 400, 1, 1 << 63}, one, nil)
	require.NoError(t, out[0])
	require.NoError(t, out[1])
	require.ErrorIs(t, out[2], errs.BufferOverflow.Err())
	require.ErrorIs(t, out[3], errs.InvalidParams.Err())
	require.NoError(t, c.RevokePuts(tctx, []string{"a"})[0])
	require.NoError(t, c.StartPuts(tctx, []string{"c"}, []uint64{600}, one, nil)[0])
	require.ErrorIs(t, c.EndPuts(tctx, []string{"c"})[0], errs.InvalidParams.Err(), "nothing was written")
}

// TestSealedTiers: the bytes of sealed objects on a storage tier are opaque to its node.
func TestSealedTiers(t *testing.T) {
	for _, a := range algorithms {
		p := newTierPool(t, 64<<20, memberOptions{client: sealing(a, testKeys(t))})
		n := p.tierNode("d:1", 64<<20)
		for _, size := range []int{1, 5000, 200_000, 17 << 20} {
			key := fmt.Sprint("k", size)
			value := p.put(key, size)
			var object []byte
			o := p.reader.Query(tctx, []string{key})[0].Value
			stored(&o, func(_ uint64, mem []byte) { object = slices.Clone(mem) })
			p.tiered.offload(key, object, n, "")
			p.tiered.evict(key)
			got, err := p.reader.Get(tctx, key)
			require.NoError(t, err)
			require.Equal(t, value, got)
			mem := make([]byte, min(size, 40_000))
			off := size - len(mem)
			require.NoError(t, p.reader.GetIntoRanges(tctx, []store.Ranges{{Key: key, Fragments: []store.Fragment{{Offset: uint64(off), Mem: mem}}}})[0][0].Err)
			require.Equal(t, value[off:], mem)
		}
	}
}

// TestIndeterminatePutsLeakNoStaging: the memory of a sealed value is free once its write has ended, also if that is indeterminate.
func TestIndeterminatePutsLeakNoStaging(t *testing.T) {
	p := newPool(t, nil)
	p.member("node:1", memberOptions{segments: []uint64{8 << 20}})
	keys := testKeys(t)
	c := p.member("client:1", memberOptions{client: func(c *client.Config) {
		c.Seal.Algorithm, c.Seal.Keys, c.Seal.Staging = seal.AEAD, keys, 256<<10
	}})
	for i := range 20 {
		makeIndeterminate(c, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		err := c.Put(ctx, fmt.Sprint(i), content(fmt.Sprint(i), 60_000), one)
		cancel()
		require.NoError(t, err, "put %d", i)
	}
}
