package attack

import (
	"crypto/tls"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/certs"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// impostors pass as the master before a client of the pool: it must not send them a request.
func (c *campaign) impostors(t *testing.T) {
	t.Helper()
	other := certs.Folder(filepath.Join(t.TempDir(), "other"))
	_, err := other.Init("other", 48*time.Hour, time.Now())
	require.NoError(t, err)
	hosts, master := []string{"127.0.0.1"}, security.Identity{Trust: "mooncake", Role: security.RoleMaster, Name: "try"}
	stranger, err := other.Issue("master", hosts, time.Hour, time.Now(), master)
	require.NoError(t, err)
	ended, err := c.dir.Issue("ended-master", hosts, time.Hour, time.Now().Add(-48*time.Hour), master)
	require.NoError(t, err)
	foreign := master
	foreign.Trust = "elsewhere"
	elsewhere, err := c.dir.Issue("foreign-master", hosts, time.Hour, time.Now(), foreign)
	require.NoError(t, err)
	store, err := c.dir.Node(string(security.RoleStore))
	require.NoError(t, err)
	for name, f := range map[string]certs.Files{
		"of another authority": stranger, "of a store": store, "that has ended": ended, "of another trust domain": elsewhere,
	} {
		heard := c.deceive(t, f)
		c.note("pass as the master with a certificate "+name, heard == 0, "the client sent %d bytes", heard)
	}
	good, err := c.dir.Node(string(security.RoleMaster))
	require.NoError(t, err)
	require.Positive(t, c.deceive(t, good), "a client talks to the certificate of a master")
}

// deceive listens with a certificate, has a client of the pool call there, and returns how many bytes it sent.
func (c *campaign) deceive(t *testing.T, f certs.Files) (heard int) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	require.NoError(t, err)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert, NextProtos: []string{"h2"}})
	require.NoError(t, err)
	bytes := make(chan int, 1)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			bytes <- 0
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		n, _ := conn.Read(make([]byte, 1))
		bytes <- n
	}()
	m, err := client.Dial(ln.Addr().String(), client.Options{Timeout: 2 * time.Second, Security: c.section(security.RoleClient)})
	require.NoError(t, err)
	_, err = m.GetReplicas(t.Context(), model.Caller{Tenant: "default"}, []model.Key{"victim"}, nil)
	require.Error(t, err)
	heard = <-bytes
	require.NoError(t, m.Close())
	require.NoError(t, ln.Close())
	return heard
}

// plugins puts programs into a plugin folder that the lock file does not have, or has otherwise.
func (c *campaign) plugins(t *testing.T) {
	t.Helper()
	dir := filepath.Join(bin, "plugins")
	require.NoError(t, os.Mkdir(dir, 0o755))
	program, lock := filepath.Join(dir, "mooncake-plugin-evict-lru"), filepath.Join(bin, "plugins.lock.yaml")
	original, err := os.ReadFile(filepath.Join(bin, "mooncake-plugin-evict-lru"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, original, 0o755)) //nolint:gosec // A program.
	begin := func(lock string) string {
		s, log := c.section(security.RoleMaster), &transcript{}
		proc, err := cluster.Start(cluster.Spec{Name: "plugins", Program: filepath.Join(bin, "mooncake"), Log: log, Env: programs.Environ(), Args: []string{
			"master", "--rpc_address", "127.0.0.1", "--rpc_port", "0", "--metrics_host", "127.0.0.1", "--metrics_port", "0", "--evictor", "lru",
			"--set", "plugins.evict.lru.mode=subprocess", "--plugin_dir", dir, "--plugin_lock", lock,
			"--security_mode", s.Mode, "--security_ca", s.CA, "--security_cert", s.Cert, "--security_key", s.Key,
		}})
		require.NoError(t, err)
		defer proc.Kill()
		_ = cluster.Poll(proc, time.Minute, func() error { // It serves, or has ended.
			if !strings.Contains(log.String(), "master is serving") {
				return io.EOF
			}
			return nil
		})
		return log.String()
	}
	refused := func(attack, log, want string) {
		t.Helper()
		c.note(attack, !strings.Contains(log, "master is serving") && strings.Contains(log, want), "%.300s", regexp.MustCompile(`(?s)^.*(mooncake: |level=ERROR)`).ReplaceAllString(log, ""))
	}
	refused("run a plugin program without a lock file", begin(""), "only locked programs run here")
	require.NoError(t, os.WriteFile(lock, []byte("version: 1\nplugins: {}\n"), 0o644)) //nolint:gosec // For others to read.
	refused("run a plugin program that is not in the lock file", begin(lock), "does not have it")
	programs.Must(t, programs.Spec{Program: filepath.Join(bin, "mooncake"), Args: []string{"plugins", "lock", "evict/lru", "--plugin-dir", dir, "--plugin-lock", lock}})
	require.Contains(t, begin(lock), "master is serving", "a locked program runs")
	require.NoError(t, os.WriteFile(program, append(original, 0), 0o755)) //nolint:gosec // A program.
	refused("run a plugin program that was changed after locking", begin(lock), "updated or tampered with")
}
