package file

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// device is a block device of the device mapper with a file system, whose faults the kernel makes.
type device struct {
	t                *testing.T
	name, loop, path string
	sectors          int64
}

// deviceBytes is the size of a device: the volume of a rig, the file system, and what is left.
const deviceBytes = 128 << 20

// newDevice makes a device that works. The test is skipped where the kernel has no device mapper.
func newDevice(t *testing.T, mkfs ...string) *device {
	if _, err := os.Stat("/dev/mapper/control"); err != nil || os.Getuid() != 0 {
		t.Skip("needs root and the device mapper; make test-rdma runs it in a VM that has it: ", err)
	}
	file := filepath.Join("/dev/shm", fmt.Sprintf("tier-file-%d", os.Getpid()))
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Truncate(file, deviceBytes))
	t.Cleanup(func() { os.Remove(file) })
	d := &device{t: t, name: fmt.Sprintf("tier-file-%d", os.Getpid()), path: t.TempDir(), sectors: deviceBytes / 512}
	d.loop = d.run("losetup", "--find", "--show", file)
	t.Cleanup(func() { d.run("losetup", "--detach", d.loop) })
	d.run("dmsetup", "create", d.name, "--table", d.table("linear", 0))
	t.Cleanup(func() { d.run("dmsetup", "remove", "--retry", d.name) })
	d.run("mkfs.ext4", append(mkfs, "-q", d.node())...)
	d.mount()
	t.Cleanup(d.unmount)
	t.Cleanup(d.works)
	return d
}

func (d *device) node() string { return "/dev/mapper/" + d.name }

func (d *device) run(name string, args ...string) string {
	d.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "DM_DISABLE_UDEV=1") // dmsetup makes the nodes itself
	out, err := cmd.CombinedOutput()
	require.NoError(d.t, err, "%s %q: %s", name, args, out)
	return strings.TrimSpace(string(out))
}

func (d *device) mount()   { d.run("mount", "-t", "ext4", d.node(), d.path) }
func (d *device) unmount() { d.run("umount", d.path) }

// table is the mapping of the whole device by a target. What follows the name of the loop device
// are the arguments of the target.
func (d *device) table(target string, args ...any) string {
	line := fmt.Sprintf("0 %d %s", d.sectors, target)
	if target == "error" {
		return line
	}
	return strings.TrimSpace(line + " " + d.loop + " " + fmt.Sprintln(args...))
}

// becomes gives the device another mapping. What is in flight ends by the mapping of before.
func (d *device) becomes(target string, args ...any) {
	d.t.Helper()
	d.run("dmsetup", "load", d.name, "--table", d.table(target, args...))
	d.run("dmsetup", "suspend", "--nolockfs", d.name)
	d.run("dmsetup", "resume", d.name)
}

func (d *device) works()       { d.becomes("linear", 0) }
func (d *device) losesWrites() { d.becomes("flakey", 0, 0, 3600, 1, "drop_writes") }
func (d *device) fails()       { d.becomes("error") }

// delays has the device complete each operation later.
func (d *device) delays(by time.Duration) { d.becomes("delay", 0, by.Milliseconds()) }

// eachDevice runs a test with each engine on a device of its own.
func eachDevice(t *testing.T, test func(*testing.T, setup, *device), mkfs ...string) {
	for _, s := range setups(t) {
		if s.v.buffered || s.v.anyDirect || s.tmp != "" {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			d := newDevice(t, mkfs...)
			s.tmp = d.path
			test(t, s, d)
		})
	}
}

// startOn starts a tier on a device and checks that it reaches the device, not the page cache.
func (s setup) startOn(t *testing.T, dir string) *rig {
	r := s.start(t, dir)
	require.True(t, r.files.direct)
	return r
}

// reads reads a record, and returns whether it was there. If it was, its bytes are right.
func (r *rig) reads(f tier.Found) bool {
	r.t.Helper()
	_, value := numbered(f.Record.Version.Put, f.Record.Size)
	got, c := r.read(f, 0, f.Record.Size, false)
	if c.Err != nil {
		require.Contains(r.t, []errs.Code{errs.ObjectNotFound, errs.ChecksumMismatch, errs.FileReadFail, errs.RPCTimeout}, errs.CodeOf(c.Err))
		return false
	}
	require.True(r.t, bytes.Equal(value, got), "the value of %s", f.Record.Key)
	return true
}

// TestDeviceLosesWrites: the device says that it wrote, and did not. Neither what it did not write is
// read, nor what was there before.
func TestDeviceLosesWrites(t *testing.T) {
	eachDevice(t, func(t *testing.T, s setup, d *device) {
		r := s.startOn(t, s.folder(t))
		var kept, lost []tier.Found
		for i := range uint64(8) {
			kept = append(kept, r.write(i, 300_000, false))
		}
		stale := kept[0]
		require.NoError(t, r.Forget(t.Context(), []tier.Locator{stale.At}))
		d.losesWrites()
		lost = append(lost, r.write(0, 300_000, false))
		require.Equal(t, stale.At[0], lost[0].At[0], "in the place of what was forgotten")
		for i := range uint64(8) {
			lost = append(lost, r.write(100+i, 300_000, false))
		}
		d.works()
		for _, f := range lost {
			r.refuses(f, errs.ObjectNotFound)
		}
		for _, f := range kept[1:] {
			r.wants(f)
		}
		r.wants(r.write(200, 300_000, false))
	})
}

// TestDeviceFails: the device fails each operation, and works again. The volume takes no more writes
// until it is opened again, and the records that it has are read.
func TestDeviceFails(t *testing.T) {
	eachDevice(t, func(t *testing.T, s setup, d *device) {
		dir := s.folder(t)
		r := s.startOn(t, dir)
		f := r.write(2, 300_000, false)
		require.NoError(t, r.Flush(t.Context()))
		d.fails()
		r.refuses(f, errs.FileReadFail)
		rec, _ := numbered(3, 300_000)
		last := error(nil)
		for range manyFaults {
			last = r.one(tier.Op{Kind: tier.Write, Record: rec, Local: [][]byte{r.mem[:300_000]}}).Err
		}
		require.Equal(t, errs.FileWriteFail, errs.CodeOf(last))
		require.Equal(t, errs.ClassLocalDevice, errs.ClassOf(last))
		d.works()
		r.wants(f)
		require.NoError(t, r.Stop(t.Context()))
		r = s.startOn(t, dir)
		r.wants(f)
		r.wants(r.write(4, 300_000, false))
	}, "-O", "^has_journal") // which the kernel would end the file system for
}

// TestDeviceVanishes: the device is gone, and with it the file system, which the kernel ends. The tier stops,
// and has everything again on the device that is back.
func TestDeviceVanishes(t *testing.T) {
	eachDevice(t, func(t *testing.T, s setup, d *device) {
		dir := s.folder(t)
		r := s.startOn(t, dir)
		var kept []tier.Found
		for i := range uint64(8) {
			kept = append(kept, r.write(i, 300_000, false))
		}
		require.NoError(t, r.Flush(t.Context()))
		d.fails()
		for i := range uint64(2 * manyFaults) {
			rec, value := numbered(100+i, 300_000)
			put([][]byte{r.mem[:300_000]}, value)
			r.one(tier.Op{Kind: tier.Write, Record: rec, Local: [][]byte{r.mem[:300_000]}})
			_, c := r.read(kept[0], 0, 300_000, false)
			require.Equal(t, errs.FileReadFail, errs.CodeOf(c.Err))
		}
		require.NoError(t, r.Stop(t.Context()))
		d.unmount()
		d.works()
		d.mount()
		r = s.startOn(t, dir)
		for _, f := range kept {
			r.wants(f)
		}
	})
}

// TestDeviceHangs: the device does not answer. An operation ends at its deadline, and its memory is
// free at the latest when the device answers.
func TestDeviceHangs(t *testing.T) {
	eachDevice(t, func(t *testing.T, s setup, d *device) {
		r := s.startOn(t, s.folder(t))
		f := r.write(2, 300_000, false)
		d.run("dmsetup", "suspend", "--nolockfs", d.name)
		r.submit(tier.Op{ID: 9, Kind: tier.Read, Record: f.Record, At: f.At, Local: [][]byte{r.mem[:300_000]}, Deadline: time.Now().Add(50 * time.Millisecond)})
		c := r.reapOne()
		require.Equal(t, errs.RPCTimeout, errs.CodeOf(c.Err))
		require.NotZero(t, r.stats().Oldest)
		d.run("dmsetup", "resume", d.name)
		if c.Status == tier.Quarantined {
			require.Equal(t, tier.Completion{ID: 9, Status: tier.Returned}, r.reapOne())
		}
		require.Eventually(t, func() bool { return r.stats().Oldest == 0 }, time.Minute, time.Millisecond)
		r.wants(f)
		d.delays(100 * time.Millisecond)
		r.wants(f)
		r.wants(r.write(4, 300_000, false))
	})
}

// TestDeviceLosesPower: nothing that is written after a moment reaches the device, as when it loses
// power. What was flushed is there afterwards, what was not is there or not, and no byte is wrong.
func TestDeviceLosesPower(t *testing.T) {
	eachDevice(t, func(t *testing.T, s setup, d *device) {
		dir := s.folder(t)
		r := s.startOn(t, dir)
		var flushed []tier.Found
		for i := range uint64(20) {
			flushed = append(flushed, r.write(i, 1+i*77_777%900_000, false))
		}
		require.NoError(t, r.Flush(t.Context()))
		for i := range uint64(20) {
			r.write(100+i, 1+i*77_777%900_000, false)
		}
		d.losesWrites()
		gone := flushed[:4]
		require.NoError(t, r.Forget(t.Context(), []tier.Locator{gone[0].At, gone[1].At, gone[2].At, gone[3].At}))
		for i := range uint64(20) {
			r.write(200+i, 1+i*77_777%900_000, false)
		}
		require.NoError(t, r.Stop(t.Context()))
		d.unmount()
		d.works()
		d.mount()
		r = s.startOn(t, dir)
		for _, f := range flushed[4:] {
			r.wants(f)
		}
		for _, f := range r.scan(7) {
			r.reads(f)
		}
		r.wants(r.write(999, 500_000, false))
	})
}

// TestDeviceMoods has the device change its behavior again and again under reads and writes: each
// read returns the bytes that were written, or an error.
func TestDeviceMoods(t *testing.T) {
	eachDevice(t, func(t *testing.T, s setup, d *device) {
		r := s.startOn(t, s.folder(t))
		rnd := rand.New(rand.NewPCG(1, 2))
		moods := []func(){
			d.losesWrites,
			func() { d.delays(time.Duration(rnd.IntN(3)) * time.Millisecond) },
			func() { d.becomes("flakey", 0, 1, 1) }, // works for a second, and fails for another
		}
		var held []tier.Found
		number, right, refused := uint64(0), 0, 0
		for round := range 2 * len(moods) {
			if round%2 == 0 {
				d.works() // or the volume would soon take no more writes
			} else {
				moods[round/2]()
			}
			for range 15 {
				number++
				rec, value := numbered(number, 1+rnd.Uint64N(200_000))
				local := r.place(0, rec.Size, false)
				put(local, value)
				if c := r.one(tier.Op{Kind: tier.Write, Record: rec, Local: local}); c.Err == nil {
					held = append(held, tier.Found{Record: rec, At: c.At})
				}
				if f := held[len(held)-1-rnd.IntN(min(len(held), 20))]; r.reads(f) {
					right++
				} else {
					refused++
				}
				if len(held) > 50 {
					i := rnd.IntN(len(held))
					require.NoError(t, r.Forget(context.Background(), []tier.Locator{held[i].At}))
					held[i] = held[len(held)-1]
					held = held[:len(held)-1]
				}
			}
		}
		t.Logf("%d reads were right, %d refused", right, refused)
		d.works()
		if err := r.Stop(t.Context()); err != nil { // A sync may have failed before.
			require.Equal(t, errs.FileWriteFail, errs.CodeOf(err))
		}
		require.NotZero(t, right)
		require.NotZero(t, refused)
	}, "-O", "^has_journal")
}
