package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/bindings/engine"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

func TestTransferMovesBothWays(t *testing.T) {
	far, mem := opened(t, 3<<20)
	near := started(t)
	sent := pattern(1<<20+13, 3)
	half := len(sent) / 2
	require.NoError(t, near.Transfer(far.Name(), transport.Write, []engine.Range{
		{Local: sent[:half], Addr: at(mem, 5)}, {Local: nil, Addr: at(mem, 1)}, {Local: sent[half:], Addr: at(mem, 5+half)},
	}, nil))
	require.Equal(t, sent, mem[5:5+len(sent)])
	got := make([]byte, len(sent))
	require.NoError(t, near.Transfer("/"+far.Name(), transport.Read, []engine.Range{{Local: got, Addr: at(mem, 5)}}, nil))
	require.Equal(t, sent, got)
	require.NoError(t, far.Transfer(far.Name(), transport.Write, []engine.Range{{Local: []byte("own"), Addr: at(mem, 0)}}, nil))
	require.Equal(t, "own", string(mem[:3]))
	require.Error(t, near.Transfer(far.Name(), transport.Write, []engine.Range{{Local: sent, Addr: at(mem, len(mem)-1)}}, nil), "past the end")
	require.Error(t, near.Transfer("", transport.Write, nil, nil))
}

func TestNoticeComesAfterTheData(t *testing.T) {
	far, mem := opened(t, 4096)
	near := started(t)
	kind, list := write([]byte("data"), at(mem, 0))
	require.NoError(t, near.Transfer(far.Name(), kind, list, &engine.Notice{Name: "n", Message: "m\x00é"}))
	require.Equal(t, []engine.Notice{{Name: "n", Message: "m\x00é"}}, far.Notices())
	require.Equal(t, "data", string(mem[:4]))
	require.Empty(t, far.Notices(), "they were taken")

	_, bad := write([]byte("data"), at(mem, 4095))
	require.Error(t, near.Transfer(far.Name(), kind, bad, &engine.Notice{Name: "n"}))
	require.Empty(t, far.Notices(), "no data, no notice")
	require.NoError(t, near.Notify(far.Name(), engine.Notice{Name: "alone"}))
	require.Equal(t, "alone", far.Notices()[0].Name)
	require.Error(t, near.Notify("127.0.0.1:1", engine.Notice{}))
}

// A peer that dies is an error at once; one that comes back under its name works with the
// next call, however often it was called in between.
func TestDeadAndBack(t *testing.T) {
	near := started(t)
	// A port of its own: another process may have taken one that the kernel assigns when the
	// peer comes back.
	ports, err := cluster.FreePorts(1)
	require.NoError(t, err)
	name := fmt.Sprintf("127.0.0.1:%d", ports[0])
	far, mem := opened(t, 4096, func(o *engine.Options) { o.Name, o.KeepPort = name, true })
	require.Equal(t, name, far.Name())
	kind, list := write([]byte("hello"), at(mem, 0))
	require.NoError(t, near.Transfer(name, kind, list, nil))
	id, err := near.Submit(name, kind, list)
	require.NoError(t, err)
	require.NoError(t, near.Wait([]uint64{id}))
	far.Shut()
	for range 4 {
		require.Error(t, near.Transfer(name, kind, list, nil))
		id, err := near.Submit(name, kind, list)
		require.Error(t, err)
		require.Zero(t, id)
	}
	require.Error(t, near.Probe(name))
	require.NotEmpty(t, near.LastError())
	_, err = near.FirstBuffer(name)
	require.Error(t, err)

	back, again := opened(t, 4096, func(o *engine.Options) { o.Name, o.KeepPort = name, true })
	require.Equal(t, name, back.Name())
	kind, list = write([]byte("again"), at(again, 0))
	require.NoError(t, near.Transfer(name, kind, list, nil))
	require.Equal(t, "again", string(again[:5]))
	require.NoError(t, near.Probe(name))

	// Also if no call noticed that it was gone.
	back.Shut()
	_, again = opened(t, 4096, func(o *engine.Options) { o.Name, o.KeepPort = name, true })
	kind, list = write([]byte("third"), at(again, 0))
	require.NoError(t, near.Transfer(name, kind, list, nil))
	require.Equal(t, "third", string(again[:5]))
}

func TestBatches(t *testing.T) {
	far, mem := opened(t, 1<<20)
	near := started(t)
	sent := pattern(64<<10, 9)
	var ids []uint64
	for i := range 8 {
		kind, list := write(sent, at(mem, i*len(sent)))
		id, err := near.Submit(far.Name(), kind, list)
		require.NoError(t, err)
		require.NotZero(t, id)
		ids = append(ids, id)
	}
	require.NoError(t, near.Wait(ids[1:]))
	for i := 1; i < 8; i++ {
		require.Equal(t, sent, mem[i*len(sent):(i+1)*len(sent)])
		require.Equal(t, engine.Failed, near.Check(ids[i]), "it was freed")
	}
	require.Eventually(t, func() bool { return near.Check(ids[0]) == engine.Done }, time.Minute, time.Millisecond)
	require.Equal(t, engine.Failed, near.Check(ids[0]))

	kind, bad := write(sent, at(mem, len(mem)-1))
	id, err := near.Submit(far.Name(), kind, bad)
	require.NoError(t, err)
	_, good := write(sent, at(mem, 0))
	other, err := near.Submit(far.Name(), kind, good)
	require.NoError(t, err)
	require.Error(t, near.Wait([]uint64{id, other, 12345}))
	require.Equal(t, engine.Failed, near.Check(other), "all of them are freed")
	core, err := near.Core()
	require.NoError(t, err)
	require.Zero(t, core.Transfer.Stats().Batches)

	none, err := near.Submit(far.Name(), kind, nil)
	require.NoError(t, err)
	require.Equal(t, engine.Done, near.Check(none), "one of nothing is done at once")
	require.Equal(t, engine.Failed, near.Check(none), "and freed")
	_, err = near.Submit(far.Name(), kind, []engine.Range{{Local: sent, Addr: 1<<64 - 1}})
	require.Equal(t, errs.InvalidParams, errs.CodeOf(err))
	require.Zero(t, core.Transfer.Stats().Batches, "nothing stays of what was refused")
}

// A batch for which no call waits does not keep its engine from ending.
func TestShutWithABatchUnderWay(t *testing.T) {
	far, mem := opened(t, 1<<20)
	near := started(t)
	kind, list := write(pattern(1<<20, 1), at(mem, 0))
	_, err := near.Submit(far.Name(), kind, list)
	require.NoError(t, err)
	near.Shut()
}
