package pluginhost

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest/reference"
)

func TestATierInProcess(t *testing.T) {
	c := catalog(t, []plugin.Factory{reference.Factory()})
	id := reference.Factory().Manifest().ID
	x, err := c.OpenTier(t.Context(), id, Spec{Config: map[string]any{"capacity": 4 << 20}}, TierOptions{})
	require.NoError(t, err)
	require.NoError(t, x.Start(t.Context(), newListener()))
	assert.EqualValues(t, 4<<20, x.Volume().Capacity)
	require.Len(t, c.Instances(), 1)
	assert.Equal(t, plugin.StateOK, c.Instances()[0].State)
	require.NoError(t, x.Stop(t.Context()))
	assert.Empty(t, c.Instances())
	_, err = c.Open(t.Context(), id, Spec{Config: map[string]any{"capacity": -1}}, Supervision{})
	assert.ErrorContains(t, err, "capacity")
	_, err = c.OpenTier(t.Context(), lru(), Spec{}, TierOptions{})
	assert.ErrorContains(t, err, "kind tier is needed")
}

// tierRig is a tier in a process, with one region.
type tierRig struct {
	tier.Tier
	t   *testing.T
	c   *Catalog
	mem []byte
}

func startTier(t *testing.T, config map[string]any) *tierRig {
	t.Helper()
	c := catalog(t, nil, faultyDir)
	x, err := c.OpenTier(t.Context(), faultyTier, Spec{Config: config}, TierOptions{Supervision: quick()})
	require.NoError(t, err)
	require.NoError(t, x.Start(t.Context(), newListener()))
	mem, fd := tiertest.SealedMemory(t, 1<<16)
	t.Cleanup(func() { assert.NoError(t, x.Stop(context.Background())) })
	require.NoError(t, x.Register(t.Context(), tier.Region{ID: 7, Mem: mem, FD: fd}))
	return &tierRig{x, t, c, mem}
}

// write is the Write of a value of 4096 bytes.
func (r *tierRig) write(id uint64, key string) tier.Op {
	return tier.Op{ID: id, Kind: tier.Write, Record: tier.Record{Key: []byte(key), Size: 4096}, Local: [][]byte{r.mem[:4096]}}
}

func (r *tierRig) submit(o tier.Op) {
	r.t.Helper()
	n, err := r.Submit([]tier.Op{o})
	require.NoError(r.t, err)
	require.Equal(r.t, 1, n)
}

func (r *tierRig) reap() tier.Completion {
	r.t.Helper()
	dst := make([]tier.Completion, 2)
	n, err := r.Reap(r.t.Context(), dst)
	require.NoError(r.t, err)
	require.Equal(r.t, 1, n)
	return dst[0]
}

// TestATierSurvivesItsProcess: what is in flight fails once the process is gone, and the region is
// there in the next process.
func TestATierSurvivesItsProcess(t *testing.T) {
	r := startTier(t, nil)
	pid, volume := r.c.Instances()[0].PID, r.Volume()
	copy(r.mem, "kept")
	r.submit(r.write(1, "kept"))
	kept := r.reap()
	require.Equal(t, tier.OK, kept.Status, "%v", kept.Err)
	r.submit(r.write(2, "hang"))
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := r.Deregister(short, 7)
	require.ErrorIs(t, err, errs.RPCTimeout.Err(), "the process may touch the memory")
	require.ErrorContains(t, err, "must not be used")

	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	lost := r.reap()
	assert.True(t, gone(pid), "the operation ends after the process")
	assert.EqualValues(t, 2, lost.ID)
	assert.Equal(t, tier.Failed, lost.Status)
	require.ErrorIs(t, lost.Err, errs.UnavailableInCurrentStatus.Err())
	require.NoError(t, r.Deregister(t.Context(), 7))
	eventually(t, "a new process", func() bool {
		in := r.c.Instances()[0]
		return in.State == plugin.StateOK && in.PID != pid
	})
	assert.NotEqual(t, volume.ID, r.Volume().ID, "it keeps records in memory only")
	_, err = r.Submit([]tier.Op{r.write(3, "other")})
	require.ErrorIs(t, err, errs.InvalidParams.Err(), "the region was deregistered")
}

// TestATierGetsItsRegionsBack: the next process has the regions that are registered. Between the
// processes every call says that the tier is unavailable.
func TestATierGetsItsRegionsBack(t *testing.T) {
	lock := filepath.Join(t.TempDir(), "lock")
	r := startTier(t, map[string]any{"lock": lock})
	volume := r.Volume()
	pid := r.c.Instances()[0].PID
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL)) // The lock stays: no process can start.
	eventually(t, "the end of the process", func() bool { return r.c.Instances()[0].PID != pid && gone(pid) })
	_, submit := r.Submit([]tier.Op{r.write(1, "a")})
	_, stats := r.Stats(t.Context())
	for _, err := range []error{submit, stats, r.Flush(t.Context()), r.Forget(t.Context(), nil), r.Register(t.Context(), tier.Region{ID: 8, Mem: r.mem})} {
		require.ErrorIs(t, err, errs.UnavailableInCurrentStatus.Err())
	}
	assert.Equal(t, volume, r.Volume(), "the last answer")
	require.NoError(t, os.Remove(lock))
	if r.c.Instances()[0].State != plugin.StateOK { // Its restarts may be spent.
		_, err := r.c.Reload(t.Context(), faultyTier)
		require.NoError(t, err)
	}
	r.submit(r.write(2, "b"))
	c := r.reap()
	assert.Equal(t, tier.OK, c.Status, "%v", c.Err)
	assert.EqualValues(t, 2, c.ID)
}

// TestTiersAreReplacedInTurn: a Reload never runs two processes on one volume.
func TestTiersAreReplacedInTurn(t *testing.T) {
	r := startTier(t, map[string]any{"lock": filepath.Join(t.TempDir(), "lock")})
	pid := r.c.Instances()[0].PID
	in, err := r.c.Reload(t.Context(), faultyTier)
	require.NoError(t, err)
	assert.NotEqual(t, pid, in.PID)
	assert.True(t, gone(pid))
	r.submit(r.write(1, "a"))
	assert.Equal(t, tier.OK, r.reap().Status)
}

// TestAStoppedTier gives out what is left and then says that it is stopped.
func TestAStoppedTier(t *testing.T) {
	r := startTier(t, nil)
	r.submit(r.write(1, "a"))
	require.NoError(t, r.Stop(t.Context()))
	assert.EqualValues(t, 1, r.reap().ID)
	_, err := r.Reap(t.Context(), make([]tier.Completion, 1))
	require.ErrorIs(t, err, tier.ErrStopped)
	require.ErrorIs(t, r.Deregister(t.Context(), 7), errs.UnavailableInCurrentStatus.Err())
}
