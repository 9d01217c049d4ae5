package file

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/tier"
)

// crashEnv has the test binary write records without end: the folder, and which engine.
const (
	crashEnv = "MOONCAKE_TIER_FILE_CRASH"
	crashIO  = "MOONCAKE_TIER_FILE_CRASH_IO"
)

// crashBatch is how many records are written between two lines of the child.
const crashBatch = 8

// crashLine is what the child says after each batch: the records that must be there if it is killed,
// and those that must not.
type crashLine struct {
	Flushed bool
	Put     uint64 // the highest number so far
}

// crashSize is the size of a record of the child.
func crashSize(number uint64) uint64 { return 1 + number*7919%900_000 }

// crashChild writes records of rising numbers and forgets old ones, until it is killed.
func crashChild(path string) int {
	s := setup{io: os.Getenv(crashIO)}
	t := newTier(s.config(path), variant{fileBytes: 24 << 20})
	ctx := context.Background()
	if err := t.Start(ctx, newHost()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := t.Register(ctx, tier.Region{ID: 1, Mem: memory, FD: -1}); err != nil {
		return 1
	}
	out := json.NewEncoder(os.Stdout)
	var at []tier.Locator
	for number := uint64(1); ; {
		ops := make([]tier.Op, crashBatch)
		for i := range ops {
			rec, value := numbered(number, crashSize(number))
			local := memory[i<<20:][:rec.Size]
			copy(local, value)
			ops[i] = tier.Op{ID: uint64(i), Kind: tier.Write, Record: rec, Local: [][]byte{local}}
			number++
		}
		if n, err := t.Submit(ops); n < len(ops) || err != nil {
			return 2
		}
		dst := make([]tier.Completion, crashBatch)
		for done := 0; done < len(ops); {
			n, err := t.Reap(ctx, dst)
			if err != nil {
				return 3
			}
			for _, c := range dst[:n] {
				if c.Status != tier.OK {
					fmt.Fprintln(os.Stderr, c.Err)
					return 4
				}
				at = append(at, c.At)
			}
			done += n
		}
		line := crashLine{Put: number - 1}
		if len(at) > 5*crashBatch {
			if err := t.Forget(ctx, at[:crashBatch]); err != nil {
				return 5
			}
			at = at[crashBatch:]
		}
		if number%3 == 0 {
			if err := t.Flush(ctx); err != nil {
				return 6
			}
			line.Flushed = true
		}
		if err := out.Encode(line); err != nil {
			return 7
		}
	}
}

// TestKilled kills a process in the middle of writes, again and again on one volume. What is found
// afterwards reads back right, and what was flushed is found.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("needs processes")
	}
	each(t, func(t *testing.T, s setup) {
		if s.v.anyDirect || s.v.buffered {
			t.Skip("the process has its own way of reading and writing")
		}
		dir := s.folder(t)
		for round := range 3 {
			flushed := killed(t, dir, s.io, 20+round*7)
			r := s.start(t, dir)
			found := map[uint64]bool{}
			// The child forgets the oldest after each batch, and keeps 5 batches. What it has forgotten may be found again,
			// and may be overwritten in part.
			for _, f := range r.scan(10) {
				if put := f.Record.Version.Put; put+2*crashBatch > flushed {
					r.wants(f)
					found[put] = true
				} else {
					r.reads(f)
				}
			}
			for put := flushed - 2*crashBatch + 1; put <= flushed; put++ {
				require.True(t, found[put], "record %d was flushed", put)
			}
			r.wants(r.write(999_999, 500_000, false))
			for _, f := range r.scan(10) {
				require.NoError(t, r.Forget(t.Context(), []tier.Locator{f.At}))
			}
			require.Zero(t, r.reservedNow())
			require.NoError(t, r.Stop(t.Context()))
		}
	})
}

// killed runs the child for so many batches and kills it. It returns the highest number that was
// flushed.
func killed(t *testing.T, dir, io string, batches int) (flushed uint64) {
	child := exec.Command(os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), crashEnv+"="+dir, crashIO+"="+io)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		var l crashLine
		require.NoError(t, json.Unmarshal(lines.Bytes(), &l))
		if l.Flushed {
			flushed = l.Put
		}
		if n == batches {
			require.NoError(t, child.Process.Kill())
			// What it said before it died still counts.
		}
	}
	require.Error(t, child.Wait())
	require.Equal(t, -1, child.ProcessState.ExitCode(), "it was killed")
	require.NotZero(t, flushed)
	return flushed
}
