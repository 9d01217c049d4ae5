// Package lines talks with a process by lines of JSON: one piece of work on its standard input,
// one answer on its standard output. The first line it writes says that it is ready.
package lines

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
)

// maxAnswer bounds a line of an answer, in bytes.
const maxAnswer = 1 << 20

// Client is the side that asks. It is for one goroutine; Close it.
type Client struct {
	proc    *cluster.Proc
	in      *os.File
	answers chan []byte // closed with the process's standard output
}

// Start runs a program and waits, at most for limit, until it is ready.
func Start(ctx context.Context, spec cluster.Spec, limit time.Duration) (*Client, error) {
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
	// The process has its own now, and its output ends when it closes that.
	err = errors.Join(err, stdin.Close(), stdout.Close())
	if err != nil {
		if p != nil {
			p.Kill()
		}
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	c := &Client{proc: p, in: in, answers: make(chan []byte, 1)}
	go c.read(out)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var ready struct{ Ready bool }
	if err := c.answer(ctx, &ready); err != nil {
		c.Close()
		return nil, err
	}
	if !ready.Ready {
		c.Close()
		return nil, fmt.Errorf("%s did not say that it is ready", spec.Name)
	}
	return c, nil
}

// read hands on the lines that are JSON objects; libraries may write others.
func (c *Client) read(out *os.File) {
	defer out.Close()
	defer close(c.answers)
	s := bufio.NewScanner(out)
	s.Buffer(nil, maxAnswer)
	for s.Scan() {
		if b := s.Bytes(); len(b) > 0 && b[0] == '{' {
			select {
			case c.answers <- append([]byte(nil), b...):
			case <-c.proc.Done():
				return
			}
		}
	}
}

// Do has one piece of work done. An error of the work is an error here; after one of the process,
// or of ctx, the process is of no use any more.
func (c *Client) Do(ctx context.Context, job, answer any) error {
	text, err := json.Marshal(job)
	if err != nil {
		return err
	}
	if _, err := c.in.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("%s takes no work: %w%s", c.proc.Name, err, c.last())
	}
	return c.answer(ctx, answer)
}

func (c *Client) answer(ctx context.Context, answer any) error {
	select {
	case text, ok := <-c.answers:
		if !ok {
			return fmt.Errorf("%s ended%s", c.proc.Name, c.last())
		}
		var failed struct{ Error string }
		if err := json.Unmarshal(text, &failed); err != nil {
			return fmt.Errorf("%s wrote no JSON: %w", c.proc.Name, err)
		}
		if failed.Error != "" {
			return fmt.Errorf("%s: %s", c.proc.Name, failed.Error)
		}
		return json.Unmarshal(text, answer)
	case <-ctx.Done():
		return fmt.Errorf("%s did not answer: %w%s", c.proc.Name, ctx.Err(), c.last())
	}
}

// last is the last line of the process's log, where there is one.
func (c *Client) last() string {
	tail := strings.TrimSpace(c.proc.Tail())
	if tail == "" {
		return ""
	}
	return ": " + tail[strings.LastIndexByte(tail, '\n')+1:]
}

// PID is the number of the process.
func (c *Client) PID() int { return c.proc.PID() }

// stopLimit is how long a process may take to end by itself.
const stopLimit = 5 * time.Second

// Close ends the process: its input ends, and after a while it is killed.
func (c *Client) Close() {
	c.in.Close()
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	if _, err := c.proc.Wait(ctx); err != nil {
		c.proc.Kill()
	}
}
