package app

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rpcclient "github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestBytesThatArriveLate: clients of upstream end a put without waiting for its bytes. The object is not read before they are
// there, and is removed if they do not come.
func TestBytesThatArriveLate(t *testing.T) {
	ctx, master := t.Context(), localMaster(t)
	cfg := nodeSettings(t, master, nil)
	n, err := OpenNode(ctx, cfg, builtins(), NodeOptions{Log: quiet})
	require.NoError(t, err)
	defer closeNode(t, n)
	writer, err := OpenEngine(ctx, cfg, builtins(), EngineOptions{Log: quiet})
	require.NoError(t, err)
	defer func() { require.NoError(t, writer.Close(context.Background())) }()
	m, err := rpcclient.Dial(master, rpcclient.Options{})
	require.NoError(t, err)
	defer m.Close() //nolint:errcheck // The test ends.
	upstream := model.Caller{Client: model.UUID{Hi: 0xe}, Upstream: true}
	start := func(key string) model.Replica {
		got, err := m.PutStart(ctx, upstream, []model.PutItem{{Key: key, Size: 1000}}, model.DefaultReplicateConfig(), nil)
		require.NoError(t, err)
		require.NoError(t, got[0].Err)
		return got[0].Value[0]
	}
	end := func(key string) {
		got, err := m.PutEnd(ctx, upstream, []model.EndItem{{Key: key}}, nil)
		require.NoError(t, err)
		require.NoError(t, got[0])
	}
	exists := func(key string) bool {
		got, err := m.Exist(ctx, model.Caller{}, []model.Key{key})
		require.NoError(t, err)
		require.NoError(t, got[0].Err)
		return got[0].Value
	}

	start("never")
	end("never")
	require.False(t, exists("never"))
	_, err = n.Client.Get(ctx, "never")
	require.Equal(t, errs.ObjectNotFound, errs.CodeOf(err))

	value := bytes.Repeat([]byte("late"), 250)
	at := start("late")
	var writing sync.WaitGroup
	writing.Go(func() {
		time.Sleep(50 * time.Millisecond) // The end comes first as a rule; the test holds in any order.
		_ = writer.Transfer.Transfer(ctx, []transfer.Request{{
			Kind: transport.Write, Local: value, Peer: at.Endpoint, Addr: at.Address, Deadline: time.Now().Add(time.Minute),
		}})
	})
	end("late")
	got, err := n.Client.Get(ctx, "late")
	writing.Wait()
	if err == nil {
		require.Equal(t, value, got)
	} else {
		require.Equal(t, errs.ObjectNotFound, errs.CodeOf(err), "a slow machine")
	}
}
