package local

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/mooncake-go/mooncake/core/store/local/internal/frame"
	"github.com/mooncake-go/mooncake/core/store/local/internal/shm"
	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
)

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
	// settled: the service closed the lifeline, so that it no longer uses our memory. Set
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
		err = errs.New(errs.IllegalClient, "local client", "%s is served by user %d (process %d), which could read all memory that is shared", l.cfg.Socket, who.UID, who.PID)
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
