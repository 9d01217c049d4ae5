package master_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/master/quota"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// router is told what can be read. It notes what it hears, and what is true by that.
type router struct {
	mu    sync.Mutex
	heard []string
	there map[string]bool
	// before, where set, runs before a word is heard, once.
	before func()
	each   chan struct{} // has a token for everything heard since news, up to its capacity
}

func (a *router) say(word string, there bool, tenant model.Tenant, key model.Key, group string) {
	a.mu.Lock()
	before := a.before
	a.before = nil
	a.mu.Unlock()
	if before != nil {
		before()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	name := tenant + "/" + key
	if group != "" {
		word += " of " + group
	}
	a.heard = append(a.heard, word+" "+name)
	if a.there == nil {
		a.there = map[string]bool{}
	}
	a.there[name] = there
	select {
	case a.each <- struct{}{}:
	default:
	}
}

// Stored implements master.Announcer.
func (a *router) Stored(tenant model.Tenant, key model.Key, group string) {
	a.say("stored", true, tenant, key, group)
}

// Removed implements master.Announcer.
func (a *router) Removed(tenant model.Tenant, key model.Key, group string) {
	a.say("removed", false, tenant, key, group)
}

// Stats implements master.Announcer.
func (a *router) Stats() model.KVEventStats { return model.KVEventStats{Enabled: true, Events: 7} }

// news returns what was heard since the last call, sorted.
func (a *router) news() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.heard
	a.heard = nil
	for len(a.each) > 0 {
		<-a.each
	}
	slices.Sort(out)
	return out
}

func startAnnounced(t *testing.T, pages ...int) (*rig, *router) {
	a := &router{each: make(chan struct{}, 16)}
	return startDeps(t, func(d *master.Deps) { d.Announcer = a }, noLease, pages...), a
}

func TestWhatComesAndGoesIsAnnounced(t *testing.T) {
	r, a := startAnnounced(t, 8, 8)
	grouped := items([]string{"g"}, page)
	grouped[0].Group = "team"
	_, err := r.PutStart(r.ctx, model.Caller{Client: r.client}, grouped, model.DefaultReplicateConfig(), nil)
	require.NoError(t, err)
	require.Empty(t, a.news(), "a put that began says nothing")
	r.end("g")
	require.Equal(t, []string{"stored of team default/g"}, a.news())
	r.remove(true, "g")
	require.Equal(t, []string{"removed of team default/g"}, a.news())

	r.begin("x")
	_, err = r.PutRevoke(r.ctx, model.Caller{Client: r.client}, revokes([]string{"x"}))
	require.NoError(t, err)
	require.Empty(t, a.news(), "nor does one that was given up")
	require.Equal(t, one(errs.ObjectNotFound), r.end("x"))
	require.Equal(t, one(errs.ObjectNotFound), r.remove(true, "x"))
	require.Empty(t, a.news(), "nor what failed")

	r.put("a", "b")
	require.Equal(t, []string{"stored default/a", "stored default/b"}, a.news())
	_, err = r.RemoveByRegex(r.ctx, model.Caller{}, "^a$", true)
	require.NoError(t, err)
	_, err = r.RemoveAll(r.ctx, model.Caller{}, true)
	require.NoError(t, err)
	require.Equal(t, []string{"removed default/a", "removed default/b"}, a.news())
	require.Equal(t, model.KVEventStats{Enabled: true, Events: 7}, r.KVEvents())
	require.Equal(t, 7.0, r.value("master_kv_events_published_total"))
}

func TestEvictionIsAnnounced(t *testing.T) {
	r, a := startAnnounced(t, 4)
	r.put("a", "b", "c", "d")
	a.news()
	r.put("e")
	require.Equal(t, []string{"removed default/a", "stored default/e"}, a.news())
}

// An upsert takes the old value away when it begins, in place or elsewhere.
func TestUpsertsAreAnnounced(t *testing.T) {
	r, a := startAnnounced(t, 8)
	r.put("k")
	for _, size := range []int{page, 2 * page} {
		a.news()
		cfg := model.DefaultReplicateConfig()
		cfg.Upsert = true
		got, err := r.PutStart(r.ctx, model.Caller{Client: r.client}, items([]string{"k"}, size), cfg, nil)
		require.NoError(t, err)
		require.Equal(t, one(errs.OK), codes(got))
		require.Equal(t, []string{"removed default/k"}, a.news())
		r.end("k")
		require.Equal(t, []string{"stored default/k"}, a.news())
	}
}

// Copies change where an object lies, not whether it can be read.
func TestCopiesAreNotAnnounced(t *testing.T) {
	r, a := startAnnounced(t, 8, 8)
	r.put("k")
	a.news()
	from := r.where("k")
	to := r.segs[0].Name
	if from == to {
		to = r.segs[1].Name
	}
	caller := model.Caller{Client: r.client}
	for _, kind := range []model.CopyKind{model.CopyObject, model.MoveObject} {
		_, err := r.CopyStart(r.ctx, caller, kind, "k", from, []string{to})
		require.NoError(t, err)
		require.NoError(t, r.CopyEnd(r.ctx, caller, kind, "k"))
	}
	require.Empty(t, a.news())
	cleared, err := r.ClearReplicas(r.ctx, model.Caller{}, []model.Key{"k"}, r.client, to)
	require.NoError(t, err)
	require.Len(t, cleared, 1)
	require.Equal(t, []string{"removed default/k"}, a.news(), "that was the last copy")
}

// where is the segment of the first copy of a key.
func (r *rig) where(key string) string {
	r.t.Helper()
	got, err := r.GetReplicas(r.ctx, model.Caller{}, []model.Key{key}, nil)
	require.NoError(r.t, err)
	return got[0].Value.Replicas[0].Segment
}

func TestUnmountIsAnnounced(t *testing.T) {
	r, a := startAnnounced(t, 8)
	r.put("a", "b")
	a.news()
	require.NoError(t, r.UnmountSegment(r.ctx, r.client, r.segs[0].ID, 0))
	for range 2 {
		<-a.each // they are cleared in the background
	}
	require.Equal(t, []string{"removed default/a", "removed default/b"}, a.news())
}

func TestTenantsAreAnnounced(t *testing.T) {
	a := &router{}
	keeper, err := quota.OpenKeeper(policyFile(t), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	for _, tenant := range []string{"blue", "default"} {
		_, err = keeper.Set(tenant, 4*page)
		require.NoError(t, err)
	}
	r := startDeps(t, func(d *master.Deps) { d.Tenants, d.Announcer = keeper, a }, noLease, 8)
	for _, tenant := range []string{"blue", "default"} {
		caller := model.Caller{Client: r.client, Tenant: tenant}
		put := items([]string{"k"}, page)
		put[0].Group = "g"
		got, err := r.PutStart(r.ctx, caller, put, model.DefaultReplicateConfig(), nil)
		require.NoError(t, err)
		require.Equal(t, one(errs.OK), codes(got), tenant)
		_, err = r.PutEnd(r.ctx, caller, ends([]string{"k"}), nil)
		require.NoError(t, err)
		require.Equal(t, []string{"stored of g " + tenant + "/k"}, a.news())
	}
	_, err = r.RemoveAll(r.ctx, model.Caller{Tenant: model.AllTenants}, true)
	require.NoError(t, err)
	require.Equal(t, []string{"removed of g blue/k", "removed of g default/k"}, a.news())
}

// A word that is overtaken by a later one is set right.
func TestOvertakenWords(t *testing.T) {
	r, a := startAnnounced(t, 8)
	a.before = func() { require.Equal(t, one(errs.OK), r.remove(true, "k")) }
	r.put("k")
	require.Equal(t, map[string]bool{"default/k": false}, a.there)
	require.Equal(t, []string{"removed default/k", "removed default/k", "stored default/k"}, a.news())

	r.put("k")
	a.before = func() { r.put("k") }
	require.Equal(t, one(errs.OK), r.remove(true, "k"))
	require.Equal(t, map[string]bool{"default/k": true}, a.there)
}

// Whatever runs at the same time: in the end, what was said last of a key is true.
func TestTheLastWordIsTrue(t *testing.T) {
	r, a := startAnnounced(t, 16)
	const workers, rounds, keys = 8, 400, 4
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(w)))
			caller := model.Caller{Client: r.client}
			for range rounds {
				k := []string{fmt.Sprint(rnd.IntN(keys))}
				switch rnd.IntN(4) {
				case 0, 1:
					cfg := model.DefaultReplicateConfig()
					cfg.Upsert = rnd.IntN(3) == 0
					_, _ = r.PutStart(r.ctx, caller, items(k, page), cfg, nil)
					_, _ = r.PutEnd(r.ctx, caller, ends(k), nil)
				case 2:
					_, _ = r.Remove(r.ctx, caller, k, true)
				case 3:
					_, _ = r.PutRevoke(r.ctx, caller, revokes(k))
				}
			}
		})
	}
	all.Wait()
	here := map[string]bool{}
	for _, k := range r.here() {
		here[k] = true
	}
	for i := range keys {
		k := fmt.Sprint(i)
		require.Equal(t, here[k], a.there["default/"+k], k)
	}
	require.NotEmpty(t, a.news())
}
