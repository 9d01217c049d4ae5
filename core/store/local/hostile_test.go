package local_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/mooncake-go/mooncake/core/store/local/internal/frame"
	"github.com/mooncake-go/mooncake/core/store/local/serve"
	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// rogue is a process that speaks the protocol by hand.
type rogue struct {
	t     *testing.T
	line  frame.Conn
	token frame.Token
	conn  *grpc.ClientConn
	rpc   localv1.LocalServiceClient
}

func newRogue(t *testing.T, socket string) *rogue {
	t.Helper()
	c, err := frame.Dial(t.Context(), socket)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	r := &rogue{t: t, line: frame.Conn{UnixConn: c}}
	require.NoError(t, frame.WritePreamble(c, frame.Lifeline, frame.Token{}))
	resp, err := r.step(&localv1.AttachRequest{Step: &localv1.AttachRequest_Hello{Hello: &localv1.Hello{}}}, -1)
	require.NoError(t, err)
	r.token = frame.Token(resp.GetWelcome().GetToken())
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			c, err := frame.Dial(ctx, socket)
			if err == nil {
				err = frame.WritePreamble(c, frame.Calls, r.token)
			}
			return c, err
		}))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	r.conn, r.rpc = conn, localv1.NewLocalServiceClient(conn)
	return r
}

func (r *rogue) step(req *localv1.AttachRequest, fd int) (*localv1.AttachResponse, error) {
	if err := r.line.Send(time.Now().Add(30*time.Second), req, fd); err != nil {
		return nil, err
	}
	resp := &localv1.AttachResponse{}
	got, err := r.line.Recv(time.Now().Add(30*time.Second), resp)
	if got >= 0 {
		require.NoError(r.t, unix.Close(got))
	}
	if err == nil {
		err = wire.FromProto(resp.GetError())
	}
	return resp, err
}

func (r *rogue) add(id, size uint64, fd int) error {
	_, err := r.step(&localv1.AttachRequest{Step: &localv1.AttachRequest_Add{Add: &localv1.AddRegion{Region: id, Bytes: size}}}, fd)
	return err
}

// memfd makes shared memory with the seals given.
func memfd(t *testing.T, size int64, seals int) int {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	require.NoError(t, unix.Ftruncate(fd, size))
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	require.NoError(t, err)
	return fd
}

// TestMemoryThatIsRefused: memory that could be taken away under the service, or that is
// not there, is never mapped.
func TestMemoryThatIsRefused(t *testing.T) {
	s, socket := startServer(t, startPool(t), func(c *serve.Config) { c.MaxRegions, c.MaxBytes = 2, 1<<20 })
	r := newRogue(t, socket)
	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, file.Truncate(4096))
	good := memfd(t, 8192, unix.F_SEAL_SHRINK)
	for name, c := range map[string]struct {
		id, size uint64
		fd       int
		text     string
	}{
		"it may shrink":        {1, 4096, memfd(t, 4096, 0), "not sealed"},
		"it may shrink, grows": {1, 4096, memfd(t, 4096, unix.F_SEAL_GROW), "not sealed"},
		"a file":               {1, 4096, int(file.Fd()), ""},
		"a socket":             {1, 4096, pipe(t), "not a memfd"},
		"nothing":              {1, 4096, -1, "descriptor"},
		"shorter than it says": {1, 8193, good, "8193 were announced"},
		"no bytes":             {1, 0, good, "0 bytes"},
		"number 0":             {0, 4096, good, "number"},
		"beyond the bound":     {1, 1<<20 + 1, memfd(t, 2<<20, unix.F_SEAL_SHRINK), "more than"},
		"not to be counted":    {1, math.MaxUint64, good, "more than"},
		"not to be written":    {1, 4096, memfd(t, 4096, unix.F_SEAL_SHRINK|unix.F_SEAL_WRITE), ""},
	} {
		err := r.add(c.id, c.size, c.fd)
		require.Equal(t, errs.InvalidParams, errs.CodeOf(err), name)
		require.ErrorContains(t, err, c.text, name)
	}
	require.Zero(t, s.Figures().Regions)
	require.NoError(t, r.add(1, 8192, good))
	require.ErrorContains(t, r.add(1, 8192, good), "there already")
	require.ErrorIs(t, unix.Ftruncate(good, 0), unix.EPERM, "the seal holds")
	require.NoError(t, r.add(2, 8192, good))
	require.ErrorContains(t, r.add(3, 8192, good), "the bound")
	_, err = r.step(&localv1.AttachRequest{Step: &localv1.AttachRequest_Drop{Drop: &localv1.DropRegion{Region: 9}}}, -1)
	require.Equal(t, errs.InvalidParams, errs.CodeOf(err))
}

func pipe(t *testing.T) int {
	var p [2]int
	require.NoError(t, unix.Pipe2(p[:], unix.O_CLOEXEC))
	t.Cleanup(func() { unix.Close(p[0]); unix.Close(p[1]) })
	return p[0]
}

// TestBadReferences: what is not within a process's own memory is refused, whatever it
// knows of others.
func TestBadReferences(t *testing.T) {
	p := startPool(t)
	s, socket := startServer(t, p, nil)
	victim, a := attach(t, socket, nil)
	mine := shared(victim, a)(t, 8192)
	fill(mine, "secret")
	r := newRogue(t, socket)
	require.NoError(t, r.add(7, 8192, memfd(t, 8192, unix.F_SEAL_SHRINK)))
	key := [][]byte{[]byte("k")}
	for name, ref := range map[string][3]uint64{
		"another's region":  {1, 0, 1},
		"no region":         {0, 0, 1},
		"beyond the end":    {7, 8192, 1},
		"longer":            {7, 1, 8192},
		"around the world":  {7, math.MaxUint64, 2},
		"around the world2": {7, 2, math.MaxUint64},
	} {
		refs := &localv1.Refs{Region: []uint64{ref[0]}, Offset: []uint64{ref[1]}, Length: []uint64{ref[2]}}
		_, err := r.rpc.Put(t.Context(), &localv1.PutRequest{Keys: key, Parts: []uint32{1}, Refs: refs})
		require.Equal(t, errs.InvalidParams, errs.CodeOf(wire.FromStatus("", err)), name)
		_, err = r.rpc.Get(t.Context(), &localv1.GetRequest{Keys: key, Parts: []uint32{1}, Refs: refs})
		require.Equal(t, errs.InvalidParams, errs.CodeOf(wire.FromStatus("", err)), name)
	}
	ok := &localv1.Refs{Region: []uint64{7}, Offset: []uint64{0}, Length: []uint64{1}}
	for name, req := range map[string]*localv1.GetRequest{
		"columns":         {Keys: key, Parts: []uint32{1}, Refs: &localv1.Refs{Region: []uint64{7}}},
		"more parts":      {Keys: key, Parts: []uint32{2}, Refs: ok},
		"fewer parts":     {Keys: key, Parts: []uint32{0}, Refs: ok},
		"no parts":        {Keys: key, Refs: ok},
		"object offsets":  {Keys: key, Parts: []uint32{1}, Refs: ok, ObjectOffsets: []uint64{1, 2}},
		"session":         {Keys: key, Parts: []uint32{1}, Refs: ok, Session: true},
		"session parts":   {Keys: key, Parts: []uint32{2}, Refs: ok, ObjectOffsets: []uint64{1}, Session: true},
		"too many pieces": {Keys: key, Parts: []uint32{1 << 17}, Refs: &localv1.Refs{Region: make([]uint64, 1<<17), Offset: make([]uint64, 1<<17), Length: make([]uint64, 1<<17)}},
	} {
		_, err := r.rpc.Get(t.Context(), req)
		require.Equal(t, errs.InvalidParams, errs.CodeOf(wire.FromStatus("", err)), name)
		if req.Session {
			_, err = r.rpc.Put(t.Context(), &localv1.PutRequest{Keys: req.Keys, Parts: req.Parts, Refs: req.Refs, ObjectOffsets: req.ObjectOffsets, Session: true})
			require.Equal(t, errs.InvalidParams, errs.CodeOf(wire.FromStatus("", err)), name)
		}
	}
	many := make([][]byte, 1<<17)
	_, err := r.rpc.StartGet(t.Context(), &localv1.StartGetRequest{Keys: many})
	require.Equal(t, errs.InvalidParams, errs.CodeOf(wire.FromStatus("", err)))
	_, err = r.rpc.StartPut(t.Context(), &localv1.StartPutRequest{Keys: many, Sizes: make([]uint64, 1<<17)})
	require.Equal(t, errs.InvalidParams, errs.CodeOf(wire.FromStatus("", err)))
	_, err = r.rpc.EndPut(t.Context(), &localv1.EndPutRequest{Keys: many})
	require.Equal(t, errs.InvalidParams, errs.CodeOf(wire.FromStatus("", err)))
	_, err = r.rpc.EndGet(t.Context(), &localv1.EndGetRequest{Keys: many})
	require.Equal(t, errs.InvalidParams, errs.CodeOf(wire.FromStatus("", err)))
	short, err := r.rpc.StartPut(t.Context(), &localv1.StartPutRequest{Keys: key, Sizes: []uint64{1, 2}})
	require.NoError(t, err)
	require.Len(t, short.GetErrors(), 1)
	_, err = r.rpc.Release(t.Context(), &localv1.ReleaseRequest{Leases: []uint64{0, 1, 99}})
	require.NoError(t, err, "what is not held is not released")
	// The victim noticed nothing.
	require.NoError(t, victim.Put(t.Context(), "mine", mine, one))
	got, err := p.client.Get(t.Context(), "mine")
	require.NoError(t, err)
	require.Equal(t, content("secret", 8192), got)
	require.Equal(t, 2, s.Figures().Attached)
}

// TestGarbage: a connection that does not speak the protocol ends, and only that one.
func TestGarbage(t *testing.T) {
	_, socket := startServer(t, startPool(t), func(c *serve.Config) { c.MaxPending, c.HelloTimeout = 4, time.Hour })
	good, _ := attach(t, socket, nil)
	lifeline := append([]byte("mclocal1\x01"), make([]byte, 23)...)
	calls := append([]byte("mclocal1\x02"), make([]byte, 23)...)
	for name, b := range map[string][]byte{
		"http":          []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n____________"),
		"another kind":  append([]byte("mclocal1\x03"), make([]byte, 23)...),
		"a long frame":  append(bytes.Clone(lifeline), 0xff, 0xff, 0xff, 0xff),
		"no message":    append(bytes.Clone(lifeline), 3, 0, 0, 0, 0xff, 0xff, 0xff),
		"no greeting":   append(bytes.Clone(lifeline), 2, 0, 0, 0, 0x22, 0),
		"no such token": append(bytes.Clone(calls), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"...),
	} {
		c, err := frame.Dial(t.Context(), socket)
		require.NoError(t, err)
		_, err = c.Write(b)
		require.NoError(t, err)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(30*time.Second)))
		_, err = c.Read(make([]byte, 1))
		require.True(t, errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET), "%s: %v", name, err)
		require.NoError(t, c.Close())
	}
	// Silent connections keep no other client out, however many there are.
	var silent []net.Conn
	for range 20 {
		c, err := frame.Dial(t.Context(), socket)
		require.NoError(t, err)
		defer c.Close()
		silent = append(silent, c)
	}
	for _, c := range silent[:16] {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(30*time.Second)))
		_, err := c.Read(make([]byte, 1))
		require.True(t, errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET), "four may be silent: %v", err)
	}
	_, err := good.Ready(t.Context())
	require.NoError(t, err)
	another, _ := attach(t, socket, nil)
	_, err = another.Ready(t.Context())
	require.NoError(t, err)
}

// TestLentMemoryIsReadOnly: no process can change what others read.
func TestLentMemoryIsReadOnly(t *testing.T) {
	_, socket := startServer(t, startPool(t), nil)
	c, err := frame.Dial(t.Context(), socket)
	require.NoError(t, err)
	defer c.Close()
	line := frame.Conn{UnixConn: c}
	require.NoError(t, frame.WritePreamble(c, frame.Lifeline, frame.Token{}))
	require.NoError(t, line.Send(time.Time{}, &localv1.AttachRequest{Step: &localv1.AttachRequest_Hello{Hello: &localv1.Hello{}}}, -1))
	var resp localv1.AttachResponse
	fd, err := line.Recv(time.Now().Add(30*time.Second), &resp)
	require.NoError(t, err)
	defer unix.Close(fd)
	_, err = unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.ErrorIs(t, err, unix.EPERM)
	_, err = unix.Pwrite(fd, []byte("x"), 0)
	require.ErrorIs(t, err, unix.EPERM)
	require.ErrorIs(t, unix.Ftruncate(fd, 0), unix.EPERM)
}
