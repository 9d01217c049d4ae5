package store

import (
	"context"

	"github.com/mooncake-go/mooncake/core/model"
)

// Lent is an object that was read, in memory that is the caller's until Release. Releasing
// twice does nothing.
type Lent interface {
	Bytes() []byte
	Release()
}

// Pool is what programs do with the objects of a pool, whoever moves the bytes: a Client of this
// process (Direct), or one that several processes of a host share (core/store/local). The methods
// are documented at Client, those with Session in their names at Layers. Safe for concurrent use.
type Pool interface {
	Ready(ctx context.Context) (string, error)
	Hostname() string
	Close(ctx context.Context) error

	Put(ctx context.Context, key model.Key, value []byte, cfg model.ReplicateConfig) error
	PutParts(ctx context.Context, key model.Key, parts [][]byte, cfg model.ReplicateConfig) error
	BatchPut(ctx context.Context, keys []model.Key, values [][]byte, cfg model.ReplicateConfig) []error
	PutItems(ctx context.Context, items []Item, cfg model.ReplicateConfig) []PutResult
	Upsert(ctx context.Context, key model.Key, value []byte, cfg model.ReplicateConfig) error
	UpsertParts(ctx context.Context, key model.Key, parts [][]byte, cfg model.ReplicateConfig) error
	BatchUpsert(ctx context.Context, keys []model.Key, values [][]byte, cfg model.ReplicateConfig) []error

	Get(ctx context.Context, key model.Key) ([]byte, error)
	BatchGet(ctx context.Context, keys []model.Key) []model.Result[[]byte]
	GetInto(ctx context.Context, key model.Key, dst []byte) (int, error)
	BatchGetInto(ctx context.Context, keys []model.Key, dst [][]byte) []model.Result[int]
	GetIntoParts(ctx context.Context, key model.Key, dst [][]byte) (int, error)
	BatchGetIntoParts(ctx context.Context, keys []model.Key, dst [][][]byte) []model.Result[int]
	GetIntoRanges(ctx context.Context, reads []RangeRead) [][]model.Result[int]
	GetBuffer(ctx context.Context, key model.Key) (Lent, error)
	BatchGetBuffer(ctx context.Context, keys []model.Key) []model.Result[Lent]

	Exist(ctx context.Context, key model.Key) (bool, error)
	BatchExist(ctx context.Context, keys []model.Key) []model.Result[bool]
	Prefix(ctx context.Context, keys []model.Key) (int, error)
	Size(ctx context.Context, key model.Key) (uint64, error)
	Query(ctx context.Context, keys []model.Key) []model.Result[model.Object]
	QueryTo(ctx context.Context, keys []model.Key, a *model.Answer[model.Object])
	QueryByRegex(ctx context.Context, expr string, after model.Key, limit int) ([]model.Key, []model.Result[model.Object], error)
	ListKeys(ctx context.Context, expr string, after model.Key, limit int) ([]model.Key, error)
	Remove(ctx context.Context, key model.Key, force bool) error
	BatchRemove(ctx context.Context, keys []model.Key, force bool) []error
	RemoveByRegex(ctx context.Context, expr string, force bool) (int, error)
	RemoveAll(ctx context.Context, force bool) (int, error)
	ClearReplicas(ctx context.Context, keys []model.Key, segment string) ([]model.Key, error)
	CreateCopyTask(ctx context.Context, key model.Key, targets []string) (model.TaskID, error)
	CreateMoveTask(ctx context.Context, key model.Key, source, target string) (model.TaskID, error)
	QueryTask(ctx context.Context, id model.TaskID) (model.Task, error)

	BatchGetSessionStart(ctx context.Context, keys []model.Key) []error
	GetSessionRanges(ctx context.Context, reads []RangeRead) []model.Result[int]
	BatchGetSessionEnd(ctx context.Context, keys []model.Key) error
	BatchPutSessionStart(ctx context.Context, keys []model.Key, sizes []uint64, cfg model.ReplicateConfig, groups []string) []error
	PutSessionRanges(ctx context.Context, writes []RangeWrite) []model.Result[int]
	BatchPutSessionEnd(ctx context.Context, keys []model.Key) []error
	BatchPutSessionRevoke(ctx context.Context, keys []model.Key) []error

	RegisterBuffer(ctx context.Context, mem []byte, location string) error
	UnregisterBuffer(ctx context.Context, mem []byte) error
}

// Direct is a Client as a Pool.
func Direct(c *Client) Pool { return direct{c} }

type direct struct{ *Client }

// GetBuffer implements Pool.
func (d direct) GetBuffer(ctx context.Context, key model.Key) (Lent, error) {
	b, err := d.Client.GetBuffer(ctx, key)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// BatchGetBuffer implements Pool.
func (d direct) BatchGetBuffer(ctx context.Context, keys []model.Key) []model.Result[Lent] {
	out := make([]model.Result[Lent], len(keys))
	for i, r := range d.Client.BatchGetBuffer(ctx, keys) {
		if out[i].Err = r.Err; r.Err == nil {
			out[i].Value = r.Value
		}
	}
	return out
}
