// Package k8s keeps the leadership of a cluster in a Lease of Kubernetes (coordination.k8s.io/v1), over plain
// HTTP with the service account of the pod, as upstream's masters do: holderIdentity is host:port of the
// leader and leaseTransitions the version of the view. The epoch is the annotation mooncake-go/epoch.
package k8s

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/ha/leased"
	"github.com/mooncake-go/mooncake/core/internal/boottime"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// pollInterval is how often the view is read: the API server tells no client of a lease that expires.
	pollInterval = 500 * time.Millisecond
	annotation   = "mooncake-go/epoch"
)

// Options are the settings of a Backend; the zero value is usable.
type Options struct {
	// API is how the API server is reached.
	API API
	// TTL is the life of a leadership without renewals, in whole seconds. Default 2 s.
	TTL time.Duration
	// Logger, nil for none.
	Logger *slog.Logger
}

// Backend is an ha.Backend over a Lease. Safe for concurrent use.
type Backend struct {
	calls           *caller
	namespace, name string
	ttl             time.Duration
	log             *slog.Logger
	closed          context.Context // done after Close
	close           context.CancelFunc
}

var _ ha.Backend = (*Backend)(nil)

// label is a DNS label, which names of namespaces and leases are.
var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// New returns a backend over the lease "namespace/name", or "name" in the namespace default; "k8s://" may
// precede it. It does not connect. InvalidParams.
func New(conn string, o Options) (*Backend, error) {
	namespace, name, both := strings.Cut(strings.TrimPrefix(conn, "k8s://"), "/")
	if !both {
		namespace, name = "default", namespace
	}
	if !label.MatchString(namespace) || !label.MatchString(name) {
		return nil, errs.WithHint(errs.New(errs.InvalidParams, "leader election over Kubernetes", "%q is not namespace/lease", conn), "use namespace/lease or lease, in small letters")
	}
	if o.TTL <= 0 {
		o.TTL = 2 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	closed, cancel := context.WithCancel(context.Background())
	return &Backend{calls: newCaller(o.API), namespace: namespace, name: name, ttl: o.TTL, log: o.Logger, closed: closed, close: cancel}, nil
}

// Close implements ha.Directory.
func (b *Backend) Close() {
	b.close()
	b.calls.client.CloseIdleConnections()
}

func (b *Backend) do(ctx context.Context, method, path string, in *lease) (out *lease, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.closed, cancel)()
	out = &lease{}
	return out, b.calls.do(ctx, method, path, in, out)
}

func (b *Backend) path() string {
	return "/apis/coordination.k8s.io/v1/namespaces/" + b.namespace + "/leases"
}

// get returns the lease, nil if there is none.
func (b *Backend) get(ctx context.Context) (*lease, error) {
	l, err := b.do(ctx, http.MethodGet, b.path()+"/"+b.name, nil)
	if errors.Is(err, errNotFound) {
		return nil, nil
	}
	return l, err
}

// put replaces the lease that was read. errConflict if it has changed since.
func (b *Backend) put(ctx context.Context, l *lease) (*lease, error) {
	if l.Metadata.ResourceVersion == "" {
		return b.do(ctx, http.MethodPost, b.path(), l)
	}
	return b.do(ctx, http.MethodPut, b.path()+"/"+b.name, l)
}

// holds reports whether the holder's lease goes on, by the clocks of both machines. Where they disagree, a
// leader is replaced too soon or too late, which costs a pause.
func (l *lease) holds() bool {
	s := l.Spec
	return s.Holder != "" && s.Renewed != nil && time.Since(s.Renewed.Time) < time.Duration(s.Seconds)*time.Second
}

func (l *lease) view() ha.View {
	if l == nil || !l.holds() {
		return ha.View{}
	}
	return ha.View{Address: l.Spec.Holder, Version: l.Spec.Transitions, Foreign: l.epoch() == 0}
}

func (l *lease) epoch() uint64 {
	n, _ := strconv.ParseUint(l.Metadata.Annotations[annotation], 10, 64) // Something else counts as none.
	return n
}

// View implements ha.Directory.
func (b *Backend) View(ctx context.Context) (ha.View, error) {
	l, err := b.get(ctx)
	if err != nil {
		return ha.View{}, err
	}
	return l.view(), nil
}

// Watch implements ha.Directory.
func (b *Backend) Watch(ctx context.Context, changed func(ha.View)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.closed, cancel)()
	leased.Poll(ctx, pollInterval, b.View, changed, b.log)
}

// Acquire implements ha.Backend.
func (b *Backend) Acquire(ctx context.Context, address string) (ha.Leadership, error) {
	l, err := b.get(ctx)
	if err != nil {
		return nil, err
	}
	if l.view().Led() {
		return nil, ha.ErrLed
	}
	if l == nil {
		l = &lease{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Metadata: metadata{Name: b.name, Namespace: b.namespace}}
	}
	previous, now := l.epoch(), &microTime{time.Now()}
	epoch := max(previous+1, uint64(now.UnixMilli()))
	if l.Metadata.Annotations == nil {
		l.Metadata.Annotations = map[string]string{}
	}
	l.Metadata.Annotations[annotation] = strconv.FormatUint(epoch, 10)
	l.Spec = spec{Holder: address, Seconds: int(b.ttl / time.Second), Acquired: now, Renewed: now, Transitions: l.Spec.Transitions + 1}
	sent := boottime.Now()
	_, err = b.put(ctx, l)
	if errors.Is(err, errConflict) {
		return nil, ha.ErrLed
	}
	if err != nil {
		return nil, err
	}
	view := ha.View{Address: address, Version: l.Spec.Transitions}
	return leased.Start(b.closed, leased.Term{
		View: view, Epoch: epoch, Previous: previous, TTL: b.ttl, Sent: sent, Log: b.log,
		Renew: func(ctx context.Context) error {
			return b.change(ctx, view, func(s *spec) { s.Renewed = &microTime{time.Now()} })
		},
		Release: func(ctx context.Context) error { return b.change(ctx, view, vacate) },
	}), nil
}

// vacate leaves a lease without a holder, as client-go does when it releases one.
func vacate(s *spec) { s.Holder, s.Seconds = "", 1 }

// change changes the lease of a view. leased.ErrEnded where another view has come.
func (b *Backend) change(ctx context.Context, v ha.View, how func(*spec)) error {
	for {
		l, err := b.get(ctx)
		if err != nil {
			return err
		}
		if l == nil || l.Spec.Holder != v.Address || l.Spec.Transitions != v.Version {
			return leased.ErrEnded
		}
		how(&l.Spec)
		if _, err := b.put(ctx, l); !errors.Is(err, errConflict) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// Depose implements ha.Backend.
func (b *Backend) Depose(ctx context.Context, v ha.View) error {
	if err := b.change(ctx, v, vacate); !errors.Is(err, leased.ErrEnded) {
		return err
	}
	return nil
}
