// Package cluster runs the processes of a pool on this machine: one program, several
// roles, each a process of its own on loopback. The demo and the end-to-end tests use it.
//
// A process started here cannot outlive the one that started it, also when that one is
// killed with SIGKILL: the kernel ends the child with its parent (Linux PDEATHSIG).
package cluster
