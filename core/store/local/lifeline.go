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

// ask sends one request over the lifeline. The caller owns the descriptor of the answer.
func (a *attachment) ask(limit time.Duration, req *localv1.AttachRequest, fd int) (*localv1.AttachResponse, int, error) {
	a.step.Lock()
	defer a.step.Unlock()
	if err := a.line.Send(time.Now().Add(limit), req, fd); err != nil {
		a.end(err)
		return nil, -1, a.lost()
	}
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case got := <-a.answers:
		if err := wire.FromProto(got.resp.GetError()); err != nil {
			closeFD(got.fd)
			return nil, -1, err
		}
		return got.resp, got.fd, nil
	case <-a.ended:
	case <-t.C:
		a.end(fmt.Errorf("no answer for %v", limit))
	}
	return nil, -1, a.lost()
}

// listen receives answers from the lifeline until it ends.
func (a *attachment) listen() {
	for {
		got := answer{resp: &localv1.AttachResponse{}}
		var err error
		if got.fd, err = a.line.Recv(time.Time{}, got.resp); err != nil {
			closeFD(got.fd)
			a.settled = errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET)
			a.end(err)
			break
		}
		select {
		case a.answers <- got:
		case <-a.ended: // The attachment has ended.
			closeFD(got.fd)
		}
	}
	_ = a.line.Close() // Both sides are done.
	close(a.over)
}

// end ends the attachment. The service notices that one half of the lifeline is closed, and closes
// the other half when it no longer uses our memory.
func (a *attachment) end(cause error) {
	a.once.Do(func() {
		a.cause = cause
		close(a.ended)
		a.kill()
		_ = a.line.CloseWrite() // It may be closed already.
		go func() {
			t := time.NewTimer(a.cfg.SettleTimeout)
			defer t.Stop()
			select {
			case <-a.over:
			case <-t.C:
				_ = a.line.Close() // listen ends, unsettled.
				<-a.over
			}
			_ = a.conn.Close() // Its calls fail.
			a.mu.Lock()
			a.dead = true
			lent := a.lent
			a.mu.Unlock()
			lent.drop()
			close(a.done)
		}()
	})
}

// lost returns the error for calls of an attachment that has ended.
func (a *attachment) lost() error {
	<-a.ended
	cause := a.cause
	if errors.Is(cause, io.EOF) {
		cause = errors.New("the service closed the connection or died")
	}
	return outage(a.cfg.Socket, cause)
}

// outage returns the error for calls while there is no service.
func outage(socket string, cause error) error {
	return errs.WithHint(errs.Wrap(errs.RPCFail, "local client: "+socket, cause),
		"is 'mooncake client serve' (mooncake_client) running on this host, as this user, in this network namespace? This client attaches again by itself")
}

func closeFD(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd) // An error would not matter.
	}
}
