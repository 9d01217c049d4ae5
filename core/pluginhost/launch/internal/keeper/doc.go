// Package keeper makes the program that stands between a host and a plugin: a process of a few
// KiB that adopts the plugin's orphaned descendants and kills them when the plugin ends.
//
// A process can leave its process group (setsid), and a host that is killed cannot clean up. The
// keeper is a child subreaper: a process below the plugin that loses its parent becomes the
// keeper's child, whatever its session. The host cannot be the subreaper itself, because it may
// be another program that loaded the core as a library and manages its own children and
// orphans.
//
// Such a host may not have a program file of ours to start, so the keeper's program is made at
// run time. Its instructions are assembled into every program that links this package. They
// reference nothing else there, and are copied behind the header of an ELF file.
//
// # What it does
//
// The keeper starts the plugin in a process group of the plugin's own, reports the plugin's
// number, and waits. When the plugin has ended, the keeper kills the plugin's group, then its own
// children until none is left, and ends as the plugin did: with the same status or by the same
// signal. It also ends the plugin on SIGQUIT, which the host sends, and on SIGTERM, which the
// kernel sends when the host has died: after SIGTERM the plugin has two seconds to exit on its
// own. The keeper ignores other signals. If the keeper is killed, the kernel kills the plugin.
//
// Before the plugin's process runs the plugin's program, it makes the system calls that the host prepared, by
// which it gives up rights: see package sandbox. The keeper itself keeps its rights.
//
// Without these the keeper does not protect from a malicious plugin, which can kill its keeper first, as any
// process of the same user can.
package keeper
