package node

import (
	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/model"
)

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

// newLedger makes the empty ledger of a segment.
func newLedger(s *model.Segment) (*ledger.Log, error) {
	return ledger.Create(&pages{}, ledger.Identity{Segment: s.ID, Size: s.Size})
}
