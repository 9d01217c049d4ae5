package shm

import (
	"bytes"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestChurn: regions come and go while peers write them over paths that come and go. Memory
// that was given back is never written again, and failures are of the one class that says so.
func TestChurn(t *testing.T) {
	const size, regions, writers, rounds = 64 << 10, 3, 3, 15
	server, client := fresh(t), fresh(t)
	var keys [regions]atomic.Pointer[transport.Key]
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var wrote atomic.Uint64
	write := func(mine int) error {
		buf, dst := bytes.Repeat([]byte{byte(mine)}, size), make([]transport.Completion, 1)
		for i := 0; ; i++ {
			p, err := client.Dial(t.Context(), server.Endpoint())
			if err != nil {
				return err
			}
			for range 20 {
				select {
				case <-stop:
					return p.Close(t.Context())
				default:
				}
				key := keys[i%regions].Load()
				if key == nil {
					continue
				}
				id, err := p.Import(t.Context(), *key)
				if err != nil {
					return err
				}
				if _, err = p.Submit([]transport.Op{{Kind: transport.Write, Local: buf, Remote: id}}); err != nil {
					return err
				}
				if _, err = p.Reap(t.Context(), dst); err != nil {
					return err
				}
				switch {
				case dst[0].Status == transport.OK:
					wrote.Add(1)
				case dst[0].Class() != errs.ClassTransientPeer:
					return dst[0].Err
				}
			}
			if err := p.Close(t.Context()); err != nil {
				return err
			}
		}
	}
	failed := make(chan error, writers)
	for w := range writers {
		wg.Go(func() { failed <- write(w + 1) })
	}
	var owners sync.WaitGroup
	for i := range regions {
		mem, fd := sealed(t, size)
		owners.Go(func() {
			other := bytes.Repeat([]byte{0xee}, size)
			for round := range rounds {
				region := transport.RegionID(round*regions + i + 1)
				key, err := server.Register(t.Context(), transport.Region{ID: region, Mem: mem, FD: fd, Access: transport.AccessRemote})
				if err == nil {
					keys[i].Store(&key)
					for n := wrote.Load(); wrote.Load() < n+10 && len(failed) == 0; {
						runtime.Gosched()
					}
					err = server.Deregister(t.Context(), region)
				}
				if err != nil {
					t.Errorf("region %d: %v", i, err)
					return
				}
				copy(mem, other)
				for range 50 {
					if !bytes.Equal(mem, other) {
						t.Errorf("region %d was written after it was given back", i)
						return
					}
				}
			}
		})
	}
	owners.Wait()
	close(stop)
	wg.Wait()
	for range writers {
		require.NoError(t, <-failed)
	}
	require.NoError(t, client.Stop(t.Context()))
	require.Zero(t, server.Stats().Grants)
	require.Zero(t, client.Stats().Mappings)
}
