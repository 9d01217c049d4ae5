package chaos

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// apply does the fault to a pool and undoes it: a process that was killed starts again, one that was
// stopped goes on after a pause.
func (f Fault) apply(ctx context.Context, p *pool, pause time.Duration) error {
	victims := p.stores[:f.stores:f.stores]
	if f.master {
		victims = append(victims, p.master)
	}
	for _, v := range victims {
		if err := v.Signal(f.signal); err != nil {
			return fmt.Errorf("chaos: %s: %w", f.Name, err)
		}
	}
	if f.signal == syscall.SIGSTOP {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		for _, v := range victims {
			if err := v.Signal(syscall.SIGCONT); err != nil {
				return fmt.Errorf("chaos: continue %s: %w", v.Name, err)
			}
		}
		return ctx.Err()
	}
	limit, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for _, v := range victims {
		if _, err := v.Wait(limit); err != nil {
			return fmt.Errorf("chaos: %s: %w", f.Name, err)
		}
	}
	if f.master {
		if err := p.startMaster(ctx); err != nil {
			return err
		}
	}
	for i := range f.stores {
		if err := p.startStore(i); err != nil {
			return err
		}
	}
	return nil
}
