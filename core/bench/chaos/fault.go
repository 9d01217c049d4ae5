// Package chaos applies faults to a pool of real processes on this machine while a client reads it
// whole, in ranges and layer by layer, and counts what is left: how many objects are readable
// afterwards, and whether any byte was wrong.
package chaos

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"
)

// Fault is something that happens to processes of a pool.
type Fault struct {
	// Name is what reports call it.
	Name   string
	master bool // it happens to the master
	stores int  // and to so many of the stores
	signal syscall.Signal
}

// Faults returns every fault that this package knows.
func Faults() []Fault {
	return []Fault{
		{Name: "master kill -9", master: true, signal: syscall.SIGKILL},
		{Name: "master SIGTERM", master: true, signal: syscall.SIGTERM},
		{Name: "master SIGSTOP", master: true, signal: syscall.SIGSTOP},
		{Name: "store kill -9", stores: 1, signal: syscall.SIGKILL},
		{Name: "store SIGTERM", stores: 1, signal: syscall.SIGTERM},
		{Name: "store SIGSTOP", stores: 1, signal: syscall.SIGSTOP},
		{Name: "pool kill -9", master: true, stores: stores, signal: syscall.SIGKILL},
		{Name: "pool SIGSTOP", master: true, stores: stores, signal: syscall.SIGSTOP},
	}
}

// Select returns the faults with these names, all for no name.
func Select(names []string) ([]Fault, error) {
	all := Faults()
	if len(names) == 0 {
		return all, nil
	}
	var out []Fault
	for _, name := range names {
		i := slices.IndexFunc(all, func(f Fault) bool { return f.Name == name })
		if i < 0 {
			known := make([]string, len(all))
			for k, f := range all {
				known[k] = f.Name
			}
			return nil, fmt.Errorf("chaos: there is no fault %q; there are %q", name, known)
		}
		out = append(out, all[i])
	}
	return out, nil
}

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
