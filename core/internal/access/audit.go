package access

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// open returns the log of the audit, nil for none.
func open(setting string, log *slog.Logger) *slog.Logger {
	switch setting {
	case "off":
		return nil
	case "", "log":
		return log.With("logger", "audit")
	}
	return slog.New(slog.NewJSONHandler(&file{path: setting, log: log}, nil))
}

// file appends lines to a file. It opens it for each, so that the file may be moved away at any time;
// they are few.
type file struct {
	path string
	log  *slog.Logger
	mu   sync.Mutex
	bad  bool
}

var _ io.Writer = (*file)(nil)

// Write appends a line. A file that cannot be written to is an error in the log of the process, once until it
// can be written to again; the line is in that log then.
func (f *file) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = out.Write(line)
		err = errors.Join(err, out.Close())
	}
	if err != nil {
		if !f.bad {
			f.log.Error("the audit cannot be written to its file; its lines are here", "setting", "security.audit", "error", err)
		}
		f.log.Warn("audit", "line", string(line))
	}
	f.bad = err != nil
	return len(line), err
}

// who are the attributes that say who made a call.
func who(p *Peer) []slog.Attr {
	if p == nil {
		return []slog.Attr{slog.String("who", "this process")}
	}
	if !p.known {
		return []slog.Attr{slog.String("who", p.Remote)}
	}
	attrs := []slog.Attr{slog.String("who", p.Identity.String()), slog.String("trust", p.Identity.Trust), slog.String("door", string(p.Door)), slog.String("remote", p.Remote)}
	if p.tenant != "" {
		attrs = append(attrs, slog.String("tenant", p.tenant))
	}
	return attrs
}

// Done tells of a call that was made, about an object such as "tenant a" or "segment b"; err is how it ended.
func (k *Control) Done(ctx context.Context, c *Call, object string, err error) {
	if k == nil || k.audit == nil || c == nil {
		return
	}
	if c.Audit != Told {
		failed := 0
		if err != nil {
			failed = 1
		}
		k.Count(ctx, c, 1-failed, failed)
		return
	}
	attrs := append(who(at(ctx)), slog.String("call", c.Name), slog.String("object", object))
	if err != nil {
		attrs = append(attrs, slog.String("result", "failed"), slog.String("error", err.Error()))
	} else {
		attrs = append(attrs, slog.String("result", "done"))
	}
	k.audit.LogAttrs(context.WithoutCancel(ctx), slog.LevelInfo, "a call was made", attrs...)
}

// Count counts the objects that a call was about, done and failed. The log has the sums once a minute, of
// peers with an identity.
func (k *Control) Count(ctx context.Context, c *Call, done, failed int) {
	if k == nil || k.audit == nil || c == nil || c.Audit != Summed {
		return
	}
	p := Of(ctx)
	if p == nil {
		return
	}
	x := p.last[c.bit%len(p.last)].Load()
	if x == nil || x.key.call != c || x.told.Load() {
		x = k.sums.find(k, p, c)
		p.last[c.bit%len(p.last)].Store(x)
	}
	x.done.Add(uint64(done))
	x.failed.Add(uint64(failed))
}

const (
	// sumEvery is how often sums are told.
	sumEvery = time.Minute
	// mostSums bounds the identities and calls of one minute that have sums of their own.
	mostSums = 1024
)

// sums are those of the minute, of each identity and call.
type sums struct {
	mu    sync.Mutex
	timer *time.Timer // nil while nothing is counted
	all   map[sumKey]*sum
}

type sumKey struct {
	who  string
	call *Call
}

// sum is what was counted. A Peer keeps those of its last calls, so that a call costs an addition as a rule. An
// addition at the moment in which the sum is told may be lost.
type sum struct {
	key          sumKey
	peer         *Peer // whose attributes the line has
	done, failed atomic.Uint64
	told         atomic.Bool // it counts no more
}

// others stands for the identities for which the table has no place.
const others = "others"

func (s *sums) find(k *Control, p *Peer, c *Call) *sum {
	key := sumKey{p.Identity.URI() + " " + string(p.Door), c}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[sumKey]*sum{}
		s.timer = time.AfterFunc(sumEvery, func() { s.tell(k) })
	}
	x := s.all[key]
	if x == nil && len(s.all) >= mostSums {
		key.who = others
		x = s.all[key]
	}
	if x == nil {
		x = &sum{key: key, peer: p}
		s.all[key] = x
	}
	return x
}

// tell logs what was counted.
func (s *sums) tell(k *Control) {
	s.mu.Lock()
	list := s.all
	if s.timer != nil {
		s.timer.Stop()
	}
	s.all, s.timer = nil, nil
	s.mu.Unlock()
	for _, x := range list {
		x.told.Store(true)
		attrs := []slog.Attr{slog.String("who", others)}
		if x.key.who != others {
			attrs = who(x.peer)
		}
		attrs = append(attrs, slog.String("call", x.key.call.Name), slog.Uint64("done", x.done.Load()), slog.Uint64("failed", x.failed.Load()))
		k.audit.LogAttrs(context.Background(), slog.LevelInfo, "calls were made", attrs...)
	}
}

// Close tells what was not told yet.
func (k *Control) Close() {
	if k != nil && k.audit != nil {
		k.sums.tell(k)
	}
}
