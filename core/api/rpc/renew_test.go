package rpc_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/api/rpc/server"
	"github.com/mooncake-go/mooncake/core/api/rpc/staging"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/internal/httpd"
	"github.com/mooncake-go/mooncake/core/internal/testkit/logbuf"
	"github.com/mooncake-go/mooncake/core/internal/testkit/stager"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/security/securitytest"
)

// counting is a listener that counts its connections.
type counting struct {
	net.Listener
	conns atomic.Int32
}

func (c *counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.conns.Add(1)
	}
	return conn, err
}

// TestRenewedPeersNoticeNothing: the certificates of both sides live for some seconds and are replaced before they end,
// while calls are made over each protocol of the doors. Connections give way to others; no call fails.
func TestRenewedPeersNoticeNothing(t *testing.T) {
	const life, renewals = 8 * time.Second, 7
	a := securitytest.NewAuthority(t)
	brief := func(role security.Role) securitytest.Certificate {
		return securitytest.Certificate{Role: role, Name: "a", Ends: time.Now().Add(life)}
	}
	var log logbuf.Buffer
	sides := map[security.Role]security.Files{}
	open := func(role security.Role) *doors.Doors {
		f := a.Issue(t, brief(role))
		sides[role] = f
		d, err := doors.Open(config.Security{Mode: "mtls", CA: f.CA, Cert: f.Cert, Key: f.Key, LookEvery: 20 * time.Millisecond}, slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), &log), nil)))
		require.NoError(t, err)
		t.Cleanup(d.Start())
		return d
	}
	stays := a.Issue(t, securitytest.Certificate{Role: security.RoleReader, Name: "b"})
	far, store := open(security.RoleMaster), open(security.RoleStore)
	node := open(security.RoleClient)
	listen := func(d *doors.Doors, door config.Door) *counting {
		raw, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		ln, err := d.Guard(raw, door)
		require.NoError(t, err)
		return &counting{Listener: ln}
	}
	run := func(ln *counting, serve func(net.Listener) error, stop func(context.Context)) {
		var running sync.WaitGroup
		running.Go(func() { assert.NoError(t, serve(ln)) })
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			stop(ctx)
			running.Wait()
		})
	}
	rpcs, grpcs, tiers, web := listen(far, config.DoorRPC), listen(far, config.DoorRPC), listen(node, config.DoorOffload), listen(far, config.DoorAdmin)
	for _, ln := range []*counting{rpcs, grpcs} {
		s := server.New(newTableMaster(), server.Options{})
		run(ln, s.Serve, s.Stop)
	}
	tier := staging.NewServer(stager.Funcs{}, nil, nil)
	run(tiers, tier.Serve, tier.Stop)
	admin := httpd.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "yes") }), httpd.Options{})
	admin.Start(web)
	t.Cleanup(func() { assert.NoError(t, admin.Stop(context.Background())) })

	dial := func(ln *counting, grpc bool) *client.Client {
		c, err := client.Dial(ln.Addr().String(), client.Options{Doors: store, Version: "1.2.3", GRPC: grpc, Timeout: 20 * time.Second})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		return c
	}
	leans, over := dial(rpcs, false), dial(grpcs, true)
	reader := staging.NewClient(staging.Options{Doors: store})
	t.Cleanup(func() { require.NoError(t, reader.Close()) })
	// Another program has a certificate that stays, and keeps its connection until the server says otherwise.
	pair, err := tls.LoadX509KeyPair(stays.Cert, stays.Key)
	require.NoError(t, err)
	other := &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true}}
	t.Cleanup(other.CloseIdleConnections)
	transport := store.Transport(&http.Transport{}, config.DoorAdmin, security.RoleMaster)
	t.Cleanup(transport.CloseIdleConnections)
	post := func(transport http.RoundTripper, scheme string) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, scheme+web.Addr().String(), strings.NewReader("{}"))
		if err != nil {
			return err
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return errors.Join(err, resp.Body.Close())
	}
	calls := map[string]func() error{
		"lean": func() error { _, err := leans.Ready(t.Context()); return err },
		"gRPC": func() error { _, err := over.Ready(t.Context()); return err },
		"offload": func() error {
			_, err := reader.Stage(t.Context(), tiers.Addr().String(), []model.StageRead{{Segment: model.UUID{Lo: 5}, Size: 1, Length: 1}})
			return err
		},
		"HTTP":            func() error { return post(transport, "http://") },
		"another program": func() error { return post(other, "https://") },
	}
	done := make(chan struct{})
	var load sync.WaitGroup
	for name, call := range calls {
		load.Go(func() {
			for {
				if err := call(); !assert.NoError(t, err, name) {
					return
				}
				select {
				case <-done:
					return
				case <-time.After(time.Millisecond): // Connections are idle as well as in use.
				}
			}
		})
	}
	for range renewals {
		time.Sleep(life / 4)
		for role, f := range sides {
			replace(t, a, f, brief(role))
		}
	}
	close(done)
	load.Wait()
	assert.NotRegexp(t, "connection was closed.*door=(rpc|offload)", log.String(), "connections are left before they have to be closed")
	for name, ln := range map[string]*counting{"lean": rpcs, "gRPC": grpcs, "offload": tiers, "HTTP": web} {
		assert.GreaterOrEqual(t, ln.conns.Load(), int32(4), "connections of %s", name)
	}
}

// replace writes a certificate and its key at once, as a program that renews them does.
func replace(t *testing.T, a *securitytest.Authority, f security.Files, c securitytest.Certificate) {
	t.Helper()
	next := security.Files{CA: f.CA, Cert: f.Cert + ".next", Key: f.Key + ".next"}
	a.Replace(t, next, c)
	require.NoError(t, os.Rename(next.Key, f.Key))
	require.NoError(t, os.Rename(next.Cert, f.Cert))
}
