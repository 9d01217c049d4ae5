package vault

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// KeeperConfig configures a Keeper.
type KeeperConfig struct {
	// KeepTime is how long the memory of an owner without a living process is kept.
	KeepTime time.Duration
	// MaxFiles bounds the descriptors of all owners together.
	MaxFiles int
	// MaxConnections bounds the processes that are connected at a time.
	MaxConnections int
	// Idle is how long Serve goes on while nothing is kept and no process is connected, 0 for ever.
	Idle time.Duration
}

// DefaultKeeperConfig returns the defaults.
func DefaultKeeperConfig() KeeperConfig {
	return KeeperConfig{KeepTime: 2 * time.Minute, MaxFiles: 4096, MaxConnections: 128}
}

// helloTimeout is how long a connection may take to say whose memory it wants.
const helloTimeout = 5 * time.Second

// Keeper holds the memory of stores while they have no process. It runs in a process of its own, which
// needs no care: it does nothing but hold descriptors, and pages cost only what the stores wrote.
type Keeper struct {
	cfg KeeperConfig
	log *slog.Logger

	mu     sync.Mutex
	owners map[string]*owner
	files  int
	conns  map[*net.UnixConn]struct{}
	tasks  sync.WaitGroup
}

// owner is what is kept for one store.
type owner struct {
	files map[string]*os.File
	taken bool        // a process is connected
	pid   int32       // its number, 0 where it is one of another namespace
	timer *time.Timer // runs while there is none
}

// NewKeeper returns a keeper. Serve makes it work.
func NewKeeper(cfg KeeperConfig, log *slog.Logger) *Keeper {
	return &Keeper{cfg: cfg, log: log, owners: map[string]*owner{}, conns: map[*net.UnixConn]struct{}{}}
}

// Serve accepts connections of the same user, and of root, until ctx ends or the keeper is idle for long enough. It
// then closes l and drops all that it kept.
func (k *Keeper) Serve(ctx context.Context, l *net.UnixListener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	defer k.end()
	if k.cfg.Idle > 0 {
		k.tasks.Go(func() { k.watchIdle(ctx, cancel) })
	}
	for {
		c, err := l.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			k.log.Warn("a connection was not accepted", "error", err)
			select {
			case <-time.After(50 * time.Millisecond): // Descriptors are short.
			case <-ctx.Done():
			}
			continue
		}
		k.mu.Lock()
		full := len(k.conns) >= k.cfg.MaxConnections
		if !full {
			k.conns[c] = struct{}{}
		}
		k.mu.Unlock()
		if full {
			k.log.Warn("a connection is refused: too many processes are connected", "most", k.cfg.MaxConnections)
			_ = c.Close()
			continue
		}
		k.tasks.Go(func() {
			k.serve(c)
			_ = c.Close()
			k.mu.Lock()
			delete(k.conns, c)
			k.mu.Unlock()
		})
	}
}

// watchIdle ends Serve when the keeper is idle.
func (k *Keeper) watchIdle(ctx context.Context, end func()) {
	ticker := time.NewTicker(max(k.cfg.Idle/8, time.Millisecond))
	defer ticker.Stop()
	for used := time.Now(); ; {
		select {
		case now := <-ticker.C:
			k.mu.Lock()
			if len(k.conns)+len(k.owners) > 0 {
				used = now
			}
			idle := now.Sub(used)
			k.mu.Unlock()
			if idle >= k.cfg.Idle {
				k.log.Info("the keeper ends: it has nothing to keep", "idle_for", k.cfg.Idle)
				end()
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// end closes everything.
func (k *Keeper) end() {
	k.mu.Lock()
	for c := range k.conns {
		_ = c.Close()
	}
	k.mu.Unlock()
	k.tasks.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, o := range k.owners {
		k.forget(name, o)
	}
}

// serve answers one process.
func (k *Keeper) serve(c *net.UnixConn) {
	if err := own(c); err != nil {
		k.log.Warn("a connection is refused", "error", err)
		return
	}
	cred, err := peerOf(c)
	if err != nil {
		return
	}
	_ = c.SetDeadline(time.Now().Add(helloTimeout))
	var hello request
	f, err := receive(c, &hello)
	closeFile(f)
	if err == nil && hello.Op != opHello {
		err = fmt.Errorf("the first request is %q, must be %q", hello.Op, opHello)
	}
	if err == nil {
		err = checkName(hello.Name)
	}
	if err != nil {
		k.log.Warn("a connection is refused", "pid", cred.Pid, "error", err)
		return
	}
	_ = c.SetDeadline(time.Time{})
	o, err := k.attach(&hello, cred.Pid)
	if err != nil {
		_ = send(c, failed(err), nil)
		return
	}
	defer k.detach(hello.Name, o)
	for a, file := (answer{}), (*os.File)(nil); ; {
		err := send(c, a, file)
		closeFile(file)
		if err != nil {
			return
		}
		var q request
		f, err := receive(c, &q)
		if err != nil {
			return
		}
		a, file = k.do(hello.Name, o, &q, f)
	}
}

// attach makes a process the one that has the memory of an owner.
func (k *Keeper) attach(hello *request, pid int32) (*owner, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	name := hello.Name
	o := k.owners[name]
	if o == nil {
		if hello.Kept {
			return nil, fmt.Errorf("%s: %w", name, ErrNotKept)
		}
		o = &owner{files: map[string]*os.File{}}
		k.owners[name] = o
	}
	if o.taken {
		return nil, fmt.Errorf("%w: process %d has the memory of %s", ErrTaken, o.pid, name)
	}
	if o.timer != nil {
		o.timer.Stop()
		o.timer = nil
	}
	o.taken, o.pid = true, pid
	if len(o.files) > 0 {
		k.log.Info("a process came back to its memory", "owner", name, "pid", pid, "files", len(o.files))
	}
	return o, nil
}

// detach begins the time for which the memory is kept.
func (k *Keeper) detach(name string, o *owner) {
	k.mu.Lock()
	defer k.mu.Unlock()
	pid := o.pid
	o.taken, o.pid = false, 0
	if len(o.files) == 0 {
		delete(k.owners, name)
		return
	}
	k.log.Info("a process left its memory", "owner", name, "pid", pid, "files", len(o.files), "kept_for", k.cfg.KeepTime)
	var t *time.Timer
	t = time.AfterFunc(k.cfg.KeepTime, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if o.timer != t {
			return // A process came back at the last moment.
		}
		k.log.Warn("memory is given back: its process did not return in time", "owner", name, "files", len(o.files))
		k.forget(name, o)
	})
	o.timer = t
}

// forget closes what is kept for an owner. k.mu is held.
func (k *Keeper) forget(name string, o *owner) {
	if o.timer != nil {
		o.timer.Stop()
		o.timer = nil
	}
	for _, f := range o.files {
		closeFile(f)
		k.files--
	}
	clear(o.files)
	delete(k.owners, name)
}

// do carries out one request. f came with it and is do's; the file that it returns is the caller's.
func (k *Keeper) do(name string, o *owner, q *request, f *os.File) (answer, *os.File) {
	k.mu.Lock()
	defer k.mu.Unlock()
	out, next, err := k.carryOut(o, q, f)
	if err != nil {
		closeFile(f)
		return failed(fmt.Errorf("keeper: %s %s of %s: %w", q.Op, q.Name, name, err)), nil
	}
	return answer{Name: next}, out
}

func (k *Keeper) carryOut(o *owner, q *request, f *os.File) (out *os.File, next string, err error) {
	if (f != nil) != (q.Op == opKeep) {
		return nil, "", errors.New("a descriptor comes with keep, and with nothing else")
	}
	if q.Op == opNames {
		names := slices.Sorted(maps.Keys(o.files))
		i, found := slices.BinarySearch(names, q.After)
		if found {
			i++
		}
		if i < len(names) {
			next = names[i]
		}
		return nil, next, nil
	}
	if err := checkName(q.Name); err != nil {
		return nil, "", err
	}
	have := o.files[q.Name]
	switch q.Op {
	case opTake:
		if have == nil {
			return nil, "", ErrNotKept
		}
		out, err = duplicate(have)
		return out, "", err
	case opKeep:
		if have == nil && k.files >= k.cfg.MaxFiles {
			return nil, "", fmt.Errorf("%w: it has %d descriptors", ErrFull, k.files)
		}
		if have == nil {
			k.files++
		}
		closeFile(have)
		o.files[q.Name] = f
	case opDrop:
		if have != nil {
			closeFile(have)
			delete(o.files, q.Name)
			k.files--
		}
	default:
		return nil, "", errors.New("the request is not known")
	}
	return nil, "", nil
}
