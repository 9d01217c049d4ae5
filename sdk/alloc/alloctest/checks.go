package alloctest

import (
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// cases lists the suite.
func (s *subjects) cases() []conformance.Case {
	out := rig.Component(s.f, plugin.KindAlloc, alloc.API(), s.f.New, s.settings)
	for _, c := range []struct {
		name, rule string
		run        func(conformance.T, *subjects)
	}{
		{"spaces", "AddSpace refuses size 0 and an ID in use; what names an unknown space is SegmentNotFound; a removed space is unknown.", testSpaces},
		{"alloc", "Each request of a batch is answered by an extent of the first candidate that fits, or an error; a full space refuses.", testAlloc},
		{"align", "Offsets are multiples of the alignment, at least up to 4096; what is no power of two is refused.", testAlign},
		{"free", "Free takes extents exactly as they were given out; a double free or a made-up extent is InvalidWrite and changes nothing.", testFree},
		{"free space is merged", "A space whose extents were all freed gives what a new space gives.", testMerged},
		{"large spaces", "Offsets have 64 bits: extents beyond the first 4 GiB of a space overlap no others.", testLarge},
		{"reserve in batches", "Each extent of a batch of any length is reserved, and Alloc gives none of them again.", testReserveBatches},
		{"reserve", "Reserve takes exactly the extents it is told, and refuses those that overlap or leave their space.", testReserve},
		{"restart", "An allocator that Reserve told what is in use goes on like the one before it.", testRestart},
		{"hostile", "What can never be given is refused, numbers near 2^64 included, and a refusal changes nothing.", testHostile},
		{"model", "Any sequence of calls leaves what the contract says is live: no overlap, exact counts.", testModel},
		{"batches", "Each request and each extent of a batch of any length is answered.", testBatches},
		{"concurrent", "Calls are safe from several goroutines, while spaces come and go.", testConcurrent},
		{"contexts that have ended", "A call whose context has ended leaves the allocator in order.", testEnded},
		{"a killed process", "An allocator whose process died is started again and holds what replay reserved.", testKilled},
		{"throughput", "No rule: allocations and frees a second, as figures.", testThroughput},
	} {
		out = append(out, conformance.Case{Name: c.name, Rule: c.rule, Run: func(t conformance.T) { c.run(t, s) }})
	}
	return append(out, s.callLeaks(), rig.Leaks(
		func(t conformance.TB) alloc.Allocator { return newSubject(t, s, alloc.Space{ID: 1, Size: mib}).a },
		func(t conformance.TB, a alloc.Allocator) {
			s := subject{t: t, a: a, patience: s.patience}
			s.must(1, 64*kib)
		}, s.settle))
}

// callLeaks is the check of what calls leave behind in an allocator that goes on.
func (s *subjects) callLeaks() conformance.Case {
	return rig.CallLeaks(s.processes, s.settle, func(t conformance.T) func() {
		x := newSubject(t, s, alloc.Space{ID: 1, Size: mib})
		return func() {
			e := x.must(1, 64*kib)
			x.allNil(x.free(e))
			x.stats(1)
		}
	})
}
