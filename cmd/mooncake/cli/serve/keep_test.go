package serve

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/vault"
)

// runKeep runs the verb keep until ctx ends and returns its error and log.
func runKeep(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := Keep(&command.Env{Stdout: &out, Stderr: &out, Program: os.Args[0]})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	return out.String(), err
}

// TestKeep: one keeper serves at a socket. What a killed one left there is no obstacle, and a second one says that it is
// not needed.
func TestKeep(t *testing.T) {
	for _, socket := range []string{filepath.Join(t.TempDir(), "s"), fmt.Sprintf("@mooncake-test-keep-%d", os.Getpid())} {
		l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: socket, Net: "unixpacket"})
		require.NoError(t, err)
		l.SetUnlinkOnClose(false)
		require.NoError(t, l.Close())
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := runKeep(ctx, "--socket", socket)
			ended <- err
		}()
		var v vault.Vault
		require.Eventually(t, func() (ok bool) {
			var err error
			v, err = vault.Dial(ctx, socket, "store")
			return err == nil
		}, 20*time.Second, time.Millisecond)
		_, err = runKeep(t.Context(), "--socket", socket)
		require.ErrorContains(t, err, "listens at "+socket+" already")
		require.NoError(t, v.Close())
		end()
		require.NoError(t, <-ended)
	}
}

func TestKeepRefusals(t *testing.T) {
	for want, args := range map[string][]string{
		"--keep_time":         {"--keep_time", "0s"},
		"--socket \"keep\"":   {"--socket", "keep"},
		"--idle":              {"--idle", "-1s"},
		"\"extra\"":           {"extra"},
		"unknown flag: --who": {"--who"},
	} {
		_, err := runKeep(t.Context(), args...)
		require.ErrorContains(t, err, want)
	}
}
