// Package etcd is a metadata.Store in etcd, with the keys and values of upstream's nodes.
// Values have no lease: a node that crashes leaves its own behind.
package etcd

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/mooncake-go/mooncake/core/internal/etcdconn"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/internal/line"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// messageSize leaves space for keys and framing around the largest value.
const messageSize = metadata.MaxDescriptorSize + 1<<20

// Options are the settings of a Store; the zero value is usable.
type Options struct {
	// Username and Password, both or none.
	Username, Password string
	// TLS, nil for plain connections; endpoints with https need none for the defaults.
	TLS *tls.Config
	// Timeout bounds one call. Default 3 s.
	Timeout time.Duration
	// Logger gets what the library has to say, at the level debug; nil for none.
	Logger *slog.Logger
}

// Store is a metadata.Store in etcd. It connects with the first call and again after the
// servers were away. Errors beside those of metadata.Store are RPCFail, RPCTimeout,
// InvalidParams for a value that the servers do not take, and UnavailableInCurrentStatus
// after Close. Safe for concurrent use.
type Store struct{ conn *etcdconn.Conn }

var _ metadata.Store = (*Store)(nil)

// New returns a store at "etcd://host:port,host:port", or the same without the scheme. It
// does not connect. InvalidParams.
func New(conn string, opts Options) (*Store, error) {
	c, err := etcdconn.New(conn, etcdconn.Options{
		Service: "metadata service", Username: opts.Username, Password: opts.Password, TLS: opts.TLS,
		Timeout: opts.Timeout, MessageSize: messageSize, Logger: opts.Logger,
	})
	if err != nil {
		return nil, err
	}
	return &Store{c}, nil
}

// Close ends the connections, and calls in progress. Repeatable.
func (s *Store) Close() { s.conn.Close() }

// Get implements metadata.Store.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	var out []byte
	err := s.do(ctx, key, func(ctx context.Context, kv clientv3.KV) error {
		r, err := kv.Get(ctx, key)
		if err != nil {
			return err
		}
		if len(r.Kvs) == 0 {
			return metadata.ErrNotFound
		}
		out = line.Cut(r.Kvs[0].Value)
		return nil
	})
	return out, err
}

// Put implements metadata.Store.
func (s *Store) Put(ctx context.Context, key string, value []byte) error {
	kept := string(line.Append(value))
	return s.do(ctx, key, func(ctx context.Context, kv clientv3.KV) error {
		if !metadata.IsRPCMeta(key) {
			_, err := kv.Put(ctx, key, kept)
			return err
		}
		r, err := kv.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
			Then(clientv3.OpPut(key, kept)).
			Else(clientv3.OpGet(key)).Commit()
		if err != nil || r.Succeeded {
			return err
		}
		for _, kv := range r.Responses[0].GetResponseRange().GetKvs() {
			if !bytes.Equal(line.Cut(kv.Value), value) {
				return metadata.ErrDuplicate
			}
		}
		return nil
	})
}

// Delete implements metadata.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	return s.do(ctx, key, func(ctx context.Context, kv clientv3.KV) error {
		r, err := kv.Delete(ctx, key)
		if err == nil && r.Deleted == 0 {
			err = metadata.ErrNotFound
		}
		return err
	})
}

// do makes one call. The errors of metadata.Store stay as they are.
func (s *Store) do(ctx context.Context, key string, call func(context.Context, clientv3.KV) error) error {
	if key == "" {
		return errs.New(errs.InvalidParams, s.conn.Name(), "the key is empty")
	}
	var answer error
	err := s.conn.Do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		err := call(ctx, c)
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
