package busypoll

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// watchSet is the descriptor of the system that watches the connections of this process for those
// who sleep, and the goroutine that wakes them. There is one while there are connections. Go's
// scheduler watches that descriptor only.
type watchSet struct {
	fd    int
	file  *os.File
	raw   syscall.RawConn
	ended chan struct{}
	count int // of connections; with currentMu

	mu    sync.Mutex
	conns map[int32]*Conn // by their descriptors
}

var (
	currentMu sync.Mutex
	current   *watchSet // nil while there are no connections
)

// join counts one more connection.
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
	// The scheduler watches what does not block.
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

// leave ends the set with its last connection.
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

// find returns the connection of an event, which may have been closed meanwhile: nil, or another
// one, which then looks in vain.
func (w *watchSet) find(fd int32) *Conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.conns[fd]
}

// run wakes who sleeps.
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
