// Package datapath moves operations and completions between a host and a transport in a
// process of its own: the part of package wire that does not go through gRPC.
//
// Host and Path are the host's side, Areas and Pump the plugin's. Each path has one memory
// file with two rings (package shm): submissions, written by the host, and completions,
// written by the plugin. Both have as many entries as operations can be under way, so that
// neither can overflow.
//
// # What the host believes
//
// Nothing. What the plugin writes is copied once, and checked: a completion names a slot
// and its generation, both chosen by the host and kept in its own memory. Whatever cannot
// be right ends the process (HostOptions.Break), and so does silence. Until the process is
// known to be gone (Host.Ended) nothing that it may still touch is given back.
//
// # Memory without a descriptor
//
// It goes through the stage, a memory file that both sides map. The host picks the place of
// each piece. Either the plugin copies between there and the host's memory (WayVM), or the
// host does (WayStaging). All paths of a transport use one stage, and what completed has its
// place until it is reaped; so each path leaves as much free as it holds, and one that nobody
// reaps hinders no other. Half a dozen of them still can.
package datapath
