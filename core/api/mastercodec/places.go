package mastercodec

import (
	"sync"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
)

const (
	// maxPlaces bounds the places that are kept; a pool has one a segment.
	maxPlaces = 4096
	// maxPlaceBytes bounds one that is kept.
	maxPlaceBytes = 1024
)

// Places keeps the places that answers named, since a pool's segments are few and every answer
// names some of them. Messages share them and must not change them. The zero value is ready.
// Safe for concurrent use.
type Places struct {
	mu    sync.RWMutex
	known map[string]*masterv1.Place // by encoding
}

func (p *Places) find(encoded []byte) *masterv1.Place {
	if p == nil {
		return nil
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.known[string(encoded)]
}

// keep notes a place. When there are too many all are forgotten: what is in use comes back.
func (p *Places) keep(encoded []byte, m *masterv1.Place) {
	if p == nil || len(encoded) > maxPlaceBytes {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known) >= maxPlaces {
		p.known = make(map[string]*masterv1.Place)
	}
	p.known[string(encoded)] = m
}

// read is readElement for a place, one that is known where it can be.
func (p *Places) read(dst *[]*masterv1.Place, b []byte) []byte {
	content, rest := block(b)
	if rest == nil {
		return nil
	}
	if m := p.find(content); m != nil {
		*dst = append(*dst, m)
		return rest
	}
	n := len(*dst)
	if rest = readElement(dst, b); rest != nil {
		p.keep(content, (*dst)[n])
	}
	return rest
}

func appendPlaces(b []byte, m *masterv1.Replicas) (_ []byte, err error) {
	for _, p := range m.GetPlaces() {
		if b, err = appendPresent(b, 1, p); err != nil {
			return nil, err
		}
	}
	return b, nil
}
