// Package competitors runs the programs that benchmarks compare this project with: upstream's wheel,
// key-value stores, iperf3 and copies of memory.
package competitors

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/bench/drivers"
	"github.com/mooncake-go/mooncake/core/bench/cluster"
)

// maxAnswer bounds a line of an answer, in bytes.
const maxAnswer = 1 << 20

// Driver is a process that does the jobs of package drivers, in Go or in Python: one line of JSON
// for a job on its standard input, one for the answer on its standard output. Its first line says
// that it is ready. A Driver is for one goroutine.
type Driver struct {
	proc    *cluster.Proc
	in      *os.File
	answers chan []byte // closed with the process's standard output
	pool    *Master     // whose processor time counts with the driver's, nil for none
}

// startDriver runs a program and waits, at most for limit, until it is ready.
func startDriver(ctx context.Context, spec cluster.Spec, limit time.Duration) (*Driver, error) {
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), stdin.Close())
	}
	spec.Stdin, spec.Stdout = stdin, stdout
	p, err := cluster.Start(spec)
	// The process has descriptors of its own now, and its output ends when it closes them.
	err = errors.Join(err, stdin.Close(), stdout.Close())
	if err != nil {
		if p != nil {
			p.Kill()
		}
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	d := &Driver{proc: p, in: in, answers: make(chan []byte, 1)}
	go d.read(out)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var ready struct{ Ready bool }
	err = d.answer(ctx, &ready)
	if err == nil && !ready.Ready {
		err = fmt.Errorf("%s did not say that it is ready", spec.Name)
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// read passes on the lines that are JSON objects; libraries may write others.
func (d *Driver) read(out *os.File) {
	defer out.Close()
	defer close(d.answers)
	s := bufio.NewScanner(out)
	s.Buffer(nil, maxAnswer)
	for s.Scan() {
		if b := s.Bytes(); len(b) > 0 && b[0] == '{' {
			select {
			case d.answers <- append([]byte(nil), b...):
			case <-d.proc.Done():
				return
			}
		}
	}
}

// Do runs one job. An error of the job is an error here. After an error of the process or of ctx
// the driver is of no further use.
func (d *Driver) Do(ctx context.Context, job drivers.Job) (a drivers.Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, jobLimit)
	defer cancel()
	job.PIDs = d.pids()
	return a, d.do(ctx, job, &a)
}

// pids are the processes whose time a job counts: the driver and what serves it, each once.
func (d *Driver) pids() []int {
	pids := []int{d.proc.PID()}
	if d.pool != nil {
		pids = append(pids, d.pool.pids()...)
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

func (d *Driver) do(ctx context.Context, job, answer any) error {
	text, err := json.Marshal(job)
	if err != nil {
		return err
	}
	if _, err := d.in.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("%s takes no work: %w%s", d.proc.Name, err, d.last())
	}
	return d.answer(ctx, answer)
}

func (d *Driver) answer(ctx context.Context, answer any) error {
	select {
	case text, ok := <-d.answers:
		if !ok {
			return fmt.Errorf("%s ended%s", d.proc.Name, d.last())
		}
		var failed struct{ Error string }
		if err := json.Unmarshal(text, &failed); err != nil {
			return fmt.Errorf("%s wrote no JSON: %w", d.proc.Name, err)
		}
		if failed.Error != "" {
			return fmt.Errorf("%s: %s", d.proc.Name, failed.Error)
		}
		return json.Unmarshal(text, answer)
	case <-ctx.Done():
		return fmt.Errorf("%s did not answer: %w%s", d.proc.Name, ctx.Err(), d.last())
	}
}

// last is the last line of the process's log, where there is one.
func (d *Driver) last() string {
	if line := lastLine(d.proc.Tail()); line != "" {
		return ": " + line
	}
	return ""
}

// close ends the input of the process, and kills the process if it does not end then.
func (d *Driver) close() {
	d.in.Close()
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	if _, err := d.proc.Wait(ctx); err != nil {
		d.proc.Kill()
	}
}
