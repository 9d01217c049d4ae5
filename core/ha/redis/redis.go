// Package redis keeps the leadership of a cluster in Redis, with upstream's keys:
//
//	mooncake-store/{<cluster>}/master_view          hash of leader_address, view_version and owner_token, which expires
//	mooncake-store/{<cluster>}/master_view_version  counter of the versions
//	mooncake-go/{<cluster>}/epoch                   epoch of the newest leadership, in decimal
//
// A Redis that fails over to a replica may forget a leader, and have two for a while. The bytes of the pool
// do not depend on it, see package ha.
package redis

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/ha/leased"
	"github.com/mooncake-go/mooncake/core/internal/boottime"
	"github.com/mooncake-go/mooncake/core/internal/redisconn"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// pollInterval is how often the view is read: Redis tells no client of a key that expires.
const pollInterval = 200 * time.Millisecond

// Options are the settings of a Backend; the zero value is usable.
type Options struct {
	// Conn are those of the connection.
	Conn redisconn.Options
	// TTL is the life of a leadership without renewals. Default 2 s.
	TTL time.Duration
	// Logger, nil for none.
	Logger *slog.Logger
}

// Backend is an ha.Backend in Redis. Safe for concurrent use.
type Backend struct {
	conn                *redisconn.Conn
	ttl                 time.Duration
	log                 *slog.Logger
	view, version, term string // keys
}

var _ ha.Backend = (*Backend)(nil)

// New returns a backend at "redis://host:port" for a cluster. It does not connect. InvalidParams.
func New(conn, cluster string, o Options) (*Backend, error) {
	if o.TTL <= 0 {
		o.TTL = 2 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Conn.Service == "" {
		o.Conn.Service = "leader election"
	}
	c, err := redisconn.New(conn, o.Conn)
	if err != nil {
		return nil, err
	}
	// The braces keep the keys on one node of a Redis cluster.
	slot := "{" + strings.NewReplacer("{", "_", "}", "_").Replace(cluster) + "}"
	view := "mooncake-store/" + slot + "/master_view"
	return &Backend{conn: c, ttl: o.TTL, log: o.Logger, view: view, version: view + "_version", term: "mooncake-go/" + slot + "/epoch"}, nil
}

// Close implements ha.Directory.
func (b *Backend) Close() { b.conn.Close() }

// View implements ha.Directory.
func (b *Backend) View(ctx context.Context) (ha.View, error) {
	var fields []string
	err := b.conn.Do(ctx, func(ctx context.Context) error {
		var err error
		fields, err = redis.Strings(b.conn.Command(ctx, "HMGET", b.view, "leader_address", "view_version"))
		return err
	})
	if err != nil || fields[0] == "" {
		return ha.View{}, err
	}
	version, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return ha.View{}, errs.New(errs.DeserializeFail, b.conn.Name(), "view_version of %s is %q, not a number", b.view, fields[1])
	}
	return ha.View{Address: fields[0], Version: version}, nil
}

// Watch implements ha.Directory.
func (b *Backend) Watch(ctx context.Context, changed func(ha.View)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.conn.Context(), cancel)()
	leased.Poll(ctx, pollInterval, b.View, changed, b.log)
}

// The scripts run whole or not at all. Keys: view, version, epoch.
var (
	acquire = redis.NewScript(3, `
if redis.call('EXISTS', KEYS[1]) == 1 then return false end
local previous = redis.call('GET', KEYS[3]) or '0'
local epoch = ARGV[4]
if #previous > #epoch or (#previous == #epoch and previous >= epoch) then
  epoch = redis.call('INCR', KEYS[3])
else
  redis.call('SET', KEYS[3], epoch)
end
local version = redis.call('INCR', KEYS[2])
redis.call('HSET', KEYS[1], 'leader_address', ARGV[1], 'view_version', version, 'owner_token', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {tostring(version), tostring(epoch), previous}`)
	renew = redis.NewScript(1, `
if redis.call('HGET', KEYS[1], 'owner_token') ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)
	release = redis.NewScript(1, `
if redis.call('HGET', KEYS[1], 'owner_token') ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`)
	depose = redis.NewScript(1, `
if redis.call('HGET', KEYS[1], 'view_version') ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`)
)

// run runs a script within the time of a call.
func (b *Backend) run(ctx context.Context, script *redis.Script, keysAndArgs ...any) (answer any, err error) {
	err = b.conn.Do(ctx, func(ctx context.Context) error {
		answer, err = b.conn.Script(ctx, script, keysAndArgs...)
		return err
	})
	return answer, err
}

// Acquire implements ha.Backend.
func (b *Backend) Acquire(ctx context.Context, address string) (ha.Leadership, error) {
	token := model.NewUUID().String()
	sent := boottime.Now()
	got, err := redis.Strings(b.run(ctx, acquire, b.view, b.version, b.term, address, token, b.ttl.Milliseconds(), time.Now().UnixMilli()))
	if errors.Is(err, redis.ErrNil) {
		return nil, ha.ErrLed
	}
	owned := func(script *redis.Script, args ...any) func(context.Context) error {
		return func(ctx context.Context) error {
			held, err := redis.Bool(b.run(ctx, script, append([]any{b.view, token}, args...)...))
			if err == nil && !held {
				err = leased.ErrEnded
			}
			return err
		}
	}
	giveBack := owned(release)
	if err != nil {
		_ = giveBack(context.WithoutCancel(ctx)) // Only where the answer was lost; it ends by itself otherwise.
		return nil, err
	}
	var n [3]uint64
	for i := range n {
		if n[i], err = strconv.ParseUint(got[i], 10, 64); err != nil {
			return nil, errors.Join(errs.New(errs.DeserializeFail, b.conn.Name(), "%q is not a number", got[i]), giveBack(ctx))
		}
	}
	return leased.Start(b.conn.Context(), leased.Term{
		View: ha.View{Address: address, Version: n[0]}, Epoch: n[1], Previous: n[2], TTL: b.ttl, Sent: sent, Log: b.log,
		Renew: owned(renew, b.ttl.Milliseconds()), Release: giveBack,
	}), nil
}

// Depose implements ha.Backend.
func (b *Backend) Depose(ctx context.Context, v ha.View) error {
	_, err := b.run(ctx, depose, b.view, strconv.FormatUint(v.Version, 10))
	return err
}
