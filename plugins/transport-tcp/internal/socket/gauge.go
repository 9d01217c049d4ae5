package socket

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// DistantRTT is the round trip of a distant peer, which gets MorePatience times the silence, as
	// does a peer whose link loses packets: TCP sends a lost packet again after two round trips and
	// 200 ms at the least, then after twice as long, and so on, so that five losses in a row make 6
	// s of silence.
	DistantRTT = 50 * time.Millisecond
	// MorePatience is how many times the usual silence such a peer gets.
	MorePatience = 3
	// LossMemory is for how long a link counts as one that loses packets.
	LossMemory = 10 * time.Second
)

// Gauge tells how far the bytes of a connection have come, by the kernel's counts: those that the
// peer acknowledged and those that arrived. A write that returned says less: the kernel may hold
// minutes' worth of bytes for a slow link, and wakes the writer only when a third of its buffer is
// free. A peer whose machine lives and whose process stands still acknowledges what fits its
// receive buffer, and nothing after that. Safe for concurrent use.
type Gauge struct {
	raw  syscall.RawConn // nil for what is no socket
	last atomic.Uint64
	// The round trips, in microseconds, when moved was last called: now, and the least of them.
	now, Least atomic.Uint32
	Unacked    atomic.Uint32 // packets that were sent and not acknowledged then
	Unsent     atomic.Uint32 // bytes that the kernel had not sent then
	// For how long, in microseconds, the peer's receive window kept the kernel from sending.
	Limited atomic.Uint64
	// Packets that were lost, as far as this end can tell, when bytes last moved. And when bytes
	// last moved, and when they moved last after a loss, in nanoseconds of Unix time.
	lost            atomic.Uint32
	movedAt, lossAt atomic.Int64
}

// Open makes the gauge that of a connection. It is called before anything else, once.
func (g *Gauge) Open(conn net.Conn) {
	if sc, ok := conn.(syscall.Conn); ok {
		g.raw, _ = sc.SyscallConn() // Without it the gauge stands still.
	}
}

// Moved returns the bytes of the connection so far, of both directions. Once the connection is
// closed, or where it is no socket, the value stays.
func (g *Gauge) Moved() uint64 {
	if g.raw == nil {
		return 0
	}
	_ = g.raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			g.Note(info.Bytes_acked+info.Bytes_received, info.Total_retrans+info.Rcv_ooopack, time.Now())
			g.now.Store(info.Rtt)
			g.Least.Store(info.Min_rtt)
			g.Unacked.Store(info.Unacked)
			g.Unsent.Store(info.Notsent_bytes)
			g.Limited.Store(info.Rwnd_limited)
		}
	})
	return g.last.Load()
}

// CloseWrite ends the direction to the peer; what was written before still arrives.
func (g *Gauge) CloseWrite() {
	if g.raw != nil {
		_ = g.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) }) // It fails where the peer has ended both.
	}
}

// Note takes in how many bytes the connection has moved by now, and how many packets were sent
// again or arrived out of order. Losses count once bytes move again, so that a peer that is gone,
// to which the kernel sends the same packet again and again, does not look like a link that loses
// packets.
func (g *Gauge) Note(moved uint64, lost uint32, now time.Time) {
	if g.last.Swap(moved) == moved {
		return
	}
	g.movedAt.Store(now.UnixNano())
	if g.lost.Swap(lost) != lost {
		g.lossAt.Store(now.UnixNano())
	}
}

// lossy reports whether the link lost packets shortly before bytes moved last.
func (g *Gauge) lossy() bool {
	at := g.lossAt.Load()
	return at != 0 && g.movedAt.Load()-at <= int64(LossMemory)
}

// Patience is how many times the usual silence the peer of a connection gets, by what was measured
// when moved was last called.
func (g *Gauge) Patience() int {
	least := time.Duration(g.Least.Load()) * time.Microsecond
	if least >= DistantRTT || g.lossy() {
		return MorePatience
	}
	return 1
}

// Stall is how long the connection of the gauge may make no progress, where a connection to a near
// peer over a link without losses has limit. A nil gauge is that of such a connection.
func (g *Gauge) Stall(limit time.Duration) time.Duration {
	if g == nil {
		return limit
	}
	return limit * time.Duration(g.Patience())
}

// Rtt returns the round trip of the connection, and the least of all that were measured; zero where
// it is no socket.
func (g *Gauge) Rtt() (now, least time.Duration) {
	g.Moved()
	return time.Duration(g.now.Load()) * time.Microsecond, time.Duration(g.Least.Load()) * time.Microsecond
}

// Mark is a value of a gauge, to be compared with a later one.
type Mark struct{ at uint64 }

// Set notes where the gauge is now.
func (m *Mark) Set(g *Gauge) { m.at = g.Moved() }

// Passed reports whether bytes moved since the last call or set.
func (m *Mark) Passed(g *Gauge) bool {
	before := m.at
	m.Set(g)
	return m.at != before
}
