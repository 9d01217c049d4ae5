package service

import (
	"context"

	"github.com/mooncake-go/mooncake/core/api/upstream"
	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
)

// As is a peer that is known to have a version.
type As calls.Version

// Narrow implements narrower.
func (a As) Narrow(request calls.Versions, _ upstream.Reading) calls.Version {
	if !request.Has(calls.Version(a)) {
		panic("the request is not one of the version")
	}
	return calls.Version(a)
}

// AnswerAs is Answer for a peer of a version.
func (s *Service) AnswerAs(ctx context.Context, v calls.Version, function uint32, body []byte) ([]byte, error) {
	return s.AppendAs(ctx, v, function, body, nil)
}

// AppendAs is AnswerAs that appends to out.
func (s *Service) AppendAs(ctx context.Context, v calls.Version, function uint32, body, out []byte) ([]byte, error) {
	return s.answer(ctx, As(v), function, body, out)
}

// CodeOf is codeOf.
var CodeOf = codeOf

// Most is most.
const Most = most
