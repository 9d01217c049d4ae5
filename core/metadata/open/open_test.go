package open_test

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/http"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
	"github.com/mooncake-go/mooncake/core/metadata/open"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEveryDirectory runs the contract of metadata.Directory on each.
func TestEveryDirectory(t *testing.T) {
	store := memory.New(memory.Limits{})
	srv := httptest.NewServer(http.NewHandler(memory.New(memory.Limits{})))
	defer srv.Close()
	for _, conn := range []string{"P2PHANDSHAKE", srv.URL + "/metadata", "memory://"} {
		t.Run(conn, func(t *testing.T) {
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
					Regions: []metadata.RegionKey{{Addr: 1 << 63, Length: 5, Key: []byte("key")}}}},
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
		"etcd://h:2379":  {errs.NotSupported, "later release"},
		"redis://h:6379": {errs.NotSupported, "http://host:port/metadata"},
		"h:2379":         {errs.NotSupported, "P2PHANDSHAKE"},
		"p2phandshake":   {errs.NotSupported, "P2PHANDSHAKE"},
		"":               {errs.InvalidParams, "P2PHANDSHAKE"},
		"ftp://h/m":      {errs.InvalidParams, "P2PHANDSHAKE"},
		"http://":        {errs.InvalidParams, "http://host:port/metadata"},
		"memory://":      {errs.InvalidParams, "one process"},
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
	d, err := open.Open(t.Context(), "P2PHANDSHAKE", open.Options{LocalName: "0.0.0.0:5", AdvertiseHost: "::1"})
	require.NoError(t, err)
	assert.Regexp(t, `^\[::1\]:1[567]\d\d\d$`, d.LocalName())
	require.NoError(t, d.Close(t.Context()))
}
