package file

import (
	"context"
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// grace is how long Stop waits for the kernel after its context ended.
const grace = time.Second

// Stop implements plugin.Component. An error says that the storage does not respond: what it still
// holds is freed when it does.
func (t *fileTier) Stop(ctx context.Context) error {
	t.quit()
	t.starts.Lock()
	defer t.starts.Unlock()
	t.mu.Lock()
	was := t.state
	if was != stopped {
		t.state = stopping
	}
	t.mu.Unlock()
	switch was {
	case stopped:
		return nil
	case created:
		t.stopped()
		return nil
	}
	t.drain(ctx)
	var synced error
	if ctx.Err() == nil {
		synced = t.Flush(ctx)
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	return t.shut(ctx, late, synced)
}

// drain waits for all operations. Those that remain when the context ends are dropped.
func (t *fileTier) drain(ctx context.Context) {
	t.mu.Lock()
	idle := make(chan struct{})
	if len(t.active) == 0 {
		close(idle)
	} else {
		t.idle = idle
	}
	t.mu.Unlock()
	select {
	case <-idle:
		return
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.ordered() {
		o.expired = true // It is not waited for.
		t.fail(o, errs.New(errs.UnavailableInCurrentStatus, o.name(), "the tier was stopped before its turn; allow more time for the stop"))
	}
}

// shut ends the goroutines and frees everything. What does not end in time ends by itself.
func (t *fileTier) shut(ctx, late context.Context, synced error) error {
	if ctx.Err() == nil {
		late = ctx
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		close(t.journal.quit)
		t.journal.running.Wait()
		t.journal.write(t)
		_ = t.engine.Close(context.Background())
		close(t.work)
		t.workers.Wait()
		t.free()
	}()
	select {
	case <-ended:
	case <-late.Done():
		synced = fmt.Errorf("tier/file: stop: the storage of %s does not respond, what it holds is freed when it does", t.dir)
	}
	t.stopped()
	return synced
}

func (t *fileTier) stopped() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state = stopped
	close(t.ended)
}
