package transporttest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// watched is a transport each of whose calls is known to its check, so that one that does not
// return is named.
type watched struct {
	transport.Transport
	t conformance.TB
}

// Unwrap lets transport.As find companions.
func (w *watched) Unwrap() any { return w.Transport }

// calls notes a call with constant words.
func calls(t conformance.TB, what string) func() {
	return conformance.Call(t, func() string { return what })
}

func (w *watched) Start(ctx context.Context, h plugin.Host) error {
	defer calls(w.t, "Start")()
	return w.Transport.Start(ctx, h)
}

func (w *watched) Stop(ctx context.Context) error {
	defer calls(w.t, "Stop")()
	return w.Transport.Stop(ctx)
}

func (w *watched) Register(ctx context.Context, r transport.Region) (transport.Key, error) {
	defer conformance.Call(w.t, func() string { return fmt.Sprintf("Register of region %d (%d bytes)", r.ID, len(r.Mem)) })()
	return w.Transport.Register(ctx, r)
}

func (w *watched) Deregister(ctx context.Context, id transport.RegionID) error {
	defer conformance.Call(w.t, func() string { return fmt.Sprintf("Deregister of region %d", id) })()
	return w.Transport.Deregister(ctx, id)
}

func (w *watched) Dial(ctx context.Context, e transport.Endpoint) (transport.Path, error) {
	defer calls(w.t, "Dial")()
	p, err := w.Transport.Dial(ctx, e)
	if err != nil {
		return nil, err
	}
	return &watchedPath{p, w.t}, nil
}

// watchedPath is a path each of whose calls is known to its check. What it returns is checked
// against the form that the contract gives it.
type watchedPath struct {
	transport.Path
	t conformance.TB
}

// Unwrap lets transport.As find companions.
func (w *watchedPath) Unwrap() any { return w.Path }

// Extras implements transport.Extended.
func (w *watchedPath) Extras() transport.Extras { return transport.ExtrasOf(w.Path) }

func (w *watchedPath) Import(ctx context.Context, k transport.Key) (transport.RemoteID, error) {
	defer calls(w.t, "Import")()
	return w.Path.Import(ctx, k)
}

func (w *watchedPath) Submit(ops []transport.Op) (int, error) {
	returned := conformance.Call(w.t, func() string { return "Submit of " + opsText(ops) })
	n, err := w.Path.Submit(ops)
	returned()
	switch {
	case n < 0 || n > len(ops):
		w.t.Errorf("Submit of %s says that it accepted %d of %d operations; the count must be from 0 to %d", opsText(ops), n, len(ops), len(ops))
		n = min(max(n, 0), len(ops))
	case err != nil && n == len(ops) && n > 0:
		w.t.Errorf("Submit of %s says that it accepted all %d operations, and returns the error of one more: %v", opsText(ops), n, err)
	}
	return n, err
}

func (w *watchedPath) Reap(ctx context.Context, dst []transport.Completion) (int, error) {
	returned := conformance.Call(w.t, func() string { return fmt.Sprintf("Reap of up to %d completions", len(dst)) })
	n, err := w.Path.Reap(ctx, dst)
	returned()
	switch {
	case n < 0 || n > len(dst):
		w.t.Errorf("Reap says that it stored %d completions into a slice for %d", n, len(dst))
		n = min(max(n, 0), len(dst))
	case n == 0 && err == nil && len(dst) > 0:
		w.t.Errorf("Reap returned no completion and no error; it has to wait for a completion until its context ends")
		err = errors.New("reap returned nothing")
	}
	return n, err
}

func (w *watchedPath) Close(ctx context.Context) error {
	defer calls(w.t, "Close of a path")()
	return w.Path.Close(ctx)
}

// opText names an operation: "operation 17 (read 4096 at 0)".
func opText(o transport.Op) string {
	return fmt.Sprintf("operation %d (%s %d at %d)", o.ID, strings.ToLower(o.Kind.String()), len(o.Local), o.Offset)
}

// opsText names several operations, in short.
func opsText(ops []transport.Op) string {
	switch len(ops) {
	case 0:
		return "no operation"
	case 1:
		return opText(ops[0])
	}
	return fmt.Sprintf("%s and %d more", opText(ops[0]), len(ops)-1)
}

// missingText says which of n operations have not completed: "1 of 300 completions are missing: operation 17 (read 4096
// at 0)".
func missingText(open map[uint64]transport.Op, n int) string {
	var names []string
	for _, id := range slices.Sorted(maps.Keys(open)) {
		if len(names) == 3 {
			names = append(names, "...")
			break
		}
		names = append(names, opText(open[id]))
	}
	return fmt.Sprintf("%d of %d completions are missing: %s", len(open), n, strings.Join(names, ", "))
}

// endText says how an operation ended: "Failed, class transient-path: ...".
func endText(c transport.Completion) string {
	if c.Err == nil {
		return c.Status.String() + " without an error"
	}
	return fmt.Sprintf("%s, class %s: %v", c.Status, c.Class(), c.Err)
}

// classesText lists classes.
func classesText(classes []errs.Class) string {
	var names []string
	for _, c := range classes {
		names = append(names, c.String())
	}
	return strings.Join(names, " or ")
}
