package relay

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestDeregisterWaitsForAConcurrentCall: peers may write to a region until its deregistration has
// ended. A second Deregister must not return before that.
func TestDeregisterWaitsForAConcurrentCall(t *testing.T) {
	r := newRig(Options{})
	defer r.stop()
	ctx := t.Context()
	require.NoError(t, r.rise(ctx))
	_, err := r.Register(ctx, transport.Region{ID: 1, Mem: make([]byte, 8), FD: -1})
	require.NoError(t, err)
	entered, peers := make(chan struct{}), make(chan struct{})
	r.live.Hooks.Deregister = func(transport.RegionID) error {
		close(entered)
		<-peers
		return nil
	}
	first := make(chan error, 1)
	go func() { first <- r.Deregister(ctx, 1) }()
	<-entered

	ended := make(chan error, 1)
	go func() { ended <- r.Deregister(ctx, 1) }()
	time.Sleep(20 * time.Millisecond) // Time for a premature end.
	select {
	case <-ended:
		t.Fatal("peers still write to it")
	default:
	}
	close(peers)
	require.NoError(t, <-ended)
	require.NoError(t, <-first)
	assert.Empty(t, r.live.Regions())
	assert.Equal(t, errs.InvalidParams, errs.CodeOf(r.Deregister(ctx, 1)), "it is over")
}

// TestDeregisterThatFailed: the caller may retry it.
func TestDeregisterThatFailed(t *testing.T) {
	r := newRig(Options{})
	defer r.stop()
	ctx := t.Context()
	require.NoError(t, r.rise(ctx))
	_, err := r.Register(ctx, transport.Region{ID: 1, Mem: make([]byte, 8), FD: -1})
	require.NoError(t, err)
	sick := errors.New("not now")
	r.live.Hooks.Deregister = func(transport.RegionID) error { return sick }
	require.ErrorIs(t, r.Deregister(ctx, 1), sick)
	require.ErrorIs(t, r.Deregister(ctx, 1), sick, "the memory is still not the caller's")
	r.live.Hooks.Deregister = nil
	require.NoError(t, r.Deregister(ctx, 1))
	assert.Empty(t, r.live.Regions())
}

// TestRailsAreBounded: a plugin that keeps naming new devices costs bounded memory and time.
func TestRailsAreBounded(t *testing.T) {
	p := newPath(New(Options{Rails: true}), transport.Endpoint{})
	g := &innerPath{same: true}
	p.inner = g
	list := make([]transport.Rail, maxRails)
	for round := range 20 { // More than there are IDs.
		for i := range list {
			list[i] = transport.Rail{ID: transport.RailID(i + 1), Local: fmt.Sprint(round, i), Up: true}
		}
		p.match(g, list)
	}
	assert.Len(t, p.rails, maxRails)
	_, err := p.railOf(g, &transport.Op{Rail: p.rails[0].ID})
	assert.Equal(t, errs.ClassTransientPath, errs.ClassOf(err), "an earlier rail")
}

// TestPublishedWithoutAnIncarnation: if a transport counts no incarnations, the blob of the
// endpoint tells its generations apart, so that the old one serves until peers can find the new
// one.
func TestPublishedWithoutAnIncarnation(t *testing.T) {
	r := newRig(Options{})
	defer r.stop()
	gens := map[string]*Generation{}
	for _, at := range []string{"old", "new"} {
		gens[at] = r.Begin(nowhere{at: at}, nil)
	}
	over := func(gen *Generation) bool {
		select {
		case <-gen.published:
			return true
		default:
			return false
		}
	}
	r.Published(transport.Endpoint{Blob: []byte("old")})
	require.True(t, over(gens["old"]))
	require.False(t, over(gens["new"]))
	r.Published(transport.Endpoint{Blob: []byte("new")})
	require.True(t, over(gens["new"]))
	for _, gen := range gens {
		r.Ended(gen)
	}
}

// nowhere is a transport that has only an endpoint.
type nowhere struct {
	transport.Transport
	at string
}

func (n nowhere) Endpoint() transport.Endpoint { return transport.Endpoint{Blob: []byte(n.at)} }
