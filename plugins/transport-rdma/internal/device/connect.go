package device

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/gid"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
)

// NewPairs makes a queue pair in state INIT for each owner. After an error, none is left.
func (d *Device) NewPairs(depth int, owners []PairOwner) (pairs []*Pair, err error) {
	defer func() {
		if err != nil {
			d.Destroy(pairs)
			pairs = nil
		}
	}()
	cfg := d.env.Config
	d.build.Lock()
	defer d.build.Unlock()
	if d.Attr.MaxQPWR > 1 {
		depth = min(depth, d.Attr.MaxQPWR-1)
	}
	for _, owner := range owners {
		q, err := d.queueFor(depth)
		if err != nil {
			return pairs, err
		}
		// The first packet number is random, so that packets of an old connection that are still on
		// their way are not taken for those of a new one.
		p := &Pair{PSN: rand.Uint32N(1 << 24), owner: owner}
		d.tags.add(p)
		p.QP, err = d.PD.CreateQP(q.cq, verbs.QPConfig{
			Depth: min(depth, q.cq.Entries()-1), MaxInline: cfg.MaxInline, SignalEvery: cfg.SignalEvery, Tag: p.tag,
		})
		if err != nil {
			d.tags.drop(p)
			return pairs, err
		}
		pairs = append(pairs, p)
		if err := p.ToInit(verbs.InitAttr{
			Port: cfg.IBPort, PKeyIndex: cfg.PKeyIndex,
			Access: verbs.AccessLocalWrite | verbs.AccessRemoteRead | verbs.AccessRemoteWrite,
		}); err != nil {
			return pairs, err
		}
	}
	return pairs, nil
}

// queueFor returns a queue that takes a queue pair of this depth, a new one if need be.
// d.build is held.
func (d *Device) queueFor(depth int) (*Queue, error) {
	queues := d.Queues()
	var best *Queue
	for _, q := range queues {
		if best == nil || q.cq.Free() > best.cq.Free() {
			best = q
		}
	}
	if best != nil && best.cq.Free() > depth {
		return best, nil
	}
	return d.newQueue()
}

// Remote is the other end of the queue pairs of a connection, and what both ends agreed on.
type Remote struct {
	GID gid.GID
	LID uint32
	// QueuePairs are the numbers of the queue pairs, by the index of those of this side. PSNs are their
	// first packet numbers, nil where both sides begin at 0.
	QueuePairs, PSNs []uint32
	MTU              int
	// ReadsIn is how many Reads the peer may have in flight, ReadsOut how many this side.
	ReadsIn, ReadsOut int
	// GIDIndex is the index of this side's address.
	GIDIndex int
}

// ErrConnect is in the errors of queue pairs that could not be connected: the address of the
// port may have changed.
var ErrConnect = errors.New("the queue pairs could not be connected")

// Connect takes queue pairs from INIT to RTS.
func (d *Device) Connect(pairs []*Pair, to Remote) error {
	for i, p := range pairs {
		if err := d.connect(p, i, &to); err != nil {
			return fmt.Errorf("%w: %w", ErrConnect, err)
		}
	}
	return nil
}

func (d *Device) connect(p *Pair, i int, to *Remote) error {
	cfg := d.env.Config
	var psn, localPSN uint32
	if len(to.PSNs) > 0 {
		psn, localPSN = to.PSNs[i], p.PSN
	}
	if err := p.ToRTR(verbs.RTRAttr{
		MTU: to.MTU, PeerQP: to.QueuePairs[i], PeerGID: to.GID, PeerLID: uint16(to.LID), PeerPSN: psn,
		Port: cfg.IBPort, GIDIndex: to.GIDIndex, HopLimit: 16,
		TrafficClass: uint8(max(cfg.TrafficClass, 0)), ServiceLevel: uint8(max(cfg.ServiceLevel, 0)),
		ReadsIn: uint8(to.ReadsIn), MinRNRTimer: uint8(cfg.MinRNRTimer),
	}); err != nil {
		return err
	}
	return p.ToRTS(verbs.RTSAttr{
		PSN: localPSN, Timeout: uint8(cfg.AckTimeout), RetryCount: uint8(cfg.RetryCount), RNRRetry: uint8(cfg.RNRRetry),
		ReadsOut: uint8(to.ReadsOut),
	})
}
