package statetest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Pending is when a call returned whose effect is unknown: it may take effect until the end.
const Pending = math.MaxInt64

// History is what clients saw. Its methods are safe for concurrent use.
type History struct {
	mu    sync.Mutex
	clock int64
	calls []porcupine.Operation
}

// Tick returns an instant that is later than those before. It is a count, so that it also orders what happens at one
// instant of virtual time.
func (h *History) Tick() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	return h.clock
}

// Add adds a call that went on from one instant to another.
func (h *History) Add(op Op, called int64, got Result, returned int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, porcupine.Operation{ClientId: op.Client, Input: op, Call: called, Output: got, Return: returned})
}

// Check looks, key by key, for one order of all calls that explains every answer. The error has the calls of a key for
// which there is none.
func (h *History) Check(m porcupine.Model, limit time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, calls := range byKey(h.calls) {
		if got := porcupine.CheckOperationsTimeout(m, calls, limit); got != porcupine.Ok {
			return fmt.Errorf("the order of the %d calls about key %s is %s, not linearizable:%s", len(calls), calls[0].Input.(Op).Key, got, list(calls))
		}
	}
	return nil
}

func byKey(history []porcupine.Operation) [][]porcupine.Operation {
	parts := map[string][]porcupine.Operation{}
	for _, o := range history {
		k := o.Input.(Op).Key
		parts[k] = append(parts[k], o)
	}
	return slices.Collect(maps.Values(parts))
}

// list describes calls, a line each, in the order of their beginning.
func list(calls []porcupine.Operation) string {
	calls = slices.Clone(calls)
	slices.SortFunc(calls, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var b strings.Builder
	for _, o := range calls {
		end := "end"
		if o.Return != Pending {
			end = fmt.Sprint(o.Return)
		}
		fmt.Fprintf(&b, "\n\t%d to %s: %+v %+v", o.Call, end, o.Input, o.Output)
	}
	return b.String()
}
