package transporttest

import (
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
)

// checkOf is one check of the suite and the rule of package transport that it looks at.
type checkOf struct {
	name, rule string
	run        func(*suite, conformance.T)
}

// checks lists the suite, the simplest first.
func checks() []checkOf {
	return []checkOf{
		{rig.Vital, rig.VitalRule, func(s *suite, t conformance.T) { s.start(t) }},
		{"manifest", "The manifest is valid and of kind transport, versions of the contract agree, and New refuses a configuration that is not its own.", (*suite).manifest},
		{"capabilities are true", "A transport with CapUpstream implements Upstream; one with CapRails makes paths that are Railed.", (*suite).capabilities},
		{"stop before start", "Stop may come before Start, and twice.", (*suite).stopBeforeStart},
		{"stop twice and at once", "Stop is safe at any time, from several goroutines, and repeatable.", (*suite).stopTwice},
		{"nothing works outside start and stop", "Register, Dial and Deregister are errors before Start and after Stop.", (*suite).outsideLife},
		{"incarnations differ", "Each start has an incarnation of its own, and an endpoint of 1 to 4096 bytes.", (*suite).incarnations},
		{"register refuses", "Register refuses an ID in use, no ID, an empty region and one that overlaps another, with InvalidParams; neighbours are no overlap.", (*suite).registerRefuses},
		{"register again after deregister", "The key of an ended registration opens nothing, although the same memory has the same ID again.", (*suite).registerAgain},
		{"content at many sizes", "A completed operation moved exactly its bytes, at any size and alignment, and touched nothing beside its buffer.", (*suite).content},
		{"content at random", "Batches of reads and writes leave what a copy of the memory says.", (*suite).contentAtRandom},
		{"regions side by side", "Operations at the edges of a region touch neither the regions beside it nor the memory beside the local buffer.", (*suite).neighbours},
		{"local buffers that overlap", "Writes that are under way together may share their local bytes, and reads overwrite what earlier ones stored.", (*suite).overlap},
		{"a completion is terminal", "After the completion the transport neither reads nor writes the local buffer: it can be used again at once.", (*suite).terminal},
		{"checksums", "A path with Extras.Checksums gives each operation of at least one byte that asks and ends OK the CRC-32C of the bytes that it stored; nothing else has one.", (*suite).sums},
		{"one operation larger than everything", "An operation larger than any window or limit completes.", (*suite).large},
		{"many goroutines and paths", "Paths are safe for concurrent use, and do not mix up one another's bytes.", (*suite).many},
		{"a transport reaches itself", "A transport can dial its own endpoint.", (*suite).itself},
		{"zero length", "An operation of zero length completes without a round trip, also when there is no peer.", (*suite).zeroLength},
		{"submit refuses", "Submit accepts what stands before a bad operation and refuses that one with class permanent and without a completion; a range past the end may fail on completion instead.", (*suite).submitRefuses},
		{"import refuses", "Import refuses keys that are malformed or of another incarnation.", (*suite).importRefuses},
		{"dial refuses", "Dial refuses endpoints that are malformed.", (*suite).dialRefuses},
		{"rights of peers", "Peers read only with AccessRemoteRead and write only with AccessRemoteWrite; else class permanent, and no byte moves.", (*suite).rights},
		{"a key of somebody else", "A key that was tampered with opens no other memory.", (*suite).foreignKey},
		{"a restarted peer", "Operations with keys of a peer's old incarnation fail with class transient-peer and never touch memory of the new one.", (*suite).restarted},
		{"a peer that went and one that came", "Keys of a transport that stopped open nothing of the next one, whatever its regions are called.", (*suite).successor},
		{"back-pressure", "A path that is not reaped stops accepting, with a short count and no error, and goes on after Reap.", (*suite).backPressure},
		{"a path that nobody reaps", "A path under back-pressure keeps neither other paths nor the peer from moving bytes.", (*suite).fairness},
		{"exactly one completion", "Each accepted operation completes exactly once, and a refused one never, whatever the order of calls.", (*suite).exactlyOnce},
		{"exactly one completion, many at once", "Each accepted operation completes exactly once also when goroutines share a path to submit and to reap.", (*suite).exactlyOnceShared},
		{"completions are delivered", "A path with Extras.Deliver gives each completion to the function of Deliver, once, and to Reap what that does not take.", (*suite).delivers},
		{"polling for answers", "Poll of a path with Extras.Poll returns by itself, whatever is in flight, and takes nothing away; it does not call stop afterwards.", (*suite).polls},
		{"reap waits for its context", "Reap waits until its context ends; with an empty dst it does not wait.", (*suite).reapWaits},
		{"reap given up loses nothing", "A Reap whose context ends takes no completion away with it.", (*suite).reapGivenUp},
		{"reap after close", "After Close, Reap gives out what is left and then ErrPathClosed; Submit and Import say ErrPathClosed.", (*suite).reapAfterClose},
		{"close wakes reapers", "Close ends every Reap that waits, with ErrPathClosed.", (*suite).closeWakes},
		{"close fails what is under way", "Close fails operations under way with class transient-path; each of them still completes.", (*suite).closeUnderWay},
		{"stop ends paths", "Stop ends what the paths of the transport have under way: each operation completes once, then Reap says ErrPathClosed, and Submit is an error from then on.", (*suite).stopEndsPaths},
		{"contexts that have ended", "Register, Dial, Import and Close that are given an ended context either do their work or leave nothing behind.", (*suite).endedContexts},
		{"deregister with an ended context", "Deregister closes the region to peers even when its context has ended, soon if not at once.", (*suite).endedDeregister},
		{"deregister while peers read", "Once Deregister returned, no operation of a peer touches the memory, and peers' operations fail.", (*suite).deregisterUnderWay},
		{"a deadline in the past", "An operation whose deadline has passed fails with class transient-path, and moves nothing.", (*suite).deadlinePast},
		{"a frozen peer", "Deadlines hold, and Close returns, although the peer does not answer.", (*suite).frozenPeer},
		{"the peer stops", "Operations to a peer that stopped fail with a transient class.", (*suite).peerStops},
		{"content over each rail", "Each rail that is up moves bytes; Rails returns a slice of its own with stable IDs.", (*suite).rails},
		{"a rail that does not exist", "Submit refuses an operation for an unknown rail with class permanent.", (*suite).unknownRail},
		{"a device goes down and comes back", "Operations for a rail that is down fail with class transient-path; others go on, and the rail comes back by itself.", (*suite).railDown},
		{"a killed process", "When the transport's process dies, what is under way completes with an error once, and regions, paths and keys come back by themselves.", (*suite).killed},
		{"leaks of paths and regions", "Dial and Close, Register and Deregister leave nothing behind: goroutines, descriptors, mappings.", (*suite).leakRunning},
		{"leaks of starts and stops", "After Stop nothing is left of a transport: goroutines, descriptors, mappings.", (*suite).leakStopped},
		{"throughput", "No rule: how much it moves between two transports of this machine, as figures.", (*suite).throughput},
	}
}
