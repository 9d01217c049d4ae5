package relay

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest/reference"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a relay with fake generations, and a peer that stays.
type rig struct {
	*Relay
	net  *fakeNet
	peer *fake
	live *fake // of gen, nil while there is none
	gen  *Generation
	// dead makes the relay's refusals final.
	dead bool
}

func newRig(o Options) *rig {
	r := &rig{net: &fakeNet{net: reference.NewNetwork()}}
	o.ID = plugin.ID{Kind: plugin.KindTransport, Name: "fake"}
	o.Refuse = func(op string) error {
		err := errs.New(errs.RPCFail, op, "it is being started again")
		if r.dead {
			return errs.WithClass(errs.ClassLocalDevice, "", err)
		}
		return err
	}
	r.Relay = New(o)
	r.peer = r.net.New(hooks{})
	must(r.peer.Start(context.Background(), nil))
	return r
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// rise starts a generation and uses it.
func (r *rig) rise(ctx context.Context) error {
	t := r.net.New(hooks{})
	must(t.Start(ctx, nil))
	gen := r.Begin(t, nil)
	if err := r.Enroll(ctx, gen); err != nil {
		t.Ended()
		r.Ended(gen)
		return err
	}
	r.Use(gen)
	r.live, r.gen = t, gen
	return nil
}

// fall ends the generation as a kill does.
func (r *rig) fall() {
	r.live.Die()
	r.Lost(r.gen)
	r.live.Ended()
	r.Ended(r.gen)
	r.live, r.gen = nil, nil
}

// swap changes to another generation without a gap. done delivers the result once the old one has
// ended.
func (r *rig) swap(ctx context.Context, h hooks) (done <-chan error, err error) {
	t := r.net.New(h)
	must(t.Start(ctx, nil))
	gen := r.Begin(t, nil)
	err = r.Lay(ctx, gen)
	if err == nil {
		err = r.Enroll(ctx, gen)
	}
	if err != nil {
		r.Lost(gen)
		t.Ended()
		r.Ended(gen)
		return nil, err
	}
	oldT, old := r.live, r.gen
	r.Use(gen)
	r.live, r.gen = t, gen
	end := make(chan error, 1)
	go func() {
		err := r.Retire(ctx, old, 30*time.Second)
		_ = oldT.Stop(ctx)
		oldT.Ended()
		r.Ended(old)
		end <- err
	}()
	return end, nil
}

func (r *rig) stop() {
	if r.gen != nil {
		r.fall()
	}
	r.Close()
	r.peer.Ended()
}

// open registers memory of the peer and dials it.
func (r *rig) open(t *testing.T, mem []byte) (transport.Path, transport.RemoteID) {
	t.Helper()
	key, err := r.peer.Register(t.Context(), transport.Region{ID: 1, Mem: mem, FD: -1, Access: transport.AccessRemote})
	require.NoError(t, err)
	p, err := r.Dial(t.Context(), r.peer.Endpoint())
	require.NoError(t, err)
	id, err := p.Import(t.Context(), key)
	require.NoError(t, err)
	return p, id
}

func reap(t *testing.T, p transport.Path, n int) map[uint64]transport.Completion {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	out := map[uint64]transport.Completion{}
	var dst [16]transport.Completion
	for len(out) < n {
		k, err := p.Reap(ctx, dst[:])
		require.NoError(t, err)
		for _, c := range dst[:k] {
			require.NotContains(t, out, c.ID, "completed twice")
			out[c.ID] = c
		}
	}
	return out
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	require.Eventually(t, f, 30*time.Second, time.Millisecond, what)
}
