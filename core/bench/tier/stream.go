package tier

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// volume is a tier that is measured, with the records that it has.
type volume struct {
	t       tier.Tier
	mem     *memory.Block // of the operations in flight, one record each
	size    int
	records []tier.Found
}

const regionID = 1

// open registers the memory of the operations: huge pages where some are free, as fio takes them.
func open(ctx context.Context, t tier.Tier, records, size, depth int) (*volume, error) {
	mem, err := memory.Allocate(uint64(depth*size), memory.Options{Name: "mooncake-bench", HugePages: memory.Huge2M})
	if err != nil {
		mem, err = memory.Allocate(uint64(depth*size), memory.Options{Name: "mooncake-bench"})
	}
	if err != nil {
		return nil, fmt.Errorf("memory for %d records in flight: %w", depth, err)
	}
	v := &volume{t: t, mem: mem, size: size, records: make([]tier.Found, records)}
	if err := t.Register(ctx, tier.Region{ID: regionID, Mem: mem.Bytes(), FD: mem.FD()}); err != nil {
		return nil, errors.Join(err, mem.Close())
	}
	return v, nil
}

func (v *volume) close(ctx context.Context) error {
	if err := v.t.Deregister(ctx, regionID); err != nil {
		return err // The tier may still touch the memory.
	}
	return v.mem.Close()
}

// stop closes the volume and stops its tier.
func (v *volume) stop(ctx context.Context) error {
	return errors.Join(v.close(ctx), v.t.Stop(ctx))
}

func (v *volume) slot(i int) []byte { return v.mem.Bytes()[i*v.size:][:v.size] }

// fill makes values, one for each operation in flight, and returns their checksums: the time that
// this takes is not the tier's.
func (v *volume) fill(depth int) []uint32 {
	sums := make([]uint32, depth)
	for i := range sums {
		b := v.slot(i)
		for at := 0; at+8 <= len(b); at += 8 {
			binary.LittleEndian.PutUint64(b[at:], uint64(i)<<32|uint64(at))
		}
		sums[i] = crc32c.Sum(b)
	}
	return sums
}

// write writes all records anew, with depth operations in flight.
func (v *volume) write(ctx context.Context, depth int) (speed, error) {
	var old []tier.Locator
	for i, r := range v.records {
		if r.At != (tier.Locator{}) {
			old = append(old, r.At)
		}
		v.records[i].At = tier.Locator{}
	}
	if err := v.t.Forget(ctx, old); err != nil {
		return speed{}, err
	}
	sums := v.fill(depth)
	return v.stream(ctx, depth, func(i, slot int) tier.Op {
		v.records[i].Record = tier.Record{
			Key: fmt.Appendf(nil, "bench/%08d", i), Version: tier.Version{Epoch: 1, Put: uint64(i) + 1}, Size: uint64(v.size), Sum: sums[slot], Summed: true,
		}
		return tier.Op{Kind: tier.Write, Record: v.records[i].Record}
	}, func(i int, c tier.Completion) error {
		v.records[i].At = c.At
		return nil
	})
}

// read reads all records in an order that no disk foresees, with depth operations in flight.
func (v *volume) read(ctx context.Context, depth int) (speed, error) {
	step := stride(len(v.records))
	return v.stream(ctx, depth, func(i, _ int) tier.Op {
		r := v.records[i*step%len(v.records)]
		return tier.Op{Kind: tier.Read, Record: r.Record, At: r.At, Urgent: true}
	}, func(i int, c tier.Completion) error {
		if !c.Verified {
			return fmt.Errorf("record %d was not verified", i*step%len(v.records))
		}
		return nil
	})
}

// stride is a number without a common divisor with n, so that its multiples reach every record.
func stride(n int) int {
	for _, s := range []int{7919, 104729} { // primes
		if n%s != 0 {
			return s
		}
	}
	return 1
}

// stream carries out one operation for each record. op makes the operation, whose memory is that of
// slot, and done takes its completion.
func (v *volume) stream(ctx context.Context, depth int, op func(i, slot int) tier.Op, done func(int, tier.Completion) error) (speed, error) {
	flying := make([]int, depth) // the record of each slot
	free := make([]int, 0, depth)
	for i := range depth {
		free = append(free, i)
	}
	completions := make([]tier.Completion, depth)
	began, cpu := time.Now(), processorTime()
	next, failed := 0, error(nil)
	for ended := 0; ended < next || next < len(v.records) && failed == nil; {
		for len(free) > 0 && next < len(v.records) && failed == nil {
			slot := free[len(free)-1]
			o := op(next, slot)
			o.ID, o.Local = uint64(slot), [][]byte{v.slot(slot)}
			accepted, err := v.t.Submit([]tier.Op{o})
			if err != nil {
				failed = err
				break
			}
			if accepted == 0 {
				break
			}
			free, flying[slot] = free[:len(free)-1], next
			next++
		}
		if ended == next {
			continue
		}
		n, err := v.t.Reap(ctx, completions)
		if err != nil {
			return speed{}, err
		}
		for _, c := range completions[:n] {
			if c.Status == tier.Quarantined { // Returned follows.
				failed = c.Err
				continue
			}
			ended++
			free = append(free, int(c.ID))
			if c.Err == nil && c.Status == tier.OK {
				c.Err = done(flying[c.ID], c)
			}
			if c.Err != nil && failed == nil {
				failed = c.Err
			}
		}
	}
	bytes := float64(len(v.records)) * float64(v.size)
	return speed{MBPerS: bytes / 1e6 / time.Since(began).Seconds(), CPUPerGB: (processorTime() - cpu).Seconds() / (bytes / 1e9)}, failed
}

// processorTime is what this process has used so far.
func processorTime() time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		return 0 // The call has no other error than a bad argument.
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
