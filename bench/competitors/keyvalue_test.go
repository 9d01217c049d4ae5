package competitors

import (
	"bufio"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/bench/drivers"
	"github.com/mooncake-go/mooncake/core/bench/cluster"
)

// served is a connection whose other end expects a request and gives an answer, for each pair.
func served(t *testing.T, pairs ...[2]string) wire {
	t.Helper()
	here, there := net.Pipe()
	require.NoError(t, here.SetDeadline(time.Now().Add(time.Minute)))
	done := make(chan error, 1)
	go func() {
		defer there.Close()
		in := bufio.NewReader(there)
		for _, p := range pairs {
			got := make([]byte, len(p[0]))
			if _, err := io.ReadFull(in, got); err != nil {
				done <- err
				return
			}
			if string(got) != p[0] {
				done <- errors.New("request " + string(got))
				return
			}
			if _, err := io.WriteString(there, p[1]); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	t.Cleanup(func() {
		here.Close()
		require.NoError(t, <-done)
	})
	return newWire(here)
}

func testKeyValue(t *testing.T, c drivers.KeyValue) {
	t.Helper()
	require.NoError(t, c.Set("k", []byte("abc")))
	require.ErrorContains(t, c.Set("k", []byte("abc")), "the server answered")
	dst := make([]byte, 3)
	require.NoError(t, c.Get("k", dst))
	require.Equal(t, "xyz", string(dst))
	require.ErrorContains(t, c.Get("k", dst), "the server answered", "it is not there")
}

func TestRedisProtocol(t *testing.T) {
	set, get := "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\nabc\r\n", "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
	testKeyValue(t, &redisConn{served(t, [2]string{set, "+OK\r\n"}, [2]string{set, "-OOM\r\n"}, [2]string{get, "$3\r\nxyz\r\n"}, [2]string{get, "$-1\r\n"})})
}

func TestMemcachedProtocol(t *testing.T) {
	set, get := "set k 0 0 3\r\nabc\r\n", "get k\r\n"
	testKeyValue(t, &memcachedConn{served(t, [2]string{set, "STORED\r\n"}, [2]string{set, "SERVER_ERROR\r\n"}, [2]string{get, "VALUE k 0 3\r\nxyz\r\nEND\r\n"}, [2]string{get, "END\r\n"})})
}

func TestLoopbackBytes(t *testing.T) {
	n, err := loopbackBytes("Inter-|   Receive\n face |bytes\n  eth0: 7 1\n    lo: 1234567 89 0\n")
	require.NoError(t, err)
	require.EqualValues(t, 1234567, n)
	_, err = loopbackBytes("  eth0: 7 1\n")
	require.ErrorContains(t, err, "no interface lo")
	_, err = loopbackBytes("lo: many")
	require.Error(t, err)

	before, err := LoopbackBytes()
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	require.False(t, cluster.Vacant(l.Addr().(*net.TCPAddr).Port))
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = io.Copy(io.Discard, c)
			c.Close()
		}
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	_, err = c.Write(make([]byte, 1<<20))
	require.NoError(t, err)
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	_, err = c.Read(make([]byte, 1)) // It ends when everything has arrived.
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, c.Close())
	after, err := LoopbackBytes()
	require.NoError(t, err)
	require.GreaterOrEqual(t, after-before, uint64(1<<20), "what goes over TCP is counted")
}
