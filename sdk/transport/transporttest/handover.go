package transporttest

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// polls polls for answers on paths that offer Extras.Poll, with and without other pollers.
func (s *suite) polls(t conformance.T) {
	server, client := s.start(t), s.start(t)
	mem, key := s.register(t, server, 1, 64<<10, transport.AccessRemote)
	p, ids := dial(t, client, server, key)
	poll := transport.ExtrasOf(p).Poll
	if poll == nil {
		return
	}
	var late atomic.Int32
	returns := func() {
		over := false
		var mu sync.Mutex
		done := make(chan struct{})
		go func() {
			defer close(done)
			poll(func() bool {
				mu.Lock()
				defer mu.Unlock()
				if over {
					late.Add(1)
				}
				return false
			})
			mu.Lock()
			defer mu.Unlock()
			over = true
		}()
		select {
		case <-done:
		case <-time.After(conformance.Patience(t)):
			require.Fail(t, "Poll did not return")
		}
	}
	returns() // Nothing is in flight.
	buf := s.local(t, client, 1, 16<<10)
	for i := range 100 {
		o := transport.Op{ID: uint64(i), Kind: transport.Read, Local: buf[:1+i*100], Remote: ids[0], Offset: uint64(i)}
		if i%2 == 0 {
			o.Kind = transport.Write
			fill(o.Local, uint64(i))
		}
		n, err := p.Submit([]transport.Op{o})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		returns()
		c := make([]transport.Completion, 2)
		n, err = p.Reap(within(t), c)
		require.NoError(t, err)
		require.Equal(t, 1, n, "an operation completes although a goroutine polls for it")
		require.Equal(t, transport.OK, c[0].Status, "%v", c[0].Err)
		require.True(t, bytes.Equal(o.Local, mem[i:][:len(o.Local)]))
	}

	var stop atomic.Bool
	var others sync.WaitGroup
	for range 3 {
		others.Go(func() {
			for !stop.Load() {
				poll(stop.Load)
				time.Sleep(time.Microsecond)
			}
		})
	}
	ops := make([]transport.Op, 200)
	for i := range ops {
		ops[i] = transport.Op{ID: uint64(i), Kind: transport.Read, Local: buf[i*64:][:64], Remote: ids[0], Offset: uint64(i * 64)}
	}
	for range 10 {
		for _, c := range do(t, p, ops...) {
			require.Equal(t, transport.OK, c.Status, "%v", c.Err)
		}
		require.True(t, bytes.Equal(buf[:len(ops)*64], mem[:len(ops)*64]))
	}
	stop.Store(true)
	others.Wait()
	require.NoError(t, p.Close(within(t)))
	closedWith(t, p)
	returns()
	require.Zero(t, late.Load(), "stop is not called after Poll returned")
}

// delivers takes some completions directly, on paths that offer Extras.Deliver.
func (s *suite) delivers(t conformance.T) {
	server, client := s.start(t), s.start(t)
	_, key := s.register(t, server, 1, 64<<10, transport.AccessRemote)
	p, err := client.Dial(within(t), server.Endpoint())
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close(within(t))) }()
	deliver := transport.ExtrasOf(p).Deliver
	if deliver == nil {
		return
	}
	const count = 300
	var mu sync.Mutex
	delivered := map[uint64]int{}
	refused := 0
	deliver(func(c transport.Completion) bool {
		mu.Lock()
		defer mu.Unlock()
		if c.ID%3 == 0 {
			refused++
			return false
		}
		delivered[c.ID]++
		return true
	})
	id, err := p.Import(within(t), key)
	require.NoError(t, err)
	buf := s.local(t, client, 1, 64)
	reaped := map[uint64]int{}
	took := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(delivered)
	}
	dst := make([]transport.Completion, 4)
	for i := range uint64(count) {
		o := transport.Op{ID: i, Kind: transport.Read, Local: buf, Remote: id}
		if i%10 == 1 {
			o.Deadline = time.Now().Add(-time.Second) // This one fails.
		}
		before := took()
		n, err := p.Submit([]transport.Op{o})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		if i%3 != 0 {
			require.Eventually(t, func() bool { return took() == before+1 }, conformance.Patience(t), 10*time.Microsecond, "the completion is delivered")
			continue
		}
		n, err = p.Reap(within(t), dst)
		require.NoError(t, err)
		require.Equal(t, 1, n, "Reap returns the completion that Deliver did not take")
		reaped[dst[0].ID]++
	}
	require.NoError(t, p.Close(within(t)))
	closedWith(t, p)
	require.Equal(t, count/3, refused)
	for i := range uint64(count) {
		require.Equal(t, 1, delivered[i]+reaped[i], "completions of %d", i)
		require.Equal(t, i%3 == 0, reaped[i] == 1, "of %d", i)
	}
}
