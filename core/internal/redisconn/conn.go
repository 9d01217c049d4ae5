// Package redisconn is a connection to Redis: addresses as people write them, commands that are tried again
// where a connection had died, and errors that say which service failed and what to do.
package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

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

// Options are the settings of a Conn; the zero value is usable.
type Options struct {
	// Service is what Redis is for, in errors: "metadata service" for example.
	Service string
	// Username and Password; a password alone is that of the default user.
	Username, Password string
	// DB is the number of the database.
	DB int
	// TLS, nil for plain connections.
	TLS *tls.Config
	// Timeout bounds one call. Default 3 s.
	Timeout time.Duration
}

// Conn is a connection. It connects with the first call and again after the server was away. Safe for
// concurrent use.
type Conn struct {
	pool    *redis.Pool
	name    string
	timeout time.Duration
	closed  context.Context // done after Close
	close   context.CancelFunc
	// taking is held for reading by calls that take a connection: the pool panics if it is closed then.
	taking sync.RWMutex
}

// New returns a connection to "redis://host:port". It does not connect. InvalidParams.
func New(conn string, opts Options) (*Conn, error) {
	addr, err := parse(opts.Service, conn)
	if err != nil {
		return nil, err
	}
	name := opts.Service + " redis://" + addr
	if opts.DB < 0 {
		return nil, errs.New(errs.InvalidParams, name, "%d is not the number of a database", opts.DB)
	}
	if opts.Username != "" && opts.Password == "" {
		return nil, errs.New(errs.InvalidParams, name, "a user name without a password")
	}
	if opts.Timeout <= 0 {
		opts.Timeout = 3 * time.Second
	}
	// A call beyond maxConnections waits for one of them.
	pool := &redis.Pool{
		MaxIdle: maxConnections, MaxActive: maxConnections, Wait: true, IdleTimeout: idleTimeout,
		DialContext: func(ctx context.Context) (redis.Conn, error) { return dial(ctx, addr, opts) },
	}
	closed, cancel := context.WithCancel(context.Background())
	return &Conn{pool: pool, name: name, timeout: opts.Timeout, closed: closed, close: cancel}, nil
}

// Name is the service with its address, for errors and log lines.
func (c *Conn) Name() string { return c.name }

// Context ends with Close.
func (c *Conn) Context() context.Context { return c.closed }

// Close ends the connections, those of calls in flight too. Repeatable.
func (c *Conn) Close() {
	c.close() // Calls that wait for a connection end.
	c.taking.Lock()
	defer c.taking.Unlock()
	_ = c.pool.Close() // It never fails.
}

// Do makes calls within Timeout and explains their error.
func (c *Conn) Do(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	defer context.AfterFunc(c.closed, cancel)()
	return c.explain(call(ctx))
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

// Command runs one command, on another connection where the first one had died.
func (c *Conn) Command(ctx context.Context, name string, args ...any) (any, error) {
	return c.retry(ctx, func(one redis.Conn) (any, error) { return redis.DoContext(one, ctx, name, args...) })
}

// Script runs a script, on another connection where the first one had died: it may run twice.
func (c *Conn) Script(ctx context.Context, s *redis.Script, keysAndArgs ...any) (any, error) {
	return c.retry(ctx, func(one redis.Conn) (any, error) { return s.DoContext(ctx, one, keysAndArgs...) })
}

func (c *Conn) retry(ctx context.Context, call func(redis.Conn) (any, error)) (any, error) {
	pause := firstPause
	for try := 1; ; try++ {
		answer, err := c.once(ctx, call)
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

func (c *Conn) once(ctx context.Context, call func(redis.Conn) (any, error)) (any, error) {
	one, err := c.take(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := call(one)
	_ = one.Close() // It goes back to the pool; one that failed is dropped there.
	return answer, err
}

// take takes a connection of the pool.
func (c *Conn) take(ctx context.Context) (redis.Conn, error) {
	c.taking.RLock()
	defer c.taking.RUnlock()
	if err := c.closed.Err(); err != nil {
		return nil, err
	}
	return c.pool.GetContext(ctx)
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

// explain gives an error of the library a code, the name of the service and a hint. An error that has a code
// stays as it is.
func (c *Conn) explain(err error) error {
	var ours *errs.Error
	if err == nil || errors.As(err, &ours) {
		return err
	}
	op := c.name
	answer, answered := errors.AsType[redis.Error](err)
	switch {
	case c.closed.Err() != nil:
		return errs.New(errs.UnavailableInCurrentStatus, op, "the connection was closed")
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
func parse(service, conn string) (string, error) {
	bad := func(format string, args ...any) error {
		return errs.WithHint(errs.New(errs.InvalidParams, service+" redis", format, args...),
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
