package introspect

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

var lru = plugin.ID{Kind: "evict", Name: "lru"}

func TestWhatIsAsked(t *testing.T) {
	host := twoPlugins()
	path := filepath.Join(short(t), "a.sock")
	c := serve(t, host, path)
	who, err := c.Process(bounded(t))
	require.NoError(t, err)
	assert.Equal(t, Process{API: API, Role: "master", PID: os.Getpid(), Version: "v1", Started: who.Started, Socket: path}, who)
	assert.False(t, who.Started.IsZero())

	got, err := c.Plugins(bounded(t))
	require.NoError(t, err)
	assert.Equal(t, who, got.Process)
	assert.Equal(t, host.have, got.Plugins, "nothing is lost on the way")

	host.have = nil
	got, err = c.Plugins(bounded(t))
	require.NoError(t, err)
	assert.NotNil(t, got.Plugins, "an empty list is a list")
}

func TestReload(t *testing.T) {
	host := twoPlugins()
	c := serve(t, host, filepath.Join(short(t), "a.sock"))
	var asked plugin.ID
	host.reload = func(_ context.Context, id plugin.ID) (pluginhost.Instance, error) {
		asked = id
		return pluginhost.Instance{Kind: id.Kind, Name: id.Name, PID: 7, State: plugin.StateOK}, nil
	}
	r, err := c.Reload(bounded(t), lru)
	require.NoError(t, err)
	assert.Equal(t, lru, asked)
	assert.Equal(t, host.have[0], r.Before)
	assert.Equal(t, 7, r.After.PID)

	host.reload = func(context.Context, plugin.ID) (pluginhost.Instance, error) { return pluginhost.Instance{}, errBoom }
	_, err = c.Reload(bounded(t), lru)
	assert.True(t, errs.Is(err, errs.RPCFail))
	assert.Equal(t, errBoom.Error(), err.Error(), "the process's own words")

	_, err = c.Reload(bounded(t), plugin.ID{Kind: "evict", Name: "nope"})
	assert.True(t, errs.Is(err, errs.FileNotFound), err)
	_, err = c.Reload(bounded(t), plugin.ID{Kind: "evict", Name: "../x"})
	assert.True(t, errs.Is(err, errs.InvalidParams), err)
}

// onlyInstances cannot reload.
type onlyInstances struct{ *fake }

func (onlyInstances) Reload() {}

func TestAHostThatCannotReload(t *testing.T) {
	c := serve(t, onlyInstances{twoPlugins()}, filepath.Join(short(t), "a.sock"))
	_, err := c.Reload(bounded(t), lru)
	assert.True(t, errs.Is(err, errs.NotSupported), err)
}

// A reload goes on when whoever asked goes away, a second one meanwhile is refused, and the
// end of the process gives it up.
func TestOneReloadAtATime(t *testing.T) {
	host := twoPlugins()
	began, ended := make(chan context.Context, 1), make(chan error, 1)
	host.reload = func(ctx context.Context, _ plugin.ID) (pluginhost.Instance, error) {
		began <- ctx
		<-ctx.Done()
		ended <- ctx.Err()
		return pluginhost.Instance{}, ctx.Err()
	}
	path := filepath.Join(short(t), "a.sock")
	ln, err := ListenAt(t.Context(), path)
	require.NoError(t, err)
	s := NewServer(host, "master", "v1", nil)
	s.Start(ln)
	c := NewClient(path)
	impatient, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := c.Reload(impatient, lru)
		left <- err
	}()
	inner := <-began
	leave()
	require.Error(t, <-left)
	_, err = c.Reload(bounded(t), lru)
	assert.True(t, errs.Is(err, errs.UnavailableInCurrentStatus), err)
	assert.NoError(t, inner.Err(), "it goes on")
	_, limited := inner.Deadline()
	assert.True(t, limited)
	require.NoError(t, s.Stop(bounded(t)))
	assert.ErrorIs(t, <-ended, context.Canceled)
}

// raw sends bytes as they are and returns the first line of the answer.
func raw(t *testing.T, path, text string) string {
	t.Helper()
	conn, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = conn.Write([]byte(text))
	require.NoError(t, err)
	buf := make([]byte, 4096)
	n, _ := conn.Read(buf)
	line, _, _ := strings.Cut(string(buf[:n]), "\r\n")
	return line
}

func TestBadRequests(t *testing.T) {
	host := twoPlugins()
	host.reload = func(context.Context, plugin.ID) (pluginhost.Instance, error) {
		t.Error("nothing of this may reload")
		return pluginhost.Instance{}, nil
	}
	path := filepath.Join(short(t), "a.sock")
	c := serve(t, host, path)
	for request, want := range map[string]int{
		"GET /v1/nope HTTP/1.1\r\nHost: x\r\n\r\n":                                                               http.StatusNotFound,
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n":                                                                      http.StatusNotFound,
		"POST /v1/plugins HTTP/1.1\r\nHost: x\r\n\r\n":                                                           http.StatusMethodNotAllowed,
		"GET /v1/plugins/evict/lru/reload HTTP/1.1\r\nHost: x\r\n\r\n":                                           http.StatusMethodNotAllowed,
		"GET /v1/plugins?all=1 HTTP/1.1\r\nHost: x\r\n\r\n":                                                      http.StatusBadRequest,
		"POST /v1/plugins/evict/lru/reload?force=1 HTTP/1.1\r\nHost: x\r\n\r\n":                                  http.StatusBadRequest,
		"POST /v1/plugins/evict/lru/reload HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}":                   http.StatusBadRequest,
		"POST /v1/plugins/evict/lru/reload HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n": http.StatusBadRequest,
		"POST /v1/plugins/evict/lru/reload HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n{":          http.StatusBadRequest,
		"POST /v1/plugins/EVICT/lru/reload HTTP/1.1\r\nHost: x\r\n\r\n":                                          http.StatusBadRequest,
		"POST /v1/plugins/evict/%2e%2e%2fx/reload HTTP/1.1\r\nHost: x\r\n\r\n":                                   http.StatusBadRequest,
		"POST /v1/plugins/evict/gone/reload HTTP/1.1\r\nHost: x\r\n\r\n":                                         http.StatusNotFound,
		"GET /v1/plugins HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 64<<10) + "\r\n\r\n":                  http.StatusRequestHeaderFieldsTooLarge,
		"\x00\x01\x02\r\n\r\n": http.StatusBadRequest,
	} {
		line := raw(t, path, request)
		assert.Contains(t, line, " "+http.StatusText(want), "%.80q", request)
	}
	_, err := c.Plugins(bounded(t))
	assert.NoError(t, err, "it still answers")
}

// TestSilentClients: connections that say nothing, more than the server takes, do not keep
// others out.
func TestSilentClients(t *testing.T) {
	path := filepath.Join(short(t), "a.sock")
	c := serve(t, twoPlugins(), path)
	for range 64 {
		conn, err := net.Dial("unix", path)
		require.NoError(t, err)
		defer conn.Close()
	}
	_, err := c.Plugins(bounded(t))
	require.NoError(t, err)
}

// answer serves one fixed answer to everything.
func answer(t *testing.T, text string) *Client {
	t.Helper()
	path := filepath.Join(short(t), "b.sock")
	ln, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 4096))
				_, _ = conn.Write([]byte(text))
			}()
		}
	}()
	return NewClient(path)
}

func TestBadAnswers(t *testing.T) {
	head := "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
	for text, code := range map[string]errs.Code{
		"":                                      errs.RPCFail,
		"garbage\r\n\r\n":                       errs.RPCFail,
		head:                                    errs.DeserializeFail,
		head + "[]":                             errs.DeserializeFail,
		head + `{"plugins":7}`:                  errs.DeserializeFail,
		head + strings.Repeat(" ", maxAnswer+1): errs.DeserializeFail,
		"HTTP/1.1 302 Found\r\nLocation: http://example.com/\r\n\r\n":             errs.RPCFail,
		"HTTP/1.1 500 No\r\nConnection: close\r\n\r\n<html>":                      errs.RPCFail,
		"HTTP/1.1 500 No\r\nConnection: close\r\n\r\n{\"error\":{}}":              errs.RPCFail,
		"HTTP/1.1 500 No\r\nConnection: close\r\n\r\n{\"error\":{\"code\":-600}}": errs.RPCFail,
	} {
		_, err := answer(t, text).Plugins(bounded(t))
		assert.True(t, errs.Is(err, code), "%.60q: %v", text, err)
	}
	got, err := answer(t, head+`{"process":{"api":2,"new":true},"plugins":[{"kind":"evict","later":1}],"more":[]}`).Plugins(bounded(t))
	require.NoError(t, err, "a newer process says more")
	assert.Equal(t, 2, got.Process.API)
	assert.Len(t, got.Plugins, 1)
}

// TestAHungProcess: the process does not accept connections, like one that is stopped.
func TestAHungProcess(t *testing.T) {
	path := filepath.Join(short(t), "h.sock")
	ln, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer ln.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = NewClient(path).Plugins(ctx)
	assert.True(t, errs.Is(err, errs.RPCTimeout), err)
}

func TestNoProcessThere(t *testing.T) {
	dir := short(t)
	_, err := NewClient(filepath.Join(dir, "none.sock")).Process(bounded(t))
	assert.True(t, errs.Is(err, errs.FileNotFound), err)
	dead := leftBehind(t, dir, "master-1.sock")
	_, err = NewClient(dead).Process(bounded(t))
	assert.True(t, errs.Is(err, errs.RPCFail), err)
	assert.ErrorContains(t, err, "has ended")
}

// TestAskTellsWhichProcessesHaveEnded: since their sockets were found.
func TestAskTellsWhichProcessesHaveEnded(t *testing.T) {
	dir := short(t)
	runs := filepath.Join(dir, "master-2.sock")
	serve(t, twoPlugins(), runs)
	hung, err := net.Listen("unix", filepath.Join(dir, "store-3.sock"))
	require.NoError(t, err)
	defer hung.Close()
	paths := []string{filepath.Join(dir, "none.sock"), leftBehind(t, dir, "master-1.sock"), runs, hung.Addr().String()}
	sockets := make([]Socket, len(paths))
	for i, path := range paths {
		sockets[i].Path = path
	}
	answers := Ask(t.Context(), sockets[:3], time.Minute)
	answers = append(answers, Ask(t.Context(), sockets[3:], 50*time.Millisecond)...)
	for i, want := range []struct{ failed, ended bool }{{true, true}, {true, true}, {false, false}, {true, false}} {
		assert.Equal(t, want.failed, answers[i].Err != nil, paths[i])
		assert.Equal(t, want.ended, answers[i].Ended, paths[i])
	}
}

func FuzzRefused(f *testing.F) {
	f.Add(500, []byte(`{"error":{"code":-1,"message":"x"}}`))
	f.Add(404, []byte(`<html>`))
	f.Fuzz(func(t *testing.T, status int, text []byte) {
		err := refused("x", status, text)
		require.Error(t, err)
		require.NotEmpty(t, err.Error())
		require.NotZero(t, errs.CodeOf(err))
	})
}

func FuzzName(f *testing.F) {
	f.Add("master-12.sock")
	f.Add("store-service-7.99.sock")
	f.Fuzz(func(t *testing.T, name string) {
		role, pid, ok := parseName(name)
		if !ok {
			return
		}
		require.Positive(t, pid)
		require.NotEmpty(t, role)
		require.NotContains(t, name, "/")
		require.True(t, strings.HasPrefix(name, socketName(role, pid, 0)[:len(role)+2]))
	})
}
