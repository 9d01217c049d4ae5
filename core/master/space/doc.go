// Package space is the master's hold on the allocator: it keeps account of what objects occupy,
// gives extents back, holds those whose writer or reader may not be done yet, and tells a
// restarted allocator what is in use.
//
// The allocator may be a subprocess. So every call carries a batch, has a time limit, and
// is made without any lock but the gate.
//
// The gate: a goroutine that allocates and enters the result into the object table, or takes
// objects out of the table and frees them, does both between Enter and Leave. Replay and Mount
// wait until no goroutine is inside. Then the table, the quarantine and the segments together say
// exactly what is allocated. Do not wait for anything but the allocator while inside.
package space
