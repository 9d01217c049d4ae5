// Package chaos applies faults to a pool of real processes on this machine while a client reads it
// whole, in ranges and layer by layer, and counts what is left: how many objects are readable
// afterwards, and whether any byte was wrong.
package chaos

import (
	"fmt"
	"slices"
	"syscall"
)

// stores is how many stores a pool has.
const stores = 2

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
