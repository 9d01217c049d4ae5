// Package service has what the calls of upstream's clients do on a store.Master. It decodes their
// requests, makes calls of the master, and encodes the answers in the shape of the client's version.
//
// Upstream's clients differ from those of this project in four respects. They read and write an object in
// one piece, over tcp or rdma only. They read the first replica they are told and no other. They compute
// no checksum that this project knows. And they never say that they have stopped writing. So every
// call that this package makes has model.Caller.Upstream set.
package service

import (
	"context"
	"log/slog"

	"github.com/mooncake-go/mooncake/core/api/upstream"
	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Service answers the calls of upstream's clients. Safe for concurrent use.
type Service struct {
	master store.Master
	log    *slog.Logger
}

// New makes a Service over a master.
func New(m store.Master, log *slog.Logger) *Service { return &Service{master: m, log: log} }

// narrower is an *upstream.Peer.
type narrower interface {
	Narrow(request calls.Versions, f upstream.Reading) calls.Version
}

// function answers the calls of a function.
type function func(ctx context.Context, s *Service, peer narrower, body, out []byte) ([]byte, error)

// table is functions by their numbers.
type table map[uint32]function

// serve makes do what answers a function.
func serve[Q, R any](t table, f *calls.Call[Q, R], do func(s *Service, ctx context.Context, v calls.Version, q *Q) R) {
	serveFailing(t, f, func(s *Service, ctx context.Context, v calls.Version, q *Q) (R, error) { return do(s, ctx, v, q), nil })
}

// serveFailing is serve for a function whose response has no place for an error code.
func serveFailing[Q, R any](t table, f *calls.Call[Q, R], do func(s *Service, ctx context.Context, v calls.Version, q *Q) (R, error)) {
	t[f.ID()] = func(ctx context.Context, s *Service, peer narrower, body, out []byte) ([]byte, error) {
		var q Q
		versions, err := f.DecodeRequest(body, &q)
		if err != nil {
			code := upstream.CodeUndecodable
			if errs.Is(err, errs.InvalidVersion) {
				code = upstream.CodeUnsupported
			}
			return out, &upstream.Refused{Code: code, Message: err.Error()}
		}
		v := peer.Narrow(versions, f)
		r, err := do(s, ctx, v, &q)
		if err != nil {
			return out, &upstream.Refused{Code: upstream.CodeInternal, Message: err.Error()}
		}
		return f.AppendResponse(out, v, &r)
	}
}
