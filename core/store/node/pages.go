package node

import "github.com/mooncake-go/mooncake/core/ledger"

// pages is the memory of a ledger that ends with the process.
type pages struct{ b []byte }

func (p *pages) Bytes() []byte { return p.b }

// Resize implements ledger.Memory.
func (p *pages) Resize(n int) error {
	b := make([]byte, n)
	copy(b, p.b)
	p.b = b
	return nil
}

// newLedger makes the empty ledger of a segment, in memory that a vault can keep where the node has one and the memory
// of the segment is its own.
func (n *Node) newLedger(s *segment) (*ledger.Log, *ledgerMemory, error) {
	id := ledger.Identity{Segment: s.ID, Size: s.Size}
	if n.cfg.Kept == nil || s.memory == nil {
		l, err := ledger.Create(&pages{}, id)
		return l, nil, err
	}
	id.Cluster = n.cfg.Kept.cluster
	mem, err := newLedgerMemory()
	if err != nil {
		return nil, nil, err
	}
	l, err := ledger.Create(mem, id)
	return l, mem, err
}
