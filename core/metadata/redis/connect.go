package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	connectTimeout = 1500 * time.Millisecond
	maxConnections = 4
)

// dial makes the client of a store; it speaks the protocol that every release of the
// server knows, and none of the optional commands.
func dial(addr string, opts Options) *goredis.Client {
	return goredis.NewClient(&goredis.Options{
		Addr: addr, Username: opts.Username, Password: opts.Password, DB: opts.DB, TLSConfig: opts.TLS,
		Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		DialTimeout:              min(connectTimeout, opts.Timeout), DialerRetries: 1,
		ReadTimeout: opts.Timeout, WriteTimeout: opts.Timeout, PoolTimeout: opts.Timeout, ContextTimeoutEnabled: true,
		// A connection may have died since the last call, and every one of the pool.
		MaxRetries: maxConnections, MinRetryBackoff: time.Millisecond, MaxRetryBackoff: 20 * time.Millisecond,
		PoolSize: maxConnections, MaxActiveConns: maxConnections, ConnMaxIdleTime: time.Minute,
	})
}

// explain gives an error of the library a code, the address of the service and a hint.
func (s *Store) explain(err error) error {
	var ours *errs.Error
	if err == nil || errors.Is(err, metadata.ErrNotFound) || errors.Is(err, metadata.ErrDuplicate) || errors.As(err, &ours) {
		return err
	}
	op := "metadata service " + s.name
	var timeout net.Error
	var answer goredis.Error
	switch {
	case errors.Is(err, goredis.ErrClosed):
		return errs.New(errs.UnavailableInCurrentStatus, op, "the store was closed")
	case errors.As(err, &answer) && denied(answer.Error()):
		return errs.WithHint(errs.Wrap(errs.RPCFail, op, err), "check the user name, the password and the database for Redis, and what that user may do")
	case errors.As(err, &answer):
		return errs.Wrap(errs.RPCFail, op, err)
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout():
		return errs.WithHint(errs.Wrap(errs.RPCTimeout, op, err), "is that Redis?")
	}
	return errs.WithHint(errs.Wrap(errs.RPCFail, op, err), "is Redis running there?")
}

func denied(answer string) bool {
	for _, p := range []string{"NOAUTH", "WRONGPASS", "NOPERM", "ERR AUTH", "ERR invalid password", "ERR DB index"} {
		if strings.HasPrefix(answer, p) {
			return true
		}
	}
	return false
}

// bridge writes what the library logs at the level debug: what matters comes back to the
// caller as an error.
type bridge struct{ log *slog.Logger }

// Printf implements the library's logger.
func (b bridge) Printf(ctx context.Context, format string, args ...any) {
	if b.log.Enabled(ctx, slog.LevelDebug) {
		b.log.DebugContext(ctx, "redis: "+fmt.Sprintf(format, args...))
	}
}
