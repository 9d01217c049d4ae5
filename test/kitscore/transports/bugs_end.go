package transports

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// endBugs are bugs of how operations, paths and regions end.
func endBugs() map[string]bug {
	return map[string]bug{
		"doubt-is-failed": {"a write whose fate is unknown is Failed instead of Quarantined", one("an indeterminate operation"), completes(func(c *transport.Completion) {
			if c.Status == transport.Quarantined {
				c.Status = transport.Failed
			}
		})},
		"stop-drops-peers": {"Stop closes the connections of peers instead of answering them", one("stop answers peers"), stopDrops},
		"deregister-early": {"Deregister returns at once and closes the region later", one("deregister while peers read", "deregister in the midst of a write"), func(b *bent) {
			b.deregister = func(ctx context.Context, id transport.RegionID) error {
				go func() { _ = b.Transport.Deregister(context.WithoutCancel(ctx), id) }()
				return nil
			}
		}},
		"deregister-never": {"Deregister does nothing", one("deregister while peers read", "register again after deregister"), func(b *bent) {
			b.deregister = func(context.Context, transport.RegionID) error { return nil }
		}},
		"deregister-given-up": {"Deregister with an ended context leaves the region open", one("deregister with an ended context"), func(b *bent) {
			b.deregister = func(ctx context.Context, id transport.RegionID) error {
				if ctx.Err() != nil || time.Until(deadlineOf(ctx)) < time.Second {
					return ctx.Err()
				}
				return b.Transport.Deregister(ctx, id)
			}
		}},
		"deadline-ignored": {"a deadline that has passed does not count", one("a deadline in the past", "a frozen peer"), submits(func(o *transport.Op) {
			if !o.Deadline.IsZero() {
				o.Deadline = time.Now().Add(time.Minute)
			}
		})},
		"close-drops": {"Reap returns nothing of what was left at Close", one("close fails what is in flight", "reap after close"), paths(func(p *bentPath) {
			var closed atomic.Bool
			p.close = func(ctx context.Context) error { closed.Store(true); return p.inner.Close(ctx) }
			p.reap = func(ctx context.Context, dst []transport.Completion) (int, error) {
				n, err := p.inner.Reap(ctx, dst)
				if closed.Load() && n > 0 {
					return 0, transport.ErrPathClosed
				}
				return n, err
			}
		})},
		"stale-is-permanent": {"operations with stale keys fail with class permanent", one("a restarted peer", "a peer that went and one that came", "the peer stops"), completes(func(c *transport.Completion) {
			if c.Err != nil && errs.ClassOf(c.Err) != errs.ClassPermanent {
				c.Err = errs.WithClass(errs.ClassPermanent, "transfer", errs.New(errs.TransferFail, "", "the key is stale"))
			}
		})},
		"rights-are-transient": {"an operation without the right to it fails with class transient-path", one("rights of peers"), completes(func(c *transport.Completion) {
			if c.Err != nil && errs.ClassOf(c.Err) == errs.ClassPermanent {
				c.Err = errs.WithClass(errs.ClassTransientPath, "transfer", errs.New(errs.TransferFail, "", "try again"))
			}
		})},
		"strange-status": {"a failed operation has a status that the contract does not define", one("rights of peers"), completes(func(c *transport.Completion) {
			if c.Err != nil {
				c.Status = 7
			}
		})},
	}
}

func deadlineOf(ctx context.Context) time.Time {
	if at, ok := ctx.Deadline(); ok {
		return at
	}
	return time.Now().Add(time.Hour)
}

// stopDrops ends the connections of the port that the transport listens on.
func stopDrops(b *bent) {
	b.stop = func(ctx context.Context) error {
		if err := cut(b.port); err != nil {
			return err
		}
		return b.Transport.Stop(ctx)
	}
}

// cut shuts down the TCP sockets of this process whose local port is port.
func cut(port int) error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			return fmt.Errorf("descriptor %q: %w", e.Name(), err)
		}
		if at, ok := name(fd); ok && at == port {
			_ = syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
			_ = syscall.Shutdown(fd, syscall.SHUT_RDWR)
		}
	}
	return nil
}

// name returns the local port of a socket of IPv4.
func name(fd int) (port int, ok bool) {
	at, err := syscall.Getsockname(fd)
	if err != nil {
		return 0, false
	}
	in, ok := at.(*syscall.SockaddrInet4)
	if !ok {
		return 0, false
	}
	return in.Port, true
}

// freePort returns a port that is free now.
func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0") //nolint:noctx // It returns at once.
	if err != nil {
		return 0, err
	}
	at, ok := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil || !ok {
		return 0, errors.Join(err, errors.ErrUnsupported)
	}
	return at.Port, nil
}
