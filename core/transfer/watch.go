package transfer

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

const (
	// settleTime is how long changes of a transport are collected before they are
	// published: a port that goes down causes several.
	settleTime = 50 * time.Millisecond
	// republishTries bounds the attempts at publishing a change; the wait doubles each time.
	republishTries = 6
)

// watch follows the changes of the transports and refreshes descriptors, from the first
// time the engine has to do with peers until it is closed.
func (e *Engine) watch() {
	e.watched.Do(func() {
		for i := range e.carriers.List {
			c := &e.carriers.List[i]
			if ch, ok := transport.As[transport.Changing](c.Transport); ok {
				e.life.Spawn(func() { e.follow(i, ch.Changed()) })
			}
		}
		if e.cfg.RefreshInterval > 0 {
			e.life.Spawn(e.keepFresh)
		}
	})
}

// follow reads the rails again and publishes anew after each change of a transport.
func (e *Engine) follow(i int, changed <-chan struct{}) {
	c := &e.carriers.List[i]
	for {
		select {
		case <-e.life.Connecting.Done():
			return
		case <-changed:
		}
		e.peers.Reread(c)
		if !e.life.Sleep(settleTime) {
			return
		}
		select {
		case <-changed:
			e.peers.Reread(c)
		default:
		}
		wait := 2 * settleTime
		for try := 1; ; try++ {
			ctx, cancel := context.WithTimeout(e.life.Connecting, e.cfg.ConnectTimeout)
			e.regions.CatchUp(ctx, i)
			err := e.publisher.Republish(ctx)
			cancel()
			if err == nil {
				break
			}
			if try == republishTries {
				e.log.Error("a change of a transport is not published; peers see it when this node publishes next",
					"transport", c.Name, "error", err)
				break
			}
			if !e.life.Sleep(wait) {
				return
			}
			wait *= 2
		}
	}
}

// keepFresh fetches the descriptors of all known peers at intervals.
func (e *Engine) keepFresh() {
	for e.life.Sleep(e.cfg.RefreshInterval) {
		if err := e.peers.Refresh(e.life.Connecting); err != nil && e.life.Connecting.Err() == nil {
			e.log.Warn("descriptors of peers were not refreshed", "error", err)
		}
	}
}
