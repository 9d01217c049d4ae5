package serve

import (
	"context"
	"errors"
	"os"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/store/local/internal/frame"
	"github.com/mooncake-go/mooncake/core/store/local/internal/shm"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// freePath removes the socket file that a killed process left behind, and nothing else.
func freePath(ctx context.Context, path string) error {
	st, err := os.Lstat(path)
	if err != nil || st.Mode()&os.ModeSocket == 0 {
		return nil //nolint:nilerr // Listen reports the error, if any.
	}
	if c, err := frame.Dial(ctx, path); err == nil {
		_ = c.Close() // A process serves it: listening will fail.
		return nil
	}
	return errs.Wrap(errs.Internal, "local service: remove a socket that no process serves", os.Remove(path))
}

func (s *Server) openLend(ctx context.Context) error {
	if s.cfg.LendSize == 0 {
		return nil
	}
	m, err := shm.Create("mooncake-lend", s.cfg.LendSize, memory.HugeNone)
	if err != nil {
		return err
	}
	if err = m.Freeze(); err == nil {
		s.pool, err = memory.NewPool(m.Bytes())
	}
	if err == nil {
		err = s.deps.Client.RegisterMemory(ctx, transfer.Memory{Bytes: m.Bytes(), FD: m.FD()})
	}
	if err != nil {
		return errors.Join(err, m.Close())
	}
	s.lend = m
	return nil
}
