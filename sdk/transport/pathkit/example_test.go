package pathkit_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/pathkit"
)

// copyOp is an operation of the example. The Record is all it has to know.
type copyOp struct {
	pathkit.Record
	from int // how much of it was copied
}

// copyPath is a whole transport.Path. Its "peer" is memory of this process, and one
// goroutine does the work: it copies one step of one operation, then looks again.
type copyPath struct {
	peer map[uint64][]byte // by the number of the region
	work sync.WaitGroup
	wake chan struct{}

	mu sync.Mutex
	pathkit.Base[[]byte, copyOp, *copyOp]
	queue []*copyOp
}

func newCopyPath(peer map[uint64][]byte) *copyPath {
	p := &copyPath{peer: peer, wake: make(chan struct{}, 1)}
	p.Init(&p.mu, "transport/copy: path to myself", pathkit.Limits{Ops: 128, Bytes: 64 << 20, Timeout: 10 * time.Second}, p.expire)
	p.work.Go(p.run)
	return p
}

// Import implements transport.Path. A key of the example is the number of a region.
func (p *copyPath) Import(_ context.Context, k transport.Key) (transport.RemoteID, error) {
	if len(k) != 8 {
		return 0, p.ErrKey(errors.New("it is not 8 bytes long"))
	}
	region := binary.LittleEndian.Uint64(k)
	mem := p.peer[region]
	if mem == nil {
		return 0, p.ErrKey(fmt.Errorf("there is no region %d", region))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.AddKey(k, region, uint64(len(mem)), mem)
}

// Submit implements transport.Path.
func (p *copyPath) Submit(ops []transport.Op) (int, error) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range ops {
		in := &ops[i]
		if _, err := p.Check(in); err != nil {
			return i, err
		}
		if !p.Room(in) {
			return i, nil
		}
		if len(in.Local) == 0 {
			p.Complete(in.ID, nil, false)
			continue
		}
		if o := p.Accept(in, now); o.Late(now) {
			p.Finish(o, p.ErrDeadline(nil), false)
		} else {
			p.queue = append(p.queue, o)
			p.rouse()
		}
	}
	return len(ops), nil
}

func (p *copyPath) rouse() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run carries operations out. A transport that moves bytes while the lock is free has to
// leave the operations it works with to be finished by itself; here all is done under the lock.
func (p *copyPath) run() {
	const step = 64 << 10
	for range p.wake {
		p.mu.Lock()
		if p.Closed() {
			p.mu.Unlock()
			return
		}
		if len(p.queue) > 0 {
			o := p.queue[0]
			mem, _ := p.Remote(o.Remote)
			near := o.Local[o.from:min(o.from+step, len(o.Local))]
			far := mem[o.Offset:][o.from:][:len(near)]
			if o.Kind == transport.Read {
				copy(near, far)
			} else {
				copy(far, near)
			}
			if o.from += len(near); o.from == len(o.Local) {
				p.end(o, nil)
			}
			p.rouse()
		}
		p.mu.Unlock()
	}
}

// end finishes an operation that waits or was just done. p.mu is held.
func (p *copyPath) end(o *copyOp, err error) {
	for i, q := range p.queue {
		if q == o {
			p.queue = append(p.queue[:i], p.queue[i+1:]...)
			break
		}
	}
	p.Finish(o, err, false)
}

// expire ends what is late. p.mu is held.
func (p *copyPath) expire(due iter.Seq[*copyOp]) {
	for o := range due {
		p.end(o, p.ErrOverdue(o, nil))
	}
}

// Close implements transport.Path.
func (p *copyPath) Close(ctx context.Context) error {
	p.mu.Lock()
	if p.Shut() {
		for o := range p.Active() {
			p.end(o, p.ErrClosed())
		}
		p.rouse()
	}
	p.mu.Unlock()
	return p.Drain(ctx, &p.work, "a copy is ending")
}

func Example() {
	ctx := context.Background()
	var path transport.Path = newCopyPath(map[uint64][]byte{7: []byte("what the peer has")})

	id, err := path.Import(ctx, binary.LittleEndian.AppendUint64(nil, 7))
	if err != nil {
		fmt.Println(err)
		return
	}
	mine := make([]byte, 8)
	if _, err = path.Submit([]transport.Op{{ID: 1, Kind: transport.Read, Local: mine, Remote: id, Offset: 9}}); err != nil {
		fmt.Println(err)
		return
	}
	done := make([]transport.Completion, 16)
	n, err := path.Reap(ctx, done)
	fmt.Printf("%d completion, error %v, %q\n", n, err, mine)

	_, err = path.Submit([]transport.Op{{ID: 2, Kind: transport.Read, Local: mine, Remote: id, Offset: 10}})
	fmt.Println(err)
	fmt.Println(path.Close(ctx))
	_, err = path.Reap(ctx, done)
	fmt.Println(errors.Is(err, transport.ErrPathClosed), errs.ClassOf(err))
	// Output:
	// 1 completion, error <nil>, "peer has"
	// transport/copy: path to myself: INVALID_PARAMS: operation 2: 8 bytes at offset 10 reach past the end of region 7 (17 bytes)
	// <nil>
	// true transient-path
}
