// Package redis is a metadata.Store in Redis, with the keys and values of upstream's nodes.
// Values do not expire: a node that crashes leaves its own behind.
package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"time"
	"unicode"

	"github.com/gomodule/redigo/redis"

	"github.com/mooncake-go/mooncake/core/internal/redisconn"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/internal/line"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Options are the settings of a Store; the zero value is usable.
type Options struct {
	// Username and Password; a password alone is that of the default user.
	Username, Password string
	// DB is the number of the database.
	DB int
	// TLS, nil for plain connections.
	TLS *tls.Config
	// Timeout bounds one call. Default 3 s.
	Timeout time.Duration
}

// Store is a metadata.Store in Redis. It connects with the first call and again after the
// server was away. Errors beside those of metadata.Store are RPCFail, RPCTimeout,
// InvalidParams for a key or value that cannot be kept, and UnavailableInCurrentStatus
// after Close. Safe for concurrent use.
type Store struct{ conn *redisconn.Conn }

var _ metadata.Store = (*Store)(nil)

// claimTries bounds how often a claim starts over because its key came and went meanwhile.
const claimTries = 8

// New returns a store at "redis://host:port". It does not connect. InvalidParams.
func New(conn string, opts Options) (*Store, error) {
	c, err := redisconn.New(conn, redisconn.Options{
		Service: "metadata service", Username: opts.Username, Password: opts.Password, DB: opts.DB, TLS: opts.TLS, Timeout: opts.Timeout,
	})
	if err != nil {
		return nil, err
	}
	return &Store{c}, nil
}

// Close ends the connections, those of calls in flight too. Repeatable.
func (s *Store) Close() { s.conn.Close() }

// Get implements metadata.Store.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	var out []byte
	err := s.do(ctx, key, func(ctx context.Context) error {
		kept, err := s.get(ctx, key)
		out = line.Cut(kept)
		return err
	})
	return out, err
}

// get does not read more of a value than a descriptor may have.
func (s *Store) get(ctx context.Context, key string) ([]byte, error) {
	kept, err := redis.Bytes(s.conn.Command(ctx, "GETRANGE", key, 0, metadata.MaxDescriptorSize+1))
	if err != nil || len(kept) > 0 {
		if len(kept) > metadata.MaxDescriptorSize+1 {
			return nil, errs.New(errs.DeserializeFail, s.conn.Name(), "the value of %q is larger than %d bytes", key, metadata.MaxDescriptorSize)
		}
		return kept, err
	}
	n, err := redis.Int(s.conn.Command(ctx, "EXISTS", key))
	if err == nil && n == 0 {
		err = metadata.ErrNotFound
	}
	return nil, err
}

// Put implements metadata.Store. InvalidParams also for a key with white space, which
// upstream's nodes could not ask for.
func (s *Store) Put(ctx context.Context, key string, value []byte) error {
	switch {
	case strings.ContainsFunc(key, unicode.IsSpace):
		return errs.New(errs.InvalidParams, s.conn.Name(), "the key %q has white space, which other nodes cannot ask Redis for", key)
	case len(value) > metadata.MaxDescriptorSize:
		return errs.New(errs.InvalidParams, s.conn.Name(), "a value of %d bytes; at most %d are allowed", len(value), metadata.MaxDescriptorSize)
	}
	kept := line.Append(value)
	return s.do(ctx, key, func(ctx context.Context) error {
		if !metadata.IsRPCMeta(key) {
			_, err := s.conn.Command(ctx, "SET", key, kept)
			return err
		}
		return s.claim(ctx, key, value, kept)
	})
}

// claim sets a key that does not exist; the service decides who comes first.
func (s *Store) claim(ctx context.Context, key string, value, kept []byte) error {
	for range claimTries {
		set, err := s.conn.Command(ctx, "SET", key, kept, "NX")
		if err != nil || set != nil {
			return err
		}
		holder, err := s.get(ctx, key)
		switch {
		case errors.Is(err, metadata.ErrNotFound):
			continue
		case err != nil:
			return err
		case string(line.Cut(holder)) == string(value):
			return nil
		}
		return metadata.ErrDuplicate
	}
	return metadata.ErrDuplicate
}

// Delete implements metadata.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	return s.do(ctx, key, func(ctx context.Context) error {
		n, err := redis.Int(s.conn.Command(ctx, "DEL", key))
		if err == nil && n == 0 {
			err = metadata.ErrNotFound
		}
		return err
	})
}

// do makes calls within their time. The errors of metadata.Store stay as they are.
func (s *Store) do(ctx context.Context, key string, call func(context.Context) error) error {
	if key == "" {
		return errs.New(errs.InvalidParams, s.conn.Name(), "the key is empty")
	}
	var answer error
	err := s.conn.Do(ctx, func(ctx context.Context) error {
		err := call(ctx)
		if errors.Is(err, metadata.ErrNotFound) || errors.Is(err, metadata.ErrDuplicate) {
			answer = err
			return nil
		}
		return err
	})
	if answer != nil {
		return answer
	}
	return err
}
