package rpc

import (
	"context"
	"slices"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/model"
)

// RemoveByRegex implements store.Master.
func (c *Client) RemoveByRegex(ctx context.Context, caller model.Caller, expr string, force bool) (int, error) {
	out, err := call(ctx, c, "remove by regex", c.rpc.RemoveByRegex,
		&masterv1.RemoveByRegexRequest{Caller: wireCaller(caller), Expression: []byte(expr), Force: force})
	if err != nil {
		return 0, err
	}
	return int(out.GetRemoved()), nil
}

// RemoveAll implements store.Master.
func (c *Client) RemoveAll(ctx context.Context, caller model.Caller, force bool) (int, error) {
	out, err := call(ctx, c, "remove all", c.rpc.RemoveAll, &masterv1.RemoveAllRequest{Caller: wireCaller(caller), Force: force})
	if err != nil {
		return 0, err
	}
	return int(out.GetRemoved()), nil
}

// ListKeys implements store.Master, page by page.
func (c *Client) ListKeys(ctx context.Context, caller model.Caller, expr string, after model.Key, limit int) ([]model.Key, error) {
	var keys []model.Key
	for limit > len(keys) {
		out, err := call(ctx, c, "list keys", c.rpc.ListKeys, &masterv1.ListKeysRequest{
			Caller:     wireCaller(caller),
			Expression: []byte(expr), After: keyAsBytes(after), Limit: uint32(min(limit-len(keys), maxListKeys)),
		})
		if err != nil {
			return nil, err
		}
		page, err := goPage(out.GetKeys(), after, limit-len(keys))
		if err != nil {
			return nil, err
		}
		keys = append(keys, page...)
		if !out.GetMore() || len(page) == 0 {
			break
		}
		after = page[len(page)-1]
	}
	return keys, nil
}

// goPage refuses a page of more keys than were asked for, or of others, which would make
// the paging endless.
func goPage(in [][]byte, after model.Key, limit int) ([]model.Key, error) {
	page := keyStrings(in)
	if len(page) > limit || len(page) > 0 && page[0] <= after || !slices.IsSorted(page) {
		return nil, malformed("a page of %d keys that does not follow %q", len(page), after)
	}
	return page, nil
}

// GetReplicasByRegex implements store.Master, page by page. The leases of later pages
// begin later than the call, so a caller that counts from before the call is safe.
func (c *Client) GetReplicasByRegex(ctx context.Context, caller model.Caller, expr string, after model.Key, limit int) ([]model.Key, []model.Result[model.Object], error) {
	var keys []model.Key
	var objects []model.Result[model.Object]
	for limit > len(keys) {
		out, err := call(ctx, c, "get replicas by regex", c.rpc.GetReplicasByRegex, &masterv1.GetReplicasByRegexRequest{
			Caller:     wireCaller(caller),
			Expression: []byte(expr), After: keyAsBytes(after), Limit: uint32(min(limit-len(keys), maxObjects)),
		})
		if err != nil {
			return nil, nil, err
		}
		page, err := goPage(out.GetKeys(), after, limit-len(keys))
		if err != nil {
			return nil, nil, err
		}
		res, err := goObjects(len(page), out.GetObjects(), new(model.Answer[model.Object]))
		if err != nil {
			return nil, nil, err
		}
		keys, objects = append(keys, page...), append(objects, res...)
		if !out.GetMore() || len(page) == 0 {
			break
		}
		after = page[len(page)-1]
	}
	return keys, objects, nil
}

// ClearReplicas implements store.Master. When a later piece of a large batch fails, the
// error comes with the keys that have been cleared.
func (c *Client) ClearReplicas(ctx context.Context, caller model.Caller, keys []model.Key, owner model.ClientID, segment string) ([]model.Key, error) {
	var cleared []model.Key
	for first := true; first || len(keys) > 0; first = false {
		n := cut(len(keys), c.opts.MaxItems, c.opts.MaxBytes, func(i int) int { return len(keys[i]) })
		out, err := call(ctx, c, "clear replicas", c.rpc.ClearReplicas, &masterv1.ClearReplicasRequest{
			Caller: wireCaller(caller), Keys: keyBytes(keys[:n]), Owner: wireUUID(owner), Segment: text(segment),
		})
		if err != nil {
			return cleared, err
		}
		if len(out.GetCleared()) > n {
			return cleared, malformed("%d of %d keys are cleared", len(out.GetCleared()), n)
		}
		cleared = append(cleared, keyStrings(out.GetCleared())...)
		keys = keys[n:]
	}
	return cleared, nil
}

// Why implements store.Master.
func (c *Client) Why(ctx context.Context, caller model.Caller, key model.Key) (model.Story, error) {
	out, err := call(ctx, c, "why", c.rpc.Why, &masterv1.WhyRequest{Caller: wireCaller(caller), Key: keyAsBytes(key)})
	if err != nil {
		return model.Story{}, err
	}
	return goStory(caller, key, out)
}
