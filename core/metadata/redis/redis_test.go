package redis_test

import (
	"context"
	"testing"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/redis"
	"github.com/mooncake-go/mooncake/core/metadata/storetest"
	"github.com/mooncake-go/mooncake/core/metadata/storetest/redisserver"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, address string, opts redis.Options) *redis.Store {
	s, err := redis.New("redis://"+address, opts)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func TestContract(t *testing.T) {
	srv := redisserver.New(t)
	openAt := func(t testing.TB, address string, timeout time.Duration) (metadata.Store, func()) {
		s := open(t, address, redis.Options{Timeout: timeout})
		return s, s.Close
	}
	storetest.Run(t, storetest.Service{
		Open:   func(t testing.TB) (metadata.Store, func()) { return openAt(t, srv.Address, 0) },
		OpenAt: openAt,
		Stop:   srv.Stop, Start: srv.Start,
	})
}

// TestOtherClients: upstream's nodes set values as they come, with the end of a line.
func TestOtherClients(t *testing.T) {
	srv := redisserver.New(t)
	s := open(t, srv.Address, redis.Options{DB: 3})
	raw, err := redigo.Dial("tcp", srv.Address, redigo.DialDatabase(3))
	require.NoError(t, err)
	defer raw.Close()
	do := func(command string, args ...any) any {
		answer, err := raw.Do(command, args...)
		require.NoError(t, err)
		return answer
	}
	ctx := t.Context()
	require.NoError(t, s.Put(ctx, "k", []byte(`{"a":1}`)))
	assert.Equal(t, []byte("{\"a\":1}\n"), do("GET", "k"))
	for _, kept := range []string{"{}\n", "{}"} {
		do("SET", "rpc_meta", kept)
		v, err := s.Get(ctx, "rpc_meta")
		require.NoError(t, err)
		assert.Equal(t, "{}", string(v))
		assert.NoError(t, s.Put(ctx, "rpc_meta", []byte("{}")), "it is the same value")
		assert.ErrorIs(t, s.Put(ctx, "rpc_meta", []byte("{1}")), metadata.ErrDuplicate)
	}
	do("SET", "empty", "")
	v, err := s.Get(ctx, "empty")
	assert.NoError(t, err)
	assert.Empty(t, v)
	_, err = open(t, srv.Address, redis.Options{}).Get(ctx, "k")
	assert.ErrorIs(t, err, metadata.ErrNotFound, "another database")

	do("LPUSH", "list", "x")
	_, err = s.Get(ctx, "list")
	assert.Equal(t, errs.RPCFail, errs.CodeOf(err), "not a value")
	do("SETRANGE", "huge", metadata.MaxDescriptorSize+9, "x")
	_, err = s.Get(ctx, "huge")
	assert.Equal(t, errs.DeserializeFail, errs.CodeOf(err))
	assert.Equal(t, errs.InvalidParams, errs.CodeOf(s.Put(ctx, "huge", make([]byte, metadata.MaxDescriptorSize+1))))
	assert.Equal(t, errs.InvalidParams, errs.CodeOf(s.Put(ctx, "two words", nil)), "others cannot ask for it")
}

func TestPasswords(t *testing.T) {
	srv := redisserver.New(t, "--requirepass", "secret", "--user", "node", "on", ">word", "~*", "+@all", "-del")
	for name, c := range map[string]struct {
		opts redis.Options
		ok   bool
	}{
		"default user":   {redis.Options{Password: "secret"}, true},
		"own user":       {redis.Options{Username: "node", Password: "word"}, true},
		"no password":    {redis.Options{}, false},
		"wrong":          {redis.Options{Password: "word"}, false},
		"wrong user":     {redis.Options{Username: "x", Password: "secret"}, false},
		"wrong database": {redis.Options{Password: "secret", DB: 99}, false},
	} {
		err := open(t, srv.Address, c.opts).Put(t.Context(), "k", nil)
		if c.ok {
			assert.NoError(t, err, name)
			continue
		}
		assert.Equal(t, errs.RPCFail, errs.CodeOf(err), name)
		assert.ErrorContains(t, err, "user name", name)
		assert.NotContains(t, err.Error(), "secret", name)
	}
	err := open(t, srv.Address, redis.Options{Username: "node", Password: "word"}).Delete(t.Context(), "k")
	assert.ErrorContains(t, err, "what that user may do")
}

func TestAddresses(t *testing.T) {
	for _, conn := range []string{"redis://", "redis://:1", "redis://h:0", "redis://h:65536", "redis://h:x", "redis://h/1", "redis://h?db=1", "rediss://h", "h:6379",
		"redis://user:secret@h", "redis://a b", "redis://h:secret@"} {
		_, err := redis.New(conn, redis.Options{})
		assert.Equal(t, errs.InvalidParams, errs.CodeOf(err), conn)
		assert.ErrorContains(t, err, "use redis://host:port", conn)
		assert.NotContains(t, err.Error(), "secret")
	}
	for _, opts := range []redis.Options{{DB: -1}, {Username: "u"}} {
		_, err := redis.New("redis://h", opts)
		assert.Equal(t, errs.InvalidParams, errs.CodeOf(err))
	}
	for conn, address := range map[string]string{"redis://h": "redis://h:6379", "redis://[::1]:7/": "redis://[::1]:7"} {
		s, err := redis.New(conn, redis.Options{})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.ErrorContains(t, s.Delete(ctx, "k"), address)
		s.Close()
	}
}

// TestARestartFailsNoCall: the connections that the restart ended are replaced within the call.
func TestARestartFailsNoCall(t *testing.T) {
	srv := redisserver.New(t)
	s := open(t, srv.Address, redis.Options{})
	require.NoError(t, s.Put(t.Context(), "k", []byte("v")))
	srv.Stop(t)
	srv.Start(t)
	v, err := s.Get(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, "v", string(v))
}
