package service

import (
	"context"
	"fmt"

	"github.com/mooncake-go/mooncake/core/api/upstream"
)

var functions = func() table {
	t := table{}
	for _, add := range []func(table){addSegments, addObjects, addPuts, addTasks, addDisks} {
		add(t)
	}
	return t
}()

// Answer implements upstream.Handler.
func (s *Service) Answer(ctx context.Context, peer *upstream.Peer, function uint32, body, out []byte) ([]byte, error) {
	return s.answer(ctx, peer, function, body, out)
}

func (s *Service) answer(ctx context.Context, peer narrower, function uint32, body, out []byte) ([]byte, error) {
	f := functions[function]
	if f == nil {
		return out, &upstream.Refused{
			Code:    upstream.CodeUnsupported,
			Message: fmt.Sprintf("no function of upstream's releases 0.3.9 to 0.3.13.post1 has the number %08x; use a client of one of them", function),
		}
	}
	return f(ctx, s, peer, body, out)
}
