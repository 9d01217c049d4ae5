package drivers

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// WireBytes is the largest object whose messages Wire sends.
const WireBytes = 1 << 20

// Wire sends the messages of a put or get between three processes and does nothing else: no look-up, no
// copy, no checksum; sockets block, and each connection has a thread at both ends. What puts and gets take beyond that is
// their own. peer is the command of a process that runs WirePeer, up to where that goes onward.
func Wire(ctx context.Context, peer []string, in io.Reader, out io.Writer) (err error) {
	w := &wireWorker{}
	if w.area, err = newArea(); err != nil {
		return err
	}
	node, endNode, err := startPeer(ctx, peer, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endNode()) }()
	master, endMaster, err := startPeer(ctx, peer, node)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endMaster()) }()
	w.node, w.master = node, master
	return serve(ctx, w, in, out)
}

// startPeer returns where a peer listens, and what ends it.
func startPeer(ctx context.Context, command []string, onward string) (addr string, end func() error, err error) {
	cmd := exec.CommandContext(ctx, command[0], slices.Concat(command[1:], []string{onward})...) //nolint:gosec // It is this program.
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", nil, err
	}
	end = func() error { return errors.Join(in.Close(), cmd.Wait()) }
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("a peer said no address: %w", err), end())
	}
	return strings.TrimSpace(line), end, nil
}

// A trip is a request and its answer. The peer makes the trip onward, where there is one, before it answers.
type trip struct {
	ask, answer int // bytes, with the header of the request
	onward      *trip
}

// leastMessage is memory for any message but that with the object, and for what comes before the object.
const leastMessage = 4096

// wireHead is the size of the header of a request: its own length, that of the answer, and both for the trip onward.
const wireHead = 16

func (t *trip) put(b []byte) {
	binary.LittleEndian.PutUint32(b, uint32(t.ask))
	binary.LittleEndian.PutUint32(b[4:], uint32(t.answer))
	binary.LittleEndian.PutUint64(b[8:], 0)
	if o := t.onward; o != nil {
		binary.LittleEndian.PutUint32(b[8:], uint32(o.ask))
		binary.LittleEndian.PutUint32(b[12:], uint32(o.answer))
	}
}

// errTrip is the error of a request that no driver sends.
var errTrip = errors.New("a request of an impossible length")

func tripOf(b []byte) (t trip, err error) {
	at := func(i int) int { return int(binary.LittleEndian.Uint32(b[i:])) }
	t = trip{ask: at(0), answer: at(4)}
	if o := at(8); o != 0 {
		t.onward = &trip{ask: o, answer: at(12)}
	}
	for o := &t; o != nil; o = o.onward {
		if o.ask < wireHead || o.ask > 2*WireBytes || o.answer < 1 || o.answer > 2*WireBytes {
			return t, errTrip
		}
	}
	return t, nil
}

// tripsOf are the trips of a put or get of an object to the master, and then those to the node. Their lengths are those that strace
// showed of ours, with keys of 15 bytes. That the master asks the node, too, stands for the entry of the ledger.
func tripsOf(do string, size int) (before, node, after *trip) {
	if do == Get {
		return &trip{ask: 106, answer: 138}, &trip{ask: 64, answer: 64 + size}, nil
	}
	return &trip{ask: 110, answer: 126, onward: &trip{ask: 114, answer: 107}}, &trip{ask: 64 + size, answer: 64}, &trip{ask: 123, answer: 16}
}

type wireWorker struct {
	area         area
	node, master string
}

func (w *wireWorker) do(ctx context.Context, j Job) (a Answer, err error) {
	if j.Do != Put && j.Do != Get {
		return a, unknown(j)
	}
	if j.Count > 1 || j.Size > WireBytes {
		return a, fmt.Errorf("the messages of %d objects of %d bytes are not known here, only those of one of %d bytes at most", j.Count, j.Size, WireBytes)
	}
	before, node, after := tripsOf(j.Do, j.Size)
	threads := make([]thread, j.Threads)
	for t := range threads {
		mem, err := w.area.of(t, Job{Size: j.Size + leastMessage})
		if err != nil {
			return a, err
		}
		clear(mem)
		m, err := dialWire(ctx, w.master)
		if err != nil {
			return a, err
		}
		defer m.close() // After all threads.
		n, err := dialWire(ctx, w.node)
		if err != nil {
			return a, err
		}
		defer n.close()
		threads[t] = thread{calls: 1 << 30, do: func(int) error {
			err := errors.Join(m.make(before, mem), n.make(node, mem))
			if after != nil {
				err = errors.Join(err, m.make(after, mem))
			}
			return err
		}}
	}
	p, err := together(j.PIDs, threads, seconds(j.Seconds))
	return Answer{Phases: map[string]Phase{j.Do: p}}, err
}

// wire is a socket that blocks, outside of Go's poller.
type wire int

func dialWire(ctx context.Context, addr string) (wire, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return -1, err
	}
	return wireOf(conn)
}

// wireOf takes a connection over.
func wireOf(conn net.Conn) (wire, error) {
	defer conn.Close() //nolint:errcheck // The socket stays open through its duplicate.
	t, ok := conn.(*net.TCPConn)
	if !ok {
		return -1, fmt.Errorf("a %T is no connection over TCP", conn)
	}
	f, err := t.File()
	if err != nil {
		return -1, err
	}
	defer f.Close() //nolint:errcheck // As above.
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("fcntl", err)
	}
	return wire(fd), unix.SetNonblock(fd, false)
}

func (w wire) close() { _ = unix.Close(int(w)) }

// make makes a trip.
func (w wire) make(t *trip, mem []byte) error {
	t.put(mem)
	if err := w.send(mem[:t.ask]); err != nil {
		return err
	}
	return w.fill(mem[:t.answer])
}

func (w wire) send(b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(int(w), b)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("write", err)
		}
		b = b[max(n, 0):]
	}
	return nil
}

func (w wire) fill(b []byte) error {
	_, err := w.least(b, len(b))
	return err
}

// least reads as much as is there, at least so many bytes.
func (w wire) least(b []byte, least int) (got int, err error) {
	for got < least {
		n, err := unix.Read(int(w), b[got:])
		switch {
		case n > 0:
			got += n
		case err == nil:
			return got, io.EOF
		case !errors.Is(err, unix.EINTR):
			return got, os.NewSyscallError("read", err)
		}
	}
	return got, nil
}

// WirePeer answers requests of Wire, and says on out where it listens. Trips onward go to the peer at onward, if there is one. It
// ends with in.
func WirePeer(ctx context.Context, onward string, in io.Reader, out io.Writer) error {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, ln.Addr()); err != nil {
		return errors.Join(err, ln.Close())
	}
	go func() {
		_, _ = io.Copy(io.Discard, in) // Its end is what it waits for.
		_ = ln.Close()
	}()
	for {
		conn, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			if err := answerWire(ctx, conn, onward); err != nil && !errors.Is(err, io.EOF) {
				fmt.Fprintln(os.Stderr, "a peer of the bare round trips:", err)
			}
		}()
	}
}

// answerWire answers the requests of one connection.
func answerWire(ctx context.Context, conn net.Conn, onward string) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	w, err := wireOf(conn)
	if err != nil {
		return err
	}
	defer w.close()
	next := wire(-1)
	if onward != "" {
		if next, err = dialWire(ctx, onward); err != nil {
			return err
		}
		defer next.close()
	}
	mem := make([]byte, leastMessage)
	for {
		n, err := w.least(mem, wireHead)
		if err != nil {
			return err
		}
		t, err := tripOf(mem)
		if err != nil {
			return err
		}
		if need := max(t.ask, t.answer); need > len(mem) {
			mem = make([]byte, need)
		}
		if n < t.ask {
			err = w.fill(mem[n:t.ask])
		}
		if t.onward != nil && err == nil {
			err = next.make(t.onward, mem)
		}
		if err == nil {
			err = w.send(mem[:t.answer])
		}
		if err != nil {
			return err
		}
	}
}
