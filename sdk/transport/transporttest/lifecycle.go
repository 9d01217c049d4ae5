package transporttest

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

func (s *suite) manifest(t conformance.T) {
	m := s.f.Manifest()
	require.NoError(t, m.Validate())
	require.Equal(t, plugin.KindTransport, m.Kind)
	_, err := plugin.NegotiateAPI(transport.API(), m.API)
	require.NoError(t, err)
	require.NoError(t, plugin.Validate(s.f.DefaultConfig()))
	if one := s.f.DefaultConfig(); reflect.TypeOf(one).Elem().Size() > 0 { // Pointers to a type without fields may be equal.
		require.NotSame(t, one, s.f.DefaultConfig())
	}
	_, err = s.f.New(&strangeConfig{})
	require.Error(t, err, "a configuration of another plugin")
}

// schema holds the schema of the manifest against what the transport accepts.
func (s *suite) schema(t conformance.T) {
	try := s.configure
	if try == nil {
		try = func(all ...map[string]any) []error {
			out := make([]error, len(all))
			for i, settings := range all {
				out[i] = s.accepts(settings)
			}
			return out
		}
	}
	rig.Settings(t, s.f.Manifest(), try)
}

// accepts makes a transport from the settings of the suite with others over them.
func (s *suite) accepts(settings map[string]any) error {
	text, err := json.Marshal(s.settings())
	if err != nil {
		return err
	}
	all := map[string]any{}
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	maps.Copy(all, settings)
	if text, err = json.Marshal(all); err != nil {
		return err
	}
	cfg, err := wire.DecodeConfig(s.f, text)
	if err == nil {
		_, err = s.f.New(cfg)
	}
	return err
}

func (s *suite) program(t conformance.T) { rig.Program(t, s.f) }

type strangeConfig struct{}

func (*strangeConfig) Validate() error { return nil }

func (s *suite) stopBeforeStart(t conformance.T) {
	tr := s.create(t, s.settings())
	require.NoError(t, tr.Stop(within(t)))
	require.NoError(t, tr.Stop(within(t)))
}

func (s *suite) stopTwice(t conformance.T) {
	tr := s.start(t)
	_, key := s.register(t, tr, 1, 64, transport.AccessRemote)
	p, ids := dial(t, tr, tr, key)
	must(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: s.local(t, tr, 2, 8), Remote: ids[0]})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := tr.Stop(within(t)); err != nil {
				t.Errorf("stop: %v", err)
			}
		})
	}
	wg.Wait()
	require.NoError(t, tr.Stop(within(t)))
}

func (s *suite) beforeStartAfterStop(t conformance.T) {
	live := s.start(t)
	stopped := s.start(t)
	require.NoError(t, stopped.Stop(within(t)))
	for name, tr := range rig.Ordered(map[string]transport.Transport{"before start": s.create(t, s.settings()), "after stop": stopped}) {
		_, err := tr.Register(within(t), s.region(1, s.memory(t, 8), transport.AccessRemote))
		require.Error(t, err, "register %s", name)
		_, err = tr.Dial(within(t), live.Endpoint())
		require.Error(t, err, "dial %s", name)
		require.Error(t, tr.Deregister(within(t), 1), "deregister %s", name)
	}
}

func (s *suite) incarnations(t conformance.T) {
	seen := map[uint64]bool{}
	for range 3 {
		ep := s.start(t).Endpoint()
		require.NotEmpty(t, ep.Blob)
		require.LessOrEqual(t, len(ep.Blob), 4<<10)
		require.False(t, seen[ep.Incarnation], "every start has its own")
		seen[ep.Incarnation] = true
	}
}

func (s *suite) registerRefuses(t conformance.T) {
	tr := s.start(t)
	mem := s.memory(t, 4096)
	key, err := tr.Register(within(t), s.region(7, mem[1024:2048], transport.AccessRemote))
	require.NoError(t, err)
	require.NotEmpty(t, key)
	require.LessOrEqual(t, len(key), 4<<10)
	for name, r := range rig.Ordered(map[string]transport.Region{
		"ID in use":       s.region(7, mem[3000:3100], transport.AccessRemote),
		"no ID":           s.region(0, mem[3000:3100], transport.AccessRemote),
		"empty":           s.region(8, mem[:0], transport.AccessRemote),
		"the same memory": s.region(8, mem[1024:2048], transport.AccessRemote),
		"inside":          s.region(8, mem[1030:1031], transport.AccessRemote),
		"around":          s.region(8, mem, transport.AccessRemote),
		"over the start":  s.region(8, mem[1000:1025], transport.AccessRemote),
		"over the end":    s.region(8, mem[2047:2049], transport.AccessRemote),
	}) {
		_, err := tr.Register(within(t), r)
		require.Equal(t, errs.InvalidParams, code(err), "%s: %v", name, err)
	}
	for i, r := range [][]byte{mem[:1024], mem[2048:]} {
		_, err := tr.Register(within(t), s.region(transport.RegionID(20+i), r, transport.AccessRemote))
		require.NoError(t, err, "neighbours do not overlap")
	}
	require.Error(t, tr.Deregister(within(t), 99), "never registered")
}

func (s *suite) registerAgain(t conformance.T) {
	server, client := s.start(t), s.start(t)
	mem, old := s.register(t, server, 1, 256, transport.AccessRemote)
	require.NoError(t, server.Deregister(within(t), 1))
	key, err := server.Register(within(t), s.region(1, mem, transport.AccessRemote))
	require.NoError(t, err)
	p, ids := dial(t, client, server, old, key)
	buf := s.local(t, client, 1, 256)
	fails(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: buf, Remote: ids[0]}, errs.ClassPermanent, errs.ClassTransientPeer)
	require.Equal(t, make([]byte, 256), buf, "the key of the ended registration opens nothing")
	must(t, p, transport.Op{ID: 2, Kind: transport.Read, Local: buf, Remote: ids[1]})
	require.Equal(t, mem, buf)
}

func (s *suite) peerStops(t conformance.T) {
	server, client := s.start(t), s.start(t)
	_, key := s.register(t, server, 1, 4096, transport.AccessRemote)
	p, ids := dial(t, client, server, key)
	buf := s.local(t, client, 1, 4096)
	must(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: buf, Remote: ids[0]})
	require.NoError(t, server.Stop(context.Background()))
	fails(t, p, soon(transport.Op{ID: 2, Kind: transport.Read, Local: buf, Remote: ids[0]}), errs.ClassTransientPath, errs.ClassTransientPeer)
}
