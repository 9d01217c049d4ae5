// Package drivers does jobs that are measured, in a process of its own: puts and gets of a client in
// Go, calls to a master, and copies of memory as their limit. driver.py does the jobs of a store in
// Python, with any package that has mooncake.store.
//
// A driver reads one Job as JSON from each line of its standard input and answers with an Answer,
// or with {"error": "..."}. The first line that it writes is {"ready": true}.
package drivers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/bench/measure"
)

// The names of jobs.
const (
	// Prepare touches the whole pool once and then puts the sets that Get reads.
	Prepare = "prepare"
	// Put writes new objects, which are removed again without being timed; Get reads those of a
	// set. Both take one object a call through put_from and get_into, several as a batch.
	Put = "put"
	Get = "get"
	// Calls makes calls to the master: its phases are put_start, put_end, exist, replicas and
	// remove, in Python put instead of the first two.
	Calls = "calls"
	// Fill puts small objects, which stay.
	Fill = "fill"
	// Recover puts and gets until both succeed, for Seconds at most, and then counts which objects of the sets are there:
	// its phases are pause and kept. In Python only.
	Recover = "recover"
	// Offload puts Keys objects, Count a call, no faster than a disk takes them: save lasts until the last one that gets there. Then it
	// reads those that have left memory, Count a call: cold. In Python only.
	Offload = "offload"
)

// Job is what a driver does at a time.
type Job struct {
	Do string `json:"do"`
	// Size of an object in bytes, and Count of them in a call.
	Size  int `json:"size,omitempty"`
	Count int `json:"count,omitempty"`
	// Threads work at once.
	Threads int `json:"threads,omitempty"`
	// Seconds is how long Put and Get last; Puts may end before, when the bytes of Limit are
	// written.
	Seconds float64 `json:"seconds,omitempty"`
	Limit   int     `json:"limit,omitempty"`
	// Repeat is how many calls a thread makes in each phase of Calls.
	Repeat int `json:"repeat,omitempty"`
	// Sets are those of Prepare; Warm is how many bytes it writes and removes before.
	Sets []Set `json:"sets,omitempty"`
	Warm int   `json:"warm,omitempty"`
	// From and Keys are the numbers of the objects of Fill, Keys is that of Offload.
	From int `json:"from,omitempty"`
	Keys int `json:"keys,omitempty"`
	// PIDs are processes whose time on a processor counts, and that of all processes below them. That of the driver's
	// process by itself always counts.
	PIDs []int `json:"pids,omitempty"`
	// Segments is over how many segments Calls of a client in Go spreads its objects.
	Segments int `json:"segments,omitempty"`
}

// Set is objects of one size that are read: as many as go into Bytes.
type Set struct {
	Size  int `json:"size"`
	Bytes int `json:"bytes"`
}

// Objects is how many there are.
func (s Set) Objects() int { return s.Bytes / s.Size }

// Answer is what a job measured, by phase.
type Answer struct {
	Phases map[string]Phase `json:"phases"`
}

// Phase is calls that were made by all threads at once.
type Phase struct {
	Calls   int     `json:"calls"`
	Seconds float64 `json:"seconds"` // from the first beginning to the last end
	P50     float64 `json:"p50"`     // microseconds of a call
	P99     float64 `json:"p99"`
	// CPU is the processor time in seconds, user and system, of the driver and the PIDs of the job.
	CPU float64 `json:"cpu"`
}

// Per returns how many units a second there are when a call has so many.
func (p Phase) Per(units int) float64 {
	if p.Seconds <= 0 {
		return 0
	}
	return float64(p.Calls) * float64(units) / p.Seconds
}

// CPUPer returns the processor seconds for each of the units of a call, 0 where none was made.
func (p Phase) CPUPer(units int) float64 {
	if p.Calls == 0 || units == 0 {
		return 0
	}
	return p.CPU / float64(p.Calls) / float64(units)
}

// seconds as a Duration.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// worker does jobs.
type worker interface {
	do(ctx context.Context, j Job) (Answer, error)
}

// serve does the jobs of a stream, until it ends.
func serve(ctx context.Context, w worker, in io.Reader, out io.Writer) error {
	enc := json.NewEncoder(out)
	if err := enc.Encode(map[string]bool{"ready": true}); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var j Job
		if err := json.Unmarshal(lines.Bytes(), &j); err != nil {
			return fmt.Errorf("a job that is none: %w", err)
		}
		var answer any
		a, err := w.do(ctx, j)
		if answer = a; err != nil {
			answer = map[string]string{"error": err.Error()}
		}
		if err := enc.Encode(answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

func unknown(j Job) error { return fmt.Errorf("there is no job %q here", j.Do) }

// thread makes calls, at most so many.
type thread struct {
	calls int
	do    func(call int) error
	done  int // how many were made
}

// together runs the threads at once. Each makes all its calls, or calls until the time limit if
// there is one, but one call at least. It measures the processor time of pids, as in a job.
func together(pids []int, threads []thread, limit time.Duration) (Phase, error) {
	meter, err := cluster.StartMeter(pids...)
	if err != nil {
		return Phase{}, err
	}
	took, times, err := measure.Threads(len(threads), func(n int, began time.Time, times *measure.Histogram) error {
		return threads[n].run(began, limit, times)
	})
	cpu, ended := meter.Stop()
	err = errors.Join(err, ended)
	p := Phase{Seconds: took.Seconds(), CPU: cpu.Seconds(), P50: measure.Micros(times.Quantile(0.5)), P99: measure.Micros(times.Quantile(0.99))}
	for _, t := range threads {
		p.Calls += t.done
	}
	return p, err
}

func (t *thread) run(began time.Time, limit time.Duration, times *measure.Histogram) error {
	for t.done = 0; t.done < t.calls; t.done++ {
		at := time.Now()
		if limit > 0 && t.done > 0 && at.Sub(began) >= limit {
			return nil
		}
		if err := t.do(t.done); err != nil {
			return err
		}
		times.Record(time.Since(at))
	}
	return nil
}
