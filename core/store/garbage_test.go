package store_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
)

// poolProcess is set in the process of TestPoolProcess.
const poolProcess = "MOONCAKE_TEST_POOL_PROCESS"

// TestPoolProcess is no test but a process with a master and a node, for tests that count what
// a client by itself allocates. It ends with its standard input.
func TestPoolProcess(t *testing.T) {
	if os.Getenv(poolProcess) == "" {
		t.Skip("it is run by others")
	}
	c := newCluster(t)
	c.member(memberOptions{segments: []uint64{2 * segment}})
	fmt.Println("\nmaster", c.addr)
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // Its end is what is waited for.
}

// far is a cluster whose master and node are in a process of their own.
func far(t testing.TB) *cluster {
	cmd := exec.Command(os.Args[0], "-test.run=^TestPoolProcess$", "-test.v")
	cmd.Env = append(os.Environ(), poolProcess+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, in.Close())
		require.NoError(t, cmd.Wait())
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if addr, ok := strings.CutPrefix(lines.Text(), "master "); ok {
			return &cluster{pool: &pool{t: t}, addr: addr}
		}
	}
	t.Fatal("the process with the master ended")
	return nil
}

// pages is a batch of objects in registered memory of a client.
type pages struct {
	keys   []model.Key
	values [][]byte
	into   [][]byte
}

func newPages(t testing.TB, m *member, n, size int) *pages {
	p := &pages{}
	all := make([]byte, 2*n*size)
	require.NoError(t, m.RegisterBuffer(t.Context(), all, "cpu:0"))
	for i := range n {
		p.keys = append(p.keys, fmt.Sprint("page/", n, "/", size, "/", i))
		p.values, p.into = append(p.values, all[:size:size]), append(p.into, all[size:2*size:2*size])
		all = all[2*size:]
		copy(p.values[i], content(p.keys[i], size))
	}
	return p
}

// get reads the batch, a single page by GetInto.
func (p *pages) get(ctx context.Context, t testing.TB, m *member) {
	if len(p.keys) == 1 {
		if n, err := m.GetInto(ctx, p.keys[0], p.into[0]); err != nil || n != len(p.into[0]) {
			t.Error(n, err)
		}
		return
	}
	for _, r := range m.BatchGetInto(ctx, p.keys, p.into) {
		if r.Err != nil {
			t.Error(r.Err)
		}
	}
}

// put writes the batch, a single page by Put.
func (p *pages) put(ctx context.Context, t testing.TB, m *member) {
	if len(p.keys) == 1 {
		if err := m.Put(ctx, p.keys[0], p.values[0], one); err != nil {
			t.Error(err)
		}
		return
	}
	for _, err := range m.BatchPut(ctx, p.keys, p.values, one) {
		if err != nil {
			t.Error(err)
		}
	}
}

// check compares what was read with what was put.
func (p *pages) check(t testing.TB) {
	for i := range p.into {
		require.Equal(t, p.values[i], p.into[i], p.keys[i])
		clear(p.into[i])
	}
}

func (p *pages) remove(ctx context.Context, t testing.TB, m *member) {
	for _, err := range m.BatchRemove(ctx, p.keys, true) {
		if err != nil {
			t.Error(err)
		}
	}
}

var shapes = []struct{ n, size int }{{1, 4 << 10}, {1, 1 << 20}, {64, 4 << 10}}

// BenchmarkClient is what a get and a put cost the client, whose master and node are elsewhere.
func BenchmarkClient(b *testing.B) {
	m := far(b).member(memberOptions{})
	ctx := context.Background()
	for _, s := range shapes {
		p := newPages(b, m, s.n, s.size)
		b.Run(fmt.Sprintf("put/%dx%d", s.n, s.size), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(s.n * s.size))
			for b.Loop() {
				p.put(ctx, b, m)
				b.StopTimer()
				p.remove(ctx, b, m)
				b.StartTimer()
			}
		})
		p.put(ctx, b, m)
		b.Run(fmt.Sprintf("get/%dx%d", s.n, s.size), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(s.n * s.size))
			for b.Loop() {
				p.get(ctx, b, m)
			}
		})
	}
}
