package rpc_test

import (
	"io"
	"log/slog"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/api/rpc/server"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/security/securitytest"
)

// securedClient is benchClient with security.mode mtls.
func securedClient(b *testing.B) (*client.Client, []model.Key) {
	a := securitytest.NewAuthority(b)
	open := func(role security.Role) *doors.Doors {
		f := a.Issue(b, securitytest.Certificate{Role: role, Name: "a"})
		d, err := doors.Open(config.Security{Mode: "mtls", CA: f.CA, Cert: f.Cert, Key: f.Key}, slog.New(slog.NewTextHandler(io.Discard, nil)))
		require.NoError(b, err)
		b.Cleanup(d.Start())
		return d
	}
	m, keys := benchTable(b)
	far := open(security.RoleMaster)
	raw, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	require.NoError(b, err)
	ln, err := far.Guard(raw, config.DoorRPC)
	require.NoError(b, err)
	s := server.New(m, server.Options{Access: far.Access()})
	go func() { _ = s.Serve(ln) }()
	b.Cleanup(func() { s.Stop(b.Context()) })
	c, err := client.Dial(ln.Addr().String(), client.Options{Doors: open(security.RoleClient)})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, c.Close()) })
	return c, keys
}

// BenchmarkSecured makes batch calls of 256 keys with mtls and in plaintext, in turns, and reports the ratios of elapsed and of
// processor time: 1 is no cost.
func BenchmarkSecured(b *testing.B) {
	plain, keys := benchClient(b)
	safe, _ := securedClient(b)
	const calls = 500
	for name, call := range map[string]func(*client.Client) error{
		"exist": func(c *client.Client) error { _, err := c.Exist(b.Context(), anonymous, keys); return err },
		"get":   func(c *client.Client) error { _, err := c.GetReplicas(b.Context(), anonymous, keys, nil); return err },
	} {
		b.Run(name, func(b *testing.B) {
			measure := func(c *client.Client) (wall, work float64) {
				start, before := time.Now(), processor()
				for range calls {
					if err := call(c); err != nil {
						b.Fatal(err)
					}
				}
				return time.Since(start).Seconds(), processor() - before
			}
			measure(plain)
			measure(safe)
			var walls, works []float64
			for b.Loop() {
				w1, c1 := measure(plain)
				w2, c2 := measure(safe)
				walls, works = append(walls, w1/w2), append(works, c1/c2)
			}
			slices.Sort(walls)
			slices.Sort(works)
			b.ReportMetric(walls[len(walls)/2], "of-plain")
			b.ReportMetric(works[len(works)/2], "of-plain-cpu")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// processor returns the processor time of this process, in seconds.
func processor() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
