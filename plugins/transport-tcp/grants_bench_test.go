package tcp

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/security/securitytest"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/grant"
)

// BenchmarkGrants moves 64 KiB with mode mtls, with and without grants, one operation at a time and sixteen, and reports the processor time of
// both sides together.
func BenchmarkGrants(b *testing.B) {
	const size = 64 << 10
	a := securitytest.NewAuthority(b)
	host := func(name string) secured {
		return secured{settings: security.Settings{Mode: security.ModeMTLS, Files: a.Issue(b, securitytest.Certificate{Role: security.RoleStore, Name: name})}}
	}
	for _, c := range []struct {
		name  string
		depth int
		shows bool
	}{{"alone/without", 1, false}, {"alone/with", 1, true}, {"sixteen/without", 16, false}, {"sixteen/with", 16, true}} {
		b.Run(c.name, func(b *testing.B) {
			ctx := context.Background()
			server, client := newNode(*loopback()), newNode(*loopback())
			require.NoError(b, server.Start(ctx, host("server")))
			require.NoError(b, client.Start(ctx, host("client")))
			defer func() {
				require.NoError(b, client.Stop(ctx))
				require.NoError(b, server.Stop(ctx))
			}()
			began, clock := time.Now(), new(grant.Clock)
			book := grant.NewBook(func() time.Duration { return time.Since(began) })
			clock.Hear(0, 0, 0)
			e := book.Add(grant.Role{Clock: clock})
			s, by := grant.NewSealer(e.Number, e.Key), grant.SubjectOf(security.Identity{Trust: securitytest.Trust, Role: security.RoleStore, Name: "client"}.URI())
			r := transport.Region{ID: 1, Mem: make([]byte, 16*size), FD: -1, Location: "*", Access: transport.AccessRemote}
			if c.shows {
				r.Grants = book
			}
			key, err := server.Register(ctx, r)
			require.NoError(b, err)
			p, err := client.Dial(ctx, server.Endpoint())
			require.NoError(b, err)
			id, err := p.Import(ctx, key)
			require.NoError(b, err)
			ops, done := make([]transport.Op, c.depth), make([]transport.Completion, c.depth)
			for i := range ops {
				ops[i] = transport.Op{ID: uint64(i), Kind: transport.Read, Local: make([]byte, size), Remote: id, Offset: uint64(i * size)}
				if c.shows { // Another object, with a grant of its own, for each.
					g := new(transport.Grant)
					s.Seal(g, grant.Claim{Kind: transport.Read, Offset: uint64(i * size), Length: size, Until: time.Hour}, by)
					ops[i].Grant = transport.PermitOf(g)
				}
			}
			before := processor(b)
			b.SetBytes(int64(size * c.depth))
			for b.Loop() {
				_, err := p.Submit(ops)
				require.NoError(b, err)
				for left := c.depth; left > 0; {
					n, err := p.Reap(ctx, done)
					require.NoError(b, err)
					for _, x := range done[:n] {
						require.NoError(b, x.Err)
					}
					left -= n
				}
			}
			b.ReportMetric(float64(processor(b)-before)/float64(b.N*c.depth), "cpu-ns/64KiB")
		})
	}
}

// processor is the time that this process has used.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
