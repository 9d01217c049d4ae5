// Package tiertest is the conformance suite of storage tiers.
//
// Run takes a factory and checks each sentence of package tier: content, the identity of records,
// space, regions, deadlines, exactly one completion for each accepted operation, restarts and the
// lifecycle.
//
//	func TestConformance(t *testing.T) {
//		tiertest.Run(t, file.Factory(), tiertest.WithConfig(func(t conformance.TB) plugin.Config {
//			return &file.Config{Path: t.TempDir(), Capacity: 32 << 20}
//		}))
//	}
//
// Options supply what the suite cannot know of a tier. The report lists the checks that were skipped
// because an option or a capability is missing.
package tiertest
