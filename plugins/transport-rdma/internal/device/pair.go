package device

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/gid"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
)

// PairOwner uses a queue pair. Several goroutines may call it at the same time.
type PairOwner interface {
	// Take handles results of the queue pair. They may come out of order, since several goroutines
	// fetch them.
	Take(results []verbs.Result)
	// Failed handles an event of the queue pair; cause describes it.
	Failed(event verbs.EventType, cause error)
}

// Pair is one queue pair.
type Pair struct {
	*verbs.QP
	// PSN is the number of its first packet.
	PSN   uint32
	owner PairOwner
	d     *Device
	tag   uint64
}

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
		p := &Pair{d: d, PSN: randomPSN(), owner: owner}
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

// randomPSN returns a first packet number, so that packets of an old connection that are
// still on their way are not taken for those of a new one.
func randomPSN() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // It never fails.
	return binary.LittleEndian.Uint32(b[:]) & (1<<24 - 1)
}

// Numbers returns the numbers of queue pairs and their first packet numbers.
func Numbers(pairs []*Pair) (qps, psns []uint32) {
	for _, p := range pairs {
		qps, psns = append(qps, p.Num()), append(psns, p.PSN)
	}
	return qps, psns
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

// Destroy ends queue pairs that have nothing in flight, or nothing for which a caller waits. It
// reports whether all are gone. Close tries the others again.
func (d *Device) Destroy(pairs []*Pair) bool {
	all := true
	for _, p := range pairs {
		if d.close(p) {
			d.Forget(p)
		} else {
			all = false
		}
	}
	return all
}

// ClosePairs destroys queue pairs that may have work in flight, and reports whether all are gone.
// Their owners get the remaining results; then the caller calls Forget.
func (d *Device) ClosePairs(pairs []*Pair) bool {
	all := true
	for _, p := range pairs {
		all = d.close(p) && all
	}
	return all
}

func (d *Device) close(p *Pair) bool {
	err := p.Close()
	if err == nil {
		return true
	}
	d.env.Log.Error("a queue pair could not be destroyed", "device", d.Name, "error", err)
	d.mu.Lock()
	d.undestroyed = append(d.undestroyed, p)
	d.mu.Unlock()
	return false
}

// Forget ends the delivery of results and events to the owners of queue pairs.
func (d *Device) Forget(pairs ...*Pair) {
	for _, p := range pairs {
		d.tags.drop(p)
	}
}
