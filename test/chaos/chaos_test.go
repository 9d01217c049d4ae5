// Package chaos breaks pools of real processes, in a short form of make chaos.
package chaos

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/bench/chaos"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// chaosLimit bounds the run; only one that hangs reaches it.
const chaosLimit = 20 * time.Minute

// bin is the folder with the built program.
var bin string

func TestMain(m *testing.M) {
	os.Exit(programs.Main(m, func(dir string) error {
		bin = dir
		return errors.Join(
			programs.Build(nil, "-o", dir+"/", "./cmd/mooncake"),
			programs.Build(nil, "-o", dir+"/mooncake_etcd", "go.etcd.io/etcd/server/v3"))
	}))
}

// least says how many of 1000 keys must be readable after a fault. The last milliseconds before a kill -9 may lose some.
var least = map[string]int{
	"master kill -9": 990, "master SIGTERM": 1000, "master SIGSTOP": 1000,
	"store SIGSTOP": 1000, "store SIGSTOP, two replicas": 1000, "client kill -9": 1000, "link cut": 1000,
	"store kill -9": 990, "store SIGTERM": 1000, "pool kill -9": 990, "pool SIGSTOP": 1000,
	"leader kill -9": 990, "leader SIGTERM": 1000, "leader SIGSTOP": 1000, "leader and store kill -9": 990, "masters kill -9": 990,
	"etcd kill -9": 1000, "etcd SIGSTOP": 1000,
	"leader and its etcd member kill -9": 990, "leader and its etcd member SIGSTOP": 1000,
}

// TestRollingUpgrade: an upgrade from this program to itself, since no other one is here. mooncake bench chaos says how
// to try releases.
func TestRollingUpgrade(t *testing.T) {
	programs.Long(t)
	program := filepath.Join(bin, "mooncake")
	out := programs.Must(t, programs.Spec{
		Program: program,
		Args:    []string{"bench", "chaos", "upgrade", "--from", program, "--rounds", "1", "--etcd", filepath.Join(bin, "mooncake_etcd"), "-o", "json"},
		Limit:   chaosLimit,
	})
	var rows chaos.Rows
	require.NoError(t, json.Unmarshal([]byte(out), &rows), out)
	require.Len(t, rows, 2)
	for i, r := range rows {
		t.Log(r.Fault)
		assert.Zero(t, r.Wrong, r.Details)
		assert.Equal(t, 1000, r.Readable)
		require.NotNil(t, r.Upgrade)
		assert.Equal(t, []int{6, 10}[i], r.Upgrade.Replaced)
		assert.Zero(t, r.Upgrade.Failed, r.Details)
		assert.Positive(t, r.Upgrade.OtherVerified)
	}
}

// TestNothingWrongAndNothingLost applies each fault once. A pause is longer than the time that the
// master lets a store be silent.
func TestNothingWrongAndNothingLost(t *testing.T) {
	programs.Long(t)
	out := programs.Must(t, programs.Spec{
		Program: filepath.Join(bin, "mooncake"),
		Args:    []string{"bench", "chaos", "--rounds", "1", "--pause", "8s", "--client-ttl", "3s", "--etcd", filepath.Join(bin, "mooncake_etcd"), "-o", "json"},
		Limit:   chaosLimit,
	})
	var rows chaos.Rows
	require.NoError(t, json.Unmarshal([]byte(out), &rows), out)
	t.Log(out)
	seen := 0
	for _, r := range rows {
		want, known := least[r.Fault]
		require.True(t, known, "a fault without an expectation: %s", r.Fault)
		assert.Zero(t, r.Wrong, "%s: %q", r.Fault, r.Details)
		assert.Equal(t, 1000, r.Keys, r.Fault)
		assert.GreaterOrEqual(t, r.Readable, want, "keys that are readable after %s", r.Fault)
		assert.Equal(t, 1, r.Rounds, r.Fault)
		if r.Fault != "link cut" { // not every machine can cut one
			seen++
		}
	}
	assert.Equal(t, len(least)-1, seen, "every fault has a row")
}

// TestWithCertificates: stores with copies, the etcd members of an election, and masters of two cells are killed and stopped in
// security mode mtls. A client without a certificate tries all masters meanwhile, those that take over too.
func TestWithCertificates(t *testing.T) {
	programs.Long(t)
	for name, c := range map[string]struct {
		args   []string
		faults []string
	}{
		"one cell":  {[]string{"store-kill", "store-stop-replicated", "embedded-kill"}, []string{"store kill -9", "store SIGSTOP, two replicas", "leader and its etcd member kill -9"}},
		"two cells": {[]string{"leader-kill", "--cells", "2"}, []string{"leader kill -9"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := programs.Must(t, programs.Spec{
				Program: filepath.Join(bin, "mooncake"),
				Args:    append([]string{"bench", "chaos", "--security", "mtls", "--rounds", "1", "--pause", "4s", "--client-ttl", "3s", "--etcd", filepath.Join(bin, "mooncake_etcd"), "-o", "json"}, c.args...),
				Limit:   chaosLimit,
			})
			var rows chaos.Rows
			require.NoError(t, json.Unmarshal([]byte(out), &rows), out)
			t.Log(out)
			require.Len(t, rows, len(c.faults))
			for i, r := range rows {
				assert.Equal(t, c.faults[i], r.Fault)
				assert.Zero(t, r.Wrong, "%s: %q", r.Fault, r.Details)
				assert.GreaterOrEqual(t, r.Readable, least[r.Fault], "keys that are readable after %s", r.Fault)
				assert.Positive(t, r.StrangerTries, r.Fault)
				assert.Zero(t, r.StrangersServed, r.Fault)
			}
		})
	}
}

// TestMemoryInFiles kills stores and the whole pool whose memory lies in files, with neither a keeper nor systemd.
func TestMemoryInFiles(t *testing.T) {
	programs.Long(t)
	var fs unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		t.Skipf("/dev/shm is no tmpfs: %v", err)
	}
	out := programs.Must(t, programs.Spec{
		Program: filepath.Join(bin, "mooncake"),
		Args:    []string{"bench", "chaos", "store-kill", "store-term", "pool-kill", "--keep-dir", "/dev/shm", "--rounds", "2", "--client-ttl", "3s", "-o", "json"},
		Limit:   chaosLimit,
	})
	var rows chaos.Rows
	require.NoError(t, json.Unmarshal([]byte(out), &rows), out)
	t.Log(out)
	require.Len(t, rows, 3)
	for _, r := range rows {
		assert.Zero(t, r.Wrong, "%s: %q", r.Fault, r.Details)
		assert.GreaterOrEqual(t, r.Readable, least[r.Fault], "keys that are readable after %s", r.Fault)
		assert.Equal(t, 2, r.Rounds, r.Fault)
	}
	left, err := filepath.Glob("/dev/shm/mooncake-chaos-*")
	require.NoError(t, err)
	assert.Empty(t, left, "the files go with the pool")
}
