//go:build cgo && linux && (amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x)

package verbs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
)

// peerEnv makes this test binary a peer: its value is the library to open.
const peerEnv = "MOONCAKE_TEST_VERBS_PEER"

// hello is what the two processes tell each other before they can talk.
type hello struct {
	QP   uint32
	GID  [16]byte
	Addr uint64
	RKey uint32
	// Device and Index choose the device of the peer.
	Device string
	Index  int
}

const peerSize = 1 << 20

// peerMain is the other process: it offers memory, and stays until its standard input ends.
func peerMain(path string) int {
	if err := serve(path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func serve(path string) error {
	lib, err := verbs.Open(path)
	if err != nil {
		return err
	}
	in := json.NewDecoder(os.Stdin)
	var h hello
	if err = in.Decode(&h); err != nil {
		return err
	}
	s := &side{gid: h.Index, mem: make([]byte, peerSize)}
	for i := range s.mem {
		s.mem[i] = byte(i * 7)
	}
	if s.c, err = lib.OpenDevice(h.Device); err != nil {
		return err
	}
	if s.pd, err = s.c.AllocPD(); err != nil {
		return err
	}
	if s.cq, err = s.c.CreateCQ(64, 0); err != nil {
		return err
	}
	if s.mr, err = s.pd.RegMR(s.mem, all); err != nil {
		return err
	}
	if s.qp, err = s.pd.CreateQP(s.cq, verbs.QPConfig{Depth: 8}); err != nil {
		return err
	}
	if err = s.qp.ToInit(verbs.InitAttr{Port: 1, Access: all}); err != nil {
		return err
	}
	if err = s.qp.ToRTR(rtr(s, h.QP, h.GID, 1024)); err != nil {
		return err
	}
	gid, err := s.c.GID(1, h.Index)
	if err != nil {
		return err
	}
	mine := hello{QP: s.qp.Num(), GID: gid.GID, Addr: s.mr.Addr(), RKey: s.mr.RKey()}
	if err = json.NewEncoder(os.Stdout).Encode(mine); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	// Said with the memory, so that it is this process that saw the writes.
	_, err = os.Stdout.Write(s.mem[:peerSize/2])
	return err
}

type peer struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.Reader
	hello
}

// startPeer connects a side to a process of its own, on the other device.
func startPeer(t *testing.T, r *rig, a *side) *peer {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	p := &peer{cmd: exec.CommandContext(ctx, self)}
	p.cmd.Env = append(os.Environ(), peerEnv+"="+r.lib.Path())
	p.cmd.Stderr = os.Stderr
	p.in, err = p.cmd.StdinPipe()
	check(t, err)
	p.out, err = p.cmd.StdoutPipe()
	check(t, err)
	check(t, p.cmd.Start())
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() })
	check(t, json.NewEncoder(p.in).Encode(hello{QP: a.qp.Num(), GID: a.addr(t), Device: r.names[1], Index: r.gid}))
	dec := json.NewDecoder(p.out)
	check(t, dec.Decode(&p.hello))
	rest, err := io.ReadAll(dec.Buffered())
	check(t, err)
	p.out = io.MultiReader(bytes.NewReader(bytes.TrimPrefix(rest, []byte("\n"))), p.out)
	a.to(t, p.QP, p.GID, 1024)
	return p
}

func (p *peer) wr(op verbs.OpCode, a *side, id uint64, off, n int) verbs.WR {
	return verbs.WR{ID: id, Local: addr(a.mem) + uint64(off), LKey: a.mr.LKey(), Remote: p.Addr + uint64(off),
		RKey: p.RKey, Len: uint32(n), Op: op}
}

func TestTwoProcesses(t *testing.T) {
	r := newRig(t)
	a := newSide(t, r, 0, peerSize, verbs.QPConfig{})
	p := startPeer(t, r, a)
	const half = peerSize / 2
	got := post(t, a, []verbs.WR{p.wr(verbs.OpWrite, a, 1, 0, half), p.wr(verbs.OpRead, a, 2, half, half)})
	if got[0].Status != 0 || got[1].Status != 0 {
		t.Fatalf("got %+v", got)
	}
	for i := half; i < peerSize; i++ {
		if a.mem[i] != byte(i*7) {
			t.Fatalf("byte %d is %d", i, a.mem[i])
		}
	}
	check(t, p.in.Close())
	seen, err := io.ReadAll(p.out)
	check(t, err)
	if !bytes.Equal(bytes.TrimPrefix(seen, []byte("\n")), a.mem[:half]) && !bytes.Equal(seen, a.mem[:half]) {
		t.Error("the peer sees other bytes")
	}
}

// A peer that is killed: what is in flight ends, and this side goes on with another.
func TestPeerKilled(t *testing.T) {
	r := newRig(t)
	a := newSide(t, r, 0, peerSize, verbs.QPConfig{})
	p := startPeer(t, r, a)
	if got := post(t, a, []verbs.WR{p.wr(verbs.OpWrite, a, 1, 0, 4096)}); got[0].Status != 0 {
		t.Fatalf("got %+v", got)
	}
	check(t, p.cmd.Process.Kill())
	_ = p.cmd.Wait()
	got := post(t, a, []verbs.WR{p.wr(verbs.OpWrite, a, 1, 0, 4096), p.wr(verbs.OpRead, a, 2, 0, 4096)})
	if got[0].Status != verbs.StatusRetryExceeded || got[1].Status != verbs.StatusFlushed {
		t.Errorf("got %+v", got)
	}
	check(t, a.qp.Close())
	a.newQP(t, verbs.QPConfig{})
	p = startPeer(t, r, a)
	if got := post(t, a, []verbs.WR{p.wr(verbs.OpWrite, a, 1, 0, 4096)}); got[0].Status != 0 {
		t.Errorf("got %+v", got)
	}
}
