package transfer

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/bench/report"
)

// readyTimeout bounds how long a target process may take to open its memory, and
// stopTimeout how long it may take to end.
const (
	readyTimeout = 30 * time.Second
	stopTimeout  = 20 * time.Second
)

const readyMark = "target is ready: segment_id="

// Announce is the line by which a target says that peers may connect.
func Announce(t *Target, protocol string) string {
	return fmt.Sprintf("%s%s protocol=%s buffer_size=%d (%s)", readyMark, t.Segment(), protocol, t.Size(), report.Bytes(t.Size()))
}

// announced returns the segment of an Announce line.
func announced(line string) (string, bool) {
	rest, ok := strings.CutPrefix(line, readyMark)
	segment, _, _ := strings.Cut(rest, " ")
	return segment, ok && segment != ""
}

// Spawned is a target in a process of its own.
type Spawned struct {
	Segment string
	proc    *cluster.Proc
}

// Spawn starts the process of a target and waits until it is ready. It ends with this
// process, however that ends.
func Spawn(ctx context.Context, spec cluster.Spec) (*Spawned, error) {
	w := &watcher{found: make(chan string, 1)}
	spec.Stdout = w
	p, err := cluster.Start(spec)
	if err != nil {
		return nil, err
	}
	timeout := time.NewTimer(readyTimeout)
	defer timeout.Stop()
	select {
	case segment := <-w.found:
		return &Spawned{Segment: segment, proc: p}, nil
	case <-p.Done():
		err = fmt.Errorf("the target ended before it was ready; its last log lines:\n%s", p.Tail())
	case <-timeout.C:
		err = fmt.Errorf("the target was not ready within %s; its last log lines:\n%s", readyTimeout, p.Tail())
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.Kill()
	return nil, err
}

// Done is closed when the process has ended.
func (s *Spawned) Done() <-chan struct{} { return s.proc.Done() }

// Close ends the process.
func (s *Spawned) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return s.proc.Stop(ctx)
}

// watcher waits for the first line that says where the target is. Lines after it are
// dropped.
type watcher struct {
	mu    sync.Mutex
	line  []byte
	done  bool
	found chan string
}

// maxAnnounce bounds a line, in bytes.
const maxAnnounce = 8 << 10

func (w *watcher) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for rest := b; !w.done && len(rest) > 0; {
		part, after, whole := bytes.Cut(rest, []byte("\n"))
		w.line = append(w.line, part[:min(len(part), maxAnnounce-len(w.line))]...)
		rest = after
		if !whole {
			break
		}
		if segment, ok := announced(string(w.line)); ok {
			w.done = true
			w.found <- segment
		}
		w.line = w.line[:0]
	}
	return len(b), nil
}
