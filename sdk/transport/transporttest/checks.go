package transporttest

import (
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
)

// checkOf is one check of the suite with the rule of package transport that it verifies.
type checkOf struct {
	name, rule string
	run        func(*suite, conformance.T)
}

// checks lists the suite, the simplest first.
func checks() []checkOf {
	return []checkOf{
		{rig.Vital, rig.VitalRule, func(s *suite, t conformance.T) { s.start(t) }},
		{"manifest", "The manifest is valid and of kind transport, versions of the contract agree, and New refuses the configuration of another plugin.", (*suite).manifest},
		{rig.ProgramCheck, rig.ProgramRule, (*suite).program},
		{rig.SettingsCheck, rig.SettingsRule, (*suite).schema},
		{"capabilities are true", "A transport with CapUpstream implements Upstream; one with CapRails makes paths that are Railed.", (*suite).capabilities},
		{"stop before start", "Stop may come before Start, and twice.", (*suite).stopBeforeStart},
		{"stop twice and at once", "Stop is safe at any time, from several goroutines, and repeatable.", (*suite).stopTwice},
		{"nothing works outside start and stop", "Register, Dial and Deregister are errors before Start and after Stop.", (*suite).beforeStartAfterStop},
		{"incarnations differ", "Each start has an incarnation of its own, and an endpoint of 1 to 4096 bytes.", (*suite).incarnations},
		{"register refuses", "Register refuses an ID in use, no ID, an empty region and one that overlaps another, with InvalidParams; neighbours are no overlap.", (*suite).registerRefuses},
		{"register again after deregister", "The key of an ended registration opens no memory, even after the same memory is registered again under the same ID.", (*suite).registerAgain},
		{"content at many sizes", "A completed operation has moved exactly its bytes, at any size and alignment, and touched nothing outside its buffer.", (*suite).content},
		{"content at random", "After batches of reads and writes the memory equals a copy that the test maintains.", (*suite).contentAtRandom},
		{"content of many kinds", "Bytes arrive whatever they are: zeros, text, equal pages, random bytes.", (*suite).contentOfKinds},
		{"regions side by side", "Operations at the edges of a region touch neither the regions beside it nor the memory beside the local buffer.", (*suite).neighbours},
		{"local buffers that overlap", "Writes that are in flight together may share their local bytes, and reads overwrite what earlier ones stored.", (*suite).overlap},
		{"a completion is terminal", "After the completion the transport neither reads nor writes the local buffer: the caller can reuse it at once.", (*suite).terminal},
		{"checksums", "A path with Extras.Checksums returns the CRC-32C of the stored bytes for each operation that requests it, has at least one byte and ends OK. No other completion has a checksum.", (*suite).sums},
		{"one operation larger than everything", "An operation larger than any window or limit completes.", (*suite).large},
		{"many goroutines and paths", "Paths are safe for concurrent use and do not mix up their bytes.", (*suite).many},
		{"a transport reaches itself", "A transport can dial its own endpoint.", (*suite).itself},
		{"zero length", "An operation of zero length completes without a round trip, even if there is no peer.", (*suite).zeroLength},
		{"submit refuses", "Submit accepts the operations before a bad one and refuses the bad one with class permanent and without a completion; a range past the end may fail on completion instead.", (*suite).submitRefuses},
		{"import refuses", "Import refuses keys that are malformed or of another incarnation.", (*suite).importRefuses},
		{"dial refuses", "Dial refuses endpoints that are malformed.", (*suite).dialRefuses},
		{"rights of peers", "Peers read only with AccessRemoteRead and write only with AccessRemoteWrite; otherwise operations fail with class permanent, and no byte moves.", (*suite).rights},
		{"a guarded region", "With CapGuard, the guard of a region is asked about each part of a write, and is told once that it ended. What the guard refuses fails with class permanent and changes no byte; reads go on.", (*suite).guard},
		{"a write that the guard cuts", "A write that the guard of its region cuts ends soon, and later ones succeed.", (*suite).guardCuts},
		{"grants of a region", "With CapGrants, each part of an operation shows its grant to the peer, which asks the Grants of the region with the identity of the peer. What they refuse fails with class permanent and the code of the verdict, and moves no byte.", (*suite).grants},
		{"a forged key", "A forged key opens no other memory.", (*suite).forgedKey},
		{"a restarted peer", "Operations with keys of a peer's old incarnation fail with class transient-peer and never touch memory of the new one.", (*suite).restarted},
		{"a peer that went and one that came", "Keys of a stopped transport open no memory of the next one, even if its regions have the same IDs.", (*suite).successor},
		{"back-pressure", "A path that is not reaped stops accepting, with a short count and no error, and resumes after Reap.", (*suite).backPressure},
		{"a path that is never reaped", "A path under back-pressure stops neither other paths nor the peer from moving bytes.", (*suite).fairness},
		{"exactly one completion", "Each accepted operation completes exactly once, and a refused one never, in any order of calls.", (*suite).exactlyOnce},
		{"exactly one completion, many at once", "Each accepted operation completes exactly once, even if several goroutines submit to and reap from the path.", (*suite).exactlyOnceShared},
		{"completions are delivered", "A path with Extras.Deliver passes each completion to the function of Deliver once, and to Reap if that function does not take it.", (*suite).delivers},
		{"polling for answers", "Poll of a path with Extras.Poll returns by itself, whatever is in flight, and consumes no completion; it does not call stop after it returned.", (*suite).polls},
		{"reap waits for its context", "Reap waits until its context ends; with an empty dst it does not wait.", (*suite).reapWaits},
		{"reap given up loses nothing", "A Reap whose context ends loses no completion.", (*suite).reapGivenUp},
		{"reap after close", "After Close, Reap returns the remaining completions and then ErrPathClosed; Submit and Import return ErrPathClosed.", (*suite).reapAfterClose},
		{"close wakes reapers", "Close ends every waiting Reap with ErrPathClosed.", (*suite).closeWakes},
		{"close fails what is in flight", "Close fails operations in flight with class transient-path; each of them still completes.", (*suite).closeInFlight},
		{"stop ends paths", "Stop ends the operations in flight on the transport's paths: each completes once, then Reap returns ErrPathClosed, and Submit fails from then on.", (*suite).stopEndsPaths},
		{"contexts that have ended", "Register, Dial, Import and Close with an ended context either do their work or leave nothing behind.", (*suite).endedContexts},
		{"deregister with an ended context", "Deregister closes the region to peers even when its context has ended, soon if not at once.", (*suite).endedDeregister},
		{"deregister while peers read", "Once Deregister returned, no operation of a peer touches the memory, and peers' operations fail.", (*suite).deregisterInFlight},
		{"deregister in the midst of a write", "Deregister returns without an error only when no write of a peer that has begun touches the memory any more.", (*suite).deregisterHalf},
		{"a deadline in the past", "An operation whose deadline has passed fails with class transient-path, and moves nothing.", (*suite).deadlinePast},
		{"a frozen peer", "Deadlines hold, and Close returns, although the peer does not answer.", (*suite).frozenPeer},
		{"an indeterminate operation", "An operation that ends while its peer does not answer is Quarantined if its bytes may still move; after Failed and OK nothing moves.", (*suite).inDoubt},
		{"stop answers peers", "Stop answers what peers have sent: their operations are OK or Failed with a transient class, not Quarantined.", (*suite).stopAnswers},
		{"the peer stops", "Operations to a peer that stopped fail with a transient class.", (*suite).peerStops},
		{"content over each rail", "Each rail that is up moves bytes; Rails returns a slice of its own with stable IDs.", (*suite).rails},
		{"a rail that does not exist", "Submit refuses an operation for an unknown rail with class permanent.", (*suite).unknownRail},
		{"a device goes down and comes back", "Operations for a rail that is down fail with class transient-path; others continue, and the rail recovers by itself.", (*suite).railDown},
		{"a killed process", "When the transport's process dies, each operation in flight completes once with an error, and regions, paths and keys recover by themselves.", (*suite).killed},
		{"leaks of paths and regions", "Dial and Close, Register and Deregister leave nothing behind: goroutines, descriptors, mappings.", (*suite).leakRunning},
		{"leaks of starts and stops", "Stop leaves nothing of a transport behind: goroutines, descriptors, mappings.", (*suite).leakStopped},
		{"throughput", "No rule: figures of what two transports on this machine move.", (*suite).throughput},
	}
}
