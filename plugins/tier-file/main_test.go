package file

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/aio"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(crashEnv); path != "" {
		os.Exit(crashChild(path))
	}
	if path := os.Getenv(forbidEnv); path != "" {
		os.Exit(forbidChild(path))
	}
	goleak.VerifyTestMain(m)
}

// host records what the tier reports.
type host struct {
	health chan plugin.Health
	log    io.Writer
}

func newHost() *host { return &host{make(chan plugin.Health, 64), io.Discard} }

func (h *host) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(h.log, nil)) }

func (h *host) Report(s plugin.Health) {
	select {
	case h.health <- s:
	default:
	}
}

// setup is a combination of engine and ways that tests run with.
type setup struct {
	name string
	io   string
	v    variant
	tmp  string // parent of the folder, "" for the test's own
}

// setups are all ways of reading and writing. Those with io_uring are left out where the kernel
// refuses it.
func setups(t testing.TB) []setup {
	all := []setup{
		{name: "pread", io: IOPread},
		{name: "pread,direct", io: IOPread, v: variant{anyDirect: true}},
		{name: "pread,page_cache", io: IOPread, v: variant{buffered: true}},
	}
	r, err := aio.NewRing()
	if err != nil {
		t.Log("this machine has no io_uring: ", err)
		return all
	}
	require.NoError(t, r.Close(context.Background()))
	all = append(all,
		setup{name: "io_uring", io: IORing},
		setup{name: "io_uring,direct", io: IORing, v: variant{anyDirect: true}},
	)
	if _, err := os.Stat("/dev/shm"); err == nil {
		all = append(all, setup{name: "io_uring,tmpfs", io: IORing, tmp: "/dev/shm"})
	}
	return all
}

// each runs a test with all setups.
func each(t *testing.T, test func(*testing.T, setup)) {
	for _, s := range setups(t) {
		t.Run(s.name, func(t *testing.T) { test(t, s) })
	}
}

func (s setup) folder(t testing.TB) string {
	if s.tmp == "" {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(s.tmp, "tier-file")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// rig is a tier that was started, with one region of memory.
type rig struct {
	*fileTier
	t    testing.TB
	mem  []byte
	host *host
	next uint64
}

const rigMemory = 64 << 20

// memory is page-aligned and shared by the rigs, which run one after the other.
var memory = func() []byte {
	b := make([]byte, rigMemory+4096)
	skip := -uint64(address(b)) % 4096
	return b[skip : skip+rigMemory]
}()

func (s setup) config(path string) Config {
	c := *DefaultConfig()
	c.Path, c.IO, c.Capacity, c.StagingBytes = path, s.io, 64<<20, 8<<20
	return c
}

func (s setup) start(t testing.TB, path string, change ...func(*fileTier)) *rig {
	v := s.v
	if v.fileBytes == 0 {
		v.fileBytes = 24 << 20 // so that there are three
	}
	r := &rig{fileTier: newTier(s.config(path), v), t: t, mem: memory, host: newHost()}
	for _, c := range change {
		c(r.fileTier)
	}
	require.NoError(t, r.Start(context.Background(), r.host))
	require.NoError(t, r.Register(context.Background(), tier.Region{ID: 1, Mem: r.mem, FD: -1}))
	t.Cleanup(func() { require.NoError(t, r.Stop(context.Background())) })
	return r
}

// all submits operations and returns their completions.
func (r *rig) all(ops ...tier.Op) []tier.Completion {
	r.t.Helper()
	list := make([]tier.Completion, len(ops))
	first := r.next
	r.next += uint64(len(ops))
	for i := range ops {
		ops[i].ID = first + uint64(i)
	}
	dst := make([]tier.Completion, 7)
	for done := 0; done < len(list); {
		n, err := r.Submit(ops)
		require.NoError(r.t, err)
		ops = ops[n:]
		n, err = r.Reap(context.Background(), dst)
		require.NoError(r.t, err)
		for _, c := range dst[:n] {
			require.Zero(r.t, list[c.ID-first].Status, "an operation completed twice")
			list[c.ID-first] = c
		}
		done += n
	}
	return list
}

func (r *rig) one(o tier.Op) tier.Completion {
	r.t.Helper()
	return r.all(o)[0]
}

func (r *rig) stats() tier.Stats {
	r.t.Helper()
	s, err := r.Stats(context.Background())
	require.NoError(r.t, err)
	return s
}

// scan returns all records, the one that was written last first.
func (r *rig) scan(at int) (all []tier.Found) {
	r.t.Helper()
	dst := make([]tier.Found, at)
	for c := (tier.Cursor{}); ; {
		n, next, err := r.Scan(context.Background(), c, dst)
		require.NoError(r.t, err)
		if n == 0 {
			return all
		}
		all, c = append(all, dst[:n]...), next
	}
}

// fill makes the bytes of a value from its number. They differ in every page.
func fill(b []byte, number uint64) {
	x := number*0x9e3779b97f4a7c15 + 1
	next := func() uint64 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		return x
	}
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, next())
	}
	for i := range b {
		b[i] = byte(next())
	}
}
