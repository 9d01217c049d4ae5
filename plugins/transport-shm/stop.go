package shm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-shm/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// Stop implements plugin.Component. It closes the paths of this side and has the peers
// unmap what they were given, for revoke_timeout at most. An error says that some did not:
// their memory must not be reused while they live.
func (n *node) Stop(ctx context.Context) error {
	return n.life.Stop(ctx, func() error { return n.free(ctx) })
}

func (n *node) free(ctx context.Context) error {
	_ = n.listener.Close()
	n.mu.Lock()
	paths := slices.Collect(maps.Keys(n.paths))
	n.mu.Unlock()
	for _, p := range paths {
		_ = p.Close(ctx) // Ends soon also when the context has ended; see below.
	}
	n.dismiss(ctx)
	for _, p := range paths {
		p.clientConns.Wait() // Their connections are closed, and copies are short.
	}
	n.work.stop()
	if held := n.regions.clear(); held > 0 {
		return &errs.Error{
			Code: errs.UnavailableInCurrentStatus, Class: errs.ClassLocalDevice, Op: "transport/shm: stop",
			Err:  fmt.Errorf("registered memory is still mapped %d times, it must not be reused: %w", held, errStillMapped),
			Hint: "end those processes first",
		}
	}
	return nil
}

// dismiss asks all peers to go and waits for them.
func (n *node) dismiss(ctx context.Context) {
	n.mu.Lock()
	var greeted []*serverConn
	for s, hello := range n.conns {
		if hello {
			greeted = append(greeted, s)
		} else {
			_ = s.conn.Close() // It has nothing of us.
		}
	}
	n.mu.Unlock()
	for _, s := range greeted {
		s.tell(wire.Message{Type: wire.MsgGoAway, Reason: wire.ReasonStopping})
	}
	served, in := transportkit.WaitFor(ctx, &n.serving, time.Duration(n.cfg.RevokeTimeout))
	if in {
		return
	}
	for _, s := range greeted {
		_ = s.conn.Close() // Its goroutine ends; what it was given stays noted.
	}
	<-served
}
