package tcp

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// laneReader is the state of a lane's reading goroutine.
type laneReader struct {
	in    [maxTrain * headerSize]byte
	train [maxTrain]header
}

func (l *lane) readAny() error {
	if l.p.peer.Upstream != 0 {
		return l.readUpstream()
	}
	return l.read()
}

// read takes answers until the connection ends. It always returns an error.
func (l *lane) read() error {
	r := &l.r
	for {
		if _, err := l.readFull(r.in[:headerSize], nil); err != nil {
			return err
		}
		if err := r.train[0].decode(r.in[:]); err != nil {
			return err
		}
		train := r.train[:1+r.train[0].Follow]
		if len(train) > 1 {
			rest := r.in[headerSize : headerSize*len(train)]
			if _, err := l.readFull(rest, nil); err != nil {
				return err
			}
			if err := decodeTrain(rest, train); err != nil {
				return err
			}
		}
		for i := range train {
			if err := l.answer(&train[i]); err != nil {
				return err
			}
		}
	}
}

// answer handles one answer with its payload.
func (l *lane) answer(h *header) error {
	p := l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.Type == frameGoAway {
		// A peer that stops answers all that it has carried out before it says so. One that leaves for
		// another reason may owe answers.
		l.renounced = h.Reason == reasonStopping
		return h.refusal("peer said goodbye")
	}
	pt := l.slots[uint16(h.ID)%maxPending]
	if pt == nil || pt.id != h.ID || pt.answered {
		return fmt.Errorf("%w: answer to request %#x, which was not asked", errFrame, h.ID)
	}
	switch {
	case h.Type == frameDone && pt.write:
		l.resolve(pt, nil)
	case h.Type == frameError:
		l.resolve(pt, h.refusal(p.Name()))
	case h.Type == frameData && !pt.write && h.Length == uint32(pt.size):
		return l.receive(pt, nil, h.Sum)
	default:
		return fmt.Errorf("%w: answer of type %d, %d bytes, to a request of %d bytes", errFrame, h.Type, h.Length, pt.size)
	}
	return nil
}

// resolve ends a part with the peer's answer. path.mu is held.
func (l *lane) resolve(pt *part, err error) {
	p := l.p
	l.proven = true
	p.retry.Answered()
	if pt.state == partSending { // The answer overtook the writer, which ends the part.
		pt.answered, pt.answer = true, err
		return
	}
	l.drop(pt)
	p.settle(pt, err, false)
	p.freeParts = append(p.freeParts, pt)
}

// receive stores the payload of an answered Read, of which head was read already. path.mu
// is held, and released while bytes move.
func (l *lane) receive(pt *part, head []byte, sum uint32) error {
	p := l.p
	got := len(head)
	var err error
	if pt.op != nil {
		buf := pt.buf
		pt.state, l.moving = partReceiving, true
		p.mu.Unlock()
		copy(buf, head)
		got, err = l.readFull(buf[len(head):], pt)
		got += len(head)
		var bad error
		if err == nil && l.checks && checksum(buf) != sum {
			bad = errs.WithClass(errs.ClassTransientPath, p.Name(), errs.New(errs.ChecksumMismatch, "read", "%s", reasonChecksum.info().Text))
		}
		p.mu.Lock()
		l.moving = false
		if err == nil {
			l.resolveReceived(pt, bad)
			return nil
		}
		if !errors.Is(err, errCancelled) {
			return err // reclaim ends the part.
		}
		pt.state = partWaiting
		p.settle(pt, nil, false) // Its operation has an error already.
	}
	p.mu.Unlock()
	err = l.discard(pt.size - got)
	p.mu.Lock()
	if err == nil {
		l.resolveReceived(pt, nil)
	}
	return err
}

func (l *lane) resolveReceived(pt *part, err error) {
	pt.state = partWaiting
	l.resolve(pt, err)
}

// errCancelled says that a part failed while it was being received.
var errCancelled = errors.New("cancelled")

// readFull fills b and returns how much it could. With a part it stops when that is
// cancelled.
func (l *lane) readFull(b []byte, pt *part) (int, error) {
	p := l.p
	for got, moved := 0, true; got < len(b); {
		owed, err := l.beforeRead(pt, moved)
		if err != nil {
			return got, err
		}
		p.n.stats.readCalls.Add(1)
		var n int
		if owed {
			n, err = l.in.Read(b[got:])
		} else {
			n, err = l.in.ReadAsleep(b[got:])
		}
		got, moved = got+n, n > 0
		if got == len(b) {
			break
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = l.quiet(n)
		}
		if err != nil {
			return got, err
		}
	}
	return len(b), nil
}

// beforeRead sets the deadline for the next read; moved says that bytes arrived just now.
// With nothing owed an old deadline may stay; quiet takes it away.
func (l *lane) beforeRead(pt *part, moved bool) (owed bool, err error) {
	p := l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if pt != nil && pt.cancelled {
		return false, errCancelled
	}
	if owed = l.owed(); owed {
		now := time.Now()
		if moved {
			l.quietSince = now
			l.invite()
		}
		l.armRead(now)
	}
	return owed, nil
}

// quiet judges a read deadline that passed: an error if the peer owes an answer, has been
// silent for stall_timeout, and has not even taken bytes that are on their way to it.
func (l *lane) quiet(n int) error {
	p := l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	l.readBy = time.Time{}
	if l.hearing {
		return errWordless
	}
	if !l.owed() {
		return l.conn.SetReadDeadline(time.Time{})
	}
	if l.readAt.passed(&l.gauge) {
		l.quietSince = time.Now()
	}
	if limit := l.silence(); n == 0 && !l.writing && time.Since(l.quietSince) >= limit {
		return errs.WithClass(errs.ClassTransientPath, p.Name(), fmt.Errorf("%w for %s", errQuiet, limit))
	}
	return nil
}

// discard reads n bytes and throws them away.
func (l *lane) discard(n int) error {
	pool := &l.p.n.scratch
	buf := pool.Get().(*scratch)
	defer pool.Put(buf)
	for n > 0 {
		b := buf[:min(n, len(buf))]
		if _, err := l.readFull(b, nil); err != nil {
			return err
		}
		n -= len(b)
		l.p.n.stats.discarded.Add(uint64(len(b)))
	}
	return nil
}
