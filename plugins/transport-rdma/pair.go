package rdma

import (
	"crypto/rand"
	"encoding/binary"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/gid"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
)

// pair is one queue pair of a connection. What is under way on it is a ring in the order of
// posting, guarded by the mutex of the conn's link.
type pair struct {
	d   *device
	qp  *verbs.QP
	tag uint64
	psn uint32
	// conn or accepted is what it belongs to.
	conn     *conn
	accepted *accepted

	ring  []piece // a power of two
	head  uint64  // posted so far, the ID of the next work request
	tail  uint64  // ended so far
	bytes int64   // between them
}

// piece is one work request: part of an operation. result waits in it when it was fetched
// before the result of an earlier one, which is with another goroutine.
type piece struct {
	o       *op
	n       int
	fetched bool
	result  verbs.Result
}

func (p *pair) underWay() int { return int(p.head - p.tail) }

func (p *pair) at(i uint64) *piece { return &p.ring[i&uint64(len(p.ring)-1)] }

// newPairs makes queue pairs in state INIT. Nothing is left after an error.
func (d *device) newPairs(count, depth int, own func(*pair)) (pairs []*pair, err error) {
	defer func() {
		if err != nil {
			d.n.destroy(pairs)
			pairs = nil
		}
	}()
	d.build.Lock()
	defer d.build.Unlock()
	if d.attr.MaxQPWR > 1 {
		depth = min(depth, d.attr.MaxQPWR-1)
	}
	for range count {
		q, err := d.room(depth)
		if err != nil {
			return pairs, err
		}
		p := &pair{d: d, psn: randomPSN()}
		own(p)
		d.n.tags.add(p)
		p.qp, err = d.pd.CreateQP(q.cq, verbs.QPConfig{
			Depth: min(depth, q.cq.Entries()-1), MaxInline: d.n.cfg.MaxInline, SignalEvery: d.n.cfg.SignalEvery, Tag: p.tag,
		})
		if err != nil {
			d.n.tags.drop(p)
			return pairs, err
		}
		pairs = append(pairs, p)
		if err := p.qp.ToInit(verbs.InitAttr{
			Port: d.n.cfg.IBPort, PKeyIndex: d.n.cfg.PKeyIndex,
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

// far is the other end of one queue pair, and what both ends agreed on.
type far struct {
	qp, psn            uint32
	gid                gid.GID
	lid                uint32
	mtu                int
	readsIn, readsOut  int
	localPSN           uint32
	localIndex, ibPort int
}

// join takes a queue pair from INIT to RTS.
func (p *pair) join(f far) error {
	cfg := &p.d.n.cfg
	if err := p.qp.ToRTR(verbs.RTRAttr{
		MTU: f.mtu, PeerQP: f.qp, PeerGID: f.gid, PeerLID: uint16(f.lid), PeerPSN: f.psn,
		Port: f.ibPort, GIDIndex: f.localIndex, HopLimit: 16,
		TrafficClass: uint8(max(cfg.TrafficClass, 0)), ServiceLevel: uint8(max(cfg.ServiceLevel, 0)),
		ReadsIn: uint8(f.readsIn), MinRNRTimer: uint8(cfg.MinRNRTimer),
	}); err != nil {
		return err
	}
	return p.qp.ToRTS(verbs.RTSAttr{
		PSN: f.localPSN, Timeout: uint8(cfg.AckTimeout), RetryCount: uint8(cfg.RetryCount), RNRRetry: uint8(cfg.RNRRetry),
		ReadsOut: uint8(f.readsOut),
	})
}

// readsIn and readsOut are how many Reads of a peer, and to a peer, the device can have
// under way on a queue pair.
func (d *device) readsIn() int  { return clampReads(d.n.cfg.MaxReads, d.attr.MaxReadsIn) }
func (d *device) readsOut() int { return clampReads(d.n.cfg.MaxReads, d.attr.MaxReadsOut) }

func clampReads(want, limit int) int {
	if limit > 0 {
		want = min(want, limit)
	}
	return max(1, min(want, 255))
}

// destroy ends queue pairs that have nothing under way, or nothing that anybody waits for.
// It reports whether all are gone; those that are not are tried again when the node stops.
func (n *node) destroy(pairs []*pair) bool {
	all := true
	for _, p := range pairs {
		if err := p.qp.Close(); err != nil {
			n.log.Error("a queue pair could not be destroyed", "device", p.d.name, "error", err)
			n.mu.Lock()
			n.zombies = append(n.zombies, p)
			n.mu.Unlock()
			all = false
			continue
		}
		n.tags.drop(p)
	}
	return all
}
