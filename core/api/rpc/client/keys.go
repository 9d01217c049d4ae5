package client

import (
	"context"
	"slices"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/api/rpc/convert"
	"github.com/mooncake-go/mooncake/core/model"
)

// RemoveByRegex implements store.Master.
func (c *Client) RemoveByRegex(ctx context.Context, caller model.Caller, expr string, force bool) (int, error) {
	out, err := call(ctx, c, "remove by regex", c.rpc.RemoveByRegex,
		&masterv1.RemoveByRegexRequest{Caller: convert.ToCaller(caller), Expression: []byte(expr), Force: force})
	return int(out.GetRemoved()), err
}

// RemoveAll implements store.Master.
func (c *Client) RemoveAll(ctx context.Context, caller model.Caller, force bool) (int, error) {
	out, err := call(ctx, c, "remove all", c.rpc.RemoveAll, &masterv1.RemoveAllRequest{Caller: convert.ToCaller(caller), Force: force})
	return int(out.GetRemoved()), err
}

// page is an answer to one of the calls that list keys page by page.
type page interface {
	GetKeys() [][]byte
	GetMore() bool
}

// pages asks for up to limit keys greater than after, page by page of at most most keys, and gives
// each page to add, if there is one. It refuses a page of more keys than were asked for, or of
// others, which would make the paging endless.
func pages[P page](after model.Key, limit, most int, ask func(after model.Key, limit uint32) (P, error), add func(n int, p P) error) ([]model.Key, error) {
	var keys []model.Key
	for limit > len(keys) {
		out, err := ask(after, uint32(min(limit-len(keys), most)))
		if err != nil {
			return nil, err
		}
		page := convert.FromKeys(out.GetKeys())
		if len(page) > limit-len(keys) || len(page) > 0 && page[0] <= after || !slices.IsSorted(page) {
			return nil, convert.Malformed("a page of %d keys that does not follow %q", len(page), after)
		}
		if add != nil {
			if err := add(len(page), out); err != nil {
				return nil, err
			}
		}
		keys = append(keys, page...)
		if !out.GetMore() || len(page) == 0 {
			break
		}
		after = page[len(page)-1]
	}
	return keys, nil
}

// ListKeys implements store.Master, page by page.
func (c *Client) ListKeys(ctx context.Context, caller model.Caller, expr string, after model.Key, limit int) ([]model.Key, error) {
	return pages(after, limit, rpc.MaxListKeys, func(after model.Key, limit uint32) (*masterv1.ListKeysResponse, error) {
		return call(ctx, c, "list keys", c.rpc.ListKeys,
			&masterv1.ListKeysRequest{Caller: convert.ToCaller(caller), Expression: []byte(expr), After: convert.ToKey(after), Limit: limit})
	}, nil)
}

// GetReplicasByRegex implements store.Master, page by page. The leases of later pages begin later
// than the call, so a caller that counts from before the call is safe.
func (c *Client) GetReplicasByRegex(ctx context.Context, caller model.Caller, expr string, after model.Key, limit int) ([]model.Key, []model.Result[model.Object], error) {
	var objects []model.Result[model.Object]
	keys, err := pages(after, limit, rpc.MaxObjects, func(after model.Key, limit uint32) (*masterv1.GetReplicasByRegexResponse, error) {
		return call(ctx, c, "get replicas by regex", c.rpc.GetReplicasByRegex,
			&masterv1.GetReplicasByRegexRequest{Caller: convert.ToCaller(caller), Expression: []byte(expr), After: convert.ToKey(after), Limit: limit})
	}, func(n int, out *masterv1.GetReplicasByRegexResponse) error {
		got, err := convert.FromObjects(n, out.GetObjects(), new(model.Answer[model.Object]))
		objects = append(objects, got...)
		return err
	})
	if err != nil {
		return nil, nil, err
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
			Caller: convert.ToCaller(caller), Keys: convert.ToKeys(keys[:n]), Owner: convert.ToUUID(owner), Segment: convert.Text(segment),
		})
		if err != nil {
			return cleared, err
		}
		if len(out.GetCleared()) > n {
			return cleared, convert.Malformed("%d of %d keys are cleared", len(out.GetCleared()), n)
		}
		cleared = append(cleared, convert.FromKeys(out.GetCleared())...)
		keys = keys[n:]
	}
	return cleared, nil
}

// Why implements store.Master.
func (c *Client) Why(ctx context.Context, caller model.Caller, key model.Key) (model.Story, error) {
	out, err := call(ctx, c, "why", c.rpc.Why, &masterv1.WhyRequest{Caller: convert.ToCaller(caller), Key: convert.ToKey(key)})
	if err != nil {
		return model.Story{}, err
	}
	return convert.FromStory(caller, key, out)
}
