package tcp

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// faulty is a proxy in front of a server that does to the bytes what networks do.
type faulty struct {
	ln     net.Listener
	target string
	wg     sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	// fault is asked for every chunk that goes to the server (up) or to the client, with
	// its place in the direction's stream.
	fault func(up bool, at int64, b []byte) verdict
	taken int
}

type verdict int

const (
	pass verdict = iota
	drop         // swallow from here on; the connection stays
	cut          // close both sides
)

// proxy puts a faulty proxy in front of the endpoint and returns the proxied endpoint.
func proxy(t testing.TB, live transport.Endpoint) (*faulty, transport.Endpoint) {
	e, err := frame.DecodeEndpoint(live.Blob)
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &faulty{ln: ln, target: e.Addrs[0], conns: map[net.Conn]bool{}}
	f.wg.Add(1)
	go f.accept()
	t.Cleanup(func() { _ = ln.Close(); f.cutAll(); f.wg.Wait() })
	e.Addrs = []string{ln.Addr().String()}
	return f, transport.Endpoint{Blob: e.Encode(), Incarnation: e.Incarnation}
}

func (f *faulty) set(fault func(up bool, at int64, b []byte) verdict) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

func (f *faulty) accepted() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.taken
}

func (f *faulty) cutAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		_ = c.Close()
	}
}

func (f *faulty) accept() {
	defer f.wg.Done()
	for {
		in, err := f.ln.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", f.target)
		if err != nil {
			_ = in.Close()
			continue
		}
		f.mu.Lock()
		f.conns[in], f.conns[out] = true, true
		f.taken++
		f.mu.Unlock()
		f.wg.Add(2)
		go f.pipe(true, in, out)
		go f.pipe(false, out, in)
	}
}

func (f *faulty) pipe(up bool, from, to net.Conn) {
	defer f.wg.Done()
	defer func() {
		_, _ = from.Close(), to.Close()
		f.mu.Lock()
		delete(f.conns, from)
		f.mu.Unlock()
	}()
	buf := make([]byte, 16<<10)
	for at := int64(0); ; {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		f.mu.Lock()
		fault := f.fault
		f.mu.Unlock()
		v := pass
		if fault != nil {
			v = fault(up, at, buf[:n])
		}
		switch v {
		case drop:
			_, _ = io.Copy(io.Discard, from)
			return
		case cut:
			_, _ = to.Write(buf[:n/2]) // In the middle of whatever it was.
			return
		}
		at += int64(n)
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
