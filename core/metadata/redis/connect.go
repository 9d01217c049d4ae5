// Package redis is a metadata.Store in Redis, with the keys and values of upstream's nodes.
// Values do not expire: a node that crashes leaves its own behind.
package redis

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	connectTimeout = 1500 * time.Millisecond
	maxConnections = 4
	idleTimeout    = time.Minute
	// A connection may have died since the last call, and every one of the pool.
	maxTries = maxConnections + 1
	// The pause before the second try; it doubles with each further one.
	firstPause = time.Millisecond
)

// pool returns the connections of a store. A call beyond maxConnections waits for one of them.
func pool(addr string, opts Options) *redis.Pool {
	return &redis.Pool{
		MaxIdle: maxConnections, MaxActive: maxConnections, Wait: true, IdleTimeout: idleTimeout,
		DialContext: func(ctx context.Context) (redis.Conn, error) { return dial(ctx, addr, opts) },
	}
}

// dial connects, logs in and selects the database.
func dial(ctx context.Context, addr string, opts Options) (redis.Conn, error) {
	limit := min(connectTimeout, opts.Timeout)
	settings := []redis.DialOption{
		redis.DialConnectTimeout(limit), redis.DialTLSHandshakeTimeout(limit),
		redis.DialReadTimeout(opts.Timeout), redis.DialWriteTimeout(opts.Timeout),
		redis.DialUsername(opts.Username), redis.DialPassword(opts.Password), redis.DialDatabase(opts.DB),
	}
	if opts.TLS != nil {
		settings = append(settings, redis.DialUseTLS(true), redis.DialTLSConfig(opts.TLS))
	}
	return redis.DialContext(ctx, "tcp", addr, settings...)
}

// command runs one command, on another connection where the first one had died.
func (s *Store) command(ctx context.Context, name string, args ...any) (any, error) {
	pause := firstPause
	for try := 1; ; try++ {
		answer, err := s.once(ctx, name, args)
		if err == nil || try == maxTries || !passing(err) {
			return answer, err
		}
		select {
		case <-time.After(pause):
			pause *= 2
		case <-ctx.Done():
			return nil, err
		}
	}
}

func (s *Store) once(ctx context.Context, name string, args []any) (any, error) {
	c, err := s.pool.GetContext(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := redis.DoContext(c, ctx, name, args...)
	_ = c.Close() // It goes back to the pool; one that failed is dropped there.
	return answer, err
}

// passing says whether a retry of the call may succeed.
func passing(err error) bool {
	if answer, ok := errors.AsType[redis.Error](err); ok {
		return begins(answer.Error(), "LOADING ", "READONLY ", "MASTERDOWN ", "CLUSTERDOWN ", "TRYAGAIN ", "ERR max number of clients")
	}
	return !late(err) && !errors.Is(err, context.Canceled)
}

// late says whether an error is about time that is up.
func late(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || ok && timeout.Timeout()
}

// explain gives an error of the library a code, the address of the service and a hint.
func (s *Store) explain(err error) error {
	var ours *errs.Error
	if err == nil || errors.Is(err, metadata.ErrNotFound) || errors.Is(err, metadata.ErrDuplicate) || errors.As(err, &ours) {
		return err
	}
	op := "metadata service " + s.name
	answer, answered := errors.AsType[redis.Error](err)
	switch {
	case s.closed.Err() != nil:
		return errs.New(errs.UnavailableInCurrentStatus, op, "the store was closed")
	case answered && begins(answer.Error(), "NOAUTH", "WRONGPASS", "NOPERM", "ERR AUTH", "ERR invalid password", "ERR DB index"):
		return errs.WithHint(errs.Wrap(errs.RPCFail, op, err), "check the user name, the password and the database for Redis, and what that user may do")
	case answered:
		return errs.Wrap(errs.RPCFail, op, err)
	case late(err):
		return errs.WithHint(errs.Wrap(errs.RPCTimeout, op, err), "is that Redis?")
	}
	return errs.WithHint(errs.Wrap(errs.RPCFail, op, err), "is Redis running there?")
}

func begins(answer string, with ...string) bool {
	for _, prefix := range with {
		if strings.HasPrefix(answer, prefix) {
			return true
		}
	}
	return false
}

const defaultPort = "6379"

// parse returns host and port of "redis://host:port"; the port may be left out.
func parse(conn string) (string, error) {
	bad := func(format string, args ...any) error {
		return errs.WithHint(errs.New(errs.InvalidParams, "metadata service redis", format, args...),
			"use redis://host:port; user, password and database are settings of their own")
	}
	u, err := url.Parse(conn)
	switch {
	case err != nil: // The text may hold a password, and so may the error.
		return "", bad("the address is not redis://host:port")
	case u.User != nil:
		return "", bad("redis://...@%s: the address holds a user", u.Host)
	case u.Scheme != "redis" || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return "", bad("%q is not redis://host:port", conn)
	}
	port := u.Port()
	if port == "" {
		port = defaultPort
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", bad("%q: port %q is not from 1 to 65535", conn, port)
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}
