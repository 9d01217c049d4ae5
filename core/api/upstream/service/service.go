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
	"fmt"
	"log/slog"
	"strings"

	"github.com/mooncake-go/mooncake/core/api/upstream"
	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/model"
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
	Narrow(request calls.Versions) calls.Version
}

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

// function answers the calls of a function.
type function func(ctx context.Context, s *Service, peer narrower, body, out []byte) ([]byte, error)

// table is functions by their numbers.
type table map[uint32]function

var functions = func() table {
	t := table{}
	for _, add := range []func(table){addSegments, addObjects, addPuts, addTasks, addDisks} {
		add(t)
	}
	return t
}()

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
		v := peer.Narrow(versions)
		r, err := do(s, ctx, v, &q)
		if err != nil {
			return out, &upstream.Refused{Code: upstream.CodeInternal, Message: err.Error()}
		}
		return f.AppendResponse(out, v, &r)
	}
}

// caller is who makes a call. Reads name no client.
func caller(client model.ClientID, tenant string) model.Caller {
	return model.Caller{Client: client, Tenant: tenant, Upstream: true}
}

// void is the answer of a call without a result.
func void(v calls.Version, err error) calls.Expected[calls.Void] {
	return calls.Expected[calls.Void]{Code: codeOf(v, err)}
}

// value is the answer of a call with a result.
func value[T any](v calls.Version, x T, err error) calls.Expected[T] {
	if err != nil {
		return calls.Expected[T]{Code: codeOf(v, err)}
	}
	return calls.Expected[T]{Value: x}
}

// voids are the answers for the items of a batch.
func voids(v calls.Version, each []error) []calls.Expected[calls.Void] {
	out := make([]calls.Expected[calls.Void], len(each))
	for i, err := range each {
		out[i] = void(v, err)
	}
	return out
}

// most is how many items one call of the master takes. Upstream's clients send more.
const most = 1 << 14

// inPieces makes a call for all items, in pieces that the master takes. The error of a call is that of each of its items.
func inPieces[In, Out any](items []In, call func([]In) ([]Out, error), failed func(error) Out) []Out {
	var out []Out
	for len(items) > 0 {
		piece := items[:min(len(items), most)]
		items = items[len(piece):]
		got, err := call(piece)
		if err == nil && len(got) != len(piece) {
			err = errs.New(errs.Internal, "upstream", "the master answered %d items of %d", len(got), len(piece))
		}
		switch {
		case err != nil:
			for range piece {
				out = append(out, failed(err))
			}
		case out == nil:
			out = got
		default:
			out = append(out, got...)
		}
	}
	return out
}

func resultOf[T any](err error) model.Result[T] { return model.Result[T]{Err: err} }
func itself(err error) error                    { return err }

// clones returns strings that do not share the memory of a request, which the master would keep for the sake of one of
// them.
func clones(in []string) []string {
	out := make([]string, len(in))
	for i := range in {
		out[i] = strings.Clone(in[i])
	}
	return out
}
