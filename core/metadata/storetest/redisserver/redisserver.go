// Package redisserver runs a real redis-server for tests.
package redisserver

import (
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/metadata/storetest"
)

// Server is a redis-server process that keeps its values in a folder of the test.
type Server struct {
	// Address is "host:port" on loopback, the same after a restart.
	Address string
	dir     string
	args    []string
	cmd     *exec.Cmd
}

// New starts a server that ends with the test. It skips the test where there is no Redis.
func New(t testing.TB, args ...string) *Server {
	s := &Server{Address: storetest.FreeAddress(t), dir: t.TempDir(), args: args}
	s.Start(t)
	t.Cleanup(func() { s.Stop(t) })
	return s
}

// binary returns the path of the server. The package redis-tools has it as well, under
// the name of a tool that becomes the server when it is called so.
func binary(t testing.TB) string {
	for _, name := range []string{"redis-server", "redis-check-rdb"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("there is no redis-server in PATH; scripts/setup.sh installs it")
	return ""
}

// Start starts it again after Stop.
func (s *Server) Start(t testing.TB) {
	_, port, err := net.SplitHostPort(s.Address)
	require.NoError(t, err)
	path := binary(t)
	s.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), path)
	s.cmd.Args = append([]string{filepath.Join(filepath.Dir(path), "redis-server"), "--bind", "127.0.0.1", "--port", port, "--dir", s.dir,
		"--save", "", "--appendonly", "yes", "--appendfsync", "no", "--daemonize", "no"}, s.args...)
	require.NoError(t, s.cmd.Start())
	require.Eventually(t, func() bool {
		c, err := redis.Dial("tcp", s.Address, redis.DialConnectTimeout(time.Second), redis.DialReadTimeout(time.Second))
		if err != nil {
			return false
		}
		defer c.Close()
		_, err = c.Do("PING")
		return err == nil || strings.HasPrefix(err.Error(), "NOAUTH")
	}, 30*time.Second, 5*time.Millisecond, "redis-server starts")
}

// Stop kills it; what was answered is kept. Repeatable.
func (s *Server) Stop(t testing.TB) {
	if s.cmd == nil {
		return
	}
	require.NoError(t, s.cmd.Process.Kill())
	_ = s.cmd.Wait() // It was killed, which is no success.
	s.cmd = nil
}
