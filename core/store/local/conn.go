package local

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/mooncake-go/mooncake/core/store/local/internal/frame"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
)

// maxMessage bounds one gRPC message in bytes.
const maxMessage = 16 << 20

// prepareCalls prepares the connection for calls. It is made once, with the first call: a
// broken one ends the attachment.
func (a *attachment) prepareCalls() error {
	var first sync.Once
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		err := errors.New("the connection for calls broke")
		var c *net.UnixConn
		first.Do(func() {
			if c, err = frame.Dial(ctx, a.cfg.Socket); err == nil {
				if err = frame.WritePreamble(c, frame.Calls, a.token); err != nil {
					_ = c.Close() // It is of no use.
				}
			}
		})
		if err != nil {
			go a.end(err)
			return nil, err
		}
		return &counted{c, a.traffic}, nil
	}
	var err error
	a.conn, err = grpc.NewClient("passthrough:///attached", grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithDisableServiceConfig(), grpc.WithIdleTimeout(0), grpc.WithNoProxy())
	if err == nil {
		a.rpc = localv1.NewLocalServiceClient(a.conn)
	}
	return err
}

// counted counts the bytes of a connection.
type counted struct {
	net.Conn
	n *atomic.Uint64
}

// Read implements net.Conn.
func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.n.Add(uint64(n))
	return n, err
}

// Write implements net.Conn.
func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.n.Add(uint64(n))
	return n, err
}
