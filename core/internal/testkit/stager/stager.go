// Package stager is a store.Stager for tests.
package stager

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
)

// Funcs stages by functions. Without one, reads are staged as Echo does and released.
type Funcs struct {
	OnStage   func(ctx context.Context, reads []model.StageRead) (model.Staging, error)
	OnRelease func(id uint64) error
}

// Stage implements store.Stager.
func (f Funcs) Stage(ctx context.Context, reads []model.StageRead) (model.Staging, error) {
	if f.OnStage == nil {
		return Echo(ctx, reads)
	}
	return f.OnStage(ctx, reads)
}

// Release implements store.Stager.
func (f Funcs) Release(_ context.Context, id uint64) error {
	if f.OnRelease == nil {
		return nil
	}
	return f.OnRelease(id)
}

// Echo stages reads at the addresses that their replicas name.
func Echo(_ context.Context, reads []model.StageRead) (model.Staging, error) {
	s := model.Staging{ID: 1, TTL: time.Second}
	for _, r := range reads {
		s.Parts = append(s.Parts, model.Result[model.Part]{Value: model.Part{Endpoint: "n:1", Address: r.Replica, Size: r.Length}})
	}
	return s, nil
}
