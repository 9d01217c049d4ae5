package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/mooncake-go/mooncake/core/store/local/internal/frame"
	"github.com/mooncake-go/mooncake/core/store/local/internal/shm"
	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// maxMessage bounds one gRPC message in bytes.
const maxMessage = 16 << 20

// link is one attachment. It lives until ended is closed; then its calls fail, and once
// over is closed it is known whether the service is done with our memory.
type link struct {
	cfg      Config
	line     frame.Conn
	hostname string
	traffic  *atomic.Uint64 // bytes on the connection for calls
	conn     *grpc.ClientConn
	rpc      localv1.LocalServiceClient
	token    frame.Token
	lent     *lent // nil when nothing is lent; set before the link is used

	step    sync.Mutex // held for one question and its answer
	answers chan answer

	// live ends with the link.
	live context.Context
	kill context.CancelFunc

	once  sync.Once
	cause error // why it ended; set before ended is closed
	ended chan struct{}
	over  chan struct{}
	// settled: the service closed the lifeline, so that nobody there is at our memory. Set
	// before over is closed.
	settled bool
	// done is closed when nothing of the link is left but what is lent.
	done chan struct{}
	mu   sync.Mutex // guards lent and dead against the end while the link is opened
	dead bool
}

type answer struct {
	resp *localv1.AttachResponse
	fd   int
}

// attach opens a link. The context bounds it.
func attach(ctx context.Context, cfg Config, traffic *atomic.Uint64) (*link, error) {
	c, err := frame.Dial(ctx, cfg.Socket)
	if err != nil {
		return nil, err
	}
	l := &link{
		cfg: cfg, line: frame.Conn{UnixConn: c}, answers: make(chan answer), traffic: traffic,
		ended: make(chan struct{}), over: make(chan struct{}), done: make(chan struct{}),
	}
	l.live, l.kill = context.WithCancel(context.Background())
	if err = l.checkServer(c); err == nil {
		err = l.prepareCalls()
	}
	if err != nil {
		l.kill()
		return nil, errors.Join(err, c.Close())
	}
	go l.listen()
	if err := l.greet(ctx); err != nil {
		l.end(err)
		<-l.done
		return nil, err
	}
	return l, nil
}

func (l *link) checkServer(c *net.UnixConn) error {
	who, err := frame.PeerOf(c)
	if err == nil && !l.cfg.Any && !who.Own() {
		err = errs.New(errs.IllegalClient, "local client", "%s is served by user %d (process %d), who could read all memory that is shared", l.cfg.Socket, who.UID, who.PID)
	}
	return err
}

func (l *link) greet(ctx context.Context) error {
	deadline := time.Now().Add(l.cfg.PingTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := l.line.SetWriteDeadline(deadline); err != nil {
		return err
	}
	if err := frame.WritePreamble(l.line, frame.Lifeline, frame.Token{}); err != nil {
		return err
	}
	resp, fd, err := l.ask(time.Until(deadline), &localv1.AttachRequest{Step: &localv1.AttachRequest_Hello{
		Hello: &localv1.Hello{Version: l.cfg.Version, Pid: uint64(os.Getpid())},
	}}, -1)
	if err != nil {
		return err
	}
	w := resp.GetWelcome()
	if len(w.GetToken()) != len(frame.Token{}) || (w.GetLendBytes() > 0) != (fd >= 0) {
		closeFD(fd)
		return errs.New(errs.DeserializeFail, "local client", "the service's welcome makes no sense")
	}
	l.hostname = w.GetHostname()
	if fd >= 0 {
		m, err := shm.Adopt(fd, shm.Terms{Size: w.GetLendBytes(), Huge: true})
		if err != nil {
			closeFD(fd)
			return err
		}
		if err := l.keep(&lent{mapping: m, users: 1}); err != nil {
			return err
		}
	}
	l.token = frame.Token(w.GetToken())
	return nil
}

// keep makes what the service lends part of the link.
func (l *link) keep(m *lent) error {
	l.mu.Lock()
	dead := l.dead
	if !dead {
		l.lent = m
	}
	l.mu.Unlock()
	if dead {
		m.drop()
		return l.lost()
	}
	return nil
}

// prepareCalls prepares the connection for calls. It is made once, with the first call: a
// broken one ends the link.
func (l *link) prepareCalls() error {
	var first sync.Once
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		err := errors.New("the connection for calls broke")
		var c *net.UnixConn
		first.Do(func() {
			if c, err = frame.Dial(ctx, l.cfg.Socket); err == nil {
				if err = frame.WritePreamble(c, frame.Calls, l.token); err != nil {
					_ = c.Close() // It is of no use.
				}
			}
		})
		if err != nil {
			go l.end(err)
			return nil, err
		}
		return &counted{c, l.traffic}, nil
	}
	var err error
	l.conn, err = grpc.NewClient("passthrough:///attached", grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithDisableServiceConfig(), grpc.WithIdleTimeout(0), grpc.WithNoProxy())
	if err == nil {
		l.rpc = localv1.NewLocalServiceClient(l.conn)
	}
	return err
}

// ask puts one question on the lifeline. The descriptor of the answer is the caller's.
func (l *link) ask(limit time.Duration, req *localv1.AttachRequest, fd int) (*localv1.AttachResponse, int, error) {
	l.step.Lock()
	defer l.step.Unlock()
	if err := l.line.Send(time.Now().Add(limit), req, fd); err != nil {
		l.end(err)
		return nil, -1, l.lost()
	}
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case a := <-l.answers:
		if err := wire.FromProto(a.resp.GetError()); err != nil {
			closeFD(a.fd)
			return nil, -1, err
		}
		return a.resp, a.fd, nil
	case <-l.ended:
	case <-t.C:
		l.end(fmt.Errorf("no answer for %v", limit))
	}
	return nil, -1, l.lost()
}

// listen takes answers off the lifeline until it ends.
func (l *link) listen() {
	for {
		a := answer{resp: &localv1.AttachResponse{}}
		var err error
		if a.fd, err = l.line.Recv(time.Time{}, a.resp); err != nil {
			closeFD(a.fd)
			l.settled = errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET)
			l.end(err)
			break
		}
		select {
		case l.answers <- a:
		case <-l.ended: // Nobody asks any more; what matters now is the end.
			closeFD(a.fd)
		}
	}
	_ = l.line.Close() // Both sides are done.
	close(l.over)
}

// end ends the link, for good. The service is told by the closed half of the lifeline and
// closes the other half when it is done with our memory.
func (l *link) end(cause error) {
	l.once.Do(func() {
		l.cause = cause
		close(l.ended)
		l.kill()
		_ = l.line.CloseWrite() // It may be closed already.
		go func() {
			t := time.NewTimer(l.cfg.SettleTimeout)
			defer t.Stop()
			select {
			case <-l.over:
			case <-t.C:
				_ = l.line.Close() // listen ends, unsettled.
				<-l.over
			}
			_ = l.conn.Close() // Its calls fail.
			l.mu.Lock()
			l.dead = true
			lent := l.lent
			l.mu.Unlock()
			lent.drop()
			close(l.done)
		}()
	})
}

// lost is the error of a call of a link that ended.
func (l *link) lost() error {
	<-l.ended
	cause := l.cause
	if errors.Is(cause, io.EOF) {
		cause = errors.New("the service closed the connection or died")
	}
	return outage(l.cfg.Socket, cause)
}

// outage is what calls get while there is no service.
func outage(socket string, cause error) error {
	return errs.WithHint(errs.Wrap(errs.RPCFail, "local client: "+socket, cause),
		"is 'mooncake client serve' (mooncake_client) running on this host, as this user, in this network namespace? This client attaches again by itself")
}

func closeFD(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd) // It was nothing of use.
	}
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
