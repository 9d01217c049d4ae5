// Package upstream implements the C ABI of the reference implementation's transfer engine
// (include/transfer_engine_c.h): programs install transports one by one, name segments and batches
// by number, poll tasks, and get the error numbers of that ABI. It uses core/bindings/engine and no
// cgo.
package upstream

import (
	"slices"
	"sync"

	"github.com/mooncake-go/mooncake/core/bindings/engine"
	"github.com/mooncake-go/mooncake/core/bindings/settings"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Engine is a transfer engine of the C ABI. It is safe for concurrent use.
type Engine struct {
	src  settings.Source
	name string
	conn string

	mu        sync.Mutex
	inner     *engine.Engine // nil until a call needs it
	installed []string       // the transports that Install added, best first
	matrix    string         // the matrix of Install; may be empty
	memory    []registration
	ended     bool

	segments segments
	batches  batches
}

// registration is registered memory. It is registered again when a transport is added.
type registration struct {
	mem      []byte
	addr     uint64
	location string
	remote   bool
}

// New makes an engine. With discover it opens the engine at once, with the transports of this
// machine. Otherwise the first call that needs the engine opens it, with the transports that were
// installed until then.
func New(src settings.Source, conn, name string, discover bool) (*Engine, error) {
	if conn == "" || name == "" {
		return nil, errs.New(errs.InvalidParams, "createTransferEngine", "the metadata service (P2PHANDSHAKE for none) and the name of this process are needed")
	}
	e := &Engine{src: src, conn: conn, name: name}
	if discover {
		_, err := e.open()
		return e, err
	}
	return e, nil
}

// open returns the inner engine, and opens it if necessary.
func (e *Engine) open() (*engine.Engine, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.openLocked()
}

// do calls call with the inner engine.
func (e *Engine) do(call func(*engine.Engine) error) error {
	inner, err := e.open()
	if err != nil {
		return err
	}
	return call(inner)
}

func (e *Engine) openLocked() (*engine.Engine, error) {
	switch {
	case e.ended:
		return nil, errs.New(errs.UnavailableInCurrentStatus, "transfer engine", "it was destroyed")
	case e.inner != nil:
		return e.inner, nil
	}
	inner, err := e.start(e.name, e.installed, e.matrix, false)
	if err == nil {
		e.inner = inner
	}
	return inner, err
}

// Name returns the address of this process for peers, host:port with P2PHANDSHAKE.
func (e *Engine) Name() (string, error) {
	inner, err := e.open()
	if err != nil {
		return "", err
	}
	return inner.Name(), nil
}

// Discover reads the devices of this machine.
func (e *Engine) Discover() error {
	_, _, err := engine.Machine(e.src, "")
	return err
}

// Register registers all memory of the list or nothing; see engine.Engine.Register.
func (e *Engine) Register(list [][]byte, addrs []uint64, location string, remote bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	inner, err := e.openLocked()
	if err == nil {
		err = inner.Register(list, location, remote)
	}
	if err != nil {
		return err
	}
	for i, mem := range list {
		e.memory = append(e.memory, registration{mem, addrs[i], location, remote})
	}
	return nil
}

// Unregister unregisters all addresses or none; see engine.Engine.Unregister.
func (e *Engine) Unregister(addrs []uint64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	inner, err := e.openLocked()
	if err == nil {
		err = inner.Unregister(addrs)
	}
	if err != nil {
		return err
	}
	e.memory = slices.DeleteFunc(e.memory, func(r registration) bool { return slices.Contains(addrs, r.addr) })
	return nil
}

// Shut ends the engine, in bounded time. It may be called again.
func (e *Engine) Shut() {
	e.mu.Lock()
	inner := e.inner
	e.inner, e.ended, e.memory = nil, true, nil
	e.mu.Unlock()
	if inner != nil {
		inner.Shut()
	}
}

// LastError returns the error of the last call that failed, or an empty text.
func (e *Engine) LastError() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.inner == nil {
		return ""
	}
	return e.inner.LastError()
}

// Log logs why a call of the ABI failed, since the ABI cannot return the text.
func (e *Engine) Log(call string, err error) { e.src.Logger().Error(call+" failed", "error", err) }
