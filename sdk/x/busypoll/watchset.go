package busypoll

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// watchSet is an epoll descriptor that watches the connections for which goroutines sleep, and the
// goroutine that wakes them. A process has one as long as it has connections. Go's scheduler
// watches this descriptor only.
type watchSet struct {
	fd    int
	file  *os.File
	raw   syscall.RawConn
	ended chan struct{}
	count int // of connections; guarded by currentMu

	mu    sync.Mutex
	conns map[int32]*Conn // by their descriptors
}

var (
	currentMu sync.Mutex
	current   *watchSet // nil while there are no connections
)

// join returns the current set, made if there is none, and counts one more connection.
func join() (*watchSet, error) {
	currentMu.Lock()
	defer currentMu.Unlock()
	if current == nil {
		w, err := newWatchSet()
		if err != nil {
			return nil, err
		}
		current = w
	}
	current.count++
	return current, nil
}

func newWatchSet() (*watchSet, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	// The scheduler watches only descriptors that do not block.
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	w := &watchSet{fd: fd, file: os.NewFile(uintptr(fd), "epoll"), ended: make(chan struct{}), conns: map[int32]*Conn{}}
	if w.raw, err = w.file.SyscallConn(); err != nil {
		_ = w.file.Close()
		return nil, err
	}
	go w.run()
	return w, nil
}

// leave counts one connection less. The last one closes the set.
func (w *watchSet) leave() {
	currentMu.Lock()
	w.count--
	last := w.count == 0
	if last {
		current = nil
	}
	currentMu.Unlock()
	if last {
		_ = w.file.Close() // That ends run.
		<-w.ended
	}
}

func (w *watchSet) remember(c *Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns[int32(c.fd)] = c
}

func (w *watchSet) forget(c *Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, int32(c.fd))
}

// find returns the connection of an event. If that has been closed meanwhile, find returns nil or
// the connection that has its descriptor now, which then tries in vain.
func (w *watchSet) find(fd int32) *Conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.conns[fd]
}

// run wakes the goroutines that sleep.
func (w *watchSet) run() {
	defer close(w.ended)
	var events [128]unix.EpollEvent
	n := 0
	look := func(fd uintptr) bool {
		var err error
		for n, err = unix.EpollWait(int(fd), events[:], 0); errors.Is(err, unix.EINTR); {
			n, err = unix.EpollWait(int(fd), events[:], 0)
		}
		return n > 0
	}
	for w.raw.Read(look) == nil {
		for _, e := range events[:n] {
			if c := w.find(e.Fd); c != nil {
				c.fired(e.Events)
			}
		}
	}
}
