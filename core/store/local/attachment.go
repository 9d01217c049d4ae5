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

// attachment is one attachment to a service. It lasts until ended is closed; then its calls fail. Once
// over is closed, settled tells whether the service still uses the memory of this process.
type attachment struct {
	cfg      Config
	line     frame.Conn
	hostname string
	traffic  *atomic.Uint64 // bytes on the connection for calls
	conn     *grpc.ClientConn
	rpc      localv1.LocalServiceClient
	token    frame.Token
	lent     *lent // nil when nothing is lent; set before the attachment is used

	step    sync.Mutex // held for one question and its answer
	answers chan answer

	// live ends with the attachment.
	live context.Context
	kill context.CancelFunc

	once  sync.Once
	cause error // why it ended; set before ended is closed
	ended chan struct{}
	over  chan struct{}
	// settled: the service closed the lifeline, so it no longer uses the memory of this process. Set
	// before over is closed.
	settled bool
	// done is closed when only lent memory is left of the attachment.
	done chan struct{}
	mu   sync.Mutex // guards lent and dead against the end while the attachment is opened
	dead bool
}

type answer struct {
	resp *localv1.AttachResponse
	fd   int
}

// attach opens an attachment. The context bounds it.
func attach(ctx context.Context, cfg Config, traffic *atomic.Uint64) (*attachment, error) {
	c, err := frame.Dial(ctx, cfg.Socket)
	if err != nil {
		return nil, err
	}
	a := &attachment{
		cfg: cfg, line: frame.Conn{UnixConn: c}, answers: make(chan answer), traffic: traffic,
		ended: make(chan struct{}), over: make(chan struct{}), done: make(chan struct{}),
	}
	a.live, a.kill = context.WithCancel(context.Background())
	if err = a.checkServer(c); err == nil {
		err = a.prepareCalls()
	}
	if err != nil {
		a.kill()
		return nil, errors.Join(err, c.Close())
	}
	go a.listen()
	if err := a.greet(ctx); err != nil {
		a.end(err)
		<-a.done
		return nil, err
	}
	return a, nil
}

func (a *attachment) checkServer(c *net.UnixConn) error {
	peer, err := frame.PeerOf(c)
	if err == nil && !a.cfg.Any && !peer.Own() {
		err = errs.New(errs.IllegalClient, "local client", "%s is served by user %d (process %d), which could read all memory that is shared", a.cfg.Socket, peer.UID, peer.PID)
	}
	return err
}

func (a *attachment) greet(ctx context.Context) error {
	deadline := time.Now().Add(a.cfg.PingTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := a.line.SetWriteDeadline(deadline); err != nil {
		return err
	}
	if err := frame.WritePreamble(a.line, frame.Lifeline, frame.Token{}); err != nil {
		return err
	}
	resp, fd, err := a.ask(time.Until(deadline), &localv1.AttachRequest{Step: &localv1.AttachRequest_Hello{
		Hello: &localv1.Hello{Version: a.cfg.Version, Pid: uint64(os.Getpid())},
	}}, -1)
	if err != nil {
		return err
	}
	w := resp.GetWelcome()
	if len(w.GetToken()) != len(frame.Token{}) || (w.GetLendBytes() > 0) != (fd >= 0) {
		closeFD(fd)
		return errs.New(errs.DeserializeFail, "local client", "the service's welcome makes no sense")
	}
	a.hostname = w.GetHostname()
	if fd >= 0 {
		m, err := shm.Adopt(fd, shm.Terms{Size: w.GetLendBytes(), Huge: true})
		if err != nil {
			closeFD(fd)
			return err
		}
		if err := a.keep(&lent{mapping: m, users: 1}); err != nil {
			return err
		}
	}
	a.token = frame.Token(w.GetToken())
	return nil
}

// keep adds the memory in which the service lends objects to the attachment.
func (a *attachment) keep(m *lent) error {
	a.mu.Lock()
	dead := a.dead
	if !dead {
		a.lent = m
	}
	a.mu.Unlock()
	if dead {
		m.drop()
		return a.lost()
	}
	return nil
}
