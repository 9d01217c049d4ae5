package introspect

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"
)

// Answer is what one process said, or why it said nothing.
type Answer struct {
	Socket  Socket
	Plugins Plugins
	Err     error
	// Ended is set beside Err if no process serves the socket any more.
	Ended bool
}

// ended reports whether the socket at path is gone, or is one on which no process listens.
func ended(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist) || dead(context.Background(), path)
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
			out[i] = Answer{Socket: s, Plugins: p, Err: err, Ended: err != nil && ended(s.Path)}
		})
	}
	all.Wait()
	return out
}
