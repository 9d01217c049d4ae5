package rpc

import (
	"context"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/model"
)

func keySize(k *model.Key) int { return len(*k) }

func putSize(it *model.PutItem) int { return len(it.Key) + len(it.Group) }

func endSize(it *model.EndItem) int { return len(it.Key) }

func failedItem[T any](err error) model.Result[T] { return model.Result[T]{Err: err} }

func sameError(err error) error { return err }

// Exist implements store.Master.
func (c *Client) Exist(ctx context.Context, caller model.Caller, keys []model.Key) ([]model.Result[bool], error) {
	return inPieces(c, keys, keySize, failedItem[bool], func(keys []model.Key) ([]model.Result[bool], error) {
		out, err := call(ctx, c, "exist", c.rpc.Exist, &masterv1.ExistRequest{Caller: wireCaller(caller), Keys: keyBytes(keys)})
		if err != nil {
			return nil, err
		}
		return goExist(len(keys), out)
	})
}

// PutRevoke implements store.Master.
func (c *Client) PutRevoke(ctx context.Context, caller model.Caller, items []model.RevokeItem) ([]error, error) {
	size := func(it *model.RevokeItem) int { return len(it.Key) }
	return inPieces(c, items, size, sameError, func(items []model.RevokeItem) ([]error, error) {
		out, err := call(ctx, c, "put revoke", c.rpc.PutRevoke, wirePutRevoke(caller, items))
		if err != nil {
			return nil, err
		}
		return goRevoked(items, out)
	})
}

// Remove implements store.Master.
func (c *Client) Remove(ctx context.Context, caller model.Caller, keys []model.Key, force bool) ([]error, error) {
	return inPieces(c, keys, keySize, sameError, func(keys []model.Key) ([]error, error) {
		out, err := call(ctx, c, "remove", c.rpc.Remove, &masterv1.RemoveRequest{Caller: wireCaller(caller), Keys: keyBytes(keys), Force: force})
		if err != nil {
			return nil, err
		}
		return goErrors(nil, len(keys), out.GetErrors())
	})
}
