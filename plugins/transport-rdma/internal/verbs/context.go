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

// opened is what sysOpenDevice found; when it failed, as far as it came.
type opened struct {
	h       unsafe.Pointer
	info    DeviceInfo
	asyncFD int
	vectors int
	// call is the function that failed, if one did.
	call string
}

// OpenDevice opens the device with this name. An unknown name gives ENODEV, and a device whose
// uverbs file is missing or closed to this user ENOENT or EACCES, all as *Error.
func (l *Lib) OpenDevice(name string) (*Context, error) {
	o, errno := sysOpenDevice(l.h, name)
	if errno != 0 {
		object := ""
		if o.info.Name != "" {
			object = o.info.UverbsPath
		}
		return nil, callError(o.call, errno, name, object)
	}
	h := o.h
	c := &Context{lib: l, h: h, info: o.info}
	c.refs.free = func() error {
		return callError("ibv_close_device", sysCloseDevice(h), name, "")
	}
	c.attr, errno = sysQueryDevice(h)
	if err := c.fail("ibv_query_device", errno, ""); err != nil {
		return nil, errors.Join(err, c.refs.close())
	}
	c.attr.CompletionVectors = o.vectors
	var err error
	c.async, err = newSleeper(o.asyncFD, name+" events", c.takeEvent)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("verbs: events of %s: %w", name, err), c.refs.close())
	}
	return c, nil
}

func (c *Context) fail(call string, errno int32, object string) error {
	return callError(call, errno, c.info.Name, object)
}

// Info returns what was known before the device was opened.
func (c *Context) Info() DeviceInfo { return c.info }

// Attr returns what the device can do, as it said when it was opened.
func (c *Context) Attr() DeviceAttr { return c.attr }

// QueryPort asks for the present state of a port; ports count from 1.
func (c *Context) QueryPort(port int) (PortAttr, error) {
	if err := c.refs.hold(); err != nil {
		return PortAttr{}, err
	}
	if port < 1 || port > 255 {
		return PortAttr{}, errors.Join(c.fail("ibv_query_port", int32(syscall.EINVAL), portName(port)), c.refs.drop())
	}
	a, errno := sysQueryPort(c.h, uint8(port))
	return a, errors.Join(c.fail("ibv_query_port", errno, portName(port)), c.refs.drop())
}

func portName(port int) string { return fmt.Sprintf("port %d", port) }

// takeEvent reports whether there is an event, and keeps it. async.idle is held.
func (c *Context) takeEvent() bool {
	if !c.taken.ok {
		c.taken.event, c.taken.errno = sysNextEvent(c.h)
		c.taken.ok = c.taken.errno != int32(syscall.EAGAIN)
	}
	return c.taken.ok
}

// NextEvent waits for an asynchronous event. The event is acknowledged before NextEvent
// returns, so nothing that the caller does next can block on it. One goroutine at a time. The
// error is that of the context, ErrClosed, or one of the device that is not going to end.
func (c *Context) NextEvent(ctx context.Context) (Event, error) {
	if err := c.refs.hold(); err != nil {
		return Event{}, err
	}
	var got takenEvent
	err := c.async.wait(ctx, func() bool {
		if c.takeEvent() {
			got, c.taken = c.taken, takenEvent{}
		}
		return got.ok
	})
	if err == nil {
		err = c.fail("ibv_get_async_event", got.errno, "")
	}
	return got.event, errors.Join(err, c.refs.drop())
}

// Close ends NextEvent, and closes the device once its PDs and CQs are closed. Repeatable.
func (c *Context) Close() error {
	c.async.stop()
	return c.refs.close()
}
