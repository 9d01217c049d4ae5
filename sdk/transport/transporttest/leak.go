package transporttest

import (
	"context"
	"runtime"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

const (
	leakRounds = 10
	leakSize   = 1 << 20
)

// holds counts the resources of this process and of the processes of transports, if any.
func (s *suite) holds() rig.Usage {
	if s.processes == nil {
		return rig.Here()
	}
	theirs, _ := rig.Of(s.processes()...)
	sum := rig.Usage{}
	for what, n := range theirs {
		sum["of the plugin's processes: "+what] = n
	}
	for what, n := range rig.Here() {
		sum["of the host: "+what] = n
	}
	return sum
}

// leakRunning counts over rounds of everything that can be given back to a transport that
// goes on.
func (s *suite) leakRunning(t conformance.T) {
	server, client := s.start(t), s.start(t)
	shared, buf := s.memory(t, leakSize), make([]byte, leakSize)
	local := !s.f.Manifest().Has(transport.CapLocalAny)
	round := func() {
		key, err := server.Register(within(t), s.region(1, shared, transport.AccessRemote))
		require.NoError(t, err)
		if local {
			_, err := client.Register(within(t), s.region(1, buf, transport.AccessLocal))
			require.NoError(t, err)
		}
		p, err := client.Dial(within(t), server.Endpoint())
		require.NoError(t, err)
		id, err := p.Import(within(t), key)
		require.NoError(t, err)
		must(t, p, transport.Op{ID: 1, Kind: transport.Write, Local: buf, Remote: id})
		must(t, p, transport.Op{ID: 2, Kind: transport.Read, Local: buf, Remote: id})
		require.NoError(t, p.Close(within(t)))
		require.NoError(t, server.Deregister(within(t), 1))
		if local {
			require.NoError(t, client.Deregister(within(t), 1))
		}
	}
	resident := func() int64 {
		if s.processes == nil {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc) //nolint:gosec // Far below.
		}
		n, err := rig.Resident(s.processes()...)
		require.NoError(t, err)
		return n
	}
	for range 3 { // Warm up: some resources are created once and kept.
		round()
	}
	before, size := s.holds(), resident()
	for range leakRounds {
		round()
	}
	rig.Released(t, s.holds, before, leakRounds, s.settle)
	grown := resident() - size
	s.noMoreMemory(t, resident, round)
	if s.processes != nil {
		s.noMoreGoroutines(t, round, server, client)
		conformance.AddFigure(t, "memory the processes grew by in 10 rounds of 1 MiB", float64(grown)/(1<<20), "MiB")
	}
}

// noMoreMemory fails if the processes grow in each of several batches of rounds: what a garbage collector has not freed yet does not grow for long.
func (s *suite) noMoreMemory(t conformance.T, resident func() int64, round func()) {
	const most, batches = leakRounds * leakSize, 4
	last := resident()
	for range batches {
		for range leakRounds {
			round()
		}
		now := resident()
		if now-last < most {
			return
		}
		last = now
	}
	t.Fatalf("memory grows by more than %d MiB in each %d rounds of Dial and Close, Register and Deregister", most>>20, leakRounds)
}

// counting is a transport in a process of its own that tells the number of goroutines there; 0 where there are none.
type counting interface {
	Goroutines(ctx context.Context) (uint64, error)
}

// goroutines returns the number of goroutines of the processes of transports.
func (s *suite) goroutines(t conformance.TB, of ...transport.Transport) (sum uint64) {
	for _, tr := range of {
		if c, ok := transport.As[counting](tr); ok {
			n, err := c.Goroutines(within(t))
			require.NoError(t, err)
			sum += n
		}
	}
	return sum
}

// noMoreGoroutines requires that the goroutines of processes do not grow by one in two rounds.
func (s *suite) noMoreGoroutines(t conformance.TB, round func(), of ...transport.Transport) {
	const rounds = 3 * leakRounds
	settle := s.settle
	if settle == 0 {
		settle = conformance.Patience(t)
	}
	before := s.goroutines(t, of...)
	for range rounds {
		round()
	}
	var now uint64
	for end := time.Now().Add(settle); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if now = s.goroutines(t, of...); now < before+rounds/2 {
			return
		}
	}
	t.Fatalf("the processes of the transport have %d goroutines after %d rounds of Dial and Close, Register and Deregister; they had %d before", now, rounds, before)
}

// leakStopped counts over rounds of starts and stops of transports, which stop with open paths and
// registered regions.
func (s *suite) leakStopped(t conformance.T) {
	shared, buf := s.memory(t, leakSize), make([]byte, leakSize)
	round := func() {
		server, client := s.start(t), s.start(t)
		key, err := server.Register(within(t), s.region(1, shared, transport.AccessRemote))
		require.NoError(t, err)
		if !s.f.Manifest().Has(transport.CapLocalAny) {
			_, err := client.Register(within(t), s.region(1, buf, transport.AccessLocal))
			require.NoError(t, err)
		}
		p, err := client.Dial(within(t), server.Endpoint())
		require.NoError(t, err)
		id, err := p.Import(within(t), key)
		require.NoError(t, err)
		must(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: buf, Remote: id})
		require.NoError(t, client.Stop(within(t)))
		require.NoError(t, server.Stop(within(t)))
	}
	rounds := 6
	if s.processes != nil {
		rounds = 3 // Each starts two processes.
	}
	round()
	before := s.holds()
	for range rounds {
		round()
	}
	rig.Released(t, s.holds, before, rounds, s.settle)
}
