package netem

import (
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Shape is what a link does to each packet, in each direction.
type Shape struct {
	// Delay is how long a packet takes; a round trip takes twice that.
	Delay time.Duration
	// Loss is the share of packets that are dropped, by chance, each for itself.
	Loss float64
	// Rate is what the link carries in bits per second, 0 for any amount. Packets that wait
	// longer than MaxQueue for it are dropped, as by a full queue.
	Rate     float64
	MaxQueue time.Duration
}

// Emulator carries IP packets between two TUN devices. Make one with Carry.
type Emulator struct {
	// Sent, Dropped and Overflowed count the packets of both directions: taken in, dropped
	// by chance, and dropped because the link was full.
	Sent, Dropped, Overflowed atomic.Uint64

	shape Shape
	ends  [2]*os.File
	work  sync.WaitGroup
}

// Carry begins to carry packets between two TUN devices, which are given without packet
// information and are the emulator's until Close.
func Carry(a, b *os.File, s Shape) *Emulator {
	e := &Emulator{shape: s, ends: [2]*os.File{a, b}}
	for i := range 2 {
		pipe := make(chan packet, 1<<16)
		e.work.Go(func() { e.take(e.ends[i], pipe) })
		e.work.Go(func() { e.give(e.ends[1-i], pipe) })
	}
	return e
}

// Close ends the link. Packets in flight are lost.
func (e *Emulator) Close() error {
	err := errors.Join(e.ends[0].Close(), e.ends[1].Close())
	e.work.Wait()
	return err
}

type packet struct {
	at    time.Time // when it is due at the other end
	bytes []byte
}

var pool = sync.Pool{New: func() any { b := make([]byte, 2048); return &b }}

// take reads packets and gives each its time.
func (e *Emulator) take(from *os.File, pipe chan<- packet) {
	defer close(pipe)
	free := time.Time{} // when the link has sent what it took in
	for {
		buf := *pool.Get().(*[]byte)
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		e.Sent.Add(1)
		if rand.Float64() < e.shape.Loss {
			e.Dropped.Add(1)
			pool.Put(&buf)
			continue
		}
		now := time.Now()
		if e.shape.Rate > 0 {
			if free.Before(now) {
				free = now
			}
			if free.Sub(now) > e.shape.MaxQueue {
				e.Overflowed.Add(1)
				pool.Put(&buf)
				continue
			}
			free = free.Add(time.Duration(float64(n*8) / e.shape.Rate * 1e9))
			now = free
		}
		select {
		case pipe <- packet{now.Add(e.shape.Delay), buf[:n]}:
		default:
			e.Overflowed.Add(1)
			pool.Put(&buf)
		}
	}
}

// give writes packets when they are due. All have the same delay, so they stay in order.
func (e *Emulator) give(to *os.File, pipe <-chan packet) {
	for p := range pipe {
		if wait := time.Until(p.at); wait > 0 {
			time.Sleep(wait)
		}
		_, err := to.Write(p.bytes)
		buf := p.bytes[:cap(p.bytes)]
		pool.Put(&buf)
		if errors.Is(err, os.ErrClosed) {
			for range pipe {
			}
			return
		}
	}
}
