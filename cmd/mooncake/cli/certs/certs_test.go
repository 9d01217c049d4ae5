package certs_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/cli"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
)

func TestCerts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	call := func(code int, args ...string) string {
		var out, bad bytes.Buffer
		e := &command.Env{Stdin: os.Stdin, Stdout: &out, Stderr: &bad}
		require.Equal(t, code, cli.Run(e, append([]string{"mooncake", "certs"}, args...)), "%q: %s", args, bad.String())
		return out.String() + bad.String()
	}
	require.Contains(t, call(command.ExitUsage, "issue", dir, "n"), "certs init")
	require.Contains(t, call(0, "init", dir), "ca-key.pem")
	require.Contains(t, call(0, "issue", dir, "n", "10.0.0.1"), "cert: "+dir+"/n.pem")
	shown := call(0, "show", dir+"/n.pem")
	require.Contains(t, shown, "n, 10.0.0.1")
	require.Contains(t, shown, "server, client")
	require.Contains(t, call(0, "show", dir+"/ca.pem", "-o", "json"), `"authority": true`)
	require.NotEqual(t, shown, call(0, "renew", dir+"/n.pem"), "another fingerprint")
	require.Contains(t, call(command.ExitFailure, "issue", dir, "n"), "nothing was written")
	call(command.ExitUsage, "issue", dir)
	require.Contains(t, call(command.ExitFailure, "spiffe", dir, "--socket", "unix://"+dir+"/none.sock", "--wait", "100ms"), "does the agent run")
	require.Contains(t, call(0, "issue", dir, "e", "--role", "client", "--tenant", "team"), "cert: ")
	require.Contains(t, call(0, "show", dir+"/e.pem"), "spiffe://mooncake/mooncake/client/team/e")
	require.Contains(t, call(0, "renew", dir+"/e.pem"), "spiffe://mooncake/mooncake/client/team/e")
	require.Contains(t, call(command.ExitUsage, "issue", dir, "f", "--tenant", "team"), "needs --role")
	require.Contains(t, call(command.ExitUsage, "issue", dir, "g", "--role", "client", "--tenant", "_all"), "the tenant")
	require.Contains(t, call(command.ExitUsage, "issue", dir, "h", "--role", "master", "--tenant", "team"), "serves all tenants")
}
