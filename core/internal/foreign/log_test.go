package foreign

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func from(host byte, port int) net.Addr {
	return &net.TCPAddr{IP: net.IPv4(10, 0, 0, host), Port: port}
}

// TestLog: a client that retries gets one line a minute, which says how often it called. Other hosts
// and other protocols get lines of their own.
func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := NewLog(slog.New(slog.NewTextHandler(&out, nil)), "the test's port", map[Protocol]string{CoroRPC: "do this"})
		for i := range 20 {
			l.Report(from(1, 1000+i), CoroRPC, nil)
		}
		assert.Equal(t, 1, strings.Count(out.String(), "\n"))
		assert.Contains(t, out.String(), `level=WARN msg="a store client of upstream's (coro_rpc) called the test's port and was turned away: do this" remote=10.0.0.1:1000`)
		l.Report(from(2, 1000), CoroRPC, nil)
		l.Report(from(1, 2000), Unknown, []byte{1, 2, 3, 4})
		assert.Equal(t, 3, strings.Count(out.String(), "\n"))
		assert.Contains(t, out.String(), `01 02 03 04`)

		out.Reset()
		time.Sleep(quiet)
		l.Report(from(1, 3000), CoroRPC, nil)
		assert.Equal(t, 1, strings.Count(out.String(), "\n"))
		assert.Contains(t, out.String(), "more_since_last_line=19")
	})
}

// TestLogIsBounded: calls of further hosts are neither logged nor kept until earlier hosts are quiet.
func TestLogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := NewLog(slog.New(slog.NewTextHandler(&out, nil)), "the test's port", nil)
		scan := func() {
			for i := range 2 * maxKinds {
				l.Report(&net.UnixAddr{Name: fmt.Sprint(i), Net: "unix"}, TLS, nil)
			}
		}
		scan()
		assert.Equal(t, maxKinds, strings.Count(out.String(), "\n"))
		assert.Len(t, l.rate.seen, maxKinds)
		time.Sleep(quiet)
		out.Reset()
		l.Report(from(1, 1), TLS, nil)
		assert.Equal(t, 1, strings.Count(out.String(), "\n"))
		assert.Len(t, l.rate.seen, 1)
	})
}
