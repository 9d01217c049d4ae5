// Package slotindex finds numbered entries by a hash of their keys, at 4.7 to 7 bytes an
// entry.
//
// A caller with millions of entries keeps them in flat arrays and identifies each by its number. An
// Index maps a key to that number. It holds only the numbers: it asks the caller to compare keys,
// and to hash them again when it grows. A slot of 32 bits holds the number and, above it, as many
// bits of the hash as fit. So it seldom asks the caller in vain: about once in 64 lookups at 16
// million entries.
//
// Slots are in buckets of one cache line. Nine lookups in ten touch one bucket. Adding and removing
// at a steady number of entries never rebuilds anything and does not allocate.
//
// Growing an Index takes time linear in its entries. A Split consists of many Indexes that grow
// independently, which keeps that time short.
//
// The package is for the authors of plugins and for the core. It imports the standard
// library only.
package slotindex
