package pluginhost

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/pluginhost/internal/testplugin"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

var (
	faultyEvict = plugin.ID{Kind: plugin.KindEvict, Name: "faulty"}
	faultyAlloc = plugin.ID{Kind: plugin.KindAlloc, Name: "faulty"}
	faultyTier  = plugin.ID{Kind: plugin.KindTier, Name: "faulty"}
	// faultyDir is the folder with the built test plugins.
	faultyDir string
)

// asHost names a folder. It makes the test binary a host that starts the plugin in that folder,
// prints its process number, and waits.
const asHost = "MOONCAKE_PLUGINS_TEST_HOST"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asHost); dir != "" {
		host(dir)
	}
	dir, err := os.MkdirTemp("", "plugins")
	if err == nil {
		err = testplugin.Build(context.Background(), dir, "evict", "alloc", "tier")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	faultyDir = dir
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

func host(dir string) {
	c, err := New(nil, Options{Dirs: []string{dir}})
	if err != nil {
		panic(err)
	}
	p, err := c.OpenEvict(context.Background(), faultyEvict, Spec{Config: map[string]any{"spawn": true}}, EvictOptions{})
	if err != nil {
		panic(err)
	}
	if err := p.Start(context.Background(), nil); err != nil {
		panic(err)
	}
	if _, err := p.Stats(context.Background()); err != nil {
		panic(err)
	}
	fmt.Println(c.Instances()[0].PID)
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	os.Exit(0)
}

func insert(ids ...evict.ID) []evict.Event {
	out := make([]evict.Event, len(ids))
	for i, id := range ids {
		out[i] = evict.Event{Op: evict.Insert, ID: id, Size: 1}
	}
	return out
}

// install copies a test plugin into a folder and returns the path of the copy.
func install(t *testing.T, dir, name string, content []byte) string {
	t.Helper()
	return testplugin.Put(t, dir, name, content)
}

func folder(t *testing.T) string {
	t.Helper()
	return testplugin.Folder(t)
}
