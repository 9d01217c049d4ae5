package masterload

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/measure"
)

// Report is what a run measured.
type Report struct {
	Keys    int `json:"keys"`
	KeySize int `json:"key_bytes"`
	Clients int `json:"clients"`
	Batch   int `json:"batch"`
	// FillKeysPerSecond is how fast the keys were written without a network, a key being
	// one PutStart and one PutEnd.
	FillKeysPerSecond float64 `json:"fill_keys_per_second"`
	// HeapBytes is what the keys cost the process at rest, plugins included; BytesPerKey the same a
	// key, without the bytes of the key itself.
	HeapBytes   uint64  `json:"heap_bytes"`
	BytesPerKey float64 `json:"bytes_per_key"`
	// KeysPerSecond counts a key each time it is looked up, read, and put in both steps,
	// over all clients, while every put evicts.
	KeysPerSecond float64 `json:"keys_per_second"`
	// AllocatedPerKey is what that allocated, in bytes, clients and network included.
	AllocatedPerKey float64       `json:"allocated_bytes_per_key"`
	Collections     int           `json:"garbage_collections"`
	GCPause         time.Duration `json:"gc_pause_ns"`
	Calls           []Call        `json:"calls"`
}

// Call is how long clients waited for one kind of call, of a batch of keys each.
type Call struct {
	Name  string        `json:"name"`
	Count uint64        `json:"count"`
	P50   time.Duration `json:"p50_ns"`
	P99   time.Duration `json:"p99_ns"`
	P999  time.Duration `json:"p999_ns"`
	Max   time.Duration `json:"max_ns"`
}

func call(name string, h *measure.Histogram) Call {
	return Call{
		Name: name, Count: h.Count(),
		P50: h.Quantile(0.5), P99: h.Quantile(0.99), P999: h.Quantile(0.999), Max: h.Quantile(1),
	}
}

// WriteJSON writes the report as one JSON object.
func (r Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteText writes the report for people.
func (r Report) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%d keys of %d bytes\n\n", r.Keys, r.KeySize)
	fmt.Fprintf(w, "  memory        %.0f bytes a key beyond the key itself (%.2f GiB in all)\n", r.BytesPerKey, float64(r.HeapBytes)/(1<<30))
	fmt.Fprintf(w, "  filled at     %.0f keys a second, without a network\n\n", r.FillKeysPerSecond)
	fmt.Fprintf(w, "%d clients, batches of %d keys, every put evicts\n\n", r.Clients, r.Batch)
	fmt.Fprintf(w, "  keys          %.0f a second\n", r.KeysPerSecond)
	fmt.Fprintf(w, "  allocated     %.0f bytes a key; %d collections stopped the process for %s in all\n\n", r.AllocatedPerKey, r.Collections, r.GCPause.Round(time.Microsecond))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "call\tcount\tp50\tp99\tp99.9\tlongest\t")
	for _, c := range r.Calls {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t\n", c.Name, c.Count, round(c.P50), round(c.P99), round(c.P999), round(c.Max))
	}
	return t.Flush()
}

func round(d time.Duration) time.Duration { return d.Round(time.Microsecond) }
