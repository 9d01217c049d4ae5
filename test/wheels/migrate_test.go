package wheels

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// guide is docs/migrate.md: its commands by the headings that they stand under, in order, with other ports.
type guide struct {
	commands map[string][]string
	env      []string
}

var (
	headings = regexp.MustCompile(`(?m)^## (.*)$`)
	blocks   = regexp.MustCompile("(?s)```sh\n(.*?)```")
)

func readGuide(t testing.TB, rpc, metrics string) *guide {
	t.Helper()
	text, err := os.ReadFile("../../docs/migrate.md")
	require.NoError(t, err)
	text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("50051"), []byte(rpc)), []byte("9003"), []byte(metrics))
	g := &guide{commands: map[string][]string{}}
	at := headings.FindAllSubmatchIndex(text, -1)
	for i, h := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		for _, b := range blocks.FindAllSubmatch(text[h[1]:end], -1) {
			title := string(text[h[2]:h[3]])
			g.commands[title] = append(g.commands[title], string(b[1]))
		}
	}
	return g
}

// do runs one block of commands as an operator does, with the names of the guide.
func (g *guide) do(t testing.TB, heading string, block int) {
	t.Helper()
	require.Greater(t, len(g.commands[heading]), block, "docs/migrate.md has no block %d under %q", block, heading)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", g.commands[heading][block])
	cmd.Env, cmd.Dir = g.env, t.TempDir()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", g.commands[heading][block], out)
}

// TestMigration does what docs/migrate.md says, with clients of upstream in the pool: to this project and back. The
// exchange of the Python package of an engine is the end of one client and the start of another.
func TestMigration(t *testing.T) {
	if control {
		t.Skip("the guide is about both masters")
	}
	wheels(t)
	const version = "0.3.13.post1"
	run(t, version, "migration", func(c *check) { migrate(c, version) })
}

func migrate(c *check, version string) {
	const exchange, stores, closeDoor, back = "1. Exchange the master", "2. Exchange the engines and stores", "3. Close the door", "Back to upstream"
	ports, err := cluster.FreePorts(2)
	require.NoError(c, err)
	ours := c.TempDir()
	for _, name := range []string{"mooncake", "mooncake_master"} {
		require.NoError(c, os.Symlink(filepath.Join(bin, "mooncake"), filepath.Join(ours, name)))
	}
	rpc := strconv.Itoa(ports[0])
	g := readGuide(c, rpc, strconv.Itoa(ports[1]))
	g.env = append(environ(version), "OURS="+ours, "UPSTREAM="+environment(version))
	c.Cleanup(func() { // The programs of the guide run in the background.
		_ = exec.Command("pkill", "-KILL", "-f", "--", "--rpc_port="+rpc).Run()
		_ = exec.Command("pkill", "-KILL", "-f", "--", "--master_server_address 127.0.0.1:"+rpc).Run()
	})
	m := &master{rpc: net.JoinHostPort("127.0.0.1", rpc), admin: net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[1]))}
	answers := func(what string) {
		until(c, what, func() bool {
			conn, err := net.DialTimeout("tcp", m.rpc, time.Second)
			if err == nil {
				conn.Close()
			}
			_, asked := m.ask(c.Context(), "/get_all_segments")
			return err == nil && asked == nil
		})
	}
	complete := func(n int) {
		until(c, fmt.Sprintf("%d segments", n), func() bool {
			_, err := m.ask(c.Context(), "/get_all_segments")
			return err == nil && len(m.segments(c)) == n
		})
	}

	g.do(c, back, 0) // There is no master of ours to stop yet.
	answers("upstream's master")
	a, b := startClient(c, version, m, segment), startClient(c, version, m, segment)
	before := objects("before", 1, 1, 300_000, 3<<20)
	a.mustPut(c, "put", nil, before)
	b.mustGet(c, "get", before)

	g.do(c, exchange, 0)
	g.do(c, exchange, 1)
	complete(2)
	require.Zero(c, b.held(c, before), "the cache is cold, as the guide says")
	after := objects("after", 1, 1, 300_000, 3<<20)
	a.mustPut(c, "put", nil, after)
	b.mustGet(c, "get", after)

	g.do(c, stores, 1)
	complete(3)
	own := object{"own", 1, 300_000}
	oursPut(c, m, own)
	b.mustGet(c, "get", []object{own})
	require.Equal(c, after[2].value(), oursGet(c, m, after[2]))
	a.close(c)
	b.close(c)
	complete(1)
	kept := object{"kept", 1, 3 << 20}
	oursPut(c, m, kept)

	g.do(c, closeDoor, 0)
	answers("the master without upstream's clients")
	complete(1)
	until(c, "the store says that it obeys the new master, and the pool is warm", func() bool {
		got := oursGet(c, m, kept)
		return got != nil && *got == *kept.value()
	})
	late := launchClient(c, version, nil)
	rcs := late.call(c, map[string]any{"call": "setup", "master": m.rpc, "segment": segment, "buffer": buffer}).RCs
	require.NotEqual(c, []int{0}, rcs, "the door is closed")

	stop := exec.Command("pkill", "-TERM", "-f", "--", "--rpc_port="+rpc)
	require.NoError(c, stop.Run())
	until(c, "the master ends", func() bool { return exec.Command("pgrep", "-f", "--", "--rpc_port="+rpc).Run() != nil })
	g.do(c, exchange, 0)
	answers("the master of step 1")
	complete(1)
	d := startClient(c, version, m, segment)
	until(c, "the store says that it obeys the new master", func() bool { return d.held(c, []object{kept}) == 1 })
	d.mustGet(c, "get", []object{kept})
	require.NoError(c, exec.Command("pkill", "-TERM", "-f", "--", "--master_server_address 127.0.0.1:"+rpc).Run())
	complete(1)

	g.do(c, back, 0)
	answers("upstream's master")
	complete(1)
	last := objects("last", 1, 1, 300_000)
	d.mustPut(c, "put", nil, last)
	e := startClient(c, version, m, 0)
	e.mustGet(c, "get", last)
	r := programs.Run(c, programs.Spec{
		Program: filepath.Join(bin, "mooncake"), Args: []string{"client", "get", "last/0", "--master", m.rpc, "--local_hostname", "127.0.0.1"},
	})
	require.NotZero(c, r.Code)
	require.Contains(c, r.Stderr, "upstream", "our client says why it does not go on")
	c.notef("from upstream's master to ours and back, with engines running")
}
