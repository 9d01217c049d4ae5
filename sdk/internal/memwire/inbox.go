package memwire

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// Inbox keeps descriptors that came over the socket until the call that uses them arrives. Safe for
// concurrent use.
type Inbox struct {
	mu     sync.Mutex
	kept   map[uint64][]int
	order  []uint64 // tokens of kept, the oldest first
	news   chan struct{}
	closed bool
	err    error // why no more descriptors arrive
}

// NewInbox returns an empty inbox.
func NewInbox() *Inbox { return &Inbox{kept: map[uint64][]int{}, news: make(chan struct{})} }

const (
	// maxBad is the most invalid messages in a row.
	maxBad = 100
	// maxUnclaimed bounds the messages with descriptors whose calls have not arrived yet.
	maxUnclaimed = 64
)

// Receive stores messages until the context ends or the host is gone. If a message lost its
// descriptors in transit, because too many files are open, its call fails.
func (b *Inbox) Receive(ctx context.Context, conn *shm.Conn, logger *slog.Logger) {
	buf := make([]byte, shm.MaxMessage)
	for bad := 0; ; {
		n, fds, err := conn.Receive(ctx, buf)
		if ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) || bad == maxBad {
			CloseFDs(fds)
			b.end(err)
			return
		}
		var token uint64
		if err == nil {
			token, err = DecodeMessage(buf[:n])
		}
		if err != nil {
			bad++
			CloseFDs(fds)
			logger.Error("a message with descriptors is lost", "error", err)
			continue
		}
		bad = 0
		b.Put(token, fds)
	}
}

// Put stores the descriptors of a token, and owns them.
func (b *Inbox) Put(token uint64, fds []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.kept[token] != nil || len(fds) == 0 {
		CloseFDs(fds)
		return
	}
	b.kept[token] = fds
	b.order = append(b.order, token)
	if len(b.order) > maxUnclaimed { // Their calls were abandoned.
		CloseFDs(b.kept[b.order[0]])
		delete(b.kept, b.order[0])
		b.order = b.order[1:]
	}
	b.wake()
}

func (b *Inbox) wake() {
	close(b.news)
	b.news = make(chan struct{})
}

func (b *Inbox) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err = err; err == nil {
		b.err = io.EOF
	}
	b.wake()
}

// Take waits for the descriptors of a token. The caller then owns them.
func (b *Inbox) Take(ctx context.Context, token uint64) ([]int, error) {
	for {
		b.mu.Lock()
		fds, err, news := b.kept[token], b.err, b.news
		if fds != nil {
			delete(b.kept, token)
			b.order = slices.DeleteFunc(b.order, func(t uint64) bool { return t == token })
		}
		b.mu.Unlock()
		switch {
		case fds != nil:
			return fds, nil
		case err != nil:
			return nil, errs.New(errs.RPCFail, "", "the socket for descriptors has ended: %w", err)
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, errs.New(errs.RPCTimeout, "", "the descriptors of message %d did not come: %w", token, ctx.Err())
		}
	}
}

// Close closes the descriptors that no call has used.
func (b *Inbox) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for _, fds := range b.kept {
		CloseFDs(fds)
	}
	b.kept, b.order = map[uint64][]int{}, nil
}

// CloseFDs closes descriptors.
func CloseFDs(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
