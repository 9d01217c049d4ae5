package tiertest_test

import (
	"bytes"
	"context"
	"slices"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// spaceBugs break what Forget, Scan, Stats and Wipe promise.
func spaceBugs() map[string]bug {
	return map[string]bug{
		"zeros are lost": {finds: finds("content of each kind"), bend: func(b *bent) {
			b.complete = func(o tier.Op, c *tier.Completion) bool {
				if o.Kind == tier.Read && c.Status == tier.OK && len(bytes.Trim(o.Local[0], "\x00")) == 0 {
					o.Local[0][0] = 1
				}
				return false
			}
		}},
		"a batch ends at 255": {finds: finds("batches"), bend: func(b *bent) {
			b.scan = func(from tier.Cursor, dst []tier.Found) (int, tier.Cursor, error) {
				n, next, err := b.Tier.Scan(context.Background(), from, dst)
				return min(n, 255), next, err
			}
		}},
		"an unknown locator is an error": {finds: finds("forget"), bend: func(b *bent) {
			b.forget = func(at []tier.Locator) error {
				if slices.Contains(at, tier.Locator{}) {
					return errBug
				}
				return nil
			}
		}},
		"readers see the next record": {finds: finds("forget while reads are in flight"), bend: func(b *bent) {
			hit := map[uint64]bool{}
			b.forget = func(at []tier.Locator) error {
				b.mu.Lock()
				defer b.mu.Unlock()
				for id, o := range b.flights {
					hit[id] = hit[id] || (o.Kind == tier.Read && slices.Contains(at, o.At))
				}
				return nil
			}
			b.complete = func(o tier.Op, c *tier.Completion) bool {
				if hit[o.ID] {
					o.Local[0][0]++
					*c = tier.Completion{ID: o.ID, Status: tier.OK}
				}
				return false
			}
		}},
		"misses are not counted": {finds: finds("stats", "damaged bytes"), bend: func(b *bent) { b.stats = func(st *tier.Stats, err error) error { st.Damaged = 0; return err } }},
		"space without keys":     {finds: finds("stats", "model"), bend: func(b *bent) { b.stats = func(st *tier.Stats, err error) error { st.Used -= st.Records; return err } }},
		"the oldest come first":  {finds: finds("scan"), bend: func(b *bent) { b.scan = oldestFirst(b) }},
		"a cursor is a count":    {finds: finds("scan while records change"), bend: func(b *bent) { b.scan = counting(b) }},
		"the generation stays":   {finds: finds("wipe"), bend: func(b *bent) { b.volume = func(v *tier.Volume) { v.Generation = 0 } }},
		"writes outlive a wipe":  {finds: finds("wipe while writes are in flight"), bend: delaysWrites},
		"scan shares its keys":   {finds: finds("scan"), bend: func(b *bent) { b.scan = sharesKeys(b) }},
	}
}

func all(b *bent) []tier.Found {
	dst := make([]tier.Found, 1000)
	n, _, _ := b.Tier.Scan(context.Background(), tier.Cursor{}, dst)
	return dst[:n]
}

// counting scans with a cursor that is the number of records that were found.
func counting(b *bent) func(tier.Cursor, []tier.Found) (int, tier.Cursor, error) {
	return func(from tier.Cursor, dst []tier.Found) (int, tier.Cursor, error) {
		if len(dst) == 0 {
			return 0, from, errs.New(errs.InvalidParams, "", "no space")
		}
		fs := all(b)
		n := copy(dst, fs[min(int(from[0]), len(fs)):])
		return n, tier.Cursor{from[0] + uint64(n)}, nil
	}
}

func oldestFirst(b *bent) func(tier.Cursor, []tier.Found) (int, tier.Cursor, error) {
	return func(from tier.Cursor, dst []tier.Found) (int, tier.Cursor, error) {
		fs := all(b)
		slices.Reverse(fs)
		n := copy(dst, fs[min(int(from[0]), len(fs)):])
		return n, tier.Cursor{from[0] + uint64(n)}, nil
	}
}

func sharesKeys(b *bent) func(tier.Cursor, []tier.Found) (int, tier.Cursor, error) {
	keys := map[tier.Locator][]byte{}
	return func(from tier.Cursor, dst []tier.Found) (int, tier.Cursor, error) {
		n, next, err := b.Tier.Scan(context.Background(), from, dst)
		for i, f := range dst[:n] {
			if keys[f.At] == nil {
				keys[f.At] = f.Record.Key
			}
			dst[i].Record.Key = keys[f.At]
		}
		return n, next, err
	}
}

// delaysWrites gives writes to the tier when their completions are asked for.
func delaysWrites(b *bent) {
	var late []tier.Op
	b.accept = func(ops []tier.Op) int {
		if len(ops) < 2 || ops[0].Kind != tier.Write {
			return 0
		}
		late = append(late, ops...)
		return len(ops)
	}
	b.reap = func(context.Context) error {
		ops := late
		late = nil
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(ops) > 0 {
			_, err := b.Tier.Submit(ops)
			return err
		}
		return nil
	}
}
