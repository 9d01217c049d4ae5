package etcd

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/internal/line"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

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
type Store struct {
	opts      Options
	endpoints []string
	name      string

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	lock   chan struct{}    // holds one token while client is read or made
	client *clientv3.Client // nil before the first call
}

var _ metadata.Store = (*Store)(nil)

// New returns a store at "etcd://host:port,host:port", or the same without the scheme. It
// does not connect. InvalidParams.
func New(conn string, opts Options) (*Store, error) {
	endpoints, err := parse(conn)
	if err != nil {
		return nil, err
	}
	if (opts.Username == "") != (opts.Password == "") {
		return nil, errs.New(errs.InvalidParams, "metadata service "+conn, "user name and password are given both or not at all")
	}
	if opts.Timeout <= 0 {
		opts.Timeout = 3 * time.Second
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{opts: opts, endpoints: endpoints, name: scheme + strings.TrimPrefix(conn, scheme), lock: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Close ends the connections, and calls in progress. Repeatable.
func (s *Store) Close() {
	s.cancel()
	s.lock <- struct{}{}
	defer func() { <-s.lock }()
	if s.client != nil {
		// What it returns is that its context ended, by this very call.
		_ = s.client.Close()
		s.client = nil
	}
}

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

// do runs one call within its time and explains its error.
func (s *Store) do(ctx context.Context, key string, call func(context.Context, clientv3.KV) error) error {
	if key == "" {
		return errs.New(errs.InvalidParams, "metadata service "+s.name, "the key is empty")
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	kv, err := s.connect(ctx)
	if err != nil {
		return s.explain(err)
	}
	return s.explain(call(ctx, kv))
}
