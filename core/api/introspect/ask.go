package introspect

import (
	"context"
	"sync"
	"time"
)

// Answer is what one process said, or why it said nothing.
type Answer struct {
	Socket  Socket
	Plugins Plugins
	Err     error
}

// Name says whose answer it is, for people.
func (a Answer) Name() (role string, pid int) {
	if a.Err == nil && a.Plugins.Process.Role != "" {
		return a.Plugins.Process.Role, a.Plugins.Process.PID
	}
	return a.Socket.Role, a.Socket.PID
}

// askAtOnce bounds the processes that are asked at a time.
const askAtOnce = 16

// Ask asks processes for their plugins, each for at most limit, several at a time. The
// answers are in the order of the sockets.
func Ask(ctx context.Context, sockets []Socket, limit time.Duration) []Answer {
	out := make([]Answer, len(sockets))
	turn := make(chan struct{}, askAtOnce)
	var all sync.WaitGroup
	for i, s := range sockets {
		turn <- struct{}{}
		all.Go(func() {
			defer func() { <-turn }()
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			p, err := NewClient(s.Path).Plugins(ctx)
			out[i] = Answer{Socket: s, Plugins: p, Err: err}
		})
	}
	all.Wait()
	return out
}
