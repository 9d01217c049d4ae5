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

// connect opens a link and registers all memory with it.
func (c *Client) connect(ctx context.Context) (*link, error) {
	c.change.Lock()
	defer c.change.Unlock()
	l, err := attach(ctx, c.cfg, &c.traffic)
	if err == nil {
		for _, g := range c.regions.all() {
			if err = l.add(g); err != nil {
				l.end(err)
				<-l.done
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
	c.set(l, nil)
	return l, nil
}

func (c *Client) set(l *link, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link, c.cause = l, cause
	close(c.changed)
	c.changed = make(chan struct{})
}

// keepAttached pings the service, and attaches again when it is gone.
func (c *Client) keepAttached(l *link) {
	for {
		c.ping(l)
		err := l.lost()
		c.set(nil, err)
		if c.ctx.Err() != nil {
			<-l.done
			c.settled(l)
			return
		}
		c.log.Warn("the local service is gone; attaching again", "socket", c.cfg.Socket, "reason", l.cause)
		old := l
		if l = c.again(); l == nil {
			<-old.done
			c.settled(old)
			return
		}
		c.log.Info("attached again", "socket", c.cfg.Socket)
	}
}

// ping asks for signs of life until the link ends or the client closes, which ends it.
func (c *Client) ping(l *link) {
	t := time.NewTicker(c.cfg.PingInterval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			_, fd, _ := l.ask(c.cfg.PingTimeout, &localv1.AttachRequest{Step: &localv1.AttachRequest_Beat{Beat: &localv1.Beat{}}}, -1) // A failure ends the link.
			closeFD(fd)
		case <-l.ended:
			return
		case <-c.ctx.Done():
			l.end(errors.New("the client is closed"))
		}
	}
}

// again attaches: at once, and then with growing pauses until it works or the client closes.
func (c *Client) again() *link {
	for pause := time.Duration(0); ; pause = min(max(2*pause, firstRetry), c.cfg.RetryInterval) {
		select {
		case <-time.After(pause):
		case <-c.ctx.Done():
			return nil
		}
		ctx, cancel := context.WithTimeout(c.ctx, c.cfg.PingTimeout)
		l, err := c.connect(ctx)
		cancel()
		if err == nil {
			return l
		}
		c.log.Debug("the local service cannot be reached", "socket", c.cfg.Socket, "error", err)
	}
}

// settled notes how the last link ended.
func (c *Client) settled(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unsettled = !l.settled
}

func (c *Client) lastSettled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.unsettled
}

// current returns the link, and waits for one as long as Config.OutageWait allows.
func (c *Client) current(ctx context.Context) (*link, error) {
	var wait <-chan time.Time
	for {
		c.mu.Lock()
		l, changed, cause := c.link, c.changed, c.cause
		c.mu.Unlock()
		if l != nil {
			return l, nil
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

// now returns the link without waiting for one.
func (c *Client) now() (*link, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link, c.cause
}
