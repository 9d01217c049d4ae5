//go:build linux && amd64 && !race

package store_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/mooncake-go/mooncake/core/api/mastercodec"
	"github.com/mooncake-go/mooncake/core/internal/boottime"
	"github.com/mooncake-go/mooncake/core/internal/testkit/steps"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// TestSteppedProcess is no test but the process whose instructions TestInstructions counts.
func TestSteppedProcess(t *testing.T) {
	kernel := os.Getenv(steppedKernel)
	if kernel == "" {
		t.Skip("TestInstructions runs it")
	}
	boottime.Steady()
	var rows []steps.Row
	if kernel == "portable" { // To these rows the kernel makes no difference, or hardly any.
		rows = append(codecRows(t), masterRows(t)...)
		rows = append(rows, clientRows(t, kernel, 4<<10)...)
	} else if name, _, _ := crc32c.Kernel(); name == kernel { // else the processor has none of the name
		rows = clientRows(t, kernel, 64<<10)
	}
	require.NoError(t, steps.Serve(rows))
}

// codecRows encode and decode the calls of a put and a get of 16 keys, request and answer.
func codecRows(t *testing.T) []steps.Row {
	const n = 4
	var rows []steps.Row
	for _, call := range messages(n) {
		name := fmt.Sprintf("of %d keys", n)
		codec := mastercodec.Codec{Places: &mastercodec.Places{}}
		buf, wire, into := make([]byte, 0, 1<<16), make([][]byte, len(call)), make([]proto.Message, len(call))
		for i, m := range call {
			var err error
			wire[i], err = codec.Append(nil, m)
			require.NoError(t, err)
			into[i] = m.ProtoReflect().New().Interface()
		}
		name = fmt.Sprintf("%s %s", call[0].ProtoReflect().Descriptor().Name(), name)
		rows = append(rows, steps.Row{Name: "codec, encode " + name, Call: func() {
			for _, m := range call {
				if _, err := codec.Append(buf, m); err != nil {
					t.Error(err)
				}
			}
		}}, steps.Row{Name: "codec, decode " + name, Call: func() {
			for i, b := range wire {
				if err := codec.Decode(b, into[i]); err != nil {
					t.Error(err)
				}
			}
		}})
	}
	return rows
}

// messages are calls with n keys, each a request and its answer.
func messages(n int) [][]proto.Message {
	keys, numbers, ones := make([][]byte, n), make([]uint64, n), make([]uint32, n)
	for i := range n {
		keys[i], numbers[i], ones[i] = fmt.Appendf(nil, "%040d", i), uint64(i)<<20, 1
	}
	caller := &masterv1.Caller{Client: &masterv1.UUID{Hi: 1, Lo: 2}}
	replicas := &masterv1.Replicas{
		Places: []*masterv1.Place{{Segment: &masterv1.UUID{Hi: 1}, Name: "n:1", Endpoint: "n:1", Protocol: "tcp"}},
		Counts: ones, Ids: numbers, Place: make([]uint32, n), Addresses: numbers, Sizes: numbers, Statuses: make([]int32, n),
	}
	return [][]proto.Message{
		{&masterv1.ExistRequest{Keys: keys, Caller: caller}, &masterv1.ExistResponse{Exist: make([]bool, n)}},
		{&masterv1.GetReplicasRequest{Keys: keys, Caller: caller},
			&masterv1.GetReplicasResponse{Replicas: replicas, Sizes: numbers, ChecksumKinds: ones, Checksums: numbers, LeaseTtlsUs: numbers}},
		{&masterv1.PutStartRequest{Caller: caller, Keys: keys, Sizes: numbers, Config: &masterv1.ReplicateConfig{ReplicaNum: 1}},
			&masterv1.PutStartResponse{Replicas: replicas}},
		{&masterv1.PutEndRequest{Caller: caller, Keys: keys, ChecksumKinds: ones, Checksums: numbers, Puts: numbers}, &masterv1.PutEndResponse{}},
	}
}

// masterRows look keys up in a master.
func masterRows(t *testing.T) []steps.Row {
	p, m := steppedPool(t)
	ctx := context.Background()
	keys := make([]model.Key, 16)
	for i := range keys {
		keys[i] = fmt.Sprintf("%040d", i)
		require.NoError(t, m.Put(ctx, keys[i], content(keys[i], 4<<10), one))
	}
	var rows []steps.Row
	for _, n := range []int{1, len(keys)} {
		rows = append(rows, steps.Row{Name: fmt.Sprintf("master, Exist of %d keys", n), Call: func() {
			if found, err := p.master.current().Exist(ctx, model.Caller{}, keys[:n]); err != nil || !found[n-1].Value {
				t.Error(found, err)
			}
		}}, steps.Row{Name: fmt.Sprintf("master, GetReplicas of %d keys", n), Call: func() {
			if found, err := p.master.current().GetReplicas(ctx, model.Caller{}, keys[:n], nil); err != nil || found[n-1].Err != nil {
				t.Error(found, err)
			}
		}})
	}
	return rows
}

// clientRows are a put and a get of a client with memory of its own, with the master in the same process: the calls of
// the client, the turns of the master, and a copy with its checksum.
func clientRows(t *testing.T, kernel string, size int) []steps.Row {
	_, m := steppedPool(t)
	ctx := context.Background()
	p := newPages(t, m, 1, size)
	name := fmt.Sprintf("of %d KiB by %s", size>>10, kernel)
	return []steps.Row{
		{Name: "put " + name, Before: func() { p.removeAny(ctx, m) }, Call: func() { p.put(ctx, t, m) }},
		{Name: "get " + name, Call: func() { p.get(ctx, t, m) }},
	}
}

func (p *pages) removeAny(ctx context.Context, m *member) { _ = m.BatchRemove(ctx, p.keys, true) }

// steppedPool is a pool whose node keeps no ledger: the end of a put would wait for the goroutine that fills it.
func steppedPool(t *testing.T) (*pool, *member) {
	p := newPool(t, nil)
	return p, p.member("a:1", memberOptions{segments: []uint64{segment}, master: noLedger{p.master}})
}

// noLedger is a master of a version that has no ledgers.
type noLedger struct{ store.Master }

func (noLedger) Attach(context.Context, model.ClientID, []model.LedgerState) (model.Attached, error) {
	return model.Attached{}, errs.New(errs.NotSupported, "attach", "this master keeps no ledgers")
}
