package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// used is a plugin in use, as `plugins list -o json` shows it.
type used struct {
	Process struct {
		Role, Socket string
		PID          int
	}
	Kind, Name, State, Reason, Ended, SHA256 string
	PID, Restarts                            int
	Log                                      []string
	Figures                                  map[string]string
}

// inUse lists the plugins that a process uses, by kind and name.
func inUse(t *testing.T, host int) (map[string]used, error) {
	t.Helper()
	r := mooncake(t, "plugins", "list", "-o", "json", "--plugin-dir", bin)
	require.Equal(t, 0, r.Code, r.Stderr)
	var list []struct{ Instances []used }
	require.NoError(t, json.Unmarshal([]byte(r.Stdout), &list))
	out := map[string]used{}
	for _, p := range list {
		for _, in := range p.Instances {
			if in.Process.PID == host {
				out[in.Kind+"/"+in.Name] = in
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("process %d says nothing of plugins: %s", host, r.Stderr)
	}
	return out, nil
}

// until waits until a plugin of a process is in the wanted state.
func until(t *testing.T, host *cluster.Proc, id string, what string, good func(used) bool) (found used) {
	t.Helper()
	require.NoError(t, cluster.Poll(host, 90*time.Second, func() error {
		all, err := inUse(t, host.PID())
		if err != nil {
			return err
		}
		if found = all[id]; !good(found) {
			return fmt.Errorf("%s is not %s: %+v", id, what, found)
		}
		return nil
	}))
	return found
}

func well(u used) bool { return u.State == "ok" && u.PID != 0 }

// gone waits until a process has ended.
func gone(t *testing.T, pid int, what string) {
	t.Helper()
	require.Eventually(t, func() bool { return programs.Gone(pid) }, time.Minute, 5*time.Millisecond, "%s (process %d) is left", what, pid)
}

// configured writes a configuration and returns its path.
func configured(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "conf.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// own runs every plugin of a pool in a process of its own.
func own() string {
	mode := "{mode: subprocess}"
	return "plugins: {dirs: [" + bin + "], alloc: {arena: " + mode + "}, evict: {lru: " + mode + "}, transport: {tcp: " + mode + "}}\nmaster: {evictor: lru}\n"
}

// TestListOfARunningPool lists which process uses which plugin, through sockets that only this user
// can open. A killed process leaves nothing in the list.
func TestListOfARunningPool(t *testing.T) {
	p := startPool(t, 1, "--config", configured(t, own()))
	master, err := inUse(t, p.master.PID())
	require.NoError(t, err)
	store, err := inUse(t, p.stores[0].PID())
	require.NoError(t, err)
	assert.Equal(t, "master", master["evict/lru"].Process.Role)
	assert.Equal(t, pluginOf(t, p.master.PID(), "mooncake-plugin-evict-lru"), master["evict/lru"].PID)
	assert.Equal(t, pluginOf(t, p.master.PID(), "mooncake-plugin-alloc-arena"), master["alloc/arena"].PID)
	assert.Equal(t, "store", store["transport/tcp"].Process.Role)
	assert.Zero(t, store["transport/tcp"].PID, "it is linked into the store")

	socket := master["evict/lru"].Process.Socket
	for path, mode := range map[string]os.FileMode{socket: 0o600, filepath.Dir(socket): 0o700} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode().Perm(), path)
	}
	r := mooncake(t, "plugins", "list", "--plugin-dir", bin, "--kind", "evict")
	assert.Regexp(t, fmt.Sprintf(`(?m)^evict +lru .* ok +master %d `, p.master.PID()), r.Stdout)

	p.stores[0].Kill()
	_, err = inUse(t, p.stores[0].PID())
	assert.Error(t, err)
	assert.NoFileExists(t, store["transport/tcp"].Process.Socket)
	require.NoError(t, p.master.Signal(syscall.SIGTERM))
	_, err = p.master.Wait(t.Context())
	require.NoError(t, err)
	assert.NoFileExists(t, socket)
}

// TestListShowsWhatFails lists a plugin that does not start again with its last lines. It works
// again after a reload when the cause is gone.
func TestListShowsWhatFails(t *testing.T) {
	trouble := filepath.Join(t.TempDir(), "trouble")
	p := startPool(t, 1, "--config", configured(t,
		"master: {evictor: faulty}\nplugins: {dirs: ["+bin+"], evict: {faulty: {config: {crash_if_exists: "+trouble+"}}}}\n"))
	first := until(t, p.master, "evict/faulty", "well", well)
	require.NoError(t, os.WriteFile(trouble, nil, 0o600))
	require.NoError(t, syscall.Kill(first.PID, syscall.SIGKILL))
	until(t, p.master, "evict/faulty", "being started again", func(u used) bool { return u.Restarts > 0 && u.State != "ok" })
	failed := until(t, p.master, "evict/faulty", "failed", func(u used) bool { return u.State == "failed" })
	assert.Contains(t, failed.Reason+failed.Ended+strings.Join(failed.Log, "\n"), "the frobnicator is missing")
	r := mooncake(t, "plugins", "list")
	assert.Contains(t, r.Stdout, fmt.Sprintf("evict/faulty in master (process %d) is failed", p.master.PID()))
	assert.Contains(t, r.Stdout, "the frobnicator is missing")

	r = mooncake(t, "plugins", "reload", "evict/faulty")
	assert.Equal(t, 1, r.Code, "the cause is still there")
	assert.Contains(t, r.Stderr, "the frobnicator is missing")
	require.NoError(t, os.Remove(trouble))
	r = mooncake(t, "plugins", "reload", "evict/faulty")
	require.Equal(t, 0, r.Code, r.Stderr)
	until(t, p.master, "evict/faulty", "well", well)
	p.mustPutGet(t, "after")
}

// TestPolicyProcessLearnsTheCapacity: a policy in a process of its own learns how much memory there is at the start, once a
// segment is mounted, and when it was started again.
func TestPolicyProcessLearnsTheCapacity(t *testing.T) {
	p := startPool(t, 1, "--config", configured(t, "master: {evictor: faulty}\nplugins: {dirs: ["+bin+"]}\n"))
	learned := func(want int) (all []string) {
		require.NoError(t, cluster.Poll(p.master, 90*time.Second, func() error {
			log := p.master.Tail()
			all = nil
			for _, m := range regexp.MustCompile(`capacity .*bytes=(\d+)`).FindAllStringSubmatch(log[max(strings.LastIndex(log, "ready"), 0):], -1) {
				all = append(all, m[1])
			}
			if len(all) < want {
				return fmt.Errorf("the policy learned %q since its last start", all)
			}
			return nil
		}))
		return all
	}
	first := learned(2)
	assert.Equal(t, "0", first[0], "nothing is mounted at the start")
	require.NotEqual(t, "0", first[1], "a segment is mounted")
	require.NoError(t, syscall.Kill(until(t, p.master, "evict/faulty", "well", well).PID, syscall.SIGKILL))
	until(t, p.master, "evict/faulty", "well again", func(u used) bool { return u.Restarts > 0 && u.State == "ok" })
	assert.Equal(t, first[len(first)-1:], learned(1), "it is told the capacity when it is started again")
}

// TestNoOrphans kills the plugin, the host, or both at once. Every process that they started ends.
func TestNoOrphans(t *testing.T) {
	run := func() (host *cluster.Proc, plugin, child int) {
		log, err := os.Create(filepath.Join(t.TempDir(), "log"))
		require.NoError(t, err)
		defer log.Close()
		host, err = cluster.Start(cluster.Spec{
			Name: "plugins run", Program: filepath.Join(bin, "mooncake"), Env: programs.Environ(), Stdout: log,
			Args: []string{"plugins", "run", filepath.Join(bin, "mooncake-plugin-evict-faulty"), "--config", "spawn=true"},
		})
		require.NoError(t, err)
		t.Cleanup(host.Kill)
		require.NoError(t, cluster.Poll(host, 90*time.Second, func() (err error) {
			if text, err := os.ReadFile(log.Name()); err != nil || !bytes.Contains(text, []byte("plugin is ok")) {
				return errors.Join(err, errors.New("the plugin is starting, and the host ends if it dies now"))
			}
			if plugin, err = cluster.Descendant(host.PID(), "mooncake-plugin-evict-faulty"); err == nil {
				child, err = cluster.Descendant(plugin, "sleep")
			}
			return err
		}))
		return host, plugin, child
	}
	host, plugin, child := run()
	require.NoError(t, syscall.Kill(plugin, syscall.SIGKILL))
	gone(t, child, "the plugin's child")
	require.NoError(t, cluster.Poll(host, 90*time.Second, func() error {
		next, err := cluster.Descendant(host.PID(), "mooncake-plugin-evict-faulty")
		if err == nil && next == plugin {
			err = errors.New("the old one")
		}
		return err
	}), "it is started again")

	host, plugin, child = run()
	host.Kill()
	gone(t, plugin, "the plugin")
	gone(t, child, "the plugin's child")

	_, plugin, child = run()
	require.NoError(t, syscall.Kill(child, syscall.SIGKILL))
	gone(t, child, "the child")
	assert.NoError(t, syscall.Kill(plugin, 0), "the plugin does not mind")
}

func TestPluginsRun(t *testing.T) {
	binary := filepath.Join(bin, "mooncake-plugin-evict-lru")
	r := mooncake(t, "plugins", "run", binary, "--for", "100ms", "-o", "json")
	require.Equal(t, 0, r.Code, r.Stderr+r.Stdout)
	var states []string
	for line := range strings.Lines(r.Stdout) {
		var e struct{ Event, State string }
		require.NoError(t, json.Unmarshal([]byte(line), &e), line)
		if e.Event == "state" {
			states = append(states, e.State)
		}
	}
	assert.Contains(t, states, "ok")

	r = mooncake(t, "plugins", "run", filepath.Join(bin, "mooncake-plugin-transport-tcp"), "--for", "100ms", "--config", `host="127.0.0.1"`, "--config", `advertise=["127.0.0.1"]`)
	assert.Equal(t, 0, r.Code, r.Stderr+r.Stdout)
	r = mooncake(t, "plugins", "run", filepath.Join(bin, "mooncake-plugin-evict-faulty"), "--config", "crash_at_start=true")
	assert.Equal(t, 1, r.Code)
	assert.Contains(t, r.Stderr, "the frobnicator is missing")
	r = mooncake(t, "plugins", "run", filepath.Join(bin, "mooncake-plugin-evict-faulty"), "--config", "colour=red")
	assert.Equal(t, 2, r.Code, "wrong settings are the caller's")
	assert.Contains(t, r.Stderr, "colour")

	p := start(t, "plugins run", "mooncake", "plugins", "run", binary)
	require.NoError(t, cluster.Poll(p, 90*time.Second, func() error { _, err := cluster.Descendant(p.PID(), filepath.Base(binary)); return err }))
	require.NoError(t, p.Signal(os.Interrupt))
	code, err := p.Wait(t.Context())
	require.NoError(t, err)
	assert.Contains(t, []int{0, 1}, code, "1 where it was still starting")
}
