package evicttest

import (
	"maps"
	"slices"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// cases lists the suite.
func (s *subjects) cases() []conformance.Case {
	out := rig.Component(s.f, plugin.KindEvict, evict.API(), s.f.New, s.settings)
	for _, group := range []struct {
		name  string
		rules map[string]func(subject)
	}{{"record", recordRules}, {"resolve", resolveRules}} {
		for _, name := range slices.Sorted(maps.Keys(group.rules)) {
			out = append(out, conformance.Case{Name: group.name + ": " + name, Rule: "For " + group.name + ": " + name + ".", Run: func(t conformance.T) {
				group.rules[name](newSubject(t, s))
			}})
		}
	}
	for _, c := range []struct {
		name, rule string
		run        func(conformance.T, *subjects)
	}{
		{"propose", "Propose appends victims until their sizes reach what is asked for, dst is full or nothing is ranked, and none of them twice.", testPropose},
		{"capacity", "A policy that takes the capacity takes any, at any time, and still ranks the same objects.", testCapacity},
		{"hostile", "What a correct master never sends is ignored: ID 0, circles of parents, sizes whose sum overflows.", testHostile},
		{"numbers", "IDs and sizes have 64 bits, and two objects whose IDs share the lower 32 are two.", testNumbers},
		{"batches", "A batch of any length is applied whole and in order, and a policy knows any number of objects.", testBatches},
		{"replay", "A policy that has just been started knows each object that the batches of a replay insert.", testReplay},
		{"model", "Any sequence of calls leaves what the contract says is known, ranked and proposed.", testModel},
		{"concurrent", "Calls are safe from several goroutines, and a proposed object is held by one of them.", testConcurrent},
		{"independent", "Two policies of one factory share nothing.", testIndependent},
		{"contexts that have ended", "A call whose context has ended takes effect or does not, and what follows finds the policy in order.", testEnded},
		{"a killed process", "A policy whose process died is started again and knows what replay told it.", testKilled},
		{"throughput", "No rule: events and victims a second, as figures.", testThroughput},
	} {
		out = append(out, conformance.Case{Name: c.name, Rule: c.rule, Run: func(t conformance.T) { c.run(t, s) }})
	}
	return append(out, s.callLeaks(), rig.Leaks(
		func(t conformance.TB) evict.Policy { return newSubject(t, s).p },
		func(t conformance.TB, p evict.Policy) {
			s := subject{t: t, p: p, patience: s.patience}
			s.insert(1, 1, 2, 3)
			s.drain(2)
		}, s.settle))
}

// callLeaks is the check of what calls leave behind in a policy that goes on.
func (s *subjects) callLeaks() conformance.Case {
	return rig.CallLeaks(s.processes, s.settle, func(t conformance.T) func() {
		x := newSubject(t, s)
		return func() {
			x.insert(1, 10, 20)
			x.access(1)
			x.resolve(verdictsOn(x.drain(2), func(int) bool { return true })...)
			x.stats()
		}
	})
}
