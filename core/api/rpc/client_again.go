package rpc

import (
	"context"
	"sync"

	"google.golang.org/protobuf/proto"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
)

// The calls of a client that puts and gets all day, with pooled messages. A message is in one
// call at a time: no goroutine uses it after the call has returned (lean.Client.Invoke).

var _ store.Answerer = (*Client)(nil)

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

// fits reports whether a batch goes into one call.
func fits[Item any](c *Client, items []Item, size func(*Item) int) bool {
	return cut(len(items), c.opts.MaxItems, c.opts.MaxBytes, func(i int) int { return size(&items[i]) }) == len(items)
}

type getCall struct {
	whose
	in  masterv1.GetReplicasRequest
	out masterv1.GetReplicasResponse
}

var getCalls = sync.Pool{New: func() any { return new(getCall) }}

// GetReplicasTo implements store.Answerer.
func (c *Client) GetReplicasTo(ctx context.Context, caller model.Caller, keys []model.Key, a *model.Answer[model.Object]) error {
	if !fits(c, keys, keySize) {
		got, err := c.GetReplicas(ctx, caller, keys)
		a.Results = append(a.Results[:0], got...)
		return err
	}
	return c.getReplicas(ctx, caller, keys, a)
}

// getReplicas is GetReplicasTo for keys that fit into one call.
func (c *Client) getReplicas(ctx context.Context, caller model.Caller, keys []model.Key, a *model.Answer[model.Object]) error {
	call := getCalls.Get().(*getCall) //nolint:forcetypeassert // Nothing else is in the pool.
	defer getCalls.Put(call)
	call.in.Caller, call.in.Keys = call.of(caller), appendKeys(call.in.GetKeys()[:0], keys)
	err := c.again(ctx, "get replicas", masterv1.MasterService_GetReplicas_FullMethodName, caller, &call.in, &call.out)
	clear(call.in.Keys)
	if err != nil {
		return err
	}
	return readObjects(len(keys), &call.out, a)
}

type startCall struct {
	whose
	config masterv1.ReplicateConfig
	in     masterv1.PutStartRequest
	out    masterv1.PutStartResponse
}

var startCalls = sync.Pool{New: func() any { return new(startCall) }}

// PutStartTo implements store.Answerer.
func (c *Client) PutStartTo(ctx context.Context, caller model.Caller, items []model.PutItem, cfg model.ReplicateConfig, a *model.Answer[[]model.Replica]) error {
	if !fits(c, items, putSize) {
		got, err := c.PutStart(ctx, caller, items, cfg)
		a.Results = append(a.Results[:0], got...)
		return err
	}
	if err := checkPut(items, cfg); err != nil {
		return err
	}
	call := startCalls.Get().(*startCall) //nolint:forcetypeassert // Nothing else is in the pool.
	defer startCalls.Put(call)
	call.fill(caller, items, &cfg)
	err := c.again(ctx, "put start", masterv1.MasterService_PutStart_FullMethodName, caller, &call.in, &call.out)
	clear(call.in.Keys)
	clear(call.in.Groups)
	if err != nil {
		return err
	}
	return readAllocations(len(items), &call.out, a)
}

func (s *startCall) fill(caller model.Caller, items []model.PutItem, cfg *model.ReplicateConfig) {
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
}

type endCall struct {
	whose
	in  masterv1.PutEndRequest
	out masterv1.PutEndResponse
}

var endCalls = sync.Pool{New: func() any { return new(endCall) }}

// PutEndTo implements store.Answerer.
func (c *Client) PutEndTo(ctx context.Context, caller model.Caller, items []model.EndItem, dst []error) ([]error, error) {
	if !fits(c, items, endSize) {
		got, err := c.PutEnd(ctx, caller, items)
		return append(dst[:0], got...), err
	}
	call := endCalls.Get().(*endCall) //nolint:forcetypeassert // Nothing else is in the pool.
	defer endCalls.Put(call)
	in := &call.in
	in.Caller, in.Keys, in.ChecksumKinds, in.Checksums, in.Puts = call.of(caller), in.Keys[:0], in.ChecksumKinds[:0], in.Checksums[:0], in.Puts[:0]
	for i := range items {
		it := &items[i]
		in.Keys, in.Puts = append(in.Keys, keyAsBytes(it.Key)), append(in.Puts, it.Put)
		in.ChecksumKinds, in.Checksums = append(in.ChecksumKinds, uint32(it.Checksum.Kind)), append(in.Checksums, it.Checksum.Value)
	}
	err := c.again(ctx, "put end", masterv1.MasterService_PutEnd_FullMethodName, caller, in, &call.out)
	clear(in.Keys)
	if err != nil {
		return dst[:0], err
	}
	dst = resized(dst, len(items))
	return dst, spreadErrors(len(items), call.out.GetErrors(), func(i int, err error) { dst[i] = err })
}
