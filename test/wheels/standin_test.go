package wheels

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
)

// standin makes single calls of a master over one connection, as upstream's client of a version does. It
// has no memory and sends nothing by itself.
type standin struct {
	of   string // whose master it is, for messages
	v    calls.Version
	conn net.Conn
	in   *bufio.Reader
	seq  uint32
}

// dial connects a stand-in. Its first call tells a master that serves several versions which one it is.
func dial(t testing.TB, of string, m *master, v calls.Version) *standin {
	t.Helper()
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(t.Context(), "tcp", m.rpc)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	s := &standin{of: of, v: v, conn: conn, in: bufio.NewReader(conn)}
	_, err = call(s, calls.PutStart, &calls.PutStartRequest{Tenant: tenant})
	require.NoError(t, err)
	return s
}

// call makes a call. An answer that is not the function's is an error.
func call[Q, R any](s *standin, f *calls.Call[Q, R], q *Q) (r R, err error) {
	const request, answer = 20, 16 // the sizes of headers
	frame, err := f.AppendRequest(make([]byte, request), s.v, q)
	if err != nil {
		return r, err
	}
	frame[0] = 21
	s.seq++
	binary.LittleEndian.PutUint32(frame[4:], s.seq)
	binary.LittleEndian.PutUint32(frame[8:], f.ID())
	binary.LittleEndian.PutUint32(frame[12:], uint32(len(frame)-request))
	if err := s.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return r, err
	}
	if _, err := s.conn.Write(frame); err != nil {
		return r, err
	}
	var head [answer]byte
	if _, err := io.ReadFull(s.in, head[:]); err != nil {
		return r, fmt.Errorf("%s: %s: %w", s.of, f.Name(), err)
	}
	body := make([]byte, binary.LittleEndian.Uint32(head[8:]))
	if _, err := io.ReadFull(s.in, body); err != nil {
		return r, err
	}
	if seq := binary.LittleEndian.Uint32(head[4:]); head[0] != 21 || head[2] != 0 || seq != s.seq {
		return r, fmt.Errorf("%s answers call %d of %s with the header % x and %q", s.of, s.seq, f.Name(), head, body)
	}
	if err := f.DecodeResponse(body, s.v, &r); err != nil {
		return r, fmt.Errorf("%s: %w", s.of, err)
	}
	return r, nil
}
