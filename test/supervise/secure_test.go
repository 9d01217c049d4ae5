package supervise

import (
	"log/slog"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/pluginhost/launch/sandbox"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/security/securitytest"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestSecurityReachesTheProcess: a transport in a process of its own serves and dials as the security mode of
// its host says, and so does the process that takes its place.
func TestSecurityReachesTheProcess(t *testing.T) {
	a := securitytest.NewAuthority(t)
	log := slog.New(slog.DiscardHandler)
	tcp := plugin.ID{Kind: plugin.KindTransport, Name: "tcp"}
	catalog, err := pluginhost.New(builtin.Plugins(), pluginhost.Options{Dirs: []string{dir}, Logger: log, Sandbox: sandbox.ModeAuto})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, catalog.Close(t.Context())) })
	begin := func(id plugin.ID, host plugin.Host, config map[string]any) transport.Transport {
		x, err := catalog.OpenTransport(t.Context(), id, pluginhost.Spec{Config: config}, pluginhost.TransportOptions{Supervision: quick()})
		require.NoError(t, err)
		require.NoError(t, x.Start(t.Context(), host))
		return x
	}
	of := func(id plugin.ID, role security.Role) plugin.Host {
		return pluginhost.SecureHostOf(id, log, security.Settings{
			Mode: security.ModeMTLS, Files: a.Issue(t, securitytest.Certificate{Role: role, Name: "a"}),
		})
	}
	home := map[string]any{"host": "127.0.0.1"}
	apart, near := begin(faulty, of(faulty, security.RoleStore), nil), begin(tcp, of(tcp, security.RoleClient), home)
	plain := begin(tcp, pluginhost.HostOf(tcp, log), home)
	pid := func() int {
		for _, in := range catalog.Instances() {
			if in.ID() == faulty {
				return in.PID
			}
		}
		return 0
	}
	_, err = plain.Dial(t.Context(), apart.Endpoint())
	require.ErrorContains(t, err, "takes TLS only, and security.mode is off here")
	for round := range 2 {
		mem, key := memoryOf(t, apart, transport.RegionID(round+1), size)
		pattern(mem, byte(round))
		local := make([]byte, size)
		p, err := near.Dial(t.Context(), apart.Endpoint())
		require.NoError(t, err)
		id, err := p.Import(t.Context(), key)
		require.NoError(t, err)
		move(t, p, []transport.Op{{ID: 1, Kind: transport.Read, Local: local, Remote: id}})
		require.Equal(t, mem, local)

		theirs, key := memoryOf(t, near, transport.RegionID(round+1), size)
		own, _ := memoryOf(t, apart, transport.RegionID(round+11), size)
		p, err = apart.Dial(t.Context(), near.Endpoint())
		require.NoError(t, err)
		id, err = p.Import(t.Context(), key)
		require.NoError(t, err)
		pattern(theirs, 9)
		move(t, p, []transport.Op{{ID: 1, Kind: transport.Read, Local: own, Remote: id}})
		require.Equal(t, theirs, own)

		before, at := pid(), apart.Endpoint().Incarnation
		require.NoError(t, syscall.Kill(before, syscall.SIGKILL))
		require.Eventually(t, func() bool { return pid() != 0 && pid() != before && apart.Endpoint().Incarnation != at }, time.Minute, time.Millisecond)
	}
}
