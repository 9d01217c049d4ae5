package open_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/http"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
	"github.com/mooncake-go/mooncake/core/metadata/open"
	"github.com/mooncake-go/mooncake/core/metadata/p2p"
	"github.com/mooncake-go/mooncake/core/metadata/storetest"
	"github.com/mooncake-go/mooncake/core/metadata/storetest/etcdserver"
	"github.com/mooncake-go/mooncake/core/metadata/storetest/redisserver"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEveryDirectory runs the contract of metadata.Directory on each.
func TestEveryDirectory(t *testing.T) {
	store := memory.New(memory.Limits{})
	srv := httptest.NewServer(http.NewHandler(memory.New(memory.Limits{}), nil))
	defer srv.Close()
	for _, name := range []string{"P2PHANDSHAKE", "http", "memory", "etcd", "etcd without a scheme", "redis"} {
		t.Run(name, func(t *testing.T) {
			var conn string
			switch name {
			case "http":
				conn = srv.URL + "/metadata"
			case "memory":
				conn = "memory://"
			case "etcd":
				conn = "etcd://" + etcdserver.New(t).Address
			case "etcd without a scheme":
				conn = etcdserver.New(t).Address
			case "redis":
				conn = "redis://" + redisserver.New(t).Address
			default:
				conn = name
			}
			ctx := t.Context()
			start := func(name string) open.Directory {
				d, err := open.Open(ctx, conn, open.Options{LocalName: name, BindHost: "127.0.0.1", Memory: store})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, d.Close(context.Background())) })
				return d
			}
			a, b := start("127.0.0.1:13001"), start("127.0.0.1:13002")
			require.NotEqual(t, a.LocalName(), b.LocalName())
			want := &metadata.Descriptor{
				Name: a.LocalName(), Protocol: "tcp", TCPProtoVersion: 2,
				Transports: []metadata.TransportEndpoint{{Name: "tcp", Blob: []byte("blob"), Incarnation: 1<<64 - 1,
					Regions: []metadata.RegionKey{{Addr: 1 << 63, Length: 5, Key: []byte("key"), Location: "cpu:1"}}}},
			}
			_, err := b.Lookup(ctx, a.LocalName())
			assert.ErrorIs(t, err, metadata.ErrNotFound)
			for range 2 {
				require.NoError(t, a.Publish(ctx, want))
				for _, from := range []open.Directory{a, b} {
					got, err := from.Lookup(ctx, a.LocalName())
					require.NoError(t, err)
					assert.Equal(t, want, got)
				}
				require.NoError(t, b.Probe(ctx, a.LocalName()))
				addr, err := b.Address(ctx, a.LocalName())
				require.NoError(t, err)
				assert.Equal(t, a.Daemon().Port(), addr.Port)
				require.NoError(t, a.Withdraw(ctx))
				_, err = b.Lookup(ctx, a.LocalName())
				assert.ErrorIs(t, err, metadata.ErrNotFound)
			}
			require.NoError(t, a.Close(ctx))
			require.NoError(t, a.Close(ctx))
		})
	}
}

func TestConnectionStrings(t *testing.T) {
	for conn, want := range map[string]struct {
		code errs.Code
		text string
	}{
		"p2phandshake":      {errs.InvalidParams, "is written P2PHANDSHAKE"},
		"":                  {errs.InvalidParams, "P2PHANDSHAKE"},
		"ftp://h/m":         {errs.InvalidParams, "redis://host:port"},
		"http://":           {errs.InvalidParams, "http://host:port/metadata"},
		"memory://":         {errs.InvalidParams, "one process"},
		"etcd://":           {errs.InvalidParams, "etcd://host:port"},
		"h:2379,i:2379,j:0": {errs.InvalidParams, "etcd://host:port"},
		"redis://h/1":       {errs.InvalidParams, "redis://host:port"},
		"rediss://h":        {errs.InvalidParams, "redis://host:port"},
	} {
		d, err := open.Open(t.Context(), conn, open.Options{LocalName: "127.0.0.1:1"})
		assert.Nil(t, d, conn)
		assert.Equal(t, want.code, errs.CodeOf(err), conn)
		assert.ErrorContains(t, err, want.text, conn)
	}
	_, err := open.Open(t.Context(), "P2PHANDSHAKE", open.Options{LocalName: "0.0.0.0"})
	assert.Equal(t, errs.InvalidParams, errs.CodeOf(err))
}

func TestAdvertisedHost(t *testing.T) {
	for _, local := range []string{"0.0.0.0:5", "0.0.0.0", ""} {
		d, err := open.Open(t.Context(), "P2PHANDSHAKE", open.Options{LocalName: local, AdvertiseHost: "::1"})
		require.NoError(t, err)
		assert.Regexp(t, `^\[::1\]:1[567]\d\d\d$`, d.LocalName())
		require.NoError(t, d.Close(t.Context()))
	}
}

func freePort(t *testing.T) int {
	_, port, err := metadata.ParseName(storetest.FreeAddress(t))
	require.NoError(t, err)
	return port
}

// TestPortOfTheName: where a node's port comes from, and whether it is told that its own
// was not taken.
func TestPortOfTheName(t *testing.T) {
	store := memory.New(memory.Limits{})
	named, other := freePort(t), freePort(t)
	name := metadata.JoinName("127.0.0.1", named)
	for what, c := range map[string]struct {
		opts     open.Options
		port     int // 0 for any of the range
		reported bool
	}{
		"picked":                  {open.Options{LocalName: name}, 0, true},
		"picked, none in name":    {open.Options{LocalName: "127.0.0.1"}, 0, false},
		"of the name":             {open.Options{LocalName: name, PortFromName: true}, named, false},
		"default of the name":     {open.Options{LocalName: "127.0.0.1", PortFromName: true, DefaultPort: other}, other, false},
		"of the setting":          {open.Options{LocalName: name, PortFromName: true, HandshakePort: other}, other, true},
		"of a range":              {open.Options{LocalName: "127.0.0.1", Daemon: p2p.DaemonOptions{MinPort: 20001, MaxPort: 20200}}, 0, false},
		"of the name, advertised": {open.Options{LocalName: name, AdvertiseHost: "localhost", PortFromName: true}, named, false},
	} {
		for _, conn := range []string{"P2PHANDSHAKE", "memory://"} {
			var log bytes.Buffer
			c.opts.BindHost, c.opts.Memory, c.opts.Logger = "127.0.0.1", store, slog.New(slog.NewTextHandler(&log, nil))
			d, err := open.Open(t.Context(), conn, c.opts)
			require.NoError(t, err, what)
			port := d.Daemon().Port()
			if c.port == 0 {
				first, last := p2p.MinPort, p2p.MaxPort
				if c.opts.Daemon.MinPort != 0 {
					first, last = c.opts.Daemon.MinPort, c.opts.Daemon.MaxPort
				}
				assert.True(t, port >= first && port <= last, what)
			} else {
				assert.Equal(t, c.port, port, what)
			}
			if conn == "P2PHANDSHAKE" {
				_, inName, err := metadata.ParseName(d.LocalName())
				require.NoError(t, err)
				assert.Equal(t, port, inName, what)
				assert.Equal(t, c.reported, strings.Contains(log.String(), "level=INFO"), "%s: %s", what, log.String())
			} else {
				assert.Equal(t, c.opts.LocalName, d.LocalName(), what)
			}
			require.NoError(t, d.Close(t.Context()), what)
		}
	}
	_, err := open.Open(t.Context(), "memory://", open.Options{LocalName: "a b", PortFromName: true, Memory: store})
	assert.Equal(t, errs.InvalidParams, errs.CodeOf(err))
}
