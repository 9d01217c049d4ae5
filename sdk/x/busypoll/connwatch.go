package busypoll

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// arm has the watch set wake sleeping goroutines once the socket is ready, or at once if it is
// ready already.
func (c *Conn) arm(what uint32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.armed&what == what {
		return nil
	}
	c.armed |= what
	how := unix.EPOLL_CTL_MOD
	if !c.known {
		how = unix.EPOLL_CTL_ADD
		c.set.remember(c)
	}
	err := c.watch(how)
	if err != nil {
		c.armed &^= what // So that the next call tries again instead of sleeping forever.
		return err
	}
	c.known = true
	return nil
}

// watch tells epoll which events are armed. mu is held.
func (c *Conn) watch(how int) error {
	if c.gone {
		return net.ErrClosed
	}
	err := unix.EpollCtl(c.set.fd, how, c.fd, &unix.EpollEvent{Events: c.armed | unix.EPOLLONESHOT, Fd: int32(c.fd)})
	return os.NewSyscallError("epoll_ctl", err)
}

// disarm stops the watch set from waking the reader when data arrives, and reports whether a reader
// was asleep.
func (c *Conn) disarm() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.armed&unix.EPOLLIN == 0 {
		return false
	}
	c.armed &^= unix.EPOLLIN
	return c.watch(unix.EPOLL_CTL_MOD) == nil
}

// fired handles the events that epoll reported. epoll reports no more of them until watch is called
// again.
func (c *Conn) fired(events uint32) {
	const end = unix.EPOLLERR | unix.EPOLLHUP
	var said uint32
	if events&(unix.EPOLLIN|end) != 0 {
		said = unix.EPOLLIN
	}
	if events&(unix.EPOLLOUT|end) != 0 {
		said |= unix.EPOLLOUT
	}
	c.mu.Lock()
	if c.armed &^= said; c.armed != 0 {
		_ = c.watch(unix.EPOLL_CTL_MOD)
	}
	c.mu.Unlock()
	if said&unix.EPOLLIN != 0 {
		c.in.wake()
	}
	if said&unix.EPOLLOUT != 0 {
		c.out.wake()
	}
}
