package transporttest

import (
	"bytes"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// window is how long the suite watches memory that must not change.
const window = time.Second

// halted is a peer that does nothing for a while: its process is stopped, or in process its guard holds the first write
// back.
type halted struct {
	server, client transport.Transport
	mem            []byte
	key            transport.Key
	halt           func() // from here on the peer does nothing
	resume         func() // may be called again
}

// haltable returns a peer that can be made to do nothing, or skips the check.
func (s *suite) haltable(t conformance.T, size int) halted {
	if s.freeze != nil && s.processes != nil {
		server, pid := s.startProcess(t)
		h := halted{server: server, client: s.start(t)}
		h.mem, h.key = s.registerBlank(t, server, 1, size)
		h.halt, h.resume = s.freezer(t, pid)
		return h
	}
	server := s.start(t)
	mem, _, g := s.guarded(t, server, size)
	h := &held{gate: g}
	t.Cleanup(h.resume)
	require.NoError(t, server.Deregister(within(t), 1))
	r := s.region(1, mem, transport.AccessRemote)
	r.Guard = h
	key, err := server.Register(within(t), r)
	require.NoError(t, err)
	return halted{server, s.start(t), mem, key, h.halt, h.resume}
}

// freezer returns functions that stop a process and let it go on. It goes on at the end of the check at the latest.
func (s *suite) freezer(t conformance.TB, pid int) (halt, resume func()) {
	thaw := func() error { return nil }
	resume = func() {
		if err := thaw(); err != nil {
			t.Errorf("let process %d go on: %v", pid, err)
		}
		thaw = func() error { return nil }
	}
	t.Cleanup(resume)
	return func() {
		var err error
		thaw, err = s.freeze(pid)
		require.NoError(t, err)
	}, resume
}

// held is a guard that holds writes back. A guard must not block, but a machine that hangs does no less.
type held struct {
	*gate
	mu   sync.Mutex
	wait chan struct{} // nil while nothing is held back
}

func (h *held) halt() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wait = make(chan struct{})
	// A transport whose Submit moves the bytes would wait for itself.
	time.AfterFunc(window, h.resume)
}

func (h *held) resume() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.wait != nil {
		close(h.wait)
		h.wait = nil
	}
}

// BeginWrite implements transport.Guard.
func (h *held) BeginWrite(offset, size uint64, by transport.Writer) transport.WriteID {
	h.mu.Lock()
	wait := h.wait
	h.mu.Unlock()
	if wait != nil {
		<-wait
	}
	return h.gate.BeginWrite(offset, size, by)
}

// inDoubt lets operations end while the peer does nothing, and looks whether bytes move after their status.
func (s *suite) inDoubt(t conformance.T) {
	const piece, count = 96 << 10, 12
	h := s.haltable(t, piece*count)
	p, ids := dial(t, h.client, h.server, h.key)
	buf := s.local(t, h.client, 1, piece*count)
	must(t, p, transport.Op{ID: 1, Kind: transport.Write, Local: buf[:8], Remote: ids[0]}) // There is a connection.
	fill(buf, 21)
	ops := make([]transport.Op, 0, count)
	for i := range count {
		o := transport.Op{ID: uint64(i), Kind: transport.Write, Local: buf[i*piece:][:piece], Remote: ids[0], Offset: uint64(i * piece)}
		if i%4 == 3 {
			o.Kind = transport.Read
		}
		ops = append(ops, soon(o))
	}
	h.halt()
	done := do(t, p, ops...)
	local, remote := bytes.Clone(buf), bytes.Clone(h.mem)
	h.resume()
	changed := func(o transport.Op) bool {
		if o.Kind == transport.Read {
			return !bytes.Equal(o.Local, local[o.Offset:][:piece])
		}
		return !bytes.Equal(h.mem[o.Offset:][:piece], remote[o.Offset:][:piece])
	}
	for end := time.Now().Add(window); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, o := range ops {
			if c := done[o.ID]; c.Status != transport.Quarantined && changed(o) {
				what := "the peer's memory changed"
				if o.Kind == transport.Read {
					what = "its local buffer changed"
				}
				t.Fatalf("%s was %s while the peer did not answer, and %s after the peer went on; an operation whose bytes may still move is Quarantined", opText(o), endText(c), what)
			}
		}
	}
}

// deregisterHalf deregisters a region while a write of a peer has begun and does not go on.
func (s *suite) deregisterHalf(t conformance.T) {
	if s.freeze != nil && s.processes != nil {
		s.deregisterFrozen(t)
		return
	}
	const size = 256 << 10
	h := s.haltable(t, size)
	p, ids := dial(t, h.client, h.server, h.key)
	buf := s.local(t, h.client, 1, size)
	must(t, p, transport.Op{ID: 1, Kind: transport.Write, Local: buf[:8], Remote: ids[0]})
	fill(buf, 22)
	h.halt()
	write := make(chan map[uint64]transport.Completion, 1)
	go func() {
		defer close(write) // Also where the check has failed.
		write <- do(t, p, transport.Op{ID: 2, Kind: transport.Write, Local: buf, Remote: ids[0]})
	}()
	ended := make(chan error, 1)
	go func() { ended <- h.server.Deregister(within(t), 1) }()
	var err error
	select {
	case err = <-ended:
	case <-time.After(window / 4):
		h.resume()
		err = <-ended
	}
	after := bytes.Clone(h.mem)
	h.resume()
	<-write
	s.untouched(t, h.mem, after, err)
}

// deregisterFrozen stops the process of the writing side in the midst of a write.
func (s *suite) deregisterFrozen(t conformance.T) {
	const size, tries = 32 << 20, 12
	server := s.start(t)
	client, pid := s.startProcess(t)
	halt, resume := s.freezer(t, pid)
	mem, key := s.registerBlank(t, server, 1, size)
	p, ids := dial(t, client, server, key)
	buf := s.local(t, client, 1, size)
	for try := 1; ; try++ {
		for i := range buf {
			buf[i] = byte(try)
		}
		o := transport.Op{ID: uint64(try), Kind: transport.Write, Local: buf, Remote: ids[0]}
		l := ledger{}
		n, err := p.Submit([]transport.Op{o})
		require.NoError(t, err)
		l.accept([]transport.Op{o}[:n])
		for end := time.Now().Add(window); mem[0] != byte(try) && time.Now().Before(end); { //nolint:revive // It polls memory.
		}
		halt()
		if begun := bytes.IndexByte(mem, byte(try)) >= 0; !begun || bytes.Count(mem, []byte{byte(try)}) == size {
			resume() // Before it began or after it ended: again.
			allOK(t, l.drain(t, p))
			if try == tries {
				t.Skip("no write of this transport can be stopped midway: each moves all of its bytes at once")
			}
			continue
		}
		err = server.Deregister(within(t), 1)
		after := bytes.Clone(mem)
		resume()
		l.drain(t, p)
		s.untouched(t, mem, after, err)
		return
	}
}

// untouched watches memory after a Deregister that returned err.
func (s *suite) untouched(t conformance.TB, mem, after []byte, err error) {
	if err != nil {
		return // It said that the memory must not be reused yet.
	}
	for end := time.Now().Add(window / 2); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if !bytes.Equal(mem, after) {
			t.Fatalf("a peer's write changed the memory of region 1 after Deregister had returned without an error; Deregister has to wait for operations that have begun")
		}
	}
}

// stopAnswers stops a transport while a peer writes to it.
func (s *suite) stopAnswers(t conformance.T) {
	var lost transport.Op
	for range 3 { // A peer that is slow to hear it is no fault of Stop. That is rare.
		server, client := s.start(t), s.start(t)
		var ok bool
		if lost, ok = s.stopWhile(t, server, client); ok {
			return
		}
	}
	t.Fatalf("%s was Quarantined for the peer when the transport stopped, in each of 3 tries; Stop answers what peers have sent, so that they know what became of it", opText(lost))
}

// stopWhile stops the server while the client writes to it, and reports whether every write had a known end.
func (s *suite) stopWhile(t conformance.T, server, client transport.Transport) (lost transport.Op, ok bool) {
	const piece, count = 256 << 10, 32
	_, key := s.registerBlank(t, server, 1, piece*count)
	p, ids := dial(t, client, server, key)
	buf := s.local(t, client, 1, piece*count)
	stopped := make(chan error, 1)
	l, slots, sent := ledger{}, slotsOf(count), 0
	dst := make([]transport.Completion, 16)
	ok = true
	idle := time.Now() // since when nothing is in flight
	for begun, ended := false, false; !ended || len(l.open) > 0; {
		select {
		case err := <-stopped:
			require.NoError(t, err, "Stop")
			ended = true
		default:
		}
		if !ended && len(slots) > 0 {
			at := int(slots[0]) * piece
			o := transport.Op{ID: slots[0] + uint64(sent)*count, Kind: transport.Write, Local: buf[at:][:piece], Remote: ids[0], Offset: uint64(at), Deadline: time.Now().Add(5 * time.Second)}
			n, err := p.Submit([]transport.Op{o})
			require.NoError(t, err)
			l.accept([]transport.Op{o}[:n])
			sent, slots = sent+n, slots[n:]
			if n > 0 && len(slots) > 0 {
				continue
			}
		}
		if len(l.open) == 0 {
			if !ended && !begun && time.Since(idle) > conformance.Patience(t) {
				t.Fatalf("Submit has accepted no operation for %v although none is in flight", conformance.Patience(t))
			}
			continue
		}
		if !begun && (sent > 2*count || !ok) {
			begun = true
			go func() { stopped <- server.Stop(within(t)) }()
		}
		n, err := p.Reap(within(t), dst)
		for _, c := range dst[:n] {
			if c.Status == transport.Quarantined {
				lost, ok = l.open[c.ID], false
			}
			if c.Status == transport.Failed && c.Class() != errs.ClassTransientPeer && c.Class() != errs.ClassTransientPath {
				t.Fatalf("%s to a peer that stops is %s; it may be tried again elsewhere, so its class is transient-peer or transient-path", opText(l.open[c.ID]), endText(c))
			}
		}
		l.reap(t, dst[:n], err)
		slots = returned(slots, count, dst[:n])
		idle = time.Now()
	}
	return lost, ok
}
