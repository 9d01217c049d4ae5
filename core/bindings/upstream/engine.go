package upstream

import (
	"sync"

	"github.com/mooncake-go/mooncake/core/bindings/engine"
	"github.com/mooncake-go/mooncake/core/bindings/settings"
	"github.com/mooncake-go/mooncake/core/topology"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Engine is a transfer engine of the C ABI. Safe for concurrent use.
type Engine struct {
	src  settings.Source
	name string
	conn string

	mu        sync.Mutex
	inner     *engine.Engine // nil until something needs it
	installed []string       // what Install was asked for, best first
	matrix    string         // of Install, empty for none
	memory    []piece
	ended     bool

	segments segments
	batches  batches
}

// piece is memory that was registered, to be registered again when a transport is added.
type piece struct {
	mem      []byte
	addr     uint64
	location string
	remote   bool
}

// New makes an engine. discover opens it at once with the transports that this machine has;
// otherwise it is opened by what needs it first, with what was installed until then.
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

// open returns the engine below, and opens it where it is not.
func (e *Engine) open() (*engine.Engine, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.openLocked()
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

// Name is where peers reach this process, host:port with P2PHANDSHAKE.
func (e *Engine) Name() (string, error) {
	inner, err := e.open()
	if err != nil {
		return "", err
	}
	return inner.Name(), nil
}

// Discover looks at the devices of this machine.
func (e *Engine) Discover() error {
	_, _, err := e.machine()
	return err
}

func (e *Engine) machine() (topology.Machine, topology.Choice, error) {
	return engine.Machine(e.src, "")
}

// Register opens memory, all of the list or nothing; see engine.Engine.Register.
func (e *Engine) Register(list [][]byte, addrs []uint64, location string, remote bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	inner, err := e.openLocked()
	if err != nil {
		return err
	}
	if err := inner.Register(list, location, remote); err != nil {
		return err
	}
	for i, mem := range list {
		e.memory = append(e.memory, piece{mem, addrs[i], location, remote})
	}
	return nil
}

// Unregister closes memory, all or none; see engine.Engine.Unregister.
func (e *Engine) Unregister(addrs []uint64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	inner, err := e.openLocked()
	if err != nil {
		return err
	}
	err = inner.Unregister(addrs)
	rest := e.memory[:0]
	for _, p := range e.memory {
		if err != nil || !contains(addrs, p.addr) {
			rest = append(rest, p)
		}
	}
	e.memory = rest
	return err
}

func contains(addrs []uint64, addr uint64) bool {
	for _, a := range addrs {
		if a == addr {
			return true
		}
	}
	return false
}

// Shut ends the engine, bounded. Repeatable.
func (e *Engine) Shut() {
	e.mu.Lock()
	inner := e.inner
	e.inner, e.ended, e.memory = nil, true, nil
	e.mu.Unlock()
	if inner != nil {
		inner.Shut()
	}
}

// LastError is why the last call failed that failed, empty for none.
func (e *Engine) LastError() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.inner == nil {
		return ""
	}
	return e.inner.LastError()
}

// Log says on the log why a call of the ABI failed, which has no way to tell.
func (e *Engine) Log(call string, err error) { e.src.Logger().Error(call+" failed", "error", err) }
