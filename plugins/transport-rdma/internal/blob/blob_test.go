package blob

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/gid"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

func someEndpoint(t *rapid.T) Endpoint {
	device := rapid.Custom(func(t *rapid.T) Device {
		return Device{
			Name: rapid.StringMatching(`[a-z0-9_]{1,16}`).Draw(t, "name"),
			GID:  gid.GID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "gid")),
			LID:  rapid.Uint32().Draw(t, "lid"), MTU: rapid.Uint16().Draw(t, "mtu"), NUMA: rapid.Int16().Draw(t, "numa"),
			Speed: rapid.Uint64().Draw(t, "speed"), Usable: rapid.Bool().Draw(t, "usable"),
			Up: rapid.Bool().Draw(t, "up"),
		}
	})
	return Endpoint{
		Incarnation: rapid.Uint64().Draw(t, "incarnation"), Server: rapid.StringMatching(`([a-z.]{1,40}:[0-9]{1,5})?`).Draw(t, "server"),
		Addrs:   rapid.SliceOfN(rapid.StringMatching(`[a-z0-9.]{1,40}:[1-9][0-9]{0,3}`), 1, MaxAddrs).Draw(t, "addrs"),
		Devices: rapid.SliceOfN(device, 1, MaxDevices).Draw(t, "devices"),
	}
}

func TestEndpoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := someEndpoint(t)
		b, err := e.Encode()
		require.NoError(t, err)
		back, err := DecodeEndpoint(b)
		require.NoError(t, err)
		require.Equal(t, e, back)
		bent := bytes.Clone(b)
		bent[rapid.IntRange(0, len(b)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		_, err = DecodeEndpoint(bent)
		require.ErrorIs(t, err, ErrMalformed)
		_, err = DecodeEndpoint(b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")])
		require.ErrorIs(t, err, ErrMalformed)
	})
}

func TestEndpointRefuses(t *testing.T) {
	good := func() Endpoint {
		return Endpoint{Addrs: []string{"h:1"}, Devices: []Device{{Name: "rxe0"}}}
	}
	for name, spoil := range map[string]func(*Endpoint){
		"no address":       func(e *Endpoint) { e.Addrs = nil },
		"no device":        func(e *Endpoint) { e.Devices = nil },
		"many addresses":   func(e *Endpoint) { e.Addrs = make([]string, MaxAddrs+1) },
		"port 0":           func(e *Endpoint) { e.Addrs[0] = "h:0" },
		"no port":          func(e *Endpoint) { e.Addrs[0] = "h" },
		"a path for host":  func(e *Endpoint) { e.Addrs[0] = "a/b:1" },
		"unnamed device":   func(e *Endpoint) { e.Devices[0].Name = "" },
		"a path as device": func(e *Endpoint) { e.Devices[0].Name = "../x" },
		"too long": func(e *Endpoint) {
			for range MaxDevices - 1 {
				e.Devices = append(e.Devices, Device{Name: strings.Repeat("x", MaxName)})
			}
			for range MaxAddrs - 1 {
				e.Addrs = append(e.Addrs, strings.Repeat("y", 255)+":1")
			}
		},
	} {
		e := good()
		_, err := e.Encode()
		require.NoError(t, err)
		spoil(&e)
		_, err = e.Encode()
		require.Error(t, err, name)
	}
}

func TestKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		devices := rapid.IntRange(1, MaxDevices).Draw(t, "devices")
		n := rapid.IntRange(1, MaxChunks(devices)).Draw(t, "chunks")
		chunk := rapid.Uint64Range(1, 1<<40).Draw(t, "chunk")
		k := &Key{
			Incarnation: rapid.Uint64().Draw(t, "incarnation"), Region: rapid.Uint64().Draw(t, "region"), Base: rapid.Uint64Range(0, 1<<48).Draw(t, "base"),
			Length: chunk*uint64(n-1) + rapid.Uint64Range(1, chunk).Draw(t, "rest"), Chunk: chunk,
			Access: transport.Access(rapid.IntRange(0, 3).Draw(t, "access")), Devices: devices,
			RKeys: rapid.SliceOfN(rapid.Uint32(), n*devices, n*devices).Draw(t, "keys"),
		}
		b, err := k.Encode()
		require.NoError(t, err)
		require.LessOrEqual(t, len(b), Max)
		back, err := DecodeKey(b)
		require.NoError(t, err)
		require.Equal(t, k, back)
		require.Equal(t, k.RKeys[len(k.RKeys)-1], k.RKey(uint64(n-1), devices-1))
		bent := bytes.Clone(b)
		bent[rapid.IntRange(0, len(b)-1).Draw(t, "at")] ^= 1
		_, err = DecodeKey(bent)
		require.ErrorIs(t, err, ErrMalformed)
	})
}

func TestKeyRefuses(t *testing.T) {
	for name, k := range map[string]Key{
		"empty":           {Chunk: 1, Devices: 1},
		"no chunk":        {Length: 1, Devices: 1},
		"no device":       {Length: 1, Chunk: 1},
		"too few keys":    {Length: 2, Chunk: 1, Devices: 1, RKeys: []uint32{1}},
		"too many chunks": {Length: 1 << 40, Chunk: 1, Devices: 1},
		"wraps around":    {Length: 2, Chunk: 2, Base: ^uint64(0), Devices: 1, RKeys: []uint32{1}},
		"unknown access":  {Length: 1, Chunk: 1, Devices: 1, RKeys: []uint32{1}, Access: 4},
	} {
		_, err := k.Encode()
		require.ErrorIs(t, err, ErrMalformed, name)
	}
}

func FuzzEndpoint(f *testing.F) {
	e := Endpoint{Incarnation: 1, Addrs: []string{"127.0.0.1:1"}, Devices: []Device{{Name: "rxe0", Usable: true, NUMA: -1}}}
	b, err := e.Encode()
	require.NoError(f, err)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, seal(append([]byte("REP1"), b...))} { // Past the checksum too.
			if e, err := DecodeEndpoint(b); err == nil {
				again, err := e.Encode()
				require.NoError(t, err)
				require.Equal(t, b, again, "one endpoint has one form")
			}
		}
	})
}

func FuzzKey(f *testing.F) {
	k := Key{Incarnation: 1, Region: 2, Base: 4096, Length: 5, Chunk: 4, Devices: 1, RKeys: []uint32{1, 2}}
	b, err := k.Encode()
	require.NoError(f, err)
	f.Add([]byte(b))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, seal(append([]byte("KEY1"), b...))} {
			if k, err := DecodeKey(b); err == nil {
				again, err := k.Encode()
				require.NoError(t, err)
				require.Equal(t, b, []byte(again), "one key has one form")
				k.RKey(k.Chunks()-1, k.Devices-1)
			}
		}
	})
}
