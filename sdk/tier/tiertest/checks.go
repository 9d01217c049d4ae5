package tiertest

import (
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// cases lists the suite, the simplest first.
func (s *subjects) cases() []conformance.Case {
	out := rig.Component(s.f, plugin.KindTier, tier.API(), s.f.New, s.settings)
	for _, c := range []struct {
		name, rule string
		run        func(*subject)
	}{
		{"volume", "A volume has an ID, a capacity, an alignment that is a power of two, and room for its largest record; Space is at least the size.", testVolume},
		{"content at many sizes", "What a Write keeps is what a Read returns, at any size and alignment, in one part or several, in one region or several.", testContent},
		{"content of each kind", "Bytes are kept as they are, whatever their kind: zeros, ones, text, repeated pages, random bytes.", testKinds},
		{"ranges", "A Read returns the bytes from its offset on, at any offset and length, and touches nothing outside its buffer.", testRanges},
		{"the largest record", "A value of MaxRecord bytes is kept if LargestFree says that there is space.", testLargest},
		{"verified", "A Read that is OK is verified if it covered the whole value of a record with a checksum, and only then.", testVerified},
		{"batches", "Each operation, locator and record of a batch of any length counts: Submit, Forget and Scan lose none.", testBatches},
		{"keys", "A key has 1 to MaxKey bytes of any value, and the caller may change its bytes after Submit.", testKeys},
		{"another record", "A Read that names another key, version, size, checksum or place than the record has gets ObjectNotFound.", testAnother},
		{"versions of a key", "A Write makes a new record and leaves those of the same key as they are, also that of the same version.", testVersions},
		{"a stale locator", "The locator of a forgotten record finds no other record, and forgets none, also after its space was used again.", testStale},
		{"a wrong checksum", "A Write whose bytes are not what its checksum says fails with ChecksumMismatch and leaves no record.", testWrongChecksum},
		{"submit refuses", "Submit accepts the operations before a bad one, and refuses the bad one with InvalidParams and without a completion.", testRefuses},
		{"nothing works outside start and stop", "Before Start and after Stop, methods return UnavailableInCurrentStatus.", testOutside},
		{"exactly one completion", "Each accepted operation completes exactly once, and a refused one never.", testOnce},
		{"a completion is terminal", "After the completion the tier neither reads nor writes the buffer: the caller can use it again at once.", testTerminal},
		{"back-pressure", "A tier that is not reaped stops accepting, with a short count and no error, and goes on after Reap. Submit never blocks.", testBackPressure},
		{"reap", "Reap waits for a completion or for the end of its context, loses nothing when it is given up, and does not wait with an empty dst.", testReap},
		{"a deadline in the past", "An operation whose deadline has passed fails with RPCTimeout, and a Write leaves no record.", testDeadline},
		{"a full volume", "A Write for which there is no space fails with NoAvailableHandle, and harms no record; the space of forgotten records is used again.", testFull},
		{"forget", "Forget ends records, and ignores locators that are unknown or were forgotten before.", testForget},
		{"forget while reads are in flight", "A Read in flight gets the bytes of its record, or ObjectNotFound, although the record is forgotten and its space is wanted.", testForgetReading},
		{"stats", "Stats counts records, space and reads that found no record.", testStats},
		{"scan", "Scan finds each record as it was written, those that were written last first, in pages of any length; its keys belong to the caller.", testScan},
		{"scan while records change", "A Scan finds what was there before it and stays, whatever is written and forgotten meanwhile.", testScanChanges},
		{"register refuses", "Register refuses an ID in use, the ID 0, an empty region and one that overlaps another, with InvalidParams; neighbours are no overlap.", testRegister},
		{"deregister", "After Deregister the memory takes part in no operation, and its ID is unknown.", testDeregister},
		{"deregister while operations are in flight", "Deregister returns once no operation touches the memory.", testDeregisterInFlight},
		{"deregister with an ended context", "Deregister closes the region to new operations although its context has ended, and can be repeated.", testDeregisterEnded},
		{"wipe", "Wipe ends all records for good and raises the generation.", testWipe},
		{"wipe while writes are in flight", "No record of a Write that was submitted before Wipe is found after it.", testWipeInFlight},
		{"flush", "Flush succeeds at any time, and changes nothing that can be read.", testFlush},
		{"stop with operations in flight", "Stop ends the operations in flight: each completes once, then Reap returns ErrStopped. A waiting Reap returns too.", testStopInFlight},
		{"stop given up with operations in flight", "A Stop whose context has ended frees everything: each operation completes, and the memory is not touched any more.", testStopGivenUp},
		{"records survive", "With the capability survives, the next start finds the volume and all its records, at the same locators.", testSurvives},
		{"records do not survive", "Without the capability survives, each start has a volume with a new ID, and without records.", testVolatile},
		{"a shared volume", "With the capability shared, a locator is good in each tier that opened the volume.", testShared},
		{"independent", "Tiers of different volumes share nothing.", testIndependent},
		{"a killed process", "When the process of a tier ends, each operation in flight completes once and its memory is free; the next process has the regions, and with the capability survives all that was flushed.", testKilled},
		{"contexts that have ended", "A call whose context has ended takes effect or does not, and what follows finds the tier in order.", testEnded},
		{"damaged bytes", "A Read of the whole value of a record with a checksum returns no damaged bytes: it fails with ChecksumMismatch or ObjectNotFound.", testDamage},
		{"a storage that fails", "Reads and writes that the storage fails end with FileReadFail and FileWriteFail, and are counted.", testStorageFails},
		{"a storage that hangs", "Deadlines hold although the storage does not respond; memory that it may still touch is quarantined until it is Returned.", testStorageHangs},
		{"stop while the storage hangs", "A Stop whose context ends returns although the storage does not respond, and each operation completes.", testStopHanging},
		{"a crash", "After a crash, what was flushed is found, and no Wipe is undone.", testCrash},
		{"model", "Any sequence of calls leaves the records that the contract says, and reads return their bytes.", testModel},
		{"many goroutines", "All methods are safe from several goroutines at once.", testConcurrent},
		{"throughput", "No rule: what one caller writes and reads, as figures.", testThroughput},
	} {
		out = append(out, conformance.Case{Name: c.name, Rule: c.rule, Run: func(t conformance.T) { c.run(newSubject(t, s)) }})
	}
	out = append(out, conformance.Case{Name: "records after a killed process", Rule: "After the process was killed, a record that Scan finds is whole: no Write was torn, none that completed before a Flush is missing, and none that was forgotten before it is back.", Run: func(t conformance.T) { testTorn(newSubject(t, s)) }})
	var home, used memory // The same for all rounds.
	return append(out, s.callLeaks(), rig.Leaks(
		func(t conformance.TB) tier.Tier {
			if home.b == nil {
				home, used = s.memory(t, homeSize), s.memory(t, 1<<20)
				t.Cleanup(func() { home, used = memory{}, memory{} })
			}
			return newSubjectWith(t, s, home).tier
		},
		func(t conformance.TB, x tier.Tier) {
			u := &subject{subjects: s, t: t, tb: t, tier: x, ids: new(atomic.Uint64), known: new(sync.Map)}
			u.use(used)
		}, s.settle))
}

// callLeaks is the check of what calls leave behind in a tier that goes on.
func (s *subjects) callLeaks() conformance.Case {
	return rig.CallLeaks(s.processes, s.settle, func(t conformance.T) func() {
		x := newSubject(t, s)
		e := newEntry("leaks", 1, 1000)
		return func() {
			e.at = x.do(e.writes(x.mem))[0].At
			x.ok(x.do(e.reads(x.mem))[0])
			x.forget(e)
			x.stats()
			x.known.Clear()
		}
	})
}
