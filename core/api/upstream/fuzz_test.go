package upstream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/foreign"
	"github.com/mooncake-go/mooncake/core/internal/framed"
)

// want is what a client is answered that sends some bytes and no more: what each whole request asks for,
// sorted, and whether there is an error at the end for one that is too large.
func want(b []byte, limit int) (answers []string, large bool) {
	for len(b) >= requestHeader {
		h, err := parseHeader(b, limit)
		if err != nil {
			return answers, errors.As(err, new(*largeError))
		}
		if b = b[requestHeader:]; len(b) < h.Body+h.Attached {
			break
		}
		answers = append(answers, string(binary.LittleEndian.AppendUint32(nil, h.Number))+string(b[:h.Body]))
		b = b[h.Body+h.Attached:]
	}
	return answers, false
}

// FuzzRequests: whatever a client sends, and in which pieces, each whole request is answered once, and
// nothing else is.
func FuzzRequests(f *testing.F) {
	var h tester
	const limit = 4096
	// Over TCP there would be no ports left for a minute after so many connections.
	addr := filepath.Join(f.TempDir(), "s")
	ln, err := new(net.ListenConfig).Listen(f.Context(), "unix", addr)
	require.NoError(f, err)
	s := newServer(&h, Options{Limits: framed.Limits{Frame: limit, Stall: patient}})
	s.Server.Stall = patient
	serveOn(f, ln, &h, s)
	one := request(1, fnEcho, []byte("one"), 3)
	f.Add(one, uint16(5))
	f.Add(append(request(2, fnEcho, make([]byte, 600), 0), one...), uint16(530))
	f.Add(request(3, fnEcho, make([]byte, limit), 1)[:40], uint16(1))
	f.Add([]byte{magic, 0, 0, 0}, uint16(4))
	f.Add(append(bytes.Clone(one), "GET / HTTP/1.1"...), uint16(0))
	f.Add(append(bytes.Clone(one), one[:19]...), uint16(30))
	f.Fuzz(func(t *testing.T, b []byte, cut uint16) {
		if foreign.FromClient(b) != foreign.CoroRPC {
			t.Skip("bytes of another protocol, which Split hands to another server")
		}
		for at := 0; at+requestHeader <= len(b); { // Every function is echo.
			binary.LittleEndian.PutUint32(b[at+8:], fnEcho)
			h, err := parseHeader(b[at:], limit)
			if err != nil {
				break
			}
			at += requestHeader + h.Body + h.Attached
		}
		answers, large := want(b, limit)
		c := dialOver(t, "unix", addr)
		defer c.Close()
		go func() {
			k := min(int(cut), len(b))
			_, _ = c.Write(b[:k])
			_, _ = c.Write(b[k:])
			_ = c.Conn.(*net.UnixConn).CloseWrite()
		}()
		require.NoError(t, c.SetReadDeadline(time.Now().Add(patient)))
		var got []string
		sawLarge := false
		for {
			seq, code, body, err := readAnswer(c)
			if err != nil {
				var timeout net.Error
				require.False(t, errors.As(err, &timeout) && timeout.Timeout(), "it was not closed")
				require.NotErrorIs(t, err, io.ErrUnexpectedEOF)
				break
			}
			switch code {
			case answerOK:
				got = append(got, string(binary.LittleEndian.AppendUint32(nil, seq))+string(body))
			case answerTooLarge:
				sawLarge = true
			default:
				t.Fatalf("code %d: %q", code, body)
			}
		}
		sort.Strings(got)
		sort.Strings(answers)
		if large && !sawLarge {
			t.Skip("a reset for what was not read may come before the answer")
		}
		require.Equal(t, answers, got)
		require.Equal(t, large, sawLarge)
	})
}
