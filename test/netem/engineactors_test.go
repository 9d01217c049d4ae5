package netem

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/core/app"
	te "github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// area is an engine with registered memory.
type area struct {
	m      *member
	engine *app.Engine
	mem    []byte
	addr   uint64
}

func (m *member) area(ctx context.Context, size int, access transport.Access) (*area, error) {
	cfg, err := m.config()
	if err != nil {
		return nil, err
	}
	e, err := app.OpenEngine(ctx, cfg, builtin.Plugins(), app.EngineOptions{Log: memberLog()})
	if err != nil {
		return nil, err
	}
	block, err := e.Allocate("netem", uint64(size))
	if err != nil {
		return nil, err
	}
	if _, err := e.Transfer.Register(ctx, te.BlockMemory(block, access)); err != nil {
		return nil, err
	}
	return &area{m: m, engine: e, mem: block.Bytes(), addr: block.Addr()}, nil
}

// seedOf names the bytes that a client reads or writes.
func seedOf(command string, client int) string { return fmt.Sprintf("%s/%d", command, client) }

// target has a region for each client, which holds what the client is to read.
type target struct{ *area }

func openTarget(ctx context.Context, m *member) (actor, answer, error) {
	each := requests * m.Size
	a, err := m.area(ctx, m.Clients*each, transport.AccessRemote)
	if err != nil {
		return nil, answer{}, err
	}
	for i := range m.Clients {
		pattern(a.mem[i*each:][:each], seedOf("read", i))
	}
	if err := a.engine.Transfer.Publish(ctx); err != nil {
		return nil, answer{}, err
	}
	return target{a}, answer{Peer: place{a.engine.Name(), a.addr}}, nil
}

// do counts the requests whose bytes are not those that the clients wrote.
func (t target) do(_ context.Context, _ string) (answer, error) {
	a := answer{Requests: t.m.Clients * requests}
	want := make([]byte, requests*t.m.Size)
	for i := range t.m.Clients {
		pattern(want, seedOf("write", i))
		a.Wrong += differing(t.mem[i*len(want):][:len(want)], want, t.m.Size)
	}
	return a, nil
}

// differing counts the pieces of a size that differ.
func differing(got, want []byte, size int) int {
	n := 0
	for at := 0; at < len(want); at += size {
		if !bytes.Equal(got[at:][:size], want[at:][:size]) {
			n++
		}
	}
	return n
}

// engineClient reads and writes its region of the target.
type engineClient struct{ *area }

func openEngineClient(ctx context.Context, m *member) (actor, answer, error) {
	a, err := m.area(ctx, requests*m.Size, 0)
	return engineClient{a}, answer{}, err
}

func (c engineClient) do(ctx context.Context, command string) (answer, error) {
	kind, size := transport.Read, c.m.Size
	switch command {
	case "prepare":
		pattern(c.mem, seedOf("write", c.m.Number))
		return answer{}, nil
	case "write":
		kind = transport.Write
	}
	reqs := make([]te.Request, requests)
	for i := range reqs {
		at := i * size
		reqs[i] = te.Request{
			Kind: kind, Local: c.mem[at:][:size:size], Peer: c.m.Peer.Segment,
			Addr: c.m.Peer.Addr + uint64(c.m.Number*requests*size+at),
		}
	}
	a := answer{Requests: requests}
	begin := time.Now()
	results := c.engine.Transfer.Transfer(ctx, reqs)
	a.Seconds = time.Since(begin).Seconds()
	for _, r := range results {
		if r.Err != nil {
			a.fails(r.Err)
		}
	}
	if command == "read" && a.Failed == nil {
		want := make([]byte, len(c.mem))
		pattern(want, seedOf("read", c.m.Number))
		a.Wrong = differing(c.mem, want, size)
	}
	return a, nil
}
