// Package space is the master's hold on the allocator: it keeps account of what objects
// occupy, gives extents back, holds those whose writer or reader may not be done yet, and
// teaches a restarted allocator what is in use.
//
// The allocator may be a subprocess. So every call carries a batch, has a time limit, and
// is made without any lock but the gate.
//
// The gate: whoever allocates and enters the result into the object table, or takes
// objects out of the table and frees them, does both between Enter and Leave. Replay and
// Mount wait until nobody is inside, and then table, quarantine and segments together say
// exactly what is allocated. Do not wait for anything but the allocator while inside.
package space
