package upstream

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"log/slog"
	"math"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/framed"
	"github.com/mooncake-go/mooncake/core/internal/testkit/logbuf"
)

// TestRequestsCutAtEveryByte: a request arrives in two pieces, wherever it is cut, with a body that does
// not fit into the buffer of the connection and an attachment behind it, which is ignored.
func TestRequestsCutAtEveryByte(t *testing.T) {
	var h tester
	addr, _ := serve(t, &h, Options{})
	c := dial(t, addr)
	n := 0
	for _, body := range [][]byte{bytes.Repeat([]byte("0123456789"), small/10+20), []byte("first")} {
		two := append(request(7, fnEcho, body, 30), request(8, fnEcho, []byte("second"), 0)...)
		for cut := range len(two) + 1 {
			c.send(two[:cut])
			time.Sleep(50 * time.Microsecond) // So that the server reads the first piece alone, as a rule.
			c.send(two[cut:])
			for range 2 {
				n++
				seq, code, got := c.answer()
				want := map[uint32][]byte{7: body, 8: []byte("second")}[seq]
				if code != 0 || !bytes.Equal(want, got) {
					t.Fatalf("cut at %d: call %d got code %d and %d bytes", cut, seq, code, len(got))
				}
			}
		}
	}
	require.EqualValues(t, 1, h.conns.Load())
	h.mu.Lock()
	defer h.mu.Unlock()
	require.Equal(t, map[string]int{"Exist": n}, h.calls, "counted as this project's own call")
}

// TestErrorsKeepTheConnection: what is refused, fails, panics, or is not known costs that call alone.
func TestErrorsKeepTheConnection(t *testing.T) {
	var h tester
	var log logbuf.Buffer
	addr, _ := serve(t, &h, Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Limits: framed.Limits{Frame: 1 << 20}})
	c := dial(t, addr)
	for i, want := range []struct {
		function uint32
		body     []byte
		answer   string
	}{
		{fnRefuse, nil, "x"},
		{999, nil, "there is no such function"},
		{fnFail, nil, "function 00000005 failed: it went wrong"},
		{fnPanic, nil, "Panic failed on a fault of the master's own"},
		{fnBlow, binary.LittleEndian.AppendUint32(nil, 1<<20+1), "the answer to function 00000003 has 1048577 bytes, at most 1048576 are allowed"},
	} {
		for range 2 {
			c.send(request(uint32(i), want.function, want.body, 0))
			seq, code, body := c.answer()
			require.EqualValues(t, i, seq)
			require.EqualValues(t, answerRefused, code)
			assert.GreaterOrEqual(t, binary.LittleEndian.Uint16(body[4:]), uint16(300))
			assert.Contains(t, string(body), want.answer)
		}
		require.Equal(t, "still", string(c.call(100, fnEcho, []byte("still"))))
	}
	require.Equal(t, 1<<20, len(c.call(7, fnBlow, binary.LittleEndian.AppendUint32(nil, 1<<20))))
	c.send(request(1, fnRefuse, nil, 0))
	_, _, body := c.answer()
	require.Equal(t, "4ce62b372c010178", hex.EncodeToString(body), "as upstream encodes a code and a text")
	text := log.String()
	require.Equal(t, 1, strings.Count(text, "was refused: x"), "once a minute: %s", text)
	require.Equal(t, 1, strings.Count(text, "code=302 "+"\n")+strings.Count(text, "was refused: function 00000005 failed"), text)
	require.Contains(t, text, "panic=\"at once\"")
}

// TestTextsOfAnyLength: a client finds the text of an error of more than 255 bytes, and at most 1024 of it.
func TestTextsOfAnyLength(t *testing.T) {
	long := refusal(nil, 1, &Refused{Code: 301, Message: strings.Repeat("a", 300)})
	require.Equal(t, "4de62b3708"+"2d01"+"2c01"+strings.Repeat("61", 300), hex.EncodeToString(long[answerHeader:]))
	require.Len(t, refusal(nil, 1, &Refused{Message: strings.Repeat("a", 3000)}), answerHeader+5+2+2+maxText)
	require.Equal(t, "76facf9d"+"026e6f", hex.EncodeToString(tooLarge(1, "no")[answerHeader:]))
}

// TestFramesThatCannotBeRight end the connection: one that is too large with an error that says so, the
// others at once.
func TestFramesThatCannotBeRight(t *testing.T) {
	var h tester
	addr, _ := serve(t, &h, Options{Limits: framed.Limits{Frame: 1 << 16}})
	for _, lengths := range [][2]uint32{{math.MaxUint32, 0}, {math.MaxUint32, math.MaxUint32}, {1 << 31, 1 << 31}, {0, math.MaxUint32}, {1<<16 + 1, 0}, {1 << 16, 1}} {
		c := dial(t, addr)
		c.call(1, fnEcho, nil)
		b := request(2, fnEcho, nil, 0)
		binary.LittleEndian.PutUint32(b[12:], lengths[0])
		binary.LittleEndian.PutUint32(b[16:], lengths[1])
		c.send(append(b, make([]byte, 30_000)...))
		seq, code, body := c.answer()
		require.EqualValues(t, 2, seq)
		require.EqualValues(t, answerTooLarge, code)
		require.Contains(t, string(body), "bytes, at most 65536 are allowed")
		c.ended()
	}
	c := dial(t, addr)
	require.Len(t, c.call(1, fnEcho, make([]byte, 1<<16)), 1<<16, "the largest")
	for at, b := range map[int]byte{0: 0x16, 1: 1, 2: 1} {
		c := dial(t, addr)
		c.call(1, fnEcho, nil)
		bad := request(2, fnEcho, nil, 0)
		bad[at] = b
		c.send(bad)
		c.ended()
	}
	c = dial(t, addr)
	odd := request(2, fnEcho, nil, 0)
	odd[3] = 1 // The type of the message is ignored, as upstream's server does.
	c.send(odd)
	_, code, _ := c.answer()
	require.Zero(t, code)
}

// TestSlowRequestsAreGivenUp: a client that begins a request and does not end it loses its connection,
// however it trickles; one that is silent between requests does not.
func TestSlowRequestsAreGivenUp(t *testing.T) {
	var h tester
	addr, _ := serve(t, &h, Options{Limits: framed.Limits{Stall: 500 * time.Millisecond}})
	silent, header, body := dial(t, addr), dial(t, addr), dial(t, addr)
	silent.call(1, fnEcho, nil)
	over := make(chan int)
	go func() {
		sent := 0
		for _, b := range request(1, fnEcho, nil, 0)[:requestHeader-1] {
			if _, err := header.Write([]byte{b}); err != nil {
				break
			}
			sent++
			time.Sleep(100 * time.Millisecond)
		}
		over <- sent
	}()
	body.send(request(1, fnEcho, make([]byte, 100), 0)[:requestHeader+50])
	body.ended()
	require.Less(t, <-over, requestHeader-1, "each byte in time is not enough")
	silent.call(2, fnEcho, nil)
}

// TestAnswersOvertake: requests that follow one that takes long are worked on meanwhile, as many as the
// connection may have in flight; more wait.
func TestAnswersOvertake(t *testing.T) {
	var h tester
	addr, _ := serve(t, &h, Options{Limits: framed.Limits{Calls: 3}})
	c := dial(t, addr)
	c.send(request(1, fnGate, nil, 0))
	eventually(t, "the first is in progress", func() bool { return h.entered.Load() == 1 })
	require.Equal(t, "b", string(c.call(2, fnEcho, []byte("b"))))
	c.send(append(append(request(3, fnGate, nil, 0), request(4, fnGate, nil, 0)...), request(5, fnEcho, nil, 0)...))
	eventually(t, "three are in progress", func() bool { return h.entered.Load() == 3 })
	require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
	_, err := c.Read(make([]byte, 1))
	require.Error(t, err, "the fourth waits")
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patient)))
	close(h.gate)
	seen := map[uint32]bool{}
	for range 4 {
		seq, code, _ := c.answer()
		require.Zero(t, code)
		seen[seq] = true
	}
	require.Len(t, seen, 4)
}

// TestTheEndOfAConnectionEndsItsCalls, also that of the call in whose goroutine the connection was read.
func TestTheEndOfAConnectionEndsItsCalls(t *testing.T) {
	var h tester
	addr, _ := serve(t, &h, Options{Limits: framed.Limits{Call: time.Hour}})
	c := dial(t, addr)
	c.send(request(1, fnGate, nil, 0))
	c.send(request(2, fnGate, nil, 0))
	eventually(t, "both are in progress", func() bool { return h.entered.Load() == 2 })
	require.NoError(t, c.Close())
	eventually(t, "both ended", func() bool { return h.cut.Load() == 2 && h.conns.Load() == 0 })
}

// TestCallsEndInTime: a call that takes longer than is allowed is answered with an error.
func TestCallsEndInTime(t *testing.T) {
	var h tester
	addr, _ := serve(t, &h, Options{Limits: framed.Limits{Call: 20 * time.Millisecond}})
	c := dial(t, addr)
	c.send(request(1, fnGate, nil, 0))
	_, code, body := c.answer()
	require.EqualValues(t, answerRefused, code)
	require.Contains(t, string(body), "Gate failed: context deadline exceeded")
	c.call(2, fnEcho, nil)
}

// TestSlowReadersLoseTheirConnection, and only they: when too much waits for them, and when they take
// nothing for too long.
func TestSlowReadersLoseTheirConnection(t *testing.T) {
	for name, o := range map[string]Options{
		"too much": {Limits: framed.Limits{Frame: 1 << 20, Stall: patient}},
		"too long": {Limits: framed.Limits{Frame: 32 << 20, Stall: 200 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			var h tester
			addr, _ := serve(t, &h, o)
			slow, other := dial(t, addr), dial(t, addr)
			require.NoError(t, slow.Conn.(*net.TCPConn).SetReadBuffer(4096))
			slow.call(1, fnEcho, nil)
			other.call(1, fnEcho, nil)
			ask := request(1, fnBlow, binary.LittleEndian.AppendUint32(nil, 1<<20), 0)
			for range 30 { // More than the systems of both sides buffer.
				if _, err := slow.Write(ask); err != nil {
					break // It is closed already.
				}
			}
			eventually(t, "the slow one is closed", func() bool { return h.conns.Load() == 1 })
			other.call(2, fnEcho, nil)
		})
	}
}

// TestStop answers the calls in progress, takes no more, and closes what is idle. It cuts off what takes
// too long.
func TestStop(t *testing.T) {
	var h tester
	addr, s := serve(t, &h, Options{})
	idle, busy := dial(t, addr), dial(t, addr)
	idle.call(1, fnEcho, nil)
	busy.send(request(1, fnGate, []byte("late"), 0))
	eventually(t, "it is in progress", func() bool { return h.entered.Load() == 1 })
	busy.call(2, fnEcho, nil) // Another goroutine reads now, which sees the stop at once.
	stopped := make(chan struct{})
	go func() { defer close(stopped); s.Stop(context.Background()) }()
	idle.ended()
	select {
	case <-stopped:
		t.Fatal("a call is in progress")
	case <-time.After(20 * time.Millisecond):
	}
	close(h.gate)
	_, code, body := busy.answer()
	require.Zero(t, code)
	require.Equal(t, "late", string(body))
	busy.ended()
	<-stopped
	late := dial(t, addr)
	late.send(request(1, fnEcho, nil, 0))
	late.ended()

	var h2 tester
	addr, s = serve(t, &h2, Options{Limits: framed.Limits{Call: time.Hour}})
	stuck := dial(t, addr)
	stuck.send(request(1, fnGate, nil, 0))
	eventually(t, "it is in progress", func() bool { return h2.entered.Load() == 1 })
	stuck.call(2, fnEcho, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	s.Stop(ctx)
	require.EqualValues(t, 1, h2.cut.Load())
	stuck.ended()
}

// TestIdleConnectionsGiveWay: where there are as many connections as there may be, an idle one is closed
// for a new one. One with a call in progress that has to go is closed after its answer.
func TestIdleConnectionsGiveWay(t *testing.T) {
	var h tester
	addr, _ := serve(t, &h, Options{}, func(s *framed.Server) { s.Conns = 2 })
	idle := dial(t, addr)
	idle.call(1, fnEcho, nil)
	time.Sleep(200 * time.Millisecond) // Less is not idle; see framed.Server.Awake.
	busy := dial(t, addr)
	busy.send(request(1, fnGate, []byte("late"), 0))
	eventually(t, "it is in progress", func() bool { return h.entered.Load() == 1 })
	time.Sleep(50 * time.Millisecond) // The system counts idle time in ticks of up to 10 ms.
	dial(t, addr).call(1, fnEcho, nil)
	idle.ended()
	time.Sleep(200 * time.Millisecond)
	dial(t, addr).call(1, fnEcho, nil)
	close(h.gate)
	_, _, body := busy.answer()
	require.Equal(t, "late", string(body), "it was idle for longest, as the system sees it")
	busy.ended()
}

// TestClosedConnectionsLeaveTheirPlaces: those that are gone count no more.
func TestClosedConnectionsLeaveTheirPlaces(t *testing.T) {
	var h tester
	addr, _ := serve(t, &h, Options{}, func(s *framed.Server) { s.Conns = 1 })
	for range 5 {
		c := dial(t, addr)
		c.call(1, fnEcho, nil)
		require.NoError(t, c.Close())
		eventually(t, "it is gone", func() bool { return h.conns.Load() == 0 })
	}
	require.Zero(t, h.madeRoom.Load())
}

// TestSilentConnectionsStay: a client may connect long before it calls.
func TestSilentConnectionsStay(t *testing.T) {
	var h tester
	addr, _ := serve(t, &h, Options{}, func(s *framed.Server) { s.Stall = 20 * time.Millisecond })
	silent, slow := dial(t, addr), dial(t, addr)
	slow.send([]byte{magic, 0, 0})
	slow.ended()
	silent.call(1, fnEcho, nil)
	require.Equal(t, leastIdle, Options{Limits: framed.Limits{Idle: time.Second}}.withDefaults().Idle, "nor is an idle one closed before")
}

// TestIdleLimit: a connection that had no call in flight for long is closed.
func TestIdleLimit(t *testing.T) {
	var h tester
	addr, s := serve(t, &h, Options{})
	s.protocol.o.Idle = 50 * time.Millisecond
	busy, idle := dial(t, addr), dial(t, addr)
	busy.send(request(1, fnGate, nil, 0))
	eventually(t, "it is in progress", func() bool { return h.entered.Load() == 1 })
	idle.call(1, fnEcho, nil)
	idle.ended()
	eventually(t, "it is gone", func() bool { return h.conns.Load() == 1 })
	close(h.gate)
	busy.answer()
	busy.ended()
}

// countingBudget is a framed.Budget that has memory for one request.
type countingBudget struct {
	slot  chan struct{}
	taken atomic.Int64
}

func (b *countingBudget) Acquire(ctx context.Context, n int) error {
	select {
	case b.slot <- struct{}{}:
		b.taken.Add(int64(n))
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *countingBudget) Release(n int) { b.taken.Add(-int64(n)); <-b.slot }

// TestLargeRequestsWaitForMemory, small ones do not, and what was announced and does not come gives its
// memory back.
func TestLargeRequestsWaitForMemory(t *testing.T) {
	var h tester
	b := &countingBudget{slot: make(chan struct{}, 1)}
	addr, s := serve(t, &h, Options{Limits: framed.Limits{Call: 100 * time.Millisecond, Stall: patient}}, func(s *framed.Server) { s.Budget = b })
	large := make([]byte, framed.Uncounted+1)
	holds, waits := dial(t, addr), dial(t, addr)
	holds.send(request(1, fnEcho, large, 0)[:100])
	eventually(t, "it has the memory", func() bool { return b.taken.Load() == int64(len(large)) })
	waits.send(request(1, fnEcho, large, 10))
	_, code, body := waits.answer()
	require.EqualValues(t, answerRefused, code, "after the time of a call")
	require.Equal(t, CodeBusy, binary.LittleEndian.Uint16(body[4:]))
	waits.call(2, fnEcho, large[1:])
	require.NoError(t, holds.Close())
	eventually(t, "it was given back", func() bool { return b.taken.Load() == 0 })
	require.Len(t, waits.call(3, fnEcho, large), len(large))
	eventually(t, "it was given back", func() bool { return b.taken.Load() == 0 })
	s.protocol.o.Stall = 0
	slow := dial(t, addr)
	slow.send(request(1, fnEcho, large, 0)[:100])
	slow.ended()
	require.Zero(t, b.taken.Load())
}
