package worker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// MaxEvent is the longest event in bytes that a Decoder accepts.
const MaxEvent = 1 << 20

// Event is one line of what a worker process writes: JSON with exactly one of the
// pointers set. A worker writes any number of progress events, then one result, and an
// error after that where the run ended early.
type Event struct {
	Worker   int       `json:"worker"`
	Progress *Progress `json:"progress,omitempty"`
	Result   *Result   `json:"result,omitempty"`
	Error    *Failure  `json:"error,omitempty"`
}

// Failure is an error on its way to another process.
type Failure struct {
	Code    errs.Code `json:"code"`
	Message string    `json:"message"`
}

// Err turns it into an error that carries the code.
func (f *Failure) Err() error { return &errs.Error{Code: f.Code, Err: errors.New(f.Message)} }

// Encoder writes events. It is safe for concurrent use.
type Encoder struct {
	mu  sync.Mutex
	out io.Writer
}

// NewEncoder makes an Encoder.
func NewEncoder(w io.Writer) *Encoder { return &Encoder{out: w} }

// Encode writes one event with one call of Write.
func (e *Encoder) Encode(ev Event) error {
	line, err := json.Marshal(ev)
	if err != nil {
		return fmt.Errorf("worker event: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := e.out.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("worker event: %w", err)
	}
	return nil
}

// ErrEvent is what a Decoder returns for a line that is not an event, for errors.Is.
var ErrEvent = errors.New("not an event of a worker")

// Decoder reads events. It is for one goroutine.
type Decoder struct {
	in  *bufio.Scanner
	end error
}

// NewDecoder makes a Decoder. It buffers at most MaxEvent bytes.
func NewDecoder(r io.Reader) *Decoder {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 4096), MaxEvent)
	return &Decoder{in: s}
}

// Next returns the next event, io.EOF after the last, an error for which
// errors.Is(err, ErrEvent) holds for a line that is none (the next call goes on behind
// it), or the error of the reader. A line longer than MaxEvent ends the stream.
func (d *Decoder) Next() (Event, error) {
	for d.end == nil {
		if !d.in.Scan() {
			d.end = ending(d.in.Err())
			break
		}
		if line := bytes.TrimSpace(d.in.Bytes()); len(line) > 0 {
			return decode(line)
		}
	}
	return Event{}, d.end
}

func ending(err error) error {
	switch {
	case err == nil:
		return io.EOF
	case errors.Is(err, bufio.ErrTooLong):
		return errs.Wrap(errs.InvalidParams, "worker event", fmt.Errorf("%w: the line is longer than %d bytes", err, MaxEvent))
	default:
		return fmt.Errorf("worker event: %w", err)
	}
}

func decode(line []byte) (Event, error) {
	refuse := func(cause error) (Event, error) {
		return Event{}, errs.Wrap(errs.InvalidParams, "worker event", fmt.Errorf("%w: %w: %.80q", ErrEvent, cause, line))
	}
	var ev Event
	if err := json.Unmarshal(line, &ev); err != nil {
		return refuse(err)
	}
	set := 0
	for _, there := range []bool{ev.Progress != nil, ev.Result != nil, ev.Error != nil} {
		if there {
			set++
		}
	}
	switch {
	case set != 1:
		return refuse(fmt.Errorf("it has %d of progress, result and error, want one", set))
	case ev.Worker < 0:
		return refuse(fmt.Errorf("worker %d does not exist", ev.Worker))
	case ev.Result != nil:
		if err := ev.Result.check(); err != nil {
			return refuse(err)
		}
	}
	return ev, nil
}

// check refuses a result that a worker cannot have sent, so that a report can use every
// field.
func (r *Result) check() error {
	for name, op := range map[string]Op{"lookup": r.Lookup, "get": r.Get, "put": r.Put} {
		if op.Latency == nil {
			return fmt.Errorf("%s has no latency histogram", name)
		}
		if op.Busy < 0 {
			return fmt.Errorf("%s was busy for %v", name, op.Busy)
		}
	}
	switch {
	case r.BlocksHit > r.BlocksLooked:
		return fmt.Errorf("%d hits in %d blocks", r.BlocksHit, r.BlocksLooked)
	case r.TierHits > r.PagesVerified+r.PagesWrong:
		return fmt.Errorf("%d pages from storage tiers, and %d were read", r.TierHits, r.PagesVerified+r.PagesWrong)
	case r.Wall < 0 || r.Filling < 0 || r.Verifying < 0:
		return errors.New("a duration is negative")
	case len(r.Wrong) > maxWrongDetails:
		return fmt.Errorf("%d descriptions of wrong pages, want at most %d", len(r.Wrong), maxWrongDetails)
	}
	return nil
}
