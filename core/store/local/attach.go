package local

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
)

// firstRetry is the pause after the second attempt to attach; it doubles from there.
const firstRetry = 100 * time.Millisecond

var errUnsettled = errors.New("the service did not let go of the memory that was shared; it must not be freed yet")

// connect opens an attachment and registers all memory with it.
func (c *Client) connect(ctx context.Context) (*attachment, error) {
	c.change.Lock()
	defer c.change.Unlock()
	a, err := attach(ctx, c.cfg, &c.traffic)
	if err == nil {
		for _, g := range c.regions.all() {
			if err = a.add(g); err != nil {
				a.end(err)
				<-a.done
				break
			}
		}
	}
	if err != nil {
		if errs.CodeOf(err) != errs.RPCFail {
			err = outage(c.cfg.Socket, err)
		}
		c.set(nil, err)
		return nil, err
	}
	c.set(a, nil)
	return a, nil
}

func (c *Client) set(a *attachment, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attached, c.cause = a, cause
	close(c.changed)
	c.changed = make(chan struct{})
}

// keepAttached pings the service, and attaches again when it is gone.
func (c *Client) keepAttached(a *attachment) {
	for {
		c.ping(a)
		err := a.lost()
		c.set(nil, err)
		if c.ctx.Err() != nil {
			<-a.done
			c.settled(a)
			return
		}
		c.log.Warn("the local service is gone; attaching again", "socket", c.cfg.Socket, "reason", a.cause)
		old := a
		if a = c.again(); a == nil {
			<-old.done
			c.settled(old)
			return
		}
		c.log.Info("attached again", "socket", c.cfg.Socket)
	}
}

// ping pings the service until the attachment ends. The close of the client ends it.
func (c *Client) ping(a *attachment) {
	t := time.NewTicker(c.cfg.PingInterval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			_, fd, _ := a.ask(c.cfg.PingTimeout, &localv1.AttachRequest{Step: &localv1.AttachRequest_Beat{Beat: &localv1.Beat{}}}, -1) // A failure ends the attachment.
			closeFD(fd)
		case <-a.ended:
			return
		case <-c.ctx.Done():
			a.end(errors.New("the client is closed"))
		}
	}
}

// again attaches: at once, and then with growing pauses until it works or the client closes.
func (c *Client) again() *attachment {
	for pause := time.Duration(0); ; pause = min(max(2*pause, firstRetry), c.cfg.RetryInterval) {
		select {
		case <-time.After(pause):
		case <-c.ctx.Done():
			return nil
		}
		ctx, cancel := context.WithTimeout(c.ctx, c.cfg.PingTimeout)
		a, err := c.connect(ctx)
		cancel()
		if err == nil {
			return a
		}
		c.log.Debug("the local service cannot be reached", "socket", c.cfg.Socket, "error", err)
	}
}

// settled notes how the last attachment ended.
func (c *Client) settled(a *attachment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unsettled = !a.settled
}

func (c *Client) lastSettled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.unsettled
}

// current returns the attachment, and waits for one as long as Config.OutageWait allows.
func (c *Client) current(ctx context.Context) (*attachment, error) {
	var wait <-chan time.Time
	for {
		c.mu.Lock()
		a, changed, cause := c.attached, c.changed, c.cause
		c.mu.Unlock()
		if a != nil {
			return a, nil
		}
		if wait == nil {
			t := time.NewTimer(c.cfg.OutageWait)
			defer t.Stop()
			wait = t.C
		}
		select {
		case <-changed:
		case <-wait:
			return nil, cause
		case <-ctx.Done():
			return nil, errs.Wrap(errs.RPCFail, "local client", errors.Join(ctx.Err(), cause))
		case <-c.ctx.Done():
			return nil, cause
		}
	}
}

// now returns the attachment without waiting for one.
func (c *Client) now() (*attachment, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attached, c.cause
}
