package upstream

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/mooncake-go/mooncake/core/bindings/engine"
	"github.com/mooncake-go/mooncake/core/bindings/settings"
	"github.com/mooncake-go/mooncake/core/metadata/open"
	"github.com/mooncake-go/mooncake/sdk/errs"
	topo "github.com/mooncake-go/mooncake/sdk/matrix"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// preference orders transports, best first. Unknown ones come last.
func preference(name string) int {
	if i := slices.Index([]string{"shm", "rdma", "tcp"}, name); i >= 0 {
		return i
	}
	return 3
}

// Install adds a transport by its name. matrix is the topology of the devices as JSON, or "" for that
// of the machine. Install registers the registered memory with the transport as well, and the engine
// keeps its name. It succeeds if the transport is installed already. It returns
// UnavailableInCurrentStatus while batches are not freed, and NotSupported for an unknown transport.
// After an error nothing has changed.
func (e *Engine) Install(proto, matrix string) error {
	if err := e.known(proto); err != nil {
		return err
	}
	if matrix != "" {
		if _, err := topo.Parse([]byte(matrix)); err != nil {
			return errs.Wrap(errs.InvalidParams, "installTransport "+proto+": topology", err)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return errs.New(errs.UnavailableInCurrentStatus, "installTransport "+proto, "the engine was destroyed")
	}
	if matrix == "" && slices.Contains(e.running(), proto) {
		return nil
	}
	list := e.installed
	if !slices.Contains(list, proto) {
		list = append(slices.Clone(list), proto)
		slices.SortStableFunc(list, func(a, b string) int { return cmp.Compare(preference(a), preference(b)) })
	}
	return e.replace(list, cmp.Or(matrix, e.matrix))
}

// Uninstall does nothing, as in the reference implementation: transports end with their engine. It
// returns NotSupported for an unknown transport.
func (e *Engine) Uninstall(proto string) error { return e.known(proto) }

// known returns NotSupported for an unknown transport.
func (e *Engine) known(proto string) error {
	var names []string
	for _, f := range e.src.Builtins {
		if id := f.Manifest().ID; id.Kind == plugin.KindTransport {
			names = append(names, id.Name)
		}
	}
	if slices.Contains(names, proto) {
		return nil
	}
	return errs.New(errs.NotSupported, "installTransport", "there is no transport %q; there are %s", proto, strings.Join(names, ", "))
}

// running lists the transports that the open engine has. The caller holds mu.
func (e *Engine) running() []string {
	if e.inner == nil {
		return nil
	}
	core, err := e.inner.Core()
	if err != nil {
		return nil
	}
	var out []string
	for _, t := range core.Transfer.Descriptor().Transports {
		out = append(out, t.Name)
	}
	return out
}

// replace opens the engine with other transports, under the name that peers may know already. The
// caller holds mu.
func (e *Engine) replace(list []string, matrix string) error {
	name, keep := e.name, false
	if e.inner != nil {
		if !e.batches.idle() {
			return errs.New(errs.UnavailableInCurrentStatus, "installTransport", "batches are not freed; free them first, or install transports before they are made")
		}
		name, keep = e.inner.Name(), e.conn == open.P2PHandshake
		e.inner.Shut()
		e.inner = nil
	}
	inner, err := e.start(name, list, matrix, keep)
	if err == nil {
		e.inner, e.installed, e.matrix = inner, list, matrix
		return nil
	}
	if name == e.name && !keep {
		return err // The engine was not open. The first call that needs it opens it.
	}
	before, again := e.start(name, e.installed, e.matrix, keep)
	if again == nil {
		e.inner = before
	}
	return errors.Join(err, again)
}

// start opens an engine and registers the memory with it. With a nil list the machine decides the
// transports.
func (e *Engine) start(name string, list []string, matrix string, keep bool) (*engine.Engine, error) {
	o := engine.Options{Name: name, Metadata: e.conn, Transports: list, KeepPort: keep}
	if matrix != "" {
		file, err := writeMatrix(matrix)
		if err != nil {
			return nil, err
		}
		defer func() { _ = os.Remove(file) }() // It is a temporary file.
		o.TopologyFile = file
	}
	inner := engine.New(func() settings.Source { return e.src })
	if err := inner.Start(o); err != nil {
		return nil, err
	}
	for _, p := range e.memory {
		if err := inner.Register([][]byte{p.mem}, p.location, p.remote); err != nil {
			inner.Shut()
			return nil, err
		}
	}
	return inner, nil
}

// writeMatrix writes a matrix to a file, since the configuration names a file.
func writeMatrix(matrix string) (string, error) {
	file, err := os.CreateTemp("", "mooncake-matrix-*.json")
	if err != nil {
		return "", errs.Wrap(errs.Internal, "installTransport", err)
	}
	_, err = file.WriteString(matrix)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errs.Wrap(errs.Internal, "installTransport", errors.Join(err, os.Remove(file.Name())))
	}
	return file.Name(), nil
}
