package masterload

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// CallsReport is what Calls measured.
type CallsReport struct {
	KeySize int        `json:"key_bytes"`
	Rows    []CallsRow `json:"rows"`
}

// CallsRow is one kind of call in batches of one size by a number of threads.
type CallsRow struct {
	Name    string `json:"name"`
	Batch   int    `json:"batch"`
	Threads int    `json:"threads"`
	Calls   int    `json:"calls"`
	// KeysPerSecond is over all threads, P50 and P99 are of one call.
	KeysPerSecond float64       `json:"keys_per_second"`
	P50           time.Duration `json:"p50_ns"`
	P99           time.Duration `json:"p99_ns"`
	// Processor is the processor time of this process for one key: of both sides where the
	// master runs in it, else of the client. It depends less on other load of the machine.
	Processor time.Duration `json:"processor_ns_per_key"`
}

// Text prints the report for people.
func (r CallsReport) Text(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "call\tthreads\tbatch\tkeys a second\tp50\tp99\tprocessor a key\tcalls\t")
	for _, c := range r.Rows {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.0f\t%s\t%s\t%s\t%d\t\n", c.Name, c.Threads, c.Batch, c.KeysPerSecond, round(c.P50), round(c.P99), c.Processor, c.Calls)
	}
	t.Flush()
}
