package router_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/cells"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/master/journal"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/router"
	arena "github.com/mooncake-go/mooncake/plugins/alloc-arena"
	lru "github.com/mooncake-go/mooncake/plugins/evict-lru"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type host struct{}

func (host) Logger() *slog.Logger { return slog.New(slog.DiscardHandler) }
func (host) Report(plugin.Health) {}

const page = 64 << 10

// newMaster starts a master with one mounted segment.
func newMaster(t require.TestingT, i int) (m *master.Service, stop func()) {
	ctx := context.Background()
	a, err := arena.Factory().New(arena.Factory().DefaultConfig())
	require.NoError(t, err)
	require.NoError(t, a.Start(ctx, host{}))
	e, err := lru.Factory().New(lru.Factory().DefaultConfig())
	require.NoError(t, err)
	require.NoError(t, e.Start(ctx, host{}))
	cfg := master.DefaultConfig()
	cfg.MetricReporting, cfg.Version, cfg.MaxOpenRatio = false, "1.2.3", 0
	cfg.ClientTTL, cfg.LeaseTTL = time.Hour, time.Minute // Nothing ends during a test.
	m, err = master.New(cfg, master.Deps{Alloc: a, Evict: e, Log: host{}.Logger(), Boottime: func() journal.Instant { return journal.Instant(time.Now().UnixNano()) }})
	require.NoError(t, err)
	require.NoError(t, m.Start(ctx))
	require.NoError(t, m.MountSegment(ctx, nodeID, segmentOf(i)))
	return m, func() {
		require.NoError(t, m.Stop(ctx))
		require.NoError(t, e.Stop(ctx))
		require.NoError(t, a.Stop(ctx))
	}
}

var nodeID, clientID = model.ClientID{Hi: 1}, model.ClientID{Hi: 2}

func segmentOf(i int) model.Segment {
	name := fmt.Sprint("n:", i)
	return model.Segment{ID: model.SegmentID{Lo: uint64(i) + 1}, Name: name, Endpoint: name, Base: 1<<40 + uint64(i)<<30, Size: 64 << 20, Protocol: "tcp"}
}

// gate is a master that can be cut off.
type gate struct {
	store.Master
	mu    sync.Mutex
	cut   error         // calls fail with it
	hangs chan struct{} // calls wait for it, unless their context ends
	calls int
}

func (g *gate) pass(ctx context.Context) error {
	g.mu.Lock()
	cut, hangs := g.cut, g.hangs
	g.calls++
	g.mu.Unlock()
	if hangs != nil {
		select {
		case <-hangs:
		case <-ctx.Done():
			return errs.Wrap(errs.RPCTimeout, "gate", ctx.Err())
		}
	}
	return cut
}

func (g *gate) set(cut error, hangs chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cut, g.hangs = cut, hangs
}

func (g *gate) Ready(ctx context.Context) (string, error) {
	if err := g.pass(ctx); err != nil {
		return "", err
	}
	return g.Master.Ready(ctx)
}

func (g *gate) Ping(ctx context.Context, c model.ClientID, r model.PingReport) (model.PingReply, error) {
	if err := g.pass(ctx); err != nil {
		return model.PingReply{}, err
	}
	return g.Master.Ping(ctx, c, r)
}

func (g *gate) Exist(ctx context.Context, c model.Caller, keys []model.Key) ([]model.Result[bool], error) {
	if err := g.pass(ctx); err != nil {
		return nil, err
	}
	return g.Master.Exist(ctx, c, keys)
}

func (g *gate) PutStart(ctx context.Context, c model.Caller, items []model.PutItem, cfg model.ReplicateConfig, into *model.Answer[[]model.Replica]) ([]model.Result[[]model.Replica], error) {
	if err := g.pass(ctx); err != nil {
		return nil, err
	}
	return g.Master.PutStart(ctx, c, items, cfg, into)
}

func (g *gate) ListKeys(ctx context.Context, c model.Caller, expr string, after model.Key, limit int) ([]model.Key, error) {
	if err := g.pass(ctx); err != nil {
		return nil, err
	}
	return g.Master.ListKeys(ctx, c, expr, after, limit)
}

// TestSeveralCellsAreOneMaster runs the same random calls against one master and against a Router over several.
func TestSeveralCellsAreOneMaster(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "cells")
		one, stop := newMaster(t, 0)
		defer stop()
		var masters []store.Master
		for i := range n {
			m, stop := newMaster(t, i)
			defer stop()
			masters = append(masters, m)
		}
		many := router.New(masters...)
		defer many.Close()
		ctx := context.Background()
		as := model.Caller{Client: clientID}
		keyGen := rapid.Custom(func(t *rapid.T) string { return fmt.Sprint("key-", rapid.IntRange(0, 40).Draw(t, "key")) })
		keysGen := rapid.SliceOfNDistinct(keyGen, 0, 12, rapid.ID[string])
		var intoOne, intoMany model.Answer[model.Object]
		var started [2]model.Answer[[]model.Replica]
		ids := [2]map[model.Key]uint64{{}, {}}
		code := func(err error) string {
			if err == nil {
				return "OK"
			}
			return errs.CodeOf(err).String()
		}
		both := func(f func(i int, m store.Master) any) {
			require.Equal(t, f(0, one), f(1, many))
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				keys := keysGen.Draw(t, "keys")
				size := uint64(rapid.IntRange(1, page).Draw(t, "size"))
				both(func(i int, m store.Master) any {
					var items []model.PutItem
					for _, k := range keys {
						items = append(items, model.PutItem{Key: k, Size: size})
					}
					got, err := m.PutStart(ctx, as, items, model.DefaultReplicateConfig(), &started[i])
					require.NoError(t, err)
					require.Len(t, got, len(keys))
					var out []string
					for j, r := range got {
						if r.Err == nil {
							ids[i][keys[j]] = r.Value[0].ID
							require.Equal(t, size, r.Value[0].Bytes(), "the answer is that of this key")
						}
						out = append(out, code(r.Err))
					}
					return out
				})
			},
			"end": func(t *rapid.T) {
				keys := keysGen.Draw(t, "keys")
				both(func(i int, m store.Master) any {
					var items []model.EndItem
					for _, k := range keys {
						items = append(items, model.EndItem{Key: k, Put: ids[i][k]})
					}
					got, err := m.PutEnd(ctx, as, items, nil)
					require.NoError(t, err)
					return codes(got)
				})
			},
			"revoke": func(t *rapid.T) {
				keys := keysGen.Draw(t, "keys")
				both(func(i int, m store.Master) any {
					var items []model.RevokeItem
					for _, k := range keys {
						items = append(items, model.RevokeItem{Key: k, Put: ids[i][k]})
					}
					got, err := m.PutRevoke(ctx, as, items)
					require.NoError(t, err)
					return codes(got)
				})
			},
			"exist": func(t *rapid.T) {
				keys := keysGen.Draw(t, "keys")
				both(func(_ int, m store.Master) any {
					got, err := m.Exist(ctx, as, keys)
					require.NoError(t, err)
					var out []string
					for _, r := range got {
						out = append(out, fmt.Sprint(r.Value, code(r.Err)))
					}
					return out
				})
			},
			"get": func(t *rapid.T) {
				keys := keysGen.Draw(t, "keys")
				both(func(i int, m store.Master) any {
					into := []*model.Answer[model.Object]{&intoOne, &intoMany}[i]
					got, err := m.GetReplicas(ctx, as, keys, into)
					require.NoError(t, err)
					var out []string
					for _, r := range got {
						out = append(out, fmt.Sprint(r.Value.Size, code(r.Err)))
					}
					into.Results = got // As callers do.
					return out
				})
			},
			"remove": func(t *rapid.T) {
				keys, force := keysGen.Draw(t, "keys"), rapid.Bool().Draw(t, "force")
				both(func(_ int, m store.Master) any {
					got, err := m.Remove(ctx, as, keys, force)
					require.NoError(t, err)
					return codes(got)
				})
			},
			"list": func(t *rapid.T) {
				after, limit := keyGen.Draw(t, "after"), rapid.IntRange(1, 50).Draw(t, "limit")
				both(func(_ int, m store.Master) any {
					keys, err := m.ListKeys(ctx, as, "key-.*", after, limit)
					require.NoError(t, err)
					return slices.Clone(keys)
				})
			},
			"regex": func(t *rapid.T) {
				limit := rapid.IntRange(1, 50).Draw(t, "limit")
				both(func(_ int, m store.Master) any {
					keys, objects, err := m.GetReplicasByRegex(ctx, as, "key-[0-9]$", "", limit)
					require.NoError(t, err)
					var out []string
					for i, o := range objects {
						out = append(out, fmt.Sprint(keys[i], o.Value.Size, code(o.Err)))
					}
					return out
				})
			},
			"remove by regex": func(t *rapid.T) {
				both(func(_ int, m store.Master) any {
					n, err := m.RemoveByRegex(ctx, as, "key-1", true)
					require.NoError(t, err)
					return n
				})
			},
			"bad regex": func(t *rapid.T) {
				both(func(_ int, m store.Master) any {
					_, err := m.RemoveByRegex(ctx, as, "(", true)
					return code(err)
				})
			},
			"remove all": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "seldom") > 0 {
					return
				}
				both(func(_ int, m store.Master) any {
					n, err := m.RemoveAll(ctx, as, true)
					require.NoError(t, err)
					return n
				})
			},
			"clear": func(t *rapid.T) {
				keys := keysGen.Draw(t, "keys")
				both(func(_ int, m store.Master) any {
					got, err := m.ClearReplicas(ctx, as, keys, clientID, "")
					require.NoError(t, err)
					return slices.Clone(got)
				})
			},
			"why": func(t *rapid.T) {
				key := keyGen.Draw(t, "key")
				both(func(_ int, m store.Master) any {
					s, err := m.Why(ctx, as, key)
					require.NoError(t, err)
					return s.Fate.String()
				})
			},
			"": func(t *rapid.T) {},
		})
	})
}

func codes(list []error) []string {
	out := []string{}
	for _, err := range list {
		if err == nil {
			out = append(out, "OK")
		} else {
			out = append(out, errs.CodeOf(err).String())
		}
	}
	return out
}

// gated are cells with a gate before each.
func gated(t *testing.T, n int) (*router.Router, []*gate) {
	var gates []*gate
	var masters []store.Master
	for i := range n {
		time.Sleep(time.Millisecond) // Each has an epoch of its own.
		m, stop := newMaster(t, i)
		t.Cleanup(stop)
		gates = append(gates, &gate{Master: m})
		masters = append(masters, gates[i])
	}
	r := router.New(masters...)
	t.Cleanup(r.Close)
	return r, gates
}

// keysOf returns some keys of each cell.
func keysOf(n, each int) (keys []model.Key) {
	have := make([]int, n)
	for i := 0; len(keys) < n*each; i++ {
		k := fmt.Sprint("k", i)
		if c := cells.Of(k, n); have[c] < each {
			have[c]++
			keys = append(keys, k)
		}
	}
	return keys
}

var errCut = errs.New(errs.RPCFail, "gate", "it is cut")

// TestAnUnreachableCellIsAnErrorOfItsKeys: the other keys have their answers, calls on the cell end at once when it counts as
// down, and it is called again when it is back. Calls about the whole pool fail and name it.
func TestAnUnreachableCellIsAnErrorOfItsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, lost = 4, 2
		r, gates := gated(t, n)
		ctx, as := t.Context(), model.Caller{Client: clientID}
		keys := keysOf(n, 3)
		exist := func() (failed int) {
			got, err := r.Exist(ctx, as, keys)
			require.NoError(t, err)
			for i, g := range got {
				if g.Err == nil {
					continue
				}
				require.Equal(t, lost, cells.Of(keys[i], n), keys[i])
				require.Equal(t, errs.RPCFail, errs.CodeOf(g.Err), "%v", g.Err)
				failed++
			}
			return failed
		}
		require.Zero(t, exist())
		gates[lost].set(errCut, nil)
		for range 4 {
			require.Equal(t, 3, exist())
			synctest.Wait()
		}
		before := gates[lost].calls
		require.Equal(t, 3, exist())
		synctest.Wait()
		require.LessOrEqual(t, gates[lost].calls-before, 1, "it is only asked whether it is up")
		_, err := r.ListKeys(ctx, as, "", "", 10)
		require.Equal(t, errs.RPCFail, errs.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, "cell 2 of 4")
		for _, k := range keys {
			if cells.Of(k, n) == lost {
				got, err := r.Exist(ctx, as, []model.Key{k, k})
				require.NoError(t, err, "it is no error of the call, which would make the pool count as down")
				require.Error(t, got[1].Err)
			}
		}
		version, err := r.Ready(ctx)
		require.NoError(t, err)
		require.Equal(t, "1.2.3", version)

		gates[lost].set(nil, nil)
		time.Sleep(time.Second)
		exist() // It has the cell asked.
		synctest.Wait()
		require.Zero(t, exist())
	})
}

// TestACellThatIsHandedOver: calls that no master has taken wait for the next one for a moment, and not when there is none for
// longer.
func TestACellThatIsHandedOver(t *testing.T) {
	for name, away := range map[string]error{
		"refused":  errs.New(errs.UnavailableInCurrentStatus, "gate", "another one leads"),
		"not sent": errs.Wrap(errs.RPCFail, "gate", store.ErrNotSent),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { handedOver(t, away) })
		})
	}
}

func handedOver(t *testing.T, away error) {
	const n, moving = 2, 1
	r, gates := gated(t, n)
	keys := keysOf(n, 2)
	exist := func() (failed int) {
		got, err := r.Exist(t.Context(), model.Caller{}, keys)
		require.NoError(t, err)
		for _, g := range got {
			if g.Err != nil {
				require.Equal(t, errs.CodeOf(away), errs.CodeOf(g.Err), "%v", g.Err)
				failed++
			}
		}
		return failed
	}
	require.Zero(t, exist())
	gates[moving].set(away, nil)
	go func() {
		time.Sleep(200 * time.Millisecond)
		gates[moving].set(nil, nil)
	}()
	require.Zero(t, exist())
	gates[moving].set(away, nil)
	require.Equal(t, 2, exist(), "no master takes over")
	began := time.Now()
	require.Equal(t, 2, exist())
	require.Equal(t, began, time.Now(), "in fake time: it is not waited for again")
	gates[moving].set(nil, nil)
	time.Sleep(time.Second)
	exist() // It has the cell asked.
	synctest.Wait()
	require.Zero(t, exist())
}

// TestACellThatHangs holds its calls up until it is asked whether it is up, and no others.
func TestACellThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, lost = 3, 1
		r, gates := gated(t, n)
		as := model.Caller{Client: clientID}
		keys := keysOf(n, 2)
		hangs := make(chan struct{})
		gates[lost].set(nil, hangs)
		done := make(chan []model.Result[bool])
		go func() {
			got, err := r.Exist(context.Background(), as, keys)
			if err != nil {
				got = nil
			}
			done <- got
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err := r.Ready(ctx)
		require.NoError(t, err)
		got := <-done
		require.Len(t, got, len(keys))
		for i, g := range got {
			require.Equal(t, cells.Of(keys[i], n) == lost, g.Err != nil, "%v", g.Err)
		}
		close(hangs)
		time.Sleep(2 * time.Second)
		_, err = r.Exist(t.Context(), as, keys)
		require.NoError(t, err)
		synctest.Wait()
		got, err = r.Exist(t.Context(), as, keys)
		require.NoError(t, err)
		for _, g := range got {
			require.NoError(t, g.Err)
		}
	})
}

// TestNoCellAnswers: the call as a whole fails, as with one master.
func TestNoCellAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, gates := gated(t, 3)
		for _, g := range gates {
			g.set(errCut, nil)
		}
		keys := keysOf(3, 2)
		_, err := r.Exist(t.Context(), model.Caller{}, keys)
		require.Equal(t, errs.RPCFail, errs.CodeOf(err), "%v", err)
		_, err = r.Exist(t.Context(), model.Caller{}, keys[:1])
		require.Equal(t, errs.RPCFail, errs.CodeOf(err), "%v", err)
		_, err = r.Ready(t.Context())
		require.Equal(t, errs.RPCFail, errs.CodeOf(err), "%v", err)
		_, err = r.Ping(t.Context(), clientID, model.PingReport{})
		require.Equal(t, errs.RPCFail, errs.CodeOf(err), "%v", err)
		synctest.Wait()
	})
}

// TestPingsOfSeveralCells: the process has a right to write as long as all cells answer where it may have puts; a cell that does
// not for long takes no puts any more.
func TestPingsOfSeveralCells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, lost = 3, 0
		r, gates := gated(t, n)
		ctx := t.Context()
		ping := func() model.PingReply {
			reply, err := r.Ping(ctx, clientID, model.PingReport{})
			require.NoError(t, err)
			synctest.Wait()
			return reply
		}
		put := func() (failed []int) {
			var items []model.PutItem
			for i, k := range keysOf(n, 1) {
				items = append(items, model.PutItem{Key: fmt.Sprint(k), Size: uint64(i + 1)})
			}
			got, err := r.PutStart(ctx, model.Caller{Client: clientID}, items, model.DefaultReplicateConfig(), nil)
			require.NoError(t, err)
			for i, g := range got {
				if g.Err != nil && !errs.Is(g.Err, errs.ObjectAlreadyExists) {
					failed = append(failed, cells.Of(items[i].Key, n))
				}
			}
			return failed
		}
		require.Equal(t, model.ClientNeedRemount, ping().Status)
		require.NoError(t, r.RemountSegments(ctx, clientID, nil))
		reply := ping()
		require.Equal(t, model.ClientOK, reply.Status)
		require.False(t, reply.Partial)
		var epochs []uint64
		for _, g := range gates {
			one, err := g.Master.Ping(ctx, clientID, model.PingReport{})
			require.NoError(t, err)
			epochs = append(epochs, one.Epoch)
		}
		require.Equal(t, slices.Min(epochs), reply.Epoch, "puts of earlier epochs are over in all cells")
		require.Equal(t, slices.Max(epochs), reply.Newest())
		gates[lost].set(errCut, nil)
		for range 20 {
			reply = ping()
			require.True(t, reply.Partial)
			require.Error(t, reply.Of(lost).Err)
			require.NoError(t, reply.Of(1).Err)
			time.Sleep(time.Second)
		}
		time.Sleep(6 * time.Second)
		require.False(t, ping().Partial, "no put of this process has a right to write there any more")
		gates[lost].set(nil, nil)
		time.Sleep(time.Second)
		put()
		synctest.Wait()
		require.Equal(t, []int{lost}, put(), "it answers, and has not answered a ping")
		ping()
		ping()
		require.Empty(t, put())
	})
}

// TestThePoolHasNoEpochBeforeAllCellsHave: a process says of the lowest epoch that its earlier puts are over. A cell that has
// not answered yet may have a lower one, and one that has fallen silent keeps its own.
func TestThePoolHasNoEpochBeforeAllCellsHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 3
		r, gates := gated(t, n)
		var epochs []uint64
		for _, g := range gates {
			one, err := g.Master.Ping(t.Context(), clientID, model.PingReport{})
			require.NoError(t, err)
			require.NotZero(t, one.Epoch)
			epochs = append(epochs, one.Epoch)
		}
		last := slices.Index(epochs, slices.Min(epochs))
		epoch := func() uint64 {
			reply, err := r.Ping(t.Context(), clientID, model.PingReport{})
			require.NoError(t, err)
			require.Positive(t, reply.Newest())
			return reply.Epoch
		}
		gates[last].set(errCut, nil)
		require.Zero(t, epoch())
		time.Sleep(time.Minute)
		require.Zero(t, epoch(), "the cell is down")
		gates[last].set(nil, nil)
		require.Eventually(t, func() bool { return epoch() == epochs[last] }, time.Minute, time.Second)
		gates[last].set(errCut, nil)
		for range 60 {
			require.Equal(t, epochs[last], epoch())
			time.Sleep(time.Second)
		}
	})
}

// TestNodesAttachAtTheCells: the Router has no ledgers, so that a node that does not know the cells mounts without.
func TestNodesAttachAtTheCells(t *testing.T) {
	synctest.Test(t, nodesAttachAtTheCells)
}

func nodesAttachAtTheCells(t *testing.T) {
	r, _ := gated(t, 3)
	_, err := r.Attach(t.Context(), nodeID, nil)
	require.Equal(t, errs.NotSupported, errs.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "etcd://")
	var segs []model.Segment
	for i := range 12 {
		segs = append(segs, segmentOf(100+i))
	}
	other := model.ClientID{Hi: 9}
	require.NoError(t, r.MountSegment(t.Context(), other, segs[0]))
	time.Sleep(2 * time.Minute) // Until no reader of a master before can be there.
	require.NoError(t, r.RemountSegments(t.Context(), other, segs))
	list, err := r.Segments(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 3+len(segs))
	hosts, err := r.QueryHosts(t.Context(), []model.ClientID{other, nodeID})
	require.NoError(t, err)
	require.Len(t, hosts, 2)
	for _, s := range segs {
		require.NoError(t, r.UnmountSegment(t.Context(), other, s.ID, 0))
	}
	list, err = r.Segments(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 3)
}

// TestTasksOfSeveralCells: a task is found wherever it is, and a node gets no more tasks than it asks for.
func TestTasksOfSeveralCells(t *testing.T) {
	r, gates := gated(t, 3)
	ctx, as := t.Context(), model.Caller{Client: clientID}
	for i, g := range gates {
		require.NoError(t, g.MountSegment(ctx, nodeID, segmentOf(100+i)))
	}
	ids := map[model.TaskID]bool{}
	for _, k := range keysOf(3, 2) {
		got, err := r.PutStart(ctx, as, []model.PutItem{{Key: k, Size: 10}}, model.DefaultReplicateConfig(), nil)
		require.NoError(t, err)
		require.NoError(t, got[0].Err)
		ended, err := r.PutEnd(ctx, as, []model.EndItem{{Key: k, Put: got[0].Value[0].ID}}, nil)
		require.NoError(t, err)
		require.NoError(t, errors.Join(ended...))
		at := segmentOf(cells.Of(k, 3)).Name
		to := segmentOf(100 + cells.Of(k, 3)).Name
		for _, p := range got[0].Value[0].Parts {
			if p.Segment == to {
				at, to = to, at
			}
		}
		id, err := r.CreateTask(ctx, as, model.TaskSpec{Kind: model.CopyObject, Key: k, Source: at, Targets: []string{to}})
		require.NoError(t, err)
		ids[id] = true
	}
	fetched := 0
	for fetched < len(ids) {
		got, err := r.FetchTasks(ctx, model.Caller{Client: nodeID}, 4)
		require.NoError(t, err)
		require.NotEmpty(t, got)
		require.LessOrEqual(t, len(got), 4)
		for _, a := range got {
			require.True(t, ids[a.ID])
			require.NoError(t, r.CompleteTask(ctx, model.Caller{Client: nodeID}, a.ID, model.TaskFailed, "no"))
			task, err := r.QueryTask(ctx, a.ID)
			require.NoError(t, err)
			require.Equal(t, model.TaskFailed, task.Status)
		}
		fetched += len(got)
	}
	_, err := r.QueryTask(ctx, model.TaskID{Hi: 7})
	require.Equal(t, errs.TaskNotFound, errs.CodeOf(err))
}
