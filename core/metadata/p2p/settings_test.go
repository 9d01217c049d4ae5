package p2p_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/p2p"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestPortRanges(t *testing.T) {
	for _, r := range [][2]int{{15000, 17000}, {1024, 1024}, {1024, 32767}, {61000, 65535}} {
		assert.NoError(t, p2p.CheckPortRange(r[0], r[1]), "%v", r)
	}
	for _, r := range [][2]int{{0, 0}, {-1, 5}, {17000, 15000}, {1023, 2000}, {32767, 32768}, {60999, 61000}, {1024, 65535}, {40000, 40001}, {61000, 65536}} {
		assert.Equal(t, errs.InvalidParams, errs.CodeOf(p2p.CheckPortRange(r[0], r[1])), "%v", r)
		if r[0] > 0 {
			_, err := p2p.Listen(t.Context(), p2p.DaemonOptions{BindHost: "127.0.0.1", MinPort: r[0], MaxPort: r[1]})
			assert.Equal(t, errs.InvalidParams, errs.CodeOf(err), "%v", r)
		}
	}
}

// TestARangeIsUsedUp: each port of a range is found, and then it is said that none is left.
func TestARangeIsUsedUp(t *testing.T) {
	const first, last = 21000, 21009
	pid := os.Getpid() // An address of loopback that no other process of this test has.
	host := fmt.Sprintf("127.%d.%d.%d", 1+pid>>16&0x3f, pid>>8&0xff, pid&0xff)
	got := map[int]bool{}
	for range last - first + 1 {
		d, err := p2p.Listen(t.Context(), p2p.DaemonOptions{BindHost: host, MinPort: first, MaxPort: last})
		if err != nil { // Another process has some of them.
			break
		}
		t.Cleanup(func() { require.NoError(t, d.Stop(context.Background())) })
		got[d.Port()] = true
		assert.True(t, d.Port() >= first && d.Port() <= last)
	}
	require.NotEmpty(t, got)
	_, err := p2p.Listen(t.Context(), p2p.DaemonOptions{BindHost: host, MinPort: first, MaxPort: last})
	assert.ErrorContains(t, err, "21000 to 21009")
	assert.ErrorContains(t, err, "another range")
}

func TestLongestFrame(t *testing.T) {
	for _, n := range []int{1, p2p.DefaultMaxLength - 1, p2p.MaxMaxLength + 1} {
		_, err := p2p.Listen(t.Context(), p2p.DaemonOptions{BindHost: "127.0.0.1", MaxLength: n})
		assert.Equal(t, errs.InvalidParams, errs.CodeOf(err), "%d", n)
	}
	d, a := listen(t, p2p.DaemonOptions{MaxLength: 2 << 20})
	d.SetConnectionHandler(func(_ context.Context, q []byte) ([]byte, error) { return q, nil })
	long := []byte(`"` + strings.Repeat("x", 2<<20-4) + `"`) // with the type and the end of the line: the limit
	reply, err := p2p.Dialer{MaxLength: 2 << 20}.Exchange(t.Context(), a, p2p.TypeConnection, long)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(long, reply))
	_, err = p2p.Dialer{}.Exchange(t.Context(), a, p2p.TypeConnection, long)
	assert.ErrorContains(t, err, "1 to 1048576 are allowed", "longer than this side takes")
}

// TestTypesAreEchoed: whatever is asked, the answer has the type of the request, and null
// where there is nothing to say.
func TestTypesAreEchoed(t *testing.T) {
	_, a := listen(t, p2p.DaemonOptions{})
	for typ, want := range map[p2p.Type]string{
		p2p.TypeConnection: "null", p2p.TypeMetadata: "null", p2p.TypeNotify: `{"name":"","notify_msg":""}`, p2p.TypeProbe: `{"status":"success"}`,
	} {
		for _, request := range []string{"", "null", "{}", "nonsense"} {
			conn, err := net.Dial("tcp", a.String())
			require.NoError(t, err)
			require.NoError(t, p2p.WriteFrame(conn, p2p.Frame{Type: typ, JSON: []byte(request)}))
			raw, err := io.ReadAll(conn) // It ends because the daemon closes its side.
			require.NoError(t, err)
			conn.Close()
			f, err := p2p.ReadFrame(bytes.NewReader(raw), p2p.DefaultMaxLength)
			require.NoError(t, err)
			assert.Equal(t, p2p.Frame{Type: typ, JSON: []byte(want + "\n")}, f, request)
		}
	}
}

// TestTheClientClosesFirst: a daemon of upstream answers, closes its side and serves no
// other client until the client is gone. Such a daemon must be free after each exchange.
func TestTheClientClosesFirst(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	gone := make(chan error, 3)
	wg.Go(func() {
		for range cap(gone) {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			f, _ := p2p.ReadFrame(conn, p2p.DefaultMaxLength)
			_ = p2p.WriteFrame(conn, f)
			_ = conn.(*net.TCPConn).CloseWrite()
			_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
			_, err = io.Copy(io.Discard, conn)
			gone <- err
			conn.Close()
		}
	})
	port := ln.Addr().(*net.TCPAddr).Port
	for i := range cap(gone) {
		reply, err := p2p.Dialer{}.Exchange(t.Context(), metadata.Address{Host: "127.0.0.1", Port: port}, p2p.TypeConnection, []byte(strconv.Itoa(i)))
		require.NoError(t, err)
		assert.Equal(t, strconv.Itoa(i), string(reply))
		assert.NoError(t, <-gone)
	}
	ln.Close()
	wg.Wait()
}

// TestSlowHandshakesHoldNobodyUp: clients that do not close, and a handler that takes its
// time.
func TestSlowHandshakesHoldNobodyUp(t *testing.T) {
	d, a := listen(t, p2p.DaemonOptions{LingerTimeout: time.Minute, HandlerTimeout: time.Minute})
	release := make(chan struct{})
	entered := make(chan struct{})
	d.SetConnectionHandler(func(context.Context, []byte) ([]byte, error) { close(entered); <-release; return []byte("1"), nil })
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := p2p.Dialer{}.Exchange(context.Background(), a, p2p.TypeConnection, nil)
		assert.NoError(t, err)
	})
	<-entered
	for range 8 {
		conn, err := net.Dial("tcp", a.String())
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, p2p.WriteFrame(conn, p2p.Frame{Type: p2p.TypeProbe}))
		_, err = p2p.ReadFrame(conn, p2p.DefaultMaxLength)
		require.NoError(t, err)
		require.NoError(t, p2p.Dialer{}.Probe(t.Context(), a))
	}
	close(release)
	wg.Wait()
}

func TestDefaultPortOfPeers(t *testing.T) {
	d, err := p2p.Open(t.Context(), p2p.Options{LocalName: "127.0.0.1", Daemon: p2p.DaemonOptions{BindHost: "127.0.0.1"}, DefaultPort: 7})
	require.NoError(t, err)
	defer d.Close(t.Context())
	for name, want := range map[string]int{"h": 7, "h:8": 8, "::1": 7} {
		a, err := d.Address(t.Context(), name)
		require.NoError(t, err)
		assert.Equal(t, want, a.Port, name)
	}
}
