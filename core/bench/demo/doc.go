// Package demo runs the main job on this machine: a master with an embedded metadata
// server, store nodes and inference workers, each a process of its own on loopback. The
// workers replay a conversation load against a pool smaller than its working set and
// verify every page they read.
//
// It starts processes and adds up what they report; what a worker does is
// core/bench/worker.
package demo
