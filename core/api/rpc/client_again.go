package rpc

import (
	"context"
	"sync"

	"google.golang.org/protobuf/proto"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/model"
)

// The calls of a client that puts and gets all day, with pooled messages. A message is in one
// call at a time: no goroutine uses it after the call has returned (lean.Client.Invoke).

// whose is the part of a request that says who asks.
type whose struct {
	caller masterv1.Caller
	client masterv1.UUID
}

func (w *whose) of(c model.Caller) *masterv1.Caller {
	w.client.Hi, w.client.Lo = c.Client.Hi, c.Client.Lo
	w.caller.Client, w.caller.Tenant = &w.client, c.Tenant
	return &w.caller
}

// appendKeys views keys as the field of a message, which must only be read.
func appendKeys(b [][]byte, keys []model.Key) [][]byte {
	for _, k := range keys {
		b = append(b, keyAsBytes(k))
	}
	return b
}

// again makes one call, whose messages may be used again afterwards.
func (c *Client) again(ctx context.Context, op, method string, caller model.Caller, in, out proto.Message) error {
	if err := checkText("tenant", caller.Tenant); err != nil {
		return err
	}
	if err := c.way.Invoke(ctx, method, in, out); err != nil {
		return c.callError(op, err)
	}
	return nil
}

type getCall struct {
	whose
	in  masterv1.GetReplicasRequest
	out masterv1.GetReplicasResponse
}

var getCalls = sync.Pool{New: func() any { return new(getCall) }}

// GetReplicas implements store.Master.
func (c *Client) GetReplicas(ctx context.Context, caller model.Caller, keys []model.Key, into *model.Answer[model.Object]) ([]model.Result[model.Object], error) {
	return inPieces(c, keys, keySize, failedItem[model.Object], func(piece []model.Key) ([]model.Result[model.Object], error) {
		call := getCalls.Get().(*getCall) //nolint:forcetypeassert // Nothing else is in the pool.
		defer getCalls.Put(call)
		call.in.Caller, call.in.Keys = call.of(caller), appendKeys(call.in.GetKeys()[:0], piece)
		err := c.again(ctx, "get replicas", masterv1.MasterService_GetReplicas_FullMethodName, caller, &call.in, &call.out)
		clear(call.in.Keys)
		if err != nil {
			return nil, err
		}
		return goObjects(len(piece), &call.out, memory(into, len(piece) == len(keys)))
	})
}

// memory returns the caller's memory for an answer where there is some and it holds the whole
// answer, else memory of its own.
func memory[T any](into *model.Answer[T], whole bool) *model.Answer[T] {
	if into == nil || !whole {
		return new(model.Answer[T])
	}
	return into
}

type startCall struct {
	whose
	config masterv1.ReplicateConfig
	in     masterv1.PutStartRequest
	out    masterv1.PutStartResponse
}

var startCalls = sync.Pool{New: func() any { return new(startCall) }}

// PutStart implements store.Master.
func (c *Client) PutStart(ctx context.Context, caller model.Caller, items []model.PutItem, cfg model.ReplicateConfig, into *model.Answer[[]model.Replica]) ([]model.Result[[]model.Replica], error) {
	if err := checkPut(items, cfg); err != nil {
		return nil, err
	}
	return inPieces(c, items, putSize, failedItem[[]model.Replica], func(piece []model.PutItem) ([]model.Result[[]model.Replica], error) {
		call := startCalls.Get().(*startCall) //nolint:forcetypeassert // Nothing else is in the pool.
		defer startCalls.Put(call)
		err := c.again(ctx, "put start", masterv1.MasterService_PutStart_FullMethodName, caller, call.fill(caller, piece, &cfg), &call.out)
		clear(call.in.Keys)
		clear(call.in.Groups)
		if err != nil {
			return nil, err
		}
		return goAllocations(len(piece), &call.out, memory(into, len(piece) == len(items)))
	})
}

func (s *startCall) fill(caller model.Caller, items []model.PutItem, cfg *model.ReplicateConfig) *masterv1.PutStartRequest {
	in := &s.in
	in.Caller, in.Config = s.of(caller), &s.config
	s.config.Reset()
	fillConfig(&s.config, cfg)
	in.Keys, in.Sizes, in.Groups = in.Keys[:0], in.Sizes[:0], in.Groups[:0]
	grouped := false
	for i := range items {
		it := &items[i]
		in.Keys, in.Sizes, in.Groups = append(in.Keys, keyAsBytes(it.Key)), append(in.Sizes, it.Size), append(in.Groups, it.Group)
		grouped = grouped || it.Group != ""
	}
	if !grouped {
		in.Groups = in.Groups[:0]
	}
	return in
}

type endCall struct {
	whose
	in  masterv1.PutEndRequest
	out masterv1.PutEndResponse
}

var endCalls = sync.Pool{New: func() any { return new(endCall) }}

// PutEnd implements store.Master.
func (c *Client) PutEnd(ctx context.Context, caller model.Caller, items []model.EndItem, into []error) ([]error, error) {
	return inPieces(c, items, endSize, sameError, func(piece []model.EndItem) ([]error, error) {
		call := endCalls.Get().(*endCall) //nolint:forcetypeassert // Nothing else is in the pool.
		defer endCalls.Put(call)
		in := call.fill(caller, piece)
		err := c.again(ctx, "put end", masterv1.MasterService_PutEnd_FullMethodName, caller, in, &call.out)
		clear(in.Keys)
		if err != nil {
			return nil, err
		}
		if len(piece) < len(items) {
			into = nil
		}
		return goErrors(into, len(piece), call.out.GetErrors())
	})
}

func (e *endCall) fill(caller model.Caller, items []model.EndItem) *masterv1.PutEndRequest {
	in := &e.in
	in.Caller, in.Keys, in.ChecksumKinds, in.Checksums, in.Puts = e.of(caller), in.Keys[:0], in.ChecksumKinds[:0], in.Checksums[:0], in.Puts[:0]
	for i := range items {
		it := &items[i]
		in.Keys, in.Puts = append(in.Keys, keyAsBytes(it.Key)), append(in.Puts, it.Put)
		in.ChecksumKinds, in.Checksums = append(in.ChecksumKinds, uint32(it.Checksum.Kind)), append(in.Checksums, it.Checksum.Value)
	}
	return in
}
