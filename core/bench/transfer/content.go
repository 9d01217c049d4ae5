package transfer

import (
	"context"
	"fmt"

	"github.com/mooncake-go/mooncake/core/bench/content"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Content counts the blocks that were compared after a measurement.
type Content struct {
	Verified uint64 `json:"verified_blocks"`
	Wrong    uint64 `json:"wrong_blocks"`
	// First says where the first wrong block is.
	First string `json:"first_wrong,omitempty"`
}

// err says what is wrong, nil when nothing is.
func (c Content) err() error {
	if c.Wrong == 0 {
		return nil
	}
	return errs.New(errs.TransferFail, "bench transfer", "%d of %d blocks have wrong content; the first: %s", c.Wrong, c.Verified, c.First)
}

// The seeds of the content before and after a measurement of writes: they differ, so that
// a write that moves nothing is found.
const (
	seedBefore = 1
	seedAfter  = 2
)

// prepare gives the target known content, and this side what the load is to move or to
// overwrite.
func (s *Session) prepare(ctx context.Context, l Load) error {
	s.fill(l, seedBefore)
	if err := s.all(ctx, l, transport.Write); err != nil {
		return fmt.Errorf("write the content that is checked later: %w", err)
	}
	if l.Kind == transport.Write {
		s.fill(l, seedAfter)
	} else {
		clear(s.local.bytes()[:l.Span()])
	}
	return nil
}

// compare looks at every block that the load moved.
func (s *Session) compare(ctx context.Context, l Load) (Content, error) {
	seed := uint64(seedBefore)
	if l.Kind == transport.Write {
		seed = seedAfter
		clear(s.local.bytes()[:l.Span()])
		if err := s.all(ctx, l, transport.Read); err != nil {
			return Content{}, fmt.Errorf("read back what was written: %w", err)
		}
	}
	var c Content
	for i, page := range s.blocks(l) {
		c.Verified++
		if at := content.Verify(page, uint64(i), seed); at >= 0 {
			c.Wrong++
			if c.First == "" {
				c.First = fmt.Sprintf("%s of block %d of %d bytes: wrong from byte %d on", KindName(l.Kind), i, l.Block, at)
			}
		}
	}
	return c, nil
}

func (s *Session) fill(l Load, seed uint64) {
	for i, page := range s.blocks(l) {
		content.Fill(page, uint64(i), seed)
	}
}

// blocks cuts this side's memory into the blocks of the load.
func (s *Session) blocks(l Load) [][]byte {
	mem := s.local.bytes()
	out := make([][]byte, l.Batch*l.Threads)
	for i := range out {
		at := uint64(i) * l.Block
		out[i] = mem[at:][:l.Block:l.Block]
	}
	return out
}

// all moves every block of the load once, in one direction.
func (s *Session) all(ctx context.Context, l Load, kind transport.OpKind) error {
	l.Kind = kind
	for i := range l.Threads {
		if err := s.move(ctx, s.requests(l, i)); err != nil {
			return err
		}
	}
	return nil
}
