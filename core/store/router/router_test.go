package router_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/cells"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/router"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type host struct{}

func (host) Logger() *slog.Logger { return slog.New(slog.DiscardHandler) }

func (host) Report(plugin.Health) {}

const page = 64 << 10

var nodeID, clientID = model.ClientID{Hi: 1}, model.ClientID{Hi: 2}

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
