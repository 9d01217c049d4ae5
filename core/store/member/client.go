package member

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/core/transfer/assembly"
)

// AllocWait is how long a put that finds no space retries; 0 fails at once.
type AllocWait time.Duration

// Client is the client of a member without memory.
type Client struct {
	member *Member
	engine assembly.Running
	wait   AllocWait
	client *client.Client
}

// Store returns the client itself, nil before the start.
func (c *Client) Store() *client.Client { return c.client }

// Await returns once the master answers. It retries for limit, at least once, and returns at once
// with an error that waiting cannot fix.
func (c *Client) Await(ctx context.Context, limit time.Duration) error {
	return c.member.session.Await(ctx, limit)
}

func (c *Client) start(ctx context.Context) error {
	err := c.member.use(c.engine)
	if err == nil {
		c.publish(ctx)
	}
	if err == nil {
		sc := c.member.clientConfig()
		sc.AllocWait = time.Duration(c.wait)
		c.client, err = client.New(sc, c.member.deps())
	}
	if err != nil {
		c.member.leave()
	}
	return err
}

func (c *Client) stop(ctx context.Context) error {
	err := c.client.Close(ctx)
	c.member.leave()
	return err
}

// publish tells peers the addresses of network devices: nodes of upstream's releases up to 0.3.10 look them up when
// this process connects to them.
func (c *Client) publish(ctx context.Context) {
	engine := c.engine.Transfer()
	if len(engine.Descriptor().Devices) == 0 {
		return
	}
	if err := engine.Publish(ctx); err != nil {
		c.member.log.Warn("the addresses of the network devices are not published; nodes of upstream's releases up to 0.3.10 refuse connections from here", "error", err)
	}
}
