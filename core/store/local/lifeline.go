package local

import (
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

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
