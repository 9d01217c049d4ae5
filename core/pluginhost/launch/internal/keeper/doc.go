// Package keeper makes the program that stands between a host and a plugin: a process of a
// few KiB that adopts what the plugin starts, and leaves nothing of it behind.
//
// A process group does not hold who leaves it (setsid), and a host that is killed cannot
// clean up. The keeper is a child subreaper: whatever below the plugin loses its parent
// becomes the keeper's child, in whichever session it is. The host cannot be that itself,
// because it may be somebody's program that loaded the core as a library, whose children
// and orphans are its own affair.
//
// The host may not have a program file of ours to start either, so the keeper's is made on
// the spot: its instructions are assembled into whatever links this package, are free of
// references to anything else there, and are copied behind the head of an ELF file.
//
// # What it does
//
// It starts the plugin in a process group of the plugin's own, says the plugin's number, and
// waits. When the plugin has ended it kills its group, then all that became its child, until
// it has none, and ends as the plugin did: with its status, or by its signal. The end is
// near as well when it gets SIGQUIT, which the host sends, and SIGTERM, which the kernel
// sends for a host that died: then the plugin has two seconds to leave by itself. Other
// signals it ignores. A plugin whose keeper was killed is killed by the kernel.
//
// It is no protection from a plugin that means to stay and kills its keeper first, which
// every process of the same user may.
package keeper
