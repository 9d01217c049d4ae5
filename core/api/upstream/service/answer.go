package service

import (
	"strings"

	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

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
