package client

import (
	"context"
	"sync"

	"google.golang.org/protobuf/proto"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/api/rpc/convert"
	"github.com/mooncake-go/mooncake/core/model"
)

func keySize(k *model.Key) int { return len(*k) }

func failedItem[T any](err error) model.Result[T] { return model.Result[T]{Err: err} }

func sameError(err error) error { return err }

// Exist implements store.Master.
func (c *Client) Exist(ctx context.Context, caller model.Caller, keys []model.Key) ([]model.Result[bool], error) {
	return inPieces(c, keys, keySize, failedItem[bool], func(keys []model.Key) ([]model.Result[bool], error) {
		out, err := call(ctx, c, "exist", c.rpc.Exist, &masterv1.ExistRequest{Caller: convert.ToCaller(caller), Keys: convert.ToKeys(keys)})
		if err != nil {
			return nil, err
		}
		return convert.FromExist(len(keys), out)
	})
}

// PutRevoke implements store.Master.
func (c *Client) PutRevoke(ctx context.Context, caller model.Caller, items []model.RevokeItem) ([]error, error) {
	size := func(it *model.RevokeItem) int { return len(it.Key) }
	return inPieces(c, items, size, sameError, func(items []model.RevokeItem) ([]error, error) {
		out, err := call(ctx, c, "put revoke", c.rpc.PutRevoke, convert.ToPutRevoke(caller, items))
		if err != nil {
			return nil, err
		}
		return convert.FromRevoked(items, out)
	})
}

// Remove implements store.Master.
func (c *Client) Remove(ctx context.Context, caller model.Caller, keys []model.Key, force bool) ([]error, error) {
	return inPieces(c, keys, keySize, sameError, func(keys []model.Key) ([]error, error) {
		out, err := call(ctx, c, "remove", c.rpc.Remove, &masterv1.RemoveRequest{Caller: convert.ToCaller(caller), Keys: convert.ToKeys(keys), Force: force})
		if err != nil {
			return nil, err
		}
		return convert.FromErrors(nil, len(keys), out.GetErrors())
	})
}

// The calls that a client makes all day have pooled messages. A message is in one call at a time:
// no goroutine uses it after the call returned (lean.Client.Invoke).

// pooled holds the messages of one such call, and the part of the request that says who asks.
type pooled[In, Out any] struct {
	in     In
	out    Out
	caller masterv1.Caller
	client masterv1.UUID
	config masterv1.ReplicateConfig // of PutStart
}

// asker returns the message of a caller.
func (p *pooled[In, Out]) asker(c model.Caller) *masterv1.Caller {
	p.client.Hi, p.client.Lo = c.Client.Hi, c.Client.Lo
	p.caller.Client, p.caller.Tenant, p.caller.Upstream = &p.client, c.Tenant, c.Upstream
	return &p.caller
}

type (
	getCall   = pooled[masterv1.GetReplicasRequest, masterv1.GetReplicasResponse]
	startCall = pooled[masterv1.PutStartRequest, masterv1.PutStartResponse]
	endCall   = pooled[masterv1.PutEndRequest, masterv1.PutEndResponse]
)

var (
	getCalls   = sync.Pool{New: func() any { return new(getCall) }}
	startCalls = sync.Pool{New: func() any { return new(startCall) }}
	endCalls   = sync.Pool{New: func() any { return new(endCall) }}
)

// invoke makes a call with pooled messages.
func (c *Client) invoke(ctx context.Context, op, method string, caller model.Caller, in, out proto.Message) error {
	if err := convert.CheckText("tenant", caller.Tenant); err != nil {
		return err
	}
	return c.outcome(op, c.way.Invoke(ctx, method, in, out))
}

// memory returns the caller's memory for an answer if there is some and it holds the whole answer,
// and new memory otherwise.
func memory[T any](into *model.Answer[T], whole bool) *model.Answer[T] {
	if into == nil || !whole {
		return new(model.Answer[T])
	}
	return into
}

// GetReplicas implements store.Master.
func (c *Client) GetReplicas(ctx context.Context, caller model.Caller, keys []model.Key, into *model.Answer[model.Object]) ([]model.Result[model.Object], error) {
	size, grains := keySize, into != nil && into.WithGrains
	if grains { // The answer is what takes space.
		size = func(k *model.Key) int { return len(*k) + 4*model.MaxGrains }
	}
	return inPieces(c, keys, size, failedItem[model.Object], func(piece []model.Key) ([]model.Result[model.Object], error) {
		call := getCalls.Get().(*getCall) //nolint:forcetypeassert // Nothing else is in the pool.
		defer getCalls.Put(call)
		call.in.Caller, call.in.Keys, call.in.Grains = call.asker(caller), call.in.Keys[:0], grains
		for _, k := range piece {
			call.in.Keys = append(call.in.Keys, convert.ToKey(k))
		}
		err := c.invoke(ctx, "get replicas", masterv1.MasterService_GetReplicas_FullMethodName, caller, &call.in, &call.out)
		clear(call.in.Keys)
		if err != nil {
			return nil, err
		}
		return convert.FromObjects(len(piece), &call.out, memory(into, len(piece) == len(keys)))
	})
}

// PutStart implements store.Master.
func (c *Client) PutStart(ctx context.Context, caller model.Caller, items []model.PutItem, cfg model.ReplicateConfig, into *model.Answer[[]model.Replica]) ([]model.Result[[]model.Replica], error) {
	if err := convert.CheckPut(items, cfg); err != nil {
		return nil, err
	}
	size := func(it *model.PutItem) int { return len(it.Key) + len(it.Group) }
	return inPieces(c, items, size, failedItem[[]model.Replica], func(piece []model.PutItem) ([]model.Result[[]model.Replica], error) {
		call := startCalls.Get().(*startCall) //nolint:forcetypeassert // Nothing else is in the pool.
		defer startCalls.Put(call)
		call.in.Caller, call.in.Config = call.asker(caller), &call.config
		convert.FillPutStart(&call.in, piece, &cfg)
		err := c.invoke(ctx, "put start", masterv1.MasterService_PutStart_FullMethodName, caller, &call.in, &call.out)
		clear(call.in.Keys)
		clear(call.in.Groups)
		if err != nil {
			return nil, err
		}
		return convert.FromAllocations(len(piece), &call.out, memory(into, len(piece) == len(items)))
	})
}

// PutEnd implements store.Master.
func (c *Client) PutEnd(ctx context.Context, caller model.Caller, items []model.EndItem, into []error) ([]error, error) {
	size := func(it *model.EndItem) int { return len(it.Key) + 4*len(it.Grains) }
	return inPieces(c, items, size, sameError, func(piece []model.EndItem) ([]error, error) {
		call := endCalls.Get().(*endCall) //nolint:forcetypeassert // Nothing else is in the pool.
		defer endCalls.Put(call)
		call.in.Caller = call.asker(caller)
		convert.FillPutEnd(&call.in, piece)
		err := c.invoke(ctx, "put end", masterv1.MasterService_PutEnd_FullMethodName, caller, &call.in, &call.out)
		clear(call.in.Keys)
		if err != nil {
			return nil, err
		}
		if len(piece) < len(items) {
			into = nil
		}
		return convert.FromErrors(into, len(piece), call.out.GetErrors())
	})
}
