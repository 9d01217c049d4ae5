package rpc_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// TestRemoteEqualsLocal runs the same random calls against a master in this process and,
// through a client that cuts batches small, against one over gRPC.
func TestRemoteEqualsLocal(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		local := newTableMaster()
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer start(t, newTableMaster(), rpc.ServerOptions{}, ln)()
		client, err := rpc.Dial(ln.Addr().String(), rpc.Options{MaxItems: 3, MaxBytes: 200})
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
			"unmount": func(rt *rapid.T) {
				c, id := clients.Draw(rt, "client"), model.UUID{Lo: rapid.Uint64Range(0, 3).Draw(rt, "id")}
				both(func(m store.Master) (any, error) { return nil, m.UnmountSegment(ctx, c, id) })
			},
			"ping and segments": func(rt *rapid.T) {
				c := clients.Draw(rt, "client")
				both(func(m store.Master) (any, error) { return m.Ping(ctx, c) })
				both(func(m store.Master) (any, error) { return m.Segments(ctx) })
			},
			"put start": func(rt *rapid.T) {
				c, cfg := clients.Draw(rt, "client"), model.ReplicateConfig{ReplicaNum: rapid.Uint32Range(0, 3).Draw(rt, "replicas"), PreferredSegments: []string{"x:1"}}
				var items []model.PutItem
				for _, k := range keysGen.Draw(rt, "keys") {
					items = append(items, model.PutItem{Key: k, Size: rapid.Uint64().Draw(rt, "size")})
				}
				both(func(m store.Master) (any, error) { return m.PutStart(ctx, c, items, cfg) })
			},
			"put end": func(rt *rapid.T) {
				c := clients.Draw(rt, "client")
				var items []model.EndItem
				for _, k := range keysGen.Draw(rt, "keys") {
					// One checksum a key: repeats in one batch would depend on the cuts.
					items = append(items, model.EndItem{Key: k, Checksum: model.Checksum{Kind: model.ChecksumKind(len(k)), Value: uint64(len(k))}, Put: puts.Draw(rt, "put")})
				}
				both(func(m store.Master) (any, error) { return m.PutEnd(ctx, c, items) })
			},
			"revoke": func(rt *rapid.T) {
				c := clients.Draw(rt, "client")
				var items []model.RevokeItem
				for _, k := range keysGen.Draw(rt, "keys") {
					items = append(items, model.RevokeItem{Key: k, Put: puts.Draw(rt, "put")})
				}
				both(func(m store.Master) (any, error) { return m.PutRevoke(ctx, c, items) })
			},
			"exist and get": func(rt *rapid.T) {
				keys := keysGen.Draw(rt, "keys")
				both(func(m store.Master) (any, error) { return m.Exist(ctx, keys) })
				both(func(m store.Master) (any, error) { return m.GetReplicas(ctx, keys) })
			},
			"remove": func(rt *rapid.T) {
				keys, force := keysGen.Draw(rt, "keys"), rapid.Bool().Draw(rt, "force")
				both(func(m store.Master) (any, error) { return m.Remove(ctx, keys, force) })
			},
			"remove by regex": func(rt *rapid.T) {
				expr := rapid.SampledFrom([]string{"a", "^b$", "(", "\xff"}).Draw(rt, "expr")
				both(func(m store.Master) (any, error) { return m.RemoveByRegex(ctx, expr, true) })
			},
			"list": func(rt *rapid.T) {
				after, limit := keyGen.Draw(rt, "after"), rapid.IntRange(0, 4).Draw(rt, "limit")
				both(func(m store.Master) (any, error) { return m.ListKeys(ctx, "", after, limit) })
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
