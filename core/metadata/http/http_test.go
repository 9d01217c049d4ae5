package http_test

import (
	"context"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/internal/httpgolden"
	"github.com/mooncake-go/mooncake/core/internal/testkit/heldport"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/http"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRecordedAnswers replays what was asked of upstream's server, in order. The bodies of
// the PUTs were not recorded; these give the recorded answers.
func TestRecordedAnswers(t *testing.T) {
	list, err := httpgolden.Read("testdata/http-metadata.txt")
	require.NoError(t, err)
	require.Len(t, list, 13)
	bodies := []string{`{"a":1}`, `{"b":1}`, `{"b":2}`, `{"b":1}`}
	h := http.NewHandler(memory.New(memory.Limits{}), nil)
	for _, x := range list {
		body := ""
		if x.Method == nethttp.MethodPut {
			body, bodies = bodies[0], bodies[1:]
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(x.Method, x.Target, strings.NewReader(body)))
		assert.Equal(t, x.Status, w.Code, x.Method+x.Target)
		assert.Equal(t, x.Body, w.Body.String(), x.Method+x.Target)
		assert.Equal(t, x.ContentType, w.Header().Get("Content-Type"), x.Method+x.Target)
	}
}

func TestLimitsOverHTTP(t *testing.T) {
	h := http.NewHandler(memory.New(memory.Limits{Entries: 1, KeySize: 8, ValueSize: 4}), nil)
	for _, c := range []struct {
		target, body string
		status       int
	}{
		{"/metadata?key=k", "12345", nethttp.StatusRequestEntityTooLarge},
		{"/metadata?key=123456789", "1", nethttp.StatusBadRequest},
		{"/metadata?key=k", "1234", nethttp.StatusOK},
		{"/metadata?key=l", "1", nethttp.StatusInsufficientStorage},
		{"/metadata?key=%zz", "1", nethttp.StatusBadRequest},
		{"/metadata/?key=k", "1", nethttp.StatusNotFound},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(nethttp.MethodPut, c.target, strings.NewReader(c.body)))
		assert.Equal(t, c.status, w.Code, c.target)
	}
}

// connect returns a client of a server of store.
func connect(t testing.TB, store *memory.Store) *http.Client {
	srv := httptest.NewServer(http.NewHandler(store, nil))
	c, err := http.NewClient(srv.URL+http.Path, http.ClientOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { c.Close(); srv.Close() })
	return c
}

// TestClientEqualsStore runs the same calls against a store and, over HTTP, another one.
func TestClientEqualsStore(t *testing.T) {
	remote := memory.New(memory.Limits{})
	client := connect(t, remote)
	local := memory.New(memory.Limits{})
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		k := rapid.OneOf(rapid.StringN(1, 10, 40), rapid.SampledFrom([]string{"mooncake/rpc_meta/a b", "ram/ü+%2F&=;", "\xff"})).Draw(t, "key")
		v := rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "value")
		for _, op := range []func(metadata.Store) (string, error){
			func(s metadata.Store) (string, error) { return "", s.Put(ctx, k, v) },
			func(s metadata.Store) (string, error) { b, err := s.Get(ctx, k); return string(b), err },
		} {
			want, wantErr := op(local)
			got, gotErr := op(client)
			assert.Equal(t, wantErr, gotErr)
			assert.Equal(t, want, got)
		}
		assert.Equal(t, local.Len(), remote.Len())
		if rapid.Bool().Draw(t, "delete") {
			assert.Equal(t, local.Delete(ctx, k), client.Delete(ctx, k))
			assert.Equal(t, metadata.ErrNotFound, client.Delete(ctx, k))
		}
	})
}

// TestKeysAreSpelledAsUpstreamDoes: its server compares keys as they were written.
func TestKeysAreSpelledAsUpstreamDoes(t *testing.T) {
	var query, contentType string
	srv := httptest.NewServer(nethttp.HandlerFunc(func(_ nethttp.ResponseWriter, r *nethttp.Request) {
		query, contentType = r.URL.RawQuery, r.Header.Get("Content-Type")
	}))
	defer srv.Close()
	c, err := http.NewClient(srv.URL, http.ClientOptions{})
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.Put(t.Context(), "mooncake/ram/a b:1+~-._", []byte("v")))
	assert.Equal(t, "key=mooncake%2Fram%2Fa%20b%3A1%2B~-._", query)
	assert.Equal(t, "application/json", contentType)
}

func TestUnreachableService(t *testing.T) {
	url := "http://" + heldport.Address(t) + "/metadata"
	c, err := http.NewClient(url, http.ClientOptions{})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Get(t.Context(), "k")
	assert.Equal(t, errs.RPCFail, errs.CodeOf(err))
	assert.ErrorContains(t, err, url)
	assert.ErrorContains(t, err, "mooncake metadata")
}

func TestSilentService(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	c, err := http.NewClient("http://"+ln.Addr().String()+"/metadata", http.ClientOptions{Timeout: 20 * time.Millisecond})
	require.NoError(t, err)
	defer c.Close()
	err = c.Put(t.Context(), "k", []byte("v"))
	assert.Equal(t, errs.RPCTimeout, errs.CodeOf(err))
}

func TestOtherServer(t *testing.T) {
	srv := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		nethttp.Error(w, "what do you want", nethttp.StatusTeapot)
	}))
	defer srv.Close()
	c, err := http.NewClient(srv.URL, http.ClientOptions{})
	require.NoError(t, err)
	defer c.Close()
	for _, err := range []error{c.Put(t.Context(), "k", nil), c.Delete(t.Context(), "k")} {
		assert.Equal(t, errs.RPCFail, errs.CodeOf(err))
		assert.ErrorContains(t, err, "418")
		assert.ErrorContains(t, err, "what do you want")
	}
}

func TestBadURL(t *testing.T) {
	for _, u := range []string{"", "host:1", "ftp://h/m", "http://", "http://h/m?key=1", "http://u:p@h/m", "http://h:x/"} {
		_, err := http.NewClient(u, http.ClientOptions{})
		assert.Equal(t, errs.InvalidParams, errs.CodeOf(err), u)
	}
}
