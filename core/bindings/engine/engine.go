// Package engine is the transfer engine for programs in other languages. An Engine is made first
// and initialized later. Its calls return errors and record their texts. It names memory by
// address and batches by number. The package uses no cgo: cmd/libmooncake converts the arguments
// of C.
//
// Every wait is bounded. A call on an engine that is not initialized returns
// UnavailableInCurrentStatus.
package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/bindings/lasterr"
	"github.com/mooncake-go/mooncake/core/bindings/settings"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// startTime bounds Start, and shutTime what Shut does before the engine itself is closed.
const (
	startTime = 60 * time.Second
	shutTime  = 10 * time.Second
)

// Engine is a transfer engine. New makes one that has acquired nothing. Safe for concurrent
// use.
type Engine struct {
	src func() settings.Source

	mu      sync.Mutex // held while the engine starts
	session *session   // nil unless initialized
	ended   bool

	failure lasterr.Record
}

// session is the state of an initialized engine.
type session struct {
	core    *app.Engine
	cfg     config.Store
	log     *slog.Logger
	ctx     context.Context // ends when Shut begins
	cancel  context.CancelFunc
	own     regions
	managed managed
	peers   peerSet
	batches sync.Map // the batches that Submit started: submitted by transfer.BatchID
}

// New makes an engine. When it starts, it takes the settings that the program does not give from
// src.
func New(src func() settings.Source) *Engine { return &Engine{src: src} }

// Start opens the engine, in bounded time. It returns InvalidParams for invalid settings and if the
// engine is open already. After another error the caller may try again.
func (e *Engine) Start(o Options) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.ended:
		return e.failed(errs.New(errs.UnavailableInCurrentStatus, "initialize", "the engine was freed"))
	case e.session != nil:
		return e.failed(errs.New(errs.InvalidParams, "initialize", "the engine is initialized already, as %s", e.session.core.Name()))
	}
	src := e.src()
	set, err := o.load(src)
	if err != nil {
		return e.failed(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	core, err := app.OpenEngine(ctx, set.Config, src.Builtins, app.EngineOptions{Log: set.Log, ExactName: true})
	if err != nil {
		return e.failed(errs.Wrap(errs.CodeOf(err), "initialize", err))
	}
	// Peers may look this engine up before it has any memory.
	if err := core.Transfer.Publish(ctx); err != nil {
		last, stop := context.WithTimeout(context.WithoutCancel(ctx), shutTime)
		defer stop()
		if closing := core.Close(last); closing != nil {
			set.Log.Warn("an engine that did not start was not closed", "error", closing)
		}
		return e.failed(errs.Wrap(errs.CodeOf(err), "initialize", err))
	}
	s := &session{core: core, cfg: set.Config.Store, log: set.Log}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.managed.init(s)
	e.session = s
	return nil
}

// do calls call with the session and records its error.
func (e *Engine) do(call func(*session) error) error {
	_, err := ask(e, func(s *session) (struct{}, error) { return struct{}{}, call(s) })
	return err
}

// ask is do for calls with a result, which is the zero value unless the engine is initialized.
func ask[T any](e *Engine, call func(*session) (T, error)) (v T, err error) {
	s, err := e.use()
	if err == nil {
		v, err = call(s)
	}
	return v, e.failed(err)
}

// peek is ask for calls that record no error.
func peek[T any](e *Engine, get func(*session) T) (v T) {
	if s, err := e.use(); err == nil {
		v = get(s)
	}
	return v
}

// use returns the session.
func (e *Engine) use() (*session, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.session == nil {
		return nil, errs.New(errs.UnavailableInCurrentStatus, "transfer engine", "it is not initialized; call initialize first")
	}
	return e.session, nil
}

// Core returns the engine below, for a store that shares it (see app.Engine.Hold).
func (e *Engine) Core() (*app.Engine, error) {
	s, err := e.use()
	if err != nil {
		return nil, err
	}
	return s.core, nil
}

// Shut ends the engine, in bounded time. It closes the engine's memory to peers, even if a store
// goes on using the engine below. It may be called again.
func (e *Engine) Shut() {
	e.mu.Lock()
	s := e.session
	e.session, e.ended = nil, true
	e.mu.Unlock()
	if s == nil {
		return
	}
	s.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), shutTime)
	defer cancel()
	if err := s.endBatches(ctx); err != nil {
		s.log.Warn("memory may still be touched by transfers after their engine was freed", "error", err)
	}
	if err := s.core.Transfer.DeregisterBatch(ctx, s.own.clear()); err != nil {
		s.log.Warn("memory may still be touched by peers after its engine was freed", "error", err)
	}
	s.managed.close(ctx)
	if err := s.core.Close(ctx); err != nil {
		s.log.Warn("the transfer engine was not closed in order", "error", err)
	}
}

// Initialize is Start with a JSON object of texts, see Options.
func (e *Engine) Initialize(settings string) error {
	o, err := ParseOptions(settings)
	if err != nil {
		return e.failed(err)
	}
	return e.Start(o)
}

// Failed records an error that the caller found before it called, and returns it.
func (e *Engine) Failed(err error) error { return e.failed(err) }

// failed records an error for LastError.
func (e *Engine) failed(err error) error {
	e.failure.Note(0, err)
	return err
}

// LastError returns why the last call of this thread failed. It is empty after a success; see
// package lasterr.
func (e *Engine) LastError() string { return e.failure.Text() }

// Begin records that a call of this thread begins, for LastError.
func (e *Engine) Begin() { e.failure.Begin() }
