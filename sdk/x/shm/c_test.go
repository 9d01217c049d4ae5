package shm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// corruptExit is the exit code of a peer in C that found the ring corrupt; a sanitizer that found a mistake ends it with
// sanitizedExit.
const (
	corruptExit   = 3
	sanitizedExit = 99
)

// buildC compiles the library in C with a program of testdata. It skips the test without a compiler.
func buildC(t testing.TB, flags ...string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler (cc) for the library of rings in C")
	}
	bin := filepath.Join(t.TempDir(), "peer")
	args := append([]string{"-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-pthread", "-I../../c", "-o", bin}, flags...)
	out, err := exec.Command(cc, append(args, "../../c/ring.c", "testdata/peer.c")...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return bin
}

var sanitized = []string{"-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"}

// command makes a run of the program in C, which ends with the test.
func command(t testing.TB, bin string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), bin, args...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("ASAN_OPTIONS=exitcode=%d", sanitizedExit))
	cmd.Stderr = os.Stderr
	return cmd
}

// TestCKeepsTheRules: what the library in C refuses, the wrap-around of its indices, and memory that changes under it, with
// the sanitizers of the compiler.
func TestCKeepsTheRules(t *testing.T) {
	bin := buildC(t, sanitized...)
	require.NoError(t, command(t, bin, "rules").Run())
	require.NoError(t, command(t, bin, "storm", "60", strconv.FormatUint(rand.Uint64(), 10)).Run())
}

// cPeer is a program in C that sends each entry back with its bits inverted.
type cPeer struct {
	mem []byte
	out *Producer
	in  *Consumer
	cmd *exec.Cmd
}

func startC(t testing.TB, bin string, l Layout) *cPeer {
	mem, err := Create("ring in C", 2*l.Bytes())
	require.NoError(t, err)
	there, far, err := NewPipeBell(true)
	require.NoError(t, err)
	back, near, err := NewPipeBell(false)
	require.NoError(t, err)
	p := &cPeer{mem: mem.Bytes()}
	p.out, err = NewProducer(p.mem, l, there)
	require.NoError(t, err)
	p.in, err = NewConsumer(p.mem[l.Bytes():], l, back, 0)
	require.NoError(t, err)
	p.cmd = command(t, bin, "echo", strconv.Itoa(l.Entries), strconv.Itoa(l.EntrySize), strconv.FormatUint(rand.Uint64(), 10))
	for _, fd := range []int{mem.FD(), far, near} {
		own, err := unix.Dup(fd)
		require.NoError(t, err)
		f := os.NewFile(uintptr(own), "for the peer")
		defer f.Close()
		p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, f)
	}
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = there.Close()
		_ = back.Close()
		closeFDs([]int{far, near})
		require.NoError(t, mem.Close())
	})
	return p
}

// exit waits for the end of the program and returns its exit code.
func (p *cPeer) exit(t testing.TB) int {
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// TestCAndGo sends entries to a program in C and back, at random sizes of batches. Both ends sleep whenever they have nothing
// to read, and the ring wraps around many times.
func TestCAndGo(t *testing.T) {
	bin := buildC(t, sanitized...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, l := range []Layout{{1, 8}, {4, 16}, {64, 64}, {1024, 256}} {
		t.Run(fmt.Sprintf("%d entries of %d bytes", l.Entries, l.EntrySize), func(t *testing.T) {
			const total = 30_000
			p := startC(t, bin, l)
			random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // Not for secrets.
			entry, words := make([]byte, l.EntrySize), l.EntrySize/8
			word := func(i int) *uint64 { return (*uint64)(unsafe.Pointer(&entry[8*i])) }
			for sent, got := 0, 0; got < total; {
				for range min(random.IntN(l.Entries-(sent-got)+1), total-sent) {
					for i := range words {
						*word(i) = uint64(sent)<<20 | uint64(i)
					}
					if sent++; sent == total {
						*word(0) = ^uint64(0)
					}
					p.out.Put(entry)
				}
				require.NoError(t, p.out.Publish())
				if sent == got {
					continue
				}
				n, err := p.in.Wait(ctx)
				require.NoError(t, err)
				for k := range n {
					p.in.Copy(k, entry)
					for i := range words {
						expect := uint64(got)<<20 | uint64(i)
						if got == total-1 && i == 0 {
							expect = ^uint64(0)
						}
						if *word(i) != ^expect {
							t.Fatalf("word %d of entry %d came back as %#x, want %#x", i, got, *word(i), ^expect)
						}
					}
					got++
				}
				p.in.Free(n)
			}
			require.Zero(t, p.exit(t))
		})
	}
}

// TestCSurvivesAHostilePeer overwrites the shared memory at random while the program in C uses it. It may find the ring corrupt,
// or not notice, but never touches other memory.
func TestCSurvivesAHostilePeer(t *testing.T) {
	bin := buildC(t, sanitized...)
	corrupt := 0
	for round := range uint64(12) {
		l := Layout{Entries: 1 << (round % 5), EntrySize: 64}
		p := startC(t, bin, l)
		random := rand.New(rand.NewPCG(round, rand.Uint64())) //nolint:gosec // Not for secrets.
		var stop atomic.Bool
		var attack sync.WaitGroup
		attack.Go(func() {
			headers := []int{offTail, offHead, offWaiting, l.Bytes() + offTail, l.Bytes() + offHead, l.Bytes() + offWaiting}
			for !stop.Load() {
				at, value := headers[random.IntN(len(headers))], random.Uint64()
				switch random.IntN(3) {
				case 0:
					at = random.IntN(len(p.mem)/8) * 8
				case 1:
					value >>= 60
				}
				atomic.StoreUint64((*uint64)(unsafe.Pointer(&p.mem[at])), value)
				_ = p.out.bell.Ring(p.out.waiting)
			}
		})
		timer := time.AfterFunc(time.Second, func() { _ = p.cmd.Process.Kill() }) // It did not notice.
		code := p.exit(t)
		timer.Stop()
		stop.Store(true)
		attack.Wait()
		require.Contains(t, []int{0, corruptExit, -1}, code, "exit code of the program in C")
		if code == corruptExit {
			corrupt++
		}
	}
	require.Positive(t, corrupt, "the program in C never found the ring corrupt")
}
