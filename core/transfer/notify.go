package transfer

import (
	"context"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/transfer/lifetime"
	"github.com/mooncake-go/mooncake/core/transfer/request"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// maxQueuedBytes bounds the notifications that were not taken yet.
const maxQueuedBytes = 64 << 20

// HandleNotify takes a notification of a peer; it is made for the handshake daemon.
// NoAvailableHandle, which the peer sees as a rejection, when the earlier ones were not taken.
func (e *Engine) HandleNotify(_ context.Context, n metadata.Notification) error {
	q := &e.notes
	size := len(n.Name) + len(n.Message)
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) >= q.limit || q.bytes+size > maxQueuedBytes {
		q.dropped++
		return errs.New(errs.NoAvailableHandle, "transfer: take notification", "%d are waiting to be read", len(q.queue))
	}
	q.queue = append(q.queue, n)
	q.bytes += size
	return nil
}

// Notifications takes all that arrived since the last call, in the order of arrival.
func (e *Engine) Notifications() []metadata.Notification {
	q := &e.notes
	q.mu.Lock()
	defer q.mu.Unlock()
	out := q.queue
	q.queue, q.bytes = nil, 0
	return out
}

// Notify delivers a message to a peer, or to this process under its own name. RPCFail when the peer
// rejects it, NotSupported where the directory has no handshake daemons.
func (e *Engine) Notify(ctx context.Context, peer string, n metadata.Notification) error {
	if peer == e.dir.LocalName() {
		return e.HandleNotify(ctx, n)
	}
	d, err := e.daemons("notify")
	if err != nil {
		return err
	}
	return errs.Wrap(errs.RPCFail, "transfer: notify "+peer, d.Notify(ctx, peer, n))
}

// Probe reports whether the handshake daemon of a peer answers.
func (e *Engine) Probe(ctx context.Context, peer string) error {
	d, err := e.daemons("probe")
	if err != nil {
		return err
	}
	err = d.Probe(ctx, peer)
	code := errs.RPCFail
	if errs.Is(err, errs.InvalidParams) { // The name is none.
		code = errs.InvalidParams
	}
	return errs.Wrap(code, "transfer: probe "+peer, err)
}

func (e *Engine) daemons(what string) (metadata.Peers, error) {
	if d, ok := e.dir.(metadata.Peers); ok {
		return d, nil
	}
	return nil, errs.New(errs.NotSupported, "transfer: "+what, "nodes of this directory have no handshake daemon")
}

// plan notes a message of a Submit. The caller holds b.mu.
func (b *Batch) plan(reqs []request.Request, n metadata.Notification, refused bool) {
	switch {
	case len(reqs) == 0:
		b.noteErr = errs.New(errs.InvalidParams, "transfer: notify", "a call without requests has no peer to notify")
	case refused:
		b.noteErr = errs.New(errs.TransferFail, "transfer: notify "+reqs[0].Peer, "not sent, a request of the call was refused")
	default:
		b.due = append(b.due, pendingMessage{reqs[0].Peer, n})
	}
}

// send sends what is due in the background, unless a request failed. The caller holds b.mu.
func (b *Batch) send() {
	due := b.due
	b.due = nil
	if b.failure != nil {
		b.noteErr = errs.Wrap(errs.TransferFail, "transfer: notify "+due[0].peer+": not sent, a request failed", b.failure)
		return
	}
	if !b.e.life.Spawn(func() { b.deliver(due) }) {
		b.noteErr = errs.Wrap(errs.TransferFail, "transfer: notify "+due[0].peer, lifetime.ErrClosed)
		return
	}
	b.sending++
}

func (b *Batch) deliver(due []pendingMessage) {
	for _, n := range due {
		ctx, cancel := context.WithTimeout(b.e.life.Connecting, b.e.cfg.ConnectTimeout)
		err := b.e.Notify(ctx, n.peer, n.note)
		cancel()
		b.mu.Lock()
		if err == nil {
			b.sent++
		} else {
			b.noteErr = err
			b.e.log.Warn("a notification was not delivered", "peer", n.peer, "name", n.note.Name, "error", err)
		}
		b.mu.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sending--
	b.settle()
}

// Notified returns how many messages of SubmitNotify were delivered, and why the last one that
// failed was not. It is final after Wait.
func (b *Batch) Notified() (sent int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sent, b.noteErr
}
