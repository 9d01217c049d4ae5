package server

import (
	"context"
	"log/slog"
	"path"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"

	"github.com/mooncake-go/mooncake/core/api/rpc/convert"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// observed tells how long each call took, failed ones included.
func observed(observe func(method string, took time.Duration)) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		start := time.Now()
		defer func() { observe(path.Base(info.FullMethod), time.Since(start)) }()
		return next(ctx, req)
	}
}

// bounded ends a call after limit at the latest.
func bounded(limit time.Duration) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return next(ctx, req)
	}
}

// guarded turns errors into statuses that carry their code, and a panic into Internal for
// that call alone.
func guarded(log *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
		defer func() {
			if p := recover(); p != nil {
				log.ErrorContext(ctx, "a call panicked; it answers INTERNAL_ERROR, the master goes on",
					"method", info.FullMethod, "panic", p, "stack", string(debug.Stack()))
				resp, err = nil, convert.StatusError(errs.New(errs.Internal, "master: "+info.FullMethod, "it failed on a fault of its own; its log says more"))
			}
		}()
		resp, err = next(ctx, req)
		if err != nil {
			return nil, convert.StatusError(err)
		}
		return resp, nil
	}
}

// checkedCaller refuses what convert.CheckCaller refuses.
func checkedCaller(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := convert.CheckCaller(req); err != nil {
		return nil, err
	}
	return next(ctx, req)
}
