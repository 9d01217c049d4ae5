// Package datapath moves operations and completions between a host and a transport that runs in a
// process of its own. It is the part of the wire that does not use gRPC.
//
// Host and Path are the host's side, Pump and memwire.Areas the plugin's side. Each path has one memory
// file with two rings (package shm): the host writes submissions, and the plugin writes
// completions. Each ring has an entry for every operation that can be in flight, so neither can
// overflow.
//
// # What the host trusts
//
// The host trusts nothing that the plugin writes: it copies it once and checks the copy. A
// completion names a slot and its generation, both of which the host chose and keeps in its own
// memory. The host ends a process (HostOptions.Break) that writes anything invalid, or that is
// silent. It frees nothing that the process may still touch until it knows that the process is gone
// (Host.Ended).
//
// # Memory without a descriptor
//
// Such memory, called foreign, goes through the stage, a memory file that both sides map. The host
// divides an operation into chunks and picks an extent of the stage for each. Either the plugin
// copies between the stage and the host's memory (WayVM), or the host does (WayStaging). All paths
// of a transport share one stage, and a chunk keeps its extent until its completion is reaped. So
// each path leaves as much of the stage free as it holds, and a path whose completions are not
// reaped cannot starve another one. Half a dozen such paths still can.
package datapath
