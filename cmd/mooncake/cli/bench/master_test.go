package bench_test

import (
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/cli"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/clitest"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/bench/masterload"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// few are the flags of a short measurement of calls.
var few = []string{"mooncake", "bench", "master", "calls", "--batch", "16", "--threads", "1", "--keys", "256", "--time", "1ms", "-o", "json"}

// calls runs few with more flags, in an environment.
func calls(t *testing.T, environ []string, more ...string) (code int, stdout, stderr string) {
	t.Helper()
	e, out, errs := clitest.New()
	e.Environ = environ
	return cli.Run(e, append(few[:len(few):len(few)], more...)), out.String(), errs.String()
}

// TestBenchMasterWithCertificates: a master in this process and its clients, in each security mode.
func TestBenchMasterWithCertificates(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, args := range [][]string{{"--security", "tls"}, {"--security", "mtls"}, {"--security", "mtls", "--grpc"}, {"--security", "mtls", "--cells", "2"}} {
		code, stdout, stderr := calls(t, nil, args...)
		require.Equal(t, command.ExitOK, code, "%q: %s", args, stderr)
		var r masterload.CallsReport
		require.NoError(t, json.Unmarshal([]byte(stdout), &r), stdout)
		assert.Len(t, r.Rows, 5, args)
	}
	e, stdout, stderr := clitest.New()
	require.Equal(t, command.ExitOK, cli.Run(e, []string{"mooncake", "bench", "master", "--keys", "1000", "--time", "1ms", "--security", "mtls"}), stderr.String())
	assert.Contains(t, stdout.String(), "PutStart, PutEnd")
	code, _, text := calls(t, nil, "--security", "both")
	assert.Equal(t, command.ExitUsage, code)
	assert.Contains(t, text, "want off, tls, mtls")
}

// TestBenchMasterCallsARunningMaster: with the certificate of a store or client, and with no other one.
func TestBenchMasterCallsARunningMaster(t *testing.T) {
	own, err := cluster.MakeCertificates(t.TempDir(), "mtls")
	require.NoError(t, err)
	e, _, _ := clitest.New()
	loaded, err := config.Load(config.Options{Role: config.RoleMaster, PluginDefaults: e.PluginDefaults()})
	require.NoError(t, err)
	loaded.Config.Security = own.Of(security.RoleMaster)
	m, err := app.StartLocalMaster(t.Context(), loaded.Config, e.Builtins, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer m.Close(t.Context())
	for role, want := range map[security.Role]string{security.RoleStore: "", security.RoleClient: "", security.RoleReader: "ILLEGAL_CLIENT: reader/try may not call"} {
		code, _, stderr := calls(t, own.Environ(nil, role), "--master", m.Address())
		if want == "" {
			assert.Equal(t, command.ExitOK, code, "%s: %s", role, stderr)
		} else {
			assert.Equal(t, command.ExitFailure, code, role)
			assert.Contains(t, stderr, want)
		}
	}
	code, _, stderr := calls(t, nil, "--master", m.Address())
	assert.Equal(t, command.ExitFailure, code, "without a certificate")
	assert.Contains(t, stderr, "security.mode")
	code, _, stderr = calls(t, nil, "--master", m.Address(), "--security", "mtls")
	assert.Equal(t, command.ExitUsage, code)
	assert.Contains(t, stderr, "as for a client")
}
