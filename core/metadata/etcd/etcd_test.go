package etcd_test

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/etcd"
	"github.com/mooncake-go/mooncake/core/metadata/storetest"
	"github.com/mooncake-go/mooncake/core/metadata/storetest/etcdserver"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, conn string, opts etcd.Options) *etcd.Store {
	s, err := etcd.New(conn, opts)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func TestContract(t *testing.T) {
	srv := etcdserver.New(t)
	openAt := func(t testing.TB, address string, timeout time.Duration) (metadata.Store, func()) {
		s := open(t, "etcd://"+address, etcd.Options{Timeout: timeout})
		return s, s.Close
	}
	storetest.Run(t, storetest.Service{
		Open:   func(t testing.TB) (metadata.Store, func()) { return openAt(t, srv.Address, 0) },
		OpenAt: openAt,
		Stop:   func(testing.TB) { srv.Stop() }, Start: srv.Start,
	})
}

func client(t *testing.T, address string) *clientv3.Client {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + address}, Logger: zap.NewNop(), DialTimeout: 10 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// TestOtherClients: upstream's nodes put values as they come, with the end of a line.
func TestOtherClients(t *testing.T) {
	srv := etcdserver.New(t)
	ctx := t.Context()
	s := open(t, srv.Address, etcd.Options{})
	raw := client(t, srv.Address)
	require.NoError(t, s.Put(ctx, "k", []byte(`{"a":1}`)))
	got, err := raw.Get(ctx, "k")
	require.NoError(t, err)
	assert.Equal(t, "{\"a\":1}\n", string(got.Kvs[0].Value))
	for _, kept := range []string{"{}\n", "{}"} {
		_, err := raw.Put(ctx, "rpc_meta", kept)
		require.NoError(t, err)
		v, err := s.Get(ctx, "rpc_meta")
		require.NoError(t, err)
		assert.Equal(t, "{}", string(v))
		assert.NoError(t, s.Put(ctx, "rpc_meta", []byte("{}")), "it is the same value")
		assert.ErrorIs(t, s.Put(ctx, "rpc_meta", []byte("{1}")), metadata.ErrDuplicate)
	}
	for _, size := range []int{2 << 20, 18 << 20} { // more than the server and than the client takes
		err = s.Put(ctx, "huge", make([]byte, size))
		assert.Equal(t, errs.InvalidParams, errs.CodeOf(err), "%v", err)
		assert.ErrorContains(t, err, "--max-request-bytes")
	}
}

// TestTheServerDecidesTheSize: the store itself takes more than the library does by itself.
func TestTheServerDecidesTheSize(t *testing.T) {
	srv := etcdserver.New(t, func(c *embed.Config) { c.MaxRequestBytes = 32 << 20 })
	s := open(t, srv.Address, etcd.Options{Timeout: time.Minute})
	value := bytes.Repeat([]byte("0123456789abcdef"), 5<<20/16)
	require.NoError(t, s.Put(t.Context(), "k", value))
	got, err := s.Get(t.Context(), "k")
	require.NoError(t, err)
	assert.True(t, bytes.Equal(value, got))
}

// TestOneEndpointIsEnough: the others may be down.
func TestOneEndpointIsEnough(t *testing.T) {
	srv := etcdserver.New(t)
	s := open(t, "etcd://"+storetest.FreeAddress(t)+","+srv.Address, etcd.Options{})
	for range 4 {
		require.NoError(t, s.Put(t.Context(), "k", []byte("v")))
	}
}

func TestPasswords(t *testing.T) {
	srv := etcdserver.New(t)
	raw, ctx := client(t, srv.Address), t.Context()
	for _, step := range []func() error{
		func() error { _, err := raw.RoleAdd(ctx, "part"); return err },
		func() error {
			_, err := raw.RoleGrantPermission(ctx, "part", "mooncake/", clientv3.GetPrefixRangeEnd("mooncake/"), clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := raw.UserAdd(ctx, "root", "secret"); return err },
		func() error { _, err := raw.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := raw.UserAdd(ctx, "node", "word"); return err },
		func() error { _, err := raw.UserGrantRole(ctx, "node", "part"); return err },
		func() error { _, err := raw.AuthEnable(ctx); return err },
	} {
		require.NoError(t, step())
	}
	for name, c := range map[string]struct {
		opts etcd.Options
		key  string
		ok   bool
	}{
		"root":                 {etcd.Options{Username: "root", Password: "secret"}, "k", true},
		"own user":             {etcd.Options{Username: "node", Password: "word"}, "mooncake/k", true},
		"own user, elsewhere":  {etcd.Options{Username: "node", Password: "word"}, "other", false},
		"no password":          {etcd.Options{}, "mooncake/k", false},
		"the wrong password":   {etcd.Options{Username: "root", Password: "word"}, "k", false},
		"nobody of that name ": {etcd.Options{Username: "x", Password: "secret"}, "k", false},
	} {
		s := open(t, srv.Address, c.opts)
		for range 2 {
			err := s.Put(ctx, c.key, []byte("v"))
			if c.ok {
				assert.NoError(t, err, name)
				continue
			}
			assert.Equal(t, errs.RPCFail, errs.CodeOf(err), name)
			assert.ErrorContains(t, err, "check the user name", name)
			assert.ErrorContains(t, err, srv.Address, name)
			assert.NotContains(t, err.Error(), "secret", name)
		}
	}
	_, err := etcd.New(srv.Address, etcd.Options{Username: "root"})
	assert.Equal(t, errs.InvalidParams, errs.CodeOf(err))
	s := open(t, storetest.FreeAddress(t), etcd.Options{Username: "root", Password: "secret"})
	assert.ErrorContains(t, s.Put(ctx, "k", nil), "connection refused")
}

func TestConnectionStrings(t *testing.T) {
	for _, conn := range []string{"", "etcd://", "etcd://,", "etcd://h:0", "etcd://h:65536", "etcd://h:x", "etcd://h/path", "etcd://u:secret@h", "etcd://ftp://h",
		"etcd://http://h,https://i", "etcd://h?a=b", "::1", "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q"} {
		_, err := etcd.New(conn, etcd.Options{})
		assert.Equal(t, errs.InvalidParams, errs.CodeOf(err), conn)
		assert.ErrorContains(t, err, "use etcd://host:port", conn)
	}
	for _, conn := range []string{"h", "h:1", "h:1,[::1]:2;10.0.0.1", "etcd://h:1, i:2", "etcd://http://h:1,http://i", "https://h"} {
		open(t, conn, etcd.Options{})
	}
}

// TestTheLibraryIsQuiet: what it logs goes to the logger of the store, at the level debug.
func TestTheLibraryIsQuiet(t *testing.T) {
	for level, want := range map[slog.Level]bool{slog.LevelInfo: false, slog.LevelDebug: true} {
		var out bytes.Buffer
		s := open(t, storetest.FreeAddress(t), etcd.Options{Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))})
		require.Error(t, s.Put(t.Context(), "k", nil))
		assert.Equal(t, want, bytes.Contains(out.Bytes(), []byte("level=DEBUG msg=\"etcd: ")), out.String())
	}
}
