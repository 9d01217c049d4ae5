// Package kvevents tells routers which objects can be read: it publishes an event for each
// one that becomes readable and each that goes, in the form that routers know from inference
// engines. Their subscribers connect with ZeroMQ; see docs/operations/kv-events.md.
//
// A message has three frames: an empty topic, a number that is one higher than that of the
// message before, big-endian in 8 bytes, and a MessagePack array [ms since 1970, [events],
// 0]. An event is a map. A gap in the numbers means that something was lost: each event that
// a full queue pushed out takes a number, and so does a message that came too late for a slow
// subscriber.
//
// Reporting an event never blocks: the event goes into a bounded queue, and one goroutine encodes
// it. The publisher neither repeats messages nor announces older objects; a router that missed an
// event queries the keys on the admin port.
package kvevents

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/master/kvevents/zmtp"
	"github.com/mooncake-go/mooncake/core/model"
)

const (
	// maxBatch is the most events in one message.
	maxBatch = 64
	// linger is how long subscribers may take what is left when the publisher stops.
	linger = 2 * time.Second
)

// Publisher publishes events. Make one with New. Safe for concurrent use.
type Publisher struct {
	cfg   Config
	at    endpoint
	queue *queue
	pub   *zmtp.Pub

	batches, events, dropped, skipped atomic.Uint64

	life  sync.Mutex
	began bool
	addr  net.Addr
	work  sync.WaitGroup
}

// New checks the configuration. It acquires nothing and starts nothing.
func New(cfg Config) (*Publisher, error) {
	at, err := parseEndpoint(cfg.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("KV events: %w", err)
	}
	if cfg.BackendID == "" {
		return nil, fmt.Errorf("KV events: the backend ID is empty; it names this pool in every event")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Publisher{
		cfg: cfg, at: at, queue: newQueue(cfg.capacity()),
		pub: zmtp.New(zmtp.Options{Logger: cfg.Logger}),
	}, nil
}

// Start binds the endpoint and begins to publish. ctx bounds the start only.
func (p *Publisher) Start(ctx context.Context) error {
	p.life.Lock()
	defer p.life.Unlock()
	if p.began {
		return fmt.Errorf("KV events: the publisher was started before")
	}
	ln, err := p.at.listen(ctx)
	if err != nil {
		return err
	}
	p.began, p.addr = true, ln.Addr()
	if asked := p.cfg.QueueCapacity; asked == 0 || asked > MaxQueue {
		p.cfg.Logger.Warn("the queue of KV events is bounded all the same", "kv_events_queue_capacity", asked, "capacity", MaxQueue)
	}
	p.pub.Serve(ln)
	p.work.Go(p.run)
	p.cfg.Logger.Info("KV events are published", "endpoint", p.cfg.Endpoint, "address", p.addr.String(), "backend_id", p.cfg.BackendID)
	return nil
}

// Stop publishes what waits, gives subscribers a moment to take it, at most 2 s, and ends.
// It may be called at any time and more than once. Events that come later are lost.
func (p *Publisher) Stop(ctx context.Context) error {
	p.life.Lock()
	defer p.life.Unlock()
	p.queue.close()
	p.work.Wait()
	ctx, cancel := context.WithTimeout(ctx, linger)
	defer cancel()
	p.pub.Close(ctx)
	return nil
}

// Addr is where subscribers connect to, nil before Start.
func (p *Publisher) Addr() net.Addr {
	p.life.Lock()
	defer p.life.Unlock()
	return p.addr
}

// Stored reports that an object can be read. It never blocks, nor does Removed. group is
// empty for none.
func (p *Publisher) Stored(tenant model.Tenant, key model.Key, group string) {
	p.add(event{stored: true, tenant: tenant, key: key, group: group})
}

// Removed reports that an object that could be read cannot any more.
func (p *Publisher) Removed(tenant model.Tenant, key model.Key, group string) {
	p.add(event{tenant: tenant, key: key, group: group})
}

func (p *Publisher) add(e event) {
	if p.queue.add(e) {
		p.dropped.Add(1)
	}
}

// Stats says what became of the events.
func (p *Publisher) Stats() model.KVEventStats {
	return model.KVEventStats{
		Enabled: true,
		Batches: p.batches.Load(), Events: p.events.Load(), Dropped: p.dropped.Load(), Skipped: p.skipped.Load(),
		Subscribers: p.pub.Subscribers(), Missed: p.pub.Missed(),
	}
}

// run publishes until the queue is closed and empty.
func (p *Publisher) run() {
	var (
		enc      = encoder{backend: p.cfg.BackendID, legacy: p.cfg.LegacyCompat, object: p.cfg.ObjectKey}
		batch    = make([]event, 0, maxBatch)
		sequence = uint64(1)
		id       = uint64(1)
		payload  []byte
	)
	for {
		taken, dropped, more := p.queue.take(batch)
		if !more {
			return
		}
		sequence += dropped
		taken = p.skip(taken)
		if len(taken) == 0 {
			continue
		}
		payload = enc.payload(payload[:0], time.Now().UnixMilli(), id, taken)
		p.pub.Publish(message(sequence, payload))
		id += uint64(len(taken))
		sequence++
		p.batches.Add(1)
		p.events.Add(uint64(len(taken)))
		clear(batch[:cap(batch)])
	}
}

// skip counts the keys that are no hash, and leaves them out where nothing else of them
// would be told.
func (p *Publisher) skip(events []event) []event {
	out := events[:0]
	for _, e := range events {
		if _, ok := sequenceHash(e.key); !ok {
			p.skipped.Add(1)
			if !p.cfg.ObjectKey {
				continue
			}
		}
		out = append(out, e)
	}
	return out
}

// message is the three frames of a batch.
func message(sequence uint64, payload []byte) []byte {
	dst := zmtp.AppendFrame(make([]byte, 0, len(payload)+24), nil, true)
	dst = zmtp.AppendFrame(dst, binary.BigEndian.AppendUint64(nil, sequence), true)
	return zmtp.AppendFrame(dst, payload, false)
}
