package verbs

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"unsafe"
)

// Context is an open device.
type Context struct {
	refs  refs
	h     unsafe.Pointer
	lib   *Lib
	info  DeviceInfo
	attr  DeviceAttr
	async *sleeper
	// taken is what the last takeEvent got, until NextEvent has it.
	taken takenEvent
}

type takenEvent struct {
	ok    bool
	event Event
	errno int32
}

// OpenDevice opens the device with this name. An unknown name gives ENODEV, and a device whose
// uverbs file is missing or closed to this user ENOENT or EACCES, all as *Error.
func (l *Lib) OpenDevice(name string) (*Context, error) {
	c := &Context{lib: l}
	h, asyncFD, vectors, call, errno := sysOpenDevice(l.h, name, &c.info)
	if errno != 0 {
		return nil, callError(call, errno, name, c.info.UverbsPath)
	}
	c.h = h
	c.refs.free = func() error {
		return c.fail("ibv_close_device", sysCloseDevice(l.h, h), "")
	}
	c.attr, errno = sysQueryDevice(l.h, h)
	if err := c.fail("ibv_query_device", errno, ""); err != nil {
		return nil, errors.Join(err, c.refs.close())
	}
	c.attr.CompletionVectors = vectors
	var err error
	c.async, err = newSleeper(asyncFD, name+" events", c.takeEvent)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("verbs: events of %s: %w", name, err), c.refs.close())
	}
	return c, nil
}

func (c *Context) fail(call string, errno int32, object string) error {
	return callError(call, errno, c.info.Name, object)
}

// Attr returns what the device can do, as it said when it was opened.
func (c *Context) Attr() DeviceAttr { return c.attr }

// QueryPort asks for the present state of a port; ports count from 1.
func (c *Context) QueryPort(port int) (a PortAttr, err error) {
	err = c.refs.use(func() error {
		errno := int32(syscall.EINVAL)
		if port >= 1 && port <= 255 {
			a, errno = sysQueryPort(c.lib.h, c.h, uint8(port))
		}
		return c.fail("ibv_query_port", errno, fmt.Sprintf("port %d", port))
	})
	return a, err
}

// takeEvent reports whether there is an event, and keeps it. async.idle is held.
func (c *Context) takeEvent() bool {
	if !c.taken.ok {
		c.taken.event, c.taken.errno = sysNextEvent(c.lib.h, c.h)
		c.taken.ok = c.taken.errno != int32(syscall.EAGAIN)
	}
	return c.taken.ok
}

// NextEvent waits for an asynchronous event. The event is acknowledged before NextEvent
// returns, so nothing that the caller does next can block on it. One goroutine at a time. The
// error is that of the context, ErrClosed, or one of the device that is not going to end.
func (c *Context) NextEvent(ctx context.Context) (Event, error) {
	var got takenEvent
	err := c.refs.use(func() error {
		if err := c.async.wait(ctx, func() bool {
			if c.takeEvent() {
				got, c.taken = c.taken, takenEvent{}
			}
			return got.ok
		}); err != nil {
			return err
		}
		return c.fail("ibv_get_async_event", got.errno, "")
	})
	return got.event, err
}

// Close ends NextEvent, and closes the device once its PDs and CQs are closed. Repeatable.
func (c *Context) Close() error {
	c.async.stop()
	return c.refs.close()
}
