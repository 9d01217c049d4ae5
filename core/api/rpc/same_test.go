package rpc_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/api/rpc/server"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// TestRemoteEqualsLocal runs the same random calls against a master in this process and,
// through a client that cuts batches small, against one over the network.
func TestRemoteEqualsLocal(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		local := newTableMaster()
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer start(t, newTableMaster(), server.Options{}, ln)()
		client, err := client.Dial(ln.Addr().String(), over(client.Options{MaxItems: 3, MaxBytes: 200}))
		require.NoError(t, err)
		defer client.Close()
		both := func(f func(store.Master) (any, error)) {
			want, wantErr := f(local)
			got, gotErr := f(client)
			sameError(rt, wantErr, gotErr)
			assert.Equal(rt, shown(want), shown(got))
		}

		ctx := context.Background()
		keyGen := rapid.OneOf(rapid.SampledFrom([]string{"a", "b", "c", "\xff\x00", "päge/1", ""}), rapid.StringN(1, 8, 80))
		keysGen := rapid.SliceOfN(keyGen, 0, 12)
		clients := rapid.SampledFrom([]model.ClientID{{Hi: 1}, {Hi: ^uint64(0), Lo: ^uint64(0)}})
		tenants := rapid.SampledFrom([]string{"", "default", "pörk"})
		callers := rapid.Custom(func(t *rapid.T) model.Caller {
			return model.Caller{Client: clients.Draw(t, "client"), Tenant: tenants.Draw(t, "tenant")}
		})
		as := model.Caller{Client: model.ClientID{Hi: 1}}
		groups := rapid.SampledFrom([]string{"", "", "g", "grüppe"})
		kinds := rapid.SampledFrom([]model.CopyKind{model.CopyObject, model.MoveObject})
		names := rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"x:1", "y:2", "z:3"}), 0, 5), func(l []string) []string {
			return append([]string(nil), l...) // an empty list crosses the wire as nil
		})
		configs := rapid.Custom(func(t *rapid.T) model.ReplicateConfig {
			cfg := model.ReplicateConfig{
				Upsert: rapid.Bool().Draw(t, "upsert"), ReplicaNum: rapid.Uint32Range(0, 3).Draw(t, "replicas"), PreferredSegments: names.Draw(t, "preferred"),
				SameNode: rapid.Bool().Draw(t, "same node"), HostID: rapid.SampledFrom([]string{"", "10.0.0.1"}).Draw(t, "host"),
				HardPin: rapid.Bool().Draw(t, "hard"), DataType: model.DataType(rapid.Int32().Draw(t, "type")),
			}
			cfg.SoftPin.Action = model.SoftPinAction(rapid.Byte().Draw(t, "action"))
			if rapid.Bool().Draw(t, "with TTL") {
				ttl := rapid.SampledFrom([]time.Duration{0, time.Millisecond, 100 * time.Hour}).Draw(t, "ttl")
				cfg.SoftPin.TTL = &ttl
			}
			return cfg
		})
		puts := rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64Range(1, 6))
		rt.Repeat(map[string]func(*rapid.T){
			"mount": func(rt *rapid.T) {
				c := clients.Draw(rt, "client")
				s := model.Segment{
					ID: model.UUID{Lo: rapid.Uint64Range(0, 3).Draw(rt, "id")}, Name: "n:1", Base: rapid.Uint64().Draw(rt, "base"),
					Size: rapid.Uint64().Draw(rt, "size"), Endpoint: "e:2", Protocol: "tcp", HostID: "n",
				}
				both(func(m store.Master) (any, error) { return nil, m.MountSegment(ctx, c, s) })
				both(func(m store.Master) (any, error) { return nil, m.RemountSegments(ctx, c, []model.Segment{s, s}) })
			},
			"ledgers": func(rt *rapid.T) {
				c, id := clients.Draw(rt, "client"), model.UUID{Lo: rapid.Uint64Range(0, 3).Draw(rt, "id")}
				epoch, seq := rapid.Uint64Range(0, 2).Draw(rt, "epoch"), rapid.Uint64Range(0, 2).Draw(rt, "seq")
				states := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) model.LedgerState {
					return model.LedgerState{
						Segment: model.Segment{ID: id, Size: rapid.Uint64Range(0, 9).Draw(t, "size")}, Fence: epoch, Seq: seq,
						Lease: time.Duration(rapid.Uint16().Draw(t, "lease")) * time.Millisecond, Wiped: rapid.Bool().Draw(t, "wiped"), Puts: rapid.Uint64Range(0, 1).Draw(t, "puts"),
						Layout: rapid.Uint32Range(1, 3).Draw(t, "layout"),
					}
				}), 1, 4).Draw(rt, "states")
				both(func(m store.Master) (any, error) { return m.Attach(ctx, c, states) })
				r := model.LedgerReport{
					Segment: id, Epoch: epoch, Index: rapid.Uint32().Draw(rt, "index"), Last: rapid.Bool().Draw(rt, "last"), Seq: seq,
					Batch: rapid.SliceOfN(rapid.Byte(), 1, 9).Draw(rt, "batch"), Tail: rapid.Bool().Draw(rt, "tail"),
				}
				address := rapid.SampledFrom([]string{"", "m:1", "m:2"}).Draw(rt, "follower")
				both(func(m store.Master) (any, error) { return nil, m.Follow(ctx, address) })
				both(func(m store.Master) (any, error) { return nil, m.Report(ctx, c, r) })
				round := rapid.Uint64().Draw(rt, "round") >> 1
				both(func(m store.Master) (any, error) {
					return m.Pull(ctx, c, round, []model.LedgerAck{{Segment: id, Epoch: epoch, Seq: seq}})
				})
			},
			"unmount": func(rt *rapid.T) {
				c, id := clients.Draw(rt, "client"), model.UUID{Lo: rapid.Uint64Range(0, 3).Draw(rt, "id")}
				grace := rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Hour}).Draw(rt, "grace")
				both(func(m store.Master) (any, error) { return nil, m.UnmountSegment(ctx, c, id, grace) })
			},
			"ping and segments": func(rt *rapid.T) {
				c := clients.Draw(rt, "client")
				report := model.PingReport{Peers: []model.PeerReport{{
					Endpoint: "e:2", Done: rapid.Uint32().Draw(rt, "done"), Failed: rapid.Uint32().Draw(rt, "failed"),
					Bytes: rapid.Uint64().Draw(rt, "bytes"), Busy: time.Duration(rapid.Int32Min(0).Draw(rt, "busy")) * time.Microsecond,
				}}}
				both(func(m store.Master) (any, error) { return m.Ping(ctx, c, report) })
				both(func(m store.Master) (any, error) { return m.Segments(ctx) })
				both(func(m store.Master) (any, error) { return m.QueryHosts(ctx, []model.ClientID{{Hi: 1}, {}, {}, {}, c}) })
			},
			"put start": func(rt *rapid.T) {
				c, cfg := callers.Draw(rt, "caller"), configs.Draw(rt, "config")
				var items []model.PutItem
				for _, k := range keysGen.Draw(rt, "keys") {
					items = append(items, model.PutItem{Key: k, Size: rapid.Uint64Range(0, 1<<40).Draw(rt, "size"), Group: groups.Draw(rt, "group")})
				}
				both(func(m store.Master) (any, error) { return m.PutStart(ctx, c, items, cfg, nil) })
			},
			"put end": func(rt *rapid.T) {
				c := callers.Draw(rt, "caller")
				var items []model.EndItem
				for _, k := range keysGen.Draw(rt, "keys") {
					// One checksum a key: repeats in one batch would depend on the cuts.
					items = append(items, model.EndItem{Key: k, Checksum: model.Checksum{Kind: model.ChecksumKind(len(k)), Value: uint64(len(k))}, Put: puts.Draw(rt, "put"), Grains: make([]uint32, len(k)*len(k)/3)})
					for g := range items[len(items)-1].Grains {
						items[len(items)-1].Grains[g] = uint32(len(k) * (g + 1))
					}
				}
				both(func(m store.Master) (any, error) { return m.PutEnd(ctx, c, items, nil) })
			},
			"revoke": func(rt *rapid.T) {
				c := callers.Draw(rt, "caller")
				var items []model.RevokeItem
				for _, k := range keysGen.Draw(rt, "keys") {
					// One way a key: those in quarantine come last, and repeats would depend on that.
					items = append(items, model.RevokeItem{Key: k, Put: puts.Draw(rt, "put"), Quarantined: len(k)%2 == 0})
				}
				both(func(m store.Master) (any, error) { return m.PutRevoke(ctx, c, items) })
			},
			"exist and get": func(rt *rapid.T) {
				keys := keysGen.Draw(rt, "keys")
				both(func(m store.Master) (any, error) { return m.Exist(ctx, as, keys) })
				into := &model.Answer[model.Object]{WithGrains: rapid.Bool().Draw(rt, "with grains")}
				both(func(m store.Master) (any, error) { return m.GetReplicas(ctx, as, keys, into) })
			},
			"remove": func(rt *rapid.T) {
				keys, force := keysGen.Draw(rt, "keys"), rapid.Bool().Draw(rt, "force")
				both(func(m store.Master) (any, error) { return m.Remove(ctx, as, keys, force) })
			},
			"remove by regex": func(rt *rapid.T) {
				expr := rapid.SampledFrom([]string{"a", "^b$", "(", "\xff"}).Draw(rt, "expr")
				both(func(m store.Master) (any, error) { return m.RemoveByRegex(ctx, as, expr, true) })
			},
			"list": func(rt *rapid.T) {
				after, limit := keyGen.Draw(rt, "after"), rapid.IntRange(0, 4).Draw(rt, "limit")
				both(func(m store.Master) (any, error) { return m.ListKeys(ctx, as, "", after, limit) })
				both(func(m store.Master) (any, error) {
					keys, objects, err := m.GetReplicasByRegex(ctx, as, "", after, limit)
					return []any{shown(keys), shown(objects)}, err
				})
			},
			"clear": func(rt *rapid.T) {
				keys, owner := keysGen.Draw(rt, "keys"), clients.Draw(rt, "owner")
				both(func(m store.Master) (any, error) { return m.ClearReplicas(ctx, as, keys, owner, "x:1") })
			},
			"why": func(rt *rapid.T) {
				key, c := keyGen.Draw(rt, "key"), callers.Draw(rt, "caller")
				both(func(m store.Master) (any, error) { return m.Why(ctx, c, key) })
			},
			"copy": func(rt *rapid.T) {
				key, c, kind := keyGen.Draw(rt, "key"), callers.Draw(rt, "caller"), kinds.Draw(rt, "kind")
				source, targets := rapid.SampledFrom([]string{"", "x:1", "?"}).Draw(rt, "source"), names.Draw(rt, "targets")
				both(func(m store.Master) (any, error) { return m.CopyStart(ctx, c, kind, key, source, targets) })
				both(func(m store.Master) (any, error) { return m.Why(ctx, c, key) })
			},
			"end of copy": func(rt *rapid.T) {
				key, c, kind := keyGen.Draw(rt, "key"), callers.Draw(rt, "caller"), kinds.Draw(rt, "kind")
				both(func(m store.Master) (any, error) { return nil, m.CopyEnd(ctx, c, kind, key) })
				both(func(m store.Master) (any, error) { return nil, m.CopyRevoke(ctx, c, kind, key) })
			},
			"task": func(rt *rapid.T) {
				c, limit := callers.Draw(rt, "caller"), rapid.IntRange(-1, 3).Draw(rt, "limit")
				spec := model.TaskSpec{
					Kind: kinds.Draw(rt, "kind"), Tenant: tenants.Draw(rt, "tenant"), Key: keyGen.Draw(rt, "key"), Source: "x:1", Targets: names.Draw(rt, "targets"),
				}
				both(func(m store.Master) (any, error) { return m.CreateTask(ctx, c, spec) })
				both(func(m store.Master) (any, error) { return m.FetchTasks(ctx, c, max(limit, 0)) })
			},
			"complete": func(rt *rapid.T) {
				c, id := callers.Draw(rt, "caller"), model.TaskID{Hi: 9, Lo: rapid.Uint64Range(0, 5).Draw(rt, "id")}
				status := rapid.SampledFrom([]model.TaskStatus{model.TaskFailed, model.TaskSuccess, 99, -1}).Draw(rt, "status")
				both(func(m store.Master) (any, error) { return nil, m.CompleteTask(ctx, c, id, status, "why not") })
				both(func(m store.Master) (any, error) { return m.QueryTask(ctx, id) })
			},
		})
	})
}

// shown replaces errors by what must survive the wire, and an empty list by nil.
func shown(v any) any {
	switch v := v.(type) {
	case []error:
		out := []string{}
		for _, err := range v {
			out = append(out, describe(err))
		}
		return out
	case []model.Result[bool]:
		return results(v)
	case []model.Result[model.Object]:
		return results(v)
	case []model.Result[[]model.Replica]:
		return results(v)
	case []model.SegmentInfo:
		return append([]model.SegmentInfo{}, v...)
	case []model.Assignment:
		return append([]model.Assignment{}, v...)
	case []model.Key:
		return append([]model.Key{}, v...)
	}
	return v
}

func results[T any](in []model.Result[T]) any {
	type pair struct {
		value any
		err   string
	}
	out := []pair{}
	for _, r := range in {
		out = append(out, pair{r.Value, describe(r.Err)})
	}
	return out
}

func describe(err error) string {
	if err == nil {
		return ""
	}
	return errs.CodeOf(err).String() + " " + errs.ClassOf(err).String() + " " + strings.ToValidUTF8(err.Error(), "\uFFFD")
}

func sameError(t require.TestingT, want, got error) {
	if describe(want) != describe(got) {
		t.Errorf("error over the wire: want %q, got %q", describe(want), describe(got))
	}
}
