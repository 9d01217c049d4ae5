package tiertest

import (
	"bytes"
	"slices"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/expect"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

func testVolume(s *subject) {
	v := s.tier.Volume()
	expect.NotZero(s.t, v.ID)
	expect.NotZero(s.t, v.Align)
	expect.Zero(s.t, v.Align&(v.Align-1), "Align is %d, must be a power of two", v.Align)
	expect.GreaterOrEqual(s.t, v.MaxRecord, uint64(1<<20), "the suite writes values of 1 MiB")
	expect.GreaterOrEqual(s.t, v.Capacity, v.MaxRecord)
	expect.Equal(s.t, v, s.tier.Volume())
	for _, size := range []int{1, 4096, 1 << 20} {
		e := newEntry("k", 1, 1)
		e.Size = uint64(size)
		expect.GreaterOrEqual(s.t, s.tier.Space(e.Record), e.Size)
		other := e.Record
		other.Key, other.Version, other.Summed = []byte("x"), tier.Version{Epoch: 7}, false
		expect.Equal(s.t, s.tier.Space(e.Record), s.tier.Space(other), "Space depends on the lengths only")
	}
	s.counts()
}

// use does a little of everything, to find out what is left of it.
func (s *subject) use(m memory) {
	expect.NoError(s.t, s.tier.Register(s.within(), m.region(2, 0, len(m.b))), "Register")
	mem := m.b
	e := newEntry("used", 1, 100_000)
	e.at = s.do(e.writes(mem))[0].At
	s.ok(s.do(e.reads(mem))[0])
	s.scan(4)
	s.forget(e)
	expect.NoError(s.t, s.tier.Flush(s.within()))
	expect.NoError(s.t, s.tier.Deregister(s.within(), 2))
}

// parts cuts memory into n parts of different lengths.
func parts(mem []byte, n int) [][]byte {
	var out [][]byte
	for ; n > 1 && len(mem) > 1; n-- {
		cut := max(1, len(mem)/n-n)
		out, mem = append(out, mem[:cut:cut]), mem[cut:]
	}
	return append(out, mem)
}

// testKinds keeps values of each kind, which a tier that compresses or deduplicates could confuse.
func testKinds(s *subject) {
	for _, kind := range kinds {
		for _, size := range []int{1, 4096, 100_003, 1 << 20} {
			if uint64(size) > s.stats().LargestFree {
				continue
			}
			e := newEntryOf("kind "+kind.name, uint64(size), kind.make(size))
			c := s.do(e.writes(s.mem))[0]
			s.ok(c, "a value of %s", kind.name)
			e.at = c.At
			fillWith(s.mem[:size], 0xa5)
			s.ok(s.do(e.reads(s.mem))[0], "a value of %s", kind.name)
			same(s.t, e.value, s.mem[:size], "a value of %s", kind.name)
			if from := size / 2 &^ 4095; from > 0 {
				fillWith(s.mem[:size], 0xa5)
				o := e.reads(s.mem)
				o.Offset, o.Local = uint64(from), [][]byte{s.mem[:size-from]}
				s.ok(s.do(o)[0], "a value of %s", kind.name)
				same(s.t, e.value[from:], s.mem[:size-from], "a value of %s, from byte %d on", kind.name, from)
			}
			s.forget(e)
		}
	}
}

func testContent(s *subject) {
	align := int(s.tier.Volume().Align)
	for _, size := range []int{1, 2, 511, 512, 513, 4095, 4096, 4097, 65_536, 1 << 20, 1<<20 + 1, 3<<20 + 7} {
		if uint64(size) > s.stats().LargestFree {
			continue
		}
		for _, at := range []int{0, 1, align, align + 3} {
			e := newEntry("content", uint64(size), size)
			mem := s.mem[at:]
			e.at = s.do(e.writes(mem))[0].At
			clear(mem)
			s.ok(s.do(e.reads(mem))[0])
			same(s.t, e.value, mem[:size])
			s.forget(e)
		}
	}
	s.scattered()
}

// scattered keeps and reads a value in parts that lie in two regions.
func (s *subject) scattered() {
	other := s.region(2, 1<<20)
	const size = 300_001
	e := newEntry("scattered", 1, size)
	places := slices.Concat(parts(s.mem[5:100_005], 3), parts(other[:200_000], 4), [][]byte{s.mem[200_000:200_001]})
	rest := e.value
	for _, p := range places {
		rest = rest[copy(p, rest):]
	}
	c := s.do(tier.Op{Kind: tier.Write, Record: e.Record, Local: places})[0]
	s.ok(c)
	e.at = c.At
	s.holds(e)
	for _, p := range places {
		clear(p)
	}
	c = s.do(tier.Op{Kind: tier.Read, Record: e.Record, At: e.at, Local: places})[0]
	s.ok(c)
	expect.True(s.t, c.Verified)
	same(s.t, e.value, bytes.Join(places, nil))
	expect.NoError(s.t, s.tier.Deregister(s.within(), 2))
}

func testRanges(s *subject) {
	const size = 200_003
	e := s.add("ranges", 1, size)
	for _, r := range [][2]int{{0, 1}, {size - 1, 1}, {0, 4096}, {4096, 4096}, {4095, 2}, {1, size - 1}, {12_345, 67_890}, {8192, size - 8192}, {511, 1025}} {
		for _, at := range []int{0, 4096, 4099} {
			fillWith(s.mem[:size+3*4096], 0xa5)
			o := e.reads(s.mem)
			o.Offset, o.Local = uint64(r[0]), parts(s.mem[at:at+r[1]], 2)
			c := s.do(o)[0]
			s.ok(c)
			expect.False(s.t, c.Verified, "a range was verified")
			same(s.t, e.value[r[0]:r[0]+r[1]], s.mem[at:at+r[1]])
			for _, beside := range [][]byte{s.mem[:at], s.mem[at+r[1] : size+3*4096]} {
				expect.Zero(s.t, len(bytes.Trim(beside, "\xa5")), "bytes beside the buffer were written")
			}
		}
	}
}

// largest is what the check of the largest record keeps at most, in bytes.
const largest = 256 << 20

func testLargest(s *subject) {
	size := s.tier.Volume().MaxRecord
	free := s.stats().LargestFree
	expect.LessOrEqual(s.t, free, size, "LargestFree is more than MaxRecord")
	expect.NotZero(s.t, free, "an empty volume has space")
	if free > largest {
		s.tb.Skipf("the largest record has %d bytes; needs WithConfig with a smaller volume", free)
	}
	mem := s.region(2, int(free))
	e := newEntry(string(bytes.Repeat([]byte{'k'}, tier.MaxKey)), 1, int(free))
	c := s.do(e.writes(mem))[0]
	s.ok(c, "LargestFree is %d, and there is no space for the longest key with it", free)
	e.at = c.At
	clear(mem)
	expect.True(s.t, s.do(e.reads(mem))[0].Verified, "a Read of the whole value is verified")
	same(s.t, e.value, mem)
}

func testVerified(s *subject) {
	for _, size := range []int{1, 4096, 70_001} {
		for _, summed := range []bool{true, false} {
			e := newEntry("verified", uint64(size), size)
			e.Summed = summed
			if !summed {
				e.Sum = 0
			}
			s.write(&e)
			s.holds(e)
			for _, o := range [][2]int{{0, size - 1}, {1, size - 1}} {
				if o[1] == 0 {
					continue
				}
				r := e.reads(s.mem)
				r.Offset, r.Local = uint64(o[0]), [][]byte{s.mem[:o[1]]}
				c := s.do(r)[0]
				s.ok(c)
				expect.False(s.t, c.Verified, "a part was verified")
			}
		}
	}
}

func testKeys(s *subject) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	var es []entry
	for i, key := range [][]byte{{0}, {'k'}, {'k', 0}, {'k', 0, 0}, all, bytes.Repeat([]byte{0xff}, tier.MaxKey), bytes.Repeat([]byte{'k'}, tier.MaxKey-1)} {
		e := newEntry(string(key), uint64(i), 1000)
		o := e.writes(s.mem)
		ids, early := s.submit(o)
		for j := range e.Key {
			e.Key[j] ^= 0x55 // Those of the operation.
		}
		c := s.finish([]tier.Op{o}, ids, early)[0]
		s.ok(c)
		e.Key, e.at = bytes.Clone(key), c.At
		es = append(es, e)
	}
	s.holds(es...)
	s.counts(es...)
}

// testAnother reads with each field of the record wrong.
func testAnother(s *subject) {
	e := s.add("one", 5, 5000)
	other := s.add("two", 5, 5000)
	newer := s.add("one", 6, 5000)
	for what, change := range rig.Ordered(map[string]func(*entry){
		"another key":               func(x *entry) { x.Key = []byte("onf") },
		"a longer key":              func(x *entry) { x.Key = []byte("one1") },
		"the key of another record": func(x *entry) { x.Key = other.Key },
		"an older version":          func(x *entry) { x.Version.Put-- },
		"a newer version":           func(x *entry) { x.Version = newer.Version },
		"another epoch":             func(x *entry) { x.Version.Epoch++ },
		"a smaller size":            func(x *entry) { x.Size-- },
		"a larger size":             func(x *entry) { x.Size++ },
		"another checksum":          func(x *entry) { x.Sum++ },
		"no locator":                func(x *entry) { x.at = tier.Locator{} },
		"an unknown locator":        func(x *entry) { x.at = tier.Locator{^uint64(0), 1 << 40, ^uint64(0), 12_345} },
		"the place of another key":  func(x *entry) { x.at = other.at },
		"the place of a version":    func(x *entry) { x.at = newer.at },
	}) {
		x := e
		change(&x)
		whole := x.reads(s.mem)
		part := whole
		part.Offset, part.Local = 1, [][]byte{s.mem[:100]}
		for _, o := range []tier.Op{whole, part} {
			c := s.do(o)[0]
			expect.True(s.t, c.Status != tier.OK, "a Read with %s ends with OK, and should fail with OBJECT_NOT_FOUND", what)
			expect.Equal(s.t, errs.ObjectNotFound, errs.CodeOf(c.Err), "%s: %v", what, c.Err)
		}
	}
	s.holds(e, other, newer)
	unsummed := e
	unsummed.Sum, unsummed.Summed = 0, false
	s.ok(s.do(unsummed.reads(s.mem))[0], "a Read without a checksum finds a record with one")
}

func testVersions(s *subject) {
	first, second := s.add("key", 1, 3000), s.add("key", 2, 3000)
	again := s.add("key", 2, 3000)
	expect.NotEqual(s.t, second.at, again.at, "two records have one locator")
	s.holds(first, second, again)
	s.counts(first, second, again)
	s.forget(second)
	s.lacks(second)
	s.holds(first, again)
	s.counts(first, again)
}

// testStale uses the place of a forgotten record again.
func testStale(s *subject) {
	es := s.fillUp()
	old := es[len(es)/2]
	s.forget(old)
	s.lacks(old)
	next := newEntry(string(old.Key), old.Version.Put+1000, int(old.Size))
	s.write(&next)
	expect.NotEqual(s.t, old.at, next.at, "a locator is used again")
	s.lacks(old)
	s.forget(old, old)
	s.holds(next)
	again := newEntry(string(old.Key), old.Version.Put, int(old.Size))
	s.forget(next)
	s.write(&again) // The record that was forgotten, at a place that may be its own.
	s.forget(old, next)
	s.holds(again)
}

func testWrongChecksum(s *subject) {
	before := s.add("before", 1, 10_000)
	for _, size := range []int{1, 4096, 100_001} {
		e := newEntry("wrong", uint64(size), size)
		o := e.writes(s.mem)
		s.mem[size/2] ^= 4
		s.fails(errs.ChecksumMismatch, o)
		e.Summed = false
		o = e.writes(s.mem) // Without a checksum, it is not looked at.
		c := s.do(o)[0]
		s.ok(c)
		s.forget(entry{at: c.At})
	}
	s.counts(before)
	s.holds(before)
}
